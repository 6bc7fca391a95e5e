//! Checks whether a guest's seccomp filter allows the system calls that we need it to make. Used by `allowed`, and by
//! the crates `hooks`, `enter`, `births` and `dump`.
//!
//! A filter may kill the process for a call it does not allow. So before a thread under filters works for us, its filters are read
//! (`PTRACE_SECCOMP_GET_FILTER`, which needs CAP_SYS_ADMIN) and run here, by the interpreter below, for each of our calls. If they cannot
//! be read, the guest is opened only if lancet is in the same sandbox, under as many filters, in the same namespaces and control group:
//! the same container, in which lancet makes these calls too.
//!
//! The language is classic BPF (`include/uapi/linux/bpf_common.h`, `filter.h`) over `struct
//! seccomp_data`: number u32, architecture u32, instruction pointer u64, six arguments u64.

use process::error::{Error, Result};
use process::guest::{has_filter, seccomp_mode};
use process::proc_file;
use process::ptrace::{self, Instruction};
use process::status_file::StatusFile;
use process::stop::{Stop, thread_ids};
use std::fs;
use std::path::PathBuf;

/// A system call as a filter sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    name: &'static str,
    number: i64,
    arguments: [u64; 6],
}

const ANONYMOUS: u64 = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
const FIXED: u64 = ANONYMOUS | libc::MAP_FIXED as u64;
const READ: u64 = libc::PROT_READ as u64;
const WRITE: u64 = libc::PROT_WRITE as u64;
const EXECUTE: u64 = libc::PROT_EXEC as u64;

/// The system calls that every agent makes, and those that a thread makes for us in remote calls.
const CALLS: [Call; 9] = [
    call("mmap", libc::SYS_mmap, [0, 0, READ, ANONYMOUS, u64::MAX, 0]),
    call(
        "mmap",
        libc::SYS_mmap,
        [0, 0, READ | EXECUTE, FIXED, u64::MAX, 0],
    ),
    call(
        "mmap",
        libc::SYS_mmap,
        [0, 0, READ | WRITE, FIXED, u64::MAX, 0],
    ),
    call("mremap", libc::SYS_mremap, [0; 6]),
    call("munmap", libc::SYS_munmap, [0; 6]),
    call(
        "madvise",
        libc::SYS_madvise,
        [0, 0, libc::MADV_WIPEONFORK as u64, 0, 0, 0],
    ),
    call(
        "rt_sigaction",
        libc::SYS_rt_sigaction,
        [libc::SIGINT as u64, 0, 0, 8, 0, 0],
    ),
    call("rt_sigreturn", libc::SYS_rt_sigreturn, [0; 6]),
    call("clock_gettime", libc::SYS_clock_gettime, [1, 0, 0, 0, 0, 0]),
];

/// The further calls of hooks: they wait for room, ask whether a page can be read and what a word holds, block signals, ask for their thread's id, whether it
/// may read the time-stamp counter, and whether the process that a child waits for, or a thread whose ring is wanted, exists yet.
pub const OF_HOOKS: [Call; 8] = [
    call("nanosleep", libc::SYS_nanosleep, [0; 6]),
    call(
        "rt_sigprocmask",
        libc::SYS_rt_sigprocmask,
        [0x7fff_ffff, 0, 0, 8, 0, 0],
    ),
    call(
        "rt_sigprocmask",
        libc::SYS_rt_sigprocmask,
        [libc::SIG_SETMASK as u64, 0, 0, 8, 0, 0],
    ),
    call("gettid", libc::SYS_gettid, [0; 6]),
    call(
        "prctl",
        libc::SYS_prctl,
        [libc::PR_GET_TSC as u64, 0, 0, 0, 0, 0],
    ),
    call("getpid", libc::SYS_getpid, [0; 6]),
    call("kill", libc::SYS_kill, [0; 6]),
    call("futex", libc::SYS_futex, [0, 4 | 128, 0, 0, 0, 0]),
];

/// The further call of a hook that copies what arguments lead to. Where it is not allowed, hooks do without.
pub const OF_COPIES: [Call; 1] = [call("process_vm_readv", libc::SYS_process_vm_readv, [0; 6])];

/// The further calls of hooks that count blocks of an allocator: memory for what they note, which is kept out of children and core files,
/// and given back.
pub const OF_BLOCKS: [Call; 5] = [
    call(
        "mmap",
        libc::SYS_mmap,
        [
            0,
            0,
            READ | WRITE,
            ANONYMOUS | libc::MAP_NORESERVE as u64,
            u64::MAX,
            0,
        ],
    ),
    advice(libc::MADV_NOHUGEPAGE),
    advice(libc::MADV_DONTDUMP),
    advice(libc::MADV_WIPEONFORK),
    advice(libc::MADV_DONTNEED),
];

const fn advice(advice: i32) -> Call {
    call("madvise", libc::SYS_madvise, [0, 0, advice as u64, 0, 0, 0])
}

/// The further call of a birth while a thread waits to be found by its id ([`wire::accounts`]).
pub const OF_ACCOUNTS: [Call; 1] = [call("gettid", libc::SYS_gettid, [0; 6])];

/// The further calls for the pool of rings: a file that is mapped shared.
pub const OF_POOL: [Call; 9] = [
    call("memfd_create", libc::SYS_memfd_create, [0; 6]),
    call(
        "mmap",
        libc::SYS_mmap,
        [0, 0, READ | WRITE, SHARED | libc::MAP_FIXED as u64, 3, 0],
    ),
    call("mmap", libc::SYS_mmap, [0, 0, 0, SHARED, 3, 0]),
    call(
        "mprotect",
        libc::SYS_mprotect,
        [0, 0, READ | WRITE, 0, 0, 0],
    ),
    call(
        "madvise",
        libc::SYS_madvise,
        [0, 0, libc::MADV_DONTDUMP as u64, 0, 0, 0],
    ),
    call(
        "madvise",
        libc::SYS_madvise,
        [0, 0, libc::MADV_DONTFORK as u64, 0, 0, 0],
    ),
    call(
        "madvise",
        libc::SYS_madvise,
        [0, 0, libc::MADV_DOFORK as u64, 0, 0, 0],
    ),
    call("munmap", libc::SYS_munmap, [0; 6]),
    call("close", libc::SYS_close, [3, 0, 0, 0, 0, 0]),
];

/// The further calls of a snapshot in the guest itself: copying the process, and waiting for the copy. The copy is under the same filters
/// and may be killed by them, which the guest does not notice.
pub const OF_SNAPSHOT: [Call; 6] = [
    call(
        "mmap",
        libc::SYS_mmap,
        [
            0,
            0,
            READ | WRITE,
            (libc::MAP_SHARED | libc::MAP_ANONYMOUS) as u64,
            u64::MAX,
            0,
        ],
    ),
    call("futex", libc::SYS_futex, [0; 6]),
    call(
        "kill",
        libc::SYS_kill,
        [2, libc::SIGKILL as u64, 0, 0, 0, 0],
    ),
    call(
        "clone",
        libc::SYS_clone,
        [libc::CLONE_UNTRACED as u64, 0, 0, 0, 0, 0],
    ),
    call(
        "wait4",
        libc::SYS_wait4,
        [
            2,
            0,
            (libc::WNOHANG | libc::__WCLONE) as u32 as u64,
            0,
            0,
            0,
        ],
    ),
    call(
        "rt_sigprocmask",
        libc::SYS_rt_sigprocmask,
        [libc::SIG_SETMASK as u64, 0, 0, 8, 0, 0],
    ),
];

const SHARED: u64 = (libc::MAP_SHARED | libc::MAP_NORESERVE) as u64;

pub(crate) const fn call(name: &'static str, number: i64, arguments: [u64; 6]) -> Call {
    Call {
        name,
        number,
        arguments,
    }
}

/// `AUDIT_ARCH_X86_64` (include/uapi/linux/audit.h): the system call table that numbers refer to.
const ARCHITECTURE: u32 = 0xc000_003e;
const ACTION: u32 = 0xffff_0000;
const ALLOW: u32 = 0x7fff_0000;
const LOG: u32 = 0x7ffc_0000;
/// Limit of filters that a thread can have: each counts as its instructions, at least one, plus four, and all together as at most 32,768
/// (`seccomp_attach_filter` and `MAX_INSNS_PER_PATH`, kernel/seccomp.c). So all filters are checked.
const MOST_FILTERS: usize = (1 << 15) / (1 + 4) + 1;

/// Returns the threads of a process that have a seccomp filter, or are in strict mode. Filters belong to a thread: one that it has set
/// for itself also applies to the threads that it starts, and to no other.
pub fn filtered_threads(pid: i32) -> Result<Vec<i32>> {
    let mut filtered = Vec::new();
    for tid in thread_ids(pid)? {
        if has_filter(pid, tid)? {
            filtered.push(tid);
        }
    }
    Ok(filtered)
}

/// Stops each thread with a filter but the main one, one after the other, and checks it.
pub fn check_other_threads(pid: i32, more: &[Call]) -> Result<()> {
    let mut threads = filtered_threads(pid)?;
    threads.retain(|tid| *tid != pid);
    check_each(pid, &threads, more)
}

/// Checks all threads with a filter. None of them may be stopped by us.
pub fn check_all_threads(pid: i32, more: &[Call]) -> Result<()> {
    check_each(pid, &filtered_threads(pid)?, more)
}

fn check_each(pid: i32, threads: &[i32], more: &[Call]) -> Result<()> {
    for &tid in threads {
        match Stop::as_it_is(pid, tid, false) {
            Ok(_stop) => check(pid, tid, more)?,
            // The thread has ended.
            Err(_) if matches!(seccomp_mode(pid, tid), Ok(None)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Checks a stopped thread with filters, for what every agent calls and for `more`.
pub fn check(pid: i32, tid: i32, more: &[Call]) -> Result<()> {
    let whose = if tid == pid {
        "its filter".to_owned()
    } else {
        format!("the filter of its thread {tid}")
    };
    let refuse = |reason: String| Err(Error::Seccomp { pid, reason });
    if seccomp_mode(pid, tid)? == Some(1) {
        return refuse(format!(
            "in strict mode the kernel would kill its thread {tid} at the first call of ours"
        ));
    }
    for index in 0..MOST_FILTERS {
        let program = match ptrace::seccomp_filter(tid, index) {
            Ok(program) => program,
            Err(nix::errno::Errno::ENOENT) => return Ok(()),
            Err(_) if same_filters(pid, tid) => return Ok(()),
            Err(_) => return Err(Error::SeccompUnread { pid, whose }),
        };
        if let Some(name) = forbids(&program, more) {
            return refuse(format!("{whose} does not allow {name}"));
        }
    }
    refuse(format!("{whose} has more parts than can be read"))
}

/// Returns the first system call that a filter does not allow, of those that every agent makes and of `more`.
pub fn forbids(program: &[Instruction], more: &[Call]) -> Option<&'static str> {
    let mut calls = CALLS.iter().chain(more);
    let forbidden = calls.find(|call| {
        let verdict = run(program, &call.data());
        !verdict.is_some_and(|verdict| matches!(verdict & ACTION, ALLOW | LOG))
    });
    forbidden.map(|call| call.name)
}

/// What is compared to decide whether two processes are under the same filters. The filters themselves cannot be compared: the kernel
/// shows none to a process that is under one itself (`seccomp_get_filter`, `kernel/seccomp.c`), as lancet is in this case.
#[derive(Debug, PartialEq, Eq)]
struct Sandbox {
    /// How many filters the thread has (`Seccomp_filters` of `/proc/PID/status`, Linux 5.9).
    filters: u32,
    /// `NoNewPrivs` of `/proc/PID/status`: 1 for a process that has set a filter without being root.
    no_new_privileges: String,
    /// The namespaces by which containers differ: mount, PID, user and network.
    namespaces: Vec<PathBuf>,
    /// The control group, because a service has one of its own.
    group: String,
}

impl Sandbox {
    fn of(process: &str) -> Option<Self> {
        let status = proc_file::text(format!("/proc/{process}/status")).ok()?;
        let status = StatusFile::from_text(status);
        let namespaces = ["mnt", "pid", "user", "net"]
            .map(|name| fs::read_link(format!("/proc/{process}/ns/{name}")));
        Some(Sandbox {
            filters: status.number("Seccomp_filters")?,
            no_new_privileges: status.field("NoNewPrivs")?.to_owned(),
            namespaces: namespaces
                .into_iter()
                .collect::<std::io::Result<_>>()
                .ok()?,
            group: proc_file::text(format!("/proc/{process}/cgroup")).ok()?,
        })
    }

    /// Whether a call that works in this sandbox works in the other one too.
    fn vouches_for(&self, other: &Sandbox) -> bool {
        self.filters > 0 && self == other
    }
}

/// Whether lancet is in the sandbox of a guest's thread, as far as can be seen.
fn same_filters(pid: i32, tid: i32) -> bool {
    let theirs = Sandbox::of(&format!("{pid}/task/{tid}"));
    match (Sandbox::of("self"), theirs) {
        (Some(ours), Some(theirs)) => ours.vouches_for(&theirs),
        _ => false,
    }
}

impl Call {
    /// Returns the call as the bytes of a `struct seccomp_data`; the instruction pointer is 0.
    fn data(&self) -> [u8; 64] {
        let mut data = [0; 64];
        data[0..4].copy_from_slice(&(self.number as u32).to_le_bytes());
        data[4..8].copy_from_slice(&ARCHITECTURE.to_le_bytes());
        for (index, argument) in self.arguments.iter().enumerate() {
            data[16 + 8 * index..24 + 8 * index].copy_from_slice(&argument.to_le_bytes());
        }
        data
    }
}

/// Runs a filter for a call and returns its result; `None` if it is no valid program. Jumps only lead forward, so it ends.
pub fn run(program: &[Instruction], data: &[u8; 64]) -> Option<u32> {
    let (mut a, mut x) = (0u32, 0u32);
    let mut scratch = [0u32; 16];
    let mut at = 0usize;
    loop {
        let Instruction {
            code,
            yes,
            no,
            operand,
        } = *program.get(at)?;
        at += 1;
        let source = if code & 0x08 != 0 { x } else { operand };
        match code {
            // ld word, immediate, scratch, length
            0x20 => {
                let from = operand as usize;
                let word = data.get(from..from.checked_add(4)?)?;
                a = u32::from_le_bytes(word.try_into().ok()?);
            }
            0x00 => a = operand,
            0x60 => a = *scratch.get(operand as usize)?,
            0x80 => a = data.len() as u32,
            // ldx
            0x01 => x = operand,
            0x61 => x = *scratch.get(operand as usize)?,
            0x81 => x = data.len() as u32,
            // st, stx
            0x02 => *scratch.get_mut(operand as usize)? = a,
            0x03 => *scratch.get_mut(operand as usize)? = x,
            // alu
            0x04 | 0x0c => a = a.wrapping_add(source),
            0x14 | 0x1c => a = a.wrapping_sub(source),
            0x24 | 0x2c => a = a.wrapping_mul(source),
            0x34 | 0x3c => a = a.checked_div(source)?,
            0x44 | 0x4c => a |= source,
            0x54 | 0x5c => a &= source,
            // Only five bits of the count are used, as the processor does for the kernel's compiled filter; the kernel accepts no filter
            // that shifts by a constant of 32 or more (`bpf_check_classic`, net/core/filter.c).
            0x64 | 0x6c => a = a.wrapping_shl(source),
            0x74 | 0x7c => a = a.wrapping_shr(source),
            0x84 => a = a.wrapping_neg(),
            0xa4 | 0xac => a ^= source,
            // jmp
            0x05 => at = at.checked_add(operand as usize)?,
            0x15 | 0x1d => at += branch(a == source, yes, no),
            0x25 | 0x2d => at += branch(a > source, yes, no),
            0x35 | 0x3d => at += branch(a >= source, yes, no),
            0x45 | 0x4d => at += branch(a & source != 0, yes, no),
            // ret
            0x06 => return Some(operand),
            0x16 => return Some(a),
            // tax, txa
            0x07 => x = a,
            0x87 => a = x,
            _ => return None,
        }
    }
}

fn branch(condition: bool, yes: u8, no: u8) -> usize {
    usize::from(if condition { yes } else { no })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn op(code: u16, yes: u8, no: u8, operand: u32) -> Instruction {
        Instruction {
            code,
            yes,
            no,
            operand,
        }
    }

    /// Kills for `number`, unless its third argument has a bit of `mask`; allows all else.
    fn kills(number: i64, mask: u32) -> Vec<Instruction> {
        vec![
            op(0x20, 0, 0, 4),
            op(0x15, 0, 4, ARCHITECTURE),
            op(0x20, 0, 0, 0),
            op(0x15, 0, 3, number as u32),
            op(0x20, 0, 0, 32),
            op(0x45, 1, 0, mask),
            op(0x06, 0, 0, 0x8000_0000),
            op(0x06, 0, 0, ALLOW),
        ]
    }

    #[test]
    fn a_filter_decides_by_number_and_argument() {
        let map = CALLS[0];
        assert_eq!(
            run(&kills(libc::SYS_mmap, 0), &map.data()),
            Some(0x8000_0000)
        );
        assert_eq!(run(&kills(libc::SYS_mmap, 1), &map.data()), Some(ALLOW));
        assert_eq!(run(&kills(libc::SYS_ptrace, 0), &map.data()), Some(ALLOW));
    }

    #[test]
    fn a_count_of_shifts_has_five_bits() {
        let shifted = [
            op(0x00, 0, 0, 0b101),
            op(0x01, 0, 0, 33),
            op(0x6c, 0, 0, 0),
            op(0x16, 0, 0, 0),
        ];
        assert_eq!(run(&shifted, &[0; 64]), Some(0b1010));
    }

    #[test]
    fn a_program_that_runs_off_its_end_says_nothing() {
        assert_eq!(run(&[op(0x20, 0, 0, 0)], &CALLS[0].data()), None);
        assert_eq!(run(&[op(0x20, 0, 0, 61)], &CALLS[0].data()), None);
        assert_eq!(run(&[op(0x34, 0, 0, 0)], &CALLS[0].data()), None);
    }

    #[test]
    fn only_the_same_sandbox_vouches_for_a_guest() {
        let under = |filters: u32| Sandbox {
            filters,
            ..Sandbox::of("self").expect("our own status")
        };
        assert!(under(2).vouches_for(&under(2)));
        // No filter is no evidence that theirs allows anything.
        assert!(!under(0).vouches_for(&under(0)));
        assert!(!under(1).vouches_for(&under(2)));
        let mut elsewhere = under(1);
        elsewhere.group.push_str("/another.service");
        assert!(!under(1).vouches_for(&elsewhere));
        let mut elsewhere = under(1);
        elsewhere.namespaces[0] = "mnt:[1]".into();
        assert!(!under(1).vouches_for(&elsewhere));
        let mut alone = under(1);
        alone.no_new_privileges = "2".into();
        assert!(!under(1).vouches_for(&alone));
    }

    proptest! {
        #[test]
        fn any_program_ends(words in prop::collection::vec((any::<u16>(), any::<u8>(), any::<u8>(), any::<u32>()), 0..64)) {
            let program: Vec<_> = words.into_iter().map(|(code, yes, no, operand)| op(code & 0xff, yes, no, operand)).collect();
            run(&program, &CALLS[1].data());
        }
    }
}
