//! A profile in a file, to be shown again in another form or held against a later one. Used by the crates `lancet` and
//! `report`.
//!
//! Numbers and texts are those of crate `varint`. In this order: `MAGIC`, `VERSION`, what is known of the run ([`About`]), the counts of
//! [`Profile`], the frames by number (name, file, line, and a byte: 1 native, 2 of a library), and the stacks in their order: how many frames one
//! has in common with the one before it, how many more there are, the numbers of these, how often it was seen. Then the same of threads that
//! waited, where between frames and stacks there are the waits by number, and a stack has its wait's before its count; and the threads, with how often
//! each ran and waited. A CRC-32 of all of that,
//! four bytes in little-endian order, is the end.

mod stacks;

use std::io::{self, Write};
use std::time::Duration;

use varint::{Take, Wrong, put, put_bytes};

use super::Profile;

use stacks::{
    put_frames, put_stacks, put_threads, put_waits, take_frames, take_stacks, take_threads,
    take_waits,
};

/// How each file begins.
const MAGIC: [u8; 8] = *b"lancet-p";

/// The version of the layout, which is read alone.
const VERSION: u64 = 3;

/// More bytes has no file: 32 MiB of names of frames that ran, as many of frames that waited, 8 MiB of waits, two million frames of stacks at some
/// bytes each, and command lines.
pub const MOST_BYTES: usize = 128 << 20;

/// More samples nobody takes; sums of that many do not overflow.
const MOST_SAMPLES: u64 = 1 << 48;

/// What is known of a run of looks beside its samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// Which processes were looked at, in words.
    pub who: String,
    /// The same one by one.
    pub processes: Vec<Process>,
    /// How many looks there were, in words.
    pub looks: String,
    /// How long the processes stood still for them, in words.
    pub cost: String,
    /// What was lost.
    pub missed: Vec<Missed>,
    /// When the first look was, in nanoseconds since 1970 (UTC).
    pub began: u64,
    /// How long was looked.
    pub took: Duration,
}

/// A process that was looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Its id; 0: several that are not told one by one.
    pub pid: u32,
    /// The words of its command line.
    pub command: Vec<String>,
    /// The languages that run in it, with their versions: `Ruby 3.1.2`.
    pub languages: Vec<String>,
}

/// So many processes are told one by one, and so many words of a command line.
pub const MOST_PROCESSES: usize = 1000;
const MOST_WORDS: usize = 1000;
/// No process runs more.
const MOST_LANGUAGES: usize = 16;

impl Process {
    /// Makes one; words of a longer command line are cut off.
    pub fn new(pid: u32, mut command: Vec<String>, languages: Vec<String>) -> Self {
        if command.len() > MOST_WORDS {
            command.truncate(MOST_WORDS - 1);
            command.push("…".to_owned());
        }
        Process {
            pid,
            command,
            languages,
        }
    }
}

/// Something that was lost in a run of looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missed {
    /// The process that it is of, if it is of one.
    pub pid: Option<u32>,
    /// Its kind, by the words of docs/losses.md.
    pub what: String,
    /// How much of it, where that is known.
    pub count: Option<u64>,
    /// What was lost and why, as a sentence.
    pub text: String,
}

/// Why a file is not read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It does not begin as profiles do.
    #[error("it is no profile of lancet's: lancet profile --save FILE writes one")]
    Foreign,
    /// Another lancet has written it.
    #[error(
        "it is a profile of version {0}, and this lancet reads version {VERSION}: read it with the lancet that has written it"
    )]
    Version(u64),
    /// It is not what was written.
    #[error("the profile is cut off or damaged")]
    Damaged,
}

impl From<Wrong> for Error {
    fn from(_: Wrong) -> Self {
        Self::Damaged
    }
}

/// Writes a profile.
///
/// # Errors
/// Those of `out`; it would be larger than what is read.
pub fn write(profile: &Profile, about: &About, out: &mut dyn Write) -> io::Result<()> {
    let mut bytes = MAGIC.to_vec();
    put(&mut bytes, VERSION);
    for text in [&about.who, &about.looks, &about.cost] {
        put_bytes(&mut bytes, text.as_bytes());
    }
    put(&mut bytes, about.processes.len() as u64);
    for process in &about.processes {
        put(&mut bytes, process.pid.into());
        put_texts(&mut bytes, &process.command);
        put_texts(&mut bytes, &process.languages);
    }
    put(&mut bytes, about.missed.len() as u64);
    for missed in &about.missed {
        put_optional(&mut bytes, missed.pid.map(u64::from));
        put_bytes(&mut bytes, missed.what.as_bytes());
        put_optional(&mut bytes, missed.count);
        put_bytes(&mut bytes, missed.text.as_bytes());
    }
    put(&mut bytes, about.began);
    put(
        &mut bytes,
        u64::try_from(about.took.as_nanos()).unwrap_or(u64::MAX),
    );
    for count in profile.counts() {
        put(&mut bytes, count);
    }
    put_frames(&mut bytes, &profile.known);
    let stacks = profile.stacks.iter();
    put_stacks(
        &mut bytes,
        stacks
            .map(|(stack, count)| (&**stack, None, *count))
            .collect(),
    );
    put_waits(&mut bytes, &profile.waits);
    put_threads(&mut bytes, &profile.threads);
    if bytes.len() > MOST_BYTES - size_of::<u32>() {
        let most = MOST_BYTES >> 20;
        let text = format!("the profile is larger than {most} MiB, and nobody would read it");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
    }
    let sum = crc32fast::hash(&bytes);
    out.write_all(&bytes)?;
    out.write_all(&sum.to_le_bytes())
}

fn put_texts(bytes: &mut Vec<u8>, texts: &[String]) {
    put(bytes, texts.len() as u64);
    for text in texts {
        put_bytes(bytes, text.as_bytes());
    }
}

/// Writes a byte that says whether there is one, and the number.
fn put_optional(bytes: &mut Vec<u8>, number: Option<u64>) {
    bytes.push(number.is_some().into());
    if let Some(number) = number {
        put(bytes, number);
    }
}

fn take_optional(take: &mut Take) -> Result<Option<u64>, Wrong> {
    match take.byte()? {
        0 => Ok(None),
        _ => take.number().map(Some),
    }
}

fn take_process(take: &mut Take) -> Result<Process, Wrong> {
    Ok(Process {
        pid: take.small()?,
        command: take_texts(take, MOST_WORDS)?,
        languages: take_texts(take, MOST_LANGUAGES)?,
    })
}

/// At most so many: each takes more memory than it does in the file.
fn take_texts(take: &mut Take, most: usize) -> Result<Vec<String>, Wrong> {
    let count = take.below(most + 1)?;
    (0..count).map(|_| take.text()).collect()
}

fn take_missed(take: &mut Take) -> Result<Missed, Wrong> {
    let pid = take_optional(take)?;
    Ok(Missed {
        pid: pid
            .map(|pid| u32::try_from(pid).map_err(|_| Wrong))
            .transpose()?,
        what: take.text()?,
        count: take_optional(take)?,
        text: take.text()?,
    })
}

/// Reads what [`write()`] has written. Anybody may have made the file: it takes no more memory than a profile may.
///
/// # Errors
/// It is no profile, one of another version, or not whole.
pub fn read(bytes: &[u8]) -> Result<(Profile, About), Error> {
    let rest = bytes.strip_prefix(&MAGIC).ok_or(Error::Foreign)?;
    let version = Take(rest).number()?;
    if version != VERSION {
        return Err(Error::Version(version));
    }
    let (whole, sum) = bytes.split_last_chunk::<4>().ok_or(Error::Damaged)?;
    if crc32fast::hash(whole) != u32::from_le_bytes(*sum) {
        return Err(Error::Damaged);
    }
    let mut take = Take(whole.strip_prefix(&MAGIC).ok_or(Error::Foreign)?);
    take.number()?;
    let [who, looks, cost] = [take.text()?, take.text()?, take.text()?];
    let mut processes = Vec::new();
    // Those that are not told one by one are one more.
    for _ in 0..take.below(MOST_PROCESSES + 2)? {
        processes.push(take_process(&mut take)?);
    }
    let mut missed = Vec::new();
    for _ in 0..take.number()? {
        missed.push(take_missed(&mut take)?);
    }
    let about = About {
        who,
        processes,
        looks,
        cost,
        missed,
        began: take.number()?,
        took: Duration::from_nanos(take.number()?),
    };
    let mut profile = Profile::default();
    for count in profile.counts_mut() {
        *count = take.number()?;
    }
    profile.known = take_frames(&mut take)?;
    profile.frames = take_stacks(&mut take, &profile.known, |take, stack| {
        Ok(profile.stacks.insert(stack, take.number()?).is_none())
    })?;
    profile.waits = take_waits(&mut take)?;
    profile.threads = take_threads(&mut take)?;
    let sum = |counts: &mut dyn Iterator<Item = &u64>| {
        counts.fold(0_u64, |sum, count| sum.saturating_add(*count))
    };
    let seen = sum(&mut profile.stacks.values());
    let waited = sum(&mut profile.waits.stacks.values());
    let is_whole = take.0.is_empty() && seen == profile.samples && seen == profile.ran;
    let mut counts = profile.counts().into_iter().chain([waited]);
    match is_whole && counts.all(|count| count < MOST_SAMPLES) {
        true => Ok((profile, about)),
        false => Err(Error::Damaged),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::threads::Did;
    use super::super::waits::{Lock, Wait};
    use super::super::{Frame, Function, Kind};
    use super::*;

    fn about() -> About {
        About {
            who: "process 4242 (ruby app.rb)".to_owned(),
            processes: vec![Process {
                pid: 4242,
                command: vec!["ruby".to_owned(), "app.rb".to_owned()],
                languages: vec!["Ruby 3.1.2".to_owned()],
            }],
            looks: "478 looks in 5.0 s".to_owned(),
            cost: "stood still for 36.0 ms in all".to_owned(),
            missed: vec![
                Missed {
                    pid: Some(42),
                    what: "looks".to_owned(),
                    count: Some(3),
                    text: "looks were missed".to_owned(),
                },
                Missed {
                    pid: None,
                    what: "stacks".to_owned(),
                    count: None,
                    text: "stacks too".to_owned(),
                },
            ],
            began: 1_700_000_000_000_000_000,
            took: Duration::from_millis(5001),
        }
    }

    fn written(profile: &Profile) -> Vec<u8> {
        let mut out = Vec::new();
        write(profile, &about(), &mut out).unwrap();
        out
    }

    fn profile(stacks: &[(Vec<u8>, bool)]) -> Profile {
        let mut profile = Profile::default();
        (
            profile.rounds,
            profile.unsure,
            profile.queued,
            profile.slept,
        ) = (9, 1, 2, 3);
        for (stack, native) in stacks {
            let frame = |name: &u8| Frame {
                function: Function {
                    name: format!("f{}", name / 4),
                    file: "/srv/a.rb".to_owned(),
                    kind: if *native { Kind::Native } else { Kind::Script },
                },
                line: (name % 4).into(),
                library: *name == 7,
            };
            let frames: Vec<Frame> = stack.iter().map(frame).collect();
            let wait = Wait {
                doing: format!("waits {}", stack.len()),
                lock: native.then(|| Lock {
                    pid: 7,
                    name: "mutex 0x70".to_owned(),
                }),
                holder: frames.last().cloned(),
                is_idle: stack.is_empty(),
                ..Wait::default()
            };
            profile.waits.add(7, frames.clone(), wait);
            let name = format!("t{}", stack.len());
            profile.threads.add(&name, Did::Ran, 1);
            profile.threads.add(&name, Did::Waited, 2);
            profile.add(frames);
        }
        profile
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(stacks in prop::collection::vec((prop::collection::vec(0u8..24, 0..6), any::<bool>()), 0..40)) {
            let profile = profile(&stacks);
            let bytes = written(&profile);
            let (read, known) = read(&bytes).unwrap();
            prop_assert_eq!(known, about());
            prop_assert_eq!(read.stacks(), profile.stacks());
            prop_assert_eq!(read.counts(), profile.counts());
            let waits = |profile: &Profile| {
                let each = profile.waits.each();
                let each = each.map(|(frames, wait, count)| format!("{frames:?} {wait:?} {count}"));
                each.collect::<std::collections::BTreeSet<_>>()
            };
            prop_assert_eq!(waits(&read), waits(&profile));
            prop_assert_eq!(&read.threads, &profile.threads);
            prop_assert_eq!(written(&read), bytes);
        }

        #[test]
        fn damage_is_told_and_costs_nothing(at in any::<prop::sample::Index>(), byte in 1u8..) {
            let mut bytes = written(&profile(&[(vec![1, 2, 3], false), (vec![1, 7], true)]));
            let at = at.index(bytes.len());
            bytes[at] ^= byte;
            prop_assert!(read(&bytes).is_err());
        }

        #[test]
        fn a_forged_file_is_no_profile_or_one(body in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut bytes = [&MAGIC[..], &[VERSION as u8], &body].concat();
            bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
            let _ = read(&bytes);
        }
    }

    #[test]
    fn what_is_no_profile_says_so() {
        assert_eq!(read(b"pprof").unwrap_err(), Error::Foreign);
        assert_eq!(read(b"lancet-p\x02").unwrap_err(), Error::Version(2));
        let bytes = written(&profile(&[(vec![1], false)]));
        for end in MAGIC.len() + 1..bytes.len() {
            assert_eq!(read(&bytes[..end]).unwrap_err(), Error::Damaged, "{end}");
        }
    }

    #[test]
    fn what_would_not_be_read_is_not_written() {
        let about = About {
            who: "x".repeat(MOST_BYTES),
            ..About::default()
        };
        let mut out = Vec::new();
        let error = write(&Profile::default(), &about, &mut out).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert!(out.is_empty());
    }

    #[test]
    fn processes_and_their_words_are_bounded() {
        let words = Process::new(7, vec![String::new(); 5000], Vec::new()).command;
        assert_eq!(words.len(), MOST_WORDS);
        assert_eq!(words.last().map(String::as_str), Some("…"));
        let of = |processes: usize| {
            let about = About {
                processes: vec![Process::default(); processes],
                ..about()
            };
            let mut out = Vec::new();
            write(&Profile::default(), &about, &mut out).unwrap();
            read(&out).map(|(_, about)| about.processes.len())
        };
        assert_eq!(of(MOST_PROCESSES + 1), Ok(MOST_PROCESSES + 1));
        assert_eq!(of(MOST_PROCESSES + 2), Err(Error::Damaged));
    }

    /// Each stack shares most of a thousand frames with the one before: a small file that asks for much.
    #[test]
    fn a_file_asks_for_no_more_memory_than_a_profile_may_take() {
        let mut bytes = [&MAGIC[..], &[VERSION as u8]].concat();
        bytes.extend([0; 14]);
        put(&mut bytes, 2);
        for name in [b"a", b"b"] {
            put_bytes(&mut bytes, name);
            bytes.extend([0, 0, 0]);
        }
        put(&mut bytes, 1200);
        for number in 0..1200_u32 {
            let common = if number == 0 { 0 } else { 989 };
            put(&mut bytes, common);
            put(&mut bytes, 1000 - common);
            bytes.extend(vec![0; 989 - common as usize]);
            bytes.extend((0..11).map(|bit| (number >> bit) as u8 & 1));
            bytes.push(1);
        }
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        assert_eq!(read(&bytes).unwrap_err(), Error::Damaged);
    }
}
