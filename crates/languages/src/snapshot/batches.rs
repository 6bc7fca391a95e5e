//! The sections of a stream, read by one thread and made something of by another, a few hundred at a time.
//!
//! The thread that has opened the process reads, because it alone lets a thread go that stands still late (`process::stop`). The other
//! reads names in the copy's memory and keeps objects, which takes longer: with two, the copy is ended sooner.

use crate::snapshot::stream::{Bad, Reader, Said};
use std::io::Read;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

/// Sections of a batch, and references from which on it is not filled up.
const SECTIONS: usize = 512;
const REFERENCES: usize = 1 << 12;
/// Batches that the reader may be ahead.
const AHEAD: usize = 16;

/// Sections in a row, each with where its references end.
#[derive(Debug, Default)]
pub struct Batch {
    sections: Vec<(Said, usize)>,
    references: Vec<u64>,
}

impl Batch {
    /// Calls `take` with each section and its references, in their order, until it returns something.
    pub fn each<T>(&self, mut take: impl FnMut(&Said, &[u64]) -> Option<T>) -> Option<T> {
        let mut begin = 0;
        for (said, end) in &self.sections {
            let taken = take(said, &self.references[begin..*end]);
            if taken.is_some() {
                return taken;
            }
            begin = *end;
        }
        None
    }

    /// Fills it with the next sections; whether the last one was among them.
    fn fill<R: Read>(&mut self, stream: &mut Reader<R>) -> Result<bool, Bad> {
        self.sections.clear();
        if self.references.capacity() > REFERENCES * 16 {
            // One object had as many, and no other batch needs so much.
            self.references = Vec::new();
        }
        self.references.clear();
        while self.sections.len() < SECTIONS && self.references.len() < REFERENCES {
            let said = stream.next()?;
            let is_end = matches!(said, Said::End { .. });
            if matches!(said, Said::Object(_)) {
                self.references.extend_from_slice(stream.references());
            }
            self.sections.push((said, self.references.len()));
            if is_end {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Returns the two ends of a channel: one reads batches, the other takes them.
pub fn pair() -> (Giver, Taker) {
    let (give, take) = sync_channel(AHEAD);
    let (back, again) = channel();
    (Giver { give, again }, Taker { take, back })
}

/// The reading end of a pair.
pub struct Giver {
    give: SyncSender<Result<Batch, Bad>>,
    again: Receiver<Batch>,
}

impl Giver {
    /// Reads everything, for as long as somebody takes it.
    pub fn read<R: Read>(self, mut stream: Reader<R>) {
        loop {
            let mut batch = self.again.try_recv().unwrap_or_default();
            let filled = batch.fill(&mut stream);
            let is_end = !matches!(filled, Ok(false));
            // What was read before something that makes no sense is of no use.
            if self.give.send(filled.map(|_| batch)).is_err() || is_end {
                return;
            }
        }
    }
}

/// The end of a pair that takes the batches and hands them back.
pub struct Taker {
    take: Receiver<Result<Batch, Bad>>,
    back: Sender<Batch>,
}

impl Taker {
    /// The next batch; `None` = the reading end is gone, which it is behind the last one.
    ///
    /// # Errors
    /// The stream cannot be read on.
    pub fn next(&self) -> Option<Result<Batch, Bad>> {
        self.take.recv().ok()
    }

    /// Gives a batch back, so that its memory is used again.
    pub fn give_back(&self, batch: Batch) {
        // Nobody needs it any more when the stream has come to its end.
        let _ = self.back.send(batch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;
    use wire::snapshot::stream;

    /// A root, and so many objects that refer to themselves and to the next one.
    fn heap(objects: u16) -> Vec<u8> {
        let mut bytes = vec![stream::ROOT, 0x80, 0x20, stream::PAGE, 0x80, 0x20, 40];
        for _ in 0..objects {
            bytes.extend([stream::OBJECT, 0, 5, 0, 41, 2, 12, 0]);
        }
        bytes.push(stream::END);
        varint(&mut bytes, objects.into());
        varint(&mut bytes, u32::from(objects) * 2);
        bytes.push(1);
        bytes
    }

    fn varint(bytes: &mut Vec<u8>, mut number: u32) {
        while number >= 0x80 {
            bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        bytes.push(number as u8);
    }

    /// The sections that are taken, at most so many, and whether the last one is among them.
    fn taken(bytes: &[u8], most: usize) -> (Vec<(Said, Vec<u64>)>, bool) {
        let (give, take) = pair();
        thread::scope(|scope| {
            let taking = scope.spawn(move || {
                let (mut all, mut is_whole) = (Vec::new(), false);
                while let Some(Ok(batch)) = take.next()
                    && all.len() < most
                {
                    batch.each(|said, references| {
                        is_whole |= matches!(said, Said::End { .. });
                        let references = match said {
                            Said::Object(_) => references.to_vec(),
                            _ => Vec::new(),
                        };
                        all.push((said.clone(), references));
                        None::<()>
                    });
                    take.give_back(batch);
                }
                (all, is_whole)
            });
            give.read(Reader::new(bytes, u64::MAX));
            taking.join().expect("no panic")
        })
    }

    #[test]
    fn sections_come_whole_and_in_their_order() {
        let bytes = heap(20_000);
        let (all, is_whole) = taken(&bytes, usize::MAX);
        assert!(is_whole);
        assert_eq!(all.len(), 20_002);
        assert_eq!(all[0].0, Said::Root(0x1000));
        for (number, (said, references)) in (0..).zip(&all[1..20_001]) {
            let address = 0x1000 + number * 40;
            assert!(matches!(said, Said::Object(object) if object.address == address));
            assert_eq!(*references, [address, address + 40]);
        }
        // One that is cut has no end, and who takes no more is not waited for.
        assert!(!taken(&bytes[..bytes.len() - 3], usize::MAX).1);
        let (some, is_whole) = taken(&bytes, 1);
        assert!(some.len() <= SECTIONS && !is_whole);
    }
}
