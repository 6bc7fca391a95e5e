//! Decides whether hooks may go on after a system call by which a thread gives up rights
//! ([`Says::Locks`](crate::Says::Locks)). Used by `tracing`.

use crate::notices::{Notice, whole};
use crate::tracing::Tracing;
use inject::seccomp;
use process::ptrace::Instruction;
use std::mem::offset_of;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use vm::Memory;
use wire::calls::Calls;
use wire::notices::{FREE, locked, notice};

/// How long a hook may take to copy memory, which may have to come from a disk.
const COPIES_END: Duration = Duration::from_millis(500);

/// `BPF_MAXINSNS` (include/uapi/linux/bpf_common.h).
const MOST: usize = 4096;

impl Tracing {
    /// Returns why hooks may not go on after the system call that the thread of a notice is about to make, with the seccomp
    /// `program` that it named; `None` = they may. If the thread changes the program in the meantime, it harms only itself.
    pub fn is_locked_out(&self, notice: &Notice, program: u64) -> Option<String> {
        let thread = notice.tid;
        match program {
            locked::COUNTER => {
                return Some(format!(
                    "its thread {thread} forbids itself the time stamp counter, which hooks read (prctl PR_SET_TSC, or seccomp's strict mode)"
                ));
            }
            locked::DISPATCH => {
                return Some(format!(
                    "its thread {thread} has a handler of its own for system calls, which would get those of hooks too (prctl PR_SET_SYSCALL_USER_DISPATCH)"
                ));
            }
            _ => {}
        }
        if notice.pid != self.pid() {
            return Some("a child that uses its memory (vfork) sets a seccomp filter".into());
        }
        let Some(program) = filter(&*self.target.memory, program) else {
            return Some(format!(
                "its thread {thread} sets a seccomp filter that cannot be read"
            ));
        };
        let calls = [&seccomp::OF_HOOKS[..], &seccomp::OF_POOL[..]].concat();
        let Some(forbidden) = seccomp::forbids(&program, &calls) else {
            return self.does_without_copies(&program);
        };
        Some(format!(
            "its thread {thread} sets a seccomp filter that does not allow {forbidden}, which hooks call"
        ))
    }

    /// Has hooks copy nothing from now on if the filter does not allow it, and waits until no thread is at it: a filter that is set for all
    /// threads would end it there. Returns why hooks may not go on if that cannot be had.
    fn does_without_copies(&self, program: &[Instruction]) -> Option<String> {
        let forbidden = seccomp::forbids(program, &seccomp::OF_COPIES)?;
        let target = &self.target;
        let no_more = || -> process::error::Result<bool> {
            target.set_calls_field(offset_of!(Calls, copies), 0)?;
            let began = Instant::now();
            while target
                .memory
                .word(target.calls_field(offset_of!(Calls, copying)))?
                != 0
            {
                if began.elapsed() > COPIES_END {
                    return Ok(false);
                }
                std::thread::sleep(Duration::from_micros(100));
            }
            Ok(true)
        };
        match no_more() {
            Ok(true) => None,
            Ok(false) => Some(format!(
                "one of its threads sets a seccomp filter that does not allow {forbidden}, which hooks are calling"
            )),
            Err(error) => Some(error.to_string()),
        }
    }

    /// Lets threads go on that wait before such a call, now that no hook of ours is in their way.
    pub(crate) fn release_locking(&self) {
        let target = &self.target;
        // An error means that the process is gone.
        for (at, _, slot) in whole(&target.resident, &target.memory).unwrap_or_default() {
            if slot.kind.load(Ordering::Relaxed) == notice::LOCKS {
                let _ = target.memory.write(at, &FREE.to_le_bytes());
            }
        }
    }
}

/// Reads the program that a `struct sock_fprog` (include/uapi/linux/filter.h) points to: its length, and 8 bytes behind it
/// its address.
fn filter(memory: &dyn Memory, at: u64) -> Option<Vec<Instruction>> {
    let length = usize::from(memory.u16(at).ok()?).min(MOST);
    let address = memory.u64(at.checked_add(8)?).ok()?;
    let mut code = vec![0; length * size_of::<Instruction>()];
    memory.read(address, &mut code).ok()?;
    let instructions = code.chunks_exact(8).map(|bytes| Instruction {
        code: u16::from_le_bytes([bytes[0], bytes[1]]),
        yes: bytes[2],
        no: bytes[3],
        operand: u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
    });
    Some(instructions.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use vm::Fault;

    /// Memory that begins at 0x1000.
    struct Bytes(Vec<u8>);

    impl Memory for Bytes {
        fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Fault> {
            let from = at.checked_sub(0x1000).map(|at| at as usize);
            let bytes = from.and_then(|at| self.0.get(at..at.checked_add(into.len())?));
            into.copy_from_slice(bytes.ok_or(Fault { at })?);
            Ok(())
        }
    }

    #[test]
    fn a_program_is_read_as_the_kernel_reads_it() {
        let mut bytes = vec![0; 16];
        bytes[0] = 1;
        bytes[8..16].copy_from_slice(&0x1010_u64.to_le_bytes());
        bytes.extend([6, 0, 1, 2, 0, 0, 0xff, 0x7f]);
        let read = filter(&Bytes(bytes.clone()), 0x1000);
        let instruction = Instruction {
            code: 6,
            yes: 1,
            no: 2,
            operand: 0x7fff_0000,
        };
        assert_eq!(read, Some(vec![instruction]));
        // More than there is.
        bytes[0] = 2;
        assert_eq!(filter(&Bytes(bytes), 0x1000), None);
        assert_eq!(filter(&Bytes(Vec::new()), 0), None);
    }
}
