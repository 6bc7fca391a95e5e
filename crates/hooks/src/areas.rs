//! The mappings in a guest that hold hooks, stubs and programs. The agent keeps the list of them, so that the next attach uses them again.
//! Used by `built`, `layers` and others here, and by crate `patch`.

use crate::limits::{MOST_HOOKS, USER_END};
use inject::records::{ReadRecords, Record, implausible};
use inject::remote_call::RemoteThread;
use process::error::{Error, Result};
use process::limits;
use process::maps::Maps;
use process::memory::GuestMemory;
use std::collections::BTreeMap;
use std::mem::offset_of;
use std::ops::Range;
use wire::calls::{AREAS, Area, Calls, Hook, area};

/// The smallest size of a new area in bytes. It doubles with each [`STEP`] areas that exist: the list has only [`AREAS`] places, and a
/// guest may be hooked in many small batches.
const LEAST: u64 = 64 * 1024;
const STEP: usize = 8;

/// A new island serves all code to come that is this near to the code that needs it.
const NEAR: u64 = 1 << 30;
/// Where no island could be mapped for some code, none is tried for other code this near to it.
const SAME: u64 = 1 << 24;

/// How far a jump with a 32-bit displacement reaches, with a page to spare.
const REACH: u64 = (1 << 31) - 4096;

/// Returns the list without implausible entries. The process can write to the list, so an entry that no session can have written counts as
/// free, and what it says is not used.
fn checked(mut all: Vec<Area>) -> Vec<Area> {
    let page = wire::PAGE as u64;
    for place in &mut all {
        let plausible = place.at.is_multiple_of(page)
            && place.size.is_multiple_of(page)
            && place.at < USER_END
            && place.size <= USER_END - place.at
            && place.used <= place.size
            && (area::STUBS..=area::PROGRAMS).contains(&place.holds);
        if !plausible {
            *place = NOTHING;
        }
    }
    all
}

/// A free place of the list.
const NOTHING: Area = Area {
    at: 0,
    size: 0,
    used: 0,
    holds: 0,
};

/// The list of areas as the command has read and checked it, kept while hooks may be set in the guest. Room that is given out must be noted
/// in the guest by [`Areas::write`] before code leads there; otherwise the next attach gives it out again.
#[derive(Clone, Debug)]
pub struct Areas {
    /// Address of the list in the guest.
    at: u64,
    all: Vec<Area>,
    /// Stubs of the batch that have no room yet: their size in bytes, by the address of the code they serve.
    stubs: BTreeMap<u64, u64>,
    /// Size in bytes of the batch's hooks that have no room yet.
    hooks: u64,
    /// The list as it was when the batch began.
    before: Vec<Area>,
    /// The list as it was when all records and stubs of the batch had their room.
    placed: Vec<Area>,
    /// The mappings of the process as they were before the stop of the batch; reading them may take longer than that stop may be.
    pub maps: Maps,
    /// Addresses of code for which no island could be mapped in this batch.
    crowded: Vec<u64>,
}

impl Areas {
    /// Reads the list of areas, which is a part of the agent's [`Calls`] at the address `calls`.
    pub fn read(memory: &GuestMemory, calls: u64) -> Result<Self> {
        let at = calls + offset_of!(Calls, areas) as u64;
        Ok(Areas {
            at,
            all: checked(memory.records(at, AREAS)?),
            stubs: BTreeMap::new(),
            hooks: 0,
            before: Vec::new(),
            placed: Vec::new(),
            maps: Maps::default(),
            crowded: Vec::new(),
        })
    }

    /// Begins a batch of `hooks` hooks; `stubs` are the address of the code and the size of each stub. New areas are made as large as the
    /// batch needs, so that many functions take few areas and no more memory than they use.
    pub fn begin(&mut self, stubs: impl Iterator<Item = (u64, u64)>, hooks: usize) {
        self.stubs = stubs.collect();
        self.hooks = (hooks * size_of::<Hook>()) as u64;
        self.before.clone_from(&self.all);
        self.crowded.clear();
    }

    /// Notes that all records and stubs of the batch have their room.
    pub fn are_placed(&mut self) {
        self.placed.clone_from(&self.all);
    }

    /// Keeps what was given out in the batch so far, even if the rest of the batch fails.
    pub fn keep(&mut self) {
        self.before.clone_from(&self.all);
        self.placed.clone_from(&self.all);
    }

    /// Takes back what was given out since [`Areas::are_placed`], because the batch is written once more. Areas mapped since then stay.
    pub fn again(&mut self) {
        let used = |at: u64| self.placed.iter().find(|area| area.at == at);
        for area in &mut self.all {
            area.used = used(area.at).map_or(0, |area| area.used);
        }
    }

    /// Takes back the room of a batch that failed before any code led to it. Areas that were mapped for it stay in the list, empty, and are
    /// returned.
    pub fn take_back(&mut self) -> Vec<Area> {
        let used = |at: u64| self.before.iter().find(|area| area.at == at);
        let mut made = Vec::new();
        for area in self.all.iter_mut().filter(|area| area.at != 0) {
            let before = used(area.at);
            area.used = before.map_or(0, |area| area.used);
            made.extend(before.is_none().then_some(*area));
        }
        made
    }

    /// Unmaps areas that [`Areas::take_back`] has returned. One that cannot be unmapped stays in the list for the next attach.
    pub fn unmap(&mut self, made: &[Area], remote: &mut RemoteThread, memory: &GuestMemory) {
        for area in made {
            if remote.unmap(area.at, area.size).is_ok()
                && let Some(place) = self.all.iter_mut().find(|one| one.at == area.at)
            {
                *place = NOTHING;
            }
        }
        // If the list cannot be written, the guest is gone.
        let _ = self.write(memory);
    }

    /// Whether an address is within room that is given out.
    pub fn is_given(&self, at: u64) -> bool {
        let mut all = self.all.iter();
        all.any(|area| (area.at..area.at + area.used).contains(&at))
    }

    /// The mappings in which stubs lie.
    pub fn stubs(&self) -> Vec<Range<u64>> {
        let stubs = self.all.iter().filter(|area| area.holds == area::STUBS);
        stubs.map(|area| area.at..area.at + area.size).collect()
    }

    /// Returns all hooks in the areas, each with its address.
    pub fn hooks(&self, memory: &GuestMemory) -> Result<Vec<(u64, Hook)>> {
        let size = size_of::<Hook>() as u64;
        let mut hooks = Vec::new();
        for area in self.all.iter().filter(|area| area.holds == area::HOOKS) {
            let count = (area.used / size) as usize;
            if hooks.len() + count > MOST_HOOKS {
                return Err(implausible(
                    memory.pid(),
                    area.at,
                    "more hooks are noted than can have been set",
                ));
            }
            let records: Vec<Hook> = memory.records(area.at, count)?;
            hooks.extend((area.at..).step_by(size as usize).zip(records));
        }
        Ok(hooks)
    }

    /// Makes the room of programs of earlier sessions free again.
    pub fn forget_programs(&mut self) {
        for area in &mut self.all {
            if area.holds == area::PROGRAMS {
                area.used = 0;
            }
        }
    }

    /// Finds room for `size` bytes in an existing area of the kind `holds`, within reach of `code` if that is given.
    pub fn room_there(&mut self, holds: u64, size: u64, code: Option<&Range<u64>>) -> Option<u64> {
        match (holds, code) {
            (area::STUBS, Some(code)) => drop(self.stubs.remove(&code.start)),
            (area::HOOKS, _) => self.hooks = self.hooks.saturating_sub(size),
            _ => {}
        }
        let reaches = |at: u64, end: u64| {
            code.is_none_or(|code| end.max(code.end) - at.min(code.start) < REACH)
        };
        let area = self.all.iter_mut().find(|area| {
            area.holds == holds
                && area.size - area.used >= size
                && reaches(area.at, area.at + area.size)
        })?;
        let at = area.at + area.used;
        area.used += size;
        Some(at)
    }

    /// Like [`room_there`](Self::room_there), but maps a new area if no existing one has room.
    pub fn room(
        &mut self,
        remote: &mut RemoteThread,
        holds: u64,
        size: u64,
        code: Option<Range<u64>>,
    ) -> Result<u64> {
        if let Some(at) = self.room_there(holds, size, code.as_ref()) {
            return Ok(at);
        }
        let pid = remote.pid();
        let free = self.all.iter().position(|area| area.at == 0);
        let Some(free) = free else {
            return Err(Error::NothingToBorrow {
                pid,
                reason: "its list of islands is full".into(),
            });
        };
        let coming = match (holds, &code) {
            (area::STUBS, Some(code)) => {
                let near = code.start.saturating_sub(NEAR)..code.start.saturating_add(NEAR);
                self.stubs.range(near).map(|(_, size)| size).sum()
            }
            (area::HOOKS, _) => self.hooks,
            _ => 0,
        };
        let least = LEAST << (free / STEP);
        let bytes = (size + coming).max(least);
        let bytes = bytes.next_multiple_of(wire::PAGE as u64);
        let mapped = match &code {
            None => remote.map(0, bytes, libc::PROT_READ, 0)?,
            Some(code) => self.island(remote, code, bytes)?,
        };
        self.all[free] = Area {
            at: mapped,
            size: bytes,
            used: 0,
            holds,
        };
        // The list is written at once, so that the next attach uses the area if this lancet is killed.
        self.write(&GuestMemory::open_briefly(pid)?)?;
        self.all[free].used = size;
        Ok(mapped)
    }

    /// Maps an island for `code`, unless that has failed in this batch for code near it.
    fn island(&mut self, remote: &mut RemoteThread, code: &Range<u64>, bytes: u64) -> Result<u64> {
        let pid = remote.pid();
        let none = || Error::NothingToBorrow {
            pid,
            reason: limits::forbids_mapping(pid, bytes).unwrap_or_else(|| {
                let at = code.start;
                format!("no free addresses within 2 GiB of its code at {at:#x}")
            }),
        };
        let mut crowded = self.crowded.iter();
        if crowded.any(|at| at.abs_diff(code.start) < SAME) {
            return Err(none());
        }
        // What has been mapped since these were read is not mapped over.
        let near = map_in_gap(remote, &self.maps, code.clone(), bytes)?;
        let near = match near {
            None => map_near(remote, code.clone(), bytes)?,
            near => near,
        };
        match near {
            Some(at) => Ok(at),
            None => {
                self.crowded.push(code.start);
                Err(none())
            }
        }
    }

    /// Writes the list into the guest. This must happen before code of the guest leads into room that was given out.
    pub fn write(&self, memory: &GuestMemory) -> Result<()> {
        let bytes: Vec<u8> = self.all.iter().flat_map(Record::to_bytes).collect();
        memory.write(self.at, &bytes)
    }
}

/// Maps memory for code from which a jump of five bytes reaches all of `code`, and back; `None` = there is no room in reach.
///
/// # Errors
/// The process cannot be read, or the remote call was not made.
pub fn map_near(remote: &mut RemoteThread, code: Range<u64>, bytes: u64) -> Result<Option<u64>> {
    map_in_gap(remote, &Maps::of(remote.pid())?, code, bytes)
}

fn map_in_gap(
    remote: &mut RemoteThread,
    maps: &Maps,
    code: Range<u64>,
    bytes: u64,
) -> Result<Option<u64>> {
    for gap in maps.gaps(code.clone(), bytes) {
        // The end of the gap that is nearer to the code, because what lies at the other end may grow into the gap.
        let at = if gap.start >= code.end {
            gap.start
        } else {
            gap.end - bytes
        };
        let flags = libc::MAP_FIXED_NOREPLACE;
        match remote.map(at, bytes, libc::PROT_READ | libc::PROT_EXEC, flags) {
            Ok(mapped) if mapped == at => return Ok(Some(at)),
            // A kernel before 4.17 takes the address for a hint and may map elsewhere.
            Ok(elsewhere) => {
                remote.unmap(elsewhere, bytes)?;
            }
            Err(Error::Remote { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_list_is_no_list() {
        let good = Area {
            at: 0x7000_0000_0000,
            size: 65536,
            used: 4096,
            holds: area::STUBS,
        };
        let same = |left: &Area, right: &Area| left.to_bytes() == right.to_bytes();
        assert!(same(&checked(vec![good])[0], &good));
        for bad in [
            Area { at: 5, ..good },
            Area { at: !4095, ..good },
            Area {
                size: !4095,
                ..good
            },
            Area {
                size: USER_END,
                ..good
            },
            Area {
                used: 65537,
                ..good
            },
            Area {
                used: u64::MAX,
                ..good
            },
            Area { holds: 99, ..good },
        ] {
            assert!(same(&checked(vec![bad])[0], &NOTHING), "{bad:?}");
        }
    }
}
