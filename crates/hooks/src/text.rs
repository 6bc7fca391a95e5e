//! Decoded code of modules, kept while hooks are planned: where functions begin, where code jumps to, where padding is. A
//! module is decoded once, however many of its functions are hooked. Used by `own_hooks`, `patcher`, `replaced` and
//! others.

mod ahead;
mod extents;
mod golang;
mod syscall_sites;
mod ways;

pub use golang::refuse_program;
pub use syscall_sites::Around;
pub use ways::may_enter_kernel;

use crate::change::Change;
use crate::layers::{Layer, Layers};
use crate::table::{HookTable, LANDING, patches};
use crate::target::Target;
use crate::wanted::{Reason, Role, Wanted};
use extents::Extents;
use process::error::Error;
use process::functions::{Function, Functions, ModuleSymbols};
use process::memory::GuestMemory;
use process::shadow_stack;
use process::stop::thread_ids;
use process::symbols::Kind;
use routine::frame::{COPIED, MOST_COPIED};
use std::collections::HashMap;
use std::ops::Range;
use trampoline::probe::{self, ProbePlan, Spot};
use trampoline::{Options, Pads, Refusal, Stack, Stacks, Targets, plan};
use vm::Memory;
use wire::calls::want;

/// Limit of the bytes of code that are kept decoded at a time. The largest known libraries have 200 MB.
pub(crate) const MOST_CODE: u64 = 1 << 29;

/// The bytes of a range of code, if there is `room` for them.
fn within(range: &Range<u64>, room: u64) -> Result<u64, Reason> {
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

/// Decoded code by where it begins and ends: modules of a hostile process may overlap.
#[derive(Debug, Default)]
struct Decoded {
    /// What the process allows; `None` = not read yet.
    options: Option<Options>,
    by_range: HashMap<(u64, u64), Text>,
    /// Sum of the bytes of code of all of them.
    kept: u64,
}

#[derive(Debug)]
struct Text {
    at: u64,
    code: Vec<u8>,
    /// The addresses at which functions begin, by symbols and picks of IFUNCs, sorted.
    starts: Vec<u64>,
    /// These, and those that only unwinding rules name, among them parts of functions.
    begins: Vec<u64>,
    extents: Extents,
    targets: Targets,
    pads: Pads,
    stacks: Stacks,
    options: Options,
}

impl Texts {
    /// Plans the hook of a function or probe, or returns why there can be none.
    pub fn plan(
        &mut self,
        target: &Target,
        hooks: &HookTable,
        layers: &Layers,
        wanted: &Wanted,
    ) -> Result<Change, Reason> {
        let own = target.resident.base;
        let address = wanted.function.address;
        let plain = wanted.role == Role::Function && wanted.probe.is_none();
        if plain && let Some(layer) = layers.over(own, [address, address + LANDING]) {
            let Change::Entry(_, copied) = self.alone(target, hooks, wanted)? else {
                return Err(Reason::Changed);
            };
            return over(address, layer, copied, &target.memory);
        }
        let planned = self.alone(target, hooks, wanted)?;
        let blocked = planned
            .ranges()
            .find_map(|range| layers.in_the_way(own, &range));
        match blocked {
            // It was written after we had looked whether there is one to go over.
            Some(layer) if plain && layer.is_coverable_at(planned.at()) => Err(Reason::Changed),
            Some(layer) => Err(layers.holder(layer).into()),
            None => Ok(planned),
        }
    }

    /// Makes the plan as it is if no other command has hooked anything there.
    fn alone(
        &mut self,
        target: &Target,
        hooks: &HookTable,
        wanted: &Wanted,
    ) -> Result<Change, Reason> {
        let (functions, memory) = (&target.functions, &*target.memory);
        let function = &wanted.function;
        if matches!(wanted.role, Role::Place { .. }) {
            let planned = self.around.remove(&function.address);
            return planned.map(Change::Probe).ok_or(Reason::Changed);
        }
        let (place, range) = place_of(functions, function)?;
        // The unwinders' hooks serve C code, also in a Go program that C is linked into.
        if wanted.routine < crate::wanted::FIND_FDE && self.is_go(place, memory, range.start) {
            return Err(golang::REFUSED.into());
        }
        let text = self
            .decoded
            .text(place, (memory, hooks), functions, range)?;
        if wanted.probe.is_some() {
            return text.probe(function.address, wanted.want & want::BACK != 0);
        }
        let code = code_from(&text.code, text.at, &text.starts, function.address);
        let code = code.ok_or(Reason::Changed)?;
        let own = match function.size {
            0 => code.len() as u64,
            size => size.min(code.len() as u64),
        };
        let range = function.address..function.address + own;
        // A VM calls the function by a convention of its own, which determines the stack arguments.
        let found = if wanted.want & want::SCRIPTED != 0 {
            Stack::Reads(0)
        } else {
            text.stacks.of(&text.code, text.at, range, &text.begins)
        };
        let copied = match found {
            Stack::Reads(bytes) => bytes.next_multiple_of(16).min(MOST_COPIED),
            Stack::Unproven(bytes) => bytes.next_multiple_of(16).clamp(COPIED, MOST_COPIED),
            Stack::All => UNBOUNDED,
            // A function known by name is treated by the hook policy instead.
            Stack::OwnReturn
                if wanted.routine == super::CALL_THROUGH
                    && !crate::policy::gets_no_frame(function) =>
            {
                return Err(Refusal::ReturnAddress.into());
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
        .map_err(Reason::from)
    }
}

/// Returns the code from a function's address up to the next known function, of a text at `at`.
fn code_from<'c>(code: &'c [u8], at: u64, starts: &[u64], address: u64) -> Option<&'c [u8]> {
    let next = starts.partition_point(|start| *start <= address);
    let end = at + code.len() as u64;
    let end = starts.get(next).copied().unwrap_or(end);
    let from = address.checked_sub(at)?;
    let code = code.get(from as usize..(end - at) as usize)?;
    (!code.is_empty()).then_some(code)
}

/// Returns the module that a function is in, and the range of its code there.
fn place_of<'f>(
    functions: &'f Functions,
    function: &Function,
) -> Result<(&'f ModuleSymbols, Range<u64>), Reason> {
    let place = functions
        .module_of(function.address)
        .ok_or("the library it is in was unloaded")?;
    let mut code = place.module.code();
    let range = code.find(|range| range.contains(&function.address));
    Ok((place, range.ok_or("it does not lie in code")?))
}

/// Why code could not be read, in words. Its memory is also gone where the process lives and runs another program.
fn unread(error: &Error) -> String {
    if error.is_left() {
        return "its memory is not there any more".into();
    }
    error.to_string()
}

/// The plan of a hook over another command's, whose stub copies `copied` bytes of stack arguments, if it is ours that
/// would be alone. Nothing but the five bytes of its jump is changed, which has shown that they may be.
fn over(address: u64, layer: &Layer, copied: u32, memory: &GuestMemory) -> Result<Change, Reason> {
    let mut code = vec![0; (layer.patch.at - address) as usize + 5];
    memory
        .read_bytes(address, &mut code)
        .map_err(|error| unread(&error))?;
    // The other command may have left since, so that other instructions are here.
    if !layer.stands_at(address, &code) {
        return Err(Reason::Changed);
    }
    let function = trampoline::Function {
        entry: address,
        code: &code,
        size: code.len(),
    };
    let (targets, mut pads) = (Targets::default(), Pads::default());
    let plan = plan(&function, &targets, &mut pads, Options::default());
    let plan = plan.map_err(Reason::from)?;
    Ok(Change::Entry(
        plan,
        copied.max(layer.copied).min(MOST_COPIED),
    ))
}

/// Reads what a process allows, once while code is kept. A relocated call becomes a push and a jump, which a shadow stack does
/// not record: the return would be a fault.
fn allowed(pid: i32) -> Options {
    // Of a process whose threads cannot be listed, one may have a shadow stack.
    let of_any = |tids: Vec<i32>| shadow_stack::of_any(pid, &tids);
    Options {
        shadow_stack: thread_ids(pid).map_or(true, of_any),
    }
}

impl Decoded {
    /// Returns the code of a module in this range, decoded now or before. The room for it is checked before any memory is
    /// allocated: its length comes from the maps of the process, which can map files without end.
    fn text(
        &mut self,
        place: &ModuleSymbols,
        (memory, hooks): (&GuestMemory, &HookTable),
        functions: &Functions,
        range: Range<u64>,
    ) -> Result<&mut Text, Reason> {
        let key = (range.start, range.end);
        if !self.has(&range) {
            within(&range, MOST_CODE - self.kept)?;
            let text = Text::read(place, (memory, hooks), functions.picks(), range.clone())?;
            self.keep(&range, text, memory.pid());
        }
        self.by_range.get_mut(&key).ok_or(Reason::Changed)
    }

    /// Whether the code of this range is decoded.
    fn has(&self, range: &Range<u64>) -> bool {
        self.by_range.contains_key(&(range.start, range.end))
    }

    /// Keeps what was decoded of this range of a process.
    fn keep(&mut self, range: &Range<u64>, text: Text, pid: i32) {
        let options = *self.options.get_or_insert_with(|| allowed(pid));
        let key = (range.start, range.end);
        if self
            .by_range
            .insert(key, Text { options, ..text })
            .is_none()
        {
            self.kept += range.end - range.start;
        }
    }
}

impl Texts {
    /// Returns the code of a function, and the plan of a jump at its entry that uses no padding elsewhere.
    pub fn entry(
        &mut self,
        functions: &Functions,
        memory: &GuestMemory,
        hooks: &HookTable,
        function: &Function,
    ) -> Result<(Vec<u8>, trampoline::Plan), Reason> {
        let (place, range) = place_of(functions, function)?;
        if self.is_go(place, memory, range.start) {
            return Err(golang::REFUSED.into());
        }
        let text = self
            .decoded
            .text(place, (memory, hooks), functions, range)?;
        let code = code_from(&text.code, text.at, &text.starts, function.address);
        let code = code.ok_or(Reason::Changed)?;
        let planned = trampoline::Function {
            entry: function.address,
            code,
            size: function.size as usize,
        };
        let planned = plan(&planned, &text.targets, &mut Pads::default(), text.options);
        let planned = planned.map_err(Reason::from)?;
        Ok((code.to_vec(), planned))
    }

    fn is_go(&mut self, place: &ModuleSymbols, memory: &GuestMemory, start: u64) -> bool {
        let known = self.by_go.entry(start);
        *known.or_insert_with(|| golang::is_go(place, memory))
    }
}

impl Text {
    /// Plans a probe at `site`: a nop, or any instruction if `any`. Instructions are decoded from the nearest known
    /// beginning of a function on.
    fn probe(&mut self, site: u64, any: bool) -> Result<Change, Reason> {
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
            .map_err(Reason::from)
    }

    fn read(
        place: &ModuleSymbols,
        (memory, hooks): (&GuestMemory, &HookTable),
        picks: impl Iterator<Item = u64>,
        Range { start, end }: Range<u64>,
    ) -> Result<Self, Reason> {
        let mut code = vec![0; (end - start) as usize];
        memory
            .read_bytes(start, &mut code)
            .map_err(|error| unread(&error))?;
        // Functions are decoded as they were without hooks, because their first instructions may be jumped to. Our jumps in
        // padding are left in place, so that this padding is not used twice.
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
        // The records are read after the code: a command that hooks meanwhile writes its records before the code, and keeps
        // them.
        let layers = Layers::of(memory).map_err(|error| unread(&error))?;
        layers.take_out_of(start, &mut code);
        let known: Vec<(u64, u64)> = place
            .symbols
            .places()
            .filter(|symbol| matches!(symbol.kind, Kind::Function | Kind::Indirect))
            .map(|symbol| (symbol.address, symbol.size))
            .filter(|(address, _)| (start..end).contains(address))
            .collect();
        let mut starts: Vec<u64> = known.iter().map(|(address, _)| *address).collect();
        starts.extend(picks.filter(|at| (start..end).contains(at)));
        starts.sort_unstable();
        starts.dedup();
        let sized = known.iter().filter(|(_, size)| *size != 0);
        let sized: Vec<(u64, u64)> = sized
            .map(|(address, size)| (*address, address.saturating_add(*size)))
            .collect();
        let ends: Vec<u64> = sized.iter().map(|(_, end)| *end).collect();
        let mut extents = Extents::of(place, memory, sized);
        let read = |at: u64, into: &mut [u8]| memory.read(at, into).is_ok();
        // Unwinding rules tell of functions without a symbol.
        let mut begins = place.module.functions(memory);
        begins.extend(extents.begins());
        extents.described = !begins.is_empty() && begins.len() >= extents.sized.len();
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
            extents,
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

    /// `ret` and padding, as `_dl_debug_state` of glibc 2.36 is: five bytes of it cannot be hooked as a function of five bytes.
    #[test]
    fn a_hook_that_was_put_back_meanwhile_is_not_gone_over() {
        let pid = std::process::id() as i32;
        let memory = GuestMemory::open(pid).expect("our own memory");
        let (was, is) = ([0xc3, 0x66, 0x66, 0x2e, 0x0f], [0xe9, 0, 0x10, 0, 0]);
        let code = Box::new(is);
        let address = code.as_ptr() as u64;
        let layer = Layer::jump(address, was, is);
        let planned = over(address, &layer, 0, &memory).expect("it is there");
        assert_eq!(planned.at(), address);
        let code = Box::new(was);
        let address = code.as_ptr() as u64;
        let layer = Layer::jump(address, was, is);
        let planned = over(address, &layer, 0, &memory);
        assert_eq!(planned.err(), Some(Reason::Changed));
    }

    #[test]
    fn code_is_asked_for_room_before_any_is_taken() {
        assert_eq!(within(&(4096..8192), 4096), Ok(4096));
        assert!(within(&(4096..8192), 4095).is_err());
        assert!(within(&(0..MOST_CODE + 1), MOST_CODE).is_err());
        assert!(within(&Range { start: 5, end: 4 }, MOST_CODE).is_err());
    }
}
