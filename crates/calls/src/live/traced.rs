//! System calls that a tracer sees: those of a program that has begun and cannot be hooked yet, and those of a process that must not or
//! cannot be changed (`stepped`). Used by `guest::early`, `stepped`, `bpf` and others.
//!
//! Such a thread stops at the start and at the end of each of its system calls ([`process::ptrace::system_call()`]). Arguments are copied
//! as a hook would copy them: the same programs run here, over the memory of the stopped process. [`Traced`] is the state of one thread,
//! which can be in one call only; threads of one process share a [`Table`].

mod near;

use super::guest::Copying;
use crate::event::{Call, CallEdge, End, Signal};
use crate::options::Options;
use crate::signatures::Signatures;
use hooks::{OTHERS, Wanted};
use inject::tracee::Tracee;
use near::Near;
use process::clock;
use process::functions::SYSTEM;
use process::memory::GuestMemory;
use process::netlink::is_netlink;
use process::ptrace::{self, AtSystemCall, Side};
use prototypes::Detail;
use prototypes::capture::{CALLERS, CopyLimits, GuestAccess, Registers, Returned, run};
use prototypes::show::Captures;
use prototypes::types::Prototype;
use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

/// The ring's number of events that come from no ring. Rings have small numbers, and signals and ends have another.
pub const NO_RING: u32 = u32::MAX - 2;

/// Added to the numbers of the system call table for 32-bit programs.
pub const OF_32_BITS: u64 = 1 << 32;

/// Bytes of a `syscall` instruction, and of `int $0x80`.
pub const INSTRUCTION: u64 = 2;

/// How the calls of one number are reported.
pub struct Told {
    /// The call edge of the reported calls.
    pub edge: Arc<CallEdge>,
    /// Programs of crate `capture`, for the call and for its return: made when the first call of that number is.
    copy: OnceCell<[Vec<u64>; 2]>,
    /// The same, for sockets that are none of netlink, where that is less.
    less: OnceCell<[Vec<u64>; 2]>,
    /// What they are made of; `None` = nothing is copied.
    copied: Option<(Copying, Option<Prototype>)>,
    /// Cycles of the time-stamp counter that a call must take to be reported.
    pub least: u64,
}

/// A call as it was when it began.
#[derive(Clone)]
pub struct Begun {
    /// The number of the call, plus [`OF_32_BITS`] for a program of 32 bits.
    pub number: u64,
    /// The address of the `syscall` instruction.
    pub instruction: u64,
    /// Its arguments, and the stack pointer.
    pub registers: Registers,
    /// The time-stamp counter when the call began.
    pub ticks: u64,
}

/// What to report of a stop.
pub enum CallStop {
    /// A call that is reported begins.
    Call(Begun, Rc<Told>),
    /// A call that is reported has ended, with this value in rax.
    Return(Begun, Rc<Told>, u64),
}

/// How the calls of each number are reported: of those that were made so far, where that is found out when the first is made.
#[derive(Default)]
pub struct Table {
    told: RefCell<HashMap<u64, Option<Rc<Told>>>>,
    later: Option<Box<Later>>,
}

/// Finds out how the calls of a number are reported; `None` = they are not.
pub type Later = dyn Fn(u64) -> Option<Told>;

/// The state of one traced thread: the call that it is in, and the [`Table`] of how each call is reported. Its tracer keeps it while the
/// thread is traced, and passes it each stop at a system call.
#[derive(Default)]
pub struct Traced {
    table: Rc<Table>,
    open: Option<(Begun, Rc<Told>)>,
    /// What was copied of the call, if it is reported only at its return.
    held: Option<Captures>,
    /// Whether the thread is in a system call, reported or not.
    inside: bool,
}

impl Told {
    /// How calls of a function are reported. `None` if there is a condition: it tests registers and script lines, and hooks decide it.
    pub fn new(
        wanted: &Wanted,
        prototype: Option<Prototype>,
        copying: Copying,
        edge: Arc<CallEdge>,
    ) -> Option<Self> {
        let plain = wanted.asks.iter().all(Vec::is_empty) && wanted.guard.is_none();
        // Prototypes have the structs of 64-bit programs; those of 32-bit programs are shown by their addresses.
        let is_narrow = wanted.function.address & OF_32_BITS != 0;
        plain.then_some(Told {
            edge,
            copy: OnceCell::new(),
            less: OnceCell::new(),
            copied: (!is_narrow).then_some((copying, prototype)),
            least: wanted.least_ticks,
        })
    }

    fn copy(&self) -> &[Vec<u64>; 2] {
        self.copy.get_or_init(|| {
            let Some((copying, prototype)) = &self.copied else {
                return Default::default();
            };
            copying.of(&self.edge.function, prototype.as_ref())
        })
    }

    /// What is copied of a call whose first argument is a descriptor of this process.
    fn copies_for(&self, process: i32, first: u64) -> &[Vec<u64>; 2] {
        match &self.copied {
            Some((copying, prototype))
                if copying.bears_messages(&self.edge.function)
                    && !is_netlink(process, first as i32) =>
            {
                let copying = copying.without_messages();
                let make = || copying.of(&self.edge.function, prototype.as_ref());
                self.less.get_or_init(make)
            }
            _ => self.copy(),
        }
    }

    /// The programs of crate `capture` that copy what a call points to, when it begins and when it returns.
    pub fn copies(&self) -> [Vec<u64>; 2] {
        self.copy().clone()
    }
}

impl Begun {
    /// Returns the call at whose start a thread stands.
    pub fn at(stop: &AtSystemCall, ticks: u64) -> Option<Self> {
        let Side::Begins { number, arguments } = stop.side else {
            return None;
        };
        // The kernel uses 32 bits of the number.
        let number = number & 0xffff_ffff | if stop.is_32_bits { OF_32_BITS } else { 0 };
        Some(Begun {
            number,
            instruction: stop.behind.wrapping_sub(INSTRUCTION),
            registers: registers(number, arguments, stop.stack),
            ticks,
        })
    }

    /// Makes the reported call: the kernel knows neither lines of scripts nor callers.
    pub fn call(&self, told: &Told, captures: Captures) -> Call {
        Call {
            edge: told.edge.clone(),
            caller: self.instruction,
            registers: self.registers,
            line: None,
            library: None,
            callers: Vec::new(),
            captures,
        }
    }

    /// Puts the number of a call that has no name of its own before its arguments, as a hook does.
    pub fn names_itself(&mut self, told: &Told) {
        if told.edge.function.address == OTHERS {
            self.registers.gp.rotate_right(1);
            self.registers.gp[0] = self.number & !OF_32_BITS;
        }
    }

    /// Copies what `told` wants of the call, or of its return with `result` in rax. `frame`: the caller's frame pointer.
    pub fn copied(
        &self,
        told: &Told,
        result: Option<u64>,
        memory: &GuestMemory,
        frame: u64,
    ) -> Captures {
        let programs = told.copies_for(memory.pid(), self.registers.gp[0]);
        let program = &programs[usize::from(result.is_some())];
        copy(memory, program, self, result, frame)
    }
}

/// The registers of a call, by its number with the mark of 32 bits: there 15 is `chmod`. `rt_sigreturn` has no argument: what stands for one is the address of the mask that it sets, in the frame of the
/// signal at the top of the stack (arch/x86/include/asm/sigframe.h, `uc_sigmask` of `struct rt_sigframe`, whose first word is taken off).
pub fn registers(number: u64, mut arguments: [u64; 6], stack: u64) -> Registers {
    /// `__NR_rt_sigreturn` (arch/x86/entry/syscalls/syscall_64.tbl).
    const SIGRETURN: u64 = 15;
    const MASK: u64 = 296;
    if number == SIGRETURN {
        arguments[0] = stack.wrapping_add(MASK);
    }
    Registers {
        gp: arguments,
        stack,
        ..Registers::default()
    }
}

/// The number of `execve` (Linux arch/x86/entry/syscalls/syscall_64.tbl).
pub const EXECVE: u64 = 59;

/// The last `execve` of a program on its way to its exec, with copies of its arguments, and when it began.
pub type FirstExec = RefCell<Option<(Begun, Captures)>>;

/// Notes the `execve` at whose start our child stands. Its other calls before that are not the program's.
pub fn note_exec(pid: i32, args: &Options, signatures: &Signatures, noted: &FirstExec) {
    let stop = ptrace::system_call(pid).ok().flatten();
    let begun = stop.and_then(|stop| Begun::at(&stop, clock::now()));
    let Some(begun) = begun.filter(|begun| begun.number == EXECVE) else {
        return;
    };
    let (Some(prototype), Ok(memory)) = (
        signatures.of(SYSTEM, "execve"),
        GuestMemory::open_briefly(pid),
    ) else {
        return;
    };
    let detail = Detail {
        strings: args.kept_of_strings,
        array: args.array,
        whole: false,
    };
    let mut program = prototype.capture(detail).call;
    if args.environment {
        let more = syscalls::copies_of_environment("execve", &prototype, detail);
        program.extend(more.call);
    }
    let copied = copy(&memory, &program, &begun, None, 0);
    *noted.borrow_mut() = Some((begun, copied));
}

/// Limits of what is copied of one call: the memory is ours, and no record of a ring must hold it.
const LIMITS: CopyLimits = CopyLimits {
    bytes: 256 << 10,
    steps: 64 << 10,
};

/// Runs a program of crate `capture` over a call that a stopped thread makes, or over its return.
fn copy(
    memory: &GuestMemory,
    program: &[u64],
    call: &Begun,
    result: Option<u64>,
    frame: u64,
) -> Captures {
    let returned = result.map(|rax| Returned {
        rax,
        ..Returned::default()
    });
    let mut copier = Copier {
        memory,
        near: Near::default(),
        stack: call.registers.stack,
        outer: [frame, call.instruction],
        captures: Captures::new(),
    };
    run(
        program,
        &call.registers,
        returned.as_ref(),
        LIMITS,
        &mut copier,
    );
    copier.captures
}

/// Returns how a process has ended whose main thread was traced to its end.
pub fn end_of(tracee: Option<&Tracee>) -> End {
    match tracee.and_then(Tracee::end) {
        Some(Ok(code)) => End::Exited(code),
        Some(Err(signal)) => End::Killed(signal),
        None => End::Unknown,
    }
}

/// Makes the event of a signal, with the kernel's data about it, for a thread that stands at it.
pub fn signal_of(tid: i32, number: i32) -> Signal {
    let information = ptrace::signal_information(tid).ok();
    let bytes = |known| ptrace::bytes_of(&known)[..Signal::INFORMATION].to_vec();
    Signal {
        number,
        information: information.map(bytes).unwrap_or_default(),
        instruction: ptrace::registers(tid).ok().map(|of| of.rip),
    }
}

/// Runs the programs of a call over memory that is known in another way.
pub fn copy_of(call: &Begun, told: &Told, memory: &mut impl GuestAccess) {
    let program = &told.copy()[0];
    run(program, &call.registers, None, LIMITS, memory);
}

struct Copier<'m> {
    memory: &'m GuestMemory,
    near: Near,
    stack: u64,
    /// The words by which the agent's hook identifies the caller: its frame pointer, and the return address.
    outer: [u64; 2],
    captures: Captures,
}

impl GuestAccess for Copier<'_> {
    fn read(&mut self, at: u64, into: &mut [u8]) -> bool {
        if at == self.stack.wrapping_sub(CALLERS)
            && let Some((outer, rest)) = into.split_first_chunk_mut::<16>()
        {
            let [frame, caller] = self.outer.map(u64::to_le_bytes);
            outer[..8].copy_from_slice(&frame);
            outer[8..].copy_from_slice(&caller);
            return self.near.read(self.memory, self.stack, rest);
        }
        self.near.read(self.memory, at, into)
    }

    fn output(&mut self, at: u64, bytes: &[u8]) -> bool {
        self.captures.add(at, bytes);
        true
    }
}

impl Table {
    /// For the wanted calls, by number; those that have a condition are left out ([`Told::new`]).
    pub fn new(
        wanted: Vec<(Wanted, Option<Prototype>)>,
        copying: Copying,
        mut edge: impl FnMut(&Wanted) -> Option<Arc<CallEdge>>,
    ) -> Self {
        let told = wanted.into_iter().filter_map(|(one, prototype)| {
            let (number, edge) = (one.function.address, edge(&one)?);
            let told = Told::new(&one, prototype, copying, edge)?;
            Some((number, Some(Rc::new(told))))
        });
        Table {
            told: RefCell::new(told.collect()),
            later: None,
        }
    }

    /// Asks `later` for each number when the first such call is made: a program makes some twenty of the 370, and whoever starts one waits
    /// for what is done before.
    pub fn asked_later(later: Box<Later>) -> Self {
        Table {
            told: RefCell::default(),
            later: Some(later),
        }
    }

    /// Returns how calls of a number are reported.
    pub fn told(&self, number: u64) -> Option<Rc<Told>> {
        self.own(number).or_else(|| self.own(OTHERS))
    }

    /// The same, but for the row of those that have none of their own.
    fn own(&self, number: u64) -> Option<Rc<Told>> {
        let mut told = self.told.borrow_mut();
        match (told.get(&number), &self.later) {
            (Some(known), _) => known.clone(),
            (None, None) => None,
            (None, Some(later)) => {
                let found = later(number).map(Rc::new);
                told.insert(number, found.clone());
                found
            }
        }
    }
}

impl Traced {
    /// A thread that is in no call.
    pub fn new(table: Rc<Table>) -> Self {
        Traced {
            table,
            ..Traced::default()
        }
    }

    /// Whether its thread is in a system call.
    pub fn is_inside(&self) -> bool {
        self.inside
    }

    /// Keeps what was copied of the open call, because its duration decides whether it is reported.
    pub fn hold(&mut self, copied: Captures) {
        self.held = Some(copied);
    }

    /// Forgets the open call, and returns it.
    pub fn leave_open(&mut self) -> Option<(Begun, Rc<Told>)> {
        self.held = None;
        self.open.take()
    }

    /// Takes what was kept of the call that was open.
    pub fn held(&mut self) -> Option<Captures> {
        self.held.take()
    }

    /// Returns how calls of a number are reported.
    pub fn told(&self, number: u64) -> Option<Rc<Told>> {
        self.table.told(number)
    }

    /// Handles a stop of its thread at a system call, and returns what to report of it. Calls of lancet's own code are not reported.
    pub fn stands(
        &mut self,
        stop: &AtSystemCall,
        ticks: u64,
        is_ours: impl Fn(u64) -> bool,
    ) -> Option<CallStop> {
        let Side::Ends { result } = stop.side else {
            self.inside = true;
            let mut begun = Begun::at(stop, ticks)?;
            (self.open, self.held) = (None, None);
            if is_ours(begun.instruction) {
                return None;
            }
            let told = self.told(begun.number)?;
            begun.names_itself(&told);
            self.open = Some((begun.clone(), told.clone()));
            return Some(CallStop::Call(begun, told));
        };
        self.inside = false;
        let (begun, told) = self.open.take()?;
        Some(CallStop::Return(begun, told, result))
    }
}

#[cfg(test)]
mod tests;
