//! What the copy of a Ruby tells of its heap. Used by `jobs`.
//!
//! | file | what |
//! |---|---|
//! | `walk` | roots, pages, objects, references |
//! | `compact` | in the place of that: what `GC.compact` would give back |

mod compact;
mod walk;

use super::births::agent::AGENT;
use super::vmcalls::Vm;
use crate::shared::SNAPSHOT;
use crate::snapshot::heap::Heap;
use core::sync::atomic::Ordering;
use wire::snapshot::Collector;

/// How the heap of a Ruby is told.
pub static HEAP: Heap = Heap {
    is_known,
    collector,
    note,
    write: walk::write,
    compact: Some(compact::run),
};

/// The VM's functions. The VM's lock is held, or nobody else runs in this process.
fn functions() -> Vm {
    // SAFETY: the VM's lock is held, or this is the copy, which has one thread: nobody else uses the agent.
    unsafe { (*(&raw const AGENT)).vm }
}

fn is_known() -> bool {
    let functions = functions().0;
    functions.rb_objspace_reachable_objects_from != 0
        && functions.rb_objspace_reachable_objects_from_root != 0
}

fn collector() -> Collector {
    // SAFETY: the VM's lock is held at a safe point where the heap is copied, as the function requires.
    match unsafe { functions().is_collector_off() } {
        true => Collector::Off,
        false => Collector::On,
    }
}

/// Notes where the shapes are, for the reader of the copy's memory.
fn note() {
    let vm = functions();
    if vm.0.rb_shape_get_shape_by_id == 0 {
        return;
    }
    // SAFETY: the VM's lock is held, and every VM has the first two shapes.
    let [first, second] = unsafe { [vm.shape(0), vm.shape(1)] };
    SNAPSHOT.shapes.store(first, Ordering::Relaxed);
    SNAPSHOT
        .shape_size
        .store(second.wrapping_sub(first), Ordering::Relaxed);
}
