//! How tracing begins: with a process that runs, one that stands at its exec, or the child of a traced one (`adopt`).
//! Used by `script_start`.

mod adopt;

use crate::areas::Areas;
use crate::first_stack;
use crate::ids::own_id;
use crate::notices;
use crate::patcher::Patcher;
use crate::pool;
use crate::rings::Rings;
use crate::scripts::ScriptReaders;
use crate::standstill::{Standstill, Threads};
use crate::state::{self, Script, Words};
use crate::system_calls::SystemCalls;
use crate::target::Target;
use crate::text::refuse_program;
use crate::threads;
use crate::tracing::{Arrives, Tracing};
use crate::wanted::{LEAST_PATIENCE, Options};
use inject::Timing;
use inject::heartbeat::{self, Heartbeat};
use inject::image::Image;
use inject::remote_call::{Gadgets, RemoteThread};
use inject::resident::Resident;
use inject::residents::Residents;
use inject::tracee::Tracee;
use inject::{allowed, seccomp};
use process::error::Result;
use process::functions::Functions;
use process::gadgets;
use process::guest::{self, Status, pid_namespace};
use process::maps::Maps;
use process::memory::GuestMemory;
use process::pidfd::PidFd;
use process::stop::{Stop, Ties, thread_ids};
use std::cell::{Cell, RefCell};
use std::mem::offset_of;
use std::sync::Arc;
use std::time::Duration;
use wire::Config;
use wire::calls::Calls;

/// How long a program that has just begun waits for its hooks.
const FIRST_PATIENCE: Duration = Duration::from_secs(60);

/// What is known of a process before it has an agent.
struct Ground {
    status: Status,
    memory: Arc<GuestMemory>,
    gadgets: Gadgets,
    functions: Functions,
    ties: Ties,
}

impl Tracing {
    /// Opens a process that runs. Nothing is hooked yet.
    pub fn open(pid: i32, image: &Image, options: Options) -> Result<Self> {
        Self::open_tied(pid, Ties::None, image, options)
    }

    /// Opens a process whose only thread we trace, and which stands still for us at no system call. It stands there until
    /// [`tie`](Self::tie) says how it is held otherwise.
    pub fn open_standing(pid: i32, image: &Image, options: Options) -> Result<Self> {
        Self::open_tied(pid, Ties::Standing, image, options)
    }

    fn open_tied(pid: i32, ties: Ties, image: &Image, options: Options) -> Result<Self> {
        let (status, memory, maps) = match ties {
            Ties::Standing => guest::reach_ours(pid)?,
            Ties::None | Ties::Kept => guest::reach(pid)?,
        };
        let gadgets = Gadgets::find(pid, &memory, &maps)?;
        let residents = Residents::read(&memory, &maps, image)?;
        // No other lancet opens a process while we trace it.
        if ties == Ties::None {
            crate::lifting::lift_left(&status, &memory, gadgets, &residents)?;
        }
        let functions = Functions::read(pid, &memory, &maps)?;
        if options.system_calls_alone {
            refuse_program(&functions, &memory)?;
        }
        let script = Script::find(&memory, &functions);
        let ground = Ground {
            status,
            memory,
            gadgets,
            functions,
            ties,
        };
        let mut tracing = Self::begin(ground, residents, image, options, Some(&script))?;
        tracing.patcher.find_earlier(&tracing.target)?;
        tracing.set_own()?;
        // A session that was killed has left what it counted.
        tracing.forget_blocks()?;
        tracing.target.open_gate()?;
        Ok(tracing)
    }

    /// Opens a process that stands at its exec and leaves it there. [`arrives`](Self::arrives) says when its functions
    /// can be hooked.
    pub fn at_exec(tracee: &mut Tracee, image: &Image, options: Options) -> Result<Self> {
        tracee.stand_still()?;
        let pid = tracee.pid();
        let (status, memory, maps) = guest::reach_ours(pid)?;
        let ground = Ground {
            gadgets: Gadgets::find(pid, &memory, &maps)?,
            functions: Functions::read(pid, &memory, &maps)?,
            status,
            memory,
            ties: Ties::Standing,
        };
        if options.system_calls_alone {
            refuse_program(&ground.functions, &ground.memory)?;
        }
        let mut tracing = Self::begin(ground, Residents::none(), image, options, None)?;
        tracing.arrives = if tracing.hook_loader()? {
            Arrives::AtLoader
        } else {
            Arrives::AtThread
        };
        tracing.scripts.awaits_script = true;
        // Nothing of the program has run yet, so no other process waits for it.
        tracing.target.set_patience(FIRST_PATIENCE)?;
        tracing.target.open_gate()?;
        tracing.target.ties = Ties::None;
        Ok(tracing)
    }

    /// Returns what must happen before its functions can be hooked.
    pub fn arrives(&self) -> Arrives {
        self.arrives
    }

    /// Whether its VM may not have been made yet.
    pub fn awaits_script(&self) -> bool {
        self.scripts.awaits_script
    }

    /// Sets how its main thread is held between stops.
    pub fn tie(&mut self, ties: Ties) {
        self.target.ties = ties;
    }

    /// Whether its thread, which stands at a system call, has set its thread pointer.
    pub fn has_thread_pointer(&self) -> bool {
        process::ptrace::registers(self.target.status.pid).is_ok_and(|now| {
            now.fs_base != 0 && self.target.memory.word(now.fs_base).ok() == Some(now.fs_base)
        })
    }

    /// Looks up what the agent must know of threads and of the VM, once they exist.
    pub fn look_again(&mut self) -> Result<()> {
        let target = &mut self.target;
        let maps = Maps::of(target.status.pid)?;
        let memory = target.memory.clone();
        target
            .functions
            .refresh(target.status.pid, &memory, &maps)?;
        let script = Script::find(&memory, &target.functions);
        self.scripts.no_lines = target.stopped(|stop, remote| {
            target.close_gate()?;
            let learnt = learn(&target.resident, &memory, stop, remote, &script);
            target.open_gate()?;
            learnt
        })?;
        self.scripts.script = script;
        Ok(())
    }

    /// Looks up the VM, which is about to run the script. Later notices of this are ignored.
    pub fn script_begins(&mut self) -> Result<()> {
        self.scripts.awaits_script = false;
        let table = &mut self.patcher.table;
        self.target
            .forced(|memory| table.unwant(memory, wire::calls::want::SCRIPT))?;
        self.look_again()
    }

    fn begin(
        ground: Ground,
        residents: Residents,
        image: &Image,
        mut options: Options,
        script: Option<&Script>,
    ) -> Result<Self> {
        let pid = ground.status.pid;
        let session = (heartbeat::unique() as u32).max(1);
        let threads = thread_ids(pid)?.len() as u64;
        options.ring_size = options.fitting(pid, threads)?;
        let start = Start {
            image,
            options: &options,
            session,
            script,
        };
        let mut timing = Timing::default();
        let Taken {
            resident,
            pool,
            no_lines,
            unread,
        } = ground.take(residents, &start, &mut timing)?;
        let Ground {
            status,
            memory,
            gadgets,
            functions,
            ties,
        } = ground;
        // Remote calls use the agent's own `syscall` instruction, because those of the guest may be hooked.
        let agent = resident.base..resident.base + resident.header.size;
        let syscall = gadgets::within(&*memory, agent).unwrap_or(gadgets.syscall);
        let gadgets = Gadgets { syscall, ..gadgets };
        let heartbeat = Heartbeat::start(memory.clone(), &resident);
        let mut areas = Areas::read(&memory, resident.header.calls)?;
        // A thread within the agent may still read programs of a session whose lancet was killed.
        if unread {
            areas.forget_programs();
        }
        let rings = Rings::open(memory.clone(), pool, resident.header.calls, session)?;
        let patience = options.waits()[1];
        let script = script.cloned().unwrap_or_else(Script::unknown);
        Ok(Tracing {
            _heartbeat: heartbeat,
            target: Target {
                held: PidFd::open(status.pid).ok(),
                status,
                memory,
                gadgets,
                resident,
                functions,
                session,
                ties,
                timing: Cell::new(timing),
                max_stop: Some(options.max_stop),
                agents: RefCell::default(),
            },
            patcher: Patcher::new(areas, options.line_tests),
            rings,
            scripts: ScriptReaders::new(script, no_lines),
            system_calls: SystemCalls::new(options.system_calls_alone),
            patience,
            follow: options.follow,
            news: 0,
            loader: 0,
            arrives: Arrives::Now,
            open: true,
        })
    }
}

/// What a session begins with.
struct Start<'a> {
    image: &'a Image,
    options: &'a Options,
    /// The number by which the agent tells the session from others.
    session: u32,
    /// The VM as its libraries tell it; `None` before they are loaded.
    script: Option<&'a Script>,
}

/// A process whose agent is ready for a session.
struct Taken {
    resident: Resident,
    /// Where its threads find rings, if it has a pool of them.
    pool: Option<pool::Pool>,
    /// Why script lines will not be known, if so.
    no_lines: Option<String>,
    /// Whether a thread stands in the agent, so that what hooks read there may not be written over.
    unread: bool,
}

impl Ground {
    /// Stops the process, maps the agent or takes the one that is there, and writes what its hooks must know.
    fn take(
        &self,
        mut residents: Residents,
        start: &Start<'_>,
        timing: &mut Timing,
    ) -> Result<Taken> {
        let Start {
            image,
            options,
            session,
            script,
        } = *start;
        let (pid, memory) = (self.status.pid, &self.memory);
        // Hooks run in every thread, each under its own seccomp filter.
        let filters = allowed::filters(pid)?;
        let stack = first_stack::bounds(pid)?;
        let standstill = Standstill {
            status: &self.status,
            memory,
            gadgets: self.gadgets,
            ties: self.ties,
            threads: Threads::All,
        };
        standstill.run(timing, |stop, remote| {
            let under_filter =
                allowed::check_stopped(pid, stop.threads(), &filters, &seccomp::OF_HOOKS)?;
            let (resident, deserted) = residents.take(remote, memory, image, false)?;
            if deserted {
                pool::close_left(memory, remote)?;
            }
            claim(&resident, memory, options, (session, stack))?;
            let all_allow = |calls: &[seccomp::Call]| {
                let allows = |tid: &i32| seccomp::check(pid, *tid, calls).is_ok();
                under_filter.iter().all(allows)
            };
            let copies = u64::from(all_allow(&seccomp::OF_COPIES));
            let at = resident.header.calls + offset_of!(Calls, copies) as u64;
            memory.write(at, &copies.to_le_bytes())?;
            let wish = pool::Wish {
                ring_size: options.ring_size,
                may: options.ring_size != 0 && all_allow(&seccomp::OF_POOL),
                followed: options.follow,
            };
            let agent = resident.base..resident.base + resident.header.size;
            let tids: Vec<i32> = stop.threads().collect();
            let unread = !threads::stand_in(remote, &tids, &agent)?;
            let pool = pool::open(memory, &resident, remote, wish)?;
            let no_lines = match script {
                Some(script) => learn(&resident, memory, stop, remote, script)?,
                None => None,
            };
            Ok(Taken {
                resident,
                pool,
                no_lines,
                unread,
            })
        })
    }
}

/// Prepares the agent for a session, with all that its hooks must know from the beginning.
fn claim(
    resident: &Resident,
    memory: &GuestMemory,
    options: &Options,
    (session, [stack_low, stack_span]): (u32, [u64; 2]),
) -> Result<()> {
    let pid = memory.pid();
    let us = std::process::id();
    // The agent asks the kernel whether we live; a seccomp filter might treat that system call as an attack.
    let sees_us = Status::read(pid)?.seccomp == 0 && pid_namespace(pid) == pid_namespace(us as i32);
    resident.claim(
        memory,
        &Config {
            session: u64::from(session),
            ..Config::default()
        },
    )?;
    let [most_wait, patience] = options.waits().map(heartbeat::ticks);
    // Hooks need it before the threads have been looked through.
    let tells_pointer = u64::from(state::tells_pointer());
    for (offset, value) in [
        (offset_of!(Calls, tells_pointer), tells_pointer),
        (offset_of!(Calls, stack), stack_low),
        (offset_of!(Calls, stack) + 8, stack_span),
        (offset_of!(Calls, ring_size), options.ring_size),
        (offset_of!(Calls, most_wait), most_wait),
        (offset_of!(Calls, patience), patience),
        (
            offset_of!(Calls, child_patience),
            if sees_us {
                patience
            } else {
                patience.min(heartbeat::ticks(LEAST_PATIENCE))
            },
        ),
        (
            offset_of!(Calls, owner),
            if sees_us { u64::from(us) } else { 0 },
        ),
        (offset_of!(Calls, pid), u64::from(own_id(pid, pid))),
        (offset_of!(Calls, follow), u64::from(options.follow)),
        (offset_of!(Calls, wary), 0),
        (offset_of!(Calls, late), 0),
        (offset_of!(Calls, forking), 0),
        (offset_of!(Calls, silenced), 0),
        (offset_of!(Calls, refused), 0),
        (offset_of!(Calls, room), options.room),
        (offset_of!(Calls, line_policy), options.line_policy),
        (offset_of!(Calls, passed_over), options.passed_over.into()),
        // Words of the previous session are cleared.
        (offset_of!(Calls, line_tests) + 8, 0),
    ] {
        memory.write(resident.header.calls + offset as u64, &value.to_le_bytes())?;
    }
    notices::clear(resident, memory)
}

/// Looks through the threads, which stand still, and writes what is found to the agent. Returns why script lines will
/// not be known, if so.
fn learn(
    resident: &Resident,
    memory: &GuestMemory,
    stop: &Stop,
    remote: &mut RemoteThread,
    script: &Script,
) -> Result<Option<String>> {
    let threads: Vec<i32> = stop.threads().collect();
    let (words, no_lines): (Words, _) = state::find(memory.pid(), memory, &threads, script)?;
    let at = |offset: usize| resident.header.calls + offset as u64;
    for (offset, value) in [
        (offset_of!(Calls, tid_offset), words.tid_offset),
        (offset_of!(Calls, state_offset), words.state_offset),
        (offset_of!(Calls, language), words.language),
    ] {
        memory.write(at(offset), &value.to_le_bytes())?;
    }
    if words.is_wary {
        memory.write(at(offset_of!(Calls, wary)), &1u64.to_le_bytes())?;
    }
    let facts = words.facts.iter().flat_map(|word| word.to_le_bytes());
    memory.write(at(offset_of!(Calls, facts)), &facts.collect::<Vec<u8>>())?;
    remote.call(resident.header.open_calls, 0)?;
    Ok(no_lines)
}
