//! Reads the general registers of threads that stand still, of each thread once. Used by `interrupted`, `ptrace` and
//! others here, and by most crates above.
//!
//! Reading them takes more than a microsecond of the kernel, and in a process with thousands of threads all wait for that. What was read of a
//! thread, or written by `change_registers`, holds until it may have run or its registers were set otherwise. All requests that do either
//! are in this module's parent, which calls `forget`. A thread that is killed meanwhile runs no more code of its program.

use super::request::request;
use nix::errno::Errno;
use std::cell::RefCell;
use std::collections::HashMap;

/// General registers, as `PTRACE_GETREGSET(NT_PRSTATUS)` gives them.
pub type Registers = libc::user_regs_struct;

pub(super) const NT_PRSTATUS: usize = 1;

thread_local! {
    /// Registers by the thread's id. Only the thread of ours that traces a thread sets it going, so each of our threads has a table of its
    /// own.
    static KEPT: RefCell<HashMap<i32, Registers>> = RefCell::default();
}

/// Reads the general registers of a stopped thread.
pub fn registers(tid: i32) -> Result<Registers, Errno> {
    // SAFETY: the structure consists of integers, for which zero is valid.
    let mut registers: Registers = unsafe { std::mem::zeroed() };
    let mut vector = libc::iovec {
        iov_base: (&raw mut registers).cast(),
        iov_len: size_of::<Registers>(),
    };
    request(
        libc::PTRACE_GETREGSET,
        tid,
        NT_PRSTATUS,
        (&raw mut vector) as usize,
    )?;
    // A 32-bit thread fills less of it.
    if vector.iov_len != size_of::<Registers>() {
        return Err(Errno::ENOEXEC);
    }
    Ok(registers)
}

/// Returns the general registers of a stopped thread as [`registers`] does, which are not read again while it stands as it did.
///
/// # Errors
/// It does not stand still, or is a 32-bit one.
pub fn registers_kept(tid: i32) -> Result<Registers, Errno> {
    if let Some(kept) = KEPT.with_borrow(|all| all.get(&tid).copied()) {
        return Ok(kept);
    }
    let read = registers(tid)?;
    keep(tid, &read);
    Ok(read)
}

/// Keeps what reading the registers of a thread would give.
pub(super) fn keep(tid: i32, registers: &Registers) {
    KEPT.with_borrow_mut(|all| all.insert(tid, *registers));
}

/// Drops what is kept of a thread: it may run, or its registers are set.
pub(super) fn forget(tid: i32) {
    KEPT.with_borrow_mut(|all| {
        // A thread that is seen by ptrace is set going at each of its calls, and nothing is kept then.
        if !all.is_empty() {
            all.remove(&tid);
        }
    });
}
