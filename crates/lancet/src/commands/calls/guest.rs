//! One traced process: hooked as the selection says, read, left.

mod life;

pub use life::{End, Step};

use super::select::Selection;
use super::signatures::Signatures;
use crate::cli::CallsArgs;
use crate::ui::advice::explain;
use process::clock::Clock;
use process::functions::Function;
use process::hooks::{Arrives, CALL_THROUGH, Options, Refused, Tracing, Wanted};
use process::lanes::{Counted, Line, What};
use process::tracee::Tracee;
use process::{Error, Image};
use prototypes::capture::{Registers, Returned};
use prototypes::{Detail, Pieces};
use std::time::{Duration, Instant};
use wire::calls::want;

/// A function, a line, and what was counted of both.
pub type Row = (String, String, Counted);

/// Bytes of a thread's ring.
const RING: u64 = 1 << 20;
/// Words of a record for copies, at least, and for each character that is wanted of a string.
const LEAST_ROOM: u64 = 512;

/// What happened, as it is printed.
pub enum Told {
    /// A call.
    Call {
        /// The process.
        pid: i32,
        /// The thread.
        tid: u32,
        /// Which of the reader's lanes.
        lane: u32,
        /// Names the call until it returns.
        frame: u64,
        /// Since 1970.
        time: Duration,
        /// The function.
        function: Function,
        /// The return address.
        caller: u64,
        /// Its arguments.
        registers: Registers,
        /// What they point to.
        pieces: Pieces,
        /// The script's line.
        line: Option<String>,
    },
    /// A return.
    Return {
        /// The process.
        pid: i32,
        /// The thread.
        tid: u32,
        /// Which of the reader's lanes.
        lane: u32,
        /// See `Call`.
        frame: u64,
        /// Since 1970.
        time: Duration,
        /// What it returns.
        returned: Returned,
        /// What that and late arguments point to.
        pieces: Vec<(u64, Vec<u8>)>,
    },
    /// A signal came for a program that we started.
    Signal {
        /// The process.
        pid: i32,
        /// Since 1970.
        time: Duration,
        /// Its number.
        signal: i32,
    },
    /// It has a child, with a copy of its open calls.
    Forked {
        /// The process.
        pid: i32,
        /// The child.
        child: i32,
    },
    /// The process has ended.
    Ended {
        /// The process.
        pid: i32,
        /// Since 1970.
        time: Duration,
        /// How.
        end: End,
    },
}

/// See the module's text.
pub struct Guest {
    tracing: Tracing,
    clock: Clock,
    selection: Selection,
    plan: Plan,
    /// We stay its tracer.
    tracee: Option<Tracee>,
    life: life::Life,
    /// Its lanes are no more.
    gone: bool,
}

/// How functions are hooked.
struct Plan {
    want: u64,
    detail: Detail,
    copies: bool,
}

impl Plan {
    fn all(&self, signatures: &Signatures, functions: Vec<Function>) -> Vec<Wanted> {
        let wanted = functions.into_iter().map(|function| {
            let prototype = signatures.of(&function.module, &function.name);
            let copy = prototype
                .as_ref()
                .filter(|_| self.copies)
                .map(|of| of.capture(self.detail));
            let copy = copy.unwrap_or_default();
            Wanted {
                stack: prototype
                    .as_ref()
                    .filter(|of| of.format().is_none())
                    .map(|of| of.places().used.stack),
                want: self.want,
                copy: [copy.call, copy.exit],
                routine: CALL_THROUGH,
                function,
            }
        });
        wanted.collect()
    }
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
        let (asked, functions) = guest.asked();
        let wanted = guest.plan.all(signatures, functions);
        let refused = guest.tracing.set(wanted).map_err(explain)?;
        announce(&guest.tracing, asked, &refused, began.elapsed());
        Ok(guest)
    }

    fn new(tracing: Tracing, args: &CallsArgs) -> Self {
        Guest {
            tracing,
            clock: Clock::start(),
            selection: Selection::new(args.x.clone(), args.callers(), args.l.clone()),
            plan: Plan {
                want: wanted_of(args),
                detail: Detail {
                    strings: args.strings,
                    array: args.array,
                },
                copies: !args.count,
            },
            tracee: None,
            life: life::Life::default(),
            gone: false,
        }
    }

    /// The functions that are asked for, and how many; says which are not there.
    fn asked(&self) -> (usize, Vec<Function>) {
        let pid = self.tracing.pid();
        let functions = self.selection.functions(self.tracing.functions());
        for (name, like) in self.selection.unknown(self.tracing.functions(), &functions) {
            let like = match like.is_empty() {
                true => String::new(),
                false => format!(" (like it: {})", like.join(", ")),
            };
            eprintln!(
                "lancet: process {pid} has no function {name} yet{like}; it is hooked when a library brings it"
            );
        }
        (functions.len(), functions)
    }

    /// Hooks what is wanted of a library that was loaded, while its loader waits for us.
    fn follow(&mut self, signatures: &Signatures) -> Result<(), Error> {
        let first = self.tracing.arrives() != Arrives::Now;
        let began = Instant::now();
        let before = self.tracing.hooked();
        let (selection, plan) = (&self.selection, &self.plan);
        let refused = self
            .tracing
            .follow(|functions| plan.all(signatures, selection.functions(functions)))?;
        if first {
            let (asked, _) = self.asked();
            announce(&self.tracing, asked, &refused, began.elapsed());
            return Ok(());
        }
        let pid = self.tracing.pid();
        let more = self.tracing.hooked().saturating_sub(before);
        if more != 0 {
            eprintln!("lancet: process {pid} has loaded a library: {more} more functions hooked");
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
        let mut told = Vec::new();
        let lanes = self.tracing.lanes();
        let any = lanes
            .look()
            .and_then(|()| lanes.drain(|one| told.push(one)));
        self.tell(told, tell);
        any.unwrap_or_else(|_| {
            self.gone = true;
            false
        })
    }

    /// Hands on what lanes told, in the order of time.
    fn tell(&mut self, mut told: Vec<process::lanes::Told>, tell: &mut dyn FnMut(Told)) {
        let pid = self.tracing.pid();
        told.sort_by_key(|one| one.ticks);
        let period = match told.is_empty() {
            true => 0.0,
            false => self.clock.period(),
        };
        for one in told {
            let time = self.clock.wall(one.ticks, period);
            match one.what {
                What::Call {
                    hook,
                    place,
                    frame,
                    caller,
                    registers,
                    rest,
                } => {
                    let functions = self.tracing.functions();
                    let Some(function) = self.tracing.function(hook) else {
                        continue;
                    };
                    if !self.selection.shows(functions, function, caller) {
                        continue;
                    }
                    let function = function.clone();
                    let (sse, copies) = halves::<8>(&rest);
                    let mut pieces = Pieces::new();
                    for (at, bytes) in copied(copies) {
                        pieces.add(at, &bytes);
                    }
                    let [rdi, rsi, rdx, rcx, r8, r9, _] = registers;
                    let line = place.map(|place| self.tracing.lanes().places()[place].clone());
                    tell(Told::Call {
                        pid,
                        tid: one.tid,
                        lane: one.lane,
                        frame,
                        time,
                        function,
                        caller,
                        registers: Registers {
                            gp: [rdi, rsi, rdx, rcx, r8, r9],
                            sse,
                            stack: frame,
                        },
                        pieces,
                        line: line.map(|line| line_text(&line)),
                    });
                }
                What::Forked { child } => tell(Told::Forked {
                    pid,
                    child: self.tracing.process_here(child),
                }),
                What::Return {
                    frame,
                    registers,
                    rest,
                    ..
                } => {
                    let (sse, copies) = halves::<2>(&rest);
                    tell(Told::Return {
                        pid,
                        tid: one.tid,
                        lane: one.lane,
                        frame,
                        time,
                        returned: Returned {
                            rax: registers[0],
                            rdx: registers[1],
                            sse,
                            ..Returned::default()
                        },
                        pieces: copied(copies),
                    });
                }
            }
        }
    }

    /// Its id.
    pub fn pid(&self) -> i32 {
        self.tracing.pid()
    }
}

fn options(args: &CallsArgs) -> Options {
    Options {
        ring: RING,
        most_wait: args.max_wait,
        room: LEAST_ROOM + u64::from(args.strings) / 8 * 2,
        follow: args.follow,
    }
}

fn wanted_of(args: &CallsArgs) -> u64 {
    let place = if args.ltrace { 0 } else { want::PLACE };
    match args.count {
        true => want::COUNT | place,
        false => want::ENTRY | want::RETURN | want::FLOATS | place,
    }
}

/// The first words, if the record has them, and the rest.
fn halves<const N: usize>(rest: &[u64]) -> ([u64; N], &[u64]) {
    match rest.split_first_chunk::<N>() {
        Some((first, rest)) => (*first, rest),
        None => ([0; N], rest),
    }
}

/// Copies of memory: address, bytes, and so many, padded.
fn copied(mut words: &[u64]) -> Vec<(u64, Vec<u8>)> {
    let mut pieces = Vec::new();
    while let [at, length, rest @ ..] = words {
        let length = *length as usize;
        let count = length.div_ceil(8);
        if count > rest.len() {
            break;
        }
        let bytes = rest[..count].iter().flat_map(|word| word.to_le_bytes());
        pieces.push((*at, bytes.take(length).collect()));
        words = &rest[count..];
    }
    pieces
}

/// `app.rb:12 in 'show'`.
fn line_text(line: &Line) -> String {
    match line {
        // The empty frame in which the VM calls a library's `Init_`.
        Line { line: 0, path, .. } => path.clone(),
        Line { name, path, line } if name.is_empty() => format!("{path}:{line}"),
        Line { name, path, line } => format!("{path}:{line} in '{name}'"),
    }
}

/// How many refusals are said one by one.
const MOST_SAID: usize = 5;

fn announce(tracing: &Tracing, asked: usize, refused: &[Refused], took: Duration) {
    eprintln!(
        "lancet: process {}: {} of {asked} functions hooked in {:.1} ms; it stood still for {:.1} ms",
        tracing.pid(),
        tracing.hooked(),
        took.as_secs_f64() * 1e3,
        tracing.timing().longest_stop.as_secs_f64() * 1e3,
    );
    say_refused(refused);
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

fn say_refused(refused: &[Refused]) {
    for refused in refused.iter().take(MOST_SAID) {
        let function = &refused.function;
        eprintln!(
            "lancet: not hooked: {} in {}: {}",
            function.name, function.module, refused.reason
        );
    }
    if refused.len() > MOST_SAID {
        eprintln!("lancet: not hooked: {} more", refused.len() - MOST_SAID);
    }
}
