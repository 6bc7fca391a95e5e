//! One traced process: hooked as the selection says, read, left.

use super::known::Known;
use super::pace::Pace;
use super::select::Selection;
use super::signatures::Signatures;
use super::sink::Sink;
use super::source::Count;
use super::told::{At, Call, Opened, Return, Told, What};
use crate::cli::CallsArgs;
use crate::guests::AGENT;
use crate::preset::Preset;
use crate::ui::advice::explain;
use process::clock::Clock;
use process::functions::Function;
use process::hooks::{CALL_THROUGH, Options, Refused, Tracing, Wanted};
use process::lanes::Losses;
use process::{Error, Image};
use prototypes::capture::{Registers, Returned};
use prototypes::{Detail, Pieces};
use std::io;
use std::time::{Duration, Instant};
use wire::calls::want;

/// Bytes of a thread's ring.
const RING: u64 = 1 << 20;
/// Words of a record for copies, at least, and for each character that is wanted of a string.
const LEAST_ROOM: u64 = 512;

/// See the module's text.
pub struct Guest {
    tracing: Tracing,
    clock: Clock,
    selection: Selection,
    plan: Plan,
    known: Known,
    pace: Pace,
    /// What follows a record's fixed part.
    rest: Vec<u64>,
    /// It was said what it is.
    introduced: bool,
    /// Its lanes are no more.
    gone: bool,
    /// Says nothing but what went wrong, as ltrace does.
    quiet: bool,
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
    pub fn open(pid: i32, args: &CallsArgs, signatures: &Signatures) -> anyhow::Result<Self> {
        let image = Image::parse(AGENT)?;
        let began = Instant::now();
        let options = Options {
            ring: RING,
            most_wait: args.most_wait(),
            room: LEAST_ROOM + u64::from(args.kept_of_strings()) / 8 * 2,
        };
        let mut tracing = Tracing::open(pid, &image, options).map_err(explain)?;
        let presets = args.presets.iter().flat_map(Preset::filters).collect();
        let selection = Selection::new(args.x.clone(), presets, args.callers(), args.l.clone());
        let functions = selection.functions(tracing.functions());
        for (name, like) in selection.unknown(tracing.functions(), &functions) {
            let like = match like.is_empty() {
                true => String::new(),
                false => format!(" (like it: {})", like.join(", ")),
            };
            if !args.ltrace {
                eprintln!(
                    "lancet: process {pid} has no function {name} yet{like}; it is hooked when a library brings it"
                );
            }
        }
        if functions.is_empty() && !args.presets.is_empty() {
            eprintln!(
                "lancet: process {pid} has no function of the preset yet; they are hooked when a library brings them"
            );
        }
        let asked = functions.len();
        let plan = Plan {
            want: wanted_of(args, &selection),
            detail: Detail {
                strings: args.kept_of_strings(),
                array: args.array,
            },
            copies: !args.counts_there(),
        };
        let wanted = plan.all(signatures, functions);
        let refused = tracing.set(wanted).map_err(explain)?;
        if !args.ltrace {
            announce(&tracing, asked, &refused, began.elapsed());
        }
        Ok(Guest {
            tracing,
            clock: Clock::start(),
            selection,
            plan,
            known: Known::default(),
            pace: Pace::new(RING / 8),
            rest: Vec::new(),
            introduced: false,
            gone: false,
            quiet: args.ltrace,
        })
    }

    /// Hooks what is wanted of a library that was loaded, while its loader waits for us.
    pub fn follow(&mut self, signatures: &Signatures) -> Result<(), Error> {
        if !self.tracing.has_news()? {
            return Ok(());
        }
        self.known.forget_ways();
        let before = self.tracing.hooked();
        let (selection, plan) = (&self.selection, &self.plan);
        let refused = self
            .tracing
            .follow(|functions| plan.all(signatures, selection.functions(functions)))?;
        let pid = self.tracing.pid();
        let more = self.tracing.hooked().saturating_sub(before);
        if self.quiet {
            return Ok(());
        }
        if more != 0 {
            eprintln!("lancet: process {pid} has loaded a library: {more} more functions hooked");
        }
        say_refused(&refused);
        Ok(())
    }

    /// Reads what there is; whether there was anything. A guest that ended, or that runs another program now, takes its
    /// lanes with it.
    pub fn read(&mut self, sink: &mut dyn Sink) -> io::Result<bool> {
        if self.gone {
            return Ok(false);
        }
        self.introduce(sink)?;
        let most = self.pace.next();
        let lanes = self.tracing.lanes();
        let any = lanes.look().and_then(|()| lanes.fill(most));
        self.tell(sink)?;
        self.pace.read(matches!(any, Ok(true)));
        Ok(any.unwrap_or_else(|_| {
            self.gone = true;
            let how = match self.tracing.is_alive() {
                true => "runs another program now (exec)",
                false => "ended",
            };
            if !self.quiet {
                eprintln!("lancet: process {} {how}", self.tracing.pid());
            }
            false
        }))
    }

    /// Says what it is, once.
    fn introduce(&mut self, sink: &mut dyn Sink) -> io::Result<()> {
        if std::mem::replace(&mut self.introduced, true) {
            return Ok(());
        }
        let pid = self.tracing.pid();
        let at = At {
            pid,
            tid: pid as u32,
            ..At::default()
        };
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words = command.split(|byte| *byte == 0);
        let mut command: Vec<String> = words
            .map(|word| String::from_utf8_lossy(word).into_owned())
            .collect();
        // A NUL ends each.
        command.pop();
        let opened = Opened {
            command,
            vm: self.tracing.vm().to_owned(),
        };
        sink.take(Told {
            at,
            what: What::Opened(opened),
        })
    }

    /// Hands on what lanes told, in the order of time.
    fn tell(&mut self, sink: &mut dyn Sink) -> io::Result<()> {
        let pid = self.tracing.pid();
        let mut period = None;
        let mut rest = std::mem::take(&mut self.rest);
        while let Some(one) = self.tracing.lanes().next(&mut rest) {
            let period = *period.get_or_insert_with(|| self.clock.period());
            let (frame, what) = match one.what {
                process::lanes::What::Call {
                    hook,
                    place,
                    frame,
                    caller,
                    registers,
                } => {
                    let known = self.known.way(&self.tracing, &self.selection, hook, caller);
                    let Some((way, shown)) = known else {
                        continue;
                    };
                    let (sse, copies) = halves::<8>(&rest);
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
                        pieces: copied(copies),
                        line: place.and_then(|place| self.known.line(&mut self.tracing, place)),
                    };
                    (frame, What::Call(call))
                }
                process::lanes::What::Return {
                    frame, registers, ..
                } => {
                    let (sse, copies) = halves::<2>(&rest);
                    let back = Return {
                        returned: Returned {
                            rax: registers[0],
                            rdx: registers[1],
                            sse,
                            ..Returned::default()
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
            sink.take(Told { at, what })?;
        }
        self.rest = rest;
        Ok(())
    }

    /// What was counted.
    pub fn counted(&mut self) -> Result<Vec<Count>, Error> {
        let counted = self.tracing.lanes().counted()?;
        let period = self.clock.period();
        let named = counted.into_iter().filter_map(|counted| {
            Some(Count {
                function: self.known.function(&self.tracing, counted.hook)?,
                line: counted
                    .place
                    .and_then(|place| self.known.line(&mut self.tracing, place)),
                counted,
                period,
            })
        });
        Ok(named.collect())
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

fn wanted_of(args: &CallsArgs, selection: &Selection) -> u64 {
    let place = if args.ltrace { 0 } else { want::PLACE };
    match args.counts_there() {
        // Which module called is seen from the record only.
        true if selection.asks_callers() => want::ENTRY | want::RETURN | place,
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
fn copied(mut words: &[u64]) -> Pieces {
    let mut pieces = Pieces::new();
    let mut bytes = Vec::new();
    while let [at, length, rest @ ..] = words {
        let length = *length as usize;
        let count = length.div_ceil(8);
        if count > rest.len() {
            break;
        }
        bytes.clear();
        for word in &rest[..count] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        pieces.add(*at, &bytes[..length]);
        words = &rest[count..];
    }
    pieces
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
