//! Messages about what was hooked in a guest, and what was not. Used by `guest`, `opening`, `life::watched` and others.

use super::super::unseen;
use super::Guest;
use crate::Error;
use crate::allocations::is_paired;
use crate::message::MOST_NAMED;
use crate::message::Message;
use hooks::{Reason, Refused};
use std::collections::BTreeMap;
use std::time::Duration;

impl Guest {
    /// Reports before hooks are set what they are expected to take, if that is more than one stop.
    pub(super) fn say_cost(&self, asked: usize, hooks: usize) {
        let cost = self.tracing.cost_of(hooks);
        if cost.stops > 1 && !self.quiet {
            self.messages.say(Message::Hooking {
                pid: self.pid(),
                asked,
                stops: cost.stops,
                each: cost.each,
                all: cost.all,
            });
        }
    }

    /// Reports what was hooked at first, and what could not be.
    pub(super) fn announce(&mut self, asked: usize, refused: &[Refused], took: Duration) {
        let tracing = &self.tracing;
        let timing = tracing.timing();
        let several = tracing.cost_of(asked).stops > 1;
        let stops = several.then_some((timing.stops, timing.stopped));
        self.messages.say(Message::Hooked {
            pid: tracing.pid(),
            hooked: tracing.hooked(),
            asked,
            system_calls: tracing.system_calls(),
            took,
            stopped: timing.longest_stop,
            stops,
        });
        self.say_refused(refused);
        if self.says_unseen {
            let pid = tracing.pid();
            let unseen = unseen::of(tracing, refused.len());
            self.countable = unseen::Countable::of(tracing);
            self.messages.say(Message::Unseen { pid, unseen });
        }
        self.say_awaited();
        self.say_no_lines();
    }

    /// Notes what is not seen of what was requested, if all must be seen; `refused` places were refused.
    pub(super) fn require_exact(&mut self, refused: usize) {
        if let Some(unseen) = self.unseen(refused)
            && !unseen.is_empty()
        {
            self.inexact = Some(unseen);
        }
    }

    /// Returns what is not seen of what was requested; `None` = not all must be seen.
    fn unseen(&self, refused: usize) -> Option<Vec<String>> {
        let children = self.exact?;
        let unseen = unseen::of(&self.tracing, refused);
        let returns = self.selection.has_system_call("rt_sigreturn");
        Some(unseen::asked(unseen, returns, children))
    }

    /// Returns what is not seen of it although all must be.
    pub fn inexact(&self) -> Option<&[String]> {
        self.inexact.as_deref()
    }

    /// Returns why too few of its places of system calls are hooked, if these were refused: more than a few of all, or more than a few of
    /// those in the program itself, which makes its calls there.
    pub(super) fn lacks_places(&self, refused: &[Refused]) -> Option<Error> {
        /// One place in this many may be lacking.
        const ONE_IN: usize = 8;
        /// So many may always be lacking: a small program has few places.
        const ALWAYS: usize = 4;
        // Where nothing is hooked there is a better reason than this.
        if !self.says_unseen || self.tracing.system_calls()[0] == 0 {
            return None;
        }
        // One place that may be none is no reason to do without hooks.
        let is_of_program = |one: &&Refused| {
            let is_proven = one.reason != Reason::NotProven;
            is_proven && self.tracing.is_of_program(one.function.address)
        };
        let of_program: Vec<&Refused> = refused.iter().filter(is_of_program).collect();
        let [programs, all] = self.tracing.places();
        let (of_whose, places, whose) = if of_program.len() * ONE_IN > programs {
            (of_program, programs, "the program itself makes")
        } else if refused.len() > ALWAYS && refused.len() * ONE_IN > all {
            (refused.iter().collect(), all, "it makes")
        } else {
            return None;
        };
        Some(Error::FewPlacesHooked {
            pid: self.pid(),
            refused: of_whose.len(),
            places,
            whose,
            reason: commonest(of_whose.iter().copied()).0,
            of_32_bits: refused.iter().any(|one| one.reason.is_of_32_bits()),
        })
    }

    /// Reports, as a loss, that too few of its places are hooked.
    pub(super) fn say_lacking(&self, few: Option<Error>) {
        if let Some(error) = few.filter(|_| self.exact.is_none()) {
            let pid = self.pid();
            self.messages.say(Message::FewPlaces { pid, error });
        }
    }

    /// Reports, as a loss, what has come that hooks do not see since that was reported last.
    pub(super) fn say_what_came(&mut self) {
        if !self.says_unseen || self.exact.is_some() {
            return;
        }
        let pid = self.pid();
        let now = unseen::Countable::of(&self.tracing);
        let unseen = now.more_than(&self.countable);
        if !unseen.is_empty() {
            self.messages.say(Message::CameUnseen { pid, unseen });
        }
        self.countable = now;
    }

    /// Reports, when it is left or ends, what has become unseen since it was opened.
    pub(super) fn say_inexact(&mut self) {
        self.say_what_came();
        self.say_unhooked(false);
        let pid = self.pid();
        if let Some(unseen) = self.unseen(0)
            && !unseen.is_empty()
            && self.inexact.is_none()
        {
            self.messages.say(Message::NotExact { pid, unseen });
        }
    }

    /// Reports, when it is time, that it is connected to a database by a driver that has no function to hook.
    pub(super) fn look_for_peers(&mut self) {
        let pid = self.pid();
        let (tracing, selection) = (&self.tracing, &self.selection);
        let functions = || selection.functions(tracing.functions());
        let peer = self.peers.look(pid, &**tracing.memory(), functions);
        if let Some(peer) = peer.filter(|_| !self.quiet) {
            self.messages.say(Message::NoDriver { pid, peer });
        }
    }

    /// Reports why calls will have no script lines, or by what they are read without a table. A program that has just begun may still make a
    /// VM.
    pub(super) fn say_no_lines(&self) {
        if let Some(note) = self.tracing.without_table() {
            let (pid, note) = (self.pid(), note.to_owned());
            self.messages.say(Message::WithoutTable { pid, note });
        }
        if let Some(reason) = self.tracing.no_lines()
            && !self.tracing.awaits_script()
        {
            let reason = reason.to_string();
            self.messages.say(Message::NoScriptLines { reason });
        }
    }

    /// Returns why nothing of it is hooked. If more places of system calls are refused than one message names, their number is given
    /// instead of their names.
    pub(super) fn why_nothing(&self, refused: &[Refused]) -> Error {
        let pid = self.pid();
        if !self.says_unseen || refused.len() <= MOST_NAMED {
            self.say_refused(refused);
            return Error::NothingHooked(pid);
        }
        let (reason, _) = commonest(refused.iter());
        Error::NoPlaceHooked {
            pid,
            places: refused.len(),
            reason: reason.to_owned(),
        }
    }

    /// Reports which functions were refused: one message for each reason; for functions of a pattern or a preset only their number, unless
    /// its answer needs all of them.
    pub(super) fn say_refused(&self, refused: &[Refused]) {
        let is_told = |one: &&Refused| {
            let name = &one.function.name;
            let is_needed = self.pairs_allocations && is_paired(name);
            self.verbose || is_needed || self.selection.names(name)
        };
        let (refused, counted): (Vec<&Refused>, Vec<_>) = refused.iter().partition(is_told);
        if !counted.is_empty() {
            let (reason, has_it) = commonest(counted.iter().copied());
            self.messages.say(Message::NotHooked {
                pid: self.pid(),
                count: counted.len(),
                reason,
                has_it,
            });
        }
        let mut by_reason: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for refused in refused {
            let names = by_reason.entry(refused.reason.to_string()).or_default();
            names.push(refused.function.name.clone());
        }
        for (reason, names) in by_reason {
            // A message names only some. All are named on request (`calls -v`); places of system calls would fill screens if another
            // lancet has hooked some hundreds of them.
            let names_each = self.verbose && !self.says_unseen;
            let most = if names_each { MOST_NAMED } else { names.len() };
            for names in names.chunks(most) {
                let (names, reason) = (names.to_vec(), reason.clone());
                self.messages.say(Message::Refused { names, reason });
            }
        }
    }
}

/// The reason of most of those that were refused, and how many have it.
fn commonest<'r>(refused: impl Iterator<Item = &'r Refused>) -> (String, usize) {
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for one in refused {
        *reasons.entry(one.reason.to_string()).or_default() += 1;
    }
    let most = reasons.into_iter().max_by_key(|(_, count)| *count);
    most.unwrap_or_default()
}
