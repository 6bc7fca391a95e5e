//! Script frames: which line of Ruby does this native frame run?
//!
//! A VM runs script frames inside a native function of its own, again and again: each call of that function is a *run*.
//! A language says which function that is and gives its frames innermost first, marking the last of each run; putting
//! the two together needs to know nothing else of the language (`stack`).
//!
//! A language is a file here and a line in `VMS`; nothing else names one.

mod ruby;

use std::ops::Range;
use std::time::Duration;

use process::snapshot::{Copies, Thread};
use vm::Memory;

use super::loaded::Modules;

/// Everything lancet can read script frames of.
const VMS: &[Find] = &[ruby::find];

/// Looks whether a VM is there.
type Find = fn(&Modules, &dyn Memory) -> Option<Box<dyn Scripts>>;

/// A frame of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// The file.
    pub path: String,
    /// The line.
    pub line: u32,
    /// The method or function, with its kind.
    pub name: String,
    /// The run ends with this frame: the native function that runs it returns when it does.
    pub ends_run: bool,
}

/// The VM of a language, in one process.
pub trait Scripts {
    /// The language and its version.
    fn language(&self) -> String;

    /// While the process stands: what must be copied with this thread so that its frames can be read afterwards. `copied`
    /// has its native stack.
    fn wanted(&self, memory: &dyn Memory, thread: &Thread, copied: &Copies) -> Vec<Range<u64>>;

    /// The frames of the thread that owns this native stack, innermost first; `None` if it runs no script.
    fn frames(&self, memory: &dyn Memory, thread: &Thread, copied: &Copies) -> Option<Vec<Script>>;

    /// The function that runs script frames: where it begins.
    fn runner(&self) -> u64;

    /// What scanning a native stack costs its collector; `None` if it does not.
    fn scan_cost(&self) -> Option<ScanCost>;

    /// What tells words that look like references to objects; `None` if the collector does not scan native stacks.
    fn objects(&self, memory: &dyn Memory) -> Option<Objects>;
}

/// The time a conservative collector takes for a stack, minor or full collection alike.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScanCost {
    /// For each word, in nanoseconds.
    pub word: f64,
    /// On top of that for each that looks like a reference.
    pub object: f64,
}

impl ScanCost {
    /// For so many bytes with so many references among them.
    pub fn of(&self, bytes: u64, objects: u64) -> Duration {
        let nanoseconds = self.word * (bytes / 8) as f64 + self.object * objects as f64;
        Duration::from_nanos(nanoseconds as u64)
    }
}

/// Finds the VMs in a process.
pub fn find(modules: &Modules, memory: &dyn Memory) -> Vec<Box<dyn Scripts>> {
    VMS.iter()
        .filter_map(|find| find(modules, memory))
        .collect()
}

/// The slots objects lie in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Objects {
    /// First slot's address, one past the last slot's end, and the slots' size; by rising address.
    pub pages: Vec<(u64, u64, u64)>,
}

impl Objects {
    /// Whether a word is the address of a slot.
    pub fn holds(&self, word: u64) -> bool {
        let after = self.pages.partition_point(|(start, ..)| *start <= word);
        let page = after.checked_sub(1).and_then(|page| self.pages.get(page));
        page.is_some_and(|(start, end, size)| word < *end && (word - start).is_multiple_of(*size))
    }

    /// How many of the words in `bytes` are.
    pub fn count(&self, bytes: &[u8]) -> u64 {
        let words = bytes
            .as_chunks::<8>()
            .0
            .iter()
            .map(|word| u64::from_le_bytes(*word));
        words.filter(|word| self.holds(*word)).count() as u64
    }
}
