//! Stops the threads of a process that run, and copies. Used by `beside` and `open`.

use std::ops::Range;
use std::time::{Duration, Instant};

use process::asleep::Asleep;
use process::pagemap::{Pagemap, stack_around};
use process::snapshot::{self, Copies, Overlay, Snapshot, Thread, UnwindContext};

use super::open::{ALONE, Live};
use super::recorder::Recorder;
use super::scripts::{self, Coroutine};

impl Live {
    /// Tries again until the process can be stopped, or `deadline` is over.
    pub(super) fn stop_and_copy(
        &self,
        coroutines: &[(usize, Coroutine)],
        kept: &[Asleep],
        deadline: Instant,
    ) -> process::Result<Snapshot> {
        let mut stood = Duration::ZERO;
        loop {
            let began = Instant::now();
            match self.stop_and_copy_once(coroutines, kept) {
                // If more threads want to run than there are processors, a thread may get none for long. Its first thread gives way to another
                // one that begins a program.
                Err(process::Error::WouldNotStop { .. } | process::Error::Stirred(_))
                    if Instant::now() < deadline =>
                {
                    // How much of it threads stood is not known: all of it at most.
                    let took = began.elapsed();
                    stood += took;
                    process::stop::leave_alone(took * ALONE);
                }
                Ok(mut taken) => {
                    taken.stopped += stood;
                    return Ok(taken);
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn stop_and_copy_once(
        &self,
        coroutines: &[(usize, Coroutine)],
        kept: &[Asleep],
    ) -> process::Result<Snapshot> {
        let must_stop = |thread: &Asleep| {
            let sleeps_at = (thread.call().sp, thread.call().pc);
            self.stopped_at.get(&thread.tid()) == Some(&sleeps_at)
        };
        let Live { vms, memory, .. } = self;
        let pagemap = Pagemap::open(self.pid).ok();
        Snapshot::take(
            self.pid,
            &self.maps,
            &self.likely(),
            snapshot::Wanted {
                must_stop: &must_stop,
                kept,
            },
            &mut |thread, copied| {
                let mut wanted = self.wanted_of(thread, copied);
                if thread.main {
                    let overlay = Overlay {
                        copies: copied,
                        rest: memory,
                    };
                    let end = |at: u64| stack_around(pagemap.as_ref(), &self.maps, at).end;
                    wanted.extend(scripts::wanted_of_parked(vms, &overlay, coroutines, &end));
                }
                wanted
            },
        )
    }

    /// Returns what must be copied with a thread whose stack was copied, so that its script frames can be read afterwards.
    pub(super) fn wanted_of(&self, thread: &Thread, copied: &Copies) -> Vec<Range<u64>> {
        let overlay = Overlay {
            copies: copied,
            rest: &self.memory,
        };
        let vms = self.vms.iter();
        vms.flat_map(|vm| vm.wanted(&overlay, thread, copied))
            .collect()
    }

    /// Returns the ranges that would be read of the main thread if it stood still now. When it does stand still, most of them
    /// are still right.
    fn likely(&self) -> Vec<Range<u64>> {
        let main = Thread {
            tid: self.pid,
            own_id: self.pid,
            name: String::new(),
            main: true,
            context: UnwindContext::default(),
            mapping: 0..0,
            activity: process::snapshot::Activity::Unknown,
        };
        let nothing = Copies::default();
        let recorder = Recorder::of(&self.memory);
        let wanted: Vec<Range<u64>> = self
            .vms
            .iter()
            .flat_map(|vm| vm.wanted(&recorder, &main, &nothing))
            .collect();
        let mut ranges = recorder.ranges();
        ranges.extend(wanted);
        ranges
    }
}
