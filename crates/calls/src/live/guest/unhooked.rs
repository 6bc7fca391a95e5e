//! System calls of a guest that no hook sees, by the kernel's own count ([`super::super::kernel_count`]). Used by
//! `life::watched`, `life`, `opening` and others.

use super::super::kernel_count::CountingProgram;
use super::Guest;
use crate::message::Message;
use crate::message::Unhooked;
use hooks::OTHERS;
use process::gadgets;
use process::maps::Maps;
use std::collections::{BTreeMap, BTreeSet};
use tracepoint::OF_32_BITS;

/// The calls that a lancet has made before its agent is there: mmap, munmap, mremap, madvise.
const FIRST_CALLS: [u64; 4] = [9, 11, 25, 28];

impl Guest {
    /// Begins with the count, before the hooks are set. One that has begun goes on.
    pub(super) fn count_beside(&mut self, kernel: &CountingProgram) {
        if self.says_unseen {
            self.beside.begin(self.tracing.pid(), kernel);
        }
    }

    /// The same for a child that was adopted, which has hooks already.
    pub(super) fn count_child_beside(&mut self, kernel: &CountingProgram) {
        if self.says_unseen && self.beside.begin_child(self.tracing.pid(), kernel) {
            self.note_hooked();
        }
    }

    /// Notes where hooks are, after some were set.
    pub(super) fn note_hooked(&mut self) {
        if self.says_unseen {
            self.beside.note(self.tracing.hooked_instructions());
        }
    }

    /// Looks, when it is time, whether calls were made that no hook has seen. If so, that is reported, and the kernel counts them to the end.
    pub(super) fn look_beside(&mut self, kernel: &CountingProgram) {
        if !self.beside.is_due(kernel) {
            return;
        }
        let unhooked = self.unhooked();
        // Only now: what was counted is of this program if it still runs.
        if self.tracing.is_replaced() {
            return self.beside.forget();
        }
        self.beside.stays |= !unhooked.is_empty() || self.exact.is_some();
        if !unhooked.is_empty() && !std::mem::replace(&mut self.beside.told, true) {
            if self.exact.is_some() && !self.life.keep {
                self.inexact = Some(unhooked.iter().map(Unhooked::to_string).collect());
            } else {
                for one in unhooked {
                    self.messages.say(Message::CountedUnseen(one));
                }
            }
        }
        self.beside.pause();
    }

    /// Finds out which of the counted calls lancet's own code has made, while the process still has its memory.
    pub(super) fn note_own_calls(&mut self) {
        if self.says_unseen {
            self.unhooked();
        }
    }

    /// Reports, as losses, how many calls no hook has seen, and counts them no more. What was counted is of nobody if another program runs
    /// in the process by now (`replaced`).
    pub(super) fn say_unhooked(&mut self, replaced: bool) {
        if replaced {
            self.beside.forget();
        }
        if !self.beside.end() {
            return;
        }
        for one in self.unhooked() {
            self.messages.say(Message::NoHookThere(one));
        }
    }

    /// Returns what the kernel has counted where no hook is, by the name of the call.
    pub(super) fn unhooked(&mut self) -> Vec<Unhooked> {
        let tracing = &self.tracing;
        let calls = self.beside.unhooked(|all| {
            let maps = Maps::read(tracing.pid()).ok()?;
            let mut not = tracing.code_of_lancets(&maps);
            let kernels = maps.iter().filter(|mapping| mapping.is_named("[uprobes]"));
            not.extend(kernels.map(|mapping| mapping.start..mapping.end));
            // There a lancet that opens the process has its first calls made.
            let borrowed =
                gadgets::find(&**tracing.memory(), &maps, gadgets::SYSCALL_RETURN).next();
            let is_not = |[at, number]: &[u64; 2]| {
                let is_borrowed = borrowed == Some(*at) && FIRST_CALLS.contains(number);
                is_borrowed || not.iter().any(|range| range.contains(at))
            };
            Some(all.iter().map(is_not).collect())
        });
        if calls.is_empty() {
            return Vec::new();
        }
        let mut found: BTreeMap<(String, bool), (u64, BTreeSet<String>)> = BTreeMap::new();
        for (at, number, calls) in calls {
            // Numbers that have no name are asked about together.
            let is_narrow = number >= OF_32_BITS;
            let known = u32::try_from(number)
                .ok()
                .and_then(prototypes::bundle::system_call);
            let row = if known.is_some() || is_narrow {
                number
            } else {
                OTHERS
            };
            let Some(one) = self.selection.system_call(row, OF_32_BITS) else {
                continue;
            };
            let found = found.entry((one.name.to_string(), is_narrow)).or_default();
            found.0 += calls;
            found.1.insert(self.place_of(at));
        }
        let times = self.beside.times();
        let one = |((name, narrow), (calls, places))| Unhooked {
            pid: self.tracing.pid(),
            name,
            narrow,
            calls,
            places: Vec::from_iter::<BTreeSet<String>>(places),
            times,
        };
        found.into_iter().map(one).collect()
    }

    /// Returns a place in words: `function+0x1f in libc.so.6`.
    fn place_of(&self, at: u64) -> String {
        let Some(place) = self.tracing.functions().module_of(at) else {
            return "code outside of the program and its libraries".to_owned();
        };
        match place.symbols.name_at(at) {
            Some((name, offset)) => format!("{name}+{offset:#x} in {}", place.name),
            None => format!(
                "{:#x} in {}",
                at.wrapping_sub(place.module.bias),
                place.name
            ),
        }
    }
}
