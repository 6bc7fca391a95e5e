//! Encoding of items. Calls and returns are written as their difference from the one before.
//!
//! ```text
//!   call      kind|SAME|CAPTURES|LIBRARY|CALLERS   [context]   time since the item before   call edge   line+1   [the library's line]
//!             return address, from the last one of the edge   frame, from the last one of the context
//!             which of 14 registers differ from those of the edge's last call   how each differs   [captures]
//!             [how many callers, the number of each]
//!   return    kind|SAME|CAPTURES|X87   [context]   time   frame   which of 4 registers   how each differs   [x87]   [captures]
//!   captures  how many   for each: where it lay (ARGUMENT n, BEHIND the capture before, or an address), its bytes
//! ```
//!
//! A context is a guest, a thread, a ring and a stack. It is defined, as a kind of item of its own, before its first
//! use.

mod items;
mod parts;

use crate::bytes::{Take, Wrong, put, put_signed, put_step};
use crate::event::{At, Call, Event, EventKind, Numbers, Return};
use crate::item::{CallEdge, Caller, Function, Guest, Head, Item, Line, Losses, Module};
use parts::{
    or_zero, put_captures, put_changed, put_kind, put_numbers, put_text, put_texts, take_captures,
    take_changed, take_kind, take_numbers, words,
};
use std::collections::HashMap;
use std::time::Duration;

/// Kinds of items: the low four bits of the first byte.
mod kind {
    pub const HEAD: u8 = 1;
    pub const GUEST: u8 = 2;
    pub const MODULE: u8 = 3;
    pub const FUNCTION: u8 = 4;
    pub const CALL_EDGE: u8 = 11;
    pub const EVENT: u8 = 12;
    pub const LINE: u8 = 5;
    pub const CALLER: u8 = 13;
    pub const CONTEXT: u8 = 6;
    pub const CALL: u8 = 7;
    pub const RETURN: u8 = 8;
    pub const LOSSES: u8 = 9;
    pub const END: u8 = 10;
}

/// The item has the context of the one before.
const SAME: u8 = 0x10;
/// The item has captures.
const CAPTURES: u8 = 0x20;
/// A return that has st(0) and st(1).
const X87: u8 = 0x40;
/// A call that has the native frames around it.
const CALLERS: u8 = 0x40;
/// A call that has the line of a library.
const LIBRARY: u8 = 0x80;

/// st(0) and st(1) of a return whose hook does not record them.
const NO_X87: [[u8; 10]; 2] = [[0; 10]; 2];

/// The origin of events: a guest, a thread, a ring and a stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Context {
    guest: u32,
    tid: u32,
    ring: u32,
    stack: u64,
}

/// What the next call or return of a context is written against.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    frame: u64,
    /// rax, rdx, xmm0, xmm1.
    returned: [u64; 4],
}

/// What the next call of a call edge is written against.
#[derive(Clone, Copy, Debug, Default)]
struct Before {
    caller: u64,
    registers: [u64; 14],
}

/// What writer and reader both know at a point of the file: definitions, and the item before.
#[derive(Debug, Default)]
pub struct State {
    contexts: Vec<Context>,
    numbers: HashMap<Context, u32>,
    /// How many guests, modules, functions, call edges, lines and callers there are.
    counts: [u32; 6],
    // The fields from here on begin anew in each segment.
    time: u64,
    context: u32,
    last: Vec<Last>,
    before: Vec<Before>,
}

impl State {
    /// Begins a segment.
    pub fn anew(&mut self) {
        (self.time, self.context) = (0, u32::MAX);
        self.last.clear();
        self.before.clear();
    }

    fn last(&mut self, context: u32) -> &mut Last {
        let at = context as usize;
        if self.last.len() <= at {
            self.last
                .resize(self.contexts.len().max(at + 1), Last::default());
        }
        &mut self.last[at]
    }

    fn before(&mut self, edge: u32) -> &mut Before {
        let at = edge as usize;
        if self.before.len() <= at {
            let all = (self.counts[3] as usize).max(at + 1);
            self.before.resize(all, Before::default());
        }
        &mut self.before[at]
    }

    /// Returns the number of a context, and defines it if it is new.
    #[inline]
    fn context(&mut self, out: &mut Vec<u8>, at: &At) -> u32 {
        let context = Context {
            guest: at.process,
            tid: at.tid,
            ring: at.ring,
            stack: at.stack,
        };
        if self.contexts.get(self.context as usize) == Some(&context) {
            return self.context;
        }
        if let Some(number) = self.numbers.get(&context) {
            return *number;
        }
        let number = self.contexts.len() as u32;
        self.contexts.push(context);
        self.numbers.insert(context, number);
        out.push(kind::CONTEXT);
        for word in [at.process, at.tid, at.ring] {
            put(out, word.into());
        }
        put(out, at.stack);
        number
    }

    /// Writes the first byte, the context and the time.
    #[inline]
    fn put_begin(&mut self, out: &mut Vec<u8>, first: u8, at: &At) -> u32 {
        let context = self.context(out, at);
        let same = context == self.context;
        out.push(first | if same { SAME } else { 0 });
        if !same {
            put(out, context.into());
        }
        let time = at.nanos();
        put_signed(out, time.wrapping_sub(self.time) as i64);
        (self.time, self.context) = (time, context);
        context
    }

    fn take_begin(&mut self, take: &mut Take, first: u8) -> Result<At, Wrong> {
        if first & SAME == 0 {
            self.context = take.small()?;
        }
        let context = self.contexts.get(self.context as usize).ok_or(Wrong)?;
        let context = *context;
        self.time = take.step(self.time)?;
        Ok(At {
            process: context.guest,
            tid: context.tid,
            ring: context.ring,
            stack: context.stack,
            frame: 0,
            time: Duration::from_nanos(self.time),
        })
    }

    /// Writes a call.
    pub fn put_call<E, L, F>(
        &mut self,
        out: &mut Vec<u8>,
        at: &At,
        numbers: Numbers,
        call: &Call<E, L, F>,
    ) {
        let captures = if call.captures.is_empty() {
            0
        } else {
            CAPTURES
        };
        let library = if numbers.library.is_some() {
            LIBRARY
        } else {
            0
        };
        let callers = if numbers.callers.is_empty() {
            0
        } else {
            CALLERS
        };
        let first = kind::CALL | captures | library | callers;
        let context = self.put_begin(out, first, at);
        put(out, numbers.edge.into());
        put(out, or_zero(numbers.line));
        if let Some(line) = numbers.library {
            put(out, line.into());
        }
        let before = self.before(numbers.edge);
        put_step(out, before.caller, call.caller);
        before.caller = call.caller;
        let now = words(&call.registers);
        put_changed(out, &before.registers, &now, 6);
        before.registers = now;
        let last = self.last(context);
        put_step(out, last.frame, at.frame);
        last.frame = at.frame;
        if captures != 0 {
            put_captures(out, &call.registers.gp, &call.captures);
        }
        if callers != 0 {
            put_numbers(out, numbers.callers);
        }
    }

    fn take_call(&mut self, take: &mut Take, first: u8) -> Result<Event, Wrong> {
        let mut at = self.take_begin(take, first)?;
        let (edge, line) = (take.small()?, take.number()?);
        let [.., edges, lines, callers] = self.counts;
        let library = match first & LIBRARY {
            0 => None,
            _ => Some(take.small()?),
        };
        if edge >= edges || line > lines.into() || library.is_some_and(|line| line >= lines) {
            return Err(Wrong);
        }
        let before = self.before(edge);
        before.caller = take.step(before.caller)?;
        take_changed(take, &mut before.registers, 6)?;
        let Before { caller, registers } = *before;
        let context = self.context;
        let last = self.last(context);
        last.frame = take.step(last.frame)?;
        at.frame = last.frame;
        let mut call = Call {
            edge,
            caller,
            line: line.checked_sub(1).map(|number| number as u32),
            library,
            ..Call::default()
        };
        call.registers.gp.copy_from_slice(&registers[..6]);
        call.registers.sse.copy_from_slice(&registers[6..]);
        call.registers.stack = at.frame;
        if first & CAPTURES != 0 {
            call.captures = take_captures(take, &call.registers.gp)?;
        }
        if first & CALLERS != 0 {
            call.callers = take_numbers(take, callers)?;
        }
        Ok(Event {
            at,
            kind: EventKind::Call(call),
        })
    }

    /// Writes a return.
    pub fn put_return(&mut self, out: &mut Vec<u8>, at: &At, back: &Return) {
        let returned = &back.returned;
        let captures = if back.captures.is_empty() {
            0
        } else {
            CAPTURES
        };
        let x87 = if returned.x87 == NO_X87 { 0 } else { X87 };
        let context = self.put_begin(out, kind::RETURN | captures | x87, at);
        let last = self.last(context);
        put_step(out, last.frame, at.frame);
        last.frame = at.frame;
        let [xmm0, xmm1] = returned.sse;
        let now = [returned.rax, returned.rdx, xmm0, xmm1];
        put_changed(out, &last.returned, &now, 2);
        last.returned = now;
        if x87 != 0 {
            returned.x87.iter().for_each(|st| out.extend_from_slice(st));
        }
        if captures != 0 {
            put_captures(out, &[], &back.captures);
        }
    }

    fn take_return(&mut self, take: &mut Take, first: u8) -> Result<Event, Wrong> {
        let mut at = self.take_begin(take, first)?;
        let context = self.context;
        let last = self.last(context);
        last.frame = take.step(last.frame)?;
        at.frame = last.frame;
        take_changed(take, &mut last.returned, 2)?;
        let [rax, rdx, xmm0, xmm1] = last.returned;
        let mut back = Return::default();
        let returned = &mut back.returned;
        (returned.rax, returned.rdx, returned.sse) = (rax, rdx, [xmm0, xmm1]);
        if first & X87 != 0 {
            for st in &mut returned.x87 {
                st.copy_from_slice(take.exactly(10)?);
            }
        }
        if first & CAPTURES != 0 {
            back.captures = take_captures(take, &[])?;
        }
        Ok(Event {
            at,
            kind: EventKind::Return(back),
        })
    }

    /// Writes an event that is neither a call nor a return.
    pub fn put_event<C>(&mut self, out: &mut Vec<u8>, at: &At, kind: &EventKind<C>) {
        out.push(kind::EVENT);
        put(out, at.process.into());
        put(out, at.tid.into());
        put(out, at.nanos());
        put_kind(out, kind);
    }
}
