//! The types of `syscalls.conf` by their names. Used by `forms::files`, `forms::network`, `forms::process` and others.

use prototypes::bundle::Bundle;
use prototypes::types::Type;

/// The name of the kernel among libraries.
const SYSTEM: &str = "SYS";

/// Finds where each name stands in the file, if that was not done yet.
pub fn prepare() {
    Bundle::prepare(SYSTEM);
}

/// Returns a type of `syscalls.conf`.
pub fn ty(name: &str) -> Type {
    Bundle::ty(SYSTEM, name).expect("syscalls.conf defines it")
}
