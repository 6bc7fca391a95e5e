//! Measures what `GC.compact` would give back, in a copy of the process, so that the process itself is not changed
//! (`agent::languages`, `snapshot::compact`); the copy is ended afterwards.
//!
//! A compaction writes to most pages, and each written page is duplicated for the copy. So it is refused if the memory limit of the
//! process, or the machine, has less memory left than the process uses.

use crate::Opened;
use enter::copy::Copy;
use enter::copy::confined::{Outcome, run};
use languages::snapshot::copied::CopiedProcess;
use process::error::{Error, Result};
use process::rss::Resident;
use std::time::{Duration, Instant};
use vm::Language;
use wire::snapshot::{self, Stage};

/// How long the copy may take. A heap of a gigabyte takes one or two seconds.
const PATIENCE: Duration = Duration::from_secs(20);

/// Pages of a heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeapPages {
    /// All pages of the heap, including empty ones.
    pub all: u64,
    /// Pages without an object.
    pub empty: u64,
}

/// What a compaction has done in a copy.
#[derive(Clone, Copy, Debug)]
pub struct Compaction {
    /// Language of the VM whose heap was compacted.
    pub language: Language,
    /// Pages of the heap before the compaction. Garbage that is not swept yet counts as objects.
    pub before: HeapPages,
    /// Pages of the heap after the compaction.
    pub after: HeapPages,
    /// Bytes of a page.
    pub page: u64,
    /// How long the compaction took in the copy.
    pub took: Duration,
    /// How long the VM of the process stood still for the copy.
    pub pause: Duration,
}

impl Opened {
    /// Compacts the heap of a copy of the process, then leaves the process.
    ///
    /// # Errors
    /// Its VM has no compaction, it cannot be copied, memory is short, or the copy ended or hung.
    pub fn compact(mut self) -> Result<Compaction> {
        let compacted = self.compacted();
        // The agent reaps the copy, which has ended by now.
        let left = self.guest.leave();
        let compaction = compacted?;
        left?;
        Ok(compaction)
    }

    fn compacted(&mut self) -> Result<Compaction> {
        let pid = self.guest.pid();
        let page = self.guest.page_of_compaction();
        let page = page.map_err(|error| refused(pid, &error))?;
        let page = page.ok_or_else(|| refused(pid, "its language has no compaction"))?;
        let (language, _) = self.guest.language();
        find_memory(pid)?;
        let copied = self.guest.copy()?;
        let copy = Copy::open(pid, copied)?;
        let begun = Instant::now();
        let done = await_compaction(&copy, language);
        let took = begun.elapsed();
        let pages = done.and_then(|()| copy.pages());
        copy.end()?;
        let [before, after] = pages?.map(|[all, empty]| HeapPages { all, empty });
        Ok(Compaction {
            language,
            before,
            after,
            page,
            took,
            pause: copied.pause,
        })
    }
}

/// Starts the compaction in the copy and waits for its end.
fn await_compaction(copy: &Copy, language: Language) -> Result<()> {
    let to_compact = snapshot::Opened::ToCompact;
    let reason = match run(copy, to_compact, Stage::Compacted, PATIENCE)? {
        Outcome::Done => return Ok(()),
        Outcome::Refused => format!(
            "its {language} cannot compact on this machine, or a copy of it cannot be confined (seccomp)"
        ),
        Outcome::Ended(how) => format!("a copy of it that did so {how}"),
        Outcome::Late => format!(
            "a copy of it had not done so within {} s: it waits for another thread, which is not in it, or for a lock that such a thread had",
            PATIENCE.as_secs()
        ),
    };
    Err(refused(copy.parent(), &reason))
}

/// Fails if the machine has less memory left than the process uses.
fn find_memory(pid: i32) -> Result<()> {
    let resident = Resident::of(pid).map_err(|error| Error::of_proc(pid, "status", error))?;
    let left = process::control_group::memory_for(pid);
    if left < resident.memory {
        let (left, most) = (left >> 20, resident.memory >> 20);
        return Err(refused(
            pid,
            &format!(
                "the machine has {left} MiB of memory left, and a copy that is compacted may need {most}"
            ),
        ));
    }
    Ok(())
}

fn refused(pid: i32, reason: &str) -> Error {
    Error::NotCompacted {
        pid,
        reason: reason.to_owned(),
    }
}
