//! Taking hooks out of the code: ours when we leave, and those that a session has left that was killed. Used by
//! `patcher`, `parked` and others here, and by the crates `enter` and `lancet`.

use crate::areas::Areas;
use crate::bound::{Bound, Deadline, MAX_STOP};
use crate::layers::Layers;
use crate::parked::{self, Standing};
use crate::pool;
use crate::standstill::{Pages, Standstill, Threads, Writes};
use crate::table::{bytes_at, patches};
use crate::threads;
use crate::wanted::is_asked;
use inject::Timing;
use inject::agents::Agents;
use inject::image::Image;
use inject::remote_call::{Gadgets, RemoteThread};
use inject::resident::Resident;
use inject::residents::{Residents, Unused};
use process::error::{Error, Result};
use process::guest::{self, Status};
use process::memory::GuestMemory;
use process::stop::{Stop, Ties, thread_ids};
use routine::{Frame, room};
use std::mem::offset_of;
use wire::calls::Hook;
use wire::control_page::enter::REAP;
use wire::snapshot::{OLDER, Snapshot};
use wire::{ControlPage, State};

/// Lifts the hooks that earlier sessions have left in a process, for a command that puts no agent into it. A process without
/// an agent is only read. Of one that cannot be opened the command itself says why.
pub fn mend(pid: i32, image: &Image) -> Result<()> {
    let Ok((status, memory, maps)) = guest::reach(pid) else {
        return Ok(());
    };
    if Resident::all(&memory, &maps).next().is_none() {
        return Ok(());
    }
    let residents = match Residents::read(&memory, &maps, image) {
        // Only that version knows its hooks.
        Err(Error::Occupied { .. }) => return Ok(()),
        read => read?,
    };
    let gadgets = Gadgets::find(pid, &memory, &maps)?;
    lift_left(&status, &memory, gadgets, &residents)
}

/// Lifts the hooks that killed sessions have left in a process, whichever agent they used, and takes out the memory
/// that they shared for rings. The hook on the unwinder stays while frames of the agent may be on some stack.
pub fn lift_left(
    status: &Status,
    memory: &GuestMemory,
    gadgets: Gadgets,
    residents: &Residents,
) -> Result<()> {
    for unused in residents.unused() {
        reap(status, memory, gadgets, unused);
        lift(status, memory, gadgets, unused)?;
    }
    Ok(())
}

/// Has the process wait for the copies of it that have ended and whose command was killed: nobody else does, and until then the kernel
/// keeps them as zombies. What fails is tried again by the next attach.
fn reap(status: &Status, memory: &GuestMemory, gadgets: Gadgets, unused: &Unused) {
    let header = &unused.resident.header;
    let word = |offset: usize| memory.word(header.snapshot.wrapping_add(offset as u64));
    let older = offset_of!(Snapshot, older)..offset_of!(Snapshot, older) + OLDER * 8;
    let mut copies = std::iter::once(offset_of!(Snapshot, child)).chain(older.step_by(8));
    if !copies.any(|offset| word(offset).is_ok_and(|child| child != 0)) {
        return;
    }
    let standstill = Standstill {
        status,
        memory,
        gadgets,
        ties: Ties::None,
        threads: Threads::Main,
    };
    let _ = standstill.run(&mut Timing::default(), |_, remote| {
        if unused.is_unused_still(memory) {
            remote.call(header.enter, REAP)?;
        }
        Ok(())
    });
}

fn lift(status: &Status, memory: &GuestMemory, gadgets: Gadgets, unused: &Unused) -> Result<()> {
    let resident = &unused.resident;
    let areas = Areas::read(memory, resident.header.calls)?;
    let left = areas.hooks(memory)?;
    let left = left.into_iter().filter(|(_, hook)| hook.set != 0);
    let unwinder = |hook: &Hook| is_asked(resident, hook.routine);
    let (last, first): (Vec<_>, Vec<_>) = left.partition(|(_, hook)| unwinder(hook));
    // A session that ended regularly leaves at most the hook on the unwinder.
    let nothing = first.is_empty() && last.is_empty();
    if nothing && (unused.mine || !unused.deserted) {
        return Ok(());
    }
    let standstill = Standstill {
        status,
        memory,
        gadgets,
        ties: Ties::None,
        threads: Threads::All,
    };
    let stubs = areas.stubs();
    let agents = Agents::find(memory)?;
    let bound = Bound::of(MAX_STOP, thread_ids(status.pid)?.len());
    let lift = |hooks: &[(u64, Hook)]| -> Result<Option<Standing>> {
        let mut done = 0;
        loop {
            let mut over = false;
            let lifted = standstill.run(&mut Timing::default(), |stop, remote| {
                if !unused.is_unused_still(memory) {
                    return Ok(None);
                }
                resident.write_control_page(memory, offset_of!(ControlPage, calls), 0u32)?;
                let (before, deadline) = (done, bound.deadline(stop));
                let layers = Layers::with(memory, agents.read(memory)?);
                put_back_some(stop, remote, (&layers, deadline), hooks, &mut done)?;
                let mut silent = Writes::default();
                for (at, _) in &hooks[before..done] {
                    let want = at + offset_of!(Hook, want) as u64;
                    silent.add(want, 0u64.to_le_bytes().to_vec());
                }
                silent.write_by_page(memory)?;
                over = deadline.leaves_rest(stop, before..done, hooks.len());
                if over {
                    return Ok(None);
                }
                pool::close_left(memory, remote)?;
                pool::withdraw(memory, resident, remote)?;
                Standing::read(stop, remote, &layers, (resident, &stubs)).map(Some)
            })?;
            if !over {
                return Ok(lifted);
            }
            bound.pause();
        }
    };
    let Some(standing) = lift(&first)? else {
        return Ok(());
    };
    let agent = resident.base..resident.base + resident.header.size;
    let ours = [agent, pool::range(memory, resident)?];
    let again = || {
        standstill.run(&mut Timing::default(), |stop, remote| {
            let layers = Layers::with(memory, agents.read(memory)?);
            Standing::read(stop, remote, &layers, (resident, &stubs))
        })
    };
    if !last.is_empty()
        && parked::wait_for_frames(memory, resident, &ours, standing, again)?.is_none()
    {
        lift(&last)?;
    }
    // The next command of our build that takes this agent sets its own value.
    if unused.mine {
        return Ok(());
    }
    standstill.run(&mut Timing::default(), |_, _| {
        if unused.is_unused_still(memory) {
            let quiet = State::Quiet as u32;
            resident.write_control_page(memory, offset_of!(ControlPage, state), quiet)?;
        }
        Ok(())
    })
}

/// Puts back the bytes that were where hooks are, in a process that stands still, and notes in their records that they
/// are out. The reverse of [`crate::set`], in the reverse order: the entry first, then the jump in the padding that it
/// leads to.
///
/// Over a patch another command may have written its own, which jumps to our stub in its turn; that one stays, and what
/// it finds to put back when it leaves are not our bytes but what was there before us ([`Layers`]).
pub(crate) fn put_back(
    stop: &Stop,
    remote: &mut RemoteThread,
    layers: &Layers,
    hooks: &[(u64, Hook)],
) -> Result<()> {
    let memory = layers.memory();
    let padded = hooks.iter().map(|(_, hook)| hook);
    let padded = padded.filter(|hook| patches(hook).len() > 1);
    let pads: Vec<(u64, u64)> = padded.map(|hook| (hook.patches[0].at, hook.stub)).collect();
    threads::take_jumps(remote, &stop.threads().collect::<Vec<_>>(), &pads)?;
    let code = Pages::of(memory);
    let (mut entries, mut padding) = (Writes::default(), Writes::default());
    let (mut out, mut notes) = (Vec::new(), Writes::default());
    for (at, hook) in hooks {
        let list = patches(hook);
        for (index, patch) in list.iter().enumerate() {
            let length = (patch.length as usize).min(patch.is.len());
            // The bytes differ if the library was unloaded or another program has changed the code since.
            if bytes_at(&code, patch).as_deref() != Some(&patch.is[..length]) {
                continue;
            }
            let was = layers.without_lifted(patch.at, &patch.was[..length]);
            let is_last = index + 1 == list.len();
            let writes = if is_last { &mut entries } else { &mut padding };
            writes.add(patch.at, was);
            if patch.at == hook.place {
                out.push(hook);
            }
        }
        let set = at + offset_of!(Hook, set) as u64;
        notes.add(set, 0u64.to_le_bytes().to_vec());
    }
    entries.write_by_page(memory)?;
    padding.write_by_page(memory)?;
    for hook in out {
        count_us(memory, hook, -1);
    }
    notes.write_by_page(memory)
}

/// Hooks that are put back between two looks at how long the stop is.
const AT_ONCE: usize = 256;

/// Puts back hooks from the one with the number `done` on, which then is the number of the next one, until the stop is near its bound.
/// Some are put back in any case.
pub(crate) fn put_back_some(
    stop: &Stop,
    remote: &mut RemoteThread,
    (layers, deadline): (&Layers, Deadline),
    hooks: &[(u64, Hook)],
    done: &mut usize,
) -> Result<()> {
    for some in hooks[*done..].chunks(AT_ONCE) {
        put_back(stop, remote, layers, some)?;
        *done += some.len();
        if deadline.is_over(stop) {
            break;
        }
    }
    Ok(())
}

/// Returns the stack pointer of each thread on its own stack, of the one that it has. For a thread that runs on a work stack of an agent, that
/// is where its hook was called.
pub(crate) fn stack_pointers(pointers: impl Iterator<Item = u64>, layers: &Layers) -> Vec<u64> {
    let own = |pointer: u64| {
        let mut agents = layers.agents();
        agents.find_map(|agent| {
            let works = agent.header.works;
            let head = works.wrapping_add(room::head_of(pointer.wrapping_sub(works))?);
            let frame = layers.memory().word(head).ok();
            frame.filter(|frame| *frame != 0)
        })
    };
    pointers
        .map(|pointer| own(pointer).map_or(pointer, below))
        .collect()
}

/// The lowest word of a hook's frame, by its frame pointer.
fn below(frame: u64) -> u64 {
    frame.saturating_sub(offset_of!(Frame, rbp) as u64)
}

/// Adds `by` to the counter of a static probe's users; the program runs the probe's code only while it is not 0.
pub(crate) fn count_us(memory: &GuestMemory, hook: &Hook, by: i16) {
    let mut users = [0; 2];
    // Its library may be unloaded, and the counter with it.
    if hook.semaphore != 0 && memory.read_bytes(hook.semaphore, &mut users).is_ok() {
        let users = u16::from_le_bytes(users).saturating_add_signed(by);
        let _ = memory.write(hook.semaphore, &users.to_le_bytes());
    }
}
