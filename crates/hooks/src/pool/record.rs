//! The agent's record of the pool, as it is in the memory of the process. Used by `pool` and `share`.

use crate::limits::{MOST_RING, USER_END};
use inject::resident::Resident;
use process::error::Result;
use process::memory::GuestMemory;
use std::mem::offset_of;
use wire::calls::{self, Calls, Ring};

/// The number of rings that a pool has room for.
pub const SLOTS: u64 = 256;

/// The address of what the agent has noted of the pool.
pub fn pool(resident: &Resident) -> u64 {
    resident.header.calls + offset_of!(Calls, pool) as u64
}

/// The agent's record of the pool. The process can write anything there, so the values are checked by
/// [`There::checked`] before anything is computed from them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct There {
    pub at: u64,
    pub slots: u64,
    pub slot: u64,
    pub used: u64,
}

impl There {
    /// There is no pool.
    const NONE: There = There {
        at: 0,
        slots: 0,
        slot: 0,
        used: 0,
    };

    /// Reads the record; [`There::NONE`] if no session can have written it.
    pub fn read(memory: &GuestMemory, resident: &Resident) -> Result<Self> {
        let word = |offset| memory.word(pool(resident) + offset as u64);
        let noted = There {
            at: word(offset_of!(calls::Pool, at))?,
            slots: word(offset_of!(calls::Pool, slots))?,
            slot: word(offset_of!(calls::Pool, slot))?,
            used: word(offset_of!(calls::Pool, used))?,
        };
        Ok(noted.checked().unwrap_or(There::NONE))
    }

    /// Returns the record if a session can have written it: whole pages, at most [`SLOTS`] rings of at most
    /// [`MOST_RING`] bytes, all of them at addresses of user space.
    fn checked(self) -> Option<Self> {
        let page = wire::PAGE as u64;
        let plausible = self.at.is_multiple_of(page)
            && self.slot.is_multiple_of(page)
            && (calls::slot(0)..=calls::slot(MOST_RING)).contains(&self.slot)
            && self.slots <= SLOTS
            && self.at < USER_END
            && self.slots * self.slot <= USER_END - self.at;
        plausible.then_some(There {
            used: self.used.min(self.slots),
            ..self
        })
    }

    pub fn in_use(&self) -> u64 {
        self.used * self.slot
    }

    pub fn bytes(&self) -> u64 {
        self.slots * self.slot
    }

    /// Returns the headers of the rings in use as the new file must have them, with the offset of each: they keep
    /// their positions, and their tables of counts and script lines are empty.
    pub fn rings(&self, memory: &GuestMemory) -> Result<Vec<(u64, Vec<u8>)>> {
        let slots = (0..self.used).map(|slot| slot * self.slot);
        slots
            .map(|offset| {
                let mut ring = vec![0; size_of::<Ring>()];
                memory.read_bytes(self.at + offset, &mut ring)?;
                let mut empty = |at: usize, bytes: usize| ring[at..at + bytes].fill(0);
                empty(offset_of!(Ring, counts), 8);
                empty(offset_of!(Ring, last_place), 4);
                Ok((offset, ring))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_says_of_its_pool_is_checked() {
        let slot = calls::slot(1 << 20);
        let good = There {
            at: 0x7000_0000_0000,
            slots: SLOTS,
            slot,
            used: 3,
        };
        assert_eq!(good.checked(), Some(good));
        assert_eq!(
            There {
                at: 0,
                slots: 0,
                ..good
            }
            .checked()
            .map(|there| there.bytes()),
            Some(0)
        );
        // More in use than there are.
        assert_eq!(
            There {
                used: u64::MAX,
                ..good
            }
            .checked()
            .unwrap()
            .used,
            SLOTS
        );
        for bad in [
            // The size would wrap to 0.
            There {
                slots: 1 << 52,
                ..good
            },
            There {
                slots: SLOTS + 1,
                ..good
            },
            There { slot: 0, ..good },
            There {
                slot: slot + 8,
                ..good
            },
            There {
                slot: 1 << 40,
                ..good
            },
            There {
                at: good.at + 1,
                ..good
            },
            There {
                at: USER_END,
                ..good
            },
            There {
                at: u64::MAX - 0xfff,
                ..good
            },
            There {
                at: USER_END - slot,
                ..good
            },
        ] {
            assert_eq!(bad.checked(), None, "{bad:?}");
        }
    }
}
