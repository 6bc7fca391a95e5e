//! Functions and frames of samples, and a table of them that has bounds. Used by `profile`, `waits`, `grouped` and
//! others here, and by the crates `report` and `lancet`.

use std::collections::HashMap;
use std::rc::Rc;

/// Frames of all different stacks together, beyond which of a new stack only the innermost frame is counted (4 MiB).
pub(super) const MOST_FRAMES: usize = 1_000_000;

/// Different frames, and bytes of their names and paths, that are told apart; samples in others are counted as [`OTHERS`].
pub(super) const MOST_KINDS: usize = 100_000;
pub(super) const MOST_BYTES: usize = 32 << 20;

/// What stands for the collection of garbage, between the script for which it is made and the native function.
pub(super) const COLLECTION: &str = "(garbage collection)";

/// The innermost frame of a sample for which there is no more room.
pub(super) const OTHERS: &str = "(others: too many different functions)";

/// Frames that are kept of a stack, the innermost ones.
pub(super) const DEEPEST: usize = 1_000;

/// A function, by what tells it apart from others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Function {
    /// With the class that has it, where that is known.
    pub name: String,
    /// The path of the script, or the name of the program or library; empty for a function of C that the language shows among its own.
    pub file: String,
    /// What it is of.
    pub kind: Kind,
}

/// What a function is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A script.
    #[default]
    Script,
    /// Native code.
    Native,
    /// No code: what a thread waited for, below the function that did.
    Wait,
}

/// A frame of a sample.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Frame {
    /// The function that this is a call of.
    pub function: Function,
    /// The line of the script that runs, from 1; 0 for native code.
    pub line: u32,
    /// Whether its file belongs to a library or to the VM, not to the program.
    pub library: bool,
}

/// Different frames, by number.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    pub(super) frames: Vec<Frame>,
    numbers: HashMap<Frame, u32>,
    /// Bytes of the names and paths in `frames`.
    pub(super) bytes: usize,
}

impl Known {
    /// Returns the numbers of the frames of a stack, but for the outermost ones of a very deep one.
    pub(super) fn stack(&mut self, frames: &mut Vec<Frame>) -> Rc<[u32]> {
        let beyond = frames.len().saturating_sub(DEEPEST);
        frames.drain(..beyond);
        frames.drain(..).map(|frame| self.number(frame)).collect()
    }

    /// Returns the number of a frame; a new one's if there is room.
    fn number(&mut self, frame: Frame) -> u32 {
        if let Some(number) = self.numbers.get(&frame) {
            return *number;
        }
        let size = frame.function.name.len() + frame.function.file.len();
        let is_full = self.frames.len() >= MOST_KINDS || self.bytes + size > MOST_BYTES;
        let frame = match is_full {
            true => named(OTHERS),
            false => {
                self.bytes += size;
                frame
            }
        };
        let frames = &mut self.frames;
        *self.numbers.entry(frame).or_insert_with_key(|frame| {
            frames.push(frame.clone());
            frames.len() as u32 - 1
        })
    }

    /// About as many bytes of memory as they take: each is there twice.
    pub(super) fn memory(&self) -> usize {
        2 * (self.bytes + self.frames.len() * size_of::<Frame>())
    }

    pub(super) fn frames(&self, stack: &[u32]) -> Vec<&Frame> {
        let numbers = stack.iter();
        numbers
            .map(|number| &self.frames[*number as usize])
            .collect()
    }
}

/// What stands for frames that are not known.
pub(super) fn named(name: &str) -> Frame {
    Frame {
        function: Function {
            name: name.to_owned(),
            file: String::new(),
            kind: Kind::Native,
        },
        line: 0,
        library: true,
    }
}
