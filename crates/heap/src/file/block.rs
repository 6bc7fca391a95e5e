//! Blocks: see the drawing in [`file`](super).

use std::io::{self, Read, Write};

use super::{Error, MAGIC, Section, VERSION};

/// Bytes of a head.
const HEAD: usize = 24;
/// A block is written when it holds so many bytes.
const FULL: usize = 256 << 10;
/// What a block may hold at most: a reader makes room for it before it can be checked.
const MOST: usize = 1 << 20;

/// Writes the blocks of a file.
pub struct Output<'a> {
    out: &'a mut dyn Write,
    raw: Vec<u8>,
    items: u32,
    section: Section,
    blocks: u64,
}

impl<'a> Output<'a> {
    /// Begins a file.
    pub fn begin(out: &'a mut dyn Write) -> io::Result<Self> {
        out.write_all(&MAGIC)?;
        out.write_all(&VERSION.to_le_bytes())?;
        Ok(Self {
            out,
            raw: Vec::with_capacity(FULL * 2),
            items: 0,
            section: Section::Header,
            blocks: 0,
        })
    }

    /// Writes one item of a section. `write` is told whether it is the first of its block.
    pub fn item(
        &mut self,
        section: Section,
        write: impl FnOnce(&mut Vec<u8>, bool),
    ) -> io::Result<()> {
        if section != self.section || self.raw.len() >= FULL {
            self.flush()?;
            self.section = section;
        }
        write(&mut self.raw, self.items == 0);
        self.items += 1;
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.items == 0 {
            return Ok(());
        }
        let packed = lz4_flex::block::compress(&self.raw);
        let is_packed = packed.len() < self.raw.len();
        let bytes = if is_packed { &packed } else { &self.raw };
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
        self.out.write_all(&head)?;
        self.out.write_all(bytes)?;
        self.raw.clear();
        (self.items, self.blocks) = (0, self.blocks + 1);
        Ok(())
    }

    /// Ends the file.
    pub fn end(mut self) -> io::Result<()> {
        self.flush()?;
        let blocks = self.blocks;
        self.item(Section::End, |raw, _| varint::put(raw, blocks))?;
        self.flush()?;
        self.out.flush()
    }
}

/// Reads the blocks of a file.
pub struct Input<'a> {
    input: &'a mut dyn Read,
    /// Where the next block begins.
    at: u64,
    here: Vec<u8>,
    raw: Vec<u8>,
    /// How many blocks were read.
    pub blocks: u64,
}

/// A block as its head tells it.
#[derive(Clone, Copy)]
pub struct Block {
    /// Where its head is.
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
        if version != VERSION {
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
