//! Whether what was planned while the process ran can still be done when it stands still, and whether a stub of an
//! earlier attach does what a plan says.

use crate::change::Change;
use crate::counting::{self, Times};
use crate::layers::Layers;
use crate::table::{Known, bytes_at, patches};
use crate::target::Target;
use crate::wanted::Wanted;
use trampoline::{Counting, Destination, Stub};
use wire::calls::{self, Hook};

/// Whether the code that a hook changes and moves is still what it was when that was planned, and no other command has
/// come to change or move a part of it; asked in the stop in which the hook is written.
pub(crate) fn is_as_planned(target: &Target, layers: &Layers, hook: &Hook) -> bool {
    let (memory, own) = (&*target.memory, target.resident.base);
    if hook.patched == 0 {
        return true;
    }
    let patched = patches(hook).iter().all(|patch| {
        let length = (patch.length as usize).min(patch.was.len());
        bytes_at(memory, patch).as_deref() == Some(&patch.was[..length])
    });
    let mut moved = vec![0; hook.moved as usize];
    let moved = memory
        .read_bytes(hook.place, &mut moved)
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

/// The stub of a hook of an earlier attach, if it does what this plan says. `counts`: it must count by itself so. Where it need not,
/// one that does serves as well; so a place has at most three stubs, however often it is hooked.
pub(crate) fn fits(
    target: &Target,
    (known, counts): (&Known, Option<Times>),
    wanted: &Wanted,
    plan: &Change,
) -> Option<Stub> {
    let stub = |times: Option<Times>| {
        let number = known.hook.number;
        let counting = times.and_then(|times| counting::of(target, wanted, number, times));
        stub_of(target, known, plan, (wanted, counting))
    };
    let ways = [Some(Times::None), Some(Times::Told), None];
    match counts {
        Some(_) => stub(counts),
        None => ways.into_iter().find_map(stub),
    }
}

fn stub_of(
    target: &Target,
    known: &Known,
    plan: &Change,
    (wanted, counting): (&Wanted, Option<Counting>),
) -> Option<Stub> {
    let to = Destination {
        routine: target.resident.header.routines[wanted.routine],
        descriptor: known.at,
    };
    let stub = plan.stub(known.hook.stub, to, counting).ok()?;
    let mut bytes = vec![0; stub.bytes.len()];
    target.memory.read_bytes(stub.at, &mut bytes).ok()?;
    let changes = plan.patches(stub.at).ok()?;
    let same = patches(&known.hook).len() == changes.len()
        && patches(&known.hook).iter().zip(&changes).all(|(had, has)| {
            let length = had.length as usize;
            had.at == has.at && had.was.get(..length) == Some(&has.old[..])
        });
    (same && bytes == stub.bytes && known.hook.original == stub.original).then_some(stub)
}
