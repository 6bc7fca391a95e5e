//! The agents of a process, and which of them a command takes for itself. Used by the crates `hooks` and `enter`.
//!
//! Each command has an agent of its own, so several can have a process open at once without affecting each other's
//! configuration and counts. An unused agent is used again; a new one is mapped only if there is none. What agents share
//! is the code that they patch (`hooks::layers`).

use crate::image::Image;
use crate::records::ReadRecords;
use crate::remote_call::RemoteThread;
use crate::resident::{Claim, MOST_AGENTS, Resident};
use process::error::{Error, Result};
use process::maps::Maps;
use process::memory::GuestMemory;
use std::mem::offset_of;
use wire::{ControlPage, State};

/// Limit of commands that may have one process open at a time.
const MOST_COMMANDS: usize = MOST_AGENTS / 2;

/// An agent that no command used when it was read.
#[derive(Clone, Copy, Debug)]
pub struct Unused {
    /// Where it is in the process.
    pub resident: Resident,
    /// Whether it is of our own build.
    pub mine: bool,
    /// Whether its command was killed, or could not remove everything.
    pub deserted: bool,
    claim: Option<Claim>,
}

impl Unused {
    /// Whether no command has claimed it since; asked in a stop.
    pub fn is_unused_still(&self, memory: &GuestMemory) -> bool {
        let whole = memory.record::<wire::Header>(self.resident.base);
        let same = whole.is_ok_and(|header| header.whole == self.resident.header.whole);
        same && match self.claim {
            Some(claim) => self.resident.claim_of(memory).ok() == Some(claim),
            None => true,
        }
    }
}

/// The agents of one process that were unused when they were read, and the one that this command has taken.
#[derive(Debug)]
pub struct Residents {
    unused: Vec<Unused>,
    /// The agent that was mapped for us, if none was found.
    placed: Option<Resident>,
}

impl Residents {
    /// For a process that has just begun, which has no agent.
    pub fn none() -> Self {
        Residents {
            unused: Vec::new(),
            placed: None,
        }
    }

    /// Reads all agents of a process while it runs.
    ///
    /// # Errors
    /// [`Error::Occupied`] if an agent of another version is in use, because only that version knows the layout of its
    /// hooks, or if too many commands have the process open.
    pub fn read(memory: &GuestMemory, maps: &Maps, image: &Image) -> Result<Self> {
        let pid = memory.pid();
        let occupied = |owner| Err(Error::Occupied { pid, owner });
        let mut residents = Vec::new();
        for found in Resident::all(memory, maps) {
            let mine = image.is_mine(&found.header);
            let version = found.header.version;
            if version != wire::VERSION {
                if found.header.whole != 0 && found.state(memory)? != State::Quiet {
                    return occupied(format!(
                        " of another version (layout {version}; if that was killed, open and leave the process with it once)"
                    ));
                }
                continue;
            }
            // The positions of its parts follow from the file; what the process may have written there is not used.
            let whole = found.header.whole != 0;
            let header = if mine {
                image.header(found.base, whole)
            } else {
                found.header
            };
            residents.push(Resident { header, ..found });
        }
        // Claims are read first: one that another command makes meanwhile is then either seen as an owner's, or differs from what is
        // compared in the stop.
        let claim = |one: &Resident| match one.header.whole {
            0 => Ok(None),
            _ => one.claim_of(memory).map(Some),
        };
        let claims: Vec<Option<Claim>> = residents.iter().map(claim).collect::<Result<_>>()?;
        let owned = Resident::owners(&residents, memory)?;
        let owners = owned.iter().flatten().count();
        let all = residents.into_iter().zip(claims).zip(owned);
        let unowned = all.filter(|(_, owner)| owner.is_none());
        let unused = unowned.map(|((resident, claim), _)| Unused {
            resident,
            mine: image.is_mine(&resident.header),
            deserted: claim.is_some_and(|claim| claim.is_open()),
            claim,
        });
        let unused = unused.collect();
        if owners >= MOST_COMMANDS {
            return occupied(format!(", by {owners} of them"));
        }
        Ok(Residents {
            unused,
            placed: None,
        })
    }

    /// Returns the unused and complete agents of all builds.
    pub fn unused(&self) -> impl Iterator<Item = &Unused> {
        self.unused.iter().filter(|unused| unused.claim.is_some())
    }

    /// Takes an agent for us, in a stop of the main thread, in which no other command can take one: an unused one of our
    /// build, or a new one. It is not claimed yet, and further calls return the same one. An agent whose hook on births
    /// or collections is still in the VM, because its command was killed, is only for a command that can `unhook` it.
    pub fn take(
        &mut self,
        remote: &mut RemoteThread,
        memory: &GuestMemory,
        image: &Image,
        unhook: bool,
    ) -> Result<(Resident, bool)> {
        if let Some(placed) = self.placed {
            return Ok((placed, false));
        }
        for unused in self.unused.iter().filter(|unused| unused.mine) {
            if !unused.is_unused_still(memory) {
                continue;
            }
            let hooked = || {
                let hooked = offset_of!(ControlPage, hooked);
                unused.resident.control_page_u32(memory, hooked)
            };
            if unused.claim.is_some() && !unhook && hooked()? != 0 {
                continue;
            }
            let placed = Resident::place(Some(unused.resident), remote, memory, image)?;
            self.placed = Some(placed);
            return Ok((placed, unused.deserted));
        }
        let placed = Resident::place(None, remote, memory, image)?;
        self.placed = Some(placed);
        Ok((placed, false))
    }
}
