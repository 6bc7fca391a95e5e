//! Hooks for ourselves: the unwinder, which must know our routine's frames; the loader, which tells of libraries
//! that come; and the ways out of a process, after which its memory is no more ([`OWN`]).

use super::set::LANDING;
use super::text::Texts;
use super::{Arrives, CALL_THROUGH, FIND_FDE, Refused, Tracing, Wanted};
use crate::error::{Error, Result};
use crate::functions::{Function, Functions};
use crate::linkmap;
use crate::maps::Maps;
use routine::unwind;
use std::collections::{HashMap, HashSet};
use std::mem::offset_of;
use std::sync::Arc;
use wire::Board;
use wire::calls::{Calls, Hook, want};

/// What glibc and musl call the function that they call at each change.
const LOADER: &str = "_dl_debug_state";

/// `r_brk` in `struct r_debug` (`linkmap`).
const BREAK: u64 = 16;

/// Functions that say so before they do it; and children, that wait for us.
///
/// glibc and musl come by here whatever the program calls: `exit` and `quick_exit` end in `_exit` (musl: `_Exit`), `execv*`
/// and `posix_spawn` in `execve`.
const OWN: [(&[&str], u64); 4] = [
    (&["_exit", "_Exit", "abort"], want::ENDS),
    (&["execve", "execveat", "fexecve"], want::EXECS),
    (&[FORK, FORK_INSIDE], want::FORKS),
    (
        &[
            "ruby_run_node",
            "Py_RunMain",
            "perl_run",
            "php_execute_script",
        ],
        want::SCRIPT,
    ),
];
const FORK: &str = "fork";
/// Where there is one, `fork` calls it (glibc 2.34, musl 1.2.2).
const FORK_INSIDE: &str = "_Fork";

impl Tracing {
    /// Functions to hook as [`OWN`] says.
    fn said(&self) -> Vec<Wanted> {
        let of = |name: &str| {
            let found = OWN.iter().find(|(names, _)| names.contains(&name));
            found.map_or(0, |(_, want)| *want)
        };
        let found = self.functions.find(true, |name, _| of(name) != 0);
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
                want::SCRIPT => !self.awaits_script,
                _ => false,
            };
            (!needless).then(|| own(function.clone(), CALL_THROUGH, want))
        });
        wanted.collect()
    }

    /// Sets what is missing of our own hooks. Without the unwinder's, an exception through a hooked function would end
    /// the program, so where it cannot be set nothing is hooked.
    pub(super) fn set_own(&mut self) -> Result<()> {
        if moves_stacks(&self.functions) {
            let at = self.resident.header.calls + offset_of!(Calls, wary) as u64;
            self.memory.write(at, &1u64.to_le_bytes())?;
        }
        let pid = self.pid();
        let mut wanted = Vec::new();
        for function in self
            .functions
            .find(true, |name, _| name == unwind::FIND_FDE)
        {
            wanted.push(own(function, FIND_FDE, 0));
        }
        if self.loader == 0
            && let Some(function) = self.loader_function()
        {
            wanted.push(own(function, CALL_THROUGH, want::LOADER));
        }
        let needed: Vec<u64> = wanted
            .iter()
            .map(|wanted| wanted.function.address)
            .collect();
        wanted.extend(self.said());
        wanted.extend(self.definers());
        wanted.retain(|wanted| !self.own.contains_key(&wanted.function.address));
        if wanted.is_empty() {
            return Ok(());
        }
        let own: Vec<(u64, u64)> = wanted
            .iter()
            .map(|wanted| (wanted.function.address, wanted.want))
            .collect();
        let refused = self.set_here(wanted)?;
        let is_refused = |address| {
            let mut refused = refused.iter();
            refused.any(|refused| refused.function.address == address)
        };
        self.own
            .extend(own.into_iter().filter(|(address, _)| !is_refused(*address)));
        let mut fatal = refused.iter();
        match fatal.find(|refused| needed.contains(&refused.function.address)) {
            Some(refused) => Err(Error::Hook {
                pid,
                function: refused.function.name.clone(),
                reason: refused.reason.clone(),
            }),
            None => Ok(()),
        }
    }

    /// The function that the loader calls at each change, if it has told us where its list is.
    fn loader_function(&mut self) -> Option<Function> {
        let main = self
            .functions
            .modules()
            .iter()
            .find(|place| place.module.main)?;
        let list = linkmap::find(&main.module, &*self.memory).ok().flatten();
        let list = list.or_else(|| {
            let places = self.functions.modules().iter();
            places
                .filter(|place| place.name.starts_with("ld-") || place.name.contains("libc"))
                .find_map(|place| linkmap::find_by_symbol(&place.symbols, &*self.memory))
        })?;
        let address = self.memory.word(list + BREAK).ok().filter(|at| *at != 0)?;
        let at = self.resident.header.calls + offset_of!(Calls, r_debug) as u64;
        self.memory.write(at, &list.to_le_bytes()).ok()?;
        self.loader = list;
        let place = self.functions.module_of(address)?;
        Some(loader(address, place.name.clone()))
    }

    /// Hooks the function of a loader that has not run yet; whether there is one.
    pub(super) fn hook_loader(&mut self) -> Result<bool> {
        let mut others = self
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
        let at = self.resident.header.calls + offset_of!(Calls, r_debug) as u64;
        self.memory.write(at, &list.to_le_bytes())?;
        let function = loader(address, module);
        let refused = self.set_here(vec![own(function, CALL_THROUGH, want::LOADER)])?;
        if let Some(refused) = refused.into_iter().next() {
            return Err(Error::Hook {
                pid: self.pid(),
                function: refused.function.name,
                reason: refused.reason,
            });
        }
        self.own.insert(address, want::LOADER);
        Ok(true)
    }

    /// Some of what is wanted for ourselves is wanted no more.
    pub(super) fn forget_own(&mut self, gone: u64) -> Result<()> {
        self.own.retain(|_, wanted| *wanted & gone == 0);
        for known in self.hooks.values_mut() {
            if known.hook.want & gone != 0 {
                known.hook.want &= !gone;
                let at = known.at + offset_of!(Hook, want) as u64;
                self.memory.write(at, &known.hook.want.to_le_bytes())?;
            }
        }
        Ok(())
    }

    /// Whether the loader waits for us to look at what it has loaded.
    pub fn has_news(&mut self) -> Result<bool> {
        let half = |offset| self.resident.board_half(&self.memory, offset);
        Ok(half(offset_of!(Board, loads))? != half(offset_of!(Board, loads_seen))?)
    }

    /// Looks at what is loaded now, and hooks of it what `wanted` asks for; then the loader may go on. What was
    /// refused.
    /// `system_calls` are told from now on, in all libraries.
    pub fn follow(
        &mut self,
        wanted: impl FnOnce(&Self) -> Vec<Wanted>,
        system_calls: Vec<Wanted>,
    ) -> Result<Vec<Refused>> {
        let pid = self.pid();
        let loads = self
            .resident
            .board_half(&self.memory, offset_of!(Board, loads))?;
        let maps = Maps::read(pid).map_err(|_| Error::Gone(pid))?;
        self.functions.refresh(pid, &self.memory, &maps)?;
        self.forget_unloaded();
        let first = self.arrives != Arrives::Now;
        if first {
            self.arrives = Arrives::Now;
            self.look_again()?;
        }
        let done = self.set_own().and_then(|()| {
            let wanted = wanted(self);
            let mut refused = self.add_here(wanted)?;
            self.expect_system_calls(system_calls)?;
            refused.extend(self.follow_system_calls()?);
            Ok(refused)
        });
        self.texts = Texts::default();
        if first {
            self.set_patience(self.patience)?;
        }
        self.resident
            .set_board(&self.memory, offset_of!(Board, loads_seen), loads)?;
        done
    }

    /// A library that is gone took its hooks along.
    fn forget_unloaded(&mut self) {
        // Where the library was loaded again at the same address its text is new, all of it: one look at each tells.
        let mut modules = HashMap::new();
        let mut gone: HashSet<u64> = HashSet::new();
        let of_code = |known: &&super::Known| known.set && known.hook.patched != 0;
        for known in self.hooks.values().filter(of_code) {
            let place = &known.hook.place;
            // One that stands in a stub of ours is of the code that it serves.
            let of = match known.hook.instruction {
                0 => *place,
                instruction => instruction,
            };
            let module = self.functions.module_of(of);
            let stands = module.is_some_and(|module| {
                let stands = modules.entry(module.module.bias);
                *stands.or_insert_with(|| self.stands(known))
            });
            if !stands {
                gone.insert(*place);
            }
        }
        for place in &gone {
            let Some(known) = self.hooks.get_mut(place) else {
                continue;
            };
            known.set = false;
        }
        let stays = |address: &u64| !gone.contains(address) && !gone.contains(&(address + LANDING));
        self.own.retain(|address, _| stays(address));
        self.pickers.retain(|address, _| stays(address));
    }
}

/// The loader's `r_brk`.
fn loader(address: u64, module: Arc<str>) -> Function {
    Function {
        name: LOADER.into(),
        module,
        address,
        size: 0,
        picks: false,
    }
}

/// Whether a library is there that copies stacks away and others in their place: greenlet. While it does, what Python 3.11 and
/// 3.12 keep on the C stack (`_PyCFrame`) is another's, and the VM still points there.
fn moves_stacks(functions: &Functions) -> bool {
    let mut modules = functions.modules().iter();
    modules.any(|place| place.name.contains("greenlet"))
}

pub(super) fn own(function: Function, routine: usize, want: u64) -> Wanted {
    Wanted {
        want,
        routine,
        ..Wanted::of(function)
    }
}
