//! System calls of chosen processes, from the first program's loading to the last descriptor's end. Used by crate
//! `calls`.

use crate::copier;
use crate::kernel::{Attached, Kind, Map, Refused};
use crate::processes::{self, Processes, now};
use crate::processors::processors;
use crate::programs;
use crate::ring::Ring;
use crate::writer::{self, Copier, LOST_RECORDS, NARROW, ROW, ROWS, ROWS_OF_ALL, Shared, THREAD};
use std::ops::Range;
use std::time::{Duration, SystemTime};

/// What is added to the numbers of calls of 32 bits (`int $0x80` and its like, in code of 32 bits).
pub const OF_32_BITS: u64 = NARROW;

/// Threads of which lancet can know at the same time which call they are in: entries of the map `threads`.
const THREADS: u32 = 16 << 10;
/// Threads and numbers of calls by which lost records are counted.
const UNFIT: u32 = 1 << 10;
/// Bytes of records that wait for us: a power of two. Where calls are counted, children alone are told of.
const TOLD: u32 = 8 << 20;
const COUNTED: u32 = 256 << 10;

/// What the programs tell of calls.
pub enum Tells<'w> {
    /// How many there were, how long they took, how many failed.
    Counts,
    /// Each of those that this knows, by its number, with what it points to; all numbers from 511 on are asked about as 511.
    Calls(&'w dyn Fn(u64) -> Option<Copies>),
    /// The same, and nobody is held up where the ring buffer fills.
    CallsAtOnce(&'w dyn Fn(u64) -> Option<Copies>),
}

impl Tells<'_> {
    fn calls(&self) -> Option<&dyn Fn(u64) -> Option<Copies>> {
        match self {
            Tells::Counts => None,
            Tells::Calls(wanted) | Tells::CallsAtOnce(wanted) => Some(wanted),
        }
    }
}

/// Whose calls are seen beside those of the processes that are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Nobody's. A tracer may follow the processes, and add their children.
    Alone,
    /// Those of the children that watched processes make.
    WithChildren,
}

/// The programs of crate `capture` that copy what a call points to: one for when it begins, one for its return.
pub type Copies = [Vec<u64>; 2];

/// What was counted of a system call; times in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Calls that have returned.
    pub returned: u64,
    /// How long these calls took together.
    pub total: u64,
    /// How long the shortest of them took; 0 if none has returned.
    pub shortest: u64,
    /// How long the longest of them took.
    pub longest: u64,
    /// How many have returned an error.
    pub errors: u64,
    /// Calls that have ended their thread, or in which it was killed.
    pub left: u64,
}

/// Records of calls and returns that are not told, of one thread and one system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfit {
    /// Id of the process.
    pub pid: i32,
    /// Id of the thread.
    pub tid: i32,
    /// The number of the call, as in [`Record::Call`].
    pub number: u64,
    /// How many records.
    pub records: u64,
}

/// What the programs lacked room for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Calls and returns that are not told.
    pub records: u64,
    /// Calls of threads for which there was no room.
    pub threads: u64,
    /// Children for which there was no room, so that they are not watched.
    pub children: u64,
    /// Calls and returns at which no program ran.
    pub missed: u64,
}

/// Something that has happened; ids are those of lancet's PID namespace, times nanoseconds of the monotonic clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A thread has made a system call. One that began before its process was watched, or that a seccomp filter refused, is told
    /// when it returns.
    Call {
        /// Id of the process that asks.
        pid: i32,
        /// Id of the thread that makes the call.
        tid: i32,
        /// When it began, or, if that was earlier, when its process began to be watched.
        time: u64,
        /// The number of the call, with [`OF_32_BITS`] where the thread runs code of 32 bits.
        number: u64,
        /// The six registers of the call's arguments, in their order.
        arguments: [u64; 6],
        /// Where the thread goes on: the address behind the instruction that made the call.
        behind: u64,
        /// The thread's stack pointer at the call.
        stack: u64,
        /// What it points to.
        copied: Copied,
        /// Whether some of that was not in memory; then it stands with the return.
        missed: bool,
    },
    /// The call that this thread was told to have made has returned.
    Return {
        /// Id of the process that has asked.
        pid: i32,
        /// Id that the thread had when it made the call.
        tid: i32,
        /// When it returned, by the monotonic clock.
        time: u64,
        /// The kernel's result: from -4095 to -1 it is the negated number of an error. It may be one of those by which the kernel
        /// has a call made again (`ERESTARTSYS` and its like), which no program sees.
        result: u64,
        /// What it points to now.
        copied: Copied,
        /// What was to be copied when the call began, as it is now, if some of that was not in memory then.
        again: Copied,
    },
    /// A process is watched from now on, because a watched one has made it.
    Child {
        /// Id of the new process.
        pid: i32,
        /// Id of the process that has made it.
        parent: i32,
    },
}

/// Pieces of a process's memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Copied(Vec<u8>);

impl Copied {
    /// The pieces: the address of each, and the bytes that were there.
    pub fn pieces(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let mut rest = &self.0[..];
        std::iter::from_fn(move || {
            let (before, behind) = rest.split_at_checked(copier::PIECE as usize)?;
            let (address, length) = before.split_at(8);
            let length = usize::try_from(word_of(length)).ok()?;
            let bytes = behind.get(..length)?;
            rest = behind.get(length.next_multiple_of(8)..).unwrap_or_default();
            Some((word_of(address), bytes))
        })
    }
}

/// A watch over the system calls of chosen processes, and the programs in the kernel that keep it.
pub struct Watch {
    maps: Shared,
    ring: Ring,
    attached: Vec<Attached>,
    /// What is added to a time of the monotonic clock to make it one since 1970.
    epoch: Duration,
}

impl Watch {
    /// Loads and attaches the programs. Nobody is watched yet.
    ///
    /// # Errors
    /// Why there is no way by BPF, for the user to read.
    pub fn begin(tells: &Tells<'_>, whose: Whose) -> Result<Self, Refused> {
        let is_told = tells.calls().is_some();
        // The kernel fills all of a map when it is made, and whoever starts a program waits for that.
        let figures = if is_told { 1 } else { ROWS_OF_ALL };
        let born = match whose {
            Whose::WithChildren => processes::MOST,
            _ => 1,
        };
        let ring = if is_told { TOLD } else { COUNTED };
        let maps = Shared {
            watched: Processes::new()?,
            threads: Map::new(Kind::Hash, "lancet_threads", 8, THREAD, THREADS)?,
            born: Map::new(Kind::Hash, "lancet_born", 8, 8, born)?,
            figures: Map::new(Kind::ArrayOfEachCpu, "lancet_figures", 4, ROW, figures)?,
            lost: Map::new(Kind::ArrayOfEachCpu, "lancet_lost", 4, ROW, 1)?,
            unfit: Map::new(
                Kind::Hash,
                "lancet_unfit",
                16,
                8,
                if is_told { UNFIT } else { 1 },
            )?,
            ring: Map::new(Kind::Ring, "lancet_ring", 0, 0, ring)?,
            copier: is_told.then(copier_maps).transpose()?,
            tells: is_told,
            holds_up: matches!(tells, Tells::Calls(_)),
            follow: whose == Whose::WithChildren,
        };
        if let (Some(wanted), Some(copier)) = (tells.calls(), &maps.copier) {
            want(copier, wanted)?;
        }
        let ring = Ring::new(&maps.ring)?;
        let programs = programs::all(&maps).into_iter();
        let attached = programs.map(|(tracepoint, code)| Attached::new(tracepoint, &code));
        let attached = attached.collect::<Result<Vec<_>, _>>()?;
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Ok(Watch {
            maps,
            ring,
            attached,
            epoch: since_1970
                .unwrap_or_default()
                .saturating_sub(Duration::from_nanos(now())),
        })
    }

    /// Watches a process with all its threads from now on. A call that a thread is in begins now: at the time that is returned.
    ///
    /// # Errors
    /// It is in a PID namespace in which it cannot be found, or there is no room.
    pub fn add(&self, pid: i32) -> Result<u64, Refused> {
        self.maps.watched.add(pid)
    }

    /// Watches a process no more: it has ended, and another may have its id soon.
    pub fn remove(&self, pid: i32) {
        self.maps.watched.remove(pid);
    }

    /// Hands on what has happened since the last call, and returns whether there was anything.
    pub fn read(&mut self, take: impl FnMut(Record)) -> bool {
        self.read_some(usize::MAX, take) > 0
    }

    /// The same for at most so many records. Returns how many there were; the others keep their room, so that who makes calls is held up.
    pub fn read_some(&mut self, most: usize, mut take: impl FnMut(Record)) -> usize {
        self.ring.read(most, |bytes| {
            if let Some(record) = record(bytes) {
                take(record);
            }
        })
    }

    /// What was counted until now, by number; those that are in no table have 511, or that and [`OF_32_BITS`].
    pub fn counted(&self) -> Vec<(u64, Figures)> {
        let rows = (0..ROWS_OF_ALL).map(|row| (number_of(row), self.row(row)));
        rows.filter(|(_, figures)| *figures != Figures::default())
            .collect()
    }

    /// Returns what was lost until now, of all processes.
    pub fn lost(&self) -> Lost {
        let value = self.maps.lost.get(&0u32.to_ne_bytes());
        let value = value.unwrap_or_default();
        let sum = |at: i16| of_each(&value).map(|row| row[at as usize / 8]).sum();
        Lost {
            records: sum(LOST_RECORDS),
            threads: sum(LOST_RECORDS + 8),
            children: sum(LOST_RECORDS + 16),
            missed: self.attached.iter().map(Attached::missed).sum(),
        }
    }

    /// Returns whose records were lost until now: all of them, unless they are of more threads and calls than can be told apart.
    pub fn unfit(&self) -> Vec<Unfit> {
        let unfit = &self.maps.unfit;
        let keys = unfit.keys().into_iter();
        let all = keys.filter_map(|key| {
            let (ids, number) = key.split_at(8);
            let ids = word_of(ids);
            Some(Unfit {
                pid: (ids >> 32) as i32,
                tid: ids as i32,
                number: word_of(number),
                records: word_of(&unfit.get(&key)?),
            })
        });
        all.collect()
    }

    /// A time of the monotonic clock as one since 1970.
    pub fn wall(&self, time: u64) -> Duration {
        self.epoch + Duration::from_nanos(time)
    }

    fn row(&self, row: u32) -> Figures {
        let value = self
            .maps
            .figures
            .get(&row.to_ne_bytes())
            .unwrap_or_default();
        let mut all = Figures::default();
        for [returned, total, shortest, longest, errors, left] in of_each(&value) {
            all.shortest = match (all.returned, returned) {
                (_, 0) => all.shortest,
                (0, _) => shortest,
                _ => all.shortest.min(shortest),
            };
            all.returned += returned;
            all.total += total;
            all.longest = all.longest.max(longest);
            all.errors += errors;
            all.left += left;
        }
        all
    }
}

fn copier_maps() -> Result<Copier, Refused> {
    let processors = processors()? as u32;
    Ok(Copier {
        words: Map::new(Kind::Array, "lancet_words", 4, 8 * copier::WORDS, 1)?,
        scratch: Map::new(
            Kind::Array,
            "lancet_scratch",
            4,
            copier::SCRATCH,
            processors,
        )?,
    })
}

/// Fills in which calls are told, and what is copied of them.
fn want(copier: &Copier, copies: &dyn Fn(u64) -> Option<Copies>) -> Result<(), Refused> {
    // No program begins at 0. A word that is 0 ends one, as does the one behind the rows, which stands for no program.
    let mut words = vec![0u64; copier::NOTHING as usize + 1];
    for row in 0..ROWS_OF_ALL {
        let Some(programs) = copies(number_of(row)) else {
            continue;
        };
        let all = programs.iter().flatten();
        let fits = words.len() + all.clone().count() + programs.len() < copier::WORDS;
        if !fits || !all.copied().all(copier::knows) {
            return Err(Refused::Copies);
        }
        let [call, exit] = programs.map(|program| {
            if program.is_empty() {
                return 0;
            }
            let first = words.len() as u64;
            words.extend(program);
            words.push(0);
            first
        });
        words[row as usize] = writer::TOLD | call << 8 | exit << 32;
    }
    // Whoever starts a program waits for this, and most of the map stays empty.
    let mut bytes = vec![0u8; 8 * copier::WORDS];
    for (into, word) in bytes.chunks_exact_mut(8).zip(words) {
        into.copy_from_slice(&word.to_ne_bytes());
    }
    copier.words.put(&0u32.to_ne_bytes(), &bytes)
}

/// Splits a value of a map of each processor into the rows of the processors.
fn of_each(value: &[u8]) -> impl Iterator<Item = [u64; ROW / 8]> {
    value.chunks_exact(ROW).map(|row| {
        let mut words = [0; ROW / 8];
        for (word, bytes) in words.iter_mut().zip(row.chunks_exact(8)) {
            *word = word_of(bytes);
        }
        words
    })
}

fn word_of(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_ne_bytes)
}

/// The number whose calls are counted in a row.
fn number_of(row: u32) -> u64 {
    match row.checked_sub(ROWS) {
        None => row.into(),
        Some(narrow) => OF_32_BITS | u64::from(narrow),
    }
}

/// A record as the programs write it.
fn record(bytes: &[u8]) -> Option<Record> {
    let half = |at: usize| {
        bytes
            .get(at..at + 4)?
            .try_into()
            .ok()
            .map(i32::from_ne_bytes)
    };
    let word = |at: usize| Some(word_of(bytes.get(at..at + 8)?));
    let copied = |part: Range<usize>| Some(Copied(bytes.get(part)?.to_vec()));
    let (pid, tid, time) = (word(8)? as i32, half(4)?, word(16)?);
    Some(match half(0)? {
        writer::CALL => {
            let mut arguments = [0; 6];
            for (at, argument) in arguments.iter_mut().enumerate() {
                *argument = word(32 + 8 * at)?;
            }
            Record::Call {
                pid,
                tid,
                time,
                number: word(24)?,
                arguments,
                behind: word(80)?,
                stack: word(88)?,
                copied: copied(writer::CALL_BYTES as usize..bytes.len())?,
                missed: word(96)? != 0,
            }
        }
        writer::RETURN => {
            let end = match usize::try_from(word(32)?).ok()? {
                0 => bytes.len(),
                end => end,
            };
            Record::Return {
                pid,
                tid,
                time,
                result: word(24)?,
                copied: copied(writer::RETURN_BYTES as usize..end)?,
                again: copied(end..bytes.len())?,
            }
        }
        writer::CHILD => Record::Child {
            pid,
            parent: word(24)? as i32,
        },
        _ => return None,
    })
}
