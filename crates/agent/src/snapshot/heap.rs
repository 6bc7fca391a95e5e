//! What the agent asks of each language for a heap snapshot: an interface that tells the VM's objects and references.
//! Used by `languages::python::snapshot`, `languages::ruby::snapshot`, `snapshot` and others.

use super::stream::Stream;
use wire::snapshot::Collector;

/// How the heap of one language's VM is told in the copy, which has the VM's lock and no other thread.
pub struct Heap {
    /// Whether what the walk needs of the VM is there. Called in the guest, with the VM's lock.
    pub is_known: fn() -> bool,
    /// Whether the program has switched the collector off. Called in the guest, with the VM's lock, at a safe point.
    pub collector: fn() -> Collector,
    /// What is noted for the command before the stream begins.
    pub note: fn(),
    /// Writes everything: roots, objects, references.
    pub write: fn(&mut Stream),
    /// Has the VM compact its heap and says how that went, as [`wire::snapshot::Opened::ToCompact`] asks; `None` = this VM cannot.
    pub compact: Option<fn(write: u64)>,
}
