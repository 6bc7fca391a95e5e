//! What lies on a native stack and tells which of the VM's threads runs there. Used by `frames`.

use std::collections::BTreeSet;
use std::ops::Range;

use process::snapshot::{Copies, Thread};
use vm::Memory;
use vm::ruby::Ruby;

/// Bytes at the outer end of a stack in which the thread's own record is searched for: `thread_start_func_2` keeps it
/// there, and so does the first function of a fiber.
const SEARCHED: u64 = 16 << 10;
/// Number of bytes at the inner end in which the context is searched for.
const INNER: u64 = 64 << 10;

/// Whether the functions on a stack have this context of a thread that was found there before: a kernel thread may run another thread of
/// the VM by now, and the context of one that has ended has no frames.
pub(super) fn is_on<M: Memory>(
    ruby: &Ruby<'_, M>,
    context: u64,
    thread: &Thread,
    copied: &Copies,
) -> bool {
    ruby.current_cfp(context).is_ok_and(|cfp| cfp != 0)
        && inner_words(thread, copied).contains(&context)
}

/// Returns the parts of a stack that are searched: the outer end and the inner one.
pub(super) fn searched(thread: &Thread) -> [Range<u64>; 2] {
    let (from, end) = (thread.context.sp & !7, thread.mapping.end);
    [
        end.saturating_sub(SEARCHED).max(from)..end,
        from..end.min(from + INNER),
    ]
}

/// Returns the different words at the outer end of a stack that could be pointers.
pub(super) fn outer_words(thread: &Thread, copied: &Copies) -> BTreeSet<u64> {
    let [outer, _] = searched(thread);
    words(copied, outer)
        .into_iter()
        .filter(|word| word % 8 == 0 && (0x1000..0x8000_0000_0000).contains(word))
        .collect()
}

/// Returns the words at the inner end of a stack.
pub(super) fn inner_words(thread: &Thread, copied: &Copies) -> Vec<u64> {
    let [_, inner] = searched(thread);
    words(copied, inner)
}

/// Returns the words in a copied range that were ever touched; none if it was not copied.
fn words(copied: &Copies, range: Range<u64>) -> Vec<u64> {
    let parts = copied.parts(range).unwrap_or_default();
    let words = parts.iter().flat_map(|(_, part)| part.as_chunks::<8>().0);
    words.map(|word| u64::from_le_bytes(*word)).collect()
}
