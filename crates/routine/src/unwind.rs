//! How exceptions and backtraces pass through the routine. Used by the crates `hooks` and `calls`.
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
//! # Unwinders within a library
//!
//! A library that was linked with `-static-libgcc`, or with LLVM's libunwind, has an unwinder of its own, whose
//! functions have no names once it is stripped. They all ask the loader where rules are, so our code is shown as one
//! more object of the loader's, with an `.eh_frame_hdr` of one entry (`code/find_object.rs`):
//!
//! ```text
//!   int _dl_find_object(void *pc, struct dl_find_object *result)       glibc 2.35 and later; libgcc since 12
//!   int dl_iterate_phdr(int (*f)(struct dl_phdr_info *, size_t, void *), void *data)      all others
//! ```
//!
//! The first answers for a pc within the routine, and no one else calls it. The second calls `f` for our object after
//! all others; `f` is told the size of the structure's first four members, so that the counts of loaded and unloaded
//! objects in the rest, by which unwinders know when to forget what they have cached, are not asked of us. Programs
//! also list their libraries by it and would see ours, so it is hooked only where a module has an unwinder of its own.
//!
//! nongnu libunwind ends at our frame.

/// Functions that an unwinder asks where the rules of an address are, with the routine that answers in the place of each.
pub const ASKED: [&str; 3] = [FIND_FDE, "_dl_find_object", ITERATE];
/// The function that calls another for each loaded object.
pub const ITERATE: &str = "dl_iterate_phdr";
/// The function that libgcc's unwinder asks for the rules of an address.
pub const FIND_FDE: &str = "_Unwind_Find_FDE";
/// The library that exports `_Unwind_Find_FDE`.
pub const LIBRARY: &str = "libgcc_s.so.1";
