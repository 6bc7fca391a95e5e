//! What lanes have counted, and what they have lost.

use super::{Counted, Lanes, Losses};
use crate::error::Result;
use std::mem::offset_of;
use wire::calls::{self, Lane};

impl Lanes {
    /// What has been counted so far.
    pub fn counted(&self) -> Result<Vec<Counted>> {
        let mut all = Vec::new();
        for lane in self.known.iter().filter(|lane| lane.there) {
            let table = self
                .place
                .word(lane.address + offset_of!(Lane, counts) as u64)?;
            let session = self
                .place
                .half(lane.address + offset_of!(Lane, session) as u64)?;
            if table == 0 || session != self.session {
                continue;
            }
            let counts: Vec<calls::Count> = self.place.records(table, calls::COUNTS)?;
            all.extend(
                counts
                    .into_iter()
                    .filter(|count| count.key != 0)
                    .map(|count| Counted {
                        hook: (count.key as u32).wrapping_sub(1),
                        place: lane.places.get(&((count.key >> 32) as u32)).copied(),
                        figures: [count.calls, count.total, count.longest, count.shortest],
                        buckets: count.buckets.to_vec(),
                    }),
            );
        }
        Ok(all)
    }

    /// What got lost so far.
    pub fn losses(&self) -> Result<Losses> {
        let mut losses = Losses {
            unlaned: self.unlaned.wrapping_sub(self.lost_before.unlaned),
            ..Losses::default()
        };
        for at in 0..self.known.len() {
            let lane = &self.known[at];
            if !lane.there {
                continue;
            }
            losses.records += self.written(at)?.1.wrapping_sub(lane.lost_before) + lane.abandoned;
            if self
                .place
                .half(lane.address + offset_of!(Lane, session) as u64)?
                != self.session
            {
                continue;
            }
            losses.uncounted += u64::from(
                self.place
                    .half(lane.address + offset_of!(Lane, uncounted) as u64)?,
            );
        }
        Ok(losses)
    }
}
