//! One traced process: hooked as the selection says, read, left.

mod life;
mod picks;
mod plan;
mod record;
mod teller;
mod vforks;

pub use life::Step;

use super::callers::{self, Callers};
use super::known::Known;
use super::names::Names;
use super::pace::{self, Pace};
use super::select::Selection;
use super::signatures::Signatures;
use super::told::{self, At, Call, Opened, Return, Told, What};
use crate::cli::CallsArgs;
use crate::preset::Preset;
use crate::ui::advice::explain;
use plan::Plan;
use process::clock::Clock;
use process::functions::Function;
use process::hooks::{Arrives, Options, Refused, Tracing, Wanted};
use process::tracee::Tracee;
use process::{Error, Image};
use prototypes::Filter;
use prototypes::capture::{Registers, Returned};
use record::{copied, halves, x87_registers};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use vforks::{Turn, Vforks};

/// Bytes of a thread's ring.
const RING: u64 = 1 << 20;
/// Words of a record for copies, at least, and for each character that is wanted of a string.
const LEAST_ROOM: u64 = 512;

/// See the module's text.
pub struct Guest {
    tracing: Tracing,
    clock: Clock,
    selection: Selection,
    names: Names,
    plan: Plan,
    known: Known,
    pace: Pace,
    /// What follows a record's fixed part.
    rest: Vec<u64>,
    /// It was said what it is.
    introduced: bool,
    /// We stay its tracer.
    tracee: Option<Tracee>,
    life: life::Life,
    /// Its lanes are no more.
    gone: bool,
    /// Says nothing but what went wrong, as ltrace does.
    quiet: bool,
    callers: Callers,
    vforks: Vforks,
}

impl Guest {
    /// Opens and hooks a process; says on standard error how that went.
    pub fn open(
        pid: i32,
        args: &CallsArgs,
        image: &Image,
        signatures: &Signatures,
    ) -> anyhow::Result<Self> {
        let began = Instant::now();
        let tracing = Tracing::open(pid, image, options(args)).map_err(explain)?;
        let mut guest = Guest::new(tracing, args);
        guest.say_unknown();
        let wanted = guest.wanted(signatures);
        let asked = wanted.iter().map(|one| one.names.len().max(1)).sum();
        if asked == 0 && guest.selection.is_a_presets() && !guest.quiet {
            eprintln!(
                "lancet: process {pid} has no function of the preset yet; they are hooked when a library brings them"
            );
        }
        if asked == 0 && guest.names.were_refused() && !guest.names.are_awaited() {
            anyhow::bail!("process {pid}: nothing of what was asked for can be hooked");
        }
        if guest.names.are_awaited() {
            guest.tracing.expect_definitions().map_err(explain)?;
        }
        let mut refused = guest.tracing.set(wanted).map_err(explain)?;
        refused.extend(guest.set_system_calls(signatures).map_err(explain)?);
        if !guest.quiet {
            announce(&guest.tracing, asked, &refused, began.elapsed());
        }
        Ok(guest)
    }

    fn new(tracing: Tracing, args: &CallsArgs) -> Self {
        let presets: Vec<Filter> = args.presets.iter().flat_map(Preset::filters).collect();
        let names = Names::of(&args.x, &presets);
        let selection = Selection::new(args.x.clone(), presets, args.callers(), args.l.clone())
            .with_system_calls(args.system_calls);
        Guest {
            tracing,
            clock: Clock::start(),
            plan: Plan::new(args, &selection),
            selection,
            names,
            known: Known::default(),
            pace: Pace::new(RING / 8),
            rest: Vec::new(),
            introduced: false,
            tracee: None,
            life: life::Life::default(),
            gone: false,
            quiet: args.ltrace,
            callers: Callers::new(args.frames),
            vforks: Vforks::new(args.follow),
        }
    }

    /// Hooks system calls, if they are asked for, where it makes them now and, from then on, in libraries that come.
    fn set_system_calls(&mut self, signatures: &Signatures) -> Result<Vec<Refused>, Error> {
        let wanted = self.plan.system_calls(signatures, &self.selection);
        self.tracing.set_system_calls(wanted)
    }

    /// What is wanted of it as it is now.
    fn wanted(&mut self, signatures: &Signatures) -> Vec<Wanted> {
        let (plan, tracing, selection) = (&self.plan, &self.tracing, &self.selection);
        plan.wanted(tracing, signatures, selection, &mut self.names)
    }

    /// Says which functions are not there; how many are, that are asked for.
    fn say_unknown(&self) -> usize {
        let pid = self.tracing.pid();
        let functions = self.selection.functions(self.tracing.functions());
        let probes = self.selection.probes(self.tracing.functions());
        let mut found = functions.clone();
        found.extend(probes.into_iter().map(|probe| probe.function));
        for (name, like) in self.selection.unknown(self.tracing.functions(), &found) {
            let like = match like.is_empty() {
                true => String::new(),
                false => format!(" (like it: {})", like.join(", ")),
            };
            if !self.quiet {
                eprintln!(
                    "lancet: process {pid} has no function {name} yet{like}; it is hooked when a library brings it"
                );
            }
        }
        found.len()
    }

    /// Hooks what is wanted of a library that was loaded, while its loader waits for us.
    fn follow(&mut self, signatures: &Signatures) -> Result<(), Error> {
        let first = self.tracing.arrives() != Arrives::Now;
        let began = Instant::now();
        self.callers.forget();
        self.known.forget_ways();
        let before = self.tracing.ever_hooked();
        let (selection, plan, names) = (&self.selection, &self.plan, &mut self.names);
        let by_number = match first {
            true => plan.system_calls(signatures, selection),
            false => Vec::new(),
        };
        let refused = self.tracing.follow(
            |tracing| plan.wanted(tracing, signatures, selection, names),
            by_number,
        )?;
        if self.names.are_awaited() {
            self.tracing.expect_definitions()?;
        }
        if self.quiet {
            return Ok(());
        }
        if first {
            let asked = self.say_unknown() + self.names.found();
            announce(&self.tracing, asked, &refused, began.elapsed());
            return Ok(());
        }
        let pid = self.tracing.pid();
        let more = self.tracing.ever_hooked() - before;
        if self.quiet {
            return Ok(());
        }
        if more != 0 {
            eprintln!("lancet: process {pid} has loaded a library: {more} more functions hooked");
        }
        say_refused(&refused);
        Ok(())
    }

    /// Hooks what has been defined of the names that are awaited.
    fn look_for_names(&mut self, signatures: &Signatures) -> Result<(), Error> {
        let before = self.tracing.ever_hooked();
        if !self.names.look(&self.tracing) {
            return Ok(());
        }
        self.known.forget_ways();
        let wanted = self.wanted(signatures);
        let refused = self.tracing.add(wanted)?;
        if self.quiet {
            return Ok(());
        }
        let more = self.tracing.ever_hooked() - before;
        if more != 0 {
            eprintln!(
                "lancet: process {} has defined what is asked for: {more} more functions hooked",
                self.tracing.pid()
            );
        }
        say_refused(&refused);
        Ok(())
    }

    /// Reads what there is; whether there was anything. A guest that ended, or that runs another program now, takes its
    /// lanes with it.
    pub fn read(&mut self, tell: &mut dyn FnMut(Told)) -> bool {
        if self.gone {
            return false;
        }
        self.introduce(tell);
        let most = self.pace.next();
        let lanes = self.tracing.lanes();
        let there = lanes.look();
        let any = lanes.fill(most);
        self.tell(tell);
        let any = matches!(any, Ok(true));
        self.pace.read(any);
        // What is shared with it outlives it.
        self.gone = there.is_err() && !any;
        if let (true, Err(error)) = (self.gone, there) {
            self.fail(&error);
        }
        any
    }

    /// Reads everything that it has told up to now.
    pub fn drain(&mut self, tell: &mut dyn FnMut(Told)) {
        // A look takes at least so much of each lane; what comes meanwhile is not waited for.
        for _ in 0..RING / 8 / pace::LEAST {
            if !self.read(tell) {
                return;
            }
        }
    }

    /// Says what it is, once.
    fn introduce(&mut self, tell: &mut dyn FnMut(Told)) {
        if std::mem::replace(&mut self.introduced, true) {
            return;
        }
        let pid = self.tracing.pid();
        let at = At {
            pid,
            tid: pid as u32,
            ..At::default()
        };
        tell(Told {
            at,
            what: What::Opened(self.opened()),
        });
    }

    fn opened(&self) -> Opened {
        let command = format!("/proc/{}/cmdline", self.pid());
        let command = std::fs::read(command).unwrap_or_default();
        let words = command.split(|byte| *byte == 0);
        let mut command: Vec<String> = words
            .map(|word| String::from_utf8_lossy(word).into_owned())
            .collect();
        // A NUL ends each.
        command.pop();
        Opened {
            command,
            vm: self.tracing.vm().to_owned(),
        }
    }

    /// Hands on what lanes told, in the order of time.
    fn tell(&mut self, tell: &mut dyn FnMut(Told)) {
        let pid = self.tracing.pid();
        let mut period = None;
        let mut rest = std::mem::take(&mut self.rest);
        while let Some(one) = self.tracing.lanes().next(&mut rest) {
            let period = *period.get_or_insert_with(|| self.clock.period());
            let (frame, what) = match one.what {
                process::lanes::What::Call {
                    hook,
                    place,
                    library,
                    frame,
                    caller,
                    registers,
                } => {
                    let known = self.known.way(&self.tracing, &self.selection, hook, caller);
                    let Some((way, shown)) = known else {
                        continue;
                    };
                    let (sse, copies) = halves::<8>(&rest);
                    let mut pieces = copied(copies);
                    let callers = &mut self.callers;
                    let callers = callers.of(&self.tracing, caller, frame, &mut pieces);
                    let [rdi, rsi, rdx, rcx, r8, r9, _] = registers;
                    let call = Call {
                        function: way.function.clone(),
                        way,
                        shown,
                        caller,
                        registers: Registers {
                            gp: [rdi, rsi, rdx, rcx, r8, r9],
                            sse,
                            stack: frame,
                        },
                        line: place.and_then(|place| self.known.line(&mut self.tracing, place)),
                        library: library
                            .and_then(|place| self.known.line(&mut self.tracing, place)),
                        callers,
                        pieces,
                    };
                    (frame, What::Call(call))
                }
                process::lanes::What::Forked { child } => {
                    let here = self.tracing.process_here(child);
                    self.vforks.forked(one.lane, child, here);
                    (0, What::Forked(here))
                }
                process::lanes::What::Return {
                    frame,
                    registers,
                    x87,
                    ..
                } => {
                    let (sse, rest) = halves::<2>(&rest);
                    let (st, copies) = rest.split_at(x87.min(rest.len()));
                    let back = Return {
                        returned: Returned {
                            rax: registers[0],
                            rdx: registers[1],
                            sse,
                            x87: x87_registers(st),
                        },
                        pieces: copied(copies),
                    };
                    (frame, What::Return(back))
                }
            };
            let at = At {
                pid,
                tid: one.tid,
                lane: one.lane,
                stack: self.known.stack(pid, frame),
                frame,
                time: self.clock.wall(one.ticks, period),
            };
            let (at, turn) = self.vforks.speaks(at);
            match turn {
                None => {}
                Some(Turn::Begins) => tell(Told {
                    at,
                    what: What::Opened(self.opened()),
                }),
                Some(Turn::Over(child)) => tell(Told {
                    at: At { pid: child, ..at },
                    what: What::Ended(told::End::Unknown),
                }),
            }
            tell(Told { at, what });
        }
        self.rest = rest;
    }

    /// Its id.
    pub fn pid(&self) -> i32 {
        self.tracing.pid()
    }
}

fn options(args: &CallsArgs) -> Options {
    let (line_tests, teller) = teller::of(args);
    Options {
        ring: RING,
        most_wait: args.most_wait(),
        room: LEAST_ROOM
            + u64::from(args.kept_of_strings()) / 8 * 2
            + if args.frames == 0 { 0 } else { callers::ROOM },
        follow: args.follow,
        line_tests,
        teller,
    }
}

/// How many functions are named for each reason that some were refused for.
const MOST_SAID: usize = 20;

fn announce(tracing: &Tracing, asked: usize, refused: &[Refused], took: Duration) {
    let [places, all] = tracing.system_calls();
    let functions = format!("{} of {asked} functions", tracing.hooked());
    let system_calls = format!("system calls at {places} of {all} places");
    let what = match (asked, all) {
        (_, 0) => functions,
        (0, _) => system_calls,
        _ => format!("{functions} and {system_calls}"),
    };
    eprintln!(
        "lancet: process {}: {what} hooked in {:.1} ms; it stood still for {:.1} ms",
        tracing.pid(),
        took.as_secs_f64() * 1e3,
        tracing.timing().longest_stop.as_secs_f64() * 1e3,
    );
    say_refused(refused);
    picks::say_awaited(tracing);
    say_no_lines(tracing);
}

/// Why no script lines will be told; a program that has just begun may still make a VM.
fn say_no_lines(tracing: &Tracing) {
    if let Some(reason) = tracing.no_lines()
        && !tracing.awaits_script()
    {
        eprintln!("lancet: no script lines: {reason}");
    }
}

/// By reason, each with its functions.
fn say_refused(refused: &[Refused]) {
    let mut by_reason: BTreeMap<&str, Vec<&Function>> = BTreeMap::new();
    for refused in refused {
        let functions = by_reason.entry(&refused.reason).or_default();
        functions.push(&refused.function);
    }
    for (reason, functions) in by_reason {
        let names = functions.iter().take(MOST_SAID);
        let names: Vec<&str> = names.map(|function| function.name.as_str()).collect();
        let more = match functions.len().saturating_sub(MOST_SAID) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        eprintln!("lancet: not hooked: {}{more}: {reason}", names.join(", "));
    }
}
