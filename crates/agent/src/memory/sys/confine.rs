//! Confines a process of ours, so that from now on it can affect nothing but its own memory. Used by
//! `snapshot::confined`.

use super::{RT_SIGPROCMASK, child, process_id, syscall};

const FCNTL: u64 = 72;
const PRCTL: u64 = 157;

/// Makes the kernel end this process with SIGIO as soon as the reading end of a pipe is closed (`pipe_release`, `fs/pipe.c`).
pub fn end_without_reader(write: u64) {
    const SET_FLAGS: u64 = 4;
    const SET_OWNER: u64 = 8;
    const NONBLOCK_ASYNC: u64 = 0o4000 | 0o20000;
    const SIGIO: u64 = 29;
    const UNBLOCK: u64 = 1;
    child::default_action(SIGIO);
    let mask = 1u64 << (SIGIO - 1);
    let at = (&raw const mask) as u64;
    // SAFETY: the first call reads a live mask of eight bytes; the others take integers and change only the state of the pipe.
    unsafe {
        syscall(RT_SIGPROCMASK, UNBLOCK, at, 0, 8, 0, 0);
        syscall(FCNTL, write, SET_OWNER, process_id().into(), 0, 0, 0);
        syscall(FCNTL, write, SET_FLAGS, NONBLOCK_ASYNC, 0, 0, 0);
    }
}

/// `struct sock_filter` (`linux/filter.h`): `code`, `jt`, `jf` and `k`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Instruction {
    code: u16,
    if_true: u8,
    if_false: u8,
    value: u32,
}

/// `struct sock_fprog` (`linux/filter.h`): the number of instructions, and their address.
#[repr(C)]
struct Program {
    length: u16,
    at: *const Instruction,
}

/// Limit of the filter's instructions, of which six do not belong to a system call.
const MOST: usize = 64;

/// Makes every system call but these fail with EPERM from now on (Documentation/userspace-api/seccomp_filter.rst). Returns whether the
/// kernel accepted the filter.
pub fn allow_only(numbers: &[u32]) -> bool {
    const NO_NEW_PRIVILEGES: u64 = 38;
    const SECCOMP: u64 = 22;
    const FILTER: u64 = 2;
    // `BPF_LD | BPF_W | BPF_ABS`, `BPF_JMP | BPF_JEQ | BPF_K`, `BPF_RET | BPF_K` (`linux/bpf_common.h`).
    const LOAD: u16 = 0x20;
    const EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    // `nr` and `arch` in `struct seccomp_data`, and AUDIT_ARCH_X86_64.
    const NUMBER: u32 = 0;
    const MACHINE: u32 = 4;
    const X86_64: u32 = 0xc000_003e;
    // SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO with EPERM, SECCOMP_RET_KILL_PROCESS.
    const ALLOW: u32 = 0x7fff_0000;
    const REFUSE: u32 = 0x0005_0001;
    const KILL: u32 = 0x8000_0000;
    let instruction = |code, if_true, if_false, value| Instruction {
        code,
        if_true,
        if_false,
        value,
    };
    let count = numbers.len();
    if count + 6 > MOST {
        return false;
    }
    let mut filter = [instruction(RETURN, 0, 0, KILL); MOST];
    filter[0] = instruction(LOAD, 0, 0, MACHINE);
    filter[1] = instruction(EQUAL, 1, 0, X86_64);
    // The instruction before ends the process if the architecture differs, because the numbers would mean other calls.
    filter[3] = instruction(LOAD, 0, 0, NUMBER);
    for (index, number) in numbers.iter().enumerate() {
        // Jumps to the last instruction, which allows the call.
        filter[4 + index] = instruction(EQUAL, (count - index) as u8, 0, *number);
    }
    filter[4 + count] = instruction(RETURN, 0, 0, REFUSE);
    filter[5 + count] = instruction(RETURN, 0, 0, ALLOW);
    let program = Program {
        length: (6 + count) as u16,
        at: filter.as_ptr(),
    };
    // SAFETY: the filter and its program are live; the kernel copies them, and changes only what this process may do.
    unsafe {
        syscall(PRCTL, NO_NEW_PRIVILEGES, 1, 0, 0, 0, 0) == 0
            && syscall(PRCTL, SECCOMP, FILTER, (&raw const program) as u64, 0, 0, 0) == 0
    }
}
