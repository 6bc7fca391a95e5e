//! How exceptions and backtraces pass through the routine.
//!
//! An unwinder meets one address of ours: behind the `call` in `trampoline_call_through`. The loader does not know
//! the agent's image, so libgcc's unwinder, which finds rules through `_dl_find_object` (glibc 2.35 and later) or
//! `dl_iterate_phdr`, would stop there: glibc's `backtrace` would end, an exception would end the program. So
//! libgcc_s's exported `_Unwind_Find_FDE` is hooked like any other function, with `trampoline_find_fde` as its
//! routine and [`flags`](crate::frame::flags) 0:
//!
//! ```text
//!   const fde *_Unwind_Find_FDE(void *pc, struct dwarf_eh_bases *bases)       libgcc/unwind-dw2-fde.h
//!   struct dwarf_eh_bases { void *tbase; void *dbase; void *func; };
//! ```
//!
//! For a pc within the routine it fills `bases` (no text or data base, the routine's begin) and returns the routine's
//! rules, `trampoline_fde`; for any other it is the function itself, by tail jump. It does not look at the gate:
//! frames may be live while recording is off.
//!
//! The rules stand in `code/rules.rs`, beside the routine, which says why they are no `.cfi` directives.
//!
//! A program that has libgcc's unwinder linked into it (`-static-libgcc`) has its `_Unwind_Find_FDE` as a local
//! symbol: if it was not stripped it can be hooked in the same way. LLVM's libunwind and nongnu libunwind ask the
//! loader themselves and end at our frame.

/// The function to hook.
pub const FIND_FDE: &str = "_Unwind_Find_FDE";
/// The library that exports it.
pub const LIBRARY: &str = "libgcc_s.so.1";
