//! Finds the `syscall` instructions of modules and plans the probes around each. Used by `system_calls`.

use super::ways::{self, LENGTH, Way};
use super::{Text, Texts, golang};
use crate::table::{HookTable, Known, patches};
use crate::wanted::Reason;
use process::functions::{Functions, ModuleSymbols};
use process::gadgets;
use process::memory::GuestMemory;
use std::ops::Range;
use std::sync::Arc;
use trampoline::probe::{self, ProbePlan, Spot};
use trampoline::system_call::{self, Kept, Site, Unfit, leads_straight};
use trampoline::{Branch, Function};
use vm::Memory;
use wire::calls::want;

/// A `syscall` instruction and the plans of the probes around it.
pub struct Around {
    /// The instruction, and what is known of the number of its system call.
    pub site: Site,
    /// Its place as the user sees it: `function+0x1f`, or the offset in the module.
    pub name: String,
    /// The name of its module.
    pub module: Arc<str>,
    /// The address of the patch of each probe, with a bit of [`want`]; or why there can be none.
    pub plans: Result<Vec<(u64, u64)>, Reason>,
}

impl Around {
    /// All that are in code that was not decoded.
    fn unread(place: &ModuleSymbols, at: u64, reason: Reason) -> Self {
        let name = format!("every system call of {}", place.name);
        Around {
            name,
            ..Around::unhooked(place, at, reason)
        }
    }

    /// One that no hook can be set around.
    fn unhooked(place: &ModuleSymbols, at: u64, reason: Reason) -> Self {
        let site = Site {
            at,
            next: at + LENGTH,
            instruction: at,
            called: false,
            number: None,
            set_at: at,
            kept: None,
            ends: false,
            refused: None,
        };
        Around {
            site,
            name: place_name(place, at),
            module: place.name.clone(),
            plans: Err(reason),
        }
    }
}

/// The bytes that hooks of functions have changed, sorted: begin, end, hook.
type Changed<'h> = Vec<(u64, u64, &'h Known)>;

impl Texts {
    /// Finds the instructions for which `wanted` returns true, in modules for which `new` does, with the probes of each. The
    /// plans are kept here until [`Texts::plan`] is called for them.
    pub fn system_calls(
        &mut self,
        functions: &Functions,
        new: impl Fn(&ModuleSymbols) -> bool,
        wanted: impl Fn(&Site) -> bool,
        (memory, hooks): (&GuestMemory, &HookTable),
    ) -> Vec<Around> {
        let of_functions = hooks.set_ones().filter(|known| known.hook.instruction == 0);
        let mut changed: Changed = of_functions
            .flat_map(|known| {
                let moved = u64::from(known.hook.moved);
                patches(&known.hook).iter().map(move |patch| {
                    let own = if patch.at == known.hook.place {
                        moved
                    } else {
                        0
                    };
                    let end = patch.at.saturating_add(patch.length.max(own));
                    (patch.at, end, known)
                })
            })
            .collect();
        changed.sort_unstable_by_key(|(from, ..)| *from);
        let mut found = Vec::new();
        for place in functions.with_kernels().filter(|place| new(place)) {
            for range in place.module.code() {
                let code = (&**place, range);
                let hooks = (hooks, &changed);
                found.extend(self.of_code(code, &wanted, functions, memory, hooks));
            }
        }
        found
    }

    fn of_code(
        &mut self,
        (place, range): (&ModuleSymbols, Range<u64>),
        wanted: &impl Fn(&Site) -> bool,
        functions: &Functions,
        memory: &GuestMemory,
        (hooks, changed): (&HookTable, &Changed),
    ) -> Vec<Around> {
        // Most modules have none, and are not decoded.
        if !ways::are_in(place, memory, &range) {
            return Vec::new();
        }
        let decoded = &mut self.decoded;
        let text = match decoded.text(place, (memory, hooks), functions, range.clone()) {
            Ok(text) => text,
            Err(reason) => return vec![Around::unread(place, range.start, reason)],
        };
        // Go calls the vDSO's functions on stacks of its own.
        let mut callers = functions.modules().iter().map(Arc::as_ref);
        let is_go = match functions.is_kernels(range.start) {
            true => callers.any(|place| golang::is_go(place, memory)),
            false => golang::is_go(place, memory),
        };
        let unhooked = text.without_hook(place, memory).into_iter();
        let mut found: Vec<Around> = unhooked
            .map(|(at, why)| Around::unhooked(place, at, why))
            .collect();
        // The end of the bytes that the probes of the previous instruction use.
        let mut taken = range.start;
        for function in text.functions_with_calls(place, memory) {
            for site in text
                .sites(&function)
                .into_iter()
                .filter(|site| wanted(site))
            {
                let within = match site.called {
                    true => text.function_around(place, memory, site.at),
                    false => Some(function.clone()),
                };
                let Some(within) = within else {
                    continue;
                };
                // Calls of a function that makes one system call are not in ascending order.
                let mut own = site.at;
                let taken = if site.called { &mut own } else { &mut taken };
                let plans = match is_go {
                    true => Err(golang::NO_ROOM.into()),
                    false => text.around(&within, site, changed, taken, memory),
                };
                let mut keep = |(want, plan): (u64, ProbePlan)| {
                    let at = plan.patch_at;
                    self.around.insert(at, plan);
                    (want, at)
                };
                let plans = plans.map(|plans| plans.into_iter().map(&mut keep).collect());
                found.push(Around {
                    name: place_name(place, site.at),
                    module: place.name.clone(),
                    site,
                    plans,
                });
            }
        }
        found
    }
}

/// Returns a place as the user sees it: `function+0x1f`, or the offset in the module.
fn place_name(place: &ModuleSymbols, at: u64) -> String {
    match place.symbols.name_at(at) {
        Some((name, offset)) => format!("{name}+{offset:#x}"),
        None => format!("{:#x}", at.wrapping_sub(place.module.bias)),
    }
}

impl Text {
    /// Whether a jump makes the number of the system call uncertain: one to between the instruction that sets it and the call,
    /// or one from outside into the code in which another register keeps it.
    fn is_jumped_into(&self, site: &Site, function: &Range<u64>) -> bool {
        let targets = &self.targets;
        let is_entered = |kept: Kept| {
            let range = kept.from..kept.to + 1;
            let mut branches = targets.within(range.clone()).iter();
            branches.any(|branch| !kept.holds(branch.source))
                || targets.is_taken(range)
                || targets.is_blind(function.clone())
        };
        !targets.within(site.set_at + 1..site.at + 1).is_empty()
            || site.kept.is_some_and(is_entered)
    }

    /// Returns the functions that contain the bytes of a `syscall` instruction, by ascending address.
    fn functions_with_calls(
        &mut self,
        place: &ModuleSymbols,
        memory: &GuestMemory,
    ) -> Vec<Range<u64>> {
        let mut found = Vec::new();
        let mut done = self.at;
        for candidate in Way::Syscall.occurrences(&self.code, self.at) {
            // In `__restore_rt`, the return from signal handlers, unwinding rules begin a byte before the code (glibc), so that
            // it cannot be decoded from there. It is not hooked.
            if candidate < done || self.is_signal_return(candidate) {
                continue;
            }
            if let Some(function) = self.function_around(place, memory, candidate) {
                done = function.end.max(candidate + 1);
                found.push(function);
            }
        }
        found
    }

    /// Returns the system calls of a function; for one that must not be changed, the calls of it instead.
    fn sites(&self, function: &Range<u64>) -> Vec<Site> {
        let sites = system_call::sites(self.slice(function), function.start);
        let sites = sites.into_iter().flat_map(|site| match site.refused {
            Some(Unfit::Cancelled) => self.callers(function, site),
            _ => vec![site],
        });
        let as_entered = |site: Site| match self.is_jumped_into(&site, function) {
            true => Site {
                number: None,
                ends: false,
                ..site
            },
            false => site,
        };
        sites.map(as_entered).collect()
    }

    pub(super) fn is_signal_return(&self, candidate: u64) -> bool {
        let end = (candidate - self.at) as usize + LENGTH as usize;
        self.code[..end].ends_with(gadgets::RESTORE_RT)
    }

    pub(super) fn slice(&self, range: &Range<u64>) -> &[u8] {
        &self.code[(range.start - self.at) as usize..(range.end - self.at) as usize]
    }

    /// Returns the calls of a function that makes one system call and must not be changed itself; the instruction itself, if that is not
    /// all that the function does, if it has no calls, or if it can be entered in another way than by these.
    fn callers(&self, function: &Range<u64>, site: Site) -> Vec<Site> {
        const CALL: u64 = 5;
        if !leads_straight(self.slice(&(function.start..site.at)), function.start) {
            return vec![site];
        }
        let branches = self.targets.within(function.start..function.start + 1);
        let calls = branches.iter().filter(|branch| branch.call);
        let mut found: Vec<Site> = calls
            .map(|call| Site {
                at: call.source,
                next: call.source + CALL,
                called: true,
                refused: None,
                ..site
            })
            .collect();
        let from_elsewhere = |branch: &Branch| !branch.call && !function.contains(&branch.source);
        if found.is_empty() || branches.iter().any(from_elsewhere) {
            found.push(site);
        }
        found
    }

    /// Plans the probes around a system call, each with a bit of [`want`]. `taken` is the end of the bytes that must not be
    /// changed, and is moved on.
    fn around(
        &mut self,
        function: &Range<u64>,
        site: Site,
        changed: &Changed,
        taken: &mut u64,
        memory: &GuestMemory,
    ) -> Result<Vec<(u64, ProbePlan)>, Reason> {
        if let Some(unfit) = site.refused {
            return Err(unfit.to_string().into());
        }
        if self.targets.is_blind(function.clone()) {
            return Err("its function jumps to where is not known".into());
        }
        let (from, to) = (
            (function.start - self.at) as usize,
            // Padding behind the function is decoded too.
            ((function.end - self.at) as usize + 16).min(self.code.len()),
        );
        let code = Function {
            entry: function.start,
            code: &self.code[from..to],
            size: (function.end - function.start) as usize,
        };
        let mut plan = |at, spot| {
            probe::plan(&code, at, spot, &self.targets, &mut self.pads, self.options)
                .map_err(Reason::from)
        };
        let overlaps = |from: u64, to: u64| {
            changed
                .iter()
                .find(|(start, end, _)| *start < to && from < *end)
        };
        const CROWDED: &str = "another hook stands in its way";
        let mut before = plan(site.at, Spot::Before);
        if let Some((_, end, known)) = overlaps(site.at - 1, site.next) {
            // A hook has moved the instructions before this one into its stub; the probe replaces the jump at the stub's end.
            let stub = (*end == site.at).then(|| probe_at_end_of_stub(known, site.at, memory));
            before = stub.flatten().ok_or_else(|| CROWDED.into());
        } else if let Ok(plan) = &before
            && overlaps(plan.patch_at, site.at).is_some()
        {
            before = Err(CROWDED.into());
        }
        let before = before?;
        let in_code = function.contains(&before.patch_at);
        if !site.called && in_code && before.patch_at < *taken {
            return Err(CROWDED.into());
        }
        let mut plans = vec![(want::SYSTEM_CALL, before)];
        *taken = site.next;
        if !site.ends {
            let behind = plan(site.next, Spot::From)?;
            let end = behind.patch_at + behind.stolen.max(5) as u64;
            if overlaps(behind.patch_at, end).is_some() {
                return Err(CROWDED.into());
            }
            *taken = end;
            plans.push((want::SYSTEM_RETURN, behind));
        }
        Ok(plans)
    }
}

/// The probe at the jump at the end of a hook's stub, which leads back to `site`.
fn probe_at_end_of_stub(known: &Known, site: u64, memory: &GuestMemory) -> Option<ProbePlan> {
    // The moved instructions of a stub take fewer bytes.
    let mut stub = [0; 64];
    memory.read(known.hook.original, &mut stub).ok()?;
    ProbePlan::on_way_back(&stub, known.hook.original, site)
}
