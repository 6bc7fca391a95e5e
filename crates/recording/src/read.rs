//! Reading a recording.

use crate::bytes::Take;
use crate::codec::State;
use crate::item::Item;
use crate::{MAGIC, MOST, VERSION};
use std::io::{self, ErrorKind, Read};

/// Why a recording cannot be read, or not any further.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It does not begin with the magic bytes of a recording.
    #[error("it is no recording of lancet's")]
    NotOne,
    /// Its version is none that this lancet reads.
    #[error("it is of version {0} and this lancet reads versions 1 to {VERSION}")]
    Version(u32),
    /// It ends in the middle of a segment, or before its last item was written: its writer was killed, or the disk was
    /// full.
    #[error("it ends at byte {0} without its end: what was recorded last is missing")]
    Cut(u64),
    /// A segment's checksum or contents are wrong.
    #[error("it is damaged at byte {0}: what was recorded from there on cannot be read")]
    Damaged(u64),
}

/// Reads a recording from its beginning to where it is damaged or ends.
pub struct Reader<R> {
    input: R,
    state: State,
    packed: Vec<u8>,
    items: Vec<u8>,
    /// How much of `items` is read.
    read: usize,
    /// Offsets in the file of this segment and of the next one.
    segment: u64,
    next: u64,
    over: bool,
}

impl<R: Read> Reader<R> {
    /// Reads magic bytes and version.
    pub fn new(mut input: R) -> Result<Self, Error> {
        let mut first = [0; MAGIC.len() + 4];
        let length = fill(&mut input, &mut first)?;
        let (magic, version) = first.split_at(MAGIC.len());
        if length < first.len() || magic != MAGIC {
            return Err(Error::NotOne);
        }
        match u32::from_le_bytes(version.try_into().expect("four bytes")) {
            1..=VERSION => {}
            other => return Err(Error::Version(other)),
        }
        let at = first.len() as u64;
        Ok(Reader {
            input,
            state: State::default(),
            packed: Vec::new(),
            items: Vec::new(),
            read: 0,
            segment: at,
            next: at,
            over: false,
        })
    }

    /// Returns the next item, and `None` after [`Item::End`]. After an error it returns `None` for ever.
    #[expect(
        clippy::should_implement_trait,
        reason = "an iterator would hide that an error is final"
    )]
    pub fn next(&mut self) -> Result<Option<Item>, Error> {
        if self.over {
            return Ok(None);
        }
        if self.read == self.items.len() {
            self.over = true;
            self.unpack()?;
            self.over = false;
        }
        let rest = &self.items[self.read..];
        let mut take = Take(rest);
        let Ok(item) = self.state.take(&mut take) else {
            self.over = true;
            return Err(Error::Damaged(self.segment));
        };
        self.read += rest.len() - take.0.len();
        self.over = matches!(item, Item::End);
        Ok(Some(item))
    }

    /// Reads and unpacks the next segment.
    fn unpack(&mut self) -> Result<(), Error> {
        self.segment = self.next;
        let mut words = [0; 12];
        let cut = Error::Cut(self.segment);
        if fill(&mut self.input, &mut words)? < words.len() {
            return Err(cut);
        }
        let word = |at: usize| {
            u32::from_le_bytes(words[at * 4..at * 4 + 4].try_into().expect("four bytes"))
        };
        let (packed, length, sum) = (word(0) as usize, word(1) as usize, word(2));
        let damaged = || Error::Damaged(self.segment);
        if packed > MOST || length > MOST || length == 0 {
            return Err(damaged());
        }
        self.packed.resize(packed, 0);
        if fill(&mut self.input, &mut self.packed)? < packed {
            return Err(cut);
        }
        if crc32fast::hash(&self.packed) != sum {
            return Err(damaged());
        }
        self.items.resize(length, 0);
        let unpacked = lz4_flex::block::decompress_into(&self.packed, &mut self.items);
        if !unpacked.is_ok_and(|unpacked| unpacked == length) {
            return Err(damaged());
        }
        self.read = 0;
        self.next += (words.len() + packed) as u64;
        self.state.anew();
        Ok(())
    }
}

/// Reads until the buffer is full or the file ends, and returns how many bytes were read.
fn fill(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match input.read(&mut buffer[done..]) {
            Ok(0) => break,
            Ok(more) => done += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}
