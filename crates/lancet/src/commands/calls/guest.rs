//! One traced process: hooked as the selection says, read, left.

use super::select::Selection;
use super::signatures::Signatures;
use crate::cli::CallsArgs;
use crate::guests::AGENT;
use crate::ui::advice::explain;
use process::clock::Clock;
use process::functions::Function;
use process::hooks::{CALL_THROUGH, Options, Refused, Tracing, Wanted};
use process::lanes::{Counted, Line, Losses, What};
use process::{Error, Image};
use prototypes::capture::{Registers, Returned};
use prototypes::{Detail, Pieces, Place, Prototype};
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
}

/// See the module's text.
pub struct Guest {
    tracing: Tracing,
    clock: Clock,
    selection: Selection,
    plan: Plan,
    threads: Vec<u32>,
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
                want: self.want | prototype.as_ref().map_or(0, |of| self.x87(of)),
                copy: [copy.call, copy.exit],
                routine: CALL_THROUGH,
                function,
            }
        });
        wanted.collect()
    }
}

impl Plan {
    /// What a record of its return has of the x87's registers.
    fn x87(&self, prototype: &Prototype) -> u64 {
        match prototype.places().returned {
            Place::X87 if self.want & want::RETURN != 0 => want::X87,
            Place::ComplexX87 if self.want & want::RETURN != 0 => want::X87_PAIR,
            _ => 0,
        }
    }
}

impl Guest {
    /// Opens and hooks a process; says on standard error how that went.
    pub fn open(pid: i32, args: &CallsArgs, signatures: &Signatures) -> anyhow::Result<Self> {
        let image = Image::parse(AGENT)?;
        let began = Instant::now();
        let options = Options {
            ring: RING,
            most_wait: args.max_wait,
            room: LEAST_ROOM + u64::from(args.strings) / 8 * 2,
        };
        let mut tracing = Tracing::open(pid, &image, options).map_err(explain)?;
        let selection = Selection::new(args.x.clone(), args.callers(), args.l.clone());
        let functions = selection.functions(tracing.functions());
        for (name, like) in selection.unknown(tracing.functions(), &functions) {
            let like = match like.is_empty() {
                true => String::new(),
                false => format!(" (like it: {})", like.join(", ")),
            };
            eprintln!(
                "lancet: process {pid} has no function {name} yet{like}; it is hooked when a library brings it"
            );
        }
        let asked = functions.len();
        let plan = Plan {
            want: wanted_of(args),
            detail: Detail {
                strings: args.strings,
                array: args.array,
            },
            copies: !args.count,
        };
        let wanted = plan.all(signatures, functions);
        let refused = tracing.set(wanted).map_err(explain)?;
        announce(&tracing, asked, &refused, began.elapsed());
        Ok(Guest {
            tracing,
            clock: Clock::start(),
            selection,
            plan,
            threads: Vec::new(),
            gone: false,
        })
    }

    /// Hooks what is wanted of a library that was loaded, while its loader waits for us.
    pub fn follow(&mut self, signatures: &Signatures) -> Result<(), Error> {
        if !self.tracing.has_news()? {
            return Ok(());
        }
        let before = self.tracing.ever_hooked();
        let (selection, plan) = (&self.selection, &self.plan);
        let refused = self
            .tracing
            .follow(|functions| plan.all(signatures, selection.functions(functions)))?;
        let pid = self.tracing.pid();
        let more = self.tracing.ever_hooked() - before;
        if more != 0 {
            eprintln!("lancet: process {pid} has loaded a library: {more} more functions hooked");
        }
        say_refused(&refused);
        Ok(())
    }

    /// Reads what there is; whether there was anything. A guest that ended, or that runs another program now, takes its
    /// lanes with it.
    pub fn read(&mut self, tell: &mut impl FnMut(Told)) -> bool {
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
            let how = match self.tracing.is_alive() {
                true => "runs another program now (exec)",
                false => "ended",
            };
            eprintln!("lancet: process {} {how}", self.tracing.pid());
            false
        })
    }

    /// Hands on what lanes told, in the order of time.
    fn tell(&mut self, mut told: Vec<process::lanes::Told>, tell: &mut impl FnMut(Told)) {
        let pid = self.tracing.pid();
        told.sort_by_key(|one| one.ticks);
        let period = match told.is_empty() {
            true => 0.0,
            false => self.clock.period(),
        };
        for one in told {
            if !self.threads.contains(&one.tid) {
                self.threads.push(one.tid);
            }
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
                What::Return {
                    frame,
                    registers,
                    x87,
                    rest,
                    ..
                } => {
                    let (sse, rest) = halves::<2>(&rest);
                    let (st, copies) = rest.split_at(x87.min(rest.len()));
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
                            x87: x87_registers(st),
                        },
                        pieces: copied(copies),
                    });
                }
            }
        }
    }

    /// Whether calls of more than one thread were seen.
    pub fn has_threads(&self) -> bool {
        self.threads.len() > 1
    }

    /// What was counted, by function and line, with nanoseconds for a cycle.
    pub fn counted(&mut self) -> Result<(Vec<Row>, f64), Error> {
        let counted = self.tracing.lanes().counted()?;
        let named = counted
            .into_iter()
            .filter_map(|count| {
                let name = self.tracing.function(count.hook)?.name.clone();
                let places = self.tracing.lanes().places();
                let line = count.place.map(|place| line_text(&places[place]));
                Some((name, line.unwrap_or_default(), count))
            })
            .collect();
        Ok((named, self.clock.period()))
    }

    /// What got lost.
    pub fn losses(&mut self) -> Result<Losses, Error> {
        self.tracing.lanes().losses()
    }

    /// Whether it still runs.
    pub fn is_alive(&self) -> bool {
        !self.gone && self.tracing.is_alive()
    }

    /// Its id.
    pub fn pid(&self) -> i32 {
        self.tracing.pid()
    }

    /// Takes the hooks out; what was told before can still be read.
    pub fn leave(&mut self) -> Result<(), Error> {
        if !self.tracing.leave()? {
            eprintln!(
                "lancet: process {}: calls are still to return through our frames (a blocked call, a parked fiber); the unwinder's hook stays for them",
                self.tracing.pid()
            );
        }
        Ok(())
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

/// st(0) and st(1): ten bytes of each two words.
fn x87_registers(words: &[u64]) -> [[u8; 10]; 2] {
    let mut registers = [[0; 10]; 2];
    for (register, pair) in registers.iter_mut().zip(words.as_chunks::<2>().0) {
        register[..8].copy_from_slice(&pair[0].to_le_bytes());
        register[8..].copy_from_slice(&pair[1].to_le_bytes()[..2]);
    }
    registers
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
    if let Some(reason) = tracing.no_lines() {
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
