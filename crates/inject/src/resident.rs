//! An agent in a guest: mapped once, found again at later attaches. Which agent a command uses is decided in [`crate::residents`].
//! Used by `residents`, `agents` and others here, and by the crates `hooks`, `enter`, `births` and `patch`.
//!
//! The mapping is anonymous and private, so it has no name that could be unlinked and no descriptor that the guest could run out
//! of. It is never unmapped, because a guest thread may still have a frame in it hours after lancet has left.

use crate::image::Image;
use crate::records::{ReadRecords, Record};
use crate::remote_call::RemoteThread;
use process::error::Result;
use process::guest::{Status, pid_namespace};
use process::maps::Maps;
use process::memory::GuestMemory;
use std::mem::offset_of;
use std::thread::sleep;
use std::time::{Duration, Instant};
use wire::{Config, ControlPage, Header, Request, State};

/// A living command changes its heartbeat within this time.
const BEAT_CHECK: Duration = Duration::from_millis(1200);

/// The command that uses an agent, or used it last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    state: u32,
    pid: u64,
    start: u64,
    namespace: u64,
}

impl Claim {
    /// Whether the command uses the agent, or was killed while it did.
    pub fn is_open(&self) -> bool {
        self.state == State::Open as u32
    }
}

/// Where the agent is in one guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resident {
    /// First address of the agent's mapping in the guest.
    pub base: u64,
    /// The header at the start of the mapping: as it was read there, or for our own build as the image says.
    pub header: Header,
}

impl Resident {
    /// A placeholder before there is an agent: none of its addresses may be used.
    pub fn nowhere() -> Self {
        Resident {
            base: 0,
            header: Header {
                magic: [0; 8],
                version: 0,
                whole: 0,
                build: 0,
                size: 0,
                control_page: 0,
                config: 0,
                ledger: 0,
                script: 0,
                enter: 0,
                calls: 0,
                open_calls: 0,
                routines: [0; wire::ROUTINES],
                works: 0,
                snapshot: 0,
            },
        }
    }

    /// Returns the agents in a process, of any build and version, by their headers. Of another version only the first words of the
    /// header and of the control page may be used, which are the same in all. A process can write headers itself, so at most 32
    /// are read.
    pub fn all<'m>(memory: &'m GuestMemory, maps: &'m Maps) -> impl Iterator<Item = Self> + 'm {
        maps.iter()
            .filter(|mapping| {
                let p = mapping.permissions;
                p.read && !p.write && !p.execute && !mapping.is_file()
            })
            // The kernel may have merged the mapping with a read-only neighbour below.
            .flat_map(|mapping| (mapping.start..mapping.end).step_by(wire::PAGE))
            .take(wire::HEADER_PAGES)
            .filter_map(|base| Self::at(memory, base))
            .take(MOST_AGENTS)
    }

    /// Returns the agent at this address, if one is there by its header.
    pub(crate) fn at(memory: &GuestMemory, base: u64) -> Option<Self> {
        let header: Header = memory.record(base).ok()?;
        (header.magic == wire::MAGIC).then_some(Resident { base, header })
    }

    /// Maps the agent, or writes it again if lancet died while it wrote it.
    pub fn place(
        found: Option<Self>,
        remote: &mut RemoteThread,
        memory: &GuestMemory,
        image: &Image,
    ) -> Result<Self> {
        let base = match found {
            Some(resident) if resident.header.whole != 0 => return Ok(resident),
            Some(unfinished) => unfinished.base,
            None => remote.map(0, image.size(), libc::PROT_READ, 0)?,
        };
        let placed = Self::fill(base, remote, memory, image);
        if placed.is_err() && found.is_none() {
            // Otherwise later attaches would not find the mapping.
            let _ = remote.unmap(base, image.size());
        }
        placed
    }

    fn fill(
        base: u64,
        remote: &mut RemoteThread,
        memory: &GuestMemory,
        image: &Image,
    ) -> Result<Self> {
        // The order matters: from the first write on, later attaches find the mapping.
        memory.write(base, &image.header(base, false).to_bytes())?;
        for part in image.parts() {
            remote.map(
                base + part.range.start,
                part.range.end - part.range.start,
                part.protection,
                libc::MAP_FIXED,
            )?;
        }
        memory.write(base + crate::image::OFFSET, &image.relocated(base))?;
        remote.syscall(
            "madvise(MADV_WIPEONFORK)",
            libc::SYS_madvise,
            [
                base + image.control_page(),
                wire::PAGE as u64,
                libc::MADV_WIPEONFORK as u64,
                0,
                0,
                0,
            ],
        )?;
        let header = image.header(base, true);
        memory.write(base, &header.to_bytes())?;
        Ok(Resident { base, header })
    }

    /// Whether it is whole and has the layout of this build, so that all of it can be read.
    pub fn is_readable(&self) -> bool {
        self.header.whole != 0 && self.header.version == wire::VERSION
    }

    /// Returns the living command that uses the agent; see [`Resident::owners`].
    pub fn owner(&self, memory: &GuestMemory) -> Result<Option<String>> {
        Ok(Self::owners(std::slice::from_ref(self), memory)?.remove(0))
    }

    /// Returns for each of these agents of one process the living command that uses it, as a message names it. A command in
    /// another PID namespace is recognised by its heartbeat, which takes up to 1.2 s for all of them together, because a process
    /// may have any number of headers that only look like an agent's.
    pub fn owners(all: &[Resident], memory: &GuestMemory) -> Result<Vec<Option<String>>> {
        let heartbeat =
            |one: &Resident| one.control_page_u64(memory, offset_of!(ControlPage, heartbeat));
        let mut owners = vec![None; all.len()];
        let mut unknown = Vec::new();
        for (at, one) in all.iter().enumerate() {
            if one.header.whole == 0 || one.state(memory)? == State::Quiet {
                continue;
            }
            let claim = one.claim_of(memory)?;
            if claim.namespace == pid_namespace(std::process::id() as i32) {
                let owner = claim.pid as i32;
                let lives = match Status::read(owner) {
                    Ok(status) => status.start == claim.start && !status.has_ended(),
                    Err(error) if error.is_end() => false,
                    Err(error) => return Err(error),
                };
                owners[at] = lives.then(|| format!("process {owner}"));
            } else {
                // The id means nothing in our namespace, so its heartbeat is observed instead.
                unknown.push((at, heartbeat(one)?));
            }
        }
        let deadline = Instant::now() + BEAT_CHECK;
        while !unknown.is_empty() && Instant::now() < deadline {
            sleep(Duration::from_millis(20));
            let mut still = Vec::new();
            for (at, beat) in unknown {
                if heartbeat(&all[at])? == beat {
                    still.push((at, beat));
                } else {
                    owners[at] = Some("a process in another PID namespace".into());
                }
            }
            unknown = still;
        }
        Ok(owners)
    }

    /// Returns what distinguishes one use of the agent from the next.
    pub(crate) fn claim_of(&self, memory: &GuestMemory) -> Result<Claim> {
        let word = |offset| self.control_page_u64(memory, offset);
        Ok(Claim {
            state: self.control_page_u32(memory, offset_of!(ControlPage, state))?,
            pid: word(offset_of!(ControlPage, owner_pid))?,
            start: word(offset_of!(ControlPage, owner_start))?,
            namespace: word(offset_of!(ControlPage, owner_namespace))?,
        })
    }

    /// Whether a command has claimed the agent; that command may be dead.
    pub fn state(&self, memory: &GuestMemory) -> Result<State> {
        let state = memory.half(
            self.header
                .control_page
                .wrapping_add(offset_of!(ControlPage, state) as u64),
        )?;
        Ok(if state == State::Open as u32 {
            State::Open
        } else {
            State::Quiet
        })
    }

    /// Reads the 64-bit field of the control page at `offset`, a field's offset in [`ControlPage`].
    pub fn control_page_u64(&self, memory: &GuestMemory, offset: usize) -> Result<u64> {
        memory.word(self.header.control_page.wrapping_add(offset as u64))
    }

    /// Reads the 32-bit field of the control page at `offset`.
    pub fn control_page_u32(&self, memory: &GuestMemory, offset: usize) -> Result<u32> {
        memory.half(self.header.control_page.wrapping_add(offset as u64))
    }

    /// Sets a field of the control page.
    pub fn write_control_page<T: Record>(
        &self,
        memory: &GuestMemory,
        offset: usize,
        value: T,
    ) -> Result<()> {
        memory.write(
            self.header.control_page.wrapping_add(offset as u64),
            &value.to_bytes(),
        )
    }

    /// Writes a request that a thread with the VM's lock carries out. It is done when the agent is entered.
    pub fn request(&self, memory: &GuestMemory, request: Request, argument: u64) -> Result<()> {
        let asked = self
            .control_page_u32(memory, offset_of!(ControlPage, asked))?
            .wrapping_add(1)
            .max(1);
        self.write_control_page(memory, offset_of!(ControlPage, request), request as u32)?;
        self.write_control_page(memory, offset_of!(ControlPage, argument), argument)?;
        self.write_control_page(memory, offset_of!(ControlPage, asked), asked)
    }

    /// Whether the last request was carried out.
    pub fn has_answered(&self, memory: &GuestMemory) -> Result<bool> {
        let half = |offset| self.control_page_u32(memory, offset);
        Ok(half(offset_of!(ControlPage, answered))? == half(offset_of!(ControlPage, asked))?)
    }

    /// Number of the request that a thread of the guest carries out, 0 while none does. The command that asked may be gone.
    pub fn at_work(&self, memory: &GuestMemory) -> Result<u32> {
        self.control_page_u32(memory, offset_of!(ControlPage, at_work))
    }

    /// Claims the agent for this command, with its configuration. What an earlier command has asked for and nobody has begun is not done
    /// any more: its words are about to be written anew.
    pub fn claim(&self, memory: &GuestMemory, config: &Config) -> Result<()> {
        let us = Status::read(std::process::id() as i32)?;
        let asked = self.control_page_u32(memory, offset_of!(ControlPage, asked))?;
        self.write_control_page(memory, offset_of!(ControlPage, answered), asked)?;
        memory.write(self.header.config, &config.to_bytes())?;
        self.write_control_page(memory, offset_of!(ControlPage, owner_pid), us.pid as u64)?;
        self.write_control_page(memory, offset_of!(ControlPage, owner_start), us.start)?;
        self.write_control_page(
            memory,
            offset_of!(ControlPage, owner_namespace),
            pid_namespace(us.pid),
        )?;
        self.write_control_page(memory, offset_of!(ControlPage, deserted), 0u32)?;
        self.write_control_page(memory, offset_of!(ControlPage, ended), 0u32)?;
        self.write_control_page(memory, offset_of!(ControlPage, calls), 0u32)?;
        self.write_control_page(memory, offset_of!(ControlPage, state), State::Open as u32)
    }
}

/// Limit of agents that are read in a process.
pub(crate) const MOST_AGENTS: usize = 32;

impl RemoteThread<'_> {
    /// Makes the thread unmap `size` bytes at `at` (munmap(2)); both are whole pages.
    pub fn unmap(&mut self, at: u64, size: u64) -> Result<()> {
        self.syscall("munmap", libc::SYS_munmap, [at, size, 0, 0, 0, 0])
            .map(drop)
    }

    /// Makes the thread move the mapping of `size` bytes at `from` to `to` (mremap(2)), where it replaces whatever is mapped.
    pub fn move_to(&mut self, from: u64, size: u64, to: u64) -> Result<()> {
        let how = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) as u64;
        self.syscall("mremap", libc::SYS_mremap, [from, size, size, how, to, 0])
            .map(drop)
    }

    /// Makes the thread map `size` bytes of private anonymous memory (mmap(2)), at `at` or, with 0, anywhere, and returns the
    /// address. `protection` has bits of `PROT_*`; `flags` are added to `MAP_PRIVATE | MAP_ANONYMOUS`.
    pub fn map(&mut self, at: u64, size: u64, protection: i32, flags: i32) -> Result<u64> {
        let flags = flags | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        self.syscall(
            "mmap",
            libc::SYS_mmap,
            [at, size, protection as u64, flags as u64, u64::MAX, 0],
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// A process may write any number of headers, each claimed by a command that nobody can ask after.
    #[test]
    fn all_heartbeats_are_listened_for_at_once() {
        const ALL: u64 = 8;
        let path = std::env::temp_dir().join(format!("lancet-resident-{}", std::process::id()));
        let mut file = std::fs::File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)
            .expect("made");
        file.write_all(&vec![0; (ALL as usize + 1) * wire::PAGE])
            .expect("written");
        std::fs::remove_file(&path).expect("removed");
        let memory = GuestMemory::image(file);
        let residents: Vec<Resident> = (0..ALL)
            .map(|at| {
                let page = at * wire::PAGE as u64;
                let header = Header {
                    whole: 1,
                    control_page: page,
                    ..Header::from_bytes(&[0; size_of::<Header>()])
                };
                let resident = Resident { base: page, header };
                let write = |offset, value: u64| {
                    resident
                        .write_control_page(&memory, offset, value)
                        .expect("written");
                };
                write(offset_of!(ControlPage, owner_namespace), 1);
                let state = offset_of!(ControlPage, state);
                resident
                    .write_control_page(&memory, state, State::Open as u32)
                    .expect("written");
                resident
            })
            .collect();
        let began = Instant::now();
        let owners = Resident::owners(&residents, &memory).expect("read");
        assert_eq!(owners, vec![None; ALL as usize]);
        assert!(began.elapsed() >= BEAT_CHECK);
        assert!(began.elapsed() < BEAT_CHECK * 4, "{:?}", began.elapsed());
    }
}
