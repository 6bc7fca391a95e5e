//! Hooks that we set for ourselves, whatever the user asked for: on what unwinders ask (`routine::unwind`), so that
//! exceptions pass through frames of our routine; on the function that the loader calls at each change, to learn of new
//! libraries; and on the functions by which a process ends, forks or becomes another program ([`OWN`]). Used by `open`,
//! `named` and `script_start`.

use crate::layers::Layers;
use crate::table::stands_whole;
use crate::text::MOST_CODE;
use crate::tracing::{Arrives, Tracing};
use crate::wanted::{FIND_FDE, Refused, Wanted};
use memchr::memmem;
use process::error::{Error, Result};
use process::functions::{Function, Functions, ModuleSymbols};
use process::linkmap;
use process::maps::Maps;
use process::memory::GuestMemory;
use routine::unwind;
use std::collections::HashMap;
use std::mem::offset_of;
use std::sync::Arc;
use vm::Language;
use wire::ControlPage;
use wire::calls::{Calls, want};

/// The name that `r_brk` has in glibc and musl.
const LOADER: &str = "_dl_debug_state";

/// Offset of `r_brk` in `struct r_debug` (see `process::linkmap`).
const BREAK: u64 = 16;

/// Functions whose hook posts a notice and waits for us before it goes on, with the bit of [`want`] for it. A child of
/// `fork` waits until it is adopted.
///
/// Whatever a program calls, glibc and musl come by here: `exit` and `quick_exit` end in `_exit` (musl: `_Exit`),
/// `execv*` and `posix_spawn` in `execve`. The functions that run a script ([`vm::Description::entry`]) come beside these,
/// while a started program has not begun with its script, and those that end an interpreter.
const OWN: [(&[&str], u64); 5] = [
    (&["_exit", "_Exit", "abort"], want::ENDS),
    (&["execve", "execveat", "fexecve"], want::EXECS),
    (&[FORK, FORK_INSIDE], want::FORKS),
    (&["prctl"], want::LOCKS),
    (&["syscall"], want::LOCKS_BY_NUMBER),
];
/// The bits of the last two entries. Probes around system calls report the same events.
const LOCKS: u64 = want::LOCKS | want::LOCKS_BY_NUMBER;
const FORK: &str = "fork";
/// Called by `fork` in glibc since 2.34 and musl since 1.2.2. Programs may call it directly, so it is hooked in place
/// of `fork`.
const FORK_INSIDE: &str = "_Fork";

impl Tracing {
    /// The functions of [`OWN`] that the process has and that are needed.
    fn said(&self) -> Vec<Wanted> {
        let of = |name: &str| {
            let found = OWN.iter().find(|(names, _)| names.contains(&name));
            let begins_script = || {
                Language::ALL
                    .iter()
                    .any(|one| one.description().entry == name)
            };
            match found {
                Some((_, want)) => *want,
                None if begins_script() => want::SCRIPT,
                None if ends_interpreter(name) => want::ENDS_INTERPRETER,
                None => 0,
            }
        };
        let found = self.target.functions.find(true, |name, _| of(name) != 0);
        let has_inside = |module: &str| {
            let mut found = found.iter();
            found.any(|function| function.name == FORK_INSIDE && *function.module == *module)
        };
        let wanted = found.iter().filter_map(|function| {
            let want = of(&function.name);
            let needless = match want {
                want::FORKS => {
                    !self.follow || function.name == FORK && has_inside(&function.module)
                }
                want::SCRIPT => !self.scripts.awaits_script,
                _ => want & LOCKS != 0 && self.system_calls.alone,
            };
            (!needless).then(|| Wanted {
                // No frame of ours may be on the stack, whichever system call it is.
                entry_only: want & (LOCKS | want::ENDS_INTERPRETER) != 0,
                ..Wanted::own(function.clone(), want)
            })
        });
        wanted.collect()
    }

    /// Sets those of our own hooks that are missing.
    ///
    /// # Errors
    /// [`Error::Hook`], if the unwinder or the loader cannot be hooked: without the unwinder's hook an exception that
    /// passes through a hooked function would end the program, so nothing else may be hooked then.
    pub(crate) fn set_own(&mut self) -> Result<()> {
        if moves_stacks(&self.target.functions) {
            self.target.set_calls_field(offset_of!(Calls, wary), 1)?;
        }
        let pid = self.pid();
        let mut wanted = Vec::new();
        for (number, asked) in unwind::ASKED.into_iter().enumerate() {
            if asked != unwind::FIND_FDE
                && !has_own_unwinder(&self.target.functions, asked, &self.target.memory)
            {
                continue;
            }
            let found = self.target.functions.find(true, |name, _| name == asked);
            wanted.extend(found.into_iter().map(|function| Wanted {
                routine: FIND_FDE + number,
                ..Wanted::own(function, 0)
            }));
        }
        if self.loader == 0
            && let Some(function) = self.loader_function()
        {
            wanted.push(Wanted::own(function, want::LOADER));
        }
        let needed: Vec<u64> = wanted
            .iter()
            .map(|wanted| wanted.function.address)
            .collect();
        wanted.extend(self.said());
        wanted.extend(self.scripts.definers(&self.target));
        let known = self.patcher.table.own_functions(&self.target.resident);
        wanted.retain(|wanted| !known.contains(&wanted.function.address));
        if wanted.is_empty() {
            return Ok(());
        }
        let refused = self.patcher.set(&self.target, wanted)?;
        // It is not seen when an interpreter ends.
        if refused
            .iter()
            .any(|refused| ends_interpreter(&refused.function.name))
        {
            self.target.set_calls_field(offset_of!(Calls, wary), 1)?;
        }
        let mut fatal = refused.iter();
        match fatal.find(|refused| needed.contains(&refused.function.address)) {
            Some(refused) => Err(Error::Hook {
                pid,
                function: refused.function.name.clone(),
                reason: refused.reason.to_string(),
            }),
            None => Ok(()),
        }
    }

    /// Returns the function that the loader calls at each change (`r_brk`), if the loader's list is found.
    fn loader_function(&mut self) -> Option<Function> {
        let main = self
            .target
            .functions
            .modules()
            .iter()
            .find(|place| place.module.main)?;
        let list = linkmap::find(&main.module, &*self.target.memory)
            .ok()
            .flatten();
        let list = list.or_else(|| {
            let places = self.target.functions.modules().iter();
            places
                .filter(|place| place.name.starts_with("ld-") || place.name.contains("libc"))
                .find_map(|place| linkmap::find_by_symbol(&place.symbols, &*self.target.memory))
        })?;
        let address = self
            .target
            .memory
            .word(list + BREAK)
            .ok()
            .filter(|at| *at != 0)?;
        let told = self
            .target
            .set_calls_field(offset_of!(Calls, r_debug), list);
        told.ok()?;
        self.loader = list;
        let place = self.target.functions.module_of(address)?;
        Some(loader(address, place.name.clone()))
    }

    /// Hooks the same function in a process that stands at its exec, whose loader has not run yet and has no list. Returns false
    /// if the program has no loader.
    pub(crate) fn hook_loader(&mut self) -> Result<bool> {
        let mut others = self
            .target
            .functions
            .modules()
            .iter()
            .filter(|place| !place.module.main);
        let found = others.find_map(|place| {
            let address = place.symbols.exported(LOADER)?.address;
            let list = place.symbols.exported("_r_debug");
            Some((
                address,
                list.map_or(0, |list| list.address),
                place.name.clone(),
            ))
        });
        let Some((address, list, module)) = found else {
            return Ok(false);
        };
        self.target
            .set_calls_field(offset_of!(Calls, r_debug), list)?;
        let function = loader(address, module);
        let refused = self
            .patcher
            .set(&self.target, vec![Wanted::own(function, want::LOADER)])?;
        if let Some(refused) = refused.into_iter().next() {
            return Err(Error::Hook {
                pid: self.pid(),
                function: refused.function.name,
                reason: refused.reason.to_string(),
            });
        }
        Ok(true)
    }

    /// Whether the loader has loaded something and waits until [`Tracing::follow`] is called.
    pub fn has_news(&mut self) -> Result<bool> {
        let half = |offset| self.target.control_page_u32(offset);
        Ok(half(offset_of!(ControlPage, loads))? != half(offset_of!(ControlPage, loads_seen))?)
    }

    /// Looks at what is loaded now and hooks what `wanted` asks for, then lets the loader go on. The system calls `system_calls`
    /// are recorded from now on, in all libraries. Returns the functions that were refused.
    pub fn follow(
        &mut self,
        wanted: impl FnOnce(&Self) -> Vec<Wanted>,
        system_calls: Vec<Wanted>,
    ) -> Result<Vec<Refused>> {
        let pid = self.pid();
        let loads = self
            .target
            .control_page_u32(offset_of!(ControlPage, loads))?;
        let maps = Maps::of(pid)?;
        self.target
            .functions
            .refresh(pid, &self.target.memory, &maps)?;
        self.forget_unloaded();
        let first = self.arrives != Arrives::Now;
        if first {
            self.arrives = Arrives::Now;
            self.look_again()?;
        }
        // The program waits for all of its hooks before it begins.
        let max_stop = self.target.max_stop.take_if(|_| first);
        let done = self.set_own().and_then(|()| {
            let wanted = wanted(self);
            let mut refused = self.add_here(wanted)?;
            self.expect_system_calls(system_calls)?;
            refused.extend(self.follow_system_calls()?);
            Ok(refused)
        });
        self.target.max_stop = self.target.max_stop.or(max_stop);
        self.patcher.forget_code();
        if first {
            self.target.set_patience(self.patience)?;
        }
        self.target
            .set_on_control_page(offset_of!(ControlPage, loads_seen), loads)?;
        done
    }

    /// Notes that hooks in libraries that were unloaded are not set any more.
    fn forget_unloaded(&mut self) {
        // If a library was loaded again at the same address, all of its code is new: one look at each library suffices.
        let mut modules = HashMap::new();
        let mut gone = Vec::new();
        let Ok(layers) = Layers::of(&self.target.memory) else {
            // Which hooks are covered by those of others is not known now; the next look at the libraries tells.
            return;
        };
        let table = &mut self.patcher.table;
        for known in table.set_ones().filter(|known| known.hook.patched != 0) {
            // A probe around a system call may lie in a stub of ours; it belongs to the code that holds the instruction.
            let code = match known.hook.instruction {
                0 => known.hook.place,
                instruction => instruction,
            };
            let module = self.target.functions.module_of(code);
            let stands = module.is_some_and(|module| {
                let stands = modules.entry(module.module.bias);
                *stands.or_insert_with(|| stands_whole(&self.target.memory, &layers, &known.hook))
            });
            if !stands {
                gone.push(known.hook.place);
            }
        }
        for place in gone {
            table.mark(place, false);
        }
    }
}

/// The function at `r_brk`.
fn loader(address: u64, module: Arc<str>) -> Function {
    Function {
        name: LOADER.into(),
        module,
        address,
        size: 0,
        picks: false,
    }
}

/// Whether a module has an unwinder linked into it that asks the loader by `asked`. A module that uses libgcc's unwinder only
/// imports its functions.
fn has_own_unwinder(functions: &Functions, asked: &str, memory: &GuestMemory) -> bool {
    const OTHERS: [&str; 4] = [
        "_Unwind_Resume",
        "_Unwind_RaiseException",
        "_Unwind_Backtrace",
        "_Unwind_GetIP",
    ];
    let mut modules = functions.modules().iter();
    modules.any(|place| {
        let symbols = &place.symbols;
        // In a static program both functions lie close together, with or without symbols.
        let beside = || {
            symbols.symbol(asked).is_some() && symbols.symbol("_Unwind_RaiseException").is_some()
        };
        (symbols.imports(asked) || beside())
            && symbols.symbol(unwind::FIND_FDE).is_none()
            && !OTHERS.iter().any(|name| symbols.imports(name))
            && (asked != unwind::ITERATE || looks_for_rules(place, memory))
    })
}

/// Whether the code of a module contains `PT_GNU_EH_FRAME`, the program header type that an unwinder looks for through
/// `dl_iterate_phdr`. Callers that only list libraries do not contain it.
fn looks_for_rules(place: &ModuleSymbols, memory: &GuestMemory) -> bool {
    let kind = libc::PT_GNU_EH_FRAME.to_le_bytes();
    place.module.code().any(|range| {
        let mut code = vec![0; range.end.saturating_sub(range.start).min(MOST_CODE) as usize];
        memory.read_bytes(range.start, &mut code).is_ok() && memmem::find(&code, &kind).is_some()
    })
}

/// Whether a function of this name ends an interpreter of a VM ([`vm::Description::ends_interpreter`]).
fn ends_interpreter(name: &str) -> bool {
    let mut all = Language::ALL.iter();
    all.any(|one| !name.is_empty() && one.description().ends_interpreter == name)
}

/// Whether the process has loaded greenlet, which copies parts of a thread's stack to the heap and others in their
/// place. Python 3.11 and 3.12 keep a structure on the C stack (`_PyCFrame`) and a pointer to it in the VM; while
/// greenlet copies, that pointer leads to another greenlet's bytes, so the agent must check what it reads there.
fn moves_stacks(functions: &Functions) -> bool {
    let mut modules = functions.modules().iter();
    modules.any(|place| place.name.contains("greenlet"))
}
