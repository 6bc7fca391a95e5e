//! Hooks for ourselves: the unwinder, which must know our routine's frames; the loader, which tells of libraries
//! that come.

use super::{CALL_THROUGH, FIND_FDE, Tracing, Wanted};
use crate::error::{Error, Result};
use crate::functions::{Function, Functions};
use crate::linkmap;
use crate::maps::Maps;
use routine::unwind;
use std::mem::offset_of;
use wire::Board;
use wire::calls::{Calls, want};

/// `r_brk` in `struct r_debug` (`linkmap`).
const BREAK: u64 = 16;

impl Tracing {
    /// Sets what is missing of our own hooks. Without the unwinder's, an exception through a hooked function would end
    /// the program, so where it cannot be set nothing is hooked.
    pub(super) fn set_own(&mut self) -> Result<()> {
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
        wanted.retain(|wanted| !self.own.contains(&wanted.function.address));
        if wanted.is_empty() {
            return Ok(());
        }
        let addresses: Vec<u64> = wanted
            .iter()
            .map(|wanted| wanted.function.address)
            .collect();
        let refused = self.set(wanted)?;
        if let Some(refused) = refused.first() {
            return Err(Error::Hook {
                pid,
                function: refused.function.name.clone(),
                reason: refused.reason.clone(),
            });
        }
        self.own.extend(addresses);
        Ok(())
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
        Some(Function {
            name: "_dl_debug_state".into(),
            module: place.name.clone(),
            address,
            size: 0,
            picks: false,
        })
    }

    /// Whether the loader waits for us to look at what it has loaded.
    pub fn has_news(&mut self) -> Result<bool> {
        let half = |offset| self.resident.board_half(&self.memory, offset);
        Ok(half(offset_of!(Board, loads))? != half(offset_of!(Board, loads_seen))?)
    }

    /// Looks at what is loaded now, and hooks of it what `wanted` asks for; then the loader may go on. What was
    /// refused.
    pub fn follow(
        &mut self,
        wanted: impl FnOnce(&Functions) -> Vec<Wanted>,
    ) -> Result<Vec<super::Refused>> {
        let pid = self.pid();
        let loads = self
            .resident
            .board_half(&self.memory, offset_of!(Board, loads))?;
        let maps = Maps::read(pid).map_err(|_| Error::Gone(pid))?;
        self.functions.refresh(pid, &self.memory, &maps)?;
        self.forget_unloaded();
        if moves_stacks(&self.functions) {
            let at = self.resident.header.calls + offset_of!(Calls, wary) as u64;
            self.memory.write(at, &1u64.to_le_bytes())?;
        }
        let hooked: Vec<u64> = self
            .names
            .values()
            .map(|function| function.address)
            .collect();
        let done = self.set_own().and_then(|()| {
            let mut wanted = wanted(&self.functions);
            wanted.retain(|wanted| !hooked.contains(&wanted.function.address));
            match wanted.is_empty() {
                true => Ok(Vec::new()),
                false => self.set(wanted),
            }
        });
        self.resident
            .set_board(&self.memory, offset_of!(Board, loads_seen), loads)?;
        done
    }

    /// A library that is gone took its hooks along.
    fn forget_unloaded(&mut self) {
        let functions = &self.functions;
        let gone = |place: u64| functions.module_of(place).is_none();
        for known in self.hooks.values_mut().filter(|known| known.set) {
            if gone(known.hook.place) {
                known.set = false;
                let number = known.hook.number as u32;
                self.names.remove(&number);
            }
        }
        self.own.retain(|address| !gone(*address));
    }
}

/// Whether a library is there that copies stacks away and others in their place: greenlet. While it does, what Python 3.11 and
/// 3.12 keep on the C stack (`_PyCFrame`) is another's, and the VM still points there.
pub(super) fn moves_stacks(functions: &Functions) -> bool {
    let mut modules = functions.modules().iter();
    modules.any(|place| place.name.contains("greenlet"))
}

fn own(function: Function, routine: usize, want: u64) -> Wanted {
    Wanted {
        function,
        want,
        stack: Some(0),
        copy: [Vec::new(), Vec::new()],
        routine,
    }
}
