//! Setting hooks: planned while the guest runs, written while it stands still.

use super::change::Change;
use super::standstill::Writes;
use super::text::Texts;
use super::threads::{self, Changed};
use super::{Known, Refused, Role, Tracing, Wanted, patches};
use crate::borrow::Borrowed;
use crate::error::Result;
use crate::memory::{GuestMemory, Record};
use crate::stop::Stop;
use routine::frame::{MOST_COPIED, flags};
use std::mem::offset_of;
use trampoline::exempt::{Treatment, treatment};
use trampoline::{Destination, Stub};
use wire::calls::{self, Hook, area, want};

/// `int3`, between stubs.
const PADDING: u8 = 0xcc;
/// Why a function is not hooked now.
pub(super) const IN_THE_WAY: &str = "a thread is about to go on in its first instructions";
/// Bytes of an `endbr64`, behind which a hook begins.
pub(super) const LANDING: u64 = 4;

/// A hook about to be set.
pub(super) enum Step {
    /// It is hooked, or was and its hook fits what stands there now: by its place, and where the instructions that the hook
    /// moves are in its stub.
    Again(u64, Wanted, Vec<(u64, u64)>),
    /// No code leads to it.
    Bare(Wanted),
    /// With what stands there now.
    New(Wanted, Box<Change>, u64),
}

/// A hook whose record and stub are written, or will be.
pub(super) struct Prepared {
    known: Known,
    moves: Vec<(u64, u64)>,
}

impl Tracing {
    /// What is to be done for one function; looked at while the guest runs.
    pub(super) fn step(
        &self,
        wanted: &Wanted,
        texts: &mut Texts,
    ) -> std::result::Result<Step, String> {
        let function = &wanted.function;
        if wanted.role == Role::SystemCall {
            return Ok(self.step_of_number(wanted));
        }
        match treatment(&function.name) {
            // The agent's own.
            _ if wanted.routine != super::CALL_THROUGH => {}
            Treatment::Never(reason) => return Err(reason.into()),
            Treatment::EntryOnly(_) | Treatment::EntryAndProbe(_) | Treatment::CallThrough => {}
        }
        for place in [function.address, function.address + LANDING] {
            if self
                .hooks
                .get(&place)
                .is_some_and(|known| known.set && self.stands(known))
            {
                return Ok(Step::Again(place, wanted.clone(), Vec::new()));
            }
        }
        let plan = texts.plan(&self.functions, &self.memory, &self.hooks, wanted)?;
        if let Some(known) = self.hooks.get(&plan.at())
            && let Some(stub) = self.fits(known, wanted, &plan)
        {
            return Ok(Step::Again(plan.at(), wanted.clone(), stub.moves));
        }
        let length = plan.stolen().max(5) as u64;
        if wanted.role == Role::Function && self.is_around_a_system_call(plan.at(), length) {
            return Err("a system call that is hooked stands in its first bytes".into());
        }
        let mut was = vec![0; plan.stolen()];
        self.memory
            .read_bytes(plan.at(), &mut was)
            .map_err(|error| error.to_string())?;
        // Not every kernel lets it be written, and a hook must not fail when others have been set.
        if self.functions.is_kernels(plan.at()) && self.memory.write(plan.at(), &was[..1]).is_err()
        {
            return Err("the kernel's vDSO cannot be written".into());
        }
        Ok(Step::New(
            wanted.clone(),
            Box::new(plan),
            calls::fingerprint(&was),
        ))
    }

    /// Whether a hook that was set is still there: a library may have been unloaded, and loaded again at the same address.
    pub(super) fn stands(&self, known: &Known) -> bool {
        patches(&known.hook).iter().all(|patch| {
            let is = &patch.is[..(patch.length as usize).min(patch.is.len())];
            self.now(patch).is_some_and(|now| now == is)
        })
    }

    /// The stub of a hook of an earlier attach, if it does what this plan says.
    fn fits(&self, known: &Known, wanted: &Wanted, plan: &Change) -> Option<Stub> {
        let to = Destination {
            routine: self.resident.header.routines[wanted.routine],
            descriptor: known.at,
        };
        let stub = plan.stub(known.hook.stub, to).ok()?;
        let mut bytes = vec![0; stub.bytes.len()];
        self.memory.read_bytes(stub.at, &mut bytes).ok()?;
        let changes = plan.patches(stub.at).ok()?;
        let same = patches(&known.hook).len() == changes.len()
            && patches(&known.hook).iter().zip(&changes).all(|(had, has)| {
                let length = had.length as usize;
                had.at == has.at && had.was.get(..length) == Some(&has.old[..])
            });
        (same && bytes == stub.bytes && known.hook.original == stub.original).then_some(stub)
    }

    /// Writes everything; all threads stand still. What is written before an error leads nowhere yet.
    pub(super) fn write(
        &mut self,
        stop: &Stop,
        borrowed: &mut Borrowed,
        steps: &[Step],
        refused: &mut Vec<Refused>,
    ) -> Result<()> {
        let memory = self.memory.clone();
        let (mut prepared, mut writes) = (Vec::new(), Writes::default());
        for step in steps {
            let (wanted, made) = match step {
                Step::Again(place, wanted, moves) => {
                    let mut known = self.hooks[place];
                    known.hook.want = wanted.want | self.own_want(wanted);
                    known.hook.flags |= own_flags(known.hook.want);
                    known.hook.copied = known.hook.copied.max(described(wanted));
                    self.programs(borrowed, &mut writes, wanted, &mut known.hook)?;
                    let moves = moves.clone();
                    (wanted, Ok(Prepared { known, moves }))
                }
                Step::Bare(wanted) => (wanted, Ok(self.bare(borrowed, &mut writes, wanted)?)),
                Step::New(wanted, plan, was) => (
                    wanted,
                    self.prepare(borrowed, &mut writes, wanted, plan, *was)?,
                ),
            };
            match made {
                Ok(mut made) => {
                    match wanted.role {
                        Role::Place { instruction, fixed } => {
                            let table = std::mem::take(&mut self.system_calls.table);
                            let hook = &mut made.known.hook;
                            hook.names = self.program(borrowed, &mut writes, &table)?;
                            hook.instruction = instruction;
                            hook.fixed = fixed;
                            self.system_calls.table = table;
                        }
                        _ => self.name(borrowed, &mut writes, wanted, &mut made.known)?,
                    }
                    prepared.push(made);
                }
                Err(reason) => refused.push(Refused {
                    function: wanted.function.clone(),
                    reason,
                }),
            }
        }
        let tests = std::mem::take(&mut self.line_tests);
        let [at, count] = self.program(borrowed, &mut writes, &tests)?;
        if count != 0 {
            let place = self.resident.header.calls + offset_of!(calls::Calls, line_tests) as u64;
            writes.add(place, [at.to_le_bytes(), count.to_le_bytes()].concat());
        }
        prepared.sort_by_key(|made| made.known.hook.place);
        // Before anything leads to them: whoever comes after us must know of stubs that are in use.
        self.areas.write(&memory)?;
        for made in &prepared {
            writes.add(made.known.at, made.known.hook.to_bytes());
            self.hooks.insert(made.known.hook.place, made.known);
        }
        writes.write(&memory)?;
        self.clear_the_way(stop, borrowed, &mut prepared, refused)?;
        for made in prepared.iter().filter(|made| !made.known.set) {
            for patch in patches(&made.known.hook) {
                memory.write(patch.at, &patch.is[..patch.length as usize])?;
            }
            let place = made.known.hook.place;
            raise(&memory, &made.known.hook, 1);
            self.hooks.entry(place).and_modify(|known| known.set = true);
        }
        Ok(())
    }

    /// Moves threads out of what is about to change; hooks that are in a thread's way back are not set.
    fn clear_the_way(
        &mut self,
        stop: &Stop,
        borrowed: &mut Borrowed,
        prepared: &mut Vec<Prepared>,
        refused: &mut Vec<Refused>,
    ) -> Result<()> {
        loop {
            let changes: Vec<Changed> = prepared
                .iter()
                .filter(|made| !made.known.set)
                .map(|made| Changed {
                    at: made.known.hook.place,
                    length: u64::from(made.known.hook.moved).max(made.known.hook.patches[0].length),
                    moves: &made.moves,
                })
                .collect();
            let standing: Vec<i32> = stop.threads().collect();
            let blocked = threads::move_out(borrowed, &standing, &self.memory, &changes)?;
            let Some(index) = blocked else {
                return Ok(());
            };
            let place = changes[index].at;
            let at = prepared
                .iter()
                .position(|made| made.known.hook.place == place);
            let known = prepared.remove(at.expect("it is one of them")).known;
            self.silence(known.at)?;
            let places = [place, place - LANDING].into_iter();
            let function = { places }.find_map(|address| self.unname(address));
            refused.extend(function.map(|function| Refused {
                function,
                reason: IN_THE_WAY.into(),
            }));
        }
    }

    /// Makes room for a new hook and writes its stub; why it cannot be, if so.
    fn prepare(
        &mut self,
        borrowed: &mut Borrowed,
        writes: &mut Writes,
        wanted: &Wanted,
        plan: &Change,
        was: u64,
    ) -> Result<std::result::Result<Prepared, String>> {
        let code = plan.at()..plan.at() + plan.stolen() as u64;
        let size = (plan.most() as u64).next_multiple_of(16);
        let stub_at = self.areas.room(borrowed, area::STUBS, size, Some(code))?;
        let at = self
            .areas
            .room(borrowed, area::HOOKS, size_of::<Hook>() as u64, None)?;
        let entry_only = wanted.function.gets_no_frame();
        let to = Destination {
            routine: self.resident.header.routines[wanted.routine],
            descriptor: at,
        };
        let made = plan
            .stub(stub_at, to)
            .and_then(|stub| Ok((stub, plan.patches(stub_at)?)));
        let (stub, list) = match made {
            Ok(made) => made,
            Err(refusal) => return Ok(Err(refusal.to_string())),
        };
        let mut hook = Hook {
            original: stub.original,
            flags: own_flags(wanted.want) | if entry_only { flags::ENTRY_ONLY } else { 0 },
            copied: plan.copied().max(described(wanted)),
            number: self.next_number,
            place: plan.at(),
            semaphore: wanted.probe.unwrap_or(0),
            want: wanted.want | self.own_want(wanted),
            stub: stub_at,
            routine: to.routine,
            moved: plan.stolen() as u32,
            patched: list.len() as u32,
            was,
            ..Hook::default()
        };
        self.programs(borrowed, writes, wanted, &mut hook)?;
        self.next_number += 1;
        for (into, patch) in hook.patches.iter_mut().zip(&list) {
            (into.at, into.length) = (patch.at, patch.new.len() as u64);
            into.was[..patch.old.len()].copy_from_slice(&patch.old);
            into.is[..patch.new.len()].copy_from_slice(&patch.new);
            if self.now(into).as_deref() != Some(&patch.old[..]) {
                return Ok(Err("its code changed while we looked at it".into()));
            }
        }
        let mut bytes = stub.bytes;
        bytes.resize(size as usize, PADDING);
        writes.add(stub_at, bytes);
        let known = Known {
            at,
            hook,
            set: false,
        };
        Ok(Ok(Prepared {
            known,
            moves: stub.moves,
        }))
    }

    /// Makes room for a hook that no code leads to.
    fn bare(
        &mut self,
        borrowed: &mut Borrowed,
        writes: &mut Writes,
        wanted: &Wanted,
    ) -> Result<Prepared> {
        let at = self
            .areas
            .room(borrowed, area::HOOKS, size_of::<Hook>() as u64, None)?;
        let mut hook = Hook {
            number: self.next_number,
            place: wanted.function.address,
            want: wanted.want,
            ..Hook::default()
        };
        self.next_number += 1;
        self.programs(borrowed, writes, wanted, &mut hook)?;
        let known = Known {
            at,
            hook,
            set: false,
        };
        Ok(Prepared {
            known,
            moves: Vec::new(),
        })
    }

    /// What is wanted of a function for ourselves too.
    fn own_want(&self, wanted: &Wanted) -> u64 {
        let own = self.own.get(&wanted.function.address);
        own.map_or(0, |own| own & want::OWN)
    }

    /// Has a hook's programs and its callers written, each once; and its guard set.
    fn programs(
        &mut self,
        borrowed: &mut Borrowed,
        writes: &mut Writes,
        wanted: &Wanted,
        hook: &mut Hook,
    ) -> Result<()> {
        let ([at_entry, at_return], [asks_call, asks_return]) = (&wanted.copy, &wanted.asks);
        hook.at_entry = self.program(borrowed, writes, at_entry)?;
        hook.at_return = self.program(borrowed, writes, at_return)?;
        hook.asks_call = self.program(borrowed, writes, asks_call)?;
        hook.asks_return = self.program(borrowed, writes, asks_return)?;
        hook.least_ticks = wanted.least_ticks;
        // What is called for ourselves is called whatever its arguments are.
        let guard = wanted.guard.filter(|_| hook.want & want::OWN == 0);
        hook.guard = guard.unwrap_or_default().to_words();
        hook.flags &= !flags::GUARDED;
        hook.flags |= guard.map_or(0, |_| flags::GUARDED);
        [hook.callers, _] = self.program(borrowed, writes, &wanted.callers)?;
        Ok(())
    }

    /// Where a program is, and how many words it has; each is written once.
    fn program(
        &mut self,
        borrowed: &mut Borrowed,
        writes: &mut Writes,
        words: &[u64],
    ) -> Result<[u64; 2]> {
        if words.is_empty() {
            return Ok([0; 2]);
        }
        let at = match self.programs.get(words) {
            Some(at) => *at,
            None => {
                let size = words.len() as u64 * 8;
                let at = self.areas.room(borrowed, area::PROGRAMS, size, None)?;
                let bytes = words.iter().flat_map(|word| word.to_le_bytes()).collect();
                writes.add(at, bytes);
                self.programs.insert(words.to_vec(), at);
                at
            }
        };
        Ok([at, words.len() as u64])
    }
}

/// Counts us in among a probe's users, or out.
pub(super) fn raise(memory: &GuestMemory, hook: &Hook, by: i16) {
    let mut users = [0; 2];
    // A library that is gone took its counter along.
    if hook.semaphore != 0 && memory.read_bytes(hook.semaphore, &mut users).is_ok() {
        let users = u16::from_le_bytes(users).saturating_add_signed(by);
        let _ = memory.write(hook.semaphore, &users.to_le_bytes());
    }
}

fn own_flags(wanted: u64) -> u32 {
    match wanted & want::FORKS {
        0 => 0,
        _ => flags::FORKS,
    }
}

/// Bytes of stack arguments that its prototype has. A prototype may be wrong, and the guest must not suffer for it: what
/// the code reads counts too.
fn described(wanted: &Wanted) -> u32 {
    let bytes = wanted.stack.unwrap_or(0);
    bytes.min(MOST_COPIED).next_multiple_of(16)
}
