//! Script frames, and what a VM keeps parked: the interface of each language's reader, [`Scripts`]. Used by
//! `ruby::frames`, `python::frames` and others here, and by the crates `frames`, `report` and `calls`.
//!
//! A VM runs script frames inside a native function of its own, again and again: each call of that function is a *run*.
//! A language's reader says which function that is and returns its frames innermost first, with the last of each run
//! marked; crate `frames`, which combines both, needs to know nothing else of the language.

mod alone;
mod cut;
pub(crate) mod evidence;
pub(crate) mod without_table;

use std::fmt;
use std::ops::Range;
use std::time::Duration;

pub use alone::{FindFramesAlone, FramesAlone};
pub(crate) use cut::Cut;
pub use cut::{Chain, NotRead};
pub use evidence::{NoSources, Sources};
pub use without_table::WithoutTable;

use process::pages::Pages;
use process::snapshot::{Copies, Thread, UnwindContext};
use vm::library::is_library;
use vm::{Language, Memory};

/// Limit of the bytes of a path or name that are read; longer ones are cut.
pub(crate) const LONGEST: u64 = 4096;

/// Limit of how often a list that changed while it was read is read again.
pub const ATTEMPTS: u32 = 8;

/// A frame of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// The path of the file; empty for a function of C that the language shows among its own.
    pub path: String,
    /// The line that is being executed, from 1; 0 = not known.
    pub line: u32,
    /// The name of the method or function as the language shows it.
    pub name: String,
    /// The same with the class that has the method, where that is known: `block in Worker#run`.
    pub qualified: Option<String>,
    /// Where it belongs on the native stack.
    pub placement: Placement,
    /// Whether its file was written by a package manager. The readers of the languages do not know that; it is set where
    /// files can be read.
    pub launcher: bool,
}

/// What is said of a VM without a table.
pub(crate) const NO_TABLE: &str = "has no table";

/// The text in place of one that cannot be read.
const UNREADABLE: &str = "?";

impl Script {
    /// Returns whether its file or its name could be read.
    pub fn is_known(&self) -> bool {
        self.path != UNREADABLE || self.name != UNREADABLE
    }
}

/// Where a script frame belongs on the native stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// The native frame that runs it is that of the next script frame outward: both are of one run.
    SameRun,
    /// It is the outermost of its run: when it returns, so does the native function that runs it.
    EndsRun,
    /// It is the outermost of its run, and the native frame that runs it holds this address.
    EndsRunAround(u64),
    /// It belongs to no run: it is a function of C, whose code begins at this address.
    NativeFunction(u64),
}

impl Script {
    /// Returns the name of its function with the class, where that is known; else as the code itself names it.
    pub fn full_name(&self) -> &str {
        self.qualified.as_ref().unwrap_or(&self.name)
    }

    /// Returns what follows its path: `:12`, and nothing where the line is not known.
    pub fn colon_line(&self) -> impl fmt::Display {
        ColonLine(self.line)
    }

    /// Returns whether its file belongs to a library or to the VM, not to the program.
    pub fn is_library(&self) -> bool {
        let all = Language::ALL.iter();
        self.launcher
            || self.path.is_empty()
            || all
                .flat_map(|language| [language.description().libraries])
                .any(|marks| is_library(self.path.as_bytes(), marks))
    }
}

struct ColonLine(u32);

impl fmt::Display for ColonLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            line => write!(f, ":{line}"),
        }
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => write!(f, "{}", self.name),
            path => write!(f, "{path}{} in {}", self.colon_line(), self.name),
        }
    }
}

/// Whether a thread has the lock of its VM, without which it may run no script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Turn {
    /// It has the lock.
    Has,
    /// It waits for the lock.
    Waits,
    /// It runs without the lock, in a system call or in C code.
    Without,
    /// The VM has no lock, or it is not known who has it.
    #[default]
    Unknown,
}

/// The functions through which a thread sleeps, as far as they have names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Through {
    /// The outermost function of the libraries between the system call and the VM or program: `getaddrinfo`.
    pub function: Option<String>,
    /// The function of the VM or program that called it.
    pub caller: Option<String>,
    /// The first argument of the system call: of `futex` the address on which it sleeps.
    pub argument: u64,
}

/// A VM's data about one of its threads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VmThread {
    /// The address of the VM's structure for it.
    pub id: u64,
    /// The name that the program gave it.
    pub name: Option<String>,
    /// Whether it has the VM's lock.
    pub turn: Turn,
    /// The thread that has the VM's lock for which this one waits, by its `id`, where the VM says it.
    pub turn_of: Option<u64>,
    /// The C function that it is in, as the language names it: `Thread::Queue#pop`.
    pub function: Option<String>,
    /// The mutex of the language that it waits for, which another thread holds.
    pub wants: Option<u64>,
    /// An object that it may wait for: a mutex that another thread holds, or a part of the language's queues and conditions.
    pub may_want: Option<u64>,
    /// The mutexes of the language that it holds.
    pub holds: Vec<u64>,
    /// The threads that wait for this one to end.
    pub joined_by: Vec<u64>,
    /// Whether it is in a function that waits for the end of a thread, or that is not known: what the other thread's `joined_by` says may be
    /// older.
    pub may_join: bool,
}

/// An object of a language that keeps its frames while no thread runs it: a fiber, a greenlet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coroutine {
    /// The language's name for it: `Fiber`, `greenlet`.
    pub kind: &'static str,
    /// The address of the VM's structure for it.
    pub object: u64,
    /// A number for the language's reader only.
    pub(crate) detail: u64,
}

/// Where a coroutine is parked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parked {
    /// The registers with which its native code goes on; `None` if only its script frames are known.
    pub context: Option<UnwindContext>,
    /// Its native stack, from the lowest address to the outer end; empty if that is a thread's.
    pub stack: Range<u64>,
    /// The part of its stack that is kept in the heap while another stack uses its addresses.
    pub copied: Option<Copied>,
}

impl From<vm::Parked> for Parked {
    fn from(parked: vm::Parked) -> Parked {
        Parked {
            context: Some(UnwindContext {
                ip: parked.ip,
                sp: parked.sp,
                bp: parked.bp,
                thread_area: 0,
            }),
            stack: parked.stack,
            copied: None,
        }
    }
}

/// A part of a stack that was copied away because another stack uses its addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    /// The addresses at which it was used.
    pub from: Range<u64>,
    /// The address of the copy.
    pub at: u64,
}

impl Copied {
    /// Returns how many bytes were copied.
    pub fn size(&self) -> u64 {
        self.from.end.saturating_sub(self.from.start)
    }

    /// Returns the address of the copy of the byte at `address`, and how many bytes of the copy there are from there.
    pub fn find(&self, address: u64) -> Option<(u64, u64)> {
        let within = address.checked_sub(self.from.start)?;
        let rest = self.size().checked_sub(within).filter(|rest| *rest > 0)?;
        Some((self.at.wrapping_add(within), rest))
    }
}

/// A file of code that a process has loaded.
pub trait Module {
    /// Returns the name of the file without its folder.
    fn name(&self) -> &str;

    /// Returns the address of an exported symbol in the process.
    fn exported(&self, memory: &dyn Memory, name: &str) -> Option<u64>;

    /// Returns the addresses of all code of the function that begins at `start`.
    fn extent(&self, memory: &dyn Memory, start: u64) -> Vec<Range<u64>>;

    /// Returns where the function that begins at `start` jumps to at its end.
    fn tail_call(&self, memory: &dyn Memory, start: u64) -> Option<u64>;

    /// Calls `each` with the bytes of its code, and where they are in the process.
    fn each_code(&self, memory: &dyn Memory, each: &mut dyn FnMut(u64, &[u8]));
}

/// Looks for the VM of a language in a process that has loaded these modules. `sources` has the text of its scripts, by which a VM of a
/// version without a table is proven to be read right.
pub type FindScripts =
    fn(modules: &[&dyn Module], memory: &dyn Memory, sources: &dyn Sources) -> FoundScripts;

/// Why the frames of a VM are not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unread {
    /// It is of a version without a reader, or what is read of it was not proven; why.
    Refused(String),
    /// None runs, or it changed while it was read: another try may succeed.
    NotNow(String),
}

impl Unread {
    /// Returns that as the result of a function of type [`FindScripts`].
    pub(crate) fn found(self) -> FoundScripts {
        match self {
            Unread::Refused(why) => Some(Err(why)),
            Unread::NotNow(_) => None,
        }
    }
}

/// In a function of type [`FindScripts`], returns the facts that were found; returns from it where a VM is of a version without a reader, or
/// none runs (its library may be loaded alone).
macro_rules! facts_or_return {
    ($found:expr, $error:ident) => {
        match $found {
            Ok(facts) => facts,
            Err($error::Unsupported(why)) => return Some(Err(why.to_string())),
            Err(_) => return None,
        }
    };
}
pub(crate) use facts_or_return;

/// The reader of a VM, if the VM is loaded in the process; or of one of a version without a reader, why there is none.
pub type FoundScripts = Option<Result<Box<dyn Scripts>, String>>;

/// The VM of a language, in one process.
pub trait Scripts {
    /// Returns the language with its version: `Ruby 3.1.2`.
    fn language(&self) -> String;

    /// Returns what is to be said of how it is read; `None` where there is a table for its version.
    fn without_table(&self) -> Option<&WithoutTable> {
        None
    }

    /// Returns why what is parked is not read, as what is to be said of the VM; `None` where it is. Then [`coroutines`](Scripts::coroutines)
    /// is not called.
    fn no_coroutines(&self) -> Option<&'static str> {
        self.without_table().map(|_| NO_TABLE)
    }

    /// Returns what was not read of its frames since that was asked last, where some were not.
    fn take_lost(&self) -> Vec<NotRead> {
        Vec::new()
    }

    /// Returns whether what leads to a thread's frames may be replaced while the thread sleeps or runs: then threads are copied only while all
    /// that run stand still, and one that sleeps is among these if [`is_torn`](Scripts::is_torn).
    fn needs_stop(&self) -> bool {
        false
    }

    /// Returns whether a thread that was copied while it slept cannot be read, because others have replaced meanwhile what leads to its
    /// frames; asked where it [`needs_stop`](Scripts::needs_stop).
    fn is_torn(&self, _memory: &dyn Memory, _thread: &Thread) -> bool {
        false
    }

    /// Returns what must be copied with this thread while the process stands, so that its frames can be read afterwards.
    /// `copied` has its native stack.
    fn wanted(&self, memory: &dyn Memory, thread: &Thread, copied: &Copies) -> Vec<Range<u64>>;

    /// Returns the parts of a thread's native stack in which [`wanted`](Scripts::wanted) searches, and finds nothing where they were not copied.
    fn searched(&self, _thread: &Thread) -> Vec<Range<u64>> {
        Vec::new()
    }

    /// Returns the frames of the thread that owns this native stack, innermost first; `None` if it runs no script.
    fn frames(&self, memory: &dyn Memory, thread: &Thread, copied: &Copies) -> Option<Chain>;

    /// Returns what the VM knows of the thread that owns this native stack; `None` if it is no thread of the VM. `through`
    /// names the functions through which it sleeps.
    fn thread(
        &self,
        _memory: &dyn Memory,
        _thread: &Thread,
        _copied: &Copies,
        _through: &Through,
    ) -> Option<VmThread> {
        None
    }

    /// Returns what may be parked, such as fibers, and whether that is all. It is called while the process runs, because it
    /// takes time; coroutines that have ended or run when the process stands are left out then.
    fn coroutines(&self, _memory: &dyn Memory) -> (Vec<Coroutine>, bool) {
        (Vec::new(), true)
    }

    /// Returns the threads of the VM that no kernel thread may run at this moment, where several share one. They are few and quickly found,
    /// and are asked for at each look.
    fn threads_apart(&self, _memory: &dyn Memory) -> Vec<Coroutine> {
        Vec::new()
    }

    /// Returns where a coroutine is parked; `None` if it is not. It reads everything that [`coroutine`](Scripts::coroutine)
    /// needs later.
    fn parked(&self, _memory: &dyn Memory, _one: &Coroutine) -> Option<Parked> {
        None
    }

    /// Returns the frames of a parked coroutine, innermost first.
    fn coroutine(&self, _memory: &dyn Memory, _one: &Coroutine) -> Chain {
        Chain::default()
    }

    /// Returns the code of the function that runs script frames, in pieces.
    fn runner(&self) -> &[Range<u64>];

    /// Returns the function in whose frame code runs that the VM made at run time; `None` if there is no such code, or it is
    /// called in a frame of its own.
    fn host(&self) -> Option<Range<u64>> {
        None
    }

    /// Returns what scanning a native stack costs the collector; `None` if it scans none.
    fn scan_cost(&self) -> Option<ScanCost> {
        None
    }

    /// Returns the address at which the collector's scan of a thread's stack ends, outside of which nothing is scanned; `None` if it
    /// is not known.
    fn scan_end(&self, _memory: &dyn Memory, _thread: &Thread, _copied: &Copies) -> Option<u64> {
        None
    }

    /// Returns the same of the stack in `mapping` on which a coroutine is parked, whose part from `sp` on is in use.
    fn parked_scan_end(
        &self,
        _memory: &dyn Memory,
        _one: &Coroutine,
        _mapping: &Range<u64>,
        _sp: u64,
    ) -> Option<u64> {
        None
    }

    /// Returns the slots of objects, by which words that look like references are recognised; `None` if the collector scans
    /// no native stacks.
    fn objects(&self, _memory: &dyn Memory) -> Option<Objects> {
        None
    }
}

/// The time that a conservative collector takes for a stack, in a minor or full collection alike.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScanCost {
    /// Nanoseconds for each word of eight bytes.
    pub word: f64,
    /// Nanoseconds more for each word that looks like a reference to an object.
    pub object: f64,
    /// Nanoseconds more for each stack: what is marked with it, as the registers of its thread, the thread's own record and
    /// the values of a shallow VM stack. How deep that is is not asked.
    pub stack: f64,
    /// Nanoseconds more for each stack if none of that is in the processor's cache any more.
    pub cold: f64,
}

impl ScanCost {
    /// Returns the cost of a whole stack, of which `bytes` bytes are scanned, with `objects` references among them: with what is
    /// marked with it in the processor's cache, and without.
    pub fn of_stack(&self, bytes: u64, objects: u64) -> [Duration; 2] {
        let words = self.of(bytes, objects);
        [self.stack, self.stack + self.cold].map(|more| words + Duration::from_nanos(more as u64))
    }

    /// Returns the cost of `bytes` bytes with `objects` references among them.
    pub fn of(&self, bytes: u64, objects: u64) -> Duration {
        let nanoseconds = self.word * (bytes / 8) as f64 + self.object * objects as f64;
        Duration::from_nanos(nanoseconds as u64)
    }
}

/// The heap slots that objects lie in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Objects {
    /// First slot's address, one past the last slot's end, and the slots' size; by rising address.
    pub pages: Vec<(u64, u64, u64)>,
}

impl Objects {
    /// Returns whether a word is the address of a slot.
    pub fn holds(&self, word: u64) -> bool {
        let after = self.pages.partition_point(|(start, ..)| *start <= word);
        let page = after.checked_sub(1).and_then(|page| self.pages.get(page));
        page.is_some_and(|(start, end, size)| word < *end && (word - start).is_multiple_of(*size))
    }

    /// Returns how many of the words in `bytes` are addresses of slots.
    pub fn count(&self, bytes: &[u8]) -> u64 {
        let words = bytes
            .as_chunks::<8>()
            .0
            .iter()
            .map(|word| u64::from_le_bytes(*word));
        words.filter(|word| self.holds(*word)).count() as u64
    }
}

/// Returns the text of a guest that `write` produces, or [`UNREADABLE`].
pub(crate) fn text<E>(write: impl FnOnce(&mut String) -> Result<(), E>) -> String {
    let mut out = String::new();
    match write(&mut out) {
        Ok(()) => out,
        Err(_) => UNREADABLE.to_owned(),
    }
}

/// Returns the pages that `walk` reads through its argument; none if it fails.
pub(crate) fn pages_of<T>(
    memory: &dyn Memory,
    walk: impl FnOnce(&Pages) -> Option<T>,
) -> Vec<Range<u64>> {
    let pages = Pages::new(memory);
    let walked = walk(&pages);
    walked.map(|_| pages.read_so_far()).unwrap_or_default()
}
