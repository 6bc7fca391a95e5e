//! Sets and lifts hooks: plans them while the process runs, and writes them in one stop, or in several ([`crate::batches`]).
//! Used by `batches`, `built`, `ifuncs` and others.

use crate::areas::Areas;
use crate::bound::Bound;
use crate::layers::Layers;
use crate::lifting;
use crate::open_calls;
use crate::parked::Standing;
use crate::pool;
use crate::set::Edit;
use crate::table::{HookTable, Known, stands_whole};
use crate::target::Target;
use crate::text::Texts;
use crate::wanted::{Reason, Refused, Wanted, is_asked};
use process::error::Result;
use process::maps::Maps;
use process::tries::{PAUSE, TRIES};
use std::collections::HashMap;
use wire::calls::{Hook, want};

/// What was seen in the stop in which hooks were lifted.
#[derive(Debug)]
pub(crate) struct Lifted {
    /// Where the threads were.
    pub standing: Standing,
    /// Ring and row of each counted call that was open.
    pub open: Vec<(u64, u64)>,
}

/// The hooks of one session in one process: the memory of their records, stubs and programs, the table of them, and the decoded code for
/// planning them.
#[derive(Debug)]
pub(crate) struct Patcher {
    /// Memory in the process for records, stubs and programs.
    pub areas: Areas,
    pub table: HookTable,
    /// Programs of crate `capture` and lists of callers that were written in this session, with their addresses.
    pub programs: HashMap<Vec<u64>, u64>,
    /// Tests of script lines, which are written together with the first hooks.
    pub line_tests: Vec<u64>,
    /// Addresses of the records of system calls by their number, which probes around `syscall` instructions are given.
    pub by_number: Vec<u64>,
    /// Code that was decoded, for as long as hooks are being set.
    pub texts: Texts,
    /// Whether new hooks are silent for now ([`crate::batches`]).
    pub silent: bool,
    /// Whether the stubs of new hooks were written before the stop.
    pub stubs_are_there: bool,
    /// The places of hooks that are silent for now, with what is wanted of each.
    pub silenced: Vec<(u64, u64)>,
}

/// Hooks that are planned between two looks at whether there is memory left.
const LOOKED_AT: usize = 64;

impl Patcher {
    pub fn new(areas: Areas, line_tests: Vec<u64>) -> Self {
        Patcher {
            areas,
            table: HookTable::default(),
            programs: HashMap::new(),
            line_tests,
            by_number: Vec::new(),
            texts: Texts::default(),
            silent: false,
            stubs_are_there: false,
            silenced: Vec::new(),
        }
    }

    /// Makes the patcher for a child of the process, which has copies of all that was written.
    pub fn of_child(&self) -> Self {
        Patcher {
            areas: self.areas.clone(),
            table: self.table.clone(),
            programs: self.programs.clone(),
            line_tests: Vec::new(),
            by_number: self.by_number.clone(),
            texts: Texts::default(),
            silent: false,
            stubs_are_there: false,
            silenced: Vec::new(),
        }
    }

    /// Notes the hooks of earlier attaches. They have been lifted ([`lifting::lift_left`]), except for the one on the unwinder where frames of
    /// ours may be on a stack.
    pub fn find_earlier(&mut self, target: &Target) -> Result<()> {
        let layers = Layers::of(&target.memory)?;
        for (at, hook) in self.areas.hooks(&target.memory)? {
            let asked = hook.set != 0 && is_asked(&target.resident, hook.routine);
            self.table.insert_earlier(Known {
                at,
                set: asked && stands_whole(&target.memory, &layers, &hook),
                hook,
                function: None,
            });
        }
        Ok(())
    }

    /// Hooks functions. Returns those that cannot be hooked, with the reason. A function that a thread is executing, or whose
    /// code has just changed, is tried again a moment later. Decoded code is kept for the next call: see [`Patcher::forget_code`].
    pub fn set(&mut self, target: &Target, wanted: Vec<Wanted>) -> Result<Vec<Refused>> {
        let wanted = self.with_pickers(wanted);
        let wanted = self.with_returns(target, wanted);
        let mut refused = self.try_set(target, wanted.clone())?;
        for _ in 0..TRIES {
            let again: Vec<u64> = refused
                .iter()
                .filter(|refused| refused.reason.may_pass())
                .map(|refused| refused.function.address)
                .collect();
            if again.is_empty() {
                break;
            }
            std::thread::sleep(PAUSE);
            if refused
                .iter()
                .any(|refused| refused.reason == Reason::Changed)
            {
                // The plans that came to nothing have taken padding.
                self.forget_code();
            }
            refused.retain(|refused| !refused.reason.may_pass());
            let wanted = wanted.iter();
            let wanted = wanted.filter(|wanted| again.contains(&wanted.function.address));
            refused.extend(self.try_set(target, wanted.cloned().collect())?);
        }
        Ok(refused)
    }

    fn try_set(&mut self, target: &Target, wanted: Vec<Wanted>) -> Result<Vec<Refused>> {
        let (mut refused, mut steps) = (Vec::new(), Vec::new());
        let mut texts = std::mem::take(&mut self.texts);
        let layers = Layers::of(&target.memory)?;
        texts.decode_ahead(target, &self.table, &wanted);
        for (number, wanted) in wanted.into_iter().enumerate() {
            if number % LOOKED_AT == 0 {
                process::limits::check_room()?;
            }
            match self.step(target, &wanted, &mut texts, &layers) {
                Ok(step) => steps.push(step),
                Err(reason) => refused.push(Refused {
                    function: wanted.function,
                    reason,
                }),
            }
        }
        self.texts = texts;
        if !steps.is_empty() {
            self.set_steps(target, steps, &mut refused)?;
        }
        Ok(refused)
    }

    /// Takes back all hooks of a batch of which not all could be written.
    pub(crate) fn take_back(
        &mut self,
        edit: &mut Edit,
        hooks: impl Iterator<Item = (u64, Hook)>,
    ) -> Result<()> {
        let memory = &edit.target.memory;
        // The counters of these probes' users have not been raised yet.
        let uncounted = |hook| Hook {
            semaphore: 0,
            ..hook
        };
        let hooks: Vec<(u64, Hook)> = hooks.map(|(at, hook)| (at, uncounted(hook))).collect();
        lifting::put_back(edit.stop, edit.remote, &edit.layers, &hooks)?;
        for (_, hook) in &hooks {
            self.table.mark(hook.place, false);
            self.table.set_want(memory, hook.place, 0)?;
        }
        Ok(())
    }

    /// Drops the decoded code, which may take several times the memory of the code itself.
    pub fn forget_code(&mut self) {
        self.texts = Texts::default();
    }

    /// Puts back the bytes at these places, in as many stops as that takes. With `leaving`, the shared rings in the process are replaced by private memory.
    pub fn lift(&mut self, target: &Target, places: &[u64], leaving: bool) -> Result<Lifted> {
        let counting = self
            .table
            .all()
            .filter(|known| known.hook.want & want::COUNT != 0);
        let counting: HashMap<u64, u64> = counting
            .map(|known| (known.at, known.hook.original))
            .collect();
        let known = places.iter().filter_map(|place| self.table.get(*place));
        let mut hooks: Vec<(u64, Hook)> = known.map(|known| (known.at, known.hook)).collect();
        hooks.sort_by_key(|(_, hook)| hook.place);
        // The gate is closed. In the last stop it would take longer than all the rest, if there are many.
        let silent = leaving && self.table.silence_by_page(&target.memory).is_ok();
        let bound = target.bound().unwrap_or(Bound::NONE);
        let mut open = Vec::new();
        let stubs = self.areas.stubs();
        let maps = Maps::of(target.pid())?;
        let mut done = 0;
        let standing = loop {
            let lifted = target.stopped(|stop, remote| {
                let (before, deadline) = (done, bound.deadline(stop));
                let layers = target.layers()?;
                lifting::put_back_some(stop, remote, (&layers, deadline), &hooks, &mut done)?;
                for (_, hook) in &hooks[before..done] {
                    self.table.mark(hook.place, false);
                }
                // A stop that has lifted many leaves the rest to the next one.
                if deadline.leaves_rest(stop, before..done, hooks.len()) {
                    return Ok(None);
                }
                let standing = Standing::read(stop, remote, &layers, (&target.resident, &stubs))?;
                if leaving {
                    let stacks = &standing.stacks;
                    let found = open_calls::close(
                        &target.memory,
                        target.session,
                        &counting,
                        (stacks, &maps),
                    );
                    // What cannot be found out must not keep the rings from being given back.
                    if !silent {
                        self.table.silence_by_page(&target.memory)?;
                    }
                    pool::withdraw(&target.memory, &target.resident, remote)?;
                    open.extend(found?);
                }
                Ok(Some(standing))
            })?;
            match lifted {
                Some(standing) => break standing,
                None => bound.pause(),
            }
            process::fault::point("between batches");
        };
        Ok(Lifted { standing, open })
    }
}
