//! Taking hooks out of the code: ours when we leave, and those that a session has left that was killed.

use crate::areas::Areas;
use crate::parked;
use crate::pool;
use crate::standstill::Standstill;
use crate::table::{is_left_in_code, patches, write_want};
use crate::threads;
use crate::wanted::{Timing, is_asked};
use inject::Image;
use inject::remote_call::{Gadgets, RemoteThread};
use inject::resident::Resident;
use process::error::{Error, Result};
use process::guest::Status;
use process::maps::Maps;
use process::memory::GuestMemory;
use process::stop::{Stop, Ties};
use routine::{Frame, room};
use std::mem::offset_of;
use wire::calls::Hook;
use wire::{ControlPage, State};

/// Lifts the hooks that a session that was killed has left in a process, and takes out the memory that it shared for
/// rings. The hook on the unwinder stays where frames of ours are still on some stack.
pub fn lift(
    status: &Status,
    memory: &GuestMemory,
    gadgets: Gadgets,
    resident: &Resident,
) -> Result<()> {
    let left = Areas::read(memory, resident.header.calls)?.hooks(memory)?;
    let left = left
        .into_iter()
        .filter(|(_, hook)| is_left_in_code(memory, hook));
    let unwinder = |hook: &Hook| is_asked(resident, hook.routine);
    let (last, first): (Vec<_>, Vec<_>) = left.partition(|(_, hook)| unwinder(hook));
    if first.is_empty() && last.is_empty() {
        return Ok(());
    }
    resident.write_control_page(memory, offset_of!(ControlPage, calls), 0u32)?;
    let standstill = Standstill {
        status,
        memory,
        gadgets,
        ties: Ties::None,
    };
    let lift = |hooks: &[(u64, Hook)]| {
        let silent: Vec<u64> = hooks.iter().map(|(at, _)| *at).collect();
        let hooks: Vec<Hook> = hooks.iter().map(|(_, hook)| *hook).collect();
        standstill.run(&mut Timing::default(), |stop, remote| {
            resident.check_free(memory)?;
            put_back(stop, remote, memory, &hooks)?;
            silent
                .iter()
                .try_for_each(|at| write_want(memory, *at, 0))?;
            pool::close_left(memory, remote)?;
            pool::withdraw(memory, resident, remote)?;
            Ok(stack_pointers(stop, remote, memory, resident))
        })
    };
    let stacks = lift(&first)?;
    let agent = resident.base..resident.base + resident.header.size;
    let ours = [agent, pool::range(memory, resident)?];
    if !last.is_empty() && !parked::may_be(memory, resident, &ours, &stacks) {
        lift(&last)?;
    }
    Ok(())
}

/// The same for agents of other builds of lancet, whose layouts are ours.
///
/// # Errors
/// [`Error::Occupied`], if one of them is in use, or one of another version was: its hooks are laid out as only that version
/// knows.
pub fn lift_others(
    status: &Status,
    memory: &GuestMemory,
    gadgets: Gadgets,
    maps: &Maps,
    image: &Image,
) -> Result<()> {
    for resident in Resident::others(memory, maps, image) {
        if resident.state(memory)? == State::Quiet {
            continue;
        }
        let version = resident.header.version;
        if version != wire::VERSION {
            return Err(Error::Occupied {
                pid: status.pid,
                owner: format!(
                    " of another version (layout {version}; if that was killed, open and leave the process with it once)"
                ),
            });
        }
        resident.check_free(memory)?;
        lift(status, memory, gadgets, &resident)?;
        let quiet = State::Quiet as u32;
        resident.write_control_page(memory, offset_of!(ControlPage, state), quiet)?;
    }
    Ok(())
}

/// Puts back the bytes that were where hooks are, in a process that stands still. The reverse of [`crate::set`], in the
/// reverse order: the entry first, then the jump in the padding that it leads to.
pub(crate) fn put_back(
    stop: &Stop,
    remote: &mut RemoteThread,
    memory: &GuestMemory,
    hooks: &[Hook],
) -> Result<()> {
    let padded = hooks.iter().filter(|hook| patches(hook).len() > 1);
    let pads: Vec<(u64, u64)> = padded.map(|hook| (hook.patches[0].at, hook.stub)).collect();
    threads::take_jumps(remote, &stop.threads().collect::<Vec<_>>(), &pads)?;
    for hook in hooks {
        for patch in patches(hook).iter().rev() {
            let length = (patch.length as usize).min(patch.is.len());
            let mut now = [0; 8];
            // Not where its library was unloaded, or somebody else has changed the code since.
            if memory.read_bytes(patch.at, &mut now[..length]).is_ok()
                && now[..length] == patch.is[..length]
            {
                memory.write(patch.at, &patch.was[..length])?;
                if patch.at == hook.place {
                    count_us(memory, hook, -1);
                }
            }
        }
    }
    Ok(())
}

/// The stack pointer of each thread, on the stack that is the thread's own: that of one that runs on a work stack of the
/// agent's is where its hook was called.
pub(crate) fn stack_pointers(
    stop: &Stop,
    remote: &RemoteThread,
    memory: &GuestMemory,
    resident: &Resident,
) -> Vec<u64> {
    let mine = remote.registers().rsp;
    let others = stop.threads().filter(|tid| *tid != remote.pid());
    let others = others.filter_map(|tid| Some(process::ptrace::registers(tid).ok()?.rsp));
    let works = resident.header.works;
    let own = |pointer: u64| {
        let head = works + room::head_of(pointer.wrapping_sub(works))?;
        memory.word(head).ok().filter(|frame| *frame != 0)
    };
    let pointers = others.chain([mine]);
    pointers
        .map(|pointer| own(pointer).map_or(pointer, below))
        .collect()
}

/// The lowest word of a hook's frame, by its frame pointer.
fn below(frame: u64) -> u64 {
    frame.saturating_sub(offset_of!(Frame, rbp) as u64)
}

/// Adds `by` to the counter of a static probe's users, by which the program knows that somebody listens.
pub(crate) fn count_us(memory: &GuestMemory, hook: &Hook, by: i16) {
    let mut users = [0; 2];
    // Its library may be unloaded, and the counter with it.
    if hook.semaphore != 0 && memory.read_bytes(hook.semaphore, &mut users).is_ok() {
        let users = u16::from_le_bytes(users).saturating_add_signed(by);
        let _ = memory.write(hook.semaphore, &users.to_le_bytes());
    }
}
