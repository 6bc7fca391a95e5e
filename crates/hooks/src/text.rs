//! Decoded code of modules, kept while hooks are being planned: where functions begin, what jumps where, where padding
//! is. A module is decoded once, however many of its functions are hooked.

mod around;
mod go;

pub use around::Around;

use crate::change::Change;
use crate::table::{HookTable, patches};
use crate::wanted::{Role, Wanted};
use process::functions::{Functions, ModuleSymbols};
use process::memory::GuestMemory;
use process::shadow_stack;
use process::stop::thread_ids;
use process::symbols::Kind;
use routine::frame::{COPIED, MOST_COPIED};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;
use trampoline::probe::{self, ProbePlan, Spot};
use trampoline::{Options, Pads, Refusal, Stack, Stacks, Targets, plan};
use vm::Memory;
use wire::calls::want;

/// The bytes of code that are kept decoded at a time, in all. The largest libraries known have 200 MB.
pub(crate) const MOST_CODE: u64 = 1 << 29;

/// Why a function is refused whose code is not what the maps of its process have said.
const CHANGED: &str = "its code changed while we looked at it";

/// The bytes of a range of code, if there is `room` for them.
fn within(range: &Range<u64>, room: u64) -> Result<u64, String> {
    let size = range.end.checked_sub(range.start);
    let size = size.filter(|size| *size <= room);
    size.ok_or_else(|| "its program has more code than is decoded at a time".into())
}

/// Bytes of stack arguments that are copied for a function that takes their address, as variadic ones do: 128 words.
const UNBOUNDED: u32 = 1024;

/// Decoded code; see the module's documentation.
#[derive(Debug, Default)]
pub struct Texts {
    decoded: Decoded,
    /// Whether a module was compiled by Go, by the address where its code begins.
    by_go: HashMap<u64, bool>,
    /// Plans of probes around system calls, by the address of their patch.
    around: HashMap<u64, ProbePlan>,
}

/// Decoded code by where it begins and ends: modules of a process that means harm may overlap.
#[derive(Debug, Default)]
struct Decoded {
    /// What the process allows; `None` = not asked yet.
    options: Option<Options>,
    by_range: HashMap<(u64, u64), Text>,
    /// Bytes of code of all of them.
    kept: u64,
}

#[derive(Debug)]
struct Text {
    at: u64,
    code: Vec<u8>,
    /// The addresses at which functions begin, by symbols and picks of IFUNCs, sorted.
    starts: Vec<u64>,
    /// These, and those that only unwinding rules tell of, parts of functions among them.
    begins: Vec<u64>,
    targets: Targets,
    pads: Pads,
    stacks: Stacks,
    options: Options,
}

impl Texts {
    /// Plans the hook of a function or probe; or says why there can be none.
    pub fn plan(
        &mut self,
        functions: &Functions,
        memory: &GuestMemory,
        hooks: &HookTable,
        wanted: &Wanted,
    ) -> Result<Change, String> {
        let function = &wanted.function;
        if matches!(wanted.role, Role::Place { .. }) {
            let planned = self.around.remove(&function.address);
            return planned.map(Change::Probe).ok_or_else(|| CHANGED.into());
        }
        let place = functions
            .module_of(function.address)
            .ok_or("the library it is in was unloaded")?;
        let range = place
            .module
            .code()
            .find(|range| range.contains(&function.address))
            .ok_or("it does not lie in code")?;
        // The unwinders' hooks serve C, also in a program of Go that C is linked into.
        if wanted.routine < crate::wanted::FIND_FDE && self.is_go(place, memory, range.start) {
            return Err(go::REFUSED.into());
        }
        let text = self.decoded.text(place, memory, hooks, functions, range)?;
        if wanted.probe.is_some() {
            return text.probe(function.address, wanted.want & want::BACK != 0);
        }
        let next = text
            .starts
            .partition_point(|start| *start <= function.address);
        let end = text.at + text.code.len() as u64;
        let end = text.starts.get(next).copied().unwrap_or(end);
        let code = function.address.checked_sub(text.at).and_then(|from| {
            let code = text.code.get(from as usize..(end - text.at) as usize)?;
            (!code.is_empty()).then_some(code)
        });
        let code = code.ok_or(CHANGED)?;
        let own = match function.size {
            0 => code.len() as u64,
            size => size.min(code.len() as u64),
        };
        let range = function.address..function.address + own;
        // A VM calls it by a convention of its own, which says what is on the stack.
        let found = if wanted.want & want::SCRIPTED != 0 {
            Stack::Reads(0)
        } else {
            text.stacks.of(&text.code, text.at, range, &text.begins)
        };
        let copied = match found {
            Stack::Reads(bytes) => bytes.next_multiple_of(16).min(MOST_COPIED),
            Stack::Unproven(bytes) => bytes.next_multiple_of(16).clamp(COPIED, MOST_COPIED),
            Stack::All => UNBOUNDED,
            // What is known by its name is hooked in another way.
            Stack::OwnReturn
                if wanted.routine == super::CALL_THROUGH
                    && !crate::policy::gets_no_frame(function) =>
            {
                return Err(Refusal::ReturnAddress.to_string());
            }
            Stack::OwnReturn => UNBOUNDED,
        };
        plan(
            &trampoline::Function {
                entry: function.address,
                code,
                size: function.size as usize,
            },
            &text.targets,
            &mut text.pads,
            text.options,
        )
        .map(|plan| Change::Entry(plan, copied))
        .map_err(|refusal| refusal.to_string())
    }
}

/// What a process allows, asked once for as long as code is kept. A moved call is a push and a jump, of which a shadow
/// stack does not know: the return would be a fault.
fn allowed(pid: i32) -> Options {
    let tids = thread_ids(pid).unwrap_or_default();
    Options {
        shadow_stack: shadow_stack::of_any(pid, &tids),
    }
}

impl Decoded {
    /// The code of a module in this range, decoded now or before. Whether there is room for it is asked before any is
    /// taken: how long it is stands in the maps of the process, which can map files without end.
    fn text(
        &mut self,
        place: &ModuleSymbols,
        memory: &GuestMemory,
        hooks: &HookTable,
        functions: &Functions,
        range: Range<u64>,
    ) -> Result<&mut Text, String> {
        let room = MOST_CODE - self.kept;
        match self.by_range.entry((range.start, range.end)) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(free) => {
                let size = within(&range, room)?;
                let text = Text::read(place, memory, hooks, functions.picks(), range)?;
                let options = *self.options.get_or_insert_with(|| allowed(memory.pid()));
                self.kept += size;
                Ok(free.insert(Text { options, ..text }))
            }
        }
    }
}

impl Texts {
    fn is_go(&mut self, place: &ModuleSymbols, memory: &GuestMemory, start: u64) -> bool {
        let known = self.by_go.entry(start);
        *known.or_insert_with(|| go::is_go(place, memory))
    }
}

impl Text {
    /// Plans a probe at `site`: a nop, or any instruction if `any`. Instructions are decoded from the nearest known
    /// beginning of a function on.
    fn probe(&mut self, site: u64, any: bool) -> Result<Change, String> {
        let next = self.starts.partition_point(|start| *start <= site);
        let before = next.checked_sub(1).and_then(|at| self.starts.get(at));
        let entry = *before.ok_or("no function is known before it")?;
        let end = self.at + self.code.len() as u64;
        let end = self.starts.get(next).copied().unwrap_or(end);
        let function = trampoline::Function {
            entry,
            code: &self.code[(entry - self.at) as usize..(end - self.at) as usize],
            size: 0,
        };
        let spot = if any { Spot::From } else { Spot::Nop };
        let (targets, pads) = (&self.targets, &mut self.pads);
        probe::plan(&function, site, spot, targets, pads, self.options)
            .map(Change::Probe)
            .map_err(|refusal| refusal.to_string())
    }

    fn read(
        place: &ModuleSymbols,
        memory: &GuestMemory,
        hooks: &HookTable,
        picks: impl Iterator<Item = u64>,
        Range { start, end }: Range<u64>,
    ) -> Result<Self, String> {
        let mut code = vec![0; (end - start) as usize];
        memory
            .read_bytes(start, &mut code)
            .map_err(|error| error.to_string())?;
        // Functions are decoded as they were without hooks, for their first instructions may be the targets of others.
        // Jumps of ours in padding are left, so that this padding is not used twice.
        for known in hooks.set_ones() {
            let Some(entry) = patches(&known.hook).last() else {
                continue;
            };
            let length = (entry.length as usize).min(entry.is.len());
            if (start..end).contains(&entry.at)
                && let Some(there) = code.get_mut((entry.at - start) as usize..)
                && let Some(there) = there.get_mut(..length)
                && *there == entry.is[..length]
            {
                there.copy_from_slice(&entry.was[..length]);
            }
        }
        let known: Vec<(u64, u64)> = place
            .symbols
            .every()
            .filter(|named| matches!(named.symbol.kind, Kind::Function | Kind::Indirect))
            .map(|named| (named.symbol.address, named.symbol.size))
            .filter(|(address, _)| (start..end).contains(address))
            .collect();
        let mut starts: Vec<u64> = known.iter().map(|(address, _)| *address).collect();
        starts.extend(picks.filter(|at| (start..end).contains(at)));
        starts.sort_unstable();
        starts.dedup();
        let ends: Vec<u64> = known
            .iter()
            .filter(|(_, size)| *size != 0)
            .map(|(address, size)| address.saturating_add(*size))
            .collect();
        let read = |at: u64, into: &mut [u8]| memory.read(at, into).is_ok();
        // Unwinding rules tell of functions without a symbol.
        let mut begins = place.module.functions(memory);
        begins.retain(|at| (start..end).contains(at));
        begins.extend(&starts);
        begins.sort_unstable();
        begins.dedup();
        let targets = Targets::of(&code, start, &begins, Some(&read));
        let pads = Pads::of(&code, start, &ends, &targets);
        Ok(Text {
            at: start,
            code,
            starts,
            begins,
            targets,
            pads,
            stacks: Stacks::default(),
            options: Options::default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_asked_for_room_before_any_is_taken() {
        assert_eq!(within(&(4096..8192), 4096), Ok(4096));
        assert!(within(&(4096..8192), 4095).is_err());
        assert!(within(&(0..MOST_CODE + 1), MOST_CODE).is_err());
        assert!(within(&Range { start: 5, end: 4 }, MOST_CODE).is_err());
    }
}
