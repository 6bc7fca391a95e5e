//! `--json`: one object a line. The schema is docs/calls-json.md; a test holds this file against it.

use super::signatures::Signatures;
use super::sink::{End, Sink};
use super::stacks::Stacks;
use super::told::{self, At, Told, What};
use crate::cli::CallsArgs;
use process::lanes::Line;
use prototypes::capture::{Registers, Returned};
use prototypes::{Call, Detail, Show};
use serde::Serialize;
use std::io::{self, Write};

/// Of the layout.
const SCHEMA: u32 = 1;

/// A script's line.
#[derive(Serialize)]
pub struct Place<'a> {
    path: &'a str,
    line: u32,
    name: &'a str,
}

impl<'a> From<&'a Line> for Place<'a> {
    fn from(line: &'a Line) -> Self {
        Place {
            path: &line.path,
            line: line.line,
            name: &line.name,
        }
    }
}

#[derive(Serialize)]
#[serde(tag = "record", rename_all = "lowercase")]
#[expect(
    clippy::large_enum_variant,
    reason = "most are the large one, and each is written at once"
)]
enum Record<'a> {
    Guest {
        schema: u32,
        pid: i32,
        command: &'a [String],
        vm: Option<&'a str>,
    },
    Call {
        pid: i32,
        tid: u32,
        time_ns: u64,
        duration_ns: Option<u64>,
        ended: &'a str,
        depth: usize,
        function: &'a str,
        module: &'a str,
        address: String,
        from: Option<&'a str>,
        caller: String,
        arguments: Vec<String>,
        registers: Vec<String>,
        xmm: Vec<String>,
        result: Option<String>,
        rax: Option<String>,
        xmm0: Option<String>,
        line: Option<Place<'a>>,
        library: Option<Place<'a>>,
        callers: Vec<String>,
    },
    Signal {
        pid: i32,
        tid: u32,
        time_ns: u64,
        signal: i32,
    },
    Fork {
        pid: i32,
        tid: u32,
        time_ns: u64,
        child: i32,
    },
    End {
        pid: i32,
        code: Option<i32>,
        signal: Option<i32>,
        exec: bool,
    },
    Loss {
        pid: i32,
        records: u64,
        threads: u64,
        counts: u64,
    },
}

/// A call that has not ended.
#[derive(Clone)]
struct Open {
    at: At,
    call: told::Call,
    depth: usize,
}

/// See the module's text.
pub struct Json<'a> {
    args: &'a CallsArgs,
    signatures: &'a Signatures,
    out: Box<dyn Write>,
    stacks: Stacks<Open>,
}

fn hex(word: u64) -> String {
    format!("{word:#x}")
}

fn nanos(at: At) -> u64 {
    at.time.as_nanos() as u64
}

fn write(out: &mut dyn Write, record: &Record) -> io::Result<()> {
    serde_json::to_writer(&mut *out, record)?;
    writeln!(out)
}

/// Writes what got lost, as every run ends.
pub fn losses(out: &mut dyn Write, end: &End) -> io::Result<()> {
    for (pid, losses) in &end.losses {
        let loss = Record::Loss {
            pid: *pid,
            records: losses.records,
            threads: losses.unlaned,
            counts: losses.uncounted,
        };
        write(out, &loss)?;
    }
    Ok(())
}

impl<'a> Json<'a> {
    /// Nothing is written yet.
    pub fn new(args: &'a CallsArgs, signatures: &'a Signatures, out: Box<dyn Write>) -> Self {
        Json {
            args,
            signatures,
            out,
            stacks: Stacks::default(),
        }
    }

    /// Writes a call: with what it returned and when, or how else it ended.
    fn ended(
        &mut self,
        open: &Open,
        how: &str,
        at: Option<At>,
        back: Option<&told::Return>,
    ) -> io::Result<()> {
        let call = &open.call;
        let function = &call.function;
        let known = self.signatures.of(&function.module, &function.name);
        let prototype = known.unwrap_or_else(|| self.signatures.unknown().clone());
        let show = Show {
            detail: Detail {
                strings: self.args.strings(),
                array: self.args.array,
            },
            like_ltrace: self.args.ltrace,
            ..Show::default()
        };
        let returned: Option<&Returned> = back.map(|back| &back.returned);
        let shown = Call {
            prototype: &prototype,
            registers: &call.registers,
            returned,
        };
        let mut pieces = call.pieces.clone();
        if let Some(back) = back {
            pieces.lay(&back.pieces);
        }
        let Registers { gp, sse, .. } = &call.registers;
        // A recording may have more.
        let callers = call.callers.iter().take(self.args.frames);
        let took = at.map(|at| nanos(at).saturating_sub(nanos(open.at)));
        let record = Record::Call {
            pid: open.at.pid,
            tid: open.at.tid,
            time_ns: nanos(open.at),
            duration_ns: took.filter(|_| back.is_some()),
            ended: how,
            depth: open.depth,
            function: &function.name,
            module: &call.way.module.path,
            address: hex(function.address),
            from: call.way.from.as_ref().map(|from| &*from.path),
            caller: hex(call.caller),
            arguments: show.all(shown, &pieces),
            registers: gp.iter().copied().map(hex).collect(),
            xmm: sse.iter().copied().map(hex).collect(),
            result: back.map(|_| show.returned(shown, &pieces)),
            rax: returned.map(|returned| hex(returned.rax)),
            xmm0: returned.map(|returned| hex(returned.sse[0])),
            line: call.line.as_deref().map(Place::from),
            library: call.library.as_deref().map(Place::from),
            callers: callers.map(ToString::to_string).collect(),
        };
        write(&mut self.out, &record)
    }
}

impl Sink for Json<'_> {
    fn take(&mut self, told: Told) -> io::Result<()> {
        let at = told.at;
        let (pid, tid, time_ns) = (at.pid, at.tid, nanos(at));
        let record = match &told.what {
            What::Opened(opened) => Record::Guest {
                schema: SCHEMA,
                pid,
                command: &opened.command,
                vm: (!opened.vm.is_empty()).then_some(&opened.vm),
            },
            What::Signal(signal) => Record::Signal {
                pid,
                tid,
                time_ns,
                signal: *signal,
            },
            What::Forked(child) => {
                self.stacks.fork(pid, *child);
                Record::Fork {
                    pid,
                    tid,
                    time_ns,
                    child: *child,
                }
            }
            What::Ended(end) => {
                for open in self.stacks.drain(Some(pid)) {
                    self.ended(&open, "open", None, None)?;
                }
                Record::End {
                    pid,
                    code: match end {
                        told::End::Exited(code) => Some(*code),
                        _ => None,
                    },
                    signal: match end {
                        told::End::Killed(signal) => Some(*signal),
                        _ => None,
                    },
                    exec: *end == told::End::Replaced,
                }
            }
            What::Call(_) => {
                let What::Call(call) = told.what else {
                    return Ok(());
                };
                let open = Open { at, call, depth: 0 };
                let (depth, unwound) = self.stacks.enter(at, open);
                if let Some(open) = self.stacks.last(at) {
                    open.depth = depth;
                }
                for open in unwound {
                    self.ended(&open.call, "left", None, None)?;
                }
                return Ok(());
            }
            What::Return(back) => {
                let Some((open, _, inside)) = self.stacks.leave(at) else {
                    return Ok(());
                };
                for open in inside {
                    self.ended(&open.call, "left", None, None)?;
                }
                return self.ended(&open, "returned", Some(at), Some(back));
            }
        };
        write(&mut self.out, &record)
    }

    fn rest(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn finish(&mut self, end: End) -> io::Result<()> {
        for open in self.stacks.drain(None) {
            self.ended(&open, "open", None, None)?;
        }
        losses(&mut self.out, &end)?;
        self.out.flush()
    }
}
