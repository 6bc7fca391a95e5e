//! Which places of system calls count by themselves (`trampoline::Counting`), and since when.

use crate::table::{HookTable, Known};
use crate::target::Target;
use crate::wanted::{Role, Wanted};
use trampoline::Counting;
use wire::ControlPage;
use wire::calls::{COUNTS_BARE, OF_BYTES, SYSTEM_CALLS, want};

/// Numbers of calls that make a child, end, run another program, or may forbid what hooks do, of which the agent must know
/// (`agent::calls::system_calls`): `clone` to `exit`, `prctl`, `exit_group`, `seccomp`, `execveat`, `clone3`.
fn is_special(number: u64) -> bool {
    matches!(number, 56..=60 | 157 | 231 | 317 | 322 | 435)
}

/// How the stub of a place would count, whose hook has this number, with times or without; `None` = it cannot.
pub(crate) fn of(target: &Target, wanted: &Wanted, number: u64, times: Times) -> Option<Counting> {
    let Role::Place { instruction, fixed } = wanted.role else {
        return None;
    };
    let number = u32::try_from(number)
        .ok()
        .filter(|number| *number < 1 << 30)?;
    if fixed >= SYSTEM_CALLS || is_special(fixed) || !crate::state::tells_pointer() {
        return None;
    }
    let header = &target.resident.header;
    let gate = header.control_page + std::mem::offset_of!(ControlPage, calls) as u64;
    Some(Counting {
        number,
        instruction,
        behind: wanted.want & want::SYSTEM_RETURN != 0,
        bare: times == Times::None,
        calls: header.calls,
        gate,
    })
}

/// Whether it is counted how long calls take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Times {
    Told,
    None,
}

/// What is counted of the calls of a place; `None` = more than their count is wanted.
pub(crate) fn wanted(table: &HookTable, role: Role) -> Option<Times> {
    let called = called(table, role)?;
    Some(match called.hook.want & want::BARE {
        0 => Times::Told,
        _ => Times::None,
    })
}

/// [`wire::calls::Hook::counts`] and [`wire::calls::Hook::called`] of a place, for this session.
pub(crate) fn words(table: &HookTable, role: Role, session: u32) -> [u64; 2] {
    let (Some(called), Some(times)) = (called(table, role), wanted(table, role)) else {
        return [0; 2];
    };
    let bare = match times {
        Times::Told => 0,
        Times::None => COUNTS_BARE,
    };
    [u64::from(session) | bare, called.at]
}

/// The hook of the number that is made at a place, if nothing is wanted of its calls but their count.
fn called(table: &HookTable, role: Role) -> Option<&Known> {
    let Role::Place { fixed, .. } = role else {
        return None;
    };
    let called = table.get(fixed).filter(|_| fixed < SYSTEM_CALLS)?;
    let hook = &called.hook;
    let asked = hook.want & !(want::PLACE | want::BARE);
    let times_only = hook.want & want::BARE != 0 || hook.outcome & OF_BYTES == 0;
    (asked == want::COUNT && times_only).then_some(called)
}
