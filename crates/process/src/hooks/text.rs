//! The code of the modules that are hooked, decoded once for each: what it jumps to, where it is padded.

mod around;

pub use around::Around;

use super::change::Change;
use super::{Known, Role, Wanted, patches};
use crate::functions::{Functions, Place};
use crate::memory::GuestMemory;
use crate::symbols::Kind;
use routine::frame::{COPIED, MOST_COPIED};
use std::collections::HashMap;
use std::ops::Range;
use trampoline::probe::{self, ProbePlan, Spot};
use trampoline::{Options, Pads, Stack, Stacks, Targets, plan};
use vm::Memory;
use wire::calls::want;

/// Code longer than this is not decoded (the largest libraries known have 200 MB).
const MOST_CODE: u64 = 1 << 29;

/// Stack arguments given to a function that takes their address: 128 words.
const UNBOUNDED: u32 = 1024;

/// See the module's text.
#[derive(Debug, Default)]
pub struct Texts {
    by_start: HashMap<u64, Text>,
    /// Probes around system calls, by where their patch begins.
    around: HashMap<u64, ProbePlan>,
}

#[derive(Debug)]
struct Text {
    at: u64,
    code: Vec<u8>,
    /// Where functions begin, sorted.
    starts: Vec<u64>,
    targets: Targets,
    pads: Pads,
    stacks: Stacks,
}

impl Texts {
    /// Plans the hook of a function, and says how many bytes of stack arguments it must be given at least; or why there
    /// can be no hook.
    pub fn plan(
        &mut self,
        functions: &Functions,
        memory: &GuestMemory,
        hooks: &HashMap<u64, Known>,
        wanted: &Wanted,
    ) -> Result<Change, String> {
        let function = &wanted.function;
        if matches!(wanted.role, Role::Place { .. }) {
            let planned = self.around.remove(&function.address);
            return planned
                .map(Change::Probe)
                .ok_or_else(|| "its code changed while we looked at it".into());
        }
        let place = functions
            .module_of(function.address)
            .ok_or("the library it is in was unloaded")?;
        let range = place
            .module
            .code()
            .find(|range| range.contains(&function.address))
            .ok_or("it does not lie in code")?;
        let text = match self.by_start.entry(range.start) {
            std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::hash_map::Entry::Vacant(free) => {
                free.insert(Text::read(place, memory, hooks, functions.picks(), range)?)
            }
        };
        if wanted.probe.is_some() {
            return text.probe(function.address, wanted.want & want::BACK != 0);
        }
        let next = text
            .starts
            .partition_point(|start| *start <= function.address);
        let end = text.at + text.code.len() as u64;
        let end = text.starts.get(next).copied().unwrap_or(end);
        let code = &text.code[(function.address - text.at) as usize..(end - text.at) as usize];
        let own = match function.size {
            0 => code.len() as u64,
            size => size.min(code.len() as u64),
        };
        let range = function.address..function.address + own;
        // What a VM calls in a convention of its own is given what that says.
        let found = match wanted.want & want::SCRIPTED != 0 {
            true => Stack::Reads(0),
            false => text.stacks.of(&text.code, text.at, range, &text.starts),
        };
        let copied = match found {
            Stack::Reads(bytes) => bytes.next_multiple_of(16).min(MOST_COPIED),
            Stack::Unproven => COPIED,
            Stack::All => UNBOUNDED,
        };
        plan(
            &trampoline::Function {
                entry: function.address,
                code,
                size: function.size as usize,
            },
            &text.targets,
            &mut text.pads,
            Options::default(),
        )
        .map(|plan| Change::Entry(plan, copied))
        .map_err(|refusal| refusal.to_string())
    }
}

impl Text {
    /// Plans the hook of a probe, at its nop or before `any` instruction; its function is decoded from where one begins that
    /// is known.
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
        probe::plan(&function, site, spot, targets, pads, Options::default())
            .map(Change::Probe)
            .map_err(|refusal| refusal.to_string())
    }

    fn read(
        place: &Place,
        memory: &GuestMemory,
        hooks: &HashMap<u64, Known>,
        picks: impl Iterator<Item = u64>,
        Range { start, end }: Range<u64>,
    ) -> Result<Self, String> {
        if end - start > MOST_CODE {
            return Err("its module is too large".into());
        }
        let mut code = vec![0; (end - start) as usize];
        memory
            .read_bytes(start, &mut code)
            .map_err(|error| error.to_string())?;
        // What stands in stubs now may lead into other functions' first instructions. Pads in use stay in use.
        for known in hooks.values().filter(|known| known.set) {
            let Some(entry) = patches(&known.hook).last() else {
                continue;
            };
            let length = entry.length as usize;
            if (start..end).contains(&entry.at)
                && let Some(there) = code.get_mut((entry.at - start) as usize..)
                && let Some(there) = there.get_mut(..length)
                && *there == entry.is[..length.min(entry.is.len())]
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
            .map(|(address, size)| address + size)
            .collect();
        let read = |at: u64, into: &mut [u8]| memory.read(at, into).is_ok();
        // Functions without a symbol begin somewhere too.
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
            targets,
            pads,
            stacks: Stacks::default(),
        })
    }
}
