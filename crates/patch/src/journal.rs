//! The layout of a set in the guest: the journal, and behind it the files. Used by `finder`, `load` and others here,
//! and by crate `report`.
//!
//! ```text
//!   0     header: 8 words     magic, version, whole, size in bytes, number of records, key, kind,
//!                             of a set that is not whole: how many other mappings were made for it
//!   64    of a set that is not whole: address and size of each of these
//!   64    records: 96 words   numbers, then four texts of fixed length, filled up with zeros
//!   …     (to the next page)
//!         the segments of each file
//! ```
//!
//! The mapping is anonymous, private and read-only for the guest where it is not a file's own data; we write it through
//! `/proc/PID/mem`. A set that is not whole was being made when its lancet was killed: nothing leads there, and the next lancet that
//! stops the process unmaps what the journal says of it (`unfinished`).
//!
//! Everything read here may have been written by the guest: numbers are checked, a bounded number of sets is read (`search`), and texts go to a
//! terminal through `report`'s border only. What is done on the word of a journal is done to the guest's own code alone
//! (`undo`).

use crate::error::Result;
use crate::setting::Setting;
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
pub(crate) const MOST_RECORDS: usize = 512;
/// The most bytes of one set.
const LARGEST: u64 = 1 << 30;
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
    /// The five bytes that stood at `place` before.
    pub old: [u8; 5],
    /// The five bytes of the jump that stand there instead.
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
    /// What the time-stamp counter shows when it ends by itself; 0 = never.
    pub until: u64,
    /// The name of the function.
    pub function: String,
    /// The name of the module that the function is in.
    pub module: String,
    /// The path of the file with the new function, made absolute.
    pub file: String,
    /// The new function's name.
    pub symbol: String,
}

/// What the set of a journal is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Patches of one command.
    Patches,
    /// The jump and the table by which unwinders learn of files (`finder`).
    Finder,
    /// Patches that are only right together: a remedy's.
    Together,
    /// Settings that a remedy has changed (`settings`).
    Settings,
}

/// A set, as its journal tells it.
#[derive(Clone, Debug)]
pub(crate) struct Set {
    pub base: u64,
    pub size: u64,
    /// Two sets with the same key are of the same files for the same functions.
    pub key: u64,
    pub kind: Kind,
    pub whole: bool,
    /// The patches; none of a set that is not whole.
    pub records: Vec<Record>,
    /// The settings of a set of settings, which has no records; none of one that is not whole.
    pub settings: Vec<Setting>,
    /// Of a set that is not whole: what else was mapped for it, addresses and sizes.
    pub mapped: Vec<(u64, u64)>,
}

/// The size in bytes of a journal with this number of records, in whole pages.
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
        (set.records.len() + set.settings.len()) as u64,
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

    /// Notes another mapping of a set that is being made; `before` of them were noted.
    pub fn note(&self, memory: &GuestMemory, before: usize, (at, size): (u64, u64)) -> Result<()> {
        let pair = [at, size].map(u64::to_le_bytes).concat();
        memory.write(self.base + HEADER + before as u64 * 16, &pair)?;
        let count = before as u64 + 1;
        Ok(memory.write(self.base + HEADER - 8, &count.to_le_bytes())?)
    }

    /// Shortens the list of noted mappings to `left`. This happens before the others are unmapped, because afterwards their addresses may
    /// be reused.
    pub fn forget(&self, memory: &GuestMemory, left: usize) -> Result<()> {
        Ok(memory.write(self.base + HEADER - 8, &(left as u64).to_le_bytes())?)
    }

    /// Writes the records, and then that the set is whole.
    pub fn finish(&self, memory: &GuestMemory) -> Result<()> {
        let records = self.records.iter().flat_map(Record::to_bytes);
        let settings = self.settings.iter().flat_map(Setting::to_bytes);
        memory.write(
            self.base + HEADER,
            &records.chain(settings).collect::<Vec<_>>(),
        )?;
        Ok(memory.write(self.base, &header(self))?)
    }

    /// The first number that no patch and no setting among these has.
    pub fn next_id(sets: &[Set]) -> u64 {
        let patches = sets.iter().filter(|set| set.kind != Kind::Finder);
        let ids = patches.flat_map(|set| {
            let settings = set.settings.iter().map(|setting| setting.id);
            settings.chain(set.records.iter().map(|record| record.id))
        });
        ids.max().unwrap_or(0).saturating_add(1)
    }
}

/// The set that begins at `base`, if one does.
pub(crate) fn read(memory: &GuestMemory, base: u64) -> Option<Set> {
    if memory.word(base).ok()? != MAGIC {
        return None;
    }
    let mut words = [0; 8];
    memory.read_words(base, &mut words).ok()?;
    let [_, version, whole, size, count, key, kind, noted] = words;
    let kind = match kind {
        0 => Kind::Patches,
        1 => Kind::Finder,
        2 => Kind::Together,
        3 => Kind::Settings,
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
    let (mut records, mut settings, mut mapped) = (Vec::new(), Vec::new(), Vec::new());
    if whole == 0 {
        let mut pairs = vec![0; 2 * usize::try_from(noted).ok()?.min(MOST_RECORDS + 2)];
        memory.read_words(base + HEADER, &mut pairs).ok()?;
        let pairs = pairs.as_chunks::<2>().0;
        mapped.extend(pairs.iter().map(|[at, size]| (*at, *size)));
    }
    if whole == 1 {
        let mut bytes = vec![0; (count * RECORD) as usize];
        memory.read_bytes(base + HEADER, &mut bytes).ok()?;
        for record in bytes.chunks_exact(RECORD as usize) {
            if kind == Kind::Settings {
                settings.push(Setting::from_bytes(record)?);
            } else {
                records.push(Record::from_bytes(record)?);
            }
        }
    }
    Some(Set {
        base,
        size,
        key,
        kind,
        whole: whole == 1,
        records,
        settings,
        mapped,
    })
}

/// A record: numbers, and four texts.
pub(crate) fn encoded(numbers: &[u64], texts: [&str; 4]) -> Vec<u8> {
    let mut bytes: Vec<u8> = numbers.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.resize(TEXTS, 0);
    for (text, length) in texts.into_iter().zip(LENGTHS) {
        let text = &text.as_bytes()[..text.len().min(length)];
        bytes.extend_from_slice(text);
        bytes.resize(bytes.len() + length - text.len(), 0);
    }
    bytes
}

/// The texts of a record.
pub(crate) fn texts(record: &[u8]) -> Option<Vec<String>> {
    let mut texts = Vec::new();
    let mut from = TEXTS;
    for length in LENGTHS {
        let text = record.get(from..from + length)?;
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(length);
        texts.push(String::from_utf8_lossy(&text[..end]).into_owned());
        from += length;
    }
    Some(texts)
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

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let numbers = self.numbers();
        let texts = [&self.function, &self.module, &self.file, &self.symbol];
        encoded(&numbers, texts.map(String::as_str))
    }

    /// The record, if all its addresses can be ones of a program.
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let words = bytes.as_chunks::<8>().0;
        let word = |at: usize| words.get(at).map(|word| u64::from_le_bytes(*word));
        let five = |at: usize| Some(*words.get(at)?.first_chunk::<5>()?);
        let mut texts = texts(bytes)?.into_iter();
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

    /// A lancet that is killed in between leaves it so.
    #[test]
    fn a_set_is_whole_when_it_is_finished_and_not_before() {
        let memory = GuestMemory::open(std::process::id() as i32).expect("our own memory");
        let size = super::size(1);
        // A place of its own, as it has in a guest.
        let room = vec![0_u64; size as usize / 8];
        let set = Set {
            base: room.as_ptr().expose_provenance() as u64,
            size,
            key: 7,
            kind: Kind::Patches,
            whole: true,
            records: vec![record()],
            settings: Vec::new(),
            mapped: Vec::new(),
        };
        set.begin(&memory).expect("written");
        set.note(&memory, 0, (0x7000_0000_0000, 4096))
            .expect("written");
        let begun = read(&memory, set.base).expect("a set");
        assert!(!begun.whole && begun.records.is_empty());
        assert_eq!(begun.mapped, [(0x7000_0000_0000, 4096)]);
        set.finish(&memory).expect("written");
        let finished = read(&memory, set.base).expect("a set");
        assert!(finished.whole && finished.mapped.is_empty());
        assert_eq!(finished.records, [record()]);
        drop(room);
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
