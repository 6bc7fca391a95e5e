//! Hooks around system calls: one probe before each `syscall` instruction and one after it. Used by `open` and
//! `tracing`.
//!
//! ```text
//!   code:   jmp ─► stub: mov $39,%eax; probe; jmp ─┐      was: mov $39,%eax
//!           syscall                            ◄───┘      stays where it is
//!           jmp ─► stub: probe; cmp …; jmp back           was: cmp $-4096,%rax
//! ```
//!
//! The instruction itself stays where it is. So nothing has to be done for threads that wait in the kernel while hooks are set
//! and lifted, for calls that the kernel restarts, and for code that knows the instruction's address (glibc's cancellation,
//! unwinding rules). What is wanted depends on the number of the call: each number has a record that no code leads to, and the
//! probes get a table of the addresses of these records.

use crate::text::Around;
use crate::tracing::Tracing;
use crate::wanted::{OTHERS, PROBE, Refused, Role, Wanted};
use process::error::Result;
use process::functions::{Function, ModuleSymbols};
use std::cell::RefCell;
use std::collections::HashSet;
use trampoline::system_call::Site;
use wire::calls::{CALLED, NO_NUMBER, special};

/// Whether the probes of a call are set even if the user does not want it: a child that shares its parent's memory uses the ring
/// of its parent's thread meanwhile, a thread that forbids what hooks do must report so before
/// ([`Says::Locks`](crate::Says::Locks)), and a child that is followed waits behind the call.
fn is_always_seen(number: u64, follow: bool) -> bool {
    special::may_lend(number) || special::may_lock(number) || follow && special::makes_child(number)
}

/// What is known of the system calls of a process.
#[derive(Clone, Debug, Default)]
pub(crate) struct SystemCalls {
    /// Whether only system calls are wanted.
    pub alone: bool,
    /// Whether the user wants any system calls.
    wanted: bool,
    /// Modules that were searched, by load bias and inode.
    looked: HashSet<(u64, u64)>,
    /// Addresses of the `syscall` instructions that were found in them and may make calls that are wanted.
    seen: HashSet<u64>,
    /// Addresses of the others that were found there: they make calls that are not wanted.
    others: HashSet<u64>,
    /// Addresses of instructions that have no probes of their own, because the calls of their function have them.
    through: HashSet<u64>,
}

impl SystemCalls {
    /// Nothing has been searched yet. With `alone`, only system calls will be wanted.
    pub fn new(alone: bool) -> Self {
        SystemCalls {
            alone,
            ..SystemCalls::default()
        }
    }
}

impl Tracing {
    /// Records system calls from now on, as `wanted` says for each number. Returns the places that were refused.
    pub fn set_system_calls(&mut self, wanted: Vec<Wanted>) -> Result<Vec<Refused>> {
        self.expect_system_calls(wanted)?;
        let refused = self.follow_system_calls();
        self.patcher.forget_code();
        refused
    }

    /// Writes the records of these numbers. The next [`Tracing::follow_system_calls`] sets the probes.
    pub(crate) fn expect_system_calls(&mut self, wanted: Vec<Wanted>) -> Result<()> {
        if !wanted.is_empty() {
            self.patcher.set(&self.target, wanted)?;
            self.system_calls.wanted = true;
        }
        Ok(())
    }

    /// Returns how many `syscall` instructions are hooked, and how many were found, if the user wants any.
    pub fn system_calls(&self) -> [usize; 2] {
        if !self.system_calls.wanted {
            return [0; 2];
        }
        [
            self.patcher.table.system_call_addresses().len(),
            self.system_calls.seen.len(),
        ]
    }

    /// Returns the addresses of the `syscall` instructions whose calls are recorded now. One of a function whose calls have the probes
    /// counts if any of these calls has them.
    pub fn hooked_instructions(&self) -> HashSet<u64> {
        let mut all = self.patcher.table.system_call_addresses();
        all.extend(&self.system_calls.through);
        all
    }

    /// Returns how many places there are at which system calls are made, wanted or not: in the program itself, in contrast to its
    /// libraries, and in all.
    pub fn places(&self) -> [usize; 2] {
        let known = &self.system_calls;
        let all = || known.seen.iter().chain(&known.others);
        let of_program = all().filter(|at| self.is_of_program(**at));
        [of_program.count(), all().count()]
    }

    /// Whether an address is in the code of the program itself.
    pub fn is_of_program(&self, at: u64) -> bool {
        let module = self.target.functions.module_of(at);
        module.is_some_and(|place| place.module.main)
    }

    /// Sets probes in modules that were loaded since the last call. Returns the places that were refused.
    ///
    /// Where no system call is wanted but children are followed, the calls that make children have probes all the same, and no refusal
    /// is returned: a child that comes by a refused place is found by looking, and that is said then.
    pub(crate) fn follow_system_calls(&mut self) -> Result<Vec<Refused>> {
        if !self.system_calls.wanted && !self.follow {
            return Ok(Vec::new());
        }
        self.list_records();
        let functions = self.target.functions.with_kernels();
        let modules: HashSet<_> = functions.map(|place| identity(place)).collect();
        self.system_calls
            .looked
            .retain(|known| modules.contains(known));
        let (mut wanted, mut refused) = (Vec::new(), Vec::new());
        for around in self.search() {
            self.system_calls.seen.insert(around.site.at);
            let through = around.site.called.then_some(around.site.instruction);
            match probes(around) {
                Ok(probes) => {
                    self.system_calls.through.extend(through);
                    wanted.extend(probes);
                }
                Err(place) => refused.push(place),
            }
        }
        let failed = match wanted.is_empty() {
            true => Vec::new(),
            false => self.patcher.set(&self.target, wanted.clone())?,
        };
        // Noted only now: if the threads could not be stopped, the next call searches the same modules again.
        self.system_calls.looked.extend(modules);
        refused.extend(self.unset_halves(&wanted, failed)?);
        if !self.system_calls.wanted {
            refused.clear();
        }
        Ok(refused)
    }

    /// Makes the table for the probes: the address of each number's record. It may contain records of an earlier attach, which
    /// want nothing.
    fn list_records(&mut self) {
        let at = |number| {
            let known = self.patcher.table.get(number);
            known
                .filter(|known| known.hook.want != 0)
                .map_or(0, |known| known.at)
        };
        self.patcher.by_number = (0..=OTHERS).map(at).collect();
    }

    /// Finds the `syscall` instructions of modules that were not searched yet, with the probes around each. An instruction whose
    /// number is known and not wanted is left alone, and so costs nothing.
    fn search(&mut self) -> Vec<Around> {
        let target = &self.target;
        let known = &mut self.system_calls;
        for places in [&mut known.seen, &mut known.others] {
            places.retain(|at| target.functions.module_of(*at).is_some());
        }
        let table = &self.patcher.by_number;
        let others = RefCell::new(std::mem::take(&mut known.others));
        let follow = self.follow;
        let asked = |site: &Site| {
            let is_asked = site.number.is_none_or(|number| {
                let own = table.get(number as usize).is_none_or(|hook| *hook != 0);
                own || is_always_seen(number.into(), follow)
            });
            if !is_asked {
                others.borrow_mut().insert(site.at);
            }
            is_asked
        };
        let wanted = known.wanted;
        // Who asks for children alone need not decode glibc's loader and the vDSO, which make none.
        let may_matter = |place: &ModuleSymbols| {
            let is_kernels = target.functions.is_kernels(place.module.bias);
            wanted || !(place.name.starts_with("ld-linux") || is_kernels)
        };
        let found = self.patcher.texts.system_calls(
            &target.functions,
            |place| !known.looked.contains(&identity(place)) && may_matter(place),
            asked,
            (&target.memory, &self.patcher.table),
        );
        known.others = others.into_inner();
        found
    }

    /// Takes back the other probe of each instruction at which one could not be set, because a single probe is useless. Returns
    /// the refusals, each instruction once.
    fn unset_halves(&mut self, wanted: &[Wanted], failed: Vec<Refused>) -> Result<Vec<Refused>> {
        let instruction_of = |one: &Wanted| match one.role {
            Role::Place { instruction, .. } => Some(instruction),
            _ => None,
        };
        let (mut told, mut refused) = (HashSet::new(), Vec::new());
        for failed in failed {
            let at = failed.function.address;
            let of = wanted.iter().find(|one| one.function.address == at);
            if let Some(instruction) = of.and_then(instruction_of) {
                if !told.insert(instruction) {
                    continue;
                }
                let probes = wanted
                    .iter()
                    .filter(|one| instruction_of(one) == Some(instruction));
                for probe in probes {
                    let table = &mut self.patcher.table;
                    let at = probe.function.address;
                    self.target.forced(|memory| table.set_want(memory, at, 0))?;
                }
            }
            refused.push(failed);
        }
        Ok(refused)
    }
}

/// Identifies a module, because another one may be mapped at its place later: load bias and inode.
fn identity(place: &ModuleSymbols) -> (u64, u64) {
    (place.module.bias, place.module.inode)
}

/// The probes around an instruction, or why there can be none.
fn probes(around: Around) -> std::result::Result<Vec<Wanted>, Refused> {
    let Around {
        site,
        name,
        module,
        plans,
    } = around;
    let function = |address| Function {
        name: name.clone(),
        module: module.clone(),
        address,
        ..Function::default()
    };
    let places = plans.map_err(|reason| Refused {
        function: function(site.at),
        reason,
    })?;
    let fixed = match site.called {
        true => CALLED,
        false => site.number.map_or(NO_NUMBER, u64::from),
    };
    let probe = |(want, at)| Wanted {
        want,
        probe: Some(0),
        routine: PROBE,
        role: Role::Place {
            instruction: site.at,
            fixed,
        },
        ..Wanted::of(function(at))
    };
    Ok(places.into_iter().map(probe).collect())
}
