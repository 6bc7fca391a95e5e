//! Checks in the stop whether a plan that was made while the process ran can still be carried out, and whether a stub
//! of an earlier attach does what a plan says. Used by `set`.

use crate::change::Change;
use crate::inline;
use crate::layers::Layers;
use crate::standstill::Pages;
use crate::table::{HookTable, Known, bytes_at, patches};
use crate::target::Target;
use crate::wanted::Wanted;
use trampoline::{Destination, Stub};
use vm::Memory;
use wire::calls::{self, Hook};

/// Whether the code that a hook changes and moves is still what it was when the hook was planned, and no other command
/// has changed or moved a part of it since. This is asked in the stop in which the hook is written. `own_hooks`: the agent of
/// the hook.
pub(crate) fn is_as_planned(code: &Pages, own: u64, layers: &Layers, hook: &Hook) -> bool {
    if hook.patched == 0 {
        return true;
    }
    let patched = patches(hook).iter().all(|patch| {
        let length = (patch.length as usize).min(patch.was.len());
        bytes_at(code, patch).as_deref() == Some(&patch.was[..length])
    });
    let mut moved = vec![0; hook.moved as usize];
    let moved = code
        .read(hook.place, &mut moved)
        .is_ok_and(|()| calls::fingerprint(&moved) == hook.was);
    let is_over = || layers.over(own, [hook.place; 2]).is_some();
    let is_free = || {
        patches(hook).iter().all(|patch| {
            let moved = if patch.at == hook.place {
                u64::from(hook.moved)
            } else {
                0
            };
            let range = patch.at..patch.at + moved.max(patch.length);
            layers.in_the_way(own, &range).is_none()
        })
    };
    patched && moved && (is_over() || is_free())
}

/// Returns the stub of an earlier attach's hook if it does what this plan says, by itself or by asking the agent.
pub(crate) fn fits(
    target: &Target,
    table: &HookTable,
    known: &Known,
    (wanted, plan): (&Wanted, &Change),
) -> Option<Stub> {
    let hook = &known.hook;
    let inline = inline::of(target, table, wanted, (hook.number, hook.inlined));
    let to = Destination {
        routine: target.resident.header.routines[wanted.routine],
        descriptor: known.at,
    };
    let stub = plan.stub(hook.stub, to, inline).ok()?;
    let mut bytes = vec![0; stub.bytes.len()];
    target.memory.read_bytes(stub.at, &mut bytes).ok()?;
    let changes = plan.patches(stub.at).ok()?;
    let same = patches(hook).len() == changes.len()
        && patches(hook).iter().zip(&changes).all(|(had, has)| {
            let length = had.length as usize;
            had.at == has.at && had.was.get(..length) == Some(&has.old[..])
        });
    (same && bytes == stub.bytes && hook.original == stub.original).then_some(stub)
}
