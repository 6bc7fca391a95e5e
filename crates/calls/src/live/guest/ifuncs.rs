//! Handles IFUNCs that pick while lancet watches: the picked function is hooked before it is called, and ltrace's lines
//! show the choice. Used by `announced` and `life`.

use super::Guest;
use crate::event::{At, Call, CallEdge, Entered, Event, EventKind, Return, Shown};
use crate::message::Message;
use crate::signatures::Signatures;
use hooks::{Arrives, Wanted};
use process::Error;
use process::functions::Function;
use process::stop::Ties;
use prototypes::capture::{Registers, Returned};
use prototypes::show::Captures;
use prototypes::types::{Prototype, Type};
use std::sync::Arc;
use std::time::SystemTime;

/// A number that no thread's ring has.
const NO_RING: u32 = u32::MAX;

impl Guest {
    /// Handles a notice of thread `tid` that the IFUNC at `place` has picked `target`; the thread waits until that is
    /// hooked.
    pub(super) fn picked(
        &mut self,
        (place, target): (u64, u64),
        tid: i32,
        signatures: &Signatures,
        tell: &mut dyn FnMut(Event),
    ) -> Result<(), Error> {
        let Some((picker, news)) = self.tracing.picked(place, target) else {
            return Ok(());
        };
        if self.quiet && self.plan.tells() {
            self.tell_choice(&picker, target, tid, signatures, tell);
        }
        if !news || self.tracing.arrives() != Arrives::Now {
            return Ok(());
        }
        self.forget_edges();
        let wanted = self.wanted(signatures);
        let refused = self.tracing.add(wanted)?;
        if !self.quiet {
            self.say_refused(&refused);
        }
        Ok(())
    }

    /// Reports the choice as ltrace does, as a call of `NAME.IFUNC`.
    fn tell_choice(
        &mut self,
        picker: &Function,
        target: u64,
        tid: i32,
        signatures: &Signatures,
        tell: &mut dyn FnMut(Event),
    ) {
        let Some(place) = self.tracing.functions().module_of(picker.address) else {
            return;
        };
        if !self.selection.enters(&picker.name, place) {
            return;
        }
        let name = format!("{}.IFUNC", picker.name);
        let of = (!place.module.main).then(|| place.name.clone());
        let prototype = Prototype {
            returns: Type::address(),
            parameters: Vec::new(),
            late_from: None,
        };
        signatures.note(&picker.module, &name, &prototype);
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let at = At {
            process: self.pid(),
            tid: tid as u32,
            ring: NO_RING,
            time: since.unwrap_or_default(),
            ..At::default()
        };
        self.drain(tell);
        let call = Call {
            edge: Arc::new(CallEdge {
                names: [name.clone()].into(),
                function: Arc::new(Function {
                    name: name.clone(),
                    ..picker.clone()
                }),
                shown: Some(Shown {
                    made: None,
                    entered: Some(Entered { name, of }),
                }),
                ..CallEdge::default()
            }),
            caller: 0,
            registers: Registers::default(),
            captures: Captures::new(),
            line: None,
            library: None,
            callers: Vec::new(),
        };
        let back = Return {
            returned: Returned {
                rax: target,
                ..Returned::default()
            },
            captures: Captures::new(),
        };
        for kind in [EventKind::Call(call), EventKind::Return(back)] {
            tell(Event { at, kind });
        }
    }

    /// For a program that stands at its first instruction: those of its own IFUNCs that are requested will pick before
    /// its libraries are loaded. Only ltrace shows that.
    pub(super) fn expect_first_picks(&mut self, signatures: &Signatures) -> Result<(), Error> {
        if !self.quiet || self.tracing.arrives() != Arrives::AtLoader {
            return Ok(());
        }
        let mut first = self.selection.functions(self.tracing.functions());
        first.retain(|function| function.picks);
        if first.is_empty() {
            return Ok(());
        }
        let callers = vec![Vec::new(); first.len()];
        let wanted: Vec<Wanted> = self.plan.all(signatures, first, callers);
        self.tracing.tie(Ties::Standing);
        let set = self.tracing.set(wanted);
        self.tracing.tie(Ties::None);
        set.map(drop)
    }
}

impl Guest {
    /// Reports which functions will be hooked when they are called for the first time.
    pub(super) fn say_awaited(&self) {
        let awaited = self.tracing.awaited_picks();
        if awaited.is_empty() {
            return;
        }
        let names = awaited.iter().map(|function| function.name.clone());
        let names = names.collect();
        self.messages.say(Message::Awaited { names });
    }
}
