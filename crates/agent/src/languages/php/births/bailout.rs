//! Calls a function of the VM and catches an error that jumps out of it, as `zend_try` does (`zend.h`): `EG(bailout)` leads to a buffer of
//! ours meanwhile, from which the jump goes on when ours have done what is to be done. Used by `counting` and
//! `handlers`.

use crate::languages::functions::{at, function};
use crate::memory::follow::kept;
use core::arch::naked_asm;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU64, Ordering};
use vm::php::api::{BAIL_OUT, SET_JUMP};

/// Words of a `jmp_buf`, of which glibc's and musl's have 25.
const BUFFER: usize = 32;

/// A call, which an error may jump out of.
#[repr(C, align(16))]
struct Call {
    buffer: [u64; BUFFER],
    set_jump: u64,
    function: u64,
    arguments: [u64; 3],
    result: u64,
}

/// Address of `EG(bailout)`; 0 = not known.
static BAILOUT: AtomicU64 = AtomicU64::new(0);

/// Says where `EG(bailout)` is.
pub fn is_at(address: u64) {
    BAILOUT.store(address, Ordering::Relaxed);
}

/// What the VM jumps to at an error; `None` if that is not known.
fn bailout() -> Option<&'static AtomicU64> {
    let at = BAILOUT.load(Ordering::Relaxed);
    // SAFETY: the command has found the word among the VM's globals, which lie there as long as its code. The VM's one thread is here.
    (at != 0).then(|| unsafe { &*kept::<AtomicU64>(at) })
}

/// Calls the function, and returns 0; or 1 if it was jumped out of.
#[unsafe(naked)]
unsafe extern "C" fn attempt(call: &mut Call) -> u64 {
    naked_asm!(
        // Also aligns the stack to 16 bytes. `setjmp` keeps rbx.
        "push rbx",
        "mov rbx, rdi",
        "lea rdi, [rbx + {buffer}]",
        "call qword ptr [rbx + {set_jump}]",
        "test eax, eax",
        "jne 2f",
        "mov rdi, [rbx + {arguments}]",
        "mov rsi, [rbx + {arguments} + 8]",
        "mov rdx, [rbx + {arguments} + 16]",
        "call qword ptr [rbx + {function}]",
        "mov [rbx + {result}], rax",
        "xor eax, eax",
        "pop rbx",
        "ret",
        "2:",
        "mov eax, 1",
        "pop rbx",
        "ret",
        buffer = const offset_of!(Call, buffer),
        set_jump = const offset_of!(Call, set_jump),
        function = const offset_of!(Call, function),
        arguments = const offset_of!(Call, arguments),
        result = const offset_of!(Call, result),
    )
}

/// Calls a function of the VM, and `after` when it has returned or an error has jumped out of it, which then goes on.
///
/// # Safety
/// `function` is the address of one that takes these arguments and returns a word. The caller owns nothing that must be dropped, and no frame
/// of another function lies between it and the VM's.
pub unsafe fn caught(address: u64, arguments: [u64; 3], after: fn()) -> u64 {
    let Some(bailout) = bailout().filter(|word| word.load(Ordering::Relaxed) != 0) else {
        // Nobody catches: an error ends the process.
        // SAFETY: as the caller says.
        let result = unsafe {
            let [first, second, third] = arguments;
            at::<unsafe extern "C" fn(u64, u64, u64) -> u64>(address)(first, second, third)
        };
        after();
        return result;
    };
    let mut call = Call {
        buffer: [0; BUFFER],
        // SAFETY: the command has written the function's address; it is called by `attempt`.
        set_jump: unsafe { function(SET_JUMP) },
        function: address,
        arguments,
        result: 0,
    };
    let before = bailout.load(Ordering::Relaxed);
    bailout.store((&raw mut call.buffer) as u64, Ordering::Relaxed);
    // SAFETY: the buffer has room; it lives until the word leads elsewhere again. The frames that are jumped over are the VM's.
    let jumped = unsafe { attempt(&mut call) };
    bailout.store(before, Ordering::Relaxed);
    after();
    if jumped != 0 {
        // SAFETY: as the VM's own function was left: to the same place.
        unsafe {
            let bail_out: unsafe extern "C" fn(*const u8, u32) -> ! = function(BAIL_OUT);
            bail_out(c"".as_ptr().cast(), 0)
        }
    }
    call.result
}
