//! Reports a program's system calls before it can be hooked: what its tracer sees becomes events like those of
//! hooks. Used by `bpf`, `hooked_later` and `stepped`.

use super::super::lookup::Known;
use super::super::traced::{Begun, CallStop, FirstExec, NO_RING, OF_32_BITS, Table, Told, Traced};
use super::Guest;
use super::plan::Plan;
use crate::event::{At, Call, Event, EventKind, Return};
use crate::options::Options;
use crate::select::Selection;
use crate::signatures::Signatures;
use process::clock;
use process::functions::Function;
use process::ptrace;
use prototypes::capture::Returned;
use prototypes::show::Captures;
use std::cell::RefCell;
use std::rc::Rc;

/// Returns how each system call is reported of a process that is not hooked; what the kernel writes is copied `whole` where a tracer copies it.
pub fn table(args: &Options, signatures: &Rc<Signatures>, whole: bool) -> Table {
    // Frames are those of functions, which are not seen here.
    let args = Options {
        frames: 0,
        ..args.clone()
    };
    let selection = Selection::of(&args);
    let mut plan = Plan::new(&args, &selection);
    if whole {
        plan.copy_whole();
    }
    if args.condition.is_none() {
        let signatures = signatures.clone();
        let known = RefCell::new(Known::default());
        return Table::asked_later(Box::new(move |number| {
            let function = selection.system_call(number, OF_32_BITS)?;
            let edge = known.borrow_mut().system_call(&selection, &function)?;
            let asked = plan.uncopied(&signatures, vec![function], vec![Vec::new()]);
            let (wanted, prototype) = asked.into_iter().next()?;
            Told::new(&wanted, prototype, plan.copying(), edge)
        }));
    }
    // What a condition does not fit is said before the first call.
    table_of(&plan, &selection, &mut Known::default(), signatures)
}

fn table_of(
    plan: &Plan,
    selection: &Selection,
    known: &mut Known,
    signatures: &Signatures,
) -> Table {
    let of = |functions: Vec<Function>| {
        let callers = vec![Vec::new(); functions.len()];
        plan.uncopied(signatures, functions, callers)
    };
    let mut wanted = of(selection.system_calls());
    wanted.extend(of(selection.system_calls_of_32_bits(OF_32_BITS)));
    Table::new(wanted, plan.copying(), |one| {
        known.system_call(selection, &one.function)
    })
}

impl Guest {
    /// Makes the tracer see its system calls from now on.
    pub(super) fn see_system_calls(&mut self, signatures: &Signatures) {
        let (known, selection) = (&mut self.known, &self.selection);
        let table = table_of(&self.plan, selection, known, signatures);
        self.traced = Some(Traced::new(table.into()));
    }

    /// Whether its main thread must stop at each system call.
    pub fn is_traced(&self) -> bool {
        self.traced.is_some()
    }

    /// Whether that is so and its thread is in a system call.
    pub(super) fn is_in_traced_call(&self) -> bool {
        self.traced.as_ref().is_some_and(Traced::is_inside)
    }

    /// Reports the exec that has led to the program.
    pub(super) fn tell_exec(&mut self, exec: &FirstExec, tell: &mut dyn FnMut(Event)) {
        let (Some((begun, copied)), Some(traced)) = (exec.take(), &self.traced) else {
            return;
        };
        let Some(told) = traced.told(begun.number) else {
            return;
        };
        self.introduce(tell);
        let now = clock::now();
        self.tell_call(&begun, &told, copied, tell);
        self.tell_return(&begun, 0, (Captures::new(), now), tell);
    }

    /// Reports the start or the end of a system call at which its main thread stands.
    pub(super) fn tell_traced(&mut self, tell: &mut dyn FnMut(Event)) {
        let now = clock::now();
        let pid = self.pid();
        let stop = ptrace::system_call(pid).ok().flatten();
        let (Some(stop), Some(traced)) = (stop, &mut self.traced) else {
            return;
        };
        let agent = self.tracing.agent();
        let Some(what) = traced.stands(&stop, now, |at| agent.contains(&at)) else {
            return;
        };
        self.introduce(tell);
        let memory = self.tracing.memory().clone();
        match what {
            CallStop::Call(begun, told) => {
                let frame = if self.callers.are_wanted() {
                    ptrace::registers(pid).map_or(0, |registers| registers.rbp)
                } else {
                    0
                };
                let copied = begun.copied(&told, None, &memory, frame);
                if told.least == 0 {
                    self.tell_call(&begun, &told, copied, tell);
                } else if let Some(traced) = &mut self.traced {
                    traced.hold(copied);
                }
            }
            CallStop::Return(begun, told, result) => {
                let copied = begun.copied(&told, Some(result), &memory, 0);
                let held = self.traced.as_mut().and_then(Traced::held);
                if now.wrapping_sub(begun.ticks) < told.least {
                    return;
                }
                if let Some(held) = held {
                    self.tell_call(&begun, &told, held, tell);
                }
                self.tell_return(&begun, result, (copied, now), tell);
            }
        }
    }

    fn tell_call(
        &mut self,
        begun: &Begun,
        told: &Told,
        mut captures: Captures,
        tell: &mut dyn FnMut(Event),
    ) {
        let (caller, frame) = (begun.instruction, begun.registers.stack);
        let callers = self.callers.of(&self.tracing, caller, frame, &mut captures);
        let call = Call {
            edge: told.edge.clone(),
            caller,
            registers: begun.registers,
            line: None,
            library: None,
            callers,
            captures,
        };
        let at = self.traced_at(frame, begun.ticks);
        tell(Event {
            at,
            kind: EventKind::Call(call),
        });
    }

    fn tell_return(
        &mut self,
        begun: &Begun,
        rax: u64,
        (captures, ticks): (Captures, u64),
        tell: &mut dyn FnMut(Event),
    ) {
        let returned = Returned {
            rax,
            ..Returned::default()
        };
        let at = self.traced_at(begun.registers.stack, ticks);
        tell(Event {
            at,
            kind: EventKind::Return(Return { returned, captures }),
        });
    }

    fn traced_at(&mut self, frame: u64, ticks: u64) -> At {
        let pid = self.pid();
        let period = self.clock.period();
        At {
            process: pid,
            tid: pid as u32,
            ring: NO_RING,
            stack: self.known.stack(pid, frame),
            frame,
            time: self.clock.wall(ticks, period),
        }
    }
}
