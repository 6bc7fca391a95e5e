//! Hooks that are to go: ours when we leave, and those of a session that was killed, whoever comes next.

use super::areas::Areas;
use super::asked::{FIND_FDE, Timing};
use super::standstill::stopped;
use super::{parked, patches, set, threads};
use crate::borrow::{Borrowed, Gadgets};
use crate::error::Result;
use crate::guest::Status;
use crate::memory::GuestMemory;
use crate::pool;
use crate::resident::Resident;
use crate::stop::{Stop, Ties};
use std::mem::offset_of;
use wire::Board;
use wire::calls::{Hook, Patched};

/// Lifts what a session that was killed has left in a guest, and takes its memory for lanes out. The hook on the unwinder stays where
/// it is needed.
pub(crate) fn lift(
    status: &Status,
    memory: &GuestMemory,
    gadgets: Gadgets,
    resident: &Resident,
) -> Result<()> {
    let left = Areas::read(memory, resident.header.calls)?.hooks(memory)?;
    let left = left.into_iter().filter(|(_, hook)| stands(memory, hook));
    let unwinder = |hook: &Hook| hook.routine == resident.header.routines[FIND_FDE];
    let (last, first): (Vec<_>, Vec<_>) = left.partition(|(_, hook)| unwinder(hook));
    if first.is_empty() && last.is_empty() {
        return Ok(());
    }
    resident.set_board(memory, offset_of!(Board, calls), 0u32)?;
    let lift = |hooks: &[(u64, Hook)]| {
        let hooks: Vec<Hook> = hooks.iter().map(|(_, hook)| *hook).collect();
        let mut timing = Timing::default();
        stopped(
            status,
            memory,
            gadgets,
            Ties::None,
            &mut timing,
            |stop, borrowed| {
                resident.check_free(memory)?;
                put_back(stop, borrowed, memory, &hooks)?;
                pool::close_left(memory, borrowed)?;
                pool::withdraw(memory, resident, borrowed)?;
                Ok(stacks(stop, borrowed))
            },
        )
    };
    let stacks = lift(&first)?;
    for (at, _) in &first {
        memory.write(at + offset_of!(Hook, want) as u64, &0u64.to_le_bytes())?;
    }
    let agent = resident.base..resident.base + resident.header.size;
    let ours = [agent, pool::range(memory, resident)?];
    if !last.is_empty() && !parked::may_be(memory, resident, &ours, &stacks) {
        lift(&last)?;
    }
    Ok(())
}

/// Whether a hook stands in the guest's code.
pub(super) fn stands(memory: &GuestMemory, hook: &Hook) -> bool {
    patches(hook)
        .iter()
        .any(|patch| now(memory, patch).is_some_and(|now| now[..] == patch.is[..now.len()]))
}

/// What stands where a patch is or will be.
pub(super) fn now(memory: &GuestMemory, patch: &Patched) -> Option<Vec<u8>> {
    let mut now = vec![0; (patch.length as usize).min(patch.is.len())];
    memory.read_bytes(patch.at, &mut now).ok()?;
    Some(now)
}

/// Puts back what stood where hooks are, in a guest that stands still.
pub(super) fn put_back(
    stop: &Stop,
    borrowed: &mut Borrowed,
    memory: &GuestMemory,
    hooks: &[Hook],
) -> Result<()> {
    let padded = hooks.iter().filter(|hook| patches(hook).len() > 1);
    let pads: Vec<(u64, u64)> = padded.map(|hook| (hook.patches[0].at, hook.stub)).collect();
    threads::take_jumps(borrowed, &stop.threads().collect::<Vec<_>>(), &pads)?;
    for hook in hooks {
        for patch in patches(hook).iter().rev() {
            let length = (patch.length as usize).min(patch.is.len());
            let mut now = [0; 8];
            // A library that was unloaded has taken its hooks with it.
            if memory.read_bytes(patch.at, &mut now[..length]).is_ok()
                && now[..length] == patch.is[..length]
            {
                memory.write(patch.at, &patch.was[..length])?;
                if patch.at == hook.place {
                    set::raise(memory, hook, -1);
                }
            }
        }
    }
    Ok(())
}

/// Where each thread's stack ends, of those that stand still.
pub(super) fn stacks(stop: &Stop, borrowed: &Borrowed) -> Vec<u64> {
    let mine = borrowed.registers().rsp;
    let others = stop.threads().filter(|tid| *tid != borrowed.pid());
    let others = others.filter_map(|tid| Some(crate::ptrace::registers(tid).ok()?.rsp));
    others.chain([mine]).collect()
}
