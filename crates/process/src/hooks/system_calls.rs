//! Hooks around system calls: one before each `syscall` instruction, one behind it.
//!
//! ```text
//!   code:   jmp ─► stub: mov $39,%eax; probe; jmp ─┐      was: mov $39,%eax
//!           syscall                            ◄───┘      stays where it is
//!           jmp ─► stub: probe; cmp …; jmp back           was: cmp $-4096,%rax
//! ```
//!
//! The instruction stays, so a thread that waits in the kernel while hooks come and go, a call that the kernel makes again, and
//! whoever knows the place by its address (cancellation, unwinding rules) need no care. What is wanted of a call stands with its
//! number: for each number there is a hook that no code leads to, and a table of them by number.

use super::set::Step;
use super::text::{Around, Texts};
use super::{PROBE, Refused, Tracing, Wanted};
use crate::error::Result;
use crate::functions::{Function, Place};
use std::collections::HashSet;
use trampoline::system_call::Site;
use wire::calls::{CALLED, NO_NUMBER, SYSTEM_CALLS, want};

/// What a hook is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// A function, or a probe.
    #[default]
    Function,
    /// A system call by its number, which is the function's address; [`OTHERS`] = all without one of their own.
    SystemCall,
    /// The place before or behind a `syscall` instruction.
    Place {
        /// The instruction.
        instruction: u64,
        /// The number that is always made there, or how it comes ([`wire::calls::Hook::fixed`]).
        fixed: u64,
    },
}

/// The address of the function that stands for system calls without a name.
pub const OTHERS: u64 = SYSTEM_CALLS;

/// `clone`, `vfork`, `clone3`: a child may run as its parent's thread.
const LENDS: [u32; 3] = [56, 58, 435];

/// What is hooked of system calls.
#[derive(Clone, Debug, Default)]
pub(super) struct SystemCalls {
    /// They are told.
    wanted: bool,
    /// Addresses of hooks by number.
    pub table: Vec<u64>,
    /// Modules that were looked through.
    looked: HashSet<(u64, u64)>,
    /// Instructions that were found, and those that are hooked.
    seen: HashSet<u64>,
    hooked: HashSet<u64>,
}

impl Tracing {
    /// Has system calls told from now on: `wanted` says of each number what. What was refused.
    pub fn set_system_calls(&mut self, wanted: Vec<Wanted>) -> Result<Vec<Refused>> {
        self.expect_system_calls(wanted)?;
        let refused = self.follow_system_calls();
        self.texts = Texts::default();
        refused
    }

    /// The same; they are hooked by the next [`Tracing::follow_system_calls`].
    pub(super) fn expect_system_calls(&mut self, wanted: Vec<Wanted>) -> Result<()> {
        if !wanted.is_empty() {
            self.set_here(wanted)?;
            self.system_calls.wanted = true;
        }
        Ok(())
    }

    /// How many `syscall` instructions are hooked, and how many there are.
    pub fn system_calls(&self) -> [usize; 2] {
        [self.system_calls.hooked.len(), self.system_calls.seen.len()]
    }

    /// Hooks system calls of modules that came.
    pub(super) fn follow_system_calls(&mut self) -> Result<Vec<Refused>> {
        if !self.system_calls.wanted {
            return Ok(Vec::new());
        }
        // Those of an earlier attach may be there, and want nothing.
        let at = |number| {
            let known = self.hooks.get(&number);
            known
                .filter(|known| known.hook.want != 0)
                .map_or(0, |known| known.at)
        };
        self.system_calls.table = (0..=OTHERS).map(at).collect();
        let mut texts = std::mem::take(&mut self.texts);
        let (mut wanted, mut refused) = (Vec::new(), Vec::new());
        let identity = |place: &Place| (place.module.bias, place.module.inode);
        let looked = &mut self.system_calls.looked;
        let there = self.functions.modules().iter();
        let there: HashSet<_> = there.map(|place| identity(place)).collect();
        looked.retain(|known| there.contains(known));
        let new = |place: &Place| !looked.contains(&identity(place));
        // What nobody asks for is not hooked, and costs nothing; but whose lane a child uses must be known.
        let table = &self.system_calls.table;
        let asked = |site: &Site| {
            site.number.is_none_or(|number| {
                let own = table.get(number as usize).is_none_or(|hook| *hook != 0);
                own || LENDS.contains(&number)
            })
        };
        let found = texts.system_calls(&self.functions, new, asked, &self.memory, &self.hooks);
        looked.extend(there);
        let functions = &self.functions;
        let there = |at: &u64| functions.module_of(*at).is_some();
        self.system_calls.seen.retain(there);
        self.system_calls.hooked.retain(there);
        for around in found {
            let instruction = around.site.at;
            self.system_calls.seen.insert(instruction);
            match around.plans {
                Ok(places) => {
                    self.system_calls.hooked.insert(instruction);
                    let Around {
                        site, name, module, ..
                    } = around;
                    wanted.extend(places.into_iter().map(|(want, at)| Wanted {
                        want,
                        probe: Some(0),
                        routine: PROBE,
                        role: Role::Place {
                            instruction,
                            fixed: match site.called {
                                true => CALLED,
                                false => site.number.map_or(NO_NUMBER, u64::from),
                            },
                        },
                        ..Wanted::of(Function {
                            name: name.clone(),
                            module: module.clone(),
                            address: at,
                            ..Function::default()
                        })
                    }));
                }
                Err(reason) => refused.push(Refused {
                    function: Function {
                        name: around.name,
                        module: around.module,
                        address: instruction,
                        ..Function::default()
                    },
                    reason,
                }),
            }
        }
        self.texts = texts;
        if wanted.is_empty() {
            return Ok(refused);
        }
        let failed = self.set_here(wanted.clone())?;
        // One without the other tells nothing.
        for failed in &failed {
            let of = wanted
                .iter()
                .find(|one| one.function.address == failed.function.address);
            let Some(Role::Place { instruction, .. }) = of.map(|one| one.role) else {
                continue;
            };
            self.system_calls.hooked.remove(&instruction);
            let places = wanted.iter().filter(
                |one| matches!(one.role, Role::Place { instruction: at, .. } if at == instruction),
            );
            for place in places {
                if let Some(known) = self.hooks.get(&place.function.address) {
                    self.silence(known.at)?;
                }
            }
        }
        refused.extend(failed);
        Ok(refused)
    }

    /// What is to be done for a system call's number.
    pub(super) fn step_of_number(&self, wanted: &Wanted) -> Step {
        match self.hooks.contains_key(&wanted.function.address) {
            true => Step::Again(wanted.function.address, wanted.clone(), Vec::new()),
            false => Step::Bare(wanted.clone()),
        }
    }

    /// Whether bytes that a new hook would change are changed by one around a system call.
    pub(super) fn is_around_a_system_call(&self, at: u64, length: u64) -> bool {
        self.hooks.values().any(|known| {
            let hook = &known.hook;
            let around = hook.want & (want::SYSTEM_CALL | want::SYSTEM_RETURN) != 0;
            let moved = u64::from(hook.moved).max(5);
            known.set && around && hook.place < at + length && at < hook.place + moved
        })
    }
}
