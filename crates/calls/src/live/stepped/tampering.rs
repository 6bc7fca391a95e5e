//! Injects into the system calls of one thread, as strace does: everything that strace can inject. Used by `stepped`
//! and `reported`.
//!
//! At the start of a call whose result is injected, its number is set to -1, which is no call, and the result is put into rax at the
//! same time: the kernel leaves rax unchanged (`do_syscall_64`, arch/x86/entry/common.c), so the call has its result even if lancet
//! dies before it ends. A signal with which the thread is set going is pending when the call begins, and interrupts a call that waits.

use crate::live::traced::OF_32_BITS;
use crate::message::Message;
use crate::message::Messages;
use crate::options::Options;
use crate::signatures::Signatures;
use crate::tamper::{Inject, Poke, Tampered, last_of};
use process::functions::SYSTEM;
use process::memory::GuestMemory;
use process::ptrace::{self, AtSystemCall, Side};
use std::collections::HashMap;
use std::time::Duration;

/// What is injected into the calls of each number.
pub struct Injections {
    by_number: HashMap<u64, Injected>,
    messages: Messages,
}

/// What is injected into the calls of one number.
struct Injected {
    name: &'static str,
    /// Number of arguments of the call.
    takes: usize,
    inject: Inject,
}

/// A number that is no system call's.
const NO_CALL: u64 = u64::MAX;
/// Memory is mapped or not by whole pages.
const PAGE: u64 = 4096;

impl Injections {
    /// From the options.
    pub fn new(args: &Options, signatures: &Signatures) -> Self {
        let injected = |name| {
            let inject = args.inject[last_of(&args.inject, name)?].clone();
            let prototype = signatures.of(SYSTEM, name);
            Some(Injected {
                name,
                takes: prototype.map_or(6, |of| of.parameters.len()),
                inject,
            })
        };
        let by_number = prototypes::bundle::system_calls()
            .filter_map(|(number, name)| Some((u64::from(number), injected(name)?)));
        Injections {
            by_number: by_number.collect(),
            messages: args.messages.clone(),
        }
    }
}

/// How a thread that stands at a system call goes on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Onward {
    /// The signal that is delivered to the thread; 0 = none.
    pub signal: i32,
    /// How long the thread is held before it goes on.
    pub after: Duration,
    /// What was done to the call that has ended.
    pub done: Tampered,
}

/// The state of one thread's calls.
#[derive(Default)]
pub struct Tampering {
    /// For each number into which something is injected, how many calls it has made.
    met: HashMap<u64, u64>,
    /// The call it is in, if something is injected into it.
    open: Option<Open>,
}

struct Open {
    number: u64,
    arguments: [u64; 6],
    done: Tampered,
}

impl Tampering {
    /// Handles a stop of thread `tid` of process `pid` at a system call. As with strace, something is injected only into calls that
    /// are reported: `is_told` returns whether a number is.
    pub fn stands(
        &mut self,
        (pid, tid): (i32, i32),
        stop: &AtSystemCall,
        all: &Injections,
        memory: &GuestMemory,
        is_told: impl Fn(u64) -> bool,
    ) -> Onward {
        if all.by_number.is_empty() {
            return Onward::default();
        }
        match stop.side {
            Side::Begins { number, arguments } => {
                self.open = None;
                let number = number & 0xffff_ffff | if stop.is_32_bits { OF_32_BITS } else { 0 };
                let injected = all.by_number.get(&number);
                let Some(injected) = injected.filter(|_| is_told(number)) else {
                    return Onward::default();
                };
                let met = self.met.entry(number).or_default();
                *met += 1;
                if !injected.inject.falls_on(*met) {
                    return Onward::default();
                }
                let mut done = Tampered::default();
                if let Some(result) = injected.inject.result {
                    done.injected = replace(tid, result);
                }
                done.poked = all.poke(injected, 0, pid, &arguments, memory);
                let delays = injected.inject.delays;
                done.delayed = delays != [Duration::ZERO; 2];
                done.signalled = injected.inject.signal.is_some();
                self.open = Some(Open {
                    number,
                    arguments,
                    done,
                });
                Onward {
                    signal: injected.inject.signal.unwrap_or(0),
                    after: delays[0],
                    done: Tampered::default(),
                }
            }
            Side::Ends { .. } => {
                let Some(mut open) = self.open.take() else {
                    return Onward::default();
                };
                let Some(injected) = all.by_number.get(&open.number) else {
                    return Onward::default();
                };
                open.done.poked |= all.poke(injected, 1, pid, &open.arguments, memory);
                Onward {
                    signal: 0,
                    after: injected.inject.delays[1],
                    done: open.done,
                }
            }
        }
    }
}

impl Injections {
    /// Overwrites memory that arguments point to; `side` is 0 before the call. Returns whether anything was written.
    fn poke(
        &self,
        injected: &Injected,
        side: usize,
        pid: i32,
        arguments: &[u64; 6],
        memory: &GuestMemory,
    ) -> bool {
        let mut any = false;
        for Poke { argument, bytes } in &injected.inject.pokes[side] {
            let at = arguments.get(*argument).copied();
            let at = at.filter(|_| *argument < injected.takes);
            if at.is_some_and(|at| write(memory, at, bytes)) {
                any = true;
                continue;
            }
            self.messages.say(Message::NotPoked {
                pid,
                name: injected.name.to_owned(),
                argument: *argument + 1,
                at: at.unwrap_or(0),
            });
        }
        any
    }
}

/// Writes page by page, as far as memory is mapped. Returns whether any was.
fn write(memory: &GuestMemory, at: u64, bytes: &[u8]) -> bool {
    let (mut at, mut rest, mut any) = (at, bytes, false);
    while !rest.is_empty() {
        let in_page = (PAGE - at % PAGE).min(rest.len() as u64) as usize;
        if memory.write(at, &rest[..in_page]).is_err() {
            break;
        }
        any = true;
        let Some(next) = at.checked_add(in_page as u64) else {
            break;
        };
        (at, rest) = (next, &rest[in_page..]);
    }
    any
}

/// Makes a thread that stands at the start of a call get this result without the kernel making the call. Returns whether that was
/// possible.
fn replace(tid: i32, result: u64) -> bool {
    let Ok(mut registers) = ptrace::registers(tid) else {
        return false;
    };
    (registers.orig_rax, registers.rax) = (NO_CALL, result);
    ptrace::set_registers(tid, &registers).is_ok()
}
