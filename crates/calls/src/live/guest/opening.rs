//! A process that runs is hooked: one that is opened, and one that was seen by ptrace until now and stands still for that.

use super::{Guest, Shared, open_descriptors, options};
use crate::Error;
use hooks::Tracing;
use inject::tracee::Tracee;
use process::stop::Ties;
use std::time::Instant;

impl Guest {
    /// Opens and hooks a process, and reports by messages how that went.
    pub fn open(pid: i32, shared: &Shared<'_>) -> Result<Self, Error> {
        let began = Instant::now();
        let tracing = Tracing::open(pid, shared.agent.image()?, options(shared.args))?;
        Guest::hooked(tracing, shared, began)
    }

    /// Hooks a process that is open, and reports by messages how that went.
    fn hooked(tracing: Tracing, shared: &Shared<'_>, began: Instant) -> Result<Self, Error> {
        let (args, signatures) = (shared.args, shared.signatures);
        let pid = tracing.pid();
        let mut guest = Guest::new(tracing, args);
        guest.count_beside(&shared.kernel);
        if guest.held.is_some() {
            // Without the list nothing could be said of what stays open.
            open_descriptors::numbers(pid)?;
        }
        let found = guest.say_unknown();
        let wanted = guest.wanted(signatures);
        let asked = wanted.iter().map(|one| one.names.len().max(1)).sum();
        let awaits = guest.names.are_awaited() || guest.names.found() != 0;
        if asked == 0 && found != 0 && args.condition.is_some() && !awaits && !guest.quiet {
            return Err(Error::NothingMeets(pid));
        }
        if asked == 0 && guest.names.were_refused() && !guest.names.are_awaited() {
            return Err(Error::NothingHooked(pid));
        }
        if guest.names.are_awaited() {
            guest.tracing.expect_definitions()?;
        }
        guest.say_cost(asked, wanted.len());
        let mut refused = guest.tracing.set(wanted)?;
        let places = guest.set_system_calls(signatures)?;
        guest.note_hooked();
        let few = guest.lacks_places(&places);
        if args.may_fall_back()
            && let Some(few) = few
        {
            guest.tracing.leave()?;
            return Err(few);
        }
        refused.extend(places);
        if guest.held.is_some() {
            // What it opens from now on is seen.
            guest.held = Some(open_descriptors::before(pid));
        }
        if !guest.quiet {
            if guest.sees_nothing_ever() {
                let why = guest.why_nothing(&refused);
                guest.tracing.leave()?;
                return Err(why);
            }
            guest.require_exact(refused.len());
            if let Some(unseen) = guest.inexact.take() {
                guest.tracing.leave()?;
                return Err(Error::not_exact(pid, unseen));
            }
            guest.announce(asked, &refused, began.elapsed());
            guest.say_lacking(few);
        }
        Ok(guest)
    }

    /// Hooks a process whose only thread we trace, and which stands still behind its last call; then it goes on. With `keep` lancet goes
    /// on tracing it.
    ///
    /// # Errors
    /// Why it cannot be hooked; it still stands there.
    pub fn taken_over(pid: i32, keep: bool, shared: &Shared<'_>) -> Result<Self, Error> {
        let (args, began) = (shared.args, Instant::now());
        let tracing = Tracing::open_standing(pid, shared.agent.image()?, options(args))?;
        let mut guest = Guest::hooked(tracing, shared, began)?;
        // It was reported when its calls were first seen.
        guest.introduced = true;
        let mut tracee = Tracee::taken_over(pid, keep)?;
        let ties = if keep { Ties::Kept } else { Ties::None };
        guest.tracing.tie(ties);
        // An error means that it was killed; its end is reported next.
        if keep {
            tracee.tell_signals();
            let _ = tracee.go_on(false);
            guest.tracee = Some(tracee);
        } else {
            let _ = tracee.let_go();
        }
        guest.life.keep = keep;
        Ok(guest)
    }
}
