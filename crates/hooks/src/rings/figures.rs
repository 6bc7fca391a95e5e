//! Counts of calls and losses, which the agent keeps beside the rings.

use super::{Counted, Losses, Rings};
use process::error::Result;
use std::mem::offset_of;
use wire::calls::{self, Calls, Ring};

impl Rings {
    /// The calls that were counted in this session so far.
    pub fn counted(&self) -> Result<Vec<Counted>> {
        let mut all = Vec::new();
        for ring in self.known.iter().filter(|ring| ring.there) {
            let table = self
                .backing
                .word(ring.address + offset_of!(Ring, counts) as u64)?;
            let session = self
                .backing
                .half(ring.address + offset_of!(Ring, session) as u64)?;
            if table == 0 || session != self.session {
                continue;
            }
            let counts: Vec<calls::Count> = self.backing.records(table, calls::COUNTS)?;
            let counts = counts.into_iter().enumerate();
            all.extend(
                counts
                    .filter(|(_, count)| count.key != 0)
                    .map(|(row, count)| {
                        let open = self.open.get(&(ring.address, row as u64));
                        let over = [count.returned, count.moved, open.copied().unwrap_or(0)];
                        let over = over.into_iter().fold(0, u64::saturating_add);
                        Counted {
                            hook: (count.key as u32).wrapping_sub(1),
                            place: ring.places.get(&((count.key >> 32) as u32)).copied(),
                            returned: count.returned,
                            left: count.begun.saturating_sub(over),
                            total: count.total,
                            longest: count.longest,
                            buckets: count.buckets.to_vec(),
                        }
                    }),
            );
        }
        Ok(all)
    }

    /// Notes calls that are open, by address of the ring and row of its table: they are not counted.
    pub(crate) fn note_open(&mut self, open: &[(u64, u64)]) {
        for call in open {
            *self.open.entry(*call).or_default() += 1;
        }
    }

    /// [`Calls::panics`] now.
    pub(super) fn panics(&self) -> Result<u64> {
        self.backing
            .word(self.calls + offset_of!(Calls, panics) as u64)
    }

    /// What was lost in this session so far.
    pub fn losses(&self) -> Result<Losses> {
        let mut losses = Losses {
            without_ring: self
                .without_ring
                .wrapping_sub(self.lost_before.without_ring),
            panics: self.panics()?.wrapping_sub(self.lost_before.panics),
            ..Losses::default()
        };
        for at in 0..self.known.len() {
            let ring = &self.known[at];
            if !ring.there {
                continue;
            }
            let lost = self.written(at)?.1.wrapping_sub(ring.lost_before);
            losses.records = losses
                .records
                .saturating_add(lost)
                .saturating_add(ring.abandoned);
            if self
                .backing
                .half(ring.address + offset_of!(Ring, session) as u64)?
                != self.session
            {
                continue;
            }
            losses.uncounted = losses.uncounted.saturating_add(u64::from(
                self.backing
                    .half(ring.address + offset_of!(Ring, uncounted) as u64)?,
            ));
        }
        Ok(losses)
    }
}
