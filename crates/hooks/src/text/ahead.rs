//! Decodes the code of several modules at the same time, on the processors that there are: most of the time until a process is hooked is
//! spent there. Used by `patcher`.

use super::{MOST_CODE, Text, Texts, place_of, within};
use crate::table::HookTable;
use crate::target::Target;
use crate::wanted::{FIND_FDE, Role, Wanted};
use process::functions::ModuleSymbols;
use std::cmp::Reverse;
use std::num::NonZero;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// The most threads that decode: a process has few large modules.
const MOST_THREADS: usize = 4;

/// A module, and the range of its code that is to be decoded.
type Part<'f> = (&'f ModuleSymbols, Range<u64>);

impl Texts {
    /// Decodes those modules of these functions that are not decoded yet, if they are several. What fails here is tried again when a hook
    /// is planned, which says why it fails.
    pub fn decode_ahead(&mut self, target: &Target, hooks: &HookTable, wanted: &[Wanted]) {
        let memory = &*target.memory;
        let mut parts = self.undecoded(target, hooks, wanted);
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        let threads = processors.min(MOST_THREADS).min(parts.len());
        if threads < 2 {
            return;
        }
        parts.sort_by_key(|(_, range)| Reverse(range.end - range.start));
        let picks: Vec<u64> = target.functions.picks().collect();
        let texts: Vec<Mutex<Option<Text>>> = parts.iter().map(|_| Mutex::new(None)).collect();
        let claimed = AtomicUsize::new(0);
        let work = || {
            loop {
                let at = claimed.fetch_add(1, Ordering::Relaxed);
                let Some((place, range)) = parts.get(at) else {
                    return;
                };
                let picks = picks.iter().copied();
                let text = Text::read(place, (memory, hooks), picks, range.clone());
                if let (Ok(text), Ok(mut into)) = (text, texts[at].lock()) {
                    *into = Some(text);
                }
            }
        };
        thread::scope(|scope| {
            for _ in 1..threads {
                // Where none can be made, this thread decodes all of them.
                let _ = thread::Builder::new().spawn_scoped(scope, work);
            }
            work();
        });
        for ((_, range), text) in parts.iter().zip(texts) {
            if let Ok(Some(text)) = text.into_inner() {
                self.decoded.keep(range, text, memory.pid());
            }
        }
    }

    /// The code that will be decoded to hook these functions, as far as there is room for it.
    fn undecoded<'f>(
        &mut self,
        target: &'f Target,
        hooks: &HookTable,
        wanted: &[Wanted],
    ) -> Vec<Part<'f>> {
        let mut parts: Vec<Part> = Vec::new();
        let mut room = MOST_CODE - self.decoded.kept;
        for one in wanted.iter().filter(|one| one.role == Role::Function) {
            let Ok((place, range)) = place_of(&target.functions, &one.function) else {
                continue;
            };
            let is_known = self.decoded.has(&range)
                || parts.iter().any(|(_, part)| *part == range)
                || hooks.set_at(one.function.address).next().is_some();
            if is_known || one.routine < FIND_FDE && self.is_go(place, &target.memory, range.start)
            {
                continue;
            }
            if let Ok(size) = within(&range, room) {
                room -= size;
                parts.push((place, range));
            }
        }
        parts
    }
}
