//! Decides which stubs of system calls do the agent's work by themselves (`trampoline::Inline`), which part of it, and in which
//! session. Used by `built`, `planned` and `set`.
//!
//! A stub is made once for all sessions: with code that counts and, where the registers of its system call allow, with code that
//! records. The hook's record says for each session which of this code runs.

use crate::table::{HookTable, Known};
use crate::target::Target;
use crate::wanted::{Role, Wanted};
use trampoline::{Inline, Recorded};
use wire::ControlPage;
use wire::calls::record::Shape;
use wire::calls::special::is_special;
use wire::calls::{Hook, OF_BYTES, SYSTEM_CALLS, inline, want};

/// Returns [`Hook::inlined`] for the new stub of a place; 0 = it can do nothing by itself.
pub(crate) fn able(table: &HookTable, role: Role) -> u64 {
    match called(table, role) {
        Some(called) if crate::state::tells_pointer() => {
            let shape = Shape(called.hook.shape).plain_with_room();
            inline::CODE | shape.map_or(0, |shape| shape.0)
        }
        _ => 0,
    }
}

/// Returns the inline code for the stub of a place; `number` is that of its hook, and `inlined` what [`able`] has returned.
pub(crate) fn of(
    target: &Target,
    table: &HookTable,
    wanted: &Wanted,
    (number, inlined): (u64, u64),
) -> Option<Inline> {
    let Role::Place { instruction, .. } = wanted.role else {
        return None;
    };
    let called = called(table, wanted.role).filter(|_| inlined & inline::CODE != 0)?;
    // The number must fit into the key of a row and into a 32-bit operand.
    let short = |number: u64| {
        u32::try_from(number)
            .ok()
            .filter(|number| *number < 1 << 30)
    };
    let shape = Shape(inlined & !inline::CODE);
    let recorded = Recorded {
        number: short(called.hook.number)?,
        shape,
    };
    let header = &target.resident.header;
    let gate = header.control_page + std::mem::offset_of!(ControlPage, calls) as u64;
    Some(Inline {
        instruction,
        behind: wanted.want & want::SYSTEM_RETURN != 0,
        number: short(number)?,
        recorded: shape.is_plain().then_some(recorded),
        calls: header.calls,
        gate,
    })
}

/// Returns [`Hook::inline`] and [`Hook::called`] of a place, for this session.
pub(crate) fn words(table: &HookTable, role: Role, hook: &Hook, session: u32) -> [u64; 2] {
    let work = called(table, role).and_then(|called| Some((called, work(hook, &called.hook)?)));
    work.map_or([0; 2], |(called, work)| {
        [u64::from(session) | u64::from(work) << 32, called.at]
    })
}

/// Decides what the stub of a place does by itself, by what is wanted of the system call that is made there.
fn work(place: &Hook, called: &Hook) -> Option<u32> {
    if place.inlined & inline::CODE == 0 {
        return None;
    }
    const TOLD: u64 = want::ENTRY | want::RETURN;
    const BARE: u64 = want::COUNT | want::BARE;
    match called.want & !want::PLACE {
        want::COUNT if called.outcome & OF_BYTES == 0 => Some(inline::COUNT),
        BARE => Some(inline::COUNT_BARE),
        TOLD if called.shape == place.inlined & !inline::CODE => Some(inline::RECORD),
        _ => None,
    }
}

/// Returns the hook of the system call's number, if the place always makes that call and the agent is needed for no other
/// reason.
fn called(table: &HookTable, role: Role) -> Option<&Known> {
    match role {
        Role::Place { fixed, .. } if fixed < SYSTEM_CALLS && !is_special(fixed) => table.get(fixed),
        _ => None,
    }
}
