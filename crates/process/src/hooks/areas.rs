//! The mappings in a guest that hold hooks, stubs and programs; noted in the agent, so that the next attach
//! uses them again.

use crate::borrow::Borrowed;
use crate::error::{Error, Result};
use crate::maps::Maps;
use crate::memory::GuestMemory;
use std::mem::offset_of;
use std::ops::Range;
use wire::calls::{AREAS, Area, Calls, Hook, area};

/// A new area is at least so large.
const LEAST: u64 = 64 * 1024;

/// How far a jump with a 32-bit displacement reaches, with a page to spare.
const REACH: u64 = (1 << 31) - 4096;

/// See the module's text.
#[derive(Clone, Debug)]
pub struct Areas {
    /// Where the list is, in the guest.
    at: u64,
    all: Vec<Area>,
}

impl Areas {
    /// Reads the list.
    pub fn read(memory: &GuestMemory, calls: u64) -> Result<Self> {
        let at = calls + offset_of!(Calls, areas) as u64;
        Ok(Areas {
            at,
            all: memory.records(at, AREAS)?,
        })
    }

    /// The hooks there are, each with its address.
    pub fn hooks(&self, memory: &GuestMemory) -> Result<Vec<(u64, Hook)>> {
        let size = size_of::<Hook>() as u64;
        let mut hooks = Vec::new();
        for area in self.all.iter().filter(|area| area.holds == area::HOOKS) {
            let records: Vec<Hook> = memory.records(area.at, (area.used / size) as usize)?;
            hooks.extend((area.at..).step_by(size as usize).zip(records));
        }
        Ok(hooks)
    }

    /// Programs of earlier sessions are forgotten.
    pub fn forget_programs(&mut self) {
        for area in &mut self.all {
            if area.holds == area::PROGRAMS {
                area.used = 0;
            }
        }
    }

    /// Room for `size` bytes, in reach of `code` if that is given; mapped if there is none.
    pub fn room(
        &mut self,
        borrowed: &mut Borrowed,
        holds: u64,
        size: u64,
        code: Option<Range<u64>>,
    ) -> Result<u64> {
        let reaches = |at: u64, end: u64| {
            code.as_ref()
                .is_none_or(|code| end.max(code.end) - at.min(code.start) < REACH)
        };
        let fitting = self.all.iter_mut().find(|area| {
            area.holds == holds
                && area.size - area.used >= size
                && reaches(area.at, area.at + area.size)
        });
        if let Some(area) = fitting {
            let at = area.at + area.used;
            area.used += size;
            return Ok(at);
        }
        let pid = borrowed.pid();
        let bytes = size.max(LEAST).next_multiple_of(wire::PAGE as u64);
        let mapped = match &code {
            None => borrowed.map(0, bytes, libc::PROT_READ, 0)?,
            Some(code) => map_near(borrowed, pid, code.clone(), bytes)?,
        };
        let Some(area) = self.all.iter_mut().find(|area| area.at == 0) else {
            return Err(Error::NothingToBorrow {
                pid,
                reason: "its list of islands is full".into(),
            });
        };
        *area = Area {
            at: mapped,
            size: bytes,
            used: size,
            holds,
        };
        Ok(mapped)
    }

    /// Notes in the guest what is used; before anything of the guest's leads there.
    pub fn write(&self, memory: &GuestMemory) -> Result<()> {
        use crate::memory::Record;
        let bytes: Vec<u8> = self.all.iter().flat_map(Record::to_bytes).collect();
        memory.write(self.at, &bytes)
    }
}

/// Maps an island of stubs.
fn map_near(borrowed: &mut Borrowed, pid: i32, code: Range<u64>, bytes: u64) -> Result<u64> {
    let maps = Maps::of(pid)?;
    for gap in maps.gaps(code.clone(), bytes) {
        // The end that is nearer to the code, away from what may grow into the gap.
        let at = match gap.start >= code.end {
            true => gap.start,
            false => gap.end - bytes,
        };
        let flags = libc::MAP_FIXED_NOREPLACE;
        match borrowed.map(at, bytes, libc::PROT_READ | libc::PROT_EXEC, flags) {
            Ok(mapped) if mapped == at => return Ok(at),
            // A kernel before 4.17 takes the flag for a hint.
            Ok(elsewhere) => {
                borrowed.unmap(elsewhere, bytes)?;
            }
            Err(Error::Remote { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Err(Error::NothingToBorrow {
        pid,
        reason: format!(
            "no free addresses within 2 GiB of its code at {:#x}",
            code.start
        ),
    })
}
