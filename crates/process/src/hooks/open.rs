//! The ways in: a process that runs, one that stands at its exec, one that is the child of a traced one.

use super::areas::Areas;
use super::named::Names;
use super::standstill::stopped;
use super::state::{self, Script, Words};
use super::system_calls::SystemCalls;
use super::text::Texts;
use super::{Arrives, LEAST_PATIENCE, Options, Timing, Tracing, notices};
use crate::borrow::{Borrowed, Gadgets};
use crate::error::{Error, Result};
use crate::functions::Functions;
use crate::gadgets;
use crate::guest::{self, Status, pid_namespace};
use crate::heart::{self, Heart};
use crate::image::Image;
use crate::lanes::Lanes;
use crate::maps::Maps;
use crate::memory::GuestMemory;
use crate::resident::Resident;
use crate::ruby;
use crate::stop::{Stop, Ties};
use crate::tracee::Tracee;
use std::collections::HashMap;
use std::mem::offset_of;
use std::sync::Arc;
use std::time::Duration;
use wire::calls::Calls;
use wire::{Board, Config};

/// How long a program that has just begun waits until it is hooked.
const FIRST_PATIENCE: Duration = Duration::from_secs(60);

/// What a tracing begins with.
struct Ground {
    status: Status,
    memory: Arc<GuestMemory>,
    gadgets: Gadgets,
    functions: Functions,
    ties: Ties,
}

impl Tracing {
    /// Opens a process; nothing is hooked yet.
    pub fn open(pid: i32, image: &Image, options: Options) -> Result<Self> {
        let (status, memory, maps) = guest::reach(pid)?;
        let gadgets = ruby::find_gadgets(pid, &memory, &maps)?;
        let found = Resident::find(&memory, &maps, image);
        if let Some(resident) = &found {
            resident.check_free(&memory)?;
        }
        let functions = Functions::read(pid, &memory, &maps)?;
        let script = Script::find(pid, &memory, &maps, &functions);
        let ground = Ground {
            status,
            memory,
            gadgets,
            functions,
            ties: Ties::None,
        };
        let mut tracing = Self::begin(ground, found, image, options, Some(&script))?;
        tracing.find_old_hooks()?;
        tracing.set_own()?;
        tracing.gate(tracing.session)?;
        Ok(tracing)
    }

    /// Takes a process that stands at its exec. It still stands afterwards; where its functions can be hooked it says
    /// by what it [`Arrives`] at.
    pub fn at_exec(tracee: &mut Tracee, image: &Image, options: Options) -> Result<Self> {
        tracee.stand_still()?;
        let pid = tracee.pid();
        let (status, memory, maps) = guest::reach_ours(pid)?;
        let ground = Ground {
            gadgets: ruby::find_gadgets(pid, &memory, &maps)?,
            functions: Functions::read(pid, &memory, &maps)?,
            status,
            memory,
            ties: Ties::Standing,
        };
        let mut tracing = Self::begin(ground, None, image, options, None)?;
        tracing.arrives = match tracing.hook_loader()? {
            true => Arrives::AtLoader,
            false => Arrives::AtThread,
        };
        tracing.awaits_script = true;
        // Nothing of it has run, so nobody else waits for it.
        tracing.set_patience(FIRST_PATIENCE)?;
        tracing.gate(tracing.session)?;
        tracing.ties = Ties::None;
        Ok(tracing)
    }

    /// Takes a child of this process that waits for us. Where that fails it need not wait any longer.
    pub fn adopt(&self, pid: i32) -> Result<Self> {
        let adopted = self.adopt_waiting(pid);
        if adopted.is_err()
            && let Ok(memory) = GuestMemory::open(pid)
            && let Ok(header) = memory.record::<wire::Header>(self.resident.base)
            && header == self.resident.header
        {
            let at = header.calls + offset_of!(Calls, refused) as u64;
            let _ = memory.write(at, &1u64.to_le_bytes());
        }
        adopted
    }

    /// Takes a child of this process that waits for us, with a copy of its memory: hooks, stubs, lanes. Calls that were
    /// open return in both.
    fn adopt_waiting(&self, pid: i32) -> Result<Self> {
        let (status, memory, _) = guest::reach(pid)?;
        let header: wire::Header = memory.record(self.resident.base)?;
        if header != self.resident.header {
            return Err(Error::Replaced(pid));
        }
        let resident = self.resident;
        let at = |offset: usize| resident.header.calls + offset as u64;
        let own_id = u64::from(state::own_id(pid, pid));
        memory.write(at(offset_of!(Calls, pid)), &own_id.to_le_bytes())?;
        resident.claim(
            &memory,
            &Config {
                session: u64::from(self.session),
                ..Config::default()
            },
        )?;
        let lanes = self.lanes.adopt(memory.clone())?;
        let tracing = Tracing {
            status,
            gadgets: self.gadgets,
            resident,
            _heart: start_heart(&memory, &resident),
            areas: self.areas.clone(),
            lanes,
            functions: self.functions.clone(),
            hooks: self.hooks.clone(),
            own: self.own.clone(),
            pickers: self.pickers.clone(),
            programs: self.programs.clone(),
            // They are in its copy.
            line_tests: Vec::new(),
            names: self.names.clone(),
            texts: Texts::default(),
            timing: Timing::default(),
            no_lines: self.no_lines.clone(),
            system_calls: self.system_calls.clone(),
            script: self.script.clone(),
            defined_names: self.defined_names.clone(),
            ties: Ties::None,
            arrives: Arrives::Now,
            open: true,
            news: 0,
            memory,
            ..*self
        };
        tracing.gate(tracing.session)?;
        Ok(tracing)
    }

    /// How long its threads wait to be heard from now on.
    pub(super) fn set_patience(&self, patience: Duration) -> Result<()> {
        let at = self.resident.header.calls + offset_of!(Calls, patience) as u64;
        self.memory.write(at, &heart::ticks(patience).to_le_bytes())
    }

    /// Whether it waited in vain to be adopted, and went on.
    pub fn was_late(&self) -> Result<bool> {
        let at = self.resident.header.calls + offset_of!(Calls, late) as u64;
        Ok(self.memory.word(at)? != 0)
    }

    /// Where its functions can be hooked.
    pub fn arrives(&self) -> Arrives {
        self.arrives
    }

    /// Whether its VM may be made yet.
    pub fn awaits_script(&self) -> bool {
        self.awaits_script
    }

    /// How its main thread is tied to us from now on.
    pub fn tie(&mut self, ties: Ties) {
        self.ties = ties;
    }

    /// Whether its thread, which stands at a system call, has set its thread pointer.
    pub fn has_thread_pointer(&self) -> bool {
        crate::ptrace::registers(self.status.pid).is_ok_and(|now| {
            now.fs_base != 0 && self.memory.word(now.fs_base).ok() == Some(now.fs_base)
        })
    }

    /// Learns what the agent must know of threads and of the VM, once they are there.
    pub fn look_again(&mut self) -> Result<()> {
        let (status, memory, gadgets) = (self.status.clone(), self.memory.clone(), self.gadgets);
        let maps = Maps::read(status.pid).map_err(|_| Error::Gone(status.pid))?;
        self.functions.refresh(status.pid, &memory, &maps)?;
        let script = Script::find(status.pid, &memory, &maps, &self.functions);
        let mut timing = self.timing;
        let learnt = stopped(
            &status,
            &memory,
            gadgets,
            self.ties,
            &mut timing,
            |stop, borrowed| {
                self.gate(0)?;
                let learnt = learn(&self.resident, &memory, stop, borrowed, &script);
                self.gate(self.session)?;
                learnt
            },
        );
        self.timing = timing;
        self.no_lines = learnt?;
        self.vm = script.name();
        self.script = script;
        Ok(())
    }

    /// Its VM has begun with the script: learns of it, and is not told again.
    pub fn script_begins(&mut self) -> Result<()> {
        self.awaits_script = false;
        self.forget_own(wire::calls::want::SCRIPT)?;
        self.look_again()
    }

    fn begin(
        ground: Ground,
        found: Option<Resident>,
        image: &Image,
        options: Options,
        script: Option<&Script>,
    ) -> Result<Self> {
        let Ground {
            status,
            memory,
            gadgets,
            functions,
            ties,
        } = ground;
        let session = (heart::unique() as u32).max(1);
        let mut timing = Timing::default();
        let (resident, no_lines) = stopped(
            &status,
            &memory,
            gadgets,
            ties,
            &mut timing,
            |stop, borrowed| {
                let resident = Resident::place(found, borrowed, &memory, image)?;
                resident.check_free(&memory)?;
                take(&resident, &memory, &options, session)?;
                let no_lines = match script {
                    Some(script) => learn(&resident, &memory, stop, borrowed, script)?,
                    None => None,
                };
                Ok((resident, no_lines))
            },
        )?;
        // The guest's own may be hooked.
        let syscall = gadgets::within(
            &*memory,
            resident.base..resident.base + resident.header.size,
        )
        .unwrap_or(gadgets.syscall);
        let gadgets = Gadgets { syscall, ..gadgets };
        let heart = start_heart(&memory, &resident);
        let mut areas = Areas::read(&memory, resident.header.calls)?;
        areas.forget_programs();
        let lanes = Lanes::open(memory.clone(), resident.header.calls, session)?;
        Ok(Tracing {
            status,
            gadgets,
            resident,
            _heart: heart,
            areas,
            lanes,
            functions,
            session,
            patience: options.waits()[1],
            hooks: HashMap::new(),
            own: HashMap::new(),
            pickers: HashMap::new(),
            follow: options.follow,
            awaits_script: false,
            news: 0,
            loader: 0,
            programs: HashMap::new(),
            line_tests: options.line_tests,
            next_number: 0,
            names: HashMap::new(),
            texts: Texts::default(),
            timing,
            system_calls: SystemCalls::default(),
            vm: script.map_or("", Script::name),
            script: script.cloned().unwrap_or_else(Script::unknown),
            defined_names: Names::default(),
            no_lines,
            ties,
            arrives: Arrives::Now,
            open: true,
            memory,
        })
    }
}

fn start_heart(memory: &Arc<GuestMemory>, resident: &Resident) -> Heart {
    Heart::start(
        memory.clone(),
        resident.header.board + offset_of!(Board, beat) as u64,
    )
}

/// Takes the agent for a session, with what its hooks must know from the first on.
fn take(resident: &Resident, memory: &GuestMemory, options: &Options, session: u32) -> Result<()> {
    let pid = memory.pid();
    let us = std::process::id();
    // A filter might take its question for an attack.
    let sees_us = Status::read(pid)?.seccomp == 0 && pid_namespace(pid) == pid_namespace(us as i32);
    resident.claim(
        memory,
        &Config {
            session: u64::from(session),
            ..Config::default()
        },
    )?;
    let [most_wait, patience] = options.waits().map(heart::ticks);
    for (offset, value) in [
        (offset_of!(Calls, ring), options.ring),
        (offset_of!(Calls, most_wait), most_wait),
        (offset_of!(Calls, patience), patience),
        (
            offset_of!(Calls, child_patience),
            match sees_us {
                true => patience,
                false => patience.min(heart::ticks(LEAST_PATIENCE)),
            },
        ),
        (
            offset_of!(Calls, owner),
            if sees_us { u64::from(us) } else { 0 },
        ),
        (offset_of!(Calls, pid), u64::from(state::own_id(pid, pid))),
        (offset_of!(Calls, follow), u64::from(options.follow)),
        (offset_of!(Calls, wary), 0),
        (offset_of!(Calls, late), 0),
        (offset_of!(Calls, refused), 0),
        (offset_of!(Calls, room), options.room),
        (offset_of!(Calls, teller), options.teller),
        // Words of another session are gone.
        (offset_of!(Calls, line_tests) + 8, 0),
    ] {
        memory.write(resident.header.calls + offset as u64, &value.to_le_bytes())?;
    }
    notices::clear(resident, memory)
}

/// Looks through the threads, which stand still, and hands over what is found; why script lines will not be known, if so.
fn learn(
    resident: &Resident,
    memory: &GuestMemory,
    stop: &Stop,
    borrowed: &mut Borrowed,
    script: &Script,
) -> Result<Option<String>> {
    let threads: Vec<i32> = stop.threads().collect();
    let (words, no_lines): (Words, _) = state::find(memory.pid(), memory, &threads, script)?;
    let at = |offset: usize| resident.header.calls + offset as u64;
    for (offset, value) in [
        (offset_of!(Calls, tid_offset), words.tid_offset),
        (offset_of!(Calls, state_offset), words.state_offset),
        (offset_of!(Calls, tells_pointer), words.tells_pointer),
        (offset_of!(Calls, language), words.language),
    ] {
        memory.write(at(offset), &value.to_le_bytes())?;
    }
    let facts = words.facts.iter().flat_map(|word| word.to_le_bytes());
    memory.write(at(offset_of!(Calls, facts)), &facts.collect::<Vec<u8>>())?;
    borrowed.call(resident.header.open_calls, 0)?;
    Ok(no_lines)
}
