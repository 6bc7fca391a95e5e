//! The code that runs in the guest between a stub and the function it hooks.
//!
//! [`routines!`](crate::routines) puts it into the image that calls it: the agent, or a test. It is a macro, so that
//! `enter` and `leave` are called directly, without a table that could be found empty, and so that a build without an
//! agent holds none of it. The code is position-independent, uses no thread-local data and imports nothing. What lies
//! where: `frame.rs`, and the drawings in the files below.
//!
//! | file | what |
//! |---|---|
//! | `call_through` | functions: the guest's call goes through us |
//! | `rules` | its unwinding rules |
//! | `probe` | points in mid-function |
//! | `find_fde` | the answer to `_Unwind_Find_FDE` |
//! | `find_object` | the answers to `_dl_find_object` and `dl_iterate_phdr` |
//! | `ask` | whether the caller's stack has room for `enter`, `leave` and `probe` |
//! | `small` | their way over a work stack, where it has not |
//! | `blocks` | the short way of functions whose blocks are counted |
//! | `sets` | the sets of registers that are saved and restored |
//!
//! ```text
//!   caller ─call─► function: jmp stub ─► stub: r11 → descriptor ─► trampoline_call_through
//!                                                                   gate closed        ─► jmp original
//!                                                                   GUARDED, not met   ─► jmp original
//!                                                                   enter = 0          ─► jmp original
//!                                                                   call original  ◄── the return address of ours
//!                                                                   leave, unless the gate is closed by now
//!   caller ◄───────────────────────────────────────────────────────ret
//! ```
//!
//! # Which registers, and why these
//!
//! - The return address of the caller stays where it is, and `call` and `ret` stay paired: longjmp drops our frame, a
//!   fibre switch carries it along, a shadow stack agrees, an exception unwinds through it (`unwind.rs`).
//! - Every general register a call may change is kept on both ways, r11 too. The ABI would allow less. But with
//!   `-fno-semantic-interposition` (Debian's Python) and `-fipa-ra` (gcc -O2) a caller in the same file knows what its
//!   callee leaves alone and counts on it.
//! - Of the vector registers xmm0–15 are kept by the old SSE moves, which leave the upper parts of YMM and ZMM as
//!   they are (Intel SDM volume 1, 14.1.2). Nothing else can change them: `enter` and `leave` must be compiled for
//!   plain x86-64, which has SSE2 and no AVX. XSAVE would cost more than the rest of the routine together; see
//!   `examples/cost.rs`.
//! - The x87 stack (results of type long double), MXCSR, the direction flag and errno are not touched, as long as
//!   `enter` and `leave` do not compute with floating point.
//!
//! - [`quick`](crate::quick) is asked first, which uses no vector register: where its answer is enough, none is kept.
//!
//! # Guards
//!
//! Most of what a condition refuses, one integer argument decides ([`Guard`](crate::frame::Guard)): before any vector
//! register is kept, without `enter`, and without a frame (so the unwinding rules are those of the function's first
//! instruction).
//!
//! # Stack arguments
//!
//! How many a function has is not in its code, so [`Descriptor::copied`](crate::frame::Descriptor) bytes are copied.
//! Near the upper end of a stack (a fibre's first functions) these may not exist. Where the copy would leave the page
//! of the return address, rt_sigprocmask with a `how` that does not exist is asked: it answers EFAULT for memory that
//! is not there and EINVAL otherwise (kernel/signal.c, SYSCALL_DEFINE4(rt_sigprocmask): the copy comes before the
//! look at `how`).

mod ask;
mod blocks;
mod call_through;
mod find_fde;
mod find_object;
mod probe;
mod rules;
mod sets;
mod small;

/// Defines the routines, `trampoline_call_through` and those after it, in the calling image, once.
///
/// ```text
/// routine::routines! {
///     // unsafe extern "C" fn(*mut Frame, *mut Vectors, *const Room) -> u64: 0 = not wanted, no leave
///     enter = enter,
///     // unsafe extern "C" fn(*mut Frame, *mut Results, *const Vectors)
///     leave = leave,
///     // unsafe extern "C" fn(*mut Frame, *const Room) -> u64, and (*mut Frame, *const Results) -> u64: see `quick`
///     quick_enter = quick_enter,
///     quick_leave = quick_leave,
///     // unsafe extern "C" fn(*mut ProbeFrame), and (*const ProbeFrame, *const Room) -> u64: see `quick`
///     probe = probe,
///     quick_probe = quick_probe,
///     gate = CONTROL_PAGE, offset = 8,   // a static with a u32 there: 0 = closed, every hook falls through
///     rooms = ROOMS,              // a static that begins with a `Rooms`
///     blocks = LAYOUT,            // where it has what is counted of blocks: a const of type `blocks::Layout`
/// }
/// ```
///
/// `enter`, `leave` and `probe` run anywhere in the guest, as a signal handler does: no lock, no allocation, no
/// floating point, no AVX, no unwinding, `errno` untouched. `enter` is given the record of the thread, if that was found.
#[macro_export]
macro_rules! routines {
    (enter = $enter:path, leave = $leave:path, quick_enter = $quick_enter:path, quick_leave = $quick_leave:path,
        probe = $probe:path, quick_probe = $quick_probe:path, gate = $gate:path, offset = $offset:expr,
        rooms = $rooms:path, blocks = $blocks:path $(,)?) => {
        $crate::__call_through!(
            $enter,
            $leave,
            $quick_enter,
            $quick_leave,
            $gate,
            $offset,
            $rooms,
            $blocks
        );
        $crate::__probe!($probe, $quick_probe, $gate, $offset, $rooms);
        $crate::__works!();
        $crate::__find_fde!();
        $crate::__find_object!();

        unsafe extern "C" {
            /// The routine of call-through and entry-only hooks: stubs jump here, nobody calls it.
            pub fn trampoline_call_through();
            /// The routine of probes in mid-function.
            pub fn trampoline_probe();
            /// Takes the place of `_Unwind_Find_FDE`: stubs jump here.
            pub fn trampoline_find_fde();
            /// Takes the place of `_dl_find_object`.
            pub fn trampoline_find_object();
            /// Takes the place of `dl_iterate_phdr`.
            pub fn trampoline_iterate_objects();
            /// The unwinding rules of `trampoline_call_through`, in the form of `.eh_frame`.
            pub static trampoline_fde: [u8; 4];
        }
    };
}
