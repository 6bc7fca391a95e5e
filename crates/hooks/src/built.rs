//! Makes the stubs of new hooks before the stop in which they are written, because a thousand of them take longer than the process may be
//! stopped. A stub depends on its address, so room for it is found first. Where there is none, the main thread maps new memory by a remote
//! call while the other threads run. No code leads there yet; if lancet is killed, the next attach finds that memory in the list of areas,
//! unused. Used by `batches`.

use crate::areas::Areas;
use crate::change::Change;
use crate::inline;
use crate::needs::{described, own_flags};
use crate::patcher::Patcher;
use crate::set::{Built, MadeOf, Step};
use crate::table::Known;
use crate::target::Target;
use crate::wanted::{Reason, Wanted};
use inject::remote_call::RemoteThread;
use process::error::{Error, Result};
use process::maps::Maps;
use std::ops::Range;
use trampoline::Destination;
use wire::calls::{Hook, area};

/// The byte that fills the room between stubs: `int3`.
const PADDING: u8 = 0xcc;

/// Where the stub and the record of a new hook are to stand; why they cannot, if so.
type Room = std::result::Result<[u64; 2], Reason>;

impl Patcher {
    /// Makes the stubs of all new hooks. If the hooks are not written after all, [`Patcher::abandon`] gives their room back.
    pub(crate) fn build(&mut self, target: &Target, steps: &[Step]) -> Result<Vec<MadeOf>> {
        self.begin(steps);
        let rooms = match self.rooms_there(steps) {
            Some(rooms) => rooms,
            None => self.rooms_mapped(target, steps)?,
        };
        self.areas.are_placed();
        let steps = steps.iter().zip(rooms);
        Ok(steps
            .map(|(step, room)| match (step, room) {
                (Step::New(wanted, plan, was), Ok(room)) => {
                    self.build_one(target, (wanted, plan, *was), room)
                }
                (_, Ok(_)) => MadeOf::Nothing,
                (_, Err(reason)) => MadeOf::Refused(reason),
            })
            .collect())
    }

    /// Finds room for all new hooks; the main thread maps what is missing.
    fn rooms_mapped(&mut self, target: &Target, steps: &[Step]) -> Result<Vec<Room>> {
        self.areas.maps = Maps::of(target.pid())?;
        let rooms = target.main_stopped(|remote| {
            self.begin(steps);
            let rooms = self.rooms(remote, steps);
            if rooms.is_err() {
                let made = self.areas.take_back();
                self.areas.unmap(&made, remote, &target.memory);
            }
            rooms
        });
        self.areas.maps = Maps::default();
        rooms
    }

    /// Gives back the room of hooks that were built and are not written.
    pub(crate) fn abandon(&mut self, target: &Target) {
        let made = self.areas.take_back();
        if !made.is_empty() {
            // On an error the process is gone, or the mapped memory stays for the next attach.
            let _ = target.main_stopped(|remote| {
                self.areas.unmap(&made, remote, &target.memory);
                Ok(())
            });
        }
        let areas = &self.areas;
        self.programs.retain(|_, at| areas.is_given(*at));
    }

    fn begin(&mut self, steps: &[Step]) {
        let new = steps.iter().filter_map(|step| match step {
            Step::New(wanted, plan, _) => Some((plan.at(), self.stub_size(wanted, plan))),
            _ => None,
        });
        let new: Vec<(u64, u64)> = new.collect();
        self.areas.begin(new.into_iter(), steps.len());
    }

    /// Finds room for all new hooks; `None` if new memory must be mapped for one of them.
    fn rooms_there(&mut self, steps: &[Step]) -> Option<Vec<Room>> {
        let before = self.areas.clone();
        let rooms: Option<Vec<Room>> = steps
            .iter()
            .map(|step| {
                let room = self.room(step, |areas, holds, size, code| {
                    areas.room_there(holds, size, code.as_ref()).ok_or(())
                });
                room.ok().map(Ok)
            })
            .collect();
        if rooms.is_none() {
            self.areas = before;
        }
        rooms
    }

    fn rooms(&mut self, remote: &mut RemoteThread, steps: &[Step]) -> Result<Vec<Room>> {
        let room = |step| {
            let room = self.room(step, |areas, holds, size, code| {
                areas.room(remote, holds, size, code)
            });
            match room {
                // The others can be hooked all the same.
                Err(Error::NothingToBorrow { reason, .. }) => Ok(Err(reason.into())),
                room => Ok(Ok(room?)),
            }
        };
        steps.iter().map(room).collect()
    }

    /// Addresses for the stub and the record of a step's hook; zeros if the step makes no new hook. `take` gives out room of a kind
    /// (`area::STUBS`, `area::HOOKS`), with a size in bytes, within reach of the given code.
    fn room<E>(
        &mut self,
        step: &Step,
        mut take: impl FnMut(&mut Areas, u64, u64, Option<Range<u64>>) -> std::result::Result<u64, E>,
    ) -> std::result::Result<[u64; 2], E> {
        let Step::New(wanted, plan, _) = step else {
            return Ok([0; 2]);
        };
        let size = self.stub_size(wanted, plan);
        let stub = take(&mut self.areas, area::STUBS, size, Some(plan.code()))?;
        let record = take(&mut self.areas, area::HOOKS, RECORD, None)?;
        Ok([stub, record])
    }

    fn build_one(
        &mut self,
        target: &Target,
        (wanted, plan, was): (&Wanted, &Change, u64),
        [stub_at, at]: [u64; 2],
    ) -> MadeOf {
        let to = Destination {
            routine: target.resident.header.routines[wanted.routine],
            descriptor: at,
        };
        let number = self.table.new_number();
        let inlined = inline::able(&self.table, wanted.role);
        let inline = inline::of(target, &self.table, wanted, (number, inlined));
        let made = plan
            .stub(stub_at, to, inline)
            .and_then(|stub| Ok((stub, plan.patches(stub_at)?)));
        let (stub, list) = match made {
            Ok(made) => made,
            Err(refusal) => return MadeOf::Refused(refusal.into()),
        };
        let mut hook = Hook {
            original: stub.original,
            flags: own_flags(wanted.want) | wanted.entry_only_flag(),
            copied: plan.copied().max(described(wanted)),
            number,
            place: plan.at(),
            semaphore: wanted.probe.unwrap_or(0),
            want: wanted.want,
            stub: stub_at,
            routine: to.routine,
            moved: plan.stolen() as u32,
            patched: list.len() as u32,
            was,
            set: 1,
            inlined,
            ..Hook::default()
        };
        for (into, patch) in hook.patches.iter_mut().zip(&list) {
            (into.at, into.length) = (patch.at, patch.new.len() as u64);
            into.was[..patch.old.len()].copy_from_slice(&patch.old);
            into.is[..patch.new.len()].copy_from_slice(&patch.new);
        }
        let mut bytes = stub.bytes;
        bytes.resize(stub_size(plan, inlined) as usize, PADDING);
        let known = Known {
            at,
            hook,
            set: false,
            function: Some(wanted.function.clone()),
        };
        MadeOf::New(Box::new(Built {
            known,
            moves: stub.moves,
            bytes,
        }))
    }

    /// The room in bytes that is reserved for a stub.
    fn stub_size(&self, wanted: &Wanted, plan: &Change) -> u64 {
        stub_size(plan, inline::able(&self.table, wanted.role))
    }
}

/// The same for a stub with the inline code `inlined` ([`inline::able`]).
fn stub_size(plan: &Change, inlined: u64) -> u64 {
    (plan.most(inlined != 0) as u64).next_multiple_of(16)
}

/// Size of a hook's record in bytes.
const RECORD: u64 = size_of::<Hook>() as u64;
