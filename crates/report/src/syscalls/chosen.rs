//! Calls on some paths alone (`-P`): those that are handed one of them, or a descriptor of one. Used by
//! `lancet::commands::syscalls::args`.

use super::Naming;
use calls::consumer::{Consumer, Forgotten, SourceEnd};
use calls::event::{At, CallEdge, Event, EventKind};
use calls::memo::Memo;
use calls::signatures::Signatures;
use calls::stacks::{Kept, OpenCalls};
use prototypes::show::Captures;
use prototypes::types::Prototype;
use std::io;
use std::rc::Rc;
use syscalls::RawCall;

/// What is kept of a call until it returns.
struct Open {
    plan: Rc<(String, Prototype)>,
    arguments: [u64; 6],
    entry: Captures,
    shown: bool,
}

impl Kept for Open {
    fn beside(&self) -> usize {
        self.entry.size()
    }
}

/// Hands on the calls on some paths, and leaves out all others.
pub struct OnPaths<'a> {
    next: Box<dyn Consumer + 'a>,
    paths: Vec<String>,
    naming: Naming,
    /// What comes next follows descriptors, too, in the same table.
    next_follows: bool,
    signatures: &'a Signatures,
    plans: Memo<CallEdge, Rc<(String, Prototype)>>,
    stacks: OpenCalls<Rc<Open>>,
}

impl<'a> OnPaths<'a> {
    /// Hands on to `next` what is of one of the paths, and all that is no call. A path is also what it leads to now.
    /// `naming` is the table of descriptors, and whether `next` follows them in it, too.
    pub fn before(
        next: Box<dyn Consumer + 'a>,
        paths: &[String],
        signatures: &'a Signatures,
        naming: (Naming, bool),
    ) -> Self {
        let mut all = paths.to_vec();
        for path in paths {
            let led = std::fs::canonicalize(path).ok();
            let led = led.map(|path| path.to_string_lossy().into_owned());
            all.extend(led.filter(|led| !paths.contains(led)));
        }
        OnPaths {
            next,
            paths: all,
            naming: naming.0,
            next_follows: naming.1,
            signatures,
            plans: Memo::default(),
            stacks: OpenCalls::default(),
        }
    }

    fn is_asked(&self, process: i32, call: &RawCall) -> bool {
        let strings = call.paths();
        if strings.iter().any(|path| self.paths.contains(path)) {
            return true;
        }
        let named = |number| self.naming.path(process, number);
        let mut paths = call.numbers().into_iter().filter_map(named);
        paths.any(|path| self.paths.contains(&path))
    }

    /// A call is made; whether it is shown.
    fn called(&mut self, at: At, call: &calls::event::Call) -> bool {
        let signatures = self.signatures;
        let make = |edge: &CallEdge| {
            let function = &edge.function;
            let known = signatures.of(&function.module, &function.name);
            let prototype = known.unwrap_or_else(|| signatures.unknown().clone());
            Rc::new((function.name.clone(), prototype))
        };
        let plan = self.plans.of(&call.edge, make).clone();
        let mut open = Open {
            plan,
            arguments: call.registers.gp,
            entry: call.captures.clone(),
            shown: false,
        };
        let called = self::call(&open, None);
        let shown = self.is_asked(at.process, &called);
        if !(shown && self.next_follows) {
            self.naming.enter(at.process, &called);
        }
        open.shown = shown;
        self.stacks.enter(at, Rc::new(open));
        shown
    }

    fn came_back(&mut self, at: At, back: &calls::event::Return) -> bool {
        let Some((open, ..)) = self.stacks.leave(at) else {
            return true;
        };
        let returned = Some((&back.captures, back.returned.rax));
        if !(open.shown && self.next_follows) {
            self.naming.leave(at.process, &call(&open, returned));
        }
        open.shown
    }
}

fn call<'a>(open: &'a Open, returned: Option<(&'a Captures, u64)>) -> RawCall<'a> {
    RawCall {
        name: &open.plan.0,
        prototype: &open.plan.1,
        arguments: &open.arguments,
        entry: &open.entry,
        returned,
        descriptors: None,
        processes: None,
        netlink: None,
        namespaces: None,
    }
}

impl Consumer for OnPaths<'_> {
    fn take(&mut self, event: Event) -> io::Result<()> {
        let at = event.at;
        let shown = match &event.kind {
            EventKind::Call(call) => self.called(at, call),
            EventKind::Return(back) => self.came_back(at, back),
            EventKind::Opened(_) => {
                if !self.next_follows {
                    self.naming.opened(at.process);
                }
                true
            }
            EventKind::Forked(child) => {
                self.stacks.fork(at.process, *child);
                self.naming.forked(at.process, *child);
                true
            }
            EventKind::Ended(how) => {
                self.stacks.drain(Some(at.process));
                if !self.next_follows {
                    self.naming.ended(at.process, *how);
                }
                true
            }
            EventKind::Signal(_) | EventKind::Thread(_) => true,
        };
        if shown { self.next.take(event) } else { Ok(()) }
    }

    fn rest(&mut self) -> io::Result<()> {
        self.next.rest()
    }

    fn forgotten(&self) -> Forgotten {
        Forgotten::open(self.stacks.forgotten()) + self.next.forgotten()
    }

    fn finish(&mut self, end: SourceEnd) -> io::Result<()> {
        self.next.finish(end)
    }
}
