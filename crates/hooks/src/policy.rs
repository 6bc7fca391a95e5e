//! How the functions of a guest may be hooked, by their names: `trampoline::hook_policy` asked about a [`Function`].
//! Used by `vforks`, `wanted` and others here, and by crate `report`.

use process::functions::Function;
use trampoline::hook_policy::{Treatment, treatment};

/// Whether only the call of this function can be told: it does not return, or its return cannot be seen.
pub fn is_told_at_entry_only(function: &Function) -> bool {
    if function.is_system_call() {
        return matches!(function.name.as_str(), "exit" | "exit_group");
    }
    matches!(treatment(&function.name), Treatment::EntryOnly(_))
}

/// Whether the function must find the stack as its caller left it, so that its hook jumps to it instead of calling it.
pub fn gets_no_frame(function: &Function) -> bool {
    matches!(
        treatment(&function.name),
        Treatment::EntryOnly(_) | Treatment::EntryAndProbe(_)
    )
}

/// Whether its returns are told by a probe behind its system call, because it gets no frame: `vfork`.
pub fn returns_at_probe(function: &Function) -> bool {
    matches!(treatment(&function.name), Treatment::EntryAndProbe(_))
}
