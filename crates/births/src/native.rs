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
mod life;
mod wrappers;

use crate::analysis::{BLOCK, Census, Counts, Frame, Loss, Lost, SiteCount, Uncollected, Unit};
use family::Family;
use frames::live::loaded::Modules;
use hooks::rings::{BlockCounts, BlockSite, Losses};
use hooks::{Tracing, Wanted};
use inject::Timing;
use inject::image::Image;
use inject::tracee::Tracee;
use process::error::{Error, Result};
use process::guest;
use process::maps::Maps;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use wire::calls::want;
use wrappers::Wrappers;

/// Time between two looks that nobody has asked for, and how many times as long as a look it is at least.
const LOOKED: Duration = Duration::from_secs(1);
const LOOK_SHARE: u32 = 50;
/// Most of the places that are named; a process can make them up.
const MOST_NAMES: usize = 1 << 17;

/// What all processes of one run have in common.
pub struct Shared {
    /// The agent's ELF image, which is mapped into each process.
    pub image: Image,
    /// Whether each block is told with the line of the script that ran when it was taken.
    pub lines: bool,
    /// Whether children are searched for, and opened.
    pub follow: bool,
}

/// An event that a process reports.
pub enum Event {
    /// It is left before its time, and why.
    Leaving(i32, String),
    /// It is a program that was started, and is left because its blocks cannot be counted.
    Uncounted(Error),
}

/// A process whose blocks are counted.
pub struct Native {
    tracing: Tracing,
    allocator: Arc<str>,
    wrappers: Wrappers,
    command: Vec<String>,
    names: HashMap<u64, Arc<Frame>>,
    /// Whether lines of scripts are told.
    tells_lines: bool,
    /// Lines of the script, by their places in [`Rings::places`](hooks::rings::Rings::places).
    lines: Vec<Arc<Frame>>,
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
    /// When it has said that it ends, or runs another program, and was looked at.
    parted: Option<Instant>,
    to_leave: bool,
    over: bool,
    /// The main thread of the program that was started. Of any other process none is traced between stops.
    tracee: Option<Tracee>,
    /// The exit code with which that has ended.
    code: Option<i32>,
    /// What stays in it, and why.
    stays: Option<String>,
}

impl Native {
    /// Nothing of it is counted yet.
    fn new(tracing: Tracing, tells_lines: bool) -> Self {
        Native {
            command: guest::command_words(tracing.pid()),
            tracing,
            tells_lines,
            allocator: "".into(),
            wrappers: Wrappers::default(),
            names: HashMap::new(),
            lines: Vec::new(),
            counts: BlockCounts::default(),
            losses: Vec::new(),
            lacking: Vec::new(),
            looked: (Instant::now(), Duration::ZERO),
            silenced: false,
            parted: None,
            to_leave: false,
            over: false,
            tracee: None,
            code: None,
            stays: None,
        }
    }

    /// Finds the functions whose blocks are counted, and prepares the process for that. Returns whose they are as well.
    fn family(&mut self) -> Result<(Arc<str>, Vec<Wanted>)> {
        let Family {
            others,
            allocator,
            grain,
            mut wanted,
        } = Family::of(self.pid(), self.tracing.functions())?;
        wanted.extend(new(&mut self.wrappers, &self.tracing));
        with_lines(&mut wanted, self.asks_lines());
        self.tracing.prepare_blocks(grain)?;
        self.lacking = others
            .iter()
            .map(|name| Loss {
                what: Lost::BirthsAndDeaths,
                count: None,
                text: format!("blocks of {name} are not counted: it has an allocator of its own, and those of {allocator} are counted"),
            })
            .collect();
        Ok((allocator, wanted))
    }

    /// Whether lines of scripts are read.
    fn asks_lines(&self) -> bool {
        self.tells_lines && self.lacks_lines().is_none()
    }

    /// Why no line of a script is told, if none is.
    fn lacks_lines(&self) -> Option<&str> {
        let unknown = self.tracing.vm().is_empty();
        let no_vm = unknown.then_some("it runs no VM whose frames lancet can read");
        self.tracing.no_lines().or(no_vm)
    }

    /// Notes which functions could not be hooked.
    ///
    /// # Errors
    /// One of them is needed.
    fn note_refused(&mut self, refused: &[hooks::Refused]) -> Result<()> {
        let mut refused_ones = refused.iter();
        if let Some(one) = refused_ones.find(|one| family::is_needed(&one.function.name)) {
            return Err(Error::Hook {
                pid: self.pid(),
                function: one.function.name.clone(),
                reason: one.reason.to_string(),
            });
        }
        self.lacking.extend(refused.iter().map(not_hooked));
        Ok(())
    }

    /// Whether its blocks are counted: a program that has just begun has no allocator yet, and that of another cannot be hooked.
    fn counts(&self) -> bool {
        !self.allocator.is_empty()
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
        self.parted.is_some()
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
        self.take_lines();
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
        self.lose_lines(&counts, &lost);
        self.lose(
            Lost::BirthsAndDeaths,
            lost.without_ring,
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
        // Its main thread has ended alone, and others go on.
        if self.parted.is_some_and(|at| at.elapsed() >= LOOKED) {
            self.parted = None;
        }
        self.looked = (Instant::now(), began.elapsed());
        Ok(())
    }

    /// Takes the lines that threads have told since.
    fn take_lines(&mut self) {
        let known = self.lines.len();
        let new = self.tracing.rings().places().iter().skip(known);
        self.lines.extend(new.map(|line| {
            Arc::new(Frame {
                path: line.path.as_str().into(),
                line: line.line,
                method: line.name.as_str().into(),
            })
        }));
    }

    /// Says which lines are not told.
    fn lose_lines(&mut self, counts: &BlockCounts, lost: &Losses) {
        if !self.tells_lines {
            return;
        }
        if let Some(why) = self.lacks_lines() {
            let text = format!("blocks are told without the line of a script: {why}");
            self.losses.push(Loss {
                what: Lost::Lines,
                count: None,
                text,
            });
        }
        self.lose(
            Lost::Lines,
            counts.unlined,
            "blocks are told without the line of the script: there are more functions and lines than lancet tells apart, or there is too little memory for more",
        );
        self.lose(
            Lost::Lines,
            counts.full,
            "threads have used up the places of a script that lancet tells apart (4,094 a thread, those of libraries among them): blocks of others are told without their line",
        );
        self.lose(
            Lost::Lines,
            lost.records.saturating_add(lost.lines),
            "times the line of the script was not told, because there was no room for it: those blocks are told without",
        );
        self.lose(
            Lost::Lines,
            lost.uncopied,
            "pieces of memory that lead to the line of the script could not be read, because a filter or the kernel does not allow process_vm_readv: those blocks are told without",
        );
    }

    /// Looks because it ends, or runs another program.
    fn part(&mut self) {
        let looked = self.look();
        self.parted = looked.is_ok().then(Instant::now);
    }

    /// Reads the lines of scripts. Looks once a second, so that a place has its name before its library is unloaded; and says what the process
    /// has room for now.
    fn keep_up(&mut self) -> Result<()> {
        if self.tells_lines {
            self.tracing.take_lines()?;
        }
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
        let Some(modules) = modules(&self.tracing) else {
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

    /// The function of a site, and the script's line.
    fn frames(&self, site: &BlockSite, nowhere: &Arc<Frame>) -> Vec<Arc<Frame>> {
        let function = self.names.get(&site.caller).unwrap_or(nowhere).clone();
        let line = site.line.and_then(|line| self.lines.get(line));
        [Some(function), line.cloned()]
            .into_iter()
            .flatten()
            .collect()
    }

    /// The last look as a census; `watch` is its number, `since` when it began.
    pub fn census(&self, watch: u64, since: Instant) -> Census {
        let nowhere = Arc::new(Frame {
            path: "".into(),
            line: 0,
            method: "code that is not named".into(),
        });
        let site = |site: &BlockSite| SiteCount {
            frames: self.frames(site, &nowhere),
            kind: BLOCK.into(),
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

/// The process's files as they are now; `None` if they cannot be read.
fn modules(tracing: &Tracing) -> Option<Modules> {
    let maps = Maps::read(tracing.pid()).ok()?;
    Modules::of_guest(tracing.pid(), &maps, &**tracing.memory()).ok()
}

/// The forms of `operator new` that must be hooked; of the others it is noted how their callers are found.
fn new(wrappers: &mut Wrappers, tracing: &Tracing) -> Vec<Wanted> {
    let memory = &**tracing.memory();
    let hooked = wrappers.find(tracing.functions(), memory, || modules(tracing));
    // A process that cannot be written to has ended.
    let _ = tracing.pass_on(&wrappers.known);
    hooked
}

/// Has these functions note the script's line with what they take, if that is asked for.
fn with_lines(wanted: &mut [Wanted], asked: bool) {
    let taking = wanted
        .iter_mut()
        .filter(|one| asked && one.blocks.is_taking());
    taking.for_each(|one| one.want |= want::PLACE);
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

fn counts(site: &BlockSite) -> Counts {
    let live = site.born.saturating_sub(site.dead);
    let bytes = site.born_bytes.saturating_sub(site.dead_bytes);
    Counts {
        allocated: site.born_bytes,
        ..Counts::of_births(site.born, live, bytes)
    }
}
