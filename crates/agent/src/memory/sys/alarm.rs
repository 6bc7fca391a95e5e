//! A function that the kernel calls when the alarm of a process of ours comes. Used by `snapshot::pipe`.

use super::syscall;
use core::arch::naked_asm;

const RT_SIGACTION: u64 = 13;
const SIGALRM: u64 = 14;
/// `SA_RESTORER` and `SA_RESTART` (arch/x86/include/uapi/asm/signal.h): a system call that is interrupted is made again.
const FLAGS: u64 = 0x0400_0000 | 0x1000_0000;

/// Has the alarm call `handler`, which makes system calls and nothing else, because it may come at any instruction.
pub fn calls(handler: extern "C" fn(i32)) {
    // `struct sigaction` of the kernel: handler, flags, restorer, mask.
    let (handler, back) = (handler as *const () as u64, restore as *const () as u64);
    let action = [handler, FLAGS, back, 0];
    let at = (&raw const action) as u64;
    // SAFETY: `action` is live, and both functions are code of the agent's image, which stays mapped.
    unsafe { syscall(RT_SIGACTION, SIGALRM, at, 0, 8, 0, 0) };
}

/// Goes back to where the alarm has come: `rt_sigreturn`, with the frame that the kernel has put there.
#[unsafe(naked)]
extern "C" fn restore() {
    naked_asm!("mov eax, 15", "syscall")
}
