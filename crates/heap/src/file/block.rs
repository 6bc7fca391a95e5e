//! Blocks of the file of a snapshot, packed and with a checksum each: see the drawing in [`file`](super). Used by
//! `write` and `read`.

use std::io::{self, Read, Write};

use super::{Error, MAGIC, OLDEST, Section, VERSION};

/// Bytes of a head.
const HEAD: usize = 24;
/// A block is written when it holds so many bytes.
const FULL: usize = 256 << 10;
/// Bytes that a block may hold at most: a reader makes room for it before it can be checked.
const MOST: usize = 1 << 20;

/// The blocks of some sections, one behind the other: a part of a file.
#[derive(Debug, Default)]
pub struct Blocks {
    /// The blocks as they stand in the file.
    pub bytes: Vec<u8>,
    /// Number of blocks in `bytes`.
    pub count: u64,
}

/// Makes blocks of the items that it is given, one section after the other.
pub struct Output {
    made: Blocks,
    raw: Vec<u8>,
    packed: Vec<u8>,
    items: u32,
    section: Section,
}

impl Output {
    /// No block is made yet.
    pub fn new() -> Self {
        Self {
            made: Blocks::default(),
            raw: Vec::with_capacity(FULL * 2),
            packed: Vec::new(),
            items: 0,
            section: Section::Header,
        }
    }

    /// Writes one item of a section.
    pub fn item(&mut self, section: Section, write: impl FnOnce(&mut Vec<u8>)) {
        let mut write = Some(write);
        self.items(section, 1, |raw, _, _| {
            write.take().expect("one item")(raw);
        });
    }

    /// Writes so many items of a section. `write` is told the number of each, and whether it is the first of its block.
    #[inline]
    pub fn items(
        &mut self,
        section: Section,
        count: usize,
        mut write: impl FnMut(&mut Vec<u8>, usize, bool),
    ) {
        if section != self.section {
            self.flush();
            self.section = section;
        }
        for item in 0..count {
            if self.raw.len() >= FULL {
                self.flush();
            }
            write(&mut self.raw, item, self.items == 0);
            self.items += 1;
        }
    }

    #[inline(never)]
    fn flush(&mut self) {
        if self.items == 0 {
            return;
        }
        let room = lz4_flex::block::get_maximum_output_size(self.raw.len());
        if self.packed.len() < room {
            self.packed.resize(room, 0);
        }
        let packed = lz4_flex::block::compress_into(&self.raw, &mut self.packed);
        let packed = packed.map_or(usize::MAX, |length| length);
        let is_packed = packed < self.raw.len();
        let bytes = if is_packed {
            &self.packed[..packed]
        } else {
            &self.raw[..]
        };
        let section = self.section as u16;
        let mut head = [0; HEAD];
        head[4..8].copy_from_slice(&crc32fast::hash(bytes).to_le_bytes());
        head[8..12].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
        head[12..16].copy_from_slice(&(self.raw.len() as u32).to_le_bytes());
        head[16..20].copy_from_slice(&self.items.to_le_bytes());
        head[20..22].copy_from_slice(&section.to_le_bytes());
        head[22..24].copy_from_slice(&u16::from(is_packed).to_le_bytes());
        let sum = crc32fast::hash(&head[4..]);
        head[..4].copy_from_slice(&sum.to_le_bytes());
        self.made.bytes.extend_from_slice(&head);
        self.made.bytes.extend_from_slice(bytes);
        self.made.count += 1;
        self.raw.clear();
        self.items = 0;
    }

    /// Ends the last block and returns all of them.
    pub fn finish(mut self) -> Blocks {
        self.flush();
        self.made
    }
}

/// Writes the beginning of a file.
pub fn begin(out: &mut dyn Write) -> io::Result<()> {
    out.write_all(&MAGIC)?;
    out.write_all(&VERSION.to_le_bytes())
}

/// Ends a file of so many blocks.
pub fn end(out: &mut dyn Write, blocks: u64) -> io::Result<()> {
    let mut last = Output::new();
    last.item(Section::End, |raw| varint::put(raw, blocks));
    out.write_all(&last.finish().bytes)?;
    out.flush()
}

/// Reads the blocks of a file.
pub struct Input<'a> {
    input: &'a mut dyn Read,
    /// Distance of the next block from the start of the file, in bytes.
    at: u64,
    here: Vec<u8>,
    raw: Vec<u8>,
    /// How many blocks were read.
    pub blocks: u64,
}

/// A block as its head tells it.
#[derive(Clone, Copy)]
pub struct Block {
    /// Distance of its head from the start of the file, in bytes.
    pub at: u64,
    pub section: Section,
    pub items: u32,
}

impl Block {
    /// The error that something in this block is wrong.
    pub fn damaged(&self, what: &'static str) -> Error {
        Error::Damaged { at: self.at, what }
    }
}

impl<'a> Input<'a> {
    /// Reads the beginning of a file.
    pub fn begin(input: &'a mut dyn Read) -> Result<Self, Error> {
        let mut begin = [0; 12];
        let length = fill(input, &mut begin)?;
        let (magic, version) = begin.split_at(MAGIC.len());
        if length < begin.len() || magic != MAGIC {
            let is_ours = length >= MAGIC.len() && magic == MAGIC;
            return Err(if is_ours {
                Error::Cut(length as u64)
            } else {
                Error::Foreign
            });
        }
        let version = u32::from_le_bytes(version.try_into().expect("4 bytes"));
        if !(OLDEST..=VERSION).contains(&version) {
            return Err(Error::Version(version));
        }
        Ok(Self {
            input,
            at: begin.len() as u64,
            here: Vec::new(),
            raw: Vec::new(),
            blocks: 0,
        })
    }

    /// Reads the next block, with its bytes unpacked.
    pub fn next(&mut self) -> Result<(Block, &[u8]), Error> {
        let at = self.at;
        let mut head = [0; HEAD];
        let length = fill(self.input, &mut head)?;
        if length < HEAD {
            return Err(Error::Cut(at + length as u64));
        }
        let damaged = |what| Error::Damaged { at, what };
        let half = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("4 bytes"));
        if half(0) != crc32fast::hash(&head[4..]) {
            return Err(damaged("the checksum of its head is wrong"));
        }
        let (here, whole) = (half(8) as usize, half(12) as usize);
        let packed = half(20) >> 16;
        let section = Section::of(half(20) as u16);
        let section = section.ok_or_else(|| damaged("there is no such section"))?;
        let plausible =
            here <= MOST && whole <= MOST && packed < 2 && (packed == 1 || here == whole);
        if !plausible || half(16) as usize > whole {
            return Err(damaged("its lengths cannot be true"));
        }
        self.here.resize(here, 0);
        let length = fill(self.input, &mut self.here)?;
        self.at = at + (HEAD + length) as u64;
        if length < here {
            return Err(Error::Cut(self.at));
        }
        if half(4) != crc32fast::hash(&self.here) {
            return Err(damaged("the checksum of its bytes is wrong"));
        }
        self.raw.clear();
        if packed == 1 {
            self.raw.resize(whole, 0);
            match lz4_flex::block::decompress_into(&self.here, &mut self.raw) {
                Ok(length) if length == whole => {}
                _ => return Err(damaged("its bytes cannot be unpacked")),
            }
        }
        self.blocks += 1;
        let block = Block {
            at,
            section,
            items: half(16),
        };
        Ok((block, if packed == 1 { &self.raw } else { &self.here }))
    }
}

/// Reads until the buffer is full or the input ends, and returns how many bytes came.
fn fill(input: &mut dyn Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while length < buffer.len() {
        match input.read(&mut buffer[length..]) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}
