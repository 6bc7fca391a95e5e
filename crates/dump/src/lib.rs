//! Heap snapshots of running programs: every object and every reference, while the program goes on.
//!
//! ```text
//!   lancet                          guest                     its copy (a child)
//!   enter::Copyable ──────────────► at a safe point: clone ──► one thread, copy-on-write, nothing runs in it but the agent
//!   Copy::open: /proc/CHILD/fd/N ─────────────────────────────► roots, objects, references ──► pipe
//!   stream::Reader ◄───────────────────────────────────────────────────────────────────────────┘
//!   Maker ◄── names ◄── Frozen: memory of the copy, which nothing changes
//!   heap::Snapshot
//!   kill (pidfd) ─────────────────────────────────────────────► ends
//!   Guest::leave ──────────────────► wait4(__WCLONE)
//! ```
//!
//! Which references there are, the VM itself says, called in the copy by the agent (`agent::snapshot`): so what C extensions hold is
//! there too. What they are called is read from the copy's memory by `vm`, and joined to them by their targets; a reference that
//! nothing names is `Internal`.
//!
//! | module | what |
//! |---|---|
//! | `guest` | the process that is copied, of any language |
//! | `compaction` | in the place of a snapshot: what `GC.compact` would give back |
//! | `allocator` | in the place of a snapshot: what another allocator than glibc's says of itself |
//! | `outside` | one whose VM is not called: copied where it stands |
//! | `expected` | what reading a heap will take, before it is copied |
//! | `core` | the same from core files, in which nothing can be called |
//!
//! The copy from outside is [`enter::copy`]; how a language's heap is read is in its folder of crate `languages`. Perl and PHP count
//! references in the objects themselves, so their heaps are read from the copy's memory alone, and no function of theirs is called.
//!
//! Everything that comes from the copy is the guest's word: it is checked where it is read, and cannot make more objects than the
//! guest has memory for.

#![forbid(unsafe_code)]

mod allocator;
mod compaction;
pub mod core;
mod expected;
mod guest;
mod outside;

pub use allocator::Answers;
pub use compaction::{Compaction, HeapPages};
use enter::copied::{Lack, lack_of_room, resident};
use enter::copy::Copy;
use enter::{Counting, Timing};
pub use expected::{Expected, of_process as expected};
use guest::Guest;
use heap::{About, Budget, Builder, Snapshot};
use inject::Image;
use process::error::{Error, Result};
use process::guest::Status;
use process::priority;
use process::programs;
use process::rss::Resident;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// What is wanted of a snapshot.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Contents of strings are kept.
    pub contents: bool,
    /// Births are counted so until the copy is made: objects that are made meanwhile have their line.
    pub births: Option<&'static Counting>,
    /// The copy is made although the memory limit of the process may not bear it.
    pub despite_limit: bool,
    /// The most memory that the snapshot and what is made of it may take, in bytes; what has no room is left out and counted.
    pub most_memory: Option<u64>,
    /// The copy is ended after this time, whatever has not been read. The time for which it waits for a processor does not count, up to
    /// what a copy lives at most.
    pub patience: Duration,
    /// Called now and then, with the id of the process, while the copy is waited for because it gets no processor.
    pub starved: fn(i32),
    /// Called with the id of the process and what reading its heap will take, when it has been copied and before the copy is read.
    pub expected: fn(i32, Expected),
}

impl Default for Options {
    fn default() -> Self {
        Options {
            contents: false,
            births: None,
            despite_limit: false,
            most_memory: None,
            patience: Duration::from_secs(120),
            starved: |_| {},
            expected: |_, _| {},
        }
    }
}

/// A snapshot, and what making it has cost the guest.
#[derive(Debug)]
pub struct Taken {
    /// Objects, references and roots, as they were when the copy was made.
    pub snapshot: Snapshot,
    /// How long the VM stood still for the copy.
    pub pause: Duration,
    /// How long the copy lived. Meanwhile a page of the guest's that is written is copied first.
    pub lived: Duration,
    /// The guest's stops for getting into it and out.
    pub stops: Timing,
    /// Objects that the collector had found dead and not yet swept; they are left out.
    pub garbage: u64,
}

/// Refuses where every page of a process with so many bytes in memory could not be copied within its memory limit. The kernel ends the copy first, but what that
/// gives back comes with a delay, in which it may end the process as well: seen once in ten rounds with a program that writes all of its
/// memory without a pause and has an eighth of it left (Linux 6.18, `memory.limit_in_bytes`). That risk may be taken, but not where
/// the kernel ends the process with its copy by rule.
///
/// # Errors
/// The room is too small, or not known.
pub fn find_room(pid: i32, resident: u64, despite_limit: bool) -> Result<()> {
    match lack_of_room(pid, resident) {
        Some(Lack::Room {
            left,
            most,
            ends_together: true,
        }) => Err(Error::EndsWithCopy { pid, left, most }),
        Some(Lack::Room { left, most, .. }) if !despite_limit => {
            Err(Error::NoRoomForCopy { pid, left, most })
        }
        Some(Lack::Hidden) if !despite_limit => Err(Error::LimitHidden { pid }),
        _ => Ok(()),
    }
}

/// A process that is open for a snapshot. It is left when this value is dropped.
#[derive(Debug)]
pub struct Opened {
    guest: Guest,
    options: Options,
    /// Since when births have been counted.
    since: Option<SystemTime>,
}

impl Opened {
    /// Opens a running Ruby, 2.7 to 4.0, Python, 3.9 to 3.15, Perl, 5.32 to 5.44, or PHP, 7.4 or 8.1 to 8.6.
    ///
    /// # Errors
    /// It cannot be opened, or its memory limit may not bear a copy.
    pub fn open(pid: i32, image: &Image, options: Options) -> Result<Self> {
        // Before a snapshot of lancet's ends the process, where memory ends for both.
        priority::end_before_others();
        find_room(pid, resident(pid), options.despite_limit)?;
        Ok(Opened {
            guest: programs::at_present(pid, || Guest::open(pid, image, options.births))?,
            since: options.births.map(|_| SystemTime::now()),
            options,
        })
    }

    /// Looks whether births are still counted. A program that is about to make its first Ractor waits for this.
    ///
    /// # Errors
    /// They are not, and why; or the process is gone.
    pub fn look(&mut self) -> Result<()> {
        self.guest.look()
    }

    /// Makes the snapshot, and leaves.
    ///
    /// # Errors
    /// The process cannot be copied, or its copy ended before its heap was read. The guest goes on in each case.
    pub fn take(mut self) -> Result<Taken> {
        let read = self.read();
        // The agent waits for the copy, which has ended by now.
        let left = self.guest.leave();
        let (builder, made) = read?;
        let stops = left?;
        Ok(Taken {
            snapshot: priority::beside(|| builder.finish()),
            pause: made.pause,
            lived: made.lived,
            stops,
            garbage: made.garbage,
        })
    }

    fn read(&mut self) -> Result<(Builder, Made)> {
        let pid = self.guest.pid();
        let (resident, all) = in_memory(pid)?;
        let budget = Budget::of_memory(all).affording(affordable(self.options.most_memory));
        let copied = self.guest.copy()?;
        let born = Instant::now();
        let mut copy = Copy::open(pid, copied)?;
        copy.when_starved(self.options.starved);
        let expected = Expected::of(self.guest.slots(&copy, all), all, budget);
        (self.options.expected)(pid, expected);
        copy.begin(wire::snapshot::Opened::ToRead)?;
        let builder = Builder::within(self.about(resident), budget);
        let since = self.since.map(nanoseconds);
        let until = born + self.options.patience;
        let read = self.guest.read(&copy, builder, since, until);
        process::fault::point("heap is read");
        let lived = born.elapsed();
        let ended = copy.end();
        let (builder, garbage) = read?;
        ended?;
        let made = Made {
            pause: copied.pause,
            lived,
            garbage,
        };
        Ok((builder, made))
    }

    fn about(&self, resident: Resident) -> About {
        let pid = self.guest.pid();
        let (language, version) = self.guest.language();
        let kernel = |name: &str| {
            std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default()
        };
        let (host, boot) = (kernel("hostname"), kernel("random/boot_id"));
        About {
            language: language.description().prefix.to_owned(),
            version,
            pid,
            taken_at: nanoseconds(SystemTime::now()),
            rss: resident.memory,
            command_line: process::guest::command_line(pid),
            host: host.trim().to_owned(),
            boot: boot.trim().to_owned(),
            started: Status::read(pid).map_or(0, |status| status.start),
            contents: self.options.contents,
            ..About::default()
        }
    }
}

/// What a process has in memory, and how many bytes that are with those in swap.
fn in_memory(pid: i32) -> Result<(Resident, u64)> {
    let resident = Resident::of(pid).map_err(|error| Error::of_proc(pid, "status", error))?;
    let all = resident.memory.saturating_add(resident.swap);
    Ok((resident, all))
}

/// The most memory that a snapshot and what is made of it may take: three quarters of what there is for lancet, and no more than `most`.
fn affordable(most: Option<u64>) -> u64 {
    let there = process::control_group::memory_for(std::process::id() as i32) / 4 * 3;
    most.map_or(there, |most| there.min(most))
}

struct Made {
    pause: Duration,
    lived: Duration,
    garbage: u64,
}

/// Returns nanoseconds since 1970; 0 for a time before that.
fn nanoseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}
