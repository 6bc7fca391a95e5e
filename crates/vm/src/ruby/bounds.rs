//! Which part of a machine stack the collector scans: `machine` in `rb_execution_context_t` (`vm_core.h`).
//!
//! ```text
//!   a thread's stack:   │ … ◀ frames │ thread_start_func_2's frame │ VM stack, by alloca │ … │ pthread │
//!                       ▲ rsp, or stack_end                        ▲ stack_start               mapping ▲
//! ```
//!
//! The collector goes from `stack_end` (its own stack pointer for the thread that it runs on) to `stack_start`
//! (`rb_gc_mark_machine_stack`, `gc.c`). What lies beyond is the C library's and, since 2.7, the thread's VM stack of 1 MiB
//! (`thread_do_start_proc`), of which control frames tell what is in use; neither is scanned word by word.
//!
//! ```text
//!   machine: │ stack_start │ stack_end │ stack_maxsize │ regs …
//! ```
//!
//! No header tells where it lies, and each version has another field before it. It is looked for behind `thread_ptr`: the first
//! word that leads into the part of the stack that is in use, with `stack_end` between it and the stack's inner end, or 0 while
//! the thread runs, and a size of a stack behind that.

use core::ops::Range;

use super::Ruby;
use crate::Memory;

/// `machine` lies before this distance from `thread_ptr`.
const FURTHEST: u64 = 512;
/// Sizes of stacks: those of fibers are at least 16 KiB, and `ulimit -s unlimited` gives threads some 2 MiB.
const SIZES: Range<u64> = 1 << 14..1 << 40;

impl<M: Memory> Ruby<'_, M> {
    /// Returns `machine.stack_start` of an execution context that runs on the stack in `mapping`, of which the part from `sp` on
    /// is in use; `None` if nothing in the context describes that stack.
    pub fn stack_start(&self, ec: u64, mapping: &Range<u64>, sp: u64) -> Option<u64> {
        let first = ec.wrapping_add(self.layout.ec_thread + 8);
        start_of(
            |at| self.memory.u64(first.wrapping_add(at)).ok(),
            mapping,
            sp,
        )
    }
}

fn start_of(word: impl Fn(u64) -> Option<u64>, mapping: &Range<u64>, sp: u64) -> Option<u64> {
    if !mapping.contains(&sp) {
        return None;
    }
    (0..FURTHEST).step_by(8).find_map(|at| {
        let start = word(at)?;
        let is_start = start.is_multiple_of(8) && sp < start && start <= mapping.end;
        if !is_start {
            return None;
        }
        let end = word(at + 8)?;
        let is_end = end == 0 || (mapping.start..start).contains(&end);
        let is_size = SIZES.contains(&word(at + 16)?);
        (is_end && is_size).then_some(start)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_three_words_that_describe_the_stack() {
        let mapping = 0x10_0000..0x30_0000;
        let sp = 0x1f_0000;
        let of = |words: &[u64]| {
            let word = |at: u64| words.get(at as usize / 8).copied().or(Some(0));
            start_of(word, &mapping, sp)
        };
        let size = 1 << 20;
        // A pointer to a frame is no start: what follows is no end.
        assert_eq!(
            of(&[7, 0x20_0000, 3, 0x1f_8000, 0x1e_fff0, size]),
            Some(0x1f_8000)
        );
        // A thread that runs has no end yet.
        assert_eq!(of(&[0x1f_8000, 0, size]), Some(0x1f_8000));
        // Below the stack pointer, of another stack, of no size.
        assert_eq!(of(&[0x1e_0000, 0, size]), None);
        assert_eq!(of(&[0x40_0000, 0, size]), None);
        assert_eq!(of(&[0x1f_8000, 0, 5]), None);
        assert_eq!(start_of(|_| Some(0x1f_8000), &mapping, 0x40_0000), None);
    }
}
