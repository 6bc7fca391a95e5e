//! Hooks of several commands at the same function of one process. Used by `text`, `lifting`, `own_hooks` and others.
//!
//! Each command knows its own hooks. Where two want the same function, the second writes its jump over that of the first,
//! and its stub ends in the first one's jump, moved like any other instruction:
//!
//! ```text
//!   function:  jmp stub B ─► stub B: routine of B; jmp stub A ─► stub A: routine of A; first instructions; jmp back
//!   B put back:  jmp stub A             B has noted that these bytes were there before it
//!   A put back:  first instructions     A has noted that these were
//! ```
//!
//! They may leave in either order. When A leaves first, its jump is not in the code, so there is nothing to put back; it
//! notes in its record that it is out ([`Hook::set`](wire::calls::Hook::set)). B then finds by the records of A that the bytes which it would
//! put back belong to a hook that is out, and puts back what that one has replaced.
//!
//! ```text
//!   A out first: function: jmp stub B ─► … ─► stub A: its routine sees that nothing is wanted ─► first instructions
//!   B put back:  first instructions
//! ```
//!
//! Only a jump of five bytes that is one patch is covered, and exactly its five bytes: the code behind it, to which the
//! stub of A returns, stays what it is. What else overlaps with another command's hook is refused ([`Layers::in_the_way`]).
//!
//! All of this is read while the process stands still in our stop, in which no other command can change it, or is
//! checked again then. The records are in the process's memory, so they may say anything; what follows from them is
//! written to its own code alone.

use crate::areas::Areas;
use crate::limits::MOST_HOOKS;
use crate::table::patches;
use inject::agents::Agents;
use inject::resident::Resident;
use process::error::Result;
use process::memory::GuestMemory;
use std::collections::BTreeMap;
use std::ops::Range;
use wire::calls::Patched;

/// Limit of hooks over one another; a process has no more agents than this.
const DEEPEST: usize = 64;
/// The most bytes that one hook moves into its stub.
const LONGEST: u64 = 4096;

/// One patch of a hook of some command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layer {
    /// Address of the agent that the hook belongs to.
    pub agent: u64,
    /// The bytes that the hook has written at the function, and those that it replaced.
    pub patch: Patched,
    /// Address at which its hook's entry is patched.
    place: u64,
    /// Number of bytes at `place` that run in the stub of its hook instead.
    moved: u32,
    /// Bytes of stack arguments that its hook's routine copies.
    pub copied: u32,
    /// Whether it is the only patch of its hook.
    alone: bool,
    /// [`Hook::set`](wire::calls::Hook::set) of its hook.
    set: bool,
}

impl Layer {
    fn length(&self) -> usize {
        (self.patch.length as usize).min(self.patch.is.len())
    }

    fn is(&self) -> &[u8] {
        &self.patch.is[..self.length()]
    }

    fn was(&self) -> &[u8] {
        &self.patch.was[..self.length()]
    }

    /// The bytes that no other command may change: the patch, and the instructions that run in the stub.
    fn range(&self) -> Range<u64> {
        let moved = if self.is_entry() {
            u64::from(self.moved).min(LONGEST)
        } else {
            0
        };
        let length = moved.max(self.length() as u64);
        self.patch.at..self.patch.at.saturating_add(length)
    }

    /// Whether it is the patch at `at`, and another one can be written over it.
    pub fn is_coverable_at(&self, at: u64) -> bool {
        self.patch.at == at && self.alone && self.length() == 5 && self.is_entry()
    }

    /// Whether the patch is still in `code`, which begins at `start` and was read later than this layer.
    pub fn stands_at(&self, start: u64, code: &[u8]) -> bool {
        let from = self.patch.at.wrapping_sub(start) as usize;
        code.get(from..)
            .is_some_and(|code| code.starts_with(self.is()))
    }

    /// A jump over five bytes, as `over` meets it.
    #[cfg(test)]
    pub fn jump(at: u64, was: [u8; 5], is: [u8; 5]) -> Self {
        let mut patch = Patched {
            at,
            length: 5,
            ..Patched::default()
        };
        patch.was[..5].copy_from_slice(&was);
        patch.is[..5].copy_from_slice(&is);
        Layer {
            agent: 0,
            patch,
            place: at,
            moved: 5,
            copied: 0,
            alone: true,
            set: true,
        }
    }

    /// Whether callers reach this patch first; it is not a jump in padding.
    fn is_entry(&self) -> bool {
        self.patch.at == self.place
    }
}

#[derive(Debug, Default)]
struct Read {
    agents: Vec<Resident>,
    /// By the address of the patch.
    patches: BTreeMap<u64, Vec<Layer>>,
}

/// The hooks of all agents in one process, by the patches that they share. They are read once, when this is made.
#[derive(Debug)]
pub(crate) struct Layers<'m> {
    memory: &'m GuestMemory,
    read: Read,
}

impl<'m> Layers<'m> {
    /// Reads the layers of a process.
    ///
    /// # Errors
    /// The mappings of the process cannot be read. It must not seem to have no hooks of others then, because their jumps would be taken
    /// for code of the process's own.
    pub fn of(memory: &'m GuestMemory) -> Result<Self> {
        Ok(Self::with(memory, Agents::find(memory)?.read(memory)?))
    }

    /// Reads the layers of a process with these agents.
    pub fn with(memory: &'m GuestMemory, agents: Vec<Resident>) -> Self {
        Layers {
            memory,
            read: Read::of(memory, agents),
        }
    }

    /// The memory of the process.
    pub fn memory(&self) -> &'m GuestMemory {
        self.memory
    }

    /// All agents in the process.
    pub fn agents(&self) -> impl Iterator<Item = &Resident> {
        self.read.agents.iter()
    }

    /// The patch that has written these bytes at this address.
    fn owner(&self, at: u64, bytes: &[u8]) -> Option<&Layer> {
        let here = self.read.patches.get(&at)?;
        here.iter().find(|layer| bytes.starts_with(layer.is()))
    }

    /// Replaces the patches that lie over one another in `bytes`, which begin at `at`, by what they have replaced: from the outermost one
    /// on, while `through` returns true.
    fn peel(&self, at: u64, bytes: &mut [u8], through: impl Fn(&Layer) -> bool) {
        for _ in 0..DEEPEST {
            let Some(layer) = self.owner(at, bytes).filter(|layer| through(layer)) else {
                return;
            };
            bytes[..layer.length()].copy_from_slice(layer.was());
        }
    }

    /// The bytes `was`, which were at `at` before a hook, without the patches of hooks that are out by now.
    pub fn without_lifted(&self, at: u64, was: &[u8]) -> Vec<u8> {
        let mut bytes = was.to_vec();
        self.peel(at, &mut bytes, |layer| !layer.set);
        bytes
    }

    /// Whether the bytes `now` at the place of a patch are its own, or those of patches written over it.
    pub fn leads_to(&self, patch: &Patched, now: &[u8]) -> bool {
        let is = &patch.is[..now.len().min(patch.is.len())];
        let mut bytes = now.to_vec();
        if bytes == is {
            return true;
        }
        for _ in 0..DEEPEST {
            let Some(layer) = self.owner(patch.at, &bytes) else {
                return false;
            };
            bytes[..layer.length()].copy_from_slice(layer.was());
            if bytes == is {
                return true;
            }
        }
        false
    }

    /// Takes the entry patches of all commands out of a copy of the code that begins at `start`. Jumps in padding stay,
    /// so that no padding is used twice.
    pub fn take_out_of(&self, start: u64, code: &mut [u8]) {
        let end = start + code.len() as u64;
        for (at, layers) in self.read.patches.range(start..end) {
            let entries = layers.iter().filter(|layer| layer.is_entry());
            if let Some(longest) = entries.map(Layer::length).max() {
                let from = (at - start) as usize;
                let to = (from + longest).min(code.len());
                self.peel(*at, &mut code[from..to], Layer::is_entry);
            }
        }
    }

    /// The patch of another agent than `own_hooks` over which a hook of the function at this address would be written.
    pub fn over(&self, own: u64, places: [u64; 2]) -> Option<&Layer> {
        places.into_iter().find_map(|at| {
            if !self.read.patches.contains_key(&at) {
                return None;
            }
            let mut now = [0; 8];
            self.memory.read_bytes(at, &mut now[..5]).ok()?;
            let top = self.owner(at, &now[..5])?;
            (top.agent != own && top.is_coverable_at(at)).then_some(top)
        })
    }

    /// A hook of another agent than `own_hooks` that is in the code, and has changed or moved bytes of this range.
    pub fn in_the_way(&self, own: u64, range: &Range<u64>) -> Option<&Layer> {
        let near = range.start.saturating_sub(LONGEST)..range.end;
        let mut layers = self.read.patches.range(near).flat_map(|(_, here)| here);
        layers.find(|layer| {
            let theirs = layer.range();
            let mut now = [0; 8];
            let now = &mut now[..layer.length()];
            layer.agent != own
                && theirs.start < range.end
                && range.start < theirs.end
                && self.memory.read_bytes(layer.patch.at, now).is_ok()
                && self.leads_to(&layer.patch, now)
        })
    }

    /// Says for a message who uses the agent of a hook.
    pub fn holder(&self, layer: &Layer) -> String {
        let agent = self.agents().find(|agent| agent.base == layer.agent);
        let owner = agent.and_then(|agent| agent.owner(self.memory).ok().flatten());
        owner.map_or_else(
            || "another lancet has hooked it".into(),
            |owner| format!("another lancet ({owner}) has hooked it"),
        )
    }
}

impl Read {
    fn of(memory: &GuestMemory, mut agents: Vec<Resident>) -> Self {
        agents.retain(Resident::is_readable);
        let mut read = Read {
            patches: BTreeMap::new(),
            agents: Vec::new(),
        };
        // With one agent, no two commands can meet.
        if agents.len() > 1 {
            let mut room = MOST_HOOKS;
            for agent in &agents {
                read.note(memory, agent, &mut room);
            }
        }
        Read { agents, ..read }
    }

    /// Notes the patches of an agent, for at most `room` hooks. A record that cannot be read, or that no command can have written, is
    /// ignored.
    fn note(&mut self, memory: &GuestMemory, agent: &Resident, room: &mut usize) {
        let hooks = Areas::read(memory, agent.header.calls).and_then(|areas| areas.hooks(memory));
        let hooks = hooks.unwrap_or_default();
        *room = room.saturating_sub(hooks.len());
        if *room == 0 {
            return;
        }
        for (_, hook) in &hooks {
            for patch in patches(hook).iter().filter(|patch| patch.length != 0) {
                let layer = Layer {
                    agent: agent.base,
                    patch: *patch,
                    place: hook.place,
                    moved: hook.moved,
                    copied: hook.copied,
                    alone: hook.patched == 1,
                    set: hook.set != 0,
                };
                self.patches.entry(patch.at).or_default().push(layer);
            }
        }
    }
}
