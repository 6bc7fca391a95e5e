//! The layout of a set in the guest: the journal, and behind it the files.
//!
//! ```text
//!   0     header: 8 words     magic, version, whole, size in bytes, number of records, key, kind, 0
//!   64    records: 96 words   numbers, then four texts of fixed length, filled up with zeros
//!   …     (to the next page)
//!         the segments of each file
//! ```
//!
//! The mapping is anonymous, private and read-only for the guest where it is not a file's own data; we write it through
//! `/proc/PID/mem`. A set that is not whole was being made when its lancet was killed: nothing leads there.
//!
//! Everything read here may have been written by the guest: numbers are checked, at most [`MOST_SETS`] sets are read, and texts go to a
//! terminal through `report`'s border only. What is done on the word of a journal is done to the guest's own code alone
//! (`undo`).

use crate::error::Result;
use process::maps::Maps;
use process::memory::GuestMemory;
use std::ops::Range;

const MAGIC: u64 = u64::from_le_bytes(*b"LNCPATCH");
const VERSION: u64 = 1;
const HEADER: u64 = 64;
const RECORD: u64 = 768;
/// The first byte of the texts in a record, and their lengths: function, module, file, new function.
const TEXTS: usize = 160;
const LENGTHS: [usize; 4] = [160, 120, 208, 120];
/// The most functions of one set.
pub(crate) const MOST_RECORDS: usize = 64;
/// The most sets that are read.
const MOST_SETS: usize = 4096;
/// The most bytes of one set.
const LARGEST: u64 = 1 << 30;
/// Pages that are looked at for a header.
const MOST_PAGES: usize = 1 << 18;
/// One past the highest address of a program.
const USER_END: u64 = 1 << 47;

/// A patch: one function, replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The number by which users name it; no other of the process has it.
    pub id: u64,
    /// The address of the function.
    pub entry: u64,
    /// Its size in bytes.
    pub size: u64,
    /// The address of the jump: behind an `endbr64`.
    pub place: u64,
    /// What was there.
    pub old: [u8; 5],
    /// The jump.
    pub new: [u8; 5],
    /// The address of the island's page that it leads to.
    pub island: u64,
    /// The address of the function as it was.
    pub original: u64,
    /// The address of the new function.
    pub replacement: u64,
    /// The memory of the file that the new function is in.
    pub code: Range<u64>,
    /// The address of the time-stamp at which it ends by itself; 0 = never.
    pub until_at: u64,
    /// That time-stamp.
    pub until: u64,
    /// The function's name.
    pub function: String,
    /// Its module's name.
    pub module: String,
    /// The file's path.
    pub file: String,
    /// The new function's name.
    pub symbol: String,
}

/// What a journal is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Patches of one command.
    Patches,
    /// The finder (`finder`).
    Finder,
    /// Patches that are only right together: a remedy's.
    Together,
}

/// A set.
#[derive(Clone, Debug)]
pub(crate) struct Set {
    pub base: u64,
    pub size: u64,
    /// Two sets with the same key are of the same files for the same functions.
    pub key: u64,
    pub kind: Kind,
    pub whole: bool,
    /// None of a set that is not whole.
    pub records: Vec<Record>,
}

/// The bytes of a journal with so many records, whole pages.
pub(crate) fn size(records: usize) -> u64 {
    (HEADER + records as u64 * RECORD).next_multiple_of(wire::PAGE as u64)
}

/// The header of a set.
fn header(set: &Set) -> Vec<u8> {
    let words = [
        MAGIC,
        VERSION,
        u64::from(set.whole),
        set.size,
        set.records.len() as u64,
        set.key,
        set.kind as u64,
        0,
    ];
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

impl Set {
    /// Writes a header that says that the set is being made.
    pub fn begin(&self, memory: &GuestMemory) -> Result<()> {
        let unfinished = Set {
            whole: false,
            ..self.clone()
        };
        Ok(memory.write(self.base, &header(&unfinished))?)
    }

    /// Writes the records, and then that the set is whole.
    pub fn finish(&self, memory: &GuestMemory) -> Result<()> {
        let records = self.records.iter().flat_map(Record::to_bytes);
        memory.write(self.base + HEADER, &records.collect::<Vec<_>>())?;
        Ok(memory.write(self.base, &header(self))?)
    }

    /// The sets of a process that are of patches.
    pub fn of_patches(memory: &GuestMemory, maps: &Maps) -> Vec<Set> {
        let mut all = Set::all(memory, maps);
        all.retain(|set| set.kind != Kind::Finder);
        all
    }

    /// All sets of a process.
    pub fn all(memory: &GuestMemory, maps: &Maps) -> Vec<Set> {
        let anonymous = maps.iter().filter(|mapping| {
            let p = mapping.permissions;
            p.read && !p.write && !p.execute && !p.shared && !mapping.is_file()
        });
        // The kernel may have joined it to a read-only neighbour.
        let pages = anonymous.flat_map(|mapping| (mapping.start..mapping.end).step_by(wire::PAGE));
        let sets = pages.take(MOST_PAGES).filter_map(|base| read(memory, base));
        sets.take(MOST_SETS).collect()
    }
}

/// The set that begins at `base`, if one does.
fn read(memory: &GuestMemory, base: u64) -> Option<Set> {
    if memory.word(base).ok()? != MAGIC {
        return None;
    }
    let mut words = [0; 8];
    memory.read_words(base, &mut words).ok()?;
    let [_, version, whole, size, count, key, kind, _] = words;
    let kind = match kind {
        0 => Kind::Patches,
        1 => Kind::Finder,
        2 => Kind::Together,
        _ => return None,
    };
    let least = self::size(usize::try_from(count).ok()?.min(MOST_RECORDS));
    let plausible = version == VERSION
        && whole <= 1
        && (1..=MOST_RECORDS as u64).contains(&count)
        && size.is_multiple_of(wire::PAGE as u64)
        && (least..=LARGEST).contains(&size)
        && base.checked_add(size).is_some_and(|end| end <= USER_END);
    if !plausible {
        return None;
    }
    let mut records = Vec::new();
    if whole == 1 {
        let mut bytes = vec![0; (count * RECORD) as usize];
        memory.read_bytes(base + HEADER, &mut bytes).ok()?;
        for record in bytes.chunks_exact(RECORD as usize) {
            records.push(Record::from_bytes(record)?);
        }
    }
    Some(Set {
        base,
        size,
        key,
        kind,
        whole: whole == 1,
        records,
    })
}

impl Record {
    fn numbers(&self) -> [u64; 14] {
        let bytes = |bytes: [u8; 5]| {
            let mut word = [0; 8];
            word[..5].copy_from_slice(&bytes);
            u64::from_le_bytes(word)
        };
        [
            self.id,
            self.entry,
            self.size,
            self.place,
            bytes(self.old),
            bytes(self.new),
            self.island,
            self.original,
            self.replacement,
            self.code.start,
            self.code.end,
            self.until_at,
            self.until,
            0,
        ]
    }

    fn to_bytes(&self) -> Vec<u8> {
        let numbers = self.numbers();
        let mut bytes: Vec<u8> = numbers.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.resize(TEXTS, 0);
        let texts = [&self.function, &self.module, &self.file, &self.symbol];
        for (text, length) in texts.into_iter().zip(LENGTHS) {
            let text = &text.as_bytes()[..text.len().min(length)];
            bytes.extend_from_slice(text);
            bytes.resize(bytes.len() + length - text.len(), 0);
        }
        bytes
    }

    /// The record, if all its addresses can be ones of a program.
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let words = bytes.as_chunks::<8>().0;
        let word = |at: usize| words.get(at).map(|word| u64::from_le_bytes(*word));
        let five = |at: usize| Some(*words.get(at)?.first_chunk::<5>()?);
        let mut texts = Vec::new();
        let mut from = TEXTS;
        for length in LENGTHS {
            let text = bytes.get(from..from + length)?;
            let end = text.iter().position(|byte| *byte == 0).unwrap_or(length);
            texts.push(String::from_utf8_lossy(&text[..end]).into_owned());
            from += length;
        }
        let mut texts = texts.into_iter();
        let record = Record {
            id: word(0)?,
            entry: word(1)?,
            size: word(2)?,
            place: word(3)?,
            old: five(4)?,
            new: five(5)?,
            island: word(6)?,
            original: word(7)?,
            replacement: word(8)?,
            code: word(9)?..word(10)?,
            until_at: word(11)?,
            until: word(12)?,
            function: texts.next()?,
            module: texts.next()?,
            file: texts.next()?,
            symbol: texts.next()?,
        };
        record.is_plausible().then_some(record)
    }

    fn is_plausible(&self) -> bool {
        let addresses = [
            self.entry,
            self.place,
            self.island,
            self.original,
            self.replacement,
            self.code.start,
            self.code.end,
            self.until_at,
        ];
        let page = wire::PAGE as u64;
        addresses.iter().all(|at| *at < USER_END)
            && self.id != 0
            && self.size < LARGEST
            && self.place.wrapping_sub(self.entry) <= 4
            && self.island.is_multiple_of(page)
            && self.code.start <= self.code.end
            && self.new[0] == 0xe9
            && self.place + 5 + u64::from(u32::MAX) > self.island
    }

    /// What counts as inside of the new function: its file's memory and the island.
    pub(crate) fn new_code(&self) -> [Range<u64>; 2] {
        [
            self.code.clone(),
            self.island..self.island + wire::PAGE as u64,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record {
            id: 3,
            entry: 0x7000_0000_1000,
            size: 80,
            place: 0x7000_0000_1004,
            old: [1, 2, 3, 4, 5],
            new: [0xe9, 7, 8, 9, 10],
            island: 0x7000_0000_8000,
            original: 0x7000_0000_8005,
            replacement: 0x7000_0001_1000,
            code: 0x7000_0001_0000..0x7000_0001_4000,
            until_at: 0x7000_0000_8008,
            until: 99,
            function: "total".into(),
            module: "libshop.so.1".into(),
            file: "/root/fix.so".into(),
            symbol: "total".into(),
        }
    }

    #[test]
    fn records_come_back_as_they_were_written() {
        let bytes = record().to_bytes();
        assert_eq!(bytes.len() as u64, RECORD);
        assert_eq!(Record::from_bytes(&bytes), Some(record()));
    }

    #[test]
    fn texts_that_are_too_long_are_cut() {
        let long = Record {
            function: "x".repeat(500),
            ..record()
        };
        let read = Record::from_bytes(&long.to_bytes()).expect("a record");
        assert_eq!(read.function.len(), LENGTHS[0]);
        assert_eq!(read.module, "libshop.so.1");
    }

    #[test]
    fn what_no_lancet_has_written_is_no_record() {
        let good = record();
        for bad in [
            Record {
                id: 0,
                ..good.clone()
            },
            Record {
                entry: u64::MAX,
                ..good.clone()
            },
            Record {
                place: 5,
                ..good.clone()
            },
            Record {
                island: 1,
                ..good.clone()
            },
            Record {
                new: [0x90; 5],
                ..good.clone()
            },
            Record {
                size: u64::MAX,
                ..good.clone()
            },
            Record {
                code: std::ops::Range { start: 9, end: 8 },
                ..good.clone()
            },
        ] {
            assert_eq!(Record::from_bytes(&bad.to_bytes()), None, "{bad:?}");
        }
        assert_eq!(Record::from_bytes(&[0; 100]), None);
    }
}
