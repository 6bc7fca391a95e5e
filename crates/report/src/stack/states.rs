//! What a thread does, in words. Used by `now`, `conclusions`, `dump` and others.

use std::time::Duration;

use answer::place::{Address, Place};
use answer::stack::WaitsFor;
use answer::time::nanos;
use frames::live::activity::{Until, waits_for};
use frames::live::scripts::{Script, Turn};
use frames::live::stack::Stack;
use frames::live::state::State;
use process::wait::Wait;
use vm::library::within;

use super::names::whose;
use super::waits;
use crate::figures::span;
use crate::text::printable;

/// The system call by which the kernel goes on with one that a stop interrupted (arch/x86/entry/syscalls/syscall_64.tbl).
const RESTART_SYSCALL: i64 = 219;

/// How locks of all kinds wait, and a call that goes on after a stop; where more is known they say nothing.
const LOCKS: &[&str] = &[
    "futex",
    "pthread_cond_",
    "sem_wait",
    "sem_clockwait",
    "__new_sem_",
    "do_futex_wait",
    "__lll_",
    "__futex",
    "restart_syscall",
];

/// What a thread does, in words safe to print.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Words {
    /// What it does: `running`, `asleep`, `waits` or `stopped`.
    pub verb: &'static str,
    /// The rest: `in Thread::Queue#pop`, `for a mutex that thread 4243 worker holds (app.rb:12)`.
    pub rest: String,
    /// Another thread is what it waits for.
    pub for_another: bool,
    /// Where in `rest` it begins which thread that is; the end, if that is not known.
    pub whom: usize,
}

/// Returns what the thread of a stack does; `None` if that was not asked for.
pub(super) fn words(stacks: &[Stack], number: usize) -> Option<Words> {
    let state = stacks[number].state.as_ref()?;
    let another = |what: &str, whom: &str| {
        Some(Words {
            verb: "waits",
            rest: format!("{what}{whom}"),
            for_another: true,
            whom: what.len(),
        })
    };
    let itself = " that it holds itself";
    if let Some((until, other)) = waits_for(stacks, number) {
        let thread = thread_at(&stacks[other]);
        let holds = format!(" that {thread} holds");
        return match until {
            Until::Unlocked if other == number => another("for a mutex", itself),
            Until::Unlocked => another("for a mutex", &holds),
            Until::Released(what) if other == number => {
                another(&format!("for {}", waits::lock(what)), itself)
            }
            Until::Released(what) => another(&format!("for {}", waits::lock(what)), &holds),
            Until::Turn => another("for the VM lock", &format!(", which {thread} has")),
            Until::Ended => another("for the end of", &format!(" {thread}")),
        };
    }
    if state.stopped {
        return Some(Words {
            verb: "stopped",
            rest: "by a signal or a debugger".to_owned(),
            ..Words::default()
        });
    }
    let vm = state.vm.as_ref();
    let Some(wait) = &state.wait else {
        let rest = match vm.map_or(Turn::Unknown, |vm| vm.turn) {
            Turn::Has => "with the VM lock",
            Turn::Waits => "and about to get the VM lock",
            Turn::Without => "without the VM lock",
            Turn::Unknown => "",
        };
        return Some(Words {
            verb: "running",
            rest: rest.to_owned(),
            ..Words::default()
        });
    };
    match vm {
        Some(vm) if vm.wants.is_some() => return another("for a mutex", ""),
        Some(vm) if vm.turn == Turn::Waits => return another("for the VM lock", ""),
        _ => {}
    }
    if let Some(held) = &state.held {
        let (lock, whom) = waits::for_whom(held);
        return another(&lock, &whom);
    }
    Some(Words {
        verb: "asleep",
        rest: asleep(&stacks[number], state, wait),
        ..Words::default()
    })
}

/// Returns how long a thread has slept, if it sleeps and the kernel says it.
pub(super) fn slept(stack: &Stack) -> Option<Duration> {
    stack.state.as_ref()?.wait.as_ref()?.asleep
}

/// Returns a time for the line of a state: `12.3 s`.
pub(super) fn time(time: Duration) -> String {
    if time < Duration::from_millis(100) {
        return format!("{} ms", time.as_millis());
    }
    span(time.as_secs_f64())
}

/// Returns a thread with its place: `thread 4243 worker (app.rb:12)`. The whole path stands in the thread's own block.
pub(super) fn thread_at(stack: &Stack) -> String {
    let place = stack.place().map(|script| {
        let file = script.path.rsplit('/').next().unwrap_or_default();
        format!(" ({}{})", printable(file), script.colon_line())
    });
    format!("thread {}{}", whose(stack), place.unwrap_or_default())
}

/// Returns the file and line of a script frame, safe to print; a library's without the folder it is in.
pub(super) fn at(script: &Script) -> String {
    format!("{}{}", printable(within(&script.path)), script.colon_line())
}

/// Returns how a thread sleeps, as [`words`] says it where nobody knows for whom it waits.
pub(super) fn sleeping(stack: &Stack) -> Option<String> {
    let state = stack.state.as_ref()?;
    Some(asleep(stack, state, state.wait.as_ref()?))
}

/// `in Addrinfo.getaddrinfo (getaddrinfo, poll): udp to 10.0.0.2:53 and 2 more`.
fn asleep(stack: &Stack, state: &State, wait: &Wait) -> String {
    let call = match (wait.call, wait.number) {
        (Some(call), _) => call.to_owned(),
        // What a stop interrupted and the kernel made again, and whose number is not to be seen in the code.
        (None, RESTART_SYSCALL) => "restart_syscall".to_owned(),
        (None, 0..) => format!("system call {}", wait.number),
        (None, _) => "a page fault".to_owned(),
    };
    // A method that the VM has in Ruby, `Thread::Queue#pop` since 3.3, is to its callers what one in C is.
    let of_the_vm = stack
        .scripts()
        .next()
        .filter(|script| script.path.starts_with("<internal:"))
        .and_then(|script| script.qualified.as_deref());
    let function = state.vm.as_ref().and_then(|vm| vm.function.as_deref());
    let function = function.or(of_the_vm);
    let mut names: Vec<&str> = Vec::new();
    for name in [function, state.through.as_deref(), Some(call.as_str())] {
        let name = name.unwrap_or_default();
        let is_new = !name.is_empty() && !names.iter().any(|known| same(known, name));
        let is_lock = LOCKS.iter().any(|lock| name.starts_with(lock));
        if is_new && (names.is_empty() || !is_lock) {
            names.push(name);
        }
    }
    let mut text = format!("in {}", printable(names[0]));
    if names.len() > 1 {
        text += &format!(" ({})", printable(&names[1..].join(", ")));
    }
    text += &waits::on(wait);
    if let Some(name) = &state.asks_for {
        text += &format!(", asking for {}", printable(name));
    }
    text
}

/// Returns whether two names say the same: `__poll` and `poll`, `clock_nanosleep` and `clock_nanosleep@@GLIBC_2.17`,
/// `recv` and `recvfrom`, by which the C library makes it.
fn same(one: &str, other: &str) -> bool {
    let plain = |name: &str| {
        let name = name.trim_start_matches('_');
        let name = name.strip_prefix("libc_").unwrap_or(name);
        name.split('@').next().unwrap_or(name).to_owned()
    };
    let (one, other) = (plain(one), plain(other));
    one.starts_with(&other) || other.starts_with(&one)
}

/// Returns what the thread of a stack does, for programs.
pub(super) fn for_programs(stacks: &[Stack], number: usize) -> Option<answer::stack::State<'_>> {
    let state = stacks[number].state.as_ref()?;
    let wait = state.wait.as_ref();
    let vm = state.vm.as_ref();
    let until = waits_for(stacks, number).map(|(until, other)| {
        let until = match until {
            Until::Unlocked | Until::Released(_) => "unlock",
            Until::Turn => "vm_lock",
            Until::Ended => "end",
        };
        WaitsFor {
            tid: stacks[other].thread.tid,
            until,
        }
    });
    Some(answer::stack::State {
        running: wait.is_none() && !state.stopped,
        stopped: state.stopped,
        call: wait.and_then(|wait| wait.call),
        on: wait.map(|wait| &*wait.on),
        on_more: wait.map(|wait| wait.more),
        others: wait.map(waits::others_for_programs),
        asleep_ns: wait.and_then(|wait| wait.asleep).map(nanos),
        ends_in_ns: wait.and_then(|wait| wait.ends_in).map(nanos),
        uninterruptible: wait.map(|wait| wait.uninterruptible),
        futex: wait
            .and_then(|wait| wait.futex)
            .map(|futex| Address(futex.word)),
        lock: state.held.as_ref().map(waits::lock_for_programs),
        asks_for: state.asks_for.as_deref(),
        through: state.through.as_deref(),
        function: vm.and_then(|vm| vm.function.as_deref()),
        name: vm.and_then(|vm| vm.name.as_deref()),
        vm_lock: match vm.map_or(Turn::Unknown, |vm| vm.turn) {
            Turn::Has => Some("has"),
            Turn::Waits => Some("waits"),
            Turn::Without => Some("without"),
            Turn::Unknown => None,
        },
        waits_for: until,
    })
}

/// Where a script frame stands, for programs.
pub(super) fn place(script: &Script) -> Place<'_> {
    Place {
        qualified: script.qualified.as_deref().map(Into::into),
        ..Place::new(&*script.path, script.line, &*script.name)
    }
}
