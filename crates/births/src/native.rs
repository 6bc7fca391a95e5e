//! Blocks that a process has taken from its allocator and not given back (`mem --native`): memory that no VM knows.
//!
//! ```text
//!   malloc, free … ─► hooks (hooks::blocks) ─► counted in the process, by the place that the call returns to
//!   a look          ─► the rows of all threads, read from outside ─► births, deaths and bytes by function ─► Census
//! ```
//!
//! Deaths are counted, so a look walks over nothing, holds nobody, and needs no collection. What was taken before lancet came is not known: when
//! it is given back, nothing is counted. Used by crate `lancet`.

pub mod attached;
mod family;

use crate::analysis::{Census, Counts, Frame, Loss, Lost, SiteCount, Uncollected, Unit};
use family::Family;
use frames::live::loaded::Modules;
use hooks::rings::{BlockCounts, BlockSite};
use hooks::{Options, Says, Tracing};
use inject::Timing;
use inject::image::Image;
use inject::lifecycle::{Stage, Turn, Watched, leave_past_events};
use inject::tracee::{Happening, Tracee};
use process::error::{Error, Result};
use process::guest;
use process::maps::Maps;
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// Bytes of a thread's ring, in which there is nothing but who the thread is.
const RING: u64 = 1 << 16;
/// How long a thread waits for room there; and without it none would wait at the process's end until it was looked at.
const MOST_WAIT: Duration = Duration::from_millis(100);
/// How long the process may stand still at once while hooks are set.
const MAX_STOP: Duration = Duration::from_millis(10);
/// Time between two looks that nobody has asked for, and how many times as long as a look it is at least.
const LOOKED: Duration = Duration::from_secs(1);
const LOOK_SHARE: u32 = 50;
/// Most of the places that are named; a process can make them up.
const MOST_NAMES: usize = 1 << 17;

/// What all processes of one run have in common.
pub struct Shared {
    /// The agent's ELF image, which is mapped into each process.
    pub image: Image,
}

/// An event that a process reports.
pub enum Event {
    /// It is left before its time, and why.
    Leaving(i32, String),
}

/// A process whose blocks are counted.
pub struct Native {
    tracing: Tracing,
    allocator: Arc<str>,
    command: Vec<String>,
    names: HashMap<u64, Arc<Frame>>,
    /// The counts of the last look.
    counts: BlockCounts,
    /// What was lost until the last look.
    losses: Vec<Loss>,
    /// Functions that could not be hooked, and why; and other allocators: what is wrong from the beginning.
    lacking: Vec<Loss>,
    /// When it was looked at last, and how long that took.
    looked: (Instant, Duration),
    /// It was silenced for a while, because lancet stood still.
    silenced: bool,
    /// It has said that it ends, or runs another program, and was looked at then.
    parted: bool,
    to_leave: bool,
    over: bool,
    /// None: it is not traced between stops.
    tracee: Option<Tracee>,
    /// What stays in it, and why.
    stays: Option<String>,
}

impl Native {
    /// Opens a process and counts its blocks from then on.
    fn start(pid: i32, image: &Image) -> Result<Self> {
        let options = Options {
            ring_size: RING,
            most_wait: MOST_WAIT,
            room: 0,
            line_tests: Vec::new(),
            line_policy: 0,
            passed_over: 0,
            follow: false,
            system_calls_alone: false,
            max_stop: MAX_STOP,
        };
        let mut tracing = Tracing::open(pid, image, options)?;
        let Family {
            others,
            allocator,
            grain,
            wanted,
        } = Family::of(pid, tracing.functions())?;
        let refused = tracing.count_blocks(grain, wanted)?;
        let mut refused_ones = refused.iter();
        if let Some(one) = refused_ones.find(|one| family::is_needed(&one.function.name)) {
            return Err(Error::Hook {
                pid,
                function: one.function.name.clone(),
                reason: one.reason.to_string(),
            });
        }
        let others = others.iter().map(|name| Loss {
            what: Lost::BirthsAndDeaths,
            count: None,
            text: format!("blocks of {name} are not counted: it has an allocator of its own, and those of {allocator} are counted"),
        });
        let lacking = others.chain(refused.iter().map(not_hooked)).collect();
        Ok(Native {
            tracing,
            allocator,
            command: guest::command_words(pid),
            names: HashMap::new(),
            counts: BlockCounts::default(),
            losses: Vec::new(),
            lacking,
            looked: (Instant::now(), Duration::ZERO),
            silenced: false,
            parted: false,
            to_leave: false,
            over: false,
            tracee: None,
            stays: None,
        })
    }

    /// The process id.
    pub fn pid(&self) -> i32 {
        self.tracing.pid()
    }

    /// Whose blocks are counted.
    pub fn counted(&self) -> String {
        format!("malloc of {}", self.allocator)
    }

    /// How often and how long it stood still.
    pub fn timing(&self) -> Timing {
        self.tracing.timing()
    }

    /// Whether it has said that it ends or runs another program, so that the last look is what it held then.
    pub fn has_parted(&self) -> bool {
        self.parted
    }

    /// Whether it had to be left before its time.
    pub fn was_to_leave(&self) -> bool {
        self.to_leave
    }

    /// What stays in it, and why.
    pub fn stays(&mut self) -> Option<String> {
        self.stays.take()
    }

    /// Notes the counts as they are now.
    pub fn look(&mut self) -> Result<()> {
        let began = Instant::now();
        let counts = self.tracing.blocks()?;
        self.name(&counts);
        let lost = self.tracing.rings().losses()?;
        self.losses.clone_from(&self.lacking);
        self.lose(Lost::Births, counts.unnoted, "blocks are not counted: there was no memory for what is noted of them, there are more places than lancet tells apart, or where the block is could not be read");
        self.lose(
            Lost::BirthsAndDeaths,
            counts.replaced,
            "deaths were not seen, until another block was taken at the same address: such blocks are counted as living meanwhile",
        );
        self.lose(
            Lost::Rows,
            counts.unread,
            "rows of single threads are not read: there are too many",
        );
        self.lose(
            Lost::BirthsAndDeaths,
            lost.without_ring.saturating_add(lost.records),
            "calls of the allocator are not counted: their threads had no room for what is noted of them",
        );
        self.lose(
            Lost::BirthsAndDeaths,
            lost.panics,
            "faults of the agent: nothing was counted from the first on",
        );
        if self.silenced {
            self.losses.push(Loss {
                what: Lost::BirthsAndDeaths,
                count: None,
                text: "blocks are not counted that were taken or given back while lancet stood still for more than 5 s".into(),
            });
        }
        self.counts = counts;
        self.looked = (Instant::now(), began.elapsed());
        Ok(())
    }

    /// Looks once a second, so that a place has its name before its library is unloaded; and says what the process has room for now.
    fn keep_up(&mut self) -> Result<()> {
        let (at, took) = self.looked;
        if at.elapsed() >= LOOKED.max(took * LOOK_SHARE) {
            self.tracing.bound_blocks()?;
            self.look()?;
        }
        Ok(())
    }

    fn lose(&mut self, what: Lost, count: u64, words: &str) {
        if count != 0 {
            self.losses.push(Loss {
                what,
                count: Some(count),
                text: format!("{count} {words}"),
            });
        }
    }

    /// Finds the functions of places that have none yet, as long as their libraries are loaded.
    fn name(&mut self, counts: &BlockCounts) {
        let callers = counts.sites.iter().map(|site| site.caller);
        let new: Vec<u64> = callers
            .filter(|caller| !self.names.contains_key(caller))
            .take(MOST_NAMES - self.names.len().min(MOST_NAMES))
            .collect();
        if new.is_empty() {
            return;
        }
        let memory = &**self.tracing.memory();
        let Ok(maps) = Maps::read(self.pid()) else {
            return;
        };
        let Ok(modules) = Modules::of_guest(self.pid(), &maps, memory) else {
            return;
        };
        for caller in new {
            // An address in the call instruction, because the next instruction may belong to another function.
            let at = caller.wrapping_sub(1);
            let frame = match modules.at(at) {
                Some(file) => {
                    let function = file.function(memory, at);
                    Frame {
                        path: file.path.display().to_string().into(),
                        line: 0,
                        method: function
                            .name
                            .unwrap_or_else(|| {
                                format!(
                                    "function at {:#x}",
                                    function.start.wrapping_sub(file.range.start)
                                )
                            })
                            .into(),
                    }
                }
                None => Frame {
                    path: "".into(),
                    line: 0,
                    method: format!("code at {at:#x}").into(),
                },
            };
            self.names.insert(caller, Arc::new(frame));
        }
    }

    /// Handles the notices of its threads.
    fn handle_notices(&mut self, turn: &mut Turn<'_, Self>) -> Result<bool> {
        let notices = self.tracing.notices()?;
        for notice in &notices {
            let ours = notice.pid == self.pid();
            match notice.says {
                Says::Ends(_) | Says::Exec if ours => self.parted = self.look().is_ok(),
                Says::ExecFailed if ours => self.parted = false,
                Says::Locks { program } => {
                    if let Some(why) = self.tracing.is_locked_out(notice, program) {
                        turn.tell(Event::Leaving(self.pid(), why));
                        // The thread waits until the process has been left.
                        self.to_leave = true;
                        return Ok(true);
                    }
                }
                _ => {}
            }
            self.tracing.handled_notice(notice)?;
        }
        Ok(!notices.is_empty())
    }

    /// Handles that libraries have come or gone.
    fn follow(&mut self) -> Result<()> {
        // What is unloaded must have its names before.
        let _ = self.look();
        let wanted = |tracing: &Tracing| family::new(tracing.functions());
        let refused = self.tracing.follow(wanted, Vec::new())?;
        self.lacking.extend(refused.iter().map(not_hooked));
        Ok(())
    }

    /// The last look as a census; `watch` is its number, `since` when it began.
    pub fn census(&self, watch: u64, since: Instant) -> Census {
        let nowhere = Arc::new(Frame {
            path: "".into(),
            line: 0,
            method: "code that is not named".into(),
        });
        let site = |site: &BlockSite| SiteCount {
            frames: vec![self.names.get(&site.caller).unwrap_or(&nowhere).clone()],
            kind: KIND.into(),
            internal: false,
            counts: counts(site),
        };
        Census {
            pid: self.pid(),
            watch,
            command: self.command.clone(),
            root: guest::working_directory(self.pid()).unwrap_or_default(),
            version: self.counted(),
            unit: Unit::Block,
            seconds: since.elapsed().as_secs_f64(),
            taken_at: Some(SystemTime::now()),
            sites: self.counts.sites.iter().map(site).collect(),
            losses: self.losses.clone(),
            uncollected: Uncollected::Ran,
            ..Census::default()
        }
    }
}

/// A function that is not counted, because it cannot be hooked.
fn not_hooked(one: &hooks::Refused) -> Loss {
    let name = &one.function.name;
    Loss {
        what: Lost::BirthsAndDeaths,
        count: None,
        text: format!(
            "calls of {name} are not counted by themselves: {}",
            one.reason
        ),
    }
}

/// The type of what is counted.
const KIND: &str = "block";

fn counts(site: &BlockSite) -> Counts {
    let live = site.born.saturating_sub(site.dead);
    let bytes = site.born_bytes.saturating_sub(site.dead_bytes);
    Counts {
        allocated: site.born_bytes,
        ..Counts::of_births(site.born, live, bytes)
    }
}

impl Watched for Native {
    const TRACES_ALL: bool = false;
    type Shared<'a> = Shared;
    type Start = Infallible;
    type Event = Event;
    type Error = Error;

    fn open(pid: i32, shared: &Shared) -> Result<Self> {
        Native::start(pid, &shared.image)
    }

    fn at_exec(
        tracee: Tracee,
        _: bool,
        _: &Shared,
    ) -> std::result::Result<Stage<Self>, (Tracee, Error)> {
        Ok(Stage::Plain(tracee))
    }

    fn go_on(start: &Infallible, _: &mut Tracee) -> Result<()> {
        match *start {}
    }

    fn proceed(
        start: Infallible,
        _: Tracee,
        _: bool,
        _: &Shared,
    ) -> std::result::Result<Stage<Self>, (Tracee, Error)> {
        match start {}
    }

    fn leave_start(start: &mut Infallible) -> Result<()> {
        match *start {}
    }

    fn opened(&self, _: &mut dyn inject::lifecycle::Observer<Self>) {}

    fn tracee(&mut self) -> &mut Option<Tracee> {
        &mut self.tracee
    }

    fn stands(&mut self, _: Happening, _: &Shared, _: &mut Turn<'_, Self>) {}

    fn is_unseen(&mut self) {
        self.over = true;
    }

    fn poll(&mut self, _: &Shared, turn: &mut Turn<'_, Self>) -> bool {
        if self.over {
            return false;
        }
        if let Ok(Some(_)) = self.tracing.end_silence() {
            self.silenced = true;
        }
        let any = self.handle_notices(turn).unwrap_or(false);
        // That it has ended is seen below; what cannot be read is said at the next look.
        let _ = self.keep_up();
        if self.tracing.has_news().unwrap_or(false)
            && let Err(error) = self.follow()
            && !error.is_left()
        {
            turn.tell(Event::Leaving(self.pid(), error.to_string()));
            self.to_leave = true;
        }
        if !self.tracing.is_alive() || self.tracing.is_replaced() {
            self.over = true;
        }
        any
    }

    fn is_to_leave(&self) -> bool {
        self.to_leave
    }

    fn is_over(&self) -> bool {
        self.over
    }

    fn code(&self) -> Option<i32> {
        None
    }

    fn leave(&mut self) -> Result<()> {
        if self.over {
            return Ok(());
        }
        // What is known when the gate closes stays known.
        let _ = self.tracing.end_silence();
        let left = leave_past_events(None, || self.tracing.leave())?;
        self.stays = left.map(|stays| self.tracing.why(stays));
        Ok(())
    }
}
