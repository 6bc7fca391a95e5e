//! The stacks of a process or of a core file, frame by frame. Used by `lancet::commands::stack::live`.

pub mod json;
pub mod text;

use frames::live::stack::Stack;

/// Returns how many bytes of a stack are in use: of a greenlet all it spans, wherever its bytes lie now.
fn used(stack: &Stack) -> u64 {
    if stack.lines.is_empty() {
        stack
            .thread
            .mapping
            .end
            .saturating_sub(stack.thread.mapping.start)
    } else {
        stack.used()
    }
}
