//! What the agent needs to know of a guest's threads: where each keeps its kernel id and its VM's state,
//! counted from the thread pointer.
//!
//! Both are found by looking for what is known: the main thread's id, the address of its VM state. They lie in
//! the thread's control block or its static thread-local storage, at the same distance in every thread
//! (`struct pthread`, glibc `nptl/descr.h`; variant II of "ELF Handling For Thread-Local Storage").

use crate::error::{Error, Result};
use crate::functions::Functions;
use crate::maps::Maps;
use crate::memory::GuestMemory;
use crate::ptrace;
use crate::ruby::RubyGuest;
use std::fs;
use vm::ruby::{self, Ruby};
use vm::{perl, php, python};
use wire::calls::{FACTS, language};

/// Static thread-local storage below the thread pointer, and the control block above it.
const BELOW: u64 = 64 * 1024;
const ABOVE: u64 = 4096;

/// The VM of a guest, as the agent needs it to know script lines.
#[derive(Debug)]
pub enum Script {
    /// None, and why.
    None(String),
    /// Ruby: its facts, and the address of its main thread's `rb_thread_t`.
    Ruby(ruby::Facts, u64),
    /// Python.
    Python(python::Facts),
    /// Perl.
    Perl(perl::Facts),
    /// PHP.
    Php(php::Facts),
}

/// The VMs, each with a symbol that nothing else has.
const MARKS: [(&str, u64); 4] = [
    ("ruby_version", language::RUBY),
    ("_PyRuntime", language::PYTHON),
    ("PL_thr_key", language::PERL),
    ("executor_globals", language::PHP),
];

impl Script {
    /// Its language; empty = none.
    pub fn name(&self) -> &'static str {
        match self {
            Script::None(_) => "",
            Script::Ruby(..) => "Ruby",
            Script::Python(_) => "Python",
            Script::Perl(_) => "Perl",
            Script::Php(_) => "PHP",
        }
    }

    /// Looks for one.
    pub fn find(pid: i32, memory: &GuestMemory, maps: &Maps, functions: &Functions) -> Self {
        let symbol = |name: &str| functions.symbol(name);
        let found = MARKS.iter().find(|(mark, _)| symbol(mark).is_some());
        let script = match found.map(|(_, language)| *language) {
            Some(language::RUBY) => match RubyGuest::find(pid, memory, maps) {
                Ok(found) => {
                    let reader = Ruby::new(memory, found.facts).ok();
                    let thread = reader.and_then(|reader| reader.main_thread(found.vm).ok());
                    Ok(Script::Ruby(found.facts, thread.unwrap_or(0)))
                }
                Err(error) => Err(error.to_string()),
            },
            Some(language::PYTHON) => python::Facts::find(memory, &symbol)
                .map(Script::Python)
                .map_err(|error| error.to_string()),
            Some(language::PERL) => perl::Facts::find(memory, &symbol)
                .map(Script::Perl)
                .map_err(|error| error.to_string()),
            Some(language::PHP) => php::Facts::find(memory, &symbol)
                .map(Script::Php)
                .map_err(|error| error.to_string()),
            _ => Err("no Ruby, Python, Perl or PHP is loaded in it".into()),
        };
        script.unwrap_or_else(Script::None)
    }
}

/// See the module's text.
#[derive(Clone, Copy, Debug, Default)]
pub struct Words {
    /// For `wire::calls::Calls`.
    pub tid_offset: u64,
    /// For `wire::calls::Calls`.
    pub tells_pointer: u64,
    /// For `wire::calls::Calls`.
    pub state_offset: u64,
    /// For `wire::calls::Calls`.
    pub language: u64,
    /// For `wire::calls::Calls`.
    pub facts: [u64; FACTS],
}

impl Words {
    fn fill(&mut self, facts: &[u64]) {
        for (word, fact) in self.facts.iter_mut().zip(facts) {
            *word = *fact;
        }
    }
}

/// Looks through the control blocks of stopped threads; and why script lines will not be known, if so.
pub fn find(
    pid: i32,
    memory: &GuestMemory,
    tids: &[i32],
    script: &Script,
) -> Result<(Words, Option<String>)> {
    let tells_pointer = tells_pointer();
    let (mut main, mut blocks) = (None, Vec::<Block>::new());
    for tid in [pid].iter().chain(tids.iter().filter(|tid| **tid != pid)) {
        match Block::read(pid, *tid, memory)? {
            Some(block) if *tid == pid => main = Some(block),
            // A thread may share another's, and nothing there is about it: io_uring's workers do.
            Some(block)
                if main
                    .iter()
                    .chain(&blocks)
                    .any(|known| known.pointer == block.pointer) => {}
            Some(block) => blocks.push(block),
            None if tells_pointer => {}
            None => {
                return Err(Error::NothingToBorrow {
                    pid,
                    reason: format!(
                        "thread {tid} has no thread-local storage, and this kernel (before 5.9) does not let programs see that"
                    ),
                });
            }
        }
    }
    let mut words = Words {
        tid_offset: main
            .as_ref()
            .and_then(|main| tid_offset(main, &blocks))
            .unwrap_or(0),
        tells_pointer: tells_pointer.into(),
        ..Words::default()
    };
    let no_lines = match script {
        Script::None(reason) => Some(reason.clone()),
        Script::Ruby(facts, thread) => {
            words.language = language::RUBY;
            words.fill(&facts.to_words());
            match main.and_then(|main| main.find(*thread)) {
                Some(offset) if *thread != 0 => {
                    words.state_offset = offset;
                    None
                }
                _ => Some(
                    "its Ruby keeps no pointer to a thread's state where one was found before"
                        .into(),
                ),
            }
        }
        Script::Python(facts) => {
            words.language = language::PYTHON;
            words.fill(&facts.to_words());
            let known = facts.specific() != 0;
            (!known).then(|| "its threads keep no pointer to their Python state".into())
        }
        Script::Perl(facts) => {
            words.language = language::PERL;
            words.fill(&facts.to_words());
            None
        }
        Script::Php(facts) => {
            words.language = language::PHP;
            words.fill(&facts.to_words());
            words.state_offset = main.map_or(0, |main| main.pointer);
            None
        }
    };
    Ok((words, no_lines))
}

/// Whether programs may use `rdfsbase` here (`HWCAP2_FSGSBASE`, arch/x86/include/uapi/asm/hwcap2.h; kernels since 5.9).
fn tells_pointer() -> bool {
    const FSGSBASE: u64 = 1 << 1;
    // SAFETY: a constant argument; reads the vector that the kernel gave us.
    unsafe { libc::getauxval(libc::AT_HWCAP2) & FSGSBASE != 0 }
}

/// The memory around a thread pointer.
struct Block {
    tid: u32,
    start: u64,
    pointer: u64,
    bytes: Vec<u8>,
}

impl Block {
    /// That of a thread; `None` = it has none that a C library made.
    fn read(pid: i32, tid: i32, memory: &GuestMemory) -> Result<Option<Self>> {
        let registers = ptrace::registers(tid)
            .map_err(|errno| ptrace::explain(pid, "reading a thread's registers", errno))?;
        let pointer = registers.fs_base;
        if pointer == 0 || memory.word(pointer).ok() != Some(pointer) {
            return Ok(None);
        }
        // Page by page, as the storage may lie at either end of its mapping.
        let page = wire::PAGE as u64;
        let (mut start, mut bytes) = (pointer & !(page - 1), Vec::new());
        let read = |at: u64, into: &mut Vec<u8>, front: bool| {
            let mut piece = vec![0; page as usize];
            let there = memory.read_bytes(at, &mut piece).is_ok();
            match (there, front) {
                (true, true) => drop(into.splice(..0, piece)),
                (true, false) => into.append(&mut piece),
                (false, _) => {}
            }
            there
        };
        for at in (start..pointer + ABOVE).step_by(page as usize) {
            if !read(at, &mut bytes, false) {
                break;
            }
        }
        while pointer - start < BELOW && read(start - page, &mut bytes, true) {
            start -= page;
        }
        Ok(Some(Block {
            tid: own_id(pid, tid),
            start,
            pointer,
            bytes,
        }))
    }

    /// The distance from the thread pointer of a word with this value, nearest first.
    fn find(&self, value: u64) -> Option<u64> {
        let places = (self.start..).step_by(8).zip(self.bytes.chunks_exact(8));
        places
            .filter(|(_, bytes)| **bytes == value.to_le_bytes())
            .map(|(at, _)| at)
            .min_by_key(|at| at.abs_diff(self.pointer))
            .map(|at| at.wrapping_sub(self.pointer))
    }

    fn half(&self, offset: u64) -> Option<u32> {
        let at = (self.pointer + offset - self.start) as usize;
        let bytes = self.bytes.get(at..at + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    }
}

/// Where every thread has its id.
fn tid_offset(main: &Block, others: &[Block]) -> Option<u64> {
    (0..ABOVE).step_by(4).find(|offset| {
        main.half(*offset) == Some(main.tid)
            && others
                .iter()
                .all(|block| block.half(*offset) == Some(block.tid))
    })
}

/// The id that a thread has in its own PID namespace: the last of `NSpid`.
pub(super) fn own_id(pid: i32, tid: i32) -> u32 {
    fs::read_to_string(format!("/proc/{pid}/task/{tid}/status"))
        .ok()
        .and_then(|status| {
            let line = status
                .lines()
                .find_map(|line| line.strip_prefix("NSpid:"))?;
            line.split_ascii_whitespace().last()?.parse().ok()
        })
        .unwrap_or(tid as u32)
}
