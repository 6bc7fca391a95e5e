//! `ucontext[=strict|exact|lite]`: `getcontext`, `setcontext` and `swapcontext` of glibc without a system call. Used by
//! `remedies`.
//!
//! **What it mends.** glibc's functions set the signal mask at each switch (`rt_sigprocmask`) and store and load the whole x87 environment, although the masks and
//! the environment of nearly all contexts are the same: some 225 ns a switch, of which the system call is 170 and the environment 59.
//!
//! **How.** Both are compared first ([`code`]). `strict` (what is meant if nothing is said) replaces `pthread_sigmask` as well, so that the mask is always known or known to be
//! unknown. `lite` leaves masks alone altogether: it is right only in a program whose contexts all have the same mask, and nobody proves that, so it must be asked for by name.
//! Both keep the control bits of MXCSR and x87 exactly, and let exception flags flow from one context of a thread to the next ([`code`]); `exact` is `strict`
//! with each context's flags its own, as glibc has them.
//!
//! **What it risks.** `fetestexcept` may find a flag that another context of the thread has raised since the last switch, also after `feclearexcept`; what is cleared,
//! computed and tested without a switch in between is right. Such a flag traps where its exception is enabled later, or where `feupdateenv` raises it anew: a module that
//! imports one of [`TRAPPING`] is why all but `exact` is refused; one that is loaded later, or enables traps by code of its own, is not seen. `exact` does not do that, and costs what it costs to load flags wherever they differ. A mask that is changed by a raw `rt_sigprocmask`, past glibc, is not seen until the thread is next interrupted. In a handler that was installed with
//! `SA_NODEFER`, changes the mask, switches and then returns, the mask is taken for the one outside of it. A profiler that unwinds from within the new code, by a signal, finds no unwinding rules there.
//!
//! **When it refuses.** A libc whose three functions are not, byte for byte, glibc's ([`KNOWN`]: 2.31 to 2.41 as Debian builds them); a thread descriptor in which the thread's
//! id is elsewhere, or the words that are used are in use; threads with shadow stacks; `strict` also without restartable sequences (glibc before 2.35,
//! `glibc.pthread.rseq=0`, a thread that has taken its registration back), on Linux 6.19 and later ([`TOO_NEW`]), and while a handler
//! for SIGALRM, SIGVTALRM or SIGPROF, or a POSIX timer, may switch contexts from within a signal.
//!
//! **How it was measured.** `tests/patch/ucontext.rs` on `fixtures/c/contexts.c`, two contexts in turn, before, with it, and undone.

mod code;

use super::remedy::{Remedy, Way, refused};
use crate::error::Result;
use crate::guest::Guest;
use crate::object::{Object, Word};
use crate::plan::{Limits, Plan, plan_objects};
use crate::planned::Planned;
use crate::request::Request;
use inject::image::Part;
use inject::remote_call::RemoteThread;
use process::pid_namespace::ids_of_thread;
use process::proc_file;
use process::ptrace;
use process::status_file::StatusFile;
use process::stop::Stop;
use std::path::PathBuf;

const NAME: &str = "ucontext";

pub(super) const REMEDY: Remedy = Remedy {
    name: NAME,
    arguments: "[=strict|exact|lite]",
    mends: "swapcontext makes a system call and reloads the x87 environment at each switch: 20 times as fast without",
    risks: "strict keeps signal masks and refuses timers that may switch, shadow stacks, unknown builds of glibc; lite lets masks leak; both let exception flags flow between contexts, which may trap where a module loaded later enables traps; exact (strict, slower) does not",
    way: Way::Functions(plan),
};

/// Fingerprints of the functions' code, without the displacement of the one instruction that is relative to its place.
const KNOWN: [(&str, &[u64]); 3] = [
    ("getcontext", &[0x50cf_e2e6_5e58_1846]),
    ("setcontext", &[0x9aed_c89f_6414_372a]),
    ("swapcontext", &[0x7278_4073_eef0_1f7f]),
];

/// Where glibc has the thread's id, from the thread pointer on, and the words that the new code uses.
const TID: u64 = 0x2d0;
const WORDS: [u64; 2] = [0x80, 0x88];
/// Functions of libm by which an exception flag that another context has raised becomes SIGFPE: the first lets flags trap and clears none, the others raise
/// those anew that are set.
const TRAPPING: [&str; 3] = ["feenableexcept", "feupdateenv", "feraiseexcept"];
/// Signals of timers: SIGALRM, SIGVTALRM, SIGPROF.
const TIMERS: [(u32, &str); 3] = [(14, "SIGALRM"), (26, "SIGVTALRM"), (27, "SIGPROF")];
/// The first Linux that clears `rseq_cs` for a signal only where an interrupt has led into the kernel, and not where a system call has: `rseq_signal_deliver` in
/// include/linux/rseq.h asks for `event.user_irq` since commit 9f6ffd4cebda ("rseq: Separate the signal delivery path"), which came with merge
/// 2b09f480f0a1 (`core-rseq-2025-11-30`) into 6.19. Commit b9eac6a9d93c ("rseq: Revert to historical performance killing behaviour"; 7.1, and 7.0.10) asks for it
/// only of threads that have registered more than the first 32 bytes of `struct rseq`. No test has run on such a kernel, so these are refused too.
const TOO_NEW: (u32, u32) = (6, 19);

fn plan(guest: &Guest, arguments: &str, limits: Limits) -> Result<Plan> {
    let (strict, name, flags) = match arguments {
        "" | "strict" => (true, "remedy ucontext=strict", code::FLAGS_OF_THREAD),
        "exact" => (true, "remedy ucontext=exact", 0),
        "lite" => (false, "remedy ucontext=lite", code::FLAGS_OF_THREAD),
        _ => {
            return Err(refused(
                NAME,
                "write ucontext, ucontext=strict, ucontext=exact or ucontext=lite",
            ));
        }
    };
    if flags != 0 {
        no_traps(guest)?;
    }
    let sequence = if strict { sequence(guest)? } else { 0 };
    let entries: Vec<(&str, u64)> = code::entries(strict)
        .into_iter()
        .map(|(function, at)| (function, at as u64))
        .collect();
    let requests: Vec<Request> = entries
        .iter()
        .map(|(function, _)| Request {
            function: (*function).to_owned(),
            library: Some("libc".into()),
            file: PathBuf::from(name),
            new: (*function).to_owned(),
        })
        .collect();
    let object = object(
        name,
        [(code::SEQUENCE, sequence), (code::MAY_DIFFER, flags)],
        &entries,
    );
    let mut plan = plan_objects(guest, &requests, vec![object], limits)?;
    for one in &mut plan.functions {
        is_known(guest, one)?;
        // Old code and new agree about what a context holds, so a thread may end in the old what it has begun there.
        one.goes_on = true;
    }
    if strict {
        through_sigmask(guest, &plan)?;
    }
    plan.together = true;
    plan.condition = Some(if strict { stands_strict } else { stands });
    Ok(plan)
}

/// Refuses if a module may let flags trap that another context has raised. libm itself calls none of these for its own ends.
fn no_traps(guest: &Guest) -> Result<()> {
    let modules = guest.functions.modules().iter();
    let mut modules = modules.filter(|place| !is_libm(&place.name));
    let found = modules.find_map(|place| {
        let name = TRAPPING.iter().find(|name| place.symbols.imports(name))?;
        Some(format!(
            "{} may call {name}, so that a flag of one context could end another by SIGFPE: ucontext=exact leaves each context its own flags",
            place.name
        ))
    });
    found.map_or(Ok(()), |reason| Err(refused(NAME, reason)))
}

/// `libm.so.6`, or before 2.34 `libm-2.31.so`.
fn is_libm(name: &str) -> bool {
    name.starts_with("libm.so") || name.starts_with("libm-")
}

/// The file: two pages. `words` are where the code expects what is known of this guest only, and what that is.
fn object(name: &str, words: [(usize, u64); 2], entries: &[(&str, u64)]) -> Object {
    let mut bytes = code::bytes();
    let mut put = |at: usize, word: u64| bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
    for (at, word) in words {
        put(at, word);
    }
    // Version, flags; then, behind the start, the length.
    put(code::DESCRIPTOR + 16, 1);
    let mut words = vec![
        (code::DESCRIPTOR as u64 + 8, Word::Own(code::START as u64)),
        (code::DESCRIPTOR as u64 + 24, Word::Own(code::ABORT as u64)),
    ];
    for (original, at) in code::ORIGINALS {
        let function = original.trim_start_matches("lancet_original_");
        if entries.iter().any(|(name, _)| *name == function) {
            words.push((at as u64, Word::Import(original)));
        }
    }
    let part = |range, protection| Part { range, protection };
    let page = wire::PAGE as u64;
    let parts = vec![
        part(0..page, libc::PROT_READ | libc::PROT_EXEC),
        part(page..code::SIZE as u64, libc::PROT_READ),
    ];
    Object::built_in(name, bytes, parts, &words, entries)
}

/// Refuses a function whose code was not read by whoever wrote this.
fn is_known(guest: &Guest, one: &Planned) -> Result<()> {
    let name = one.function.name.as_str();
    let Some((_, known)) = KNOWN.iter().find(|(known, _)| *known == name) else {
        return Ok(());
    };
    let mut code = vec![0; (one.function.size as usize).min(wire::PAGE)];
    guest.memory.read_bytes(one.function.address, &mut code)?;
    // mov errno@gottpoff(%rip), %rcx
    let place = code
        .windows(3)
        .position(|bytes| bytes == [0x48, 0x8b, 0x0d]);
    if let Some(at) = place {
        code[at + 3..].iter_mut().take(4).for_each(|byte| *byte = 0);
    }
    let fingerprint = wire::calls::fingerprint(&code);
    if known.contains(&fingerprint) {
        return Ok(());
    }
    let reason = format!(
        "{name} of {} is not as in a glibc that is known (fingerprint {fingerprint:#x}, {} bytes)",
        one.function.module, one.function.size
    );
    Err(refused(NAME, reason))
}

/// The distance of `rseq_cs` from the thread pointer, where this kernel clears it for every signal.
fn sequence(guest: &Guest) -> Result<u64> {
    if linux_version().is_none_or(|version| version >= TOO_NEW) {
        return Err(refused(
            NAME,
            "Linux 6.19 and later leave rseq_cs as it is when a signal comes at the end of a system call, and by that a changed signal mask is noticed; ucontext=lite does not need it",
        ));
    }
    Ok(registered(guest)?.wrapping_add(8))
}

/// The distance of `struct rseq` from the thread pointer of each thread: glibc's `__rseq_offset`, where `__rseq_size` is not 0 (glibc 2.35 and later).
fn registered(guest: &Guest) -> Result<u64> {
    const NONE: &str = "its threads have no restartable sequences (glibc before 2.35, or glibc.pthread.rseq=0), by which a changed signal mask is noticed";
    let word = |name: &str| guest.memory.word(guest.functions.symbol(name)?).ok();
    let size = word("__rseq_size").map(|word| word as u32);
    match (size, word("__rseq_offset")) {
        (Some(1..), Some(offset)) => Ok(offset),
        _ => Err(refused(NAME, NONE)),
    }
}

/// Major and minor number of the running kernel.
fn linux_version() -> Option<(u32, u32)> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Refuses if `sigprocmask` does not end in `pthread_sigmask`.
fn through_sigmask(guest: &Guest, plan: &Plan) -> Result<()> {
    let named = |name: &str| plan.functions.iter().find(|one| one.function.name == name);
    let sigmask = named("pthread_sigmask").map(|one| one.function.address);
    let all = guest.functions.find(true, |name, place| {
        name == "sigprocmask" && place.name.starts_with("libc.so")
    });
    let calls = all.iter().any(|function| {
        let mut code = [0; 32];
        let read = guest.memory.read_bytes(function.address, &mut code);
        let mut places = (0..code.len() - 4).filter(|at| code[*at] == 0xe8);
        read.is_ok()
            && places.any(|at| {
                let distance =
                    i32::from_le_bytes([code[at + 1], code[at + 2], code[at + 3], code[at + 4]]);
                let next = function.address + at as u64 + 5;
                Some(next.wrapping_add_signed(i64::from(distance))) == sigmask
            })
    });
    if calls {
        return Ok(());
    }
    Err(refused(
        NAME,
        "its sigprocmask does not end in pthread_sigmask, so that changes of the mask could not be seen",
    ))
}

/// Asked of every thread: does it have no shadow stack?
fn stands(guest: &Guest, stop: &Stop, _: &RemoteThread) -> Result<()> {
    for tid in stop.threads() {
        if process::shadow_stack::of_thread(guest.pid(), tid) {
            return Err(refused(
                NAME,
                format!(
                    "thread {tid} has a shadow stack, which forbids to leave a function by a jump"
                ),
            ));
        }
    }
    Ok(())
}

/// Also: is its descriptor laid out as the new code believes, and does the kernel clear its `rseq_cs`?
fn stands_strict(guest: &Guest, stop: &Stop, remote: &RemoteThread) -> Result<()> {
    stands(guest, stop, remote)?;
    let offset = registered(guest)?;
    for tid in stop.threads() {
        let pointer = if tid == remote.pid() {
            remote.registers().fs_base
        } else {
            let registers = ptrace::registers(tid);
            let explained = |errno| ptrace::explain(remote.pid(), "reading registers", errno);
            registers.map_err(explained)?.fs_base
        };
        let word = |at: u64| guest.memory.word(pointer.wrapping_add(at)).ok();
        let reason = if pointer == 0
            || word(TID).map(|word| word as i32) != Some(tid_inside(guest, tid))
        {
            "has no thread descriptor as glibc's are known to be"
        } else if !is_ours_or_unused(word(WORDS[0]), word(WORDS[1]), word(TID)) {
            "uses words of its thread descriptor that no glibc uses"
        } else if ptrace::restartable_sequences(tid) != Some(pointer.wrapping_add(offset)) {
            "has no restartable sequences registered where glibc does that (or Linux is older than 5.13 and does not say it)"
        } else {
            continue;
        };
        return Err(refused(NAME, format!("thread {tid} {reason}")));
    }
    no_timers(guest)
}

/// Whether the words are zero, or those that an earlier remedy has left.
fn is_ours_or_unused(owner: Option<u64>, mask: Option<u64>, tid: Option<u64>) -> bool {
    match (owner, mask, tid) {
        (Some(0), Some(0), _) => true,
        (Some(owner), Some(_), Some(_)) => owner >> 32 == 0 && owner != 0,
        _ => false,
    }
}

/// The thread's id as its own namespace knows it.
fn tid_inside(guest: &Guest, tid: i32) -> i32 {
    let ids = ids_of_thread(guest.pid(), tid);
    ids.and_then(|ids| ids.last().copied()).unwrap_or(tid)
}

/// Refuses while a timer may run a handler that switches.
fn no_timers(guest: &Guest) -> Result<()> {
    let status = StatusFile::of(guest.pid()).unwrap_or_default();
    let caught = status.bits("SigCgt");
    let caught = caught.ok_or_else(|| refused(NAME, "which signals it catches cannot be read"))?;
    if let Some((_, name)) = TIMERS
        .iter()
        .find(|(signal, _)| caught >> (signal - 1) & 1 != 0)
    {
        let reason = format!(
            "it catches {name}: a handler of a timer may switch contexts, and leave it with another mask than it came with"
        );
        return Err(refused(NAME, reason));
    }
    // /proc/PID/timers: `notify: signal/pid.1234` (fs/proc/base.c, show_timer). The file is missing in a kernel without CONFIG_CHECKPOINT_RESTORE.
    let reason = match proc_file::of_process(guest.pid(), "timers") {
        Ok(timers) if timers.contains("notify: signal") => {
            "it has a POSIX timer that sends signals: its handler may switch contexts".to_owned()
        }
        Err(error) if !proc_file::is_gone(&error) => {
            format!("whether it has POSIX timers cannot be read: {error}")
        }
        Ok(_) | Err(_) => return Ok(()),
    };
    Err(refused(NAME, reason))
}
