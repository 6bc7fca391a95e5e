//! The life of a process whose blocks are counted: it is opened or started, libraries come and go, it ends or is left. Used by `native`.

use super::{Event, Native, Shared, new, not_hooked, with_lines};
use hooks::{Arrives, Options, Says, Tracing};
use inject::lifecycle::{Observer, Stage, Turn, Watched, leave_past_events};
use inject::tracee::{Happening, Tracee};
use process::error::{Error, Result};
use process::stop::Ties;
use std::convert::Infallible;
use std::time::Duration;
use wire::calls::line_policy;

/// Bytes of a thread's ring, in which hooks that count blocks write nothing.
const RING: u64 = 1 << 16;
/// The same where they write lines of scripts: there is room for about two thousand of these, which are read ten times a second.
const RING_OF_LINES: u64 = 1 << 18;
/// How long a thread waits for room there; and without it none would wait at the process's end until it was looked at.
const MOST_WAIT: Duration = Duration::from_millis(100);
/// How long the process may stand still at once while hooks are set.
const MAX_STOP: Duration = Duration::from_millis(10);

/// How a process is opened; `lines`: lines of scripts are told.
fn options(lines: bool) -> Options {
    Options {
        ring_size: if lines { RING_OF_LINES } else { RING },
        most_wait: MOST_WAIT,
        line_policy: line_policy::APPLICATION,
        max_stop: MAX_STOP,
        ..Options::default()
    }
}

impl Native {
    /// Handles the notices of its threads.
    fn handle_notices(&mut self, turn: &mut Turn<'_, Self>) -> Result<bool> {
        let notices = self.tracing.notices()?;
        for notice in &notices {
            let ours = notice.pid == self.pid();
            match notice.says {
                Says::Ends(_) | Says::Exec if ours && self.counts() => self.part(),
                Says::ExecFailed if ours => self.parted = None,
                Says::Locks { program } => {
                    if let Some(why) = self.tracing.is_locked_out(notice, program) {
                        turn.tell(Event::Leaving(self.pid(), why));
                        // The thread waits until the process has been left.
                        self.to_leave = true;
                        return Ok(true);
                    }
                }
                // The VM is made: its frames can be read from now on.
                Says::Script if ours && self.counts() && self.tells_lines => {
                    let begun = self.tracing.script_begins().and_then(|()| self.set());
                    if let Err(error) = begun
                        && !error.is_left()
                    {
                        turn.tell(Event::Leaving(self.pid(), error.to_string()));
                        self.to_leave = true;
                    }
                }
                _ => {}
            }
            self.tracing.handled_notice(notice)?;
        }
        Ok(!notices.is_empty())
    }

    /// Handles that libraries have come or gone.
    fn follow(&mut self) -> Result<()> {
        // What is unloaded must have its names before.
        let _ = self.look();
        let asked = self.asks_lines();
        let wrappers = &mut self.wrappers;
        let wanted = |tracing: &Tracing| {
            let mut wanted = new(wrappers, tracing);
            with_lines(&mut wanted, asked);
            wanted
        };
        let refused = self.tracing.follow(wanted, Vec::new())?;
        self.lacking.extend(refused.iter().map(not_hooked));
        Ok(())
    }

    /// Opens a program that stands at its exec, which goes on. Its blocks are counted when its loader has loaded its libraries.
    fn begin(mut tracee: Tracee, shared: &Shared) -> std::result::Result<Self, (Tracee, Error)> {
        let options = options(shared.lines);
        let mut native = match Tracing::at_exec(&mut tracee, &shared.image, options) {
            Ok(tracing) => Native::new(tracing, shared.lines),
            Err(error) => return Err((tracee, error)),
        };
        let is_led = native.tracing.arrives() == Arrives::AtThread;
        if let Err(error) = tracee.go_on(is_led) {
            return Err((tracee, error));
        }
        native.tracing.tie(Ties::Kept);
        native.tracee = Some(tracee);
        Ok(native)
    }

    /// Counts its blocks from now on: it has its libraries, and none of its own code has run.
    fn arrive(&mut self, turn: &mut Turn<'_, Self>) {
        let Some(mut tracee) = self.tracee.take() else {
            return;
        };
        let stood = tracee.stand_still();
        self.tracing.tie(Ties::Standing);
        let counted = stood.and_then(|()| self.count());
        self.tracing.tie(Ties::Kept);
        // An error means that it was killed; its end is reported next.
        let _ = tracee.go_on(false);
        self.tracee = Some(tracee);
        if let Err(error) = counted
            && !error.is_left()
        {
            turn.tell(Event::Uncounted(error));
            self.to_leave = true;
        }
    }

    fn count(&mut self) -> Result<()> {
        // What is loaded is known then. The loader waits no longer, but its thread stands still.
        self.tracing.follow(|_| Vec::new(), Vec::new())?;
        self.set()
    }

    /// Sets the hooks that count.
    fn set(&mut self) -> Result<()> {
        let (allocator, wanted) = self.family()?;
        let refused = self.tracing.set(wanted)?;
        self.note_refused(&refused)?;
        self.allocator = allocator;
        Ok(())
    }
}

impl Watched for Native {
    const TRACES_ALL: bool = false;
    type Shared<'a> = Shared;
    type Start = Infallible;
    type Event = Event;
    type Error = Error;

    fn open(pid: i32, shared: &Shared) -> Result<Self> {
        let tracing = Tracing::open(pid, &shared.image, options(shared.lines))?;
        let mut native = Native::new(tracing, shared.lines);
        native.set()?;
        Ok(native)
    }

    fn at_exec(
        tracee: Tracee,
        keep: bool,
        shared: &Shared,
    ) -> std::result::Result<Stage<Self>, (Tracee, Error)> {
        match keep {
            true => Native::begin(tracee, shared).map(Stage::Open),
            false => Ok(Stage::Plain(tracee)),
        }
    }

    fn go_on(start: &Infallible, _: &mut Tracee) -> Result<()> {
        match *start {}
    }

    fn proceed(
        start: Infallible,
        _: Tracee,
        _: bool,
        _: &Shared,
    ) -> std::result::Result<Stage<Self>, (Tracee, Error)> {
        match start {}
    }

    fn leave_start(start: &mut Infallible) -> Result<()> {
        match *start {}
    }

    fn opened(&self, _: &mut dyn Observer<Self>) {}

    fn tracee(&mut self) -> &mut Option<Tracee> {
        &mut self.tracee
    }

    fn stands(&mut self, happening: Happening, _: &Shared, turn: &mut Turn<'_, Self>) {
        let is_led = self.tracing.arrives() == Arrives::AtThread;
        match happening {
            Happening::Ended(code) => {
                self.code = Some(code);
                self.over = true;
                return;
            }
            Happening::Exec => {
                self.over = true;
                return;
            }
            // Whatever ends it: its memory is still there.
            Happening::Ending if self.counts() => self.part(),
            Happening::Syscall if is_led && self.tracing.has_thread_pointer() => {
                return self.arrive(turn);
            }
            _ => {}
        }
        if let Some(tracee) = &mut self.tracee {
            // An error means that the process is gone; its end is reported next.
            let _ = tracee.go_on(is_led);
        }
    }

    fn is_unseen(&mut self) {
        self.over = true;
    }

    fn poll(&mut self, _: &Shared, turn: &mut Turn<'_, Self>) -> bool {
        if self.over {
            return false;
        }
        if let Ok(Some(_)) = self.tracing.end_silence() {
            self.silenced = true;
        }
        let any = self.handle_notices(turn).unwrap_or(false);
        if self.counts() {
            // That it has ended is seen below; what cannot be read is said at the next look.
            let _ = self.keep_up();
        }
        if self.tracing.has_news().unwrap_or(false) {
            if !self.counts() {
                self.arrive(turn);
            } else if let Err(error) = self.follow()
                && !error.is_left()
            {
                turn.tell(Event::Leaving(self.pid(), error.to_string()));
                self.to_leave = true;
            }
        }
        // The end of a thread that is traced is seen by its tracer.
        if self.tracee.is_none() && (!self.tracing.is_alive() || self.tracing.is_replaced()) {
            self.over = true;
        }
        any
    }

    fn is_to_leave(&self) -> bool {
        self.to_leave
    }

    fn is_over(&self) -> bool {
        self.over
    }

    fn code(&self) -> Option<i32> {
        self.code
    }

    fn leave(&mut self) -> Result<()> {
        if self.over {
            return Ok(());
        }
        // What is known when the gate closes stays known.
        let _ = self.tracing.end_silence();
        let left = leave_past_events(self.tracee.as_mut(), || self.tracing.leave())?;
        self.stays = left.map(|stays| self.tracing.why(stays));
        Ok(())
    }
}
