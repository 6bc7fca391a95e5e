//! `-w`: finds the native callers of a call, from a part of the stack that the hook has copied. Used by `guest::plan`,
//! `guest::tracing_options` and `guest`.
//!
//! The hook copies the caller's frame pointer, the return address and the stack above them; the command unwinds it with the files' call
//! frame information, as `lancet stack` does. Each call costs the copy, and callers beyond that part are unknown. Frames of the hook itself
//! are left out.

use crate::event::Caller;
use frames::live::loaded::Modules;
use frames::live::unwind::{Reads, Unwinder};
use hooks::Tracing;
use process::maps::Maps;
use process::snapshot::UnwindContext;
use prototypes::capture::{CALLERS, Op, Source};
use prototypes::show::{Captures, Memory as _};
use std::collections::HashMap;
use std::sync::Arc;

/// Number of bytes of the stack that are copied.
pub const REACH: u32 = 8 << 10;

/// Number of words that a record needs for them: they come in captures of 256 bytes, each with its address and length.
pub const ROOM: u64 = REACH as u64 / 8 + REACH as u64 / 256 * 2 + 4;

/// Returns the program by which a hook copies them, behind what it copies of the arguments.
pub fn program() -> [u64; 2] {
    [Op::Value(Source::Callers), Op::Bytes(REACH)].map(Op::encode)
}

/// Finds the callers of one guest's calls, and remembers the results for each return address. [`Callers::forget`] must be called when a
/// library has come or gone; otherwise callers are named after the file that was there before.
pub struct Callers {
    most: usize,
    files: Option<(Modules, Unwinder)>,
    known: HashMap<u64, Arc<Caller>>,
}

/// The copied part of the stack as memory.
struct Copied<'a>(&'a Captures);

impl vm::Memory for Copied<'_> {
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), vm::Fault> {
        if self.0.read(at, into) {
            Ok(())
        } else {
            Err(vm::Fault { at })
        }
    }
}

impl Callers {
    /// Finds at most `most` callers of each call; 0 = none are wanted.
    pub fn new(most: usize) -> Self {
        Callers {
            most,
            files: None,
            known: HashMap::new(),
        }
    }

    /// Whether callers are wanted.
    pub fn are_wanted(&self) -> bool {
        self.most != 0
    }

    /// Forgets the files of the process, because a library came or went.
    pub fn forget(&mut self) {
        self.files = None;
        self.known.clear();
    }

    /// Returns the callers of the call that returns to `caller` with its stack pointer at `frame`, innermost first. What was copied only
    /// for that is removed from `captures`.
    pub fn of(
        &mut self,
        tracing: &Tracing,
        caller: u64,
        frame: u64,
        captures: &mut Captures,
    ) -> Vec<Arc<Caller>> {
        let saved = frame.wrapping_sub(CALLERS);
        if self.most == 0 {
            return Vec::new();
        }
        let (stack, mut rbp) = (captures.split_off(saved), [0; 8]);
        if !stack.read(saved, &mut rbp) {
            return Vec::new();
        }
        let memory = &**tracing.memory();
        if self.files.is_none() {
            let pid = tracing.pid();
            let modules = Maps::read(pid)
                .ok()
                .and_then(|maps| Modules::of_guest(pid, &maps, memory).ok());
            let Some(modules) = modules else {
                return Vec::new();
            };
            self.files = Some((modules, Unwinder::default()));
        }
        let Some((modules, unwinder)) = &mut self.files else {
            return Vec::new();
        };
        let context = UnwindContext {
            // An address in the call instruction, because the next instruction may belong to another function.
            ip: caller.wrapping_sub(1),
            sp: frame,
            bp: u64::from_le_bytes(rbp),
            thread_area: 0,
        };
        let reads = Reads {
            modules,
            stack: &Copied(&stack),
            memory,
            hosts: &[],
        };
        let (frames, _) = unwinder.walk(context, reads);
        let ours = tracing.agent();
        let theirs = frames.iter().filter(|frame| !ours.contains(&frame.lookup));
        let callers = theirs.take(self.most).map(|frame| {
            let known = self.known.entry(frame.lookup);
            let look = || Arc::new(caller_at(modules, memory, frame.lookup));
            known.or_insert_with(look).clone()
        });
        callers.collect()
    }
}

fn caller_at(modules: &Modules, memory: &dyn vm::Memory, lookup: u64) -> Caller {
    let file = modules.at(lookup);
    let function = file.and_then(|file| {
        let function = file.function(memory, lookup);
        Some((function.name?, function.offset + 1))
    });
    Caller {
        address: lookup + 1,
        path: file.map(|file| file.path.display().to_string()),
        in_file: (lookup + 1).wrapping_sub(file.map_or(0, |file| file.bias)),
        function,
    }
}
