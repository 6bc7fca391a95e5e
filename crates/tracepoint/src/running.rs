//! The threads of a process that have a processor now, copied there while they run: none is stopped, and nothing can have changed
//! meanwhile. Used by crate `frames`.
//!
//! lancet asks the kernel to run a program on one processor after the other. The kernel does so in an interrupt, between two
//! instructions of the thread that has the processor, which goes on when the program has ended. So what the program copies of the
//! thread's memory belongs to one moment, as long as no other thread writes there.
//!
//! ```text
//!   the value, which lancet has mapped:
//!     request, answer, registers, addresses │ the bytes at each of these addresses │ the pages of the stack, from rsp upward
//!     a page                                │ LISTED pages                         │ DEEPEST pages
//! ```
//!
//! The kernel copies no page that is not in memory (`copy_from_user_nofault`): such a page is told as one that could not be copied.

use crate::assembler::{Helper, Math, Program, Reg, Size, When};
use crate::kernel::{Map, OnDemand, Refused};
use crate::processes::{own_namespace, require_seen_from};
use crate::processors::processors;
use crate::writer::{NOW, PROCESS, Within, Writer};
use Reg::{Fp, R0, R1, R2, R3, R7, R8, R9};
use Size::Double;
use std::io;
use std::time::Duration;

/// Bytes of a page.
pub const PAGE: usize = 4096;
/// Addresses at which a page is copied, at most.
pub const LISTED: usize = 384;
/// Pages of a stack that are copied, at most.
pub const DEEPEST: usize = 256;

/// Pages before the copies: the words below, and the list of addresses.
const HEAD: usize = 1;
const LENGTH: usize = (HEAD + LISTED + DEEPEST) * PAGE;
const STACK: usize = HEAD + LISTED;

// The words of the first page: what is asked, then what is answered.
const WANTED: usize = 0;
const DEEP: usize = 8;
const SEEN: usize = 16;
const IDS: usize = 24;
const TASK: usize = 32;
const TOOK: usize = 40;
const STACK_AT: usize = 48;
const STACK_PAGES: usize = 56;
const REGISTERS: usize = 64;
const LIST: usize = 512;
/// What stands in the list for an address at which nothing could be copied.
const UNREAD: u64 = 1;

// `struct pt_regs` (arch/x86/include/uapi/asm/ptrace.h).
const REGISTERS_LENGTH: i32 = 168;
const RBP: usize = REGISTERS + 32;
const RIP: usize = REGISTERS + 128;
const RSP: usize = REGISTERS + 152;

/// The bytes below rsp that belong to a function (psABI, 3.2.2).
const RED_ZONE: i32 = 128;

/// What lancet runs on processors to see who has them.
#[derive(Debug)]
pub struct Running {
    program: OnDemand,
    namespace: Option<[u64; 2]>,
    processors: usize,
}

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The process, by its id in lancet's PID namespace.
    pub pid: i32,
    /// Where a page of its memory is copied beside the stack; of more than [`LISTED`] the first ones, and none behind an address of 0.
    pub pages: &'a [u64],
    /// How many pages of the stack are copied, at most [`DEEPEST`].
    pub stack: usize,
}

/// A thread that had the processor.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// Its id in lancet's PID namespace.
    pub tid: i32,
    /// The address of its task, which tells it from a later one of the same id.
    pub task: u64,
    /// rip, rsp and rbp: of a thread within a system call those with which it goes on after it.
    pub registers: [u64; 3],
    /// For how long the program kept it from going on.
    pub took: Duration,
    value: &'a [u8],
    listed: usize,
}

/// Makes the program for a namespace.
struct Whose(Option<[u64; 2]>);

impl Within for Whose {
    fn namespace(&self) -> Option<[u64; 2]> {
        self.0
    }
}

impl Running {
    /// Loads the program.
    ///
    /// # Errors
    /// Why there is no way by BPF, for the user to read.
    pub fn begin() -> Result<Self, Refused> {
        let namespace = own_namespace();
        let program = OnDemand::new("lancet_running", LENGTH, |map| program(namespace, map))?;
        Ok(Running {
            program,
            namespace,
            processors: processors()?,
        })
    }

    /// Refuses a process whose threads are not known by their ids in lancet's PID namespace.
    ///
    /// # Errors
    /// It is in another one.
    pub fn require(&self, pid: i32) -> Result<(), Refused> {
        require_seen_from(self.namespace, pid)
    }

    /// How many processors there may be: they are numbered from 0.
    pub fn processors(&self) -> usize {
        self.processors
    }

    /// Copies the thread that has this processor, if it is one of the process. That of the caller is the caller's own.
    ///
    /// # Errors
    /// ENXIO: the processor is off. Others: the kernel cannot do it.
    pub fn look(&mut self, processor: usize, asked: &Asked) -> io::Result<Option<Seen<'_>>> {
        // The address 0 ends the list: what stands behind it would be told as copied now, and be what was copied before.
        let pages = asked.pages.iter().take(LISTED);
        let listed = pages.take_while(|page| **page != 0).count();
        let value = self.program.value_mut();
        for (at, word) in [
            (WANTED, asked.pid as u64),
            (DEEP, asked.stack.min(DEEPEST) as u64),
            (SEEN, 0),
        ] {
            put(value, at, word);
        }
        for (number, page) in asked.pages[..listed].iter().chain([&0]).enumerate() {
            put(value, LIST + 8 * number, *page);
        }
        self.program.run_on(processor)?;
        let value = self.program.value();
        Ok((word(value, SEEN) != 0).then(|| Seen {
            tid: word(value, IDS) as u32 as i32,
            task: word(value, TASK),
            registers: [RIP, RSP, RBP].map(|at| word(value, at)),
            took: Duration::from_nanos(word(value, TOOK)),
            value,
            listed,
        }))
    }
}

impl<'a> Seen<'a> {
    /// The copied pages of its stack, with the address of the first; they end where a page could not be copied.
    pub fn stack(&self) -> (u64, &'a [u8]) {
        let pages = (word(self.value, STACK_PAGES) as usize).min(DEEPEST);
        let bytes = &self.value[STACK * PAGE..(STACK + pages) * PAGE];
        (word(self.value, STACK_AT), bytes)
    }

    /// The pages that were listed, in their order; `None` for one that could not be copied.
    pub fn listed(&self) -> impl Iterator<Item = Option<&'a [u8]>> + use<'a> {
        let (value, listed) = (self.value, self.listed);
        (0..listed).map(move |number| {
            let is_read = word(value, LIST + 8 * number) != UNREAD;
            is_read.then(|| &value[(HEAD + number) * PAGE..][..PAGE])
        })
    }
}

fn word(value: &[u8], at: usize) -> u64 {
    let bytes = value[at..].first_chunk();
    bytes.map_or(0, |bytes| u64::from_ne_bytes(*bytes))
}

fn put(value: &mut [u8], at: usize, word: u64) {
    value[at..at + 8].copy_from_slice(&word.to_ne_bytes());
}

/// The program; R9 is the address of the value in all of it.
fn program(namespace: Option<[u64; 2]>, map: &Map) -> Program {
    let whose = Whose(namespace);
    let mut writer = Writer::new(&whose);
    writer.ids();
    let out = writer.out;
    writer.code.map_value(R9, map.descriptor());
    writer.code.load(Double, R1, R9, WANTED as i16);
    writer.code.load(Double, R2, Fp, PROCESS);
    writer.code.jump_if_of(R1, When::NotEqual, R2, out);
    writer.now();
    let code = &mut writer.code;
    code.store(Double, R9, IDS as i16, R7);
    code.call(Helper::CurrentTask);
    code.store(Double, R9, TASK as i16, R0);
    code.call(Helper::CurrentTypedTask);
    code.copy(R1, R0);
    code.call(Helper::TaskRegisters);
    code.copy(R3, R0);
    code.copy(R1, R9);
    code.math(Math::Add, R1, REGISTERS as i32);
    code.set(R2, REGISTERS_LENGTH);
    code.call(Helper::ReadKernel);
    code.jump_if(R0, When::NotEqual, 0, out);
    copies_pages(&mut writer);
    let code = &mut writer.code;
    code.call(Helper::Nanoseconds);
    code.load(Double, R1, Fp, NOW);
    code.math_of(Math::Subtract, R0, R1);
    code.store(Double, R9, TOOK as i16, R0);
    code.store_number(Double, R9, SEEN as i16, 1);
    writer.finish()
}

/// Copies the listed pages up to the first 0, then the stack up to the first page that is not there.
fn copies_pages(writer: &mut Writer<'_, Whose>) {
    let code = &mut writer.code;
    let (stack, done) = (code.label(), code.label());
    for number in 0..LISTED {
        let (at, next) = ((LIST + 8 * number) as i16, code.label());
        code.load(Double, R3, R9, at);
        code.jump_if(R3, When::Equal, 0, stack);
        code.copy(R1, R9);
        code.math(Math::Add, R1, ((HEAD + number) * PAGE) as i32);
        code.set(R2, PAGE as i32);
        code.call(Helper::ReadUser);
        code.jump_if(R0, When::Equal, 0, next);
        code.store_number(Double, R9, at, UNREAD as i32);
        code.here(next);
    }
    code.here(stack);
    code.load(Double, R8, R9, RSP as i16);
    code.math(Math::Add, R8, -RED_ZONE);
    code.math(Math::And, R8, -(PAGE as i32));
    code.store(Double, R9, STACK_AT as i16, R8);
    code.store_number(Double, R9, STACK_PAGES as i16, 0);
    for number in 0..DEEPEST {
        code.load(Double, R1, R9, DEEP as i16);
        code.jump_if(R1, When::Below, number as i32 + 1, done);
        code.copy(R3, R8);
        code.math(Math::Add, R3, (number * PAGE) as i32);
        code.copy(R1, R9);
        code.math(Math::Add, R1, ((STACK + number) * PAGE) as i32);
        code.set(R2, PAGE as i32);
        code.call(Helper::ReadUser);
        code.jump_if(R0, When::NotEqual, 0, done);
        code.store_number(Double, R9, STACK_PAGES as i16, number as i32 + 1);
    }
    code.here(done);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
    use std::time::Instant;

    /// Where the thread of the test writes two numbers that always are the same but between two instructions.
    static ENDS: AtomicBool = AtomicBool::new(false);
    static TID: AtomicI32 = AtomicI32::new(0);

    #[test]
    fn a_thread_that_runs_is_copied_on_its_processor() {
        let mut running = match Running::begin() {
            Ok(running) => running,
            Err(error) => return eprintln!("SKIP threads that run: {error}"),
        };
        let spun = std::thread::spawn(|| {
            let marks = [0x1122_3344_5566_7788u64; 64];
            // SAFETY: the call takes nothing.
            TID.store(unsafe { libc::gettid() }, Ordering::Release);
            while !ENDS.load(Ordering::Relaxed) {
                std::hint::black_box(&marks);
            }
        });
        let pid = std::process::id() as i32;
        running.require(pid).expect("our own namespace");
        let named: u64 = 0x0123_4567_89ab_cdef;
        let page = (&raw const named) as u64;
        let nowhere = 16;
        let asked = Asked {
            pid,
            pages: &[page, nowhere, page, 0, page],
            stack: 4,
        };
        let deadline = Instant::now() + Duration::from_secs(20);
        let mut processors = (0..running.processors()).cycle();
        loop {
            assert!(Instant::now() < deadline, "it never ran");
            let tid = TID.load(Ordering::Acquire);
            let seen = running.look(processors.next().expect("endless"), &asked);
            let Some(seen) = seen.expect("the kernel can").filter(|seen| seen.tid == tid) else {
                continue;
            };
            let listed: Vec<_> = seen.listed().collect();
            assert_eq!(listed.len(), 3);
            assert_eq!(listed[1], None);
            for page in [listed[0], listed[2]] {
                let first = page.expect("it is there").first_chunk();
                assert_eq!(first.copied().map(u64::from_ne_bytes), Some(named));
            }
            let [ip, sp, _] = seen.registers;
            let (at, bytes) = seen.stack();
            assert!(ip != 0 && (at..at + bytes.len() as u64).contains(&sp));
            assert!(seen.took < Duration::from_millis(50), "{:?}", seen.took);
            let mark = 0x1122_3344_5566_7788u64.to_ne_bytes();
            assert!(bytes.chunks_exact(8).filter(|word| **word == mark).count() >= 64);
            break;
        }
        ENDS.store(true, Ordering::Relaxed);
        spun.join().expect("no panic");
    }
}
