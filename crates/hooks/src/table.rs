//! The table of one process's hooks: which exist, what they are for and whether they are set. Used by `planned`, `set`,
//! `patcher` and others.
//!
//! A hook consists of four things in the process: a record ([`Hook`]) that the agent reads, a stub, the bytes in the code that jump to it,
//! and a number in what the agent writes. The table keeps a copy of the record, because reading it back costs a system call, and changes
//! both together ([`HookTable::set_want`]). It also keeps whether the patches are in the code ([`Known::set`]); [`stands_whole`] reads the
//! code itself, where another program may have changed it.

use crate::layers::Layers;
use crate::standstill::Writes;
use crate::wanted::is_asked;
use inject::resident::Resident;
use process::error::Result;
use process::functions::Function;
use process::memory::GuestMemory;
use routine::frame::flags;
use std::collections::{HashMap, HashSet};
use std::mem::offset_of;
use std::time::Instant;
use vm::Memory;
use wire::calls::{Hook, Patched, want};

/// Bytes of an `endbr64`. The patch of a function that begins with one begins behind it.
pub(crate) const LANDING: u64 = 4;

/// What is known of one hook.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    /// Address of its record.
    pub at: u64,
    /// Its record, as we last wrote it.
    pub hook: Hook,
    /// Whether its patches are in the code.
    pub set: bool,
    /// The function that it was last wanted for; `None` = it is of an earlier attach and was not wanted in this one.
    pub function: Option<Function>,
}

/// The hooks of one process, those of earlier attaches included; a session keeps the table from opening the process until it leaves.
#[derive(Clone, Debug, Default)]
pub(crate) struct HookTable {
    /// By the address of the patch that is written last; hooks of system calls, which no code leads to, by the call's
    /// number.
    by_place: HashMap<u64, Known>,
    /// When each hook was set, by the same key; not of those that an earlier attach has set.
    since: HashMap<u64, Instant>,
    next_number: u64,
    /// Functions by the number of their hook. Those of unloaded libraries stay: records of their calls may still be
    /// unread.
    functions: HashMap<u32, Function>,
    /// Numbers of functions that share their code with others, by address and identity. A function keeps its number.
    identities: HashMap<(u64, u64), u64>,
}

impl HookTable {
    pub fn get(&self, place: u64) -> Option<&Known> {
        self.by_place.get(&place)
    }

    pub fn all(&self) -> impl Iterator<Item = &Known> {
        self.by_place.values()
    }

    /// The hooks whose patches are in the code.
    pub fn set_ones(&self) -> impl Iterator<Item = &Known> {
        self.all().filter(|known| known.set)
    }

    /// The set hook of the function at `address`, and the address of its patch.
    pub fn set_at(&self, address: u64) -> impl Iterator<Item = (u64, &Known)> {
        let places = [address, address + LANDING].into_iter();
        let known = places.filter_map(|place| Some((place, self.get(place)?)));
        known.filter(|(_, known)| known.set)
    }

    /// Notes a hook, in the place of what is known there, which is returned.
    pub fn insert(&mut self, known: Known) -> Option<Known> {
        self.by_place.insert(known.hook.place, known)
    }

    /// Undoes an [`insert`](Self::insert) at this place that returned `before`.
    pub fn restore(&mut self, place: u64, before: Option<Known>) {
        match before {
            Some(known) => self.by_place.insert(place, known),
            None => self.by_place.remove(&place),
        };
    }

    /// Notes a hook of an earlier attach. A place may have had several; one that is set takes precedence.
    pub fn insert_earlier(&mut self, known: Known) {
        // A larger number was given out by no session but written by the process.
        let number = known.hook.number.min(u64::from(u32::MAX));
        self.next_number = self.next_number.max(number + 1);
        let before = self.get(known.hook.place);
        if before.is_none_or(|before| known.set || !before.set) {
            self.insert(known);
        }
    }

    /// Notes whether the patches of the hook at `place` are in the code now.
    pub fn mark(&mut self, place: u64, set: bool) {
        if let Some(known) = self.by_place.get_mut(&place) {
            known.set = set;
        }
        if set {
            self.since.insert(place, Instant::now());
        } else {
            self.since.remove(&place);
        }
    }

    /// A number that no hook of this process has.
    pub fn new_number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number - 1
    }

    /// Changes what is wanted of the hook at `place`, here and in the process; 0 silences it.
    pub fn set_want(&mut self, memory: &GuestMemory, place: u64, wanted: u64) -> Result<()> {
        let Some(known) = self.by_place.get_mut(&place) else {
            return Ok(());
        };
        change_want(memory, known, wanted)
    }

    /// Removes the bits `gone` from what is wanted of all hooks.
    pub fn unwant(&mut self, memory: &GuestMemory, gone: u64) -> Result<()> {
        for known in self.by_place.values_mut() {
            if known.hook.want & gone != 0 {
                let wanted = known.hook.want & !gone;
                change_want(memory, known, wanted)?;
            }
        }
        Ok(())
    }

    /// Silences every hook. Records outlive the hooks, because a thread that sleeps in a stub may still read one.
    pub fn silence_all(&mut self, memory: &GuestMemory) -> Result<()> {
        self.unwant(memory, u64::MAX)
    }

    /// Silences every hook in few writes. The process may run: nobody but us writes to records.
    pub fn silence_by_page(&mut self, memory: &GuestMemory) -> Result<()> {
        let mut writes = Writes::default();
        let wanted = self.all().filter(|known| known.hook.want != 0);
        for known in wanted {
            for offset in [offset_of!(Hook, want), offset_of!(Hook, inline)] {
                writes.add(known.at + offset as u64, 0u64.to_le_bytes().to_vec());
            }
        }
        writes.write_by_page(memory)?;
        for known in self.by_place.values_mut() {
            (known.hook.want, known.hook.inline) = (0, 0);
        }
        Ok(())
    }

    /// Gives silent hooks what is wanted of them: the places of the hooks, each with the word. The process may run: nobody but us writes
    /// to records.
    pub fn want_again(&mut self, memory: &GuestMemory, wants: &[(u64, u64)]) -> Result<()> {
        let mut writes = Writes::default();
        for (place, wanted) in wants {
            if let Some(known) = self.by_place.get_mut(place) {
                known.hook.want = *wanted;
                let want = known.at + offset_of!(Hook, want) as u64;
                writes.add(want, wanted.to_le_bytes().to_vec());
            }
        }
        writes.write_by_page(memory)
    }

    /// Returns what the hook at `place` does for ourselves, whatever the user wants of it: bits of [`want::OWN`].
    pub fn own_want(&self, place: u64) -> u64 {
        let known = self.get(place).filter(|known| known.set);
        known.map_or(0, |known| known.hook.want & want::OWN)
    }

    /// Returns the addresses of the functions that are hooked for ourselves in this session: those with a bit of [`want::OWN`], and those
    /// that unwinders ask.
    pub fn own_functions(&self, resident: &Resident) -> HashSet<u64> {
        self.set_ones()
            .filter(|known| {
                is_asked(resident, known.hook.routine) || known.hook.want & want::OWN != 0
            })
            .filter_map(|known| Some(known.function.as_ref()?.address))
            .collect()
    }

    /// Returns the IFUNCs that are hooked themselves, to learn what they pick.
    pub fn pickers(&self) -> impl Iterator<Item = &Function> {
        self.set_ones()
            .filter(|known| known.hook.want & want::PICKS != 0)
            .filter_map(|known| known.function.as_ref())
    }

    /// Returns the addresses of the places of system calls with a probe of which something is wanted.
    pub fn system_call_addresses(&self) -> HashSet<u64> {
        self.set_ones()
            .filter(|known| known.hook.instruction != 0 && known.hook.want != 0)
            .map(|known| known.hook.instruction)
            .collect()
    }

    /// Whether a hook around a system call has changed any of the `length` bytes from `at` on.
    pub fn is_around_a_system_call(&self, at: u64, length: u64) -> bool {
        self.set_ones()
            .filter(|known| known.hook.instruction != 0)
            .any(|known| {
                let moved = u64::from(known.hook.moved).max(5);
                let end = known.hook.place.saturating_add(moved);
                known.hook.place < at + length && at < end
            })
    }

    /// Returns the functions whose calls are reported now.
    pub fn told(&self) -> impl Iterator<Item = &Function> {
        let set = self.set_ones().filter(|known| known.hook.patched != 0);
        set.flat_map(|known| self.numbers(known))
            .filter_map(|number| self.functions.get(&(number as u32)))
    }

    /// Returns since when each call of a function goes through a frame of ours, by the function's address: of those that this session has
    /// hooked, without those that have no such frame, or not at each of their calls.
    pub fn framed(&self) -> HashMap<u64, Instant> {
        let is_framed = |hook: &Hook| {
            let no_frame = flags::ENTRY_ONLY | flags::GUARDED;
            let not_each = want::PROBE | want::BARE;
            let tests = [
                hook.callers,
                hook.asks_call[1],
                hook.names[1],
                hook.instruction,
            ];
            hook.want & (want::RETURN | want::COUNT) != 0
                && hook.want & not_each == 0
                && hook.flags & no_frame == 0
                && hook.patched != 0
                && tests == [0; 4]
        };
        let framed = self.set_ones().filter(|known| is_framed(&known.hook));
        let since = |known: &Known| {
            let function = known.function.as_ref()?;
            Some((function.address, *self.since.get(&known.hook.place)?))
        };
        framed.filter_map(since).collect()
    }

    /// Returns the numbers under which the calls of a hooked function are reported; several if functions share its code.
    fn numbers(&self, known: &Known) -> Vec<u64> {
        if known.hook.names[1] == 0 {
            return vec![known.hook.number];
        }
        let places = [known.hook.place, known.hook.place.wrapping_sub(LANDING)];
        let numbers = self.identities.iter();
        let here = numbers.filter(|((address, _), _)| places.contains(address));
        here.map(|(_, number)| *number).collect()
    }

    /// The function with this number.
    pub fn function(&self, number: u32) -> Option<&Function> {
        self.functions.get(&number)
    }

    /// Returns how many functions have ever had a number.
    pub fn functions_so_far(&self) -> usize {
        self.functions.len()
    }

    /// Notes which function the calls with a number belong to.
    pub fn name(&mut self, number: u64, function: &Function) {
        self.functions.insert(number as u32, function.clone());
    }

    /// Returns the number of one of several functions that share their code.
    pub fn number_of(&mut self, identity: u64, function: &Function) -> u64 {
        let key = (function.address, identity);
        let number = match self.identities.get(&key) {
            Some(number) => *number,
            None => self.new_number(),
        };
        self.identities.insert(key, number);
        self.name(number, function);
        number
    }

    /// Whether that function has a number.
    pub fn has_number(&self, identity: u64, address: u64) -> bool {
        self.identities.contains_key(&(address, identity))
    }

    /// Forgets the functions at an address that is not hooked after all. Returns one of them, if there are any.
    pub fn unname(&mut self, address: u64) -> Option<Function> {
        let found = self.functions.values();
        let found = found.into_iter().find(|known| known.address == address);
        let found = found.cloned();
        self.functions.retain(|_, known| known.address != address);
        self.identities.retain(|(of, _), _| *of != address);
        found
    }
}

/// Sets [`Hook::want`] of the record at `at`.
pub(crate) fn write_want(memory: &GuestMemory, at: u64, wanted: u64) -> Result<()> {
    memory.write(at + offset_of!(Hook, want) as u64, &wanted.to_le_bytes())
}

/// Changes what is wanted of a hook. With `wanted` 0 the stub's inline code is switched off too.
fn change_want(memory: &GuestMemory, known: &mut Known, wanted: u64) -> Result<()> {
    write_want(memory, known.at, wanted)?;
    known.hook.want = wanted;
    if wanted == 0 && known.hook.inline != 0 {
        let inline = known.at + offset_of!(Hook, inline) as u64;
        memory.write(inline, &0u64.to_le_bytes())?;
        known.hook.inline = 0;
    }
    Ok(())
}

/// The patches of a hook. The record may come from the process, so their number is not trusted.
pub(crate) fn patches(hook: &Hook) -> &[Patched] {
    &hook.patches[..(hook.patched as usize).min(hook.patches.len())]
}

/// Whether all patches of a hook are in the code, so that calls come to it. A patch that another command's patch covers counts, because
/// that one leads to it. The patches are gone if the library was unloaded and loaded again at the same address.
pub(crate) fn stands_whole(memory: &GuestMemory, layers: &Layers, hook: &Hook) -> bool {
    patches(hook)
        .iter()
        .all(|patch| bytes_at(memory, patch).is_some_and(|now| layers.leads_to(patch, &now)))
}

/// Returns the bytes at the place of a patch; `None` if they cannot be read.
pub(crate) fn bytes_at(memory: &impl Memory, patch: &Patched) -> Option<Vec<u8>> {
    let mut now = vec![0; (patch.length as usize).min(patch.is.len())];
    memory.read(patch.at, &mut now).ok()?;
    Some(now)
}
