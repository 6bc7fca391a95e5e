//! Hooks in a guest: set in one stop for all of them, read through lanes, lifted in one stop.
//!
//! ```text
//!   us                                   guest
//!   symbols → plans (it runs)
//!   stop every thread ─────────────────► stands still
//!     hooks, stubs, their list ────────► written where nothing leads yet
//!     threads within changed bytes ────► moved into the stub
//!     jumps ───────────────────────────► 5 bytes each
//!   let them go; nothing is traced
//!   read lanes ◄──────────────────────── records
//!   close the gate ────────────────────► hooks fall through
//!   stop, put the bytes back, go ──────► as it was; stubs stay, for frames that may return into them
//! ```
//!
//! If we die, the hooks stay, and fall through as soon as nobody reads (`agent::calls::lane`). The next
//! attach finds them in the list and lifts them or uses them again.

mod areas;
mod state;
mod text;
mod threads;

use crate::borrow::{Borrowed, Gadgets};
use crate::error::{Error, Result};
use crate::functions::{Function, Functions};
use crate::guest::{self, Status};
use crate::heart::Heart;
use crate::image::Image;
use crate::lanes::Lanes;
use crate::maps::Maps;
use crate::memory::{GuestMemory, Record};
use crate::resident::Resident;
use crate::ruby;
use crate::seccomp;
use crate::stop::Stop;
use areas::Areas;
use std::collections::HashMap;
use std::mem::offset_of;
use std::sync::Arc;
use std::time::{Duration, Instant};
use threads::Changed;
use text::Texts;
use trampoline::frame::flags;
use trampoline::{Destination, Plan, Stub, unwind};
use wire::calls::{self, Calls, Hook, Patched, area};
use wire::{Board, Config};

/// How a guest is traced.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Bytes of each thread's ring; a power of two.
    pub ring: u64,
    /// How long a hook waits for room in it before it drops what it has to say.
    pub most_wait: Duration,
    /// Words that a record has for copies of what arguments point to.
    pub room: u64,
}

/// A function that is to be hooked.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Which.
    pub function: Function,
    /// [`calls::want`].
    pub want: u64,
    /// Bytes of stack arguments that its prototype has; `None` = not known.
    pub stack: Option<u32>,
    /// Programs of crate `capture`, for the call and for its return; empty = nothing to copy.
    pub copy: [Vec<u64>; 2],
    /// It gets no frame: only its entry is told.
    pub entry_only: bool,
}

/// A function that is not hooked, and why.
#[derive(Clone, Debug)]
pub struct Refused {
    /// Which.
    pub function: Function,
    /// Why.
    pub reason: String,
}

/// How it went.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timing {
    /// The longest time that the guest stood still.
    pub longest_stop: Duration,
    /// All stops together.
    pub stopped: Duration,
    /// How many.
    pub stops: u32,
}

/// A guest whose calls are traced.
#[derive(Debug)]
pub struct Tracing {
    status: Status,
    command: String,
    memory: Arc<GuestMemory>,
    gadgets: Gadgets,
    resident: Resident,
    session: u32,
    _heart: Heart,
    areas: Areas,
    lanes: Lanes,
    functions: Functions,
    /// Every hook that was ever made in this guest, by its place.
    hooks: HashMap<u64, Known>,
    /// Where each program is that was written in this session.
    programs: HashMap<Vec<u64>, u64>,
    next_number: u64,
    /// Functions by the number of their hook.
    names: HashMap<u32, Function>,
    timing: Timing,
    /// Why no script lines can be told.
    no_lines: Option<String>,
    open: bool,
}

/// A hook, and where it is.
#[derive(Clone, Copy, Debug)]
struct Known {
    at: u64,
    hook: Hook,
    /// It stands in the guest's code now.
    set: bool,
}

/// A hook about to be set.
enum Step {
    /// It was hooked at an earlier attach, or is now: by its place.
    Again(u64, Wanted),
    /// With what stands there now.
    New(Wanted, Box<Plan>, u64),
}

/// A hook whose record and stub are written, or will be.
struct Prepared {
    known: Known,
    stub: Option<Stub>,
}

impl Tracing {
    /// Opens a process; nothing is hooked yet.
    pub fn open(pid: i32, image: &Image, options: Options) -> Result<Self> {
        let status = guest::openable(pid)?;
        let memory = Arc::new(GuestMemory::open(pid).map_err(|error| match error {
            Error::NotAllowed { .. } => guest::why_not_allowed(pid),
            error => error,
        })?);
        crate::elf::require_x86_64(pid).map_err(|error| Error::Elf { pid, error })?;
        let maps = Maps::read(pid).map_err(|_| Error::Gone(pid))?;
        let gadgets = ruby::find_gadgets(pid, &memory, &maps)?;
        let found = Resident::find(&memory, &maps, image);
        if let Some(resident) = &found {
            resident.check_free(&memory)?;
        }
        let functions = Functions::read(pid, &memory, &maps)?;
        let script = state::Script::find(pid, &memory, &maps);
        let ticks = crate::heart::ticks(options.most_wait);
        let session = (crate::heart::unique() as u32).max(1);
        let mut timing = Timing::default();
        let (resident, no_lines) = stopped(&status, &memory, gadgets, &mut timing, |stop, borrowed| {
            let resident = Resident::place(found, borrowed, &memory, image)?;
            resident.check_free(&memory)?;
            let config = Config {
                session: u64::from(session),
                ..Config::default()
            };
            resident.claim(&memory, &config)?;
            let threads = stop.tids();
            let (words, no_lines) = state::find(pid, &memory, &threads, &script)?;
            let at = |offset: usize| resident.header.calls + offset as u64;
            for (offset, value) in [
                (offset_of!(Calls, ring), options.ring),
                (offset_of!(Calls, most_wait), ticks),
                (offset_of!(Calls, room), options.room),
                (offset_of!(Calls, tid_offset), words.tid_offset),
                (offset_of!(Calls, state_offset), words.state_offset),
                (offset_of!(Calls, language), words.language),
            ] {
                memory.write(at(offset), &value.to_le_bytes())?;
            }
            let facts: Vec<u8> = words.facts.iter().flat_map(|word| word.to_le_bytes()).collect();
            memory.write(at(offset_of!(Calls, facts)), &facts)?;
            borrowed.call(resident.header.open_calls, 0)?;
            Ok((resident, no_lines))
        })?;
        let heart = Heart::start(
            memory.clone(),
            resident.header.board + offset_of!(Board, beat) as u64,
        );
        let mut areas = Areas::read(&memory, resident.header.calls)?;
        areas.forget_programs();
        let lanes = Lanes::open(memory.clone(), resident.header.calls, session)?;
        let mut tracing = Tracing {
            command: guest::command_line(pid),
            status,
            gadgets,
            resident,
            session,
            _heart: heart,
            areas,
            lanes,
            functions,
            hooks: HashMap::new(),
            programs: HashMap::new(),
            next_number: 0,
            names: HashMap::new(),
            timing,
            no_lines,
            open: true,
            memory,
        };
        tracing.find_old_hooks()?;
        tracing.gate(session)?;
        Ok(tracing)
    }

    /// Hooks that were made at an earlier attach; where one that died left them set, they are lifted.
    fn find_old_hooks(&mut self) -> Result<()> {
        let mut left = Vec::new();
        for (at, mut hook) in self.areas.hooks(&self.memory)? {
            self.next_number = self.next_number.max(hook.number + 1);
            let set = patches(&hook).iter().any(|patch| {
                self.now(patch).is_some_and(|now| now[..] == patch.is[..patch.length as usize])
            });
            if hook.want != 0 {
                hook.want = 0;
                self.silence(at)?;
            }
            if set {
                left.push(hook.place);
            }
            self.hooks.insert(hook.place, Known { at, hook, set });
        }
        match left.is_empty() {
            true => Ok(()),
            false => self.lift(&left),
        }
    }

    /// What stands where a patch is or will be.
    fn now(&self, patch: &Patched) -> Option<Vec<u8>> {
        let mut now = vec![0; (patch.length as usize).min(patch.is.len())];
        self.memory.read_bytes(patch.at, &mut now).ok()?;
        Some(now)
    }

    fn silence(&self, at: u64) -> Result<()> {
        self.memory
            .write(at + offset_of!(Hook, want) as u64, &0u64.to_le_bytes())
    }

    /// Opens or closes the gate that every hook asks first.
    fn gate(&self, session: u32) -> Result<()> {
        self.resident
            .set_board(&self.memory, offset_of!(Board, calls), session)
    }

    /// Hooks functions, in one stop; those that cannot be hooked, and why.
    pub fn set(&mut self, wanted: Vec<Wanted>) -> Result<Vec<Refused>> {
        let (mut refused, mut steps) = (Vec::new(), Vec::new());
        let mut texts = Texts::default();
        for wanted in wanted {
            match self.step(&wanted, &mut texts) {
                Ok(step) => steps.push(step),
                Err(reason) => refused.push(Refused {
                    function: wanted.function,
                    reason,
                }),
            }
        }
        if steps.is_empty() {
            return Ok(refused);
        }
        let (status, memory, gadgets) = (self.status.clone(), self.memory.clone(), self.gadgets);
        let mut timing = self.timing;
        let set = stopped(&status, &memory, gadgets, &mut timing, |stop, borrowed| {
            self.write(stop, borrowed, &steps, &mut refused)
        });
        self.timing = timing;
        set.map(|()| refused)
    }

    /// What is to be done for one function; looked at while the guest runs.
    fn step(&self, wanted: &Wanted, texts: &mut Texts) -> std::result::Result<Step, String> {
        let function = &wanted.function;
        if function.picks {
            return Err("it is an IFUNC: it only picks the function that is called".into());
        }
        for place in [function.address, function.address + LANDING] {
            let Some(known) = self.hooks.get(&place) else {
                continue;
            };
            let mut now = vec![0; known.hook.moved as usize];
            let same = self.memory.read_bytes(place, &mut now).is_ok()
                && calls::fingerprint(&now) == known.hook.was;
            if known.set || same {
                return Ok(Step::Again(place, wanted.clone()));
            }
        }
        let plan = texts.plan(&self.functions, &self.memory, function)?;
        let mut was = vec![0; plan.stolen];
        self.memory
            .read_bytes(plan.patch_at, &mut was)
            .map_err(|error| error.to_string())?;
        Ok(Step::New(wanted.clone(), Box::new(plan), calls::fingerprint(&was)))
    }

    /// Writes everything; all threads stand still. What is written before an error leads nowhere yet.
    fn write(
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
                Step::Again(place, wanted) => {
                    let mut known = self.hooks[place];
                    known.hook.want = wanted.want;
                    (known.hook.at_entry, known.hook.at_return) =
                        self.programs(borrowed, &mut writes, wanted)?;
                    (wanted, Ok(Prepared { known, stub: None }))
                }
                Step::New(wanted, plan, was) => (wanted, self.prepare(borrowed, &mut writes, wanted, plan, *was)?),
            };
            match made {
                Ok(made) => {
                    self.names
                        .insert(made.known.hook.number as u32, wanted.function.clone());
                    prepared.push(made);
                }
                Err(reason) => refused.push(Refused {
                    function: wanted.function.clone(),
                    reason,
                }),
            }
        }
        prepared.sort_by_key(|made| made.known.hook.place);
        // Before anything leads to them: whoever comes after us must know of stubs that are in use.
        self.areas.write(&memory)?;
        for made in &prepared {
            writes.add(made.known.at, made.known.hook.to_bytes());
            self.hooks.insert(made.known.hook.place, made.known);
        }
        writes.write(&memory)?;
        self.clear_the_way(stop, &mut prepared, refused)?;
        for made in prepared.iter().filter(|made| !made.known.set) {
            for patch in patches(&made.known.hook) {
                memory.write(patch.at, &patch.is[..patch.length as usize])?;
            }
            let place = made.known.hook.place;
            self.hooks.entry(place).and_modify(|known| known.set = true);
        }
        Ok(())
    }

    /// Moves threads out of what is about to change; hooks that are in a thread's way back are not set.
    fn clear_the_way(
        &mut self,
        stop: &Stop,
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
                    moves: made.stub.as_ref().map_or(&[], |stub| &stub.moves),
                })
                .collect();
            let blocked = threads::move_out(self.status.pid, &stop.tids(), &self.memory, &changes)?;
            let Some(index) = blocked else {
                return Ok(());
            };
            let place = changes[index].at;
            let at = prepared.iter().position(|made| made.known.hook.place == place);
            let known = prepared.remove(at.expect("it is one of them")).known;
            self.silence(known.at)?;
            let function = self.names.remove(&(known.hook.number as u32));
            refused.extend(function.map(|function| Refused {
                function,
                reason: "a thread is about to return from a signal handler into its first instructions".into(),
            }));
        }
    }

    /// Makes room for a new hook and writes its stub; why it cannot be, if so.
    fn prepare(
        &mut self,
        borrowed: &mut Borrowed,
        writes: &mut Writes,
        wanted: &Wanted,
        plan: &Plan,
        was: u64,
    ) -> Result<std::result::Result<Prepared, String>> {
        let code = plan.patch_at..plan.patch_at + plan.stolen as u64;
        let size = (plan.most() as u64).next_multiple_of(16);
        let stub_at = self.areas.room(borrowed, area::STUBS, size, Some(code))?;
        let at = self
            .areas
            .room(borrowed, area::HOOKS, size_of::<Hook>() as u64, None)?;
        let is_unwinder = wanted.function.name == unwind::FIND_FDE;
        let to = Destination {
            routine: self.resident.header.routines[if is_unwinder { 2 } else { 0 }],
            descriptor: at,
        };
        let made = plan.stub(stub_at, to).and_then(|stub| Ok((stub, plan.patches(stub_at)?)));
        let (stub, list) = match made {
            Ok(made) => made,
            Err(refusal) => return Ok(Err(refusal.to_string())),
        };
        let (at_entry, at_return) = self.programs(borrowed, writes, wanted)?;
        let mut hook = Hook {
            at_entry,
            at_return,
            original: stub.original,
            flags: if wanted.entry_only { flags::ENTRY_ONLY } else { 0 },
            copied: match wanted.stack {
                Some(bytes) => bytes.next_multiple_of(16).min(trampoline::frame::MOST_COPIED),
                None => trampoline::frame::COPIED,
            },
            number: self.next_number,
            place: plan.patch_at,
            want: wanted.want,
            stub: stub_at,
            moved: plan.stolen as u32,
            patched: list.len() as u32,
            was,
            ..Hook::default()
        };
        self.next_number += 1;
        for (into, patch) in hook.patches.iter_mut().zip(&list) {
            (into.at, into.length) = (patch.at, patch.new.len() as u64);
            into.was[..patch.old.len()].copy_from_slice(&patch.old);
            into.is[..patch.new.len()].copy_from_slice(&patch.new);
            if self.now(into).as_deref() != Some(&patch.old[..]) {
                return Ok(Err("its code changed while we looked at it".into()));
            }
        }
        let mut bytes = stub.bytes.clone();
        bytes.resize(size as usize, PADDING);
        writes.add(stub_at, bytes);
        let known = Known { at, hook, set: false };
        Ok(Ok(Prepared { known, stub: Some(stub) }))
    }

    /// Where the programs of a hook are; each is written once.
    fn programs(
        &mut self,
        borrowed: &mut Borrowed,
        writes: &mut Writes,
        wanted: &Wanted,
    ) -> Result<([u64; 2], [u64; 2])> {
        let mut places = [[0; 2]; 2];
        for (place, words) in places.iter_mut().zip(&wanted.copy) {
            if words.is_empty() {
                continue;
            }
            let at = match self.programs.get(words) {
                Some(at) => *at,
                None => {
                    let size = words.len() as u64 * 8;
                    let at = self.areas.room(borrowed, area::PROGRAMS, size, None)?;
                    let bytes = words.iter().flat_map(|word| word.to_le_bytes()).collect();
                    writes.add(at, bytes);
                    self.programs.insert(words.clone(), at);
                    at
                }
            };
            *place = [at, words.len() as u64];
        }
        let [entry, exit] = places;
        Ok((entry, exit))
    }

    /// Puts back what stood at these places.
    fn lift(&mut self, places: &[u64]) -> Result<()> {
        let (status, memory, gadgets) = (self.status.clone(), self.memory.clone(), self.gadgets);
        let mut timing = self.timing;
        let lifted = stopped(&status, &memory, gadgets, &mut timing, |_, _| {
            for place in places {
                let Some(known) = self.hooks.get_mut(place) else {
                    continue;
                };
                for patch in patches(&known.hook).iter().rev() {
                    let length = (patch.length as usize).min(patch.is.len());
                    let mut now = [0; 8];
                    // A library that was unloaded has taken its hooks with it.
                    if memory.read_bytes(patch.at, &mut now[..length]).is_ok()
                        && now[..length] == patch.is[..length]
                    {
                        memory.write(patch.at, &patch.was[..length])?;
                    }
                }
                known.set = false;
            }
            Ok(())
        });
        self.timing = timing;
        lifted
    }

    /// The functions of the guest.
    pub fn functions(&self) -> &Functions {
        &self.functions
    }

    /// The function with this hook.
    pub fn function(&self, hook: u32) -> Option<&Function> {
        self.names.get(&hook)
    }

    /// How many functions are hooked.
    pub fn hooked(&self) -> usize {
        self.names.len()
    }

    /// What the hooks say.
    pub fn lanes(&mut self) -> &mut Lanes {
        &mut self.lanes
    }

    /// Why script lines are not known, if they are not.
    pub fn no_lines(&self) -> Option<&str> {
        self.no_lines.as_deref()
    }

    /// The guest's memory.
    pub fn memory(&self) -> &GuestMemory {
        &self.memory
    }

    /// The guest's id.
    pub fn pid(&self) -> i32 {
        self.status.pid
    }

    /// Its command line.
    pub fn command(&self) -> &str {
        &self.command
    }

    /// Whether the guest still runs.
    pub fn is_alive(&self) -> bool {
        self.status.is_current()
    }

    /// The hooks fell silent by themselves, because they heard nothing from us.
    pub fn is_deserted(&self) -> Result<bool> {
        let gate = self
            .resident
            .board_half(&self.memory, offset_of!(Board, calls))?;
        Ok(gate != self.session)
    }

    /// How long the guest stood still.
    pub fn timing(&self) -> Timing {
        self.timing
    }

    /// No hook says anything from now on; what has been said can still be read.
    pub fn close(&mut self) -> Result<()> {
        self.gate(0)
    }

    /// Takes all hooks out. What the lanes hold can still be read afterwards.
    pub fn leave(&mut self) -> Result<()> {
        self.open = false;
        self.close()?;
        let set: Vec<u64> = self
            .hooks
            .iter()
            .filter(|(_, known)| known.set)
            .map(|(place, _)| *place)
            .collect();
        let lifted = if set.is_empty() { Ok(()) } else { self.lift(&set) };
        for known in self.hooks.values() {
            if known.hook.want != 0 {
                self.silence(known.at)?;
            }
        }
        self.resident
            .set_board(&self.memory, offset_of!(Board, state), 0u32)?;
        lifted
    }
}

impl Drop for Tracing {
    fn drop(&mut self) {
        if self.open && self.is_alive() {
            // Nobody is left to tell.
            let _ = self.leave();
        }
    }
}

/// `int3`, between stubs.
const PADDING: u8 = 0xcc;
/// Bytes of an `endbr64`, behind which a hook begins.
const LANDING: u64 = 4;

/// What a hook changes.
fn patches(hook: &Hook) -> &[Patched] {
    &hook.patches[..(hook.patched as usize).min(hook.patches.len())]
}

/// Bytes to be written, joined where they touch: a stop is as long as its system calls are many.
#[derive(Default)]
struct Writes(Vec<(u64, Vec<u8>)>);

impl Writes {
    fn add(&mut self, at: u64, bytes: Vec<u8>) {
        match self.0.last_mut() {
            Some((start, before)) if *start + before.len() as u64 == at => before.extend(bytes),
            _ => self.0.push((at, bytes)),
        }
    }

    fn write(mut self, memory: &GuestMemory) -> Result<()> {
        self.0.sort_by_key(|(at, _)| *at);
        let mut joined = Writes::default();
        for (at, bytes) in self.0 {
            joined.add(at, bytes);
        }
        joined
            .0
            .iter()
            .try_for_each(|(at, bytes)| memory.write(*at, bytes))
    }
}

/// Does `work` while all threads stand still, with the main thread borrowed; again, if it stood badly.
fn stopped<T>(
    status: &Status,
    memory: &GuestMemory,
    gadgets: Gadgets,
    timing: &mut Timing,
    mut work: impl FnMut(&mut Stop, &mut Borrowed) -> Result<T>,
) -> Result<T> {
    let pid = status.pid;
    let mut tries = 0;
    loop {
        let done = once(status, memory, gadgets, timing, &mut work);
        match done {
            Err(error) if tries < guest::TRIES && error.may_pass() => {
                tries += 1;
                std::thread::sleep(guest::PAUSE);
            }
            Err(_) if !status.is_current() => return Err(Error::Gone(pid)),
            done => return done,
        }
    }
}

fn once<T>(
    status: &Status,
    memory: &GuestMemory,
    gadgets: Gadgets,
    timing: &mut Timing,
    work: &mut impl FnMut(&mut Stop, &mut Borrowed) -> Result<T>,
) -> Result<T> {
    let pid = status.pid;
    let maps = Maps::read(pid).map_err(|_| Error::Gone(pid))?;
    let began = Instant::now();
    let mut stop = Stop::one(pid, pid, false)?;
    stop.rest()?;
    if !status.is_current() {
        return Err(Error::Gone(pid));
    }
    if status.seccomp != 0 {
        seccomp::check(pid, pid)?;
    }
    let low = |sp| maps.find(sp).map(|mapping| mapping.start);
    let mut borrowed = Borrowed::new(pid, memory, gadgets, low)?;
    let done = work(&mut stop, &mut borrowed);
    let back = borrowed.give_back();
    drop(stop);
    let stood = began.elapsed();
    timing.stops += 1;
    timing.stopped += stood;
    timing.longest_stop = timing.longest_stop.max(stood);
    let done = done?;
    back.map(|()| done)
}
