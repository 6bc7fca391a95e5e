//! What the agent needs to know of a guest's threads: where each keeps its kernel id and its VM's state,
//! counted from the thread pointer. Used by `open`, `inline`, `scripted` and others.
//!
//! Both are found by looking for what is known: the main thread's id, the address of its VM state. They lie in
//! the thread's control block or its static thread-local storage, at the same distance in every thread
//! (`struct pthread`, glibc `nptl/descr.h`; variant II of "ELF Handling For Thread-Local Storage").

use crate::ids::own_id;
use languages::frames::Unread;
use languages::script::{self, Vm};
use process::asleep::robust_list;
use process::error::{Error, Result};
use process::functions::Functions;
use process::memory::GuestMemory;
use process::ptrace;
use process::sources::Sources;
use std::thread::sleep;
use std::time::Duration;
use vm::reader::State;
use vm::{Language, Reader};
use wire::calls::FACTS;

// The agent passes them to the reader as they are.
const _: () = assert!(FACTS == vm::reader::FACTS);

/// Static thread-local storage below the thread pointer, and the control block above it.
const BELOW: u64 = 64 * 1024;
const ABOVE: u64 = 4096;

/// How often a VM is read, because the guest may change it during a reading, and the time between two readings.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(2);

/// The VM of a guest, as the agent needs it to know script lines.
#[derive(Clone, Debug)]
pub enum Script {
    /// No VM whose lines are known, and why.
    None(String),
    /// A VM whose lines can be known.
    Vm(Box<Vm>),
}

impl Script {
    /// The value before a VM has been looked for.
    pub(crate) fn unknown() -> Self {
        Script::None("its VM has not begun with the script yet".into())
    }

    /// The name of the VM's language; empty = none.
    pub fn name(&self) -> &'static str {
        match self {
            Script::None(_) => "",
            Script::Vm(vm) => vm.language.description().name,
        }
    }

    /// Looks for a VM while the guest runs.
    pub fn find(memory: &GuestMemory, functions: &Functions) -> Self {
        let symbol = |name: &str| functions.symbol(name);
        let Some(language) = Language::loaded(&symbol) else {
            return Script::None(format!("no {} is loaded in it", Language::any()));
        };
        let sources = Sources::of(memory.pid());
        let mut tries = 0;
        loop {
            match script::find(language, memory, &symbol, &sources) {
                Ok(vm) => return Script::Vm(Box::new(vm)),
                Err(Unread::NotNow(_)) if tries < TRIES => {
                    tries += 1;
                    sleep(PAUSE);
                }
                Err(Unread::NotNow(why) | Unread::Refused(why)) => return Script::None(why),
            }
        }
    }
}

/// The words of [`wire::calls::Calls`] by which the agent finds ids and script lines.
#[derive(Clone, Copy, Debug, Default)]
pub struct Words {
    /// The value for [`wire::calls::Calls::tid_offset`].
    pub tid_offset: u64,
    /// The value for [`wire::calls::Calls::state_offset`].
    pub state_offset: u64,
    /// The value for [`wire::calls::Calls::language`].
    pub language: u64,
    /// The value for [`wire::calls::Calls::facts`].
    pub facts: [u64; FACTS],
    /// Whether [`wire::calls::Calls::wary`] must be set.
    pub is_wary: bool,
}

/// Looks through the control block of the main thread, while all threads are stopped. Returns the words, and why script lines will not be
/// known, if so. The offsets hold for threads of the same C library only; the agent checks each thread before it reads there
/// (`agent::calls::thread::has_block`).
pub fn find(
    pid: i32,
    memory: &GuestMemory,
    tids: &[i32],
    script: &Script,
) -> Result<(Words, Option<String>)> {
    // A main thread that has ended is not among them.
    let ended = !tids.contains(&pid);
    let first = tids.first().copied().filter(|_| ended).unwrap_or(pid);
    let main = Block::read(pid, first, memory)?;
    if !tells_pointer() {
        for tid in tids {
            if !Block::is_of(pid, *tid, memory)? {
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
        tid_offset: main.as_ref().and_then(tid_offset).unwrap_or(0),
        ..Words::default()
    };
    let Vm {
        language, found, ..
    } = match script {
        Script::None(reason) => return Ok((words, Some(reason.clone()))),
        Script::Vm(vm) => &**vm,
    };
    let mut no_lines = None;
    match found.state {
        State::Known => {}
        State::MainThread | State::Pointer(_) if ended => {
            let why = format!(
                "its first thread has ended, by which lancet finds where threads of {language} keep their state"
            );
            return Ok((words, Some(why)));
        }
        State::MainThread => words.state_offset = main.map_or(0, |main| main.pointer),
        // 0 is no pointer.
        State::Pointer(value) => match main
            .filter(|_| value != 0)
            .and_then(|main| main.find(value))
        {
            Some(offset) => words.state_offset = offset,
            None => {
                return Ok((
                    words,
                    Some(format!(
                        "its {language} keeps no pointer to a thread's state where one was found before"
                    )),
                ));
            }
        },
        State::Unknown(why) => no_lines = Some(why.into()),
    }
    words.language = language.number();
    words.facts = found.facts;
    let reader = Reader::open(*language, memory, &found.facts);
    words.is_wary = reader.is_some_and(|reader| reader.is_wary());
    Ok((words, no_lines))
}

/// Whether programs may use `rdfsbase` here (`HWCAP2_FSGSBASE`, arch/x86/include/uapi/asm/hwcap2.h; kernels since 5.9).
pub(crate) fn tells_pointer() -> bool {
    const FSGSBASE: u64 = 1 << 1;
    // SAFETY: getauxval(3) takes an integer and only reads the auxiliary vector that the kernel gave this process.
    unsafe { libc::getauxval(libc::AT_HWCAP2) & FSGSBASE != 0 }
}

/// The memory around a thread pointer.
struct Block {
    /// The kernel's id of the thread in its own PID namespace.
    tid: u32,
    /// Address of the head of its list of robust mutexes.
    list: Option<u64>,
    start: u64,
    pointer: u64,
    bytes: Vec<u8>,
}

impl Block {
    /// Returns the thread pointer of a thread if it points to itself, as it does in any thread-local storage.
    fn pointer(pid: i32, tid: i32, memory: &GuestMemory) -> Result<Option<u64>> {
        let registers = ptrace::registers_kept(tid)
            .map_err(|errno| ptrace::explain(pid, "reading a thread's registers", errno))?;
        let pointer = registers.fs_base;
        Ok((pointer != 0 && memory.word(pointer).ok() == Some(pointer)).then_some(pointer))
    }

    /// Returns whether a thread has thread-local storage.
    fn is_of(pid: i32, tid: i32, memory: &GuestMemory) -> Result<bool> {
        Ok(Self::pointer(pid, tid, memory)?.is_some())
    }

    /// Reads the block of a thread; `None` = it has none that a C library made.
    fn read(pid: i32, tid: i32, memory: &GuestMemory) -> Result<Option<Self>> {
        let Some(pointer) = Self::pointer(pid, tid, memory)? else {
            return Ok(None);
        };
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
            list: robust_list(tid),
            start,
            pointer,
            bytes,
        }))
    }

    /// Returns the offset from the thread pointer of a word with this value; the nearest counts.
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

/// Bytes from the id of a thread to its list of robust mutexes in glibc's `struct pthread` (nptl/descr.h: `tid`, `pid_ununsed`, `robust_prev`,
/// `robust_head`; the same since 2.4).
const ID_BEFORE_LIST: u64 = 16;

/// Returns the offset from the thread pointer at which a thread has its id. The value alone does not suffice: the id of a container's first
/// process is 1, and so are flags before it (`multiple_threads` of glibc's `tcbhead_t`).
fn tid_offset(main: &Block) -> Option<u64> {
    let has_id = |offset: &u64| main.half(*offset) == Some(main.tid);
    let by_list = main
        .list
        .and_then(|list| list.checked_sub(main.pointer + ID_BEFORE_LIST))
        .filter(|offset| *offset < ABOVE);
    by_list
        .filter(has_id)
        .or_else(|| (0..ABOVE).step_by(4).find(has_id))
}
