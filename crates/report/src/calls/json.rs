//! `--json`: one object a line. The schema is docs/calls-json.md; a test holds this file against it.

use super::Layout;
use calls::Line;
use calls::consumer::{Consumer, End};
use calls::event::{At, Event, EventKind};
use calls::signatures::Signatures;
use calls::stacks::Stacks;
use prototypes::capture::{Registers, Returned};
use prototypes::{CallValues, Detail, Show};
use serde::Serialize;
use std::io::{self, Write};

/// Of the layout.
const SCHEMA: u32 = 1;

/// A script's line.
#[derive(Serialize)]
pub struct ScriptLine<'a> {
    path: &'a str,
    line: u32,
    name: &'a str,
}

impl<'a> From<&'a Line> for ScriptLine<'a> {
    fn from(line: &'a Line) -> Self {
        ScriptLine {
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
        line: Option<ScriptLine<'a>>,
        library: Option<ScriptLine<'a>>,
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
        /// Left out where there was none, as nearly always.
        #[serde(skip_serializing_if = "is_zero")]
        panics: u64,
    },
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A call that has not ended.
#[derive(Clone)]
struct Open {
    at: At,
    call: calls::event::Call,
    depth: usize,
}

/// See the module's text.
pub struct Json<'a> {
    layout: Layout,
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
    crate::json::line(out, record)
}

/// Writes what got lost, as every run ends.
pub fn losses(out: &mut dyn Write, end: &End) -> io::Result<()> {
    for (pid, losses) in &end.losses {
        let loss = Record::Loss {
            pid: *pid,
            records: losses.records,
            threads: losses.without_ring,
            counts: losses.uncounted,
            panics: losses.panics,
        };
        write(out, &loss)?;
    }
    Ok(())
}

impl<'a> Json<'a> {
    /// Nothing is written yet.
    pub fn new(layout: Layout, signatures: &'a Signatures, out: Box<dyn Write>) -> Self {
        Json {
            layout,
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
        back: Option<&calls::event::Return>,
    ) -> io::Result<()> {
        let call = &open.call;
        let function = &call.edge.function;
        let known = self.signatures.of(&function.module, &function.name);
        let prototype = known.unwrap_or_else(|| self.signatures.unknown().clone());
        let show = Show {
            detail: Detail {
                strings: self.layout.strings,
                array: self.layout.array,
            },
            like_ltrace: self.layout.ltrace,
            ..Show::default()
        };
        let returned: Option<&Returned> = back.map(|back| &back.returned);
        let shown = CallValues {
            prototype: &prototype,
            registers: &call.registers,
            returned,
        };
        let mut captures = call.captures.clone();
        if let Some(back) = back {
            captures.lay(&back.captures);
        }
        let Registers { gp, sse, .. } = &call.registers;
        // A recording may have more.
        let callers = call.callers.iter().take(self.layout.frames);
        let took = at.map(|at| nanos(at).saturating_sub(nanos(open.at)));
        let record = Record::Call {
            pid: open.at.process,
            tid: open.at.tid,
            time_ns: nanos(open.at),
            duration_ns: took.filter(|_| back.is_some()),
            ended: how,
            depth: open.depth,
            function: &function.name,
            module: &call.edge.module.path,
            address: hex(function.address),
            from: call.edge.from.as_ref().map(|from| &*from.path),
            caller: hex(call.caller),
            arguments: show.all(shown, &captures),
            registers: gp.iter().copied().map(hex).collect(),
            xmm: sse.iter().copied().map(hex).collect(),
            result: back.map(|_| show.returned(shown, &captures)),
            rax: returned.map(|returned| hex(returned.rax)),
            xmm0: returned.map(|returned| hex(returned.sse[0])),
            line: call.line.as_deref().map(ScriptLine::from),
            library: call.library.as_deref().map(ScriptLine::from),
            callers: callers.map(ToString::to_string).collect(),
        };
        write(&mut self.out, &record)
    }
}

impl Consumer for Json<'_> {
    fn take(&mut self, event: Event) -> io::Result<()> {
        let at = event.at;
        let (pid, tid, time_ns) = (at.process, at.tid, nanos(at));
        let record = match &event.kind {
            EventKind::Opened(opened) => Record::Guest {
                schema: SCHEMA,
                pid,
                command: &opened.command,
                vm: (!opened.vm.is_empty()).then_some(&opened.vm),
            },
            EventKind::Signal(signal) => Record::Signal {
                pid,
                tid,
                time_ns,
                signal: *signal,
            },
            EventKind::Forked(child) => {
                self.stacks.fork(pid, *child);
                Record::Fork {
                    pid,
                    tid,
                    time_ns,
                    child: *child,
                }
            }
            EventKind::Ended(end) => {
                for open in self.stacks.drain(Some(pid)) {
                    self.ended(&open, "open", None, None)?;
                }
                Record::End {
                    pid,
                    code: match end {
                        calls::event::End::Exited(code) => Some(*code),
                        _ => None,
                    },
                    signal: match end {
                        calls::event::End::Killed(signal) => Some(*signal),
                        _ => None,
                    },
                    exec: *end == calls::event::End::Replaced,
                }
            }
            EventKind::Call(_) => {
                let EventKind::Call(call) = event.kind else {
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
            EventKind::Return(back) => {
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
