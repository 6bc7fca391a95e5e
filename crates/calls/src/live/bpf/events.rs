//! Makes events of what BPF programs tell of one process. Used by `programs` and `bpf`.

use super::exec_arguments;
use crate::event::{At, Event, EventKind, Return};
use crate::live::traced::{Begun, INSTRUCTION, Told, registers};
use process::memory::GuestMemory;
use prototypes::capture::Returned;
use prototypes::show::Captures;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;
use tracepoint::{Copied, Record};

/// What all processes of a run share to make events of their records.
pub trait Sees {
    /// Returns how calls of a number are reported.
    fn told(&self, number: u64) -> Option<Rc<Told>>;

    /// Converts a time of a record to one since 1970.
    fn wall(&self, time: u64) -> Duration;

    /// Notes the return of a call that points to something that was not in memory when it began: where it was an exec, that memory is gone.
    fn note_uncopied(&self, number: u64, result: u64);
}

/// What must be known of a process to make events of its records.
#[derive(Default)]
pub struct Telling {
    /// The exec that has led to it, as it was when it began.
    exec: Option<(Begun, Captures)>,
    /// When the programs began to watch it, if its thread was in a call then that whoever has seen it before has reported. They tell that one
    /// as having begun at this time; where the thread was in none, a call that seccomp refuses next is told so.
    within: Option<u64>,
    /// The exit code that it has passed to `exit_group`.
    says: Option<i32>,
    /// Calls, by thread, of which something was not in memory when they began: their returns tell it, so they are reported then.
    held: HashMap<i32, Held>,
}

struct Held {
    at: At,
    begun: Begun,
    told: Rc<Told>,
    captures: Captures,
}

impl Held {
    fn event(self) -> Event {
        let kind = EventKind::Call(self.begun.call(&self.told, self.captures));
        Event { at: self.at, kind }
    }
}

impl Telling {
    /// Of a program that lancet has started; `exec` has led to it.
    pub fn of(exec: Option<(Begun, Captures)>) -> Self {
        Telling {
            exec,
            ..Telling::default()
        }
    }

    /// Of a process that was within a call, which was reported, at the time since which it is watched.
    pub fn since(within: Option<u64>) -> Self {
        Telling {
            within,
            ..Telling::default()
        }
    }

    /// Returns the exit code that the process has passed to `exit_group`.
    pub fn says(&self) -> Option<i32> {
        self.says
    }

    /// Reports what a record tells.
    pub fn tell(&mut self, record: Record, seen: &dyn Sees, tell: &mut dyn FnMut(Event)) {
        match record {
            Record::Call { .. } => self.begins(record, seen, tell),
            Record::Return {
                pid,
                tid,
                time,
                result,
                copied,
                again,
                ..
            } => {
                if let Some(mut held) = self.held.remove(&tid) {
                    // Behind an exec that is the memory of another program.
                    if !has_run(held.begun.number, result) {
                        add(&mut held.captures, &again);
                    }
                    seen.note_uncopied(held.begun.number, result);
                    tell(held.event());
                }
                let mut captures = Captures::new();
                add(&mut captures, &copied);
                let returned = Returned {
                    rax: result,
                    ..Returned::default()
                };
                tell(Event {
                    at: at(seen, [pid, tid], time),
                    kind: EventKind::Return(Return { returned, captures }),
                });
            }
            Record::Child { .. } => {}
        }
    }

    fn begins(&mut self, record: Record, seen: &dyn Sees, tell: &mut dyn FnMut(Event)) {
        let Record::Call {
            pid,
            tid,
            time,
            number,
            arguments,
            behind,
            stack,
            copied,
            missed,
        } = record
        else {
            return;
        };
        // The return of the call before was lost: what is told next is of this one.
        if let Some(held) = self.held.remove(&tid) {
            tell(held.event());
        }
        if self.within == Some(time) {
            return;
        }
        let mut begun = Begun {
            number,
            instruction: behind.wrapping_sub(INSTRUCTION),
            registers: registers(number, arguments, stack),
            ticks: time,
        };
        let mut captures = Captures::new();
        let exec = self.exec.take_if(|_| EXECS.contains(&number));
        let missed = missed && exec.is_none();
        if let Some((exec, copied)) = exec {
            (begun.number, begun.registers, captures) = (exec.number, exec.registers, copied);
        }
        if EXIT_GROUPS.contains(&number) {
            self.says = Some(begun.registers.gp[0] as i32 & 0xff);
        }
        let Some(told) = seen.told(begun.number) else {
            return;
        };
        add(&mut captures, &copied);
        begun.names_itself(&told);
        let call = Held {
            at: at(seen, [pid, tid], time),
            begun,
            told,
            captures,
        };
        match missed {
            false => tell(call.event()),
            true => drop(self.held.insert(tid, call)),
        }
    }

    /// Completes the exec that this thread has made, at whose end the process stands, with what the program has been given that runs now.
    pub fn has_run(&mut self, tid: i32, memory: &GuestMemory, tell: &mut dyn FnMut(Event)) {
        let Some(held) = self.held.get(&tid) else {
            return;
        };
        if !EXECS.contains(&held.begun.number) {
            return;
        }
        let Some(whole) = exec_arguments::captures(memory.pid(), &held.begun, &held.told, memory)
        else {
            // Its return tells it, and that not all of it is known.
            return;
        };
        if let Some(mut held) = self.held.remove(&tid) {
            held.captures = whole;
            tell(held.event());
        }
    }

    /// Reports the calls that have not returned and will not.
    pub fn ends(&mut self, tell: &mut dyn FnMut(Event)) {
        for held in std::mem::take(&mut self.held).into_values() {
            tell(held.event());
        }
    }
}

/// Whether a call that has returned this was an exec behind which another program runs.
pub fn has_run(number: u64, result: u64) -> bool {
    EXECS.contains(&number) && result == 0
}

fn add(captures: &mut Captures, copied: &Copied) {
    for (address, bytes) in copied.pieces() {
        captures.add(address, bytes);
    }
}

fn at(seen: &dyn Sees, [pid, tid]: [i32; 2], time: u64) -> At {
    At {
        process: pid,
        tid: tid as u32,
        ring: tid as u32,
        stack: 0,
        frame: 0,
        time: seen.wall(time),
    }
}

/// `execve` and `execveat`: arch/x86/entry/syscalls/syscall_64.tbl and syscall_32.tbl. At its end an exec has the number of the new program's
/// width, whichever it began with (`set_personality_64bit`, `set_personality_ia32`, arch/x86/kernel/process_64.c).
const EXECS: [u64; 4] = [
    59,
    322,
    tracepoint::OF_32_BITS | 11,
    tracepoint::OF_32_BITS | 358,
];
/// `exit_group`: arch/x86/entry/syscalls/syscall_64.tbl and syscall_32.tbl.
const EXIT_GROUPS: [u64; 2] = [231, tracepoint::OF_32_BITS | 252];

#[cfg(test)]
mod tests;
