//! Items as bytes. Calls and returns are written as what differs from the one before.
//!
//! ```text
//!   call      kind|SAME|PIECES|LIBRARY|CALLERS   [context]   time since the item before   way   line+1   [the library's line]
//!             return address, from the last one of the way   frame, from the last one of the context
//!             which of 14 registers differ from those of the way's last call   how each differs   [pieces]
//!             [how many callers, the number of each]
//!   return    kind|SAME|PIECES|X87   [context]   time   frame   which of 4 registers   how each differs   [x87]   [pieces]
//!   pieces    how many   for each: where it lay (ARGUMENT n, BEHIND the piece before, or an address), its bytes
//! ```
//!
//! A context is a guest, a thread, a lane and a stack. It is defined, as a kind of item of its own, before its first use.

mod parts;

use crate::bytes::{Take, Wrong, put, put_signed, put_step};
use crate::item::{
    At, Call, Caller, Event, Function, Guest, Head, Item, Line, Losses, Module, Return, Way,
};
use parts::{
    or_zero, put_changed, put_happened, put_numbers, put_pieces, put_text, put_texts, registers,
    take_changed, take_happened, take_numbers, take_pieces,
};
use std::collections::HashMap;

/// What an item is: the low four bits of its first byte.
mod kind {
    pub const HEAD: u8 = 1;
    pub const GUEST: u8 = 2;
    pub const MODULE: u8 = 3;
    pub const FUNCTION: u8 = 4;
    pub const WAY: u8 = 11;
    pub const EVENT: u8 = 12;
    pub const LINE: u8 = 5;
    pub const CALLER: u8 = 13;
    pub const CONTEXT: u8 = 6;
    pub const CALL: u8 = 7;
    pub const RETURN: u8 = 8;
    pub const LOSSES: u8 = 9;
    pub const END: u8 = 10;
}

/// The context is that of the item before.
const SAME: u8 = 0x10;
/// There are pieces.
const PIECES: u8 = 0x20;
/// A return with st(0) and st(1).
const X87: u8 = 0x40;
/// A call with the frames around it.
const CALLERS: u8 = 0x40;
/// With the line of a library.
const LIBRARY: u8 = 0x80;

/// A guest, a thread, a lane and a stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Context {
    guest: u32,
    tid: u32,
    lane: u32,
    stack: u64,
}

/// What the next call of a context is written against.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    frame: u64,
    /// rax, rdx, xmm0, xmm1.
    returned: [u64; 4],
}

/// The same for a way.
#[derive(Clone, Copy, Debug, Default)]
struct Before {
    caller: u64,
    registers: [u64; 14],
}

/// What both sides know: definitions, and the item before.
#[derive(Debug, Default)]
pub struct State {
    contexts: Vec<Context>,
    numbers: HashMap<Context, u32>,
    /// How many guests, modules, functions, ways, lines and callers there are.
    counts: [u32; 6],
    // From here on anew in each segment.
    time: u64,
    context: u32,
    last: Vec<Last>,
    before: Vec<Before>,
}

impl State {
    /// A segment begins.
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

    fn before(&mut self, way: u32) -> &mut Before {
        let at = way as usize;
        if self.before.len() <= at {
            let all = (self.counts[3] as usize).max(at + 1);
            self.before.resize(all, Before::default());
        }
        &mut self.before[at]
    }

    /// The number of a context, defined if it is new.
    #[inline]
    fn context(&mut self, out: &mut Vec<u8>, at: &At) -> u32 {
        let context = Context {
            guest: at.guest,
            tid: at.tid,
            lane: at.lane,
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
        for word in [at.guest, at.tid, at.lane] {
            put(out, word.into());
        }
        put(out, at.stack);
        number
    }

    /// First byte, context, time.
    #[inline]
    fn put_begin(&mut self, out: &mut Vec<u8>, first: u8, at: &At) -> u32 {
        let context = self.context(out, at);
        let same = context == self.context;
        out.push(first | if same { SAME } else { 0 });
        if !same {
            put(out, context.into());
        }
        put_signed(out, at.time.wrapping_sub(self.time) as i64);
        (self.time, self.context) = (at.time, context);
        context
    }

    fn take_begin(&mut self, take: &mut Take, first: u8) -> Result<At, Wrong> {
        if first & SAME == 0 {
            self.context = take.small()?;
        }
        let context = self.contexts.get(self.context as usize).ok_or(Wrong)?;
        let at = At {
            guest: context.guest,
            tid: context.tid,
            lane: context.lane,
            stack: context.stack,
            frame: 0,
            time: take.step(self.time)?,
        };
        self.time = at.time;
        Ok(at)
    }

    /// Puts a call.
    pub fn put_call(&mut self, out: &mut Vec<u8>, call: &Call) {
        let pieces = if call.pieces.is_empty() { 0 } else { PIECES };
        let library = if call.library.is_some() { LIBRARY } else { 0 };
        let callers = if call.callers.is_empty() { 0 } else { CALLERS };
        let first = kind::CALL | pieces | library | callers;
        let context = self.put_begin(out, first, &call.at);
        put(out, call.way.into());
        put(out, or_zero(call.line));
        if let Some(line) = call.library {
            put(out, line.into());
        }
        let before = self.before(call.way);
        put_step(out, before.caller, call.caller);
        before.caller = call.caller;
        let now = registers(call);
        put_changed(out, &before.registers, &now, 6);
        before.registers = now;
        let last = self.last(context);
        put_step(out, last.frame, call.at.frame);
        last.frame = call.at.frame;
        if pieces != 0 {
            put_pieces(out, &call.gp, &call.pieces);
        }
        if callers != 0 {
            put_numbers(out, &call.callers);
        }
    }

    fn take_call<'a>(&mut self, take: &mut Take<'a>, first: u8) -> Result<Call<'a>, Wrong> {
        let mut at = self.take_begin(take, first)?;
        let (way, line) = (take.small()?, take.number()?);
        let [.., ways, lines, callers] = self.counts;
        let library = match first & LIBRARY {
            0 => None,
            _ => Some(take.small()?),
        };
        if way >= ways || line > lines.into() || library.is_some_and(|line| line >= lines) {
            return Err(Wrong);
        }
        let before = self.before(way);
        before.caller = take.step(before.caller)?;
        take_changed(take, &mut before.registers, 6)?;
        let Before { caller, registers } = *before;
        let context = self.context;
        let last = self.last(context);
        last.frame = take.step(last.frame)?;
        at.frame = last.frame;
        let mut call = Call {
            at,
            way,
            caller,
            line: line.checked_sub(1).map(|number| number as u32),
            library,
            ..Call::default()
        };
        call.gp.copy_from_slice(&registers[..6]);
        call.sse.copy_from_slice(&registers[6..]);
        if first & PIECES != 0 {
            call.pieces = take_pieces(take, &call.gp)?;
        }
        if first & CALLERS != 0 {
            call.callers = take_numbers(take, callers)?;
        }
        Ok(call)
    }

    /// Puts a return.
    pub fn put_return(&mut self, out: &mut Vec<u8>, back: &Return) {
        let pieces = if back.pieces.is_empty() { 0 } else { PIECES };
        let x87 = if back.x87.is_some() { X87 } else { 0 };
        let context = self.put_begin(out, kind::RETURN | pieces | x87, &back.at);
        let last = self.last(context);
        put_step(out, last.frame, back.at.frame);
        last.frame = back.at.frame;
        let ([rax, rdx], [xmm0, xmm1]) = (back.gp, back.sse);
        let now = [rax, rdx, xmm0, xmm1];
        put_changed(out, &last.returned, &now, 2);
        last.returned = now;
        for st in back.x87.iter().flatten() {
            out.extend_from_slice(st);
        }
        if pieces != 0 {
            put_pieces(out, &[], &back.pieces);
        }
    }

    fn take_return<'a>(&mut self, take: &mut Take<'a>, first: u8) -> Result<Return<'a>, Wrong> {
        let mut at = self.take_begin(take, first)?;
        let context = self.context;
        let last = self.last(context);
        last.frame = take.step(last.frame)?;
        at.frame = last.frame;
        take_changed(take, &mut last.returned, 2)?;
        let [rax, rdx, xmm0, xmm1] = last.returned;
        let mut back = Return {
            at,
            gp: [rax, rdx],
            sse: [xmm0, xmm1],
            ..Return::default()
        };
        if first & X87 != 0 {
            let mut both = [[0; 10]; 2];
            for st in &mut both {
                st.copy_from_slice(take.exactly(10)?);
            }
            back.x87 = Some(both);
        }
        if first & PIECES != 0 {
            back.pieces = take_pieces(take, &[])?;
        }
        Ok(back)
    }

    fn define(&mut self, which: usize) -> u32 {
        self.counts[which] += 1;
        self.counts[which] - 1
    }

    /// Puts any item; the number of what it defines.
    pub fn put(&mut self, out: &mut Vec<u8>, item: &Item) -> u32 {
        match item {
            Item::Head(head) => {
                out.push(kind::HEAD);
                put_text(out, &head.lancet);
                put_texts(out, &head.command);
                put(out, head.began);
            }
            Item::Guest(guest) => {
                out.push(kind::GUEST);
                put(out, u64::from(guest.pid as u32));
                put_texts(out, &guest.command);
                put_text(out, &guest.vm);
                return self.define(0);
            }
            Item::Module(module) => {
                out.push(kind::MODULE);
                put_text(out, &module.path);
                put_text(out, &module.name);
                out.push(module.main.into());
                put(out, module.bias);
                return self.define(1);
            }
            Item::Function(function) => {
                out.push(kind::FUNCTION);
                put(out, function.module.into());
                put_texts(out, &function.names);
                put(out, function.address);
                put(out, function.size);
                put_text(out, &function.prototype);
                return self.define(2);
            }
            Item::Way(way) => {
                out.push(kind::WAY);
                put(out, way.function.into());
                put(out, or_zero(way.from));
                put(out, way.slots);
                return self.define(3);
            }
            Item::Line(line) => {
                out.push(kind::LINE);
                put_text(out, &line.path);
                put(out, line.line.into());
                put_text(out, &line.name);
                return self.define(4);
            }
            Item::Caller(caller) => {
                out.push(kind::CALLER);
                put(out, caller.address);
                put_text(out, &caller.path);
                put_text(out, &caller.name);
                put(out, caller.offset);
                return self.define(5);
            }
            Item::Call(call) => self.put_call(out, call),
            Item::Return(back) => self.put_return(out, back),
            Item::Event(event) => {
                out.push(kind::EVENT);
                put(out, event.guest.into());
                put(out, event.tid.into());
                put(out, event.time);
                put_happened(out, event.what);
            }
            Item::Losses(losses) => {
                out.push(kind::LOSSES);
                put(out, losses.guest.into());
                put(out, losses.records);
                put(out, losses.unlaned);
            }
            Item::End => out.push(kind::END),
        }
        0
    }

    /// Takes the next item.
    pub fn take<'a>(&mut self, take: &mut Take<'a>) -> Result<Item<'a>, Wrong> {
        loop {
            let first = take.byte()?;
            return Ok(match first & 0xf {
                kind::HEAD => Item::Head(Head {
                    lancet: take.text()?,
                    command: take.texts()?,
                    began: take.number()?,
                }),
                kind::GUEST => {
                    self.define(0);
                    Item::Guest(Guest {
                        pid: take.small()? as i32,
                        command: take.texts()?,
                        vm: take.text()?,
                    })
                }
                kind::MODULE => {
                    self.define(1);
                    Item::Module(Module {
                        path: take.text()?,
                        name: take.text()?,
                        main: take.byte()? != 0,
                        bias: take.number()?,
                    })
                }
                kind::FUNCTION => {
                    let module = take.small()?;
                    if module >= self.counts[1] {
                        return Err(Wrong);
                    }
                    self.define(2);
                    Item::Function(Function {
                        module,
                        names: take.texts()?,
                        address: take.number()?,
                        size: take.number()?,
                        prototype: take.text()?,
                    })
                }
                kind::WAY => {
                    let (function, from) = (take.small()?, take.number()?);
                    if function >= self.counts[2] || from > self.counts[1].into() {
                        return Err(Wrong);
                    }
                    self.define(3);
                    Item::Way(Way {
                        function,
                        from: from.checked_sub(1).map(|number| number as u32),
                        slots: take.number()?,
                    })
                }
                kind::LINE => {
                    self.define(4);
                    Item::Line(Line {
                        path: take.text()?,
                        line: take.small()?,
                        name: take.text()?,
                    })
                }
                kind::CALLER => {
                    self.define(5);
                    Item::Caller(Caller {
                        address: take.number()?,
                        path: take.text()?,
                        name: take.text()?,
                        offset: take.number()?,
                    })
                }
                kind::CONTEXT => {
                    let context = Context {
                        guest: take.small()?,
                        tid: take.small()?,
                        lane: take.small()?,
                        stack: take.number()?,
                    };
                    if context.guest >= self.counts[0] {
                        return Err(Wrong);
                    }
                    self.contexts.push(context);
                    continue;
                }
                kind::CALL => Item::Call(self.take_call(take, first)?),
                kind::RETURN => Item::Return(self.take_return(take, first)?),
                kind::LOSSES => {
                    let losses = Losses {
                        guest: take.small()?,
                        records: take.number()?,
                        unlaned: take.number()?,
                    };
                    if losses.guest >= self.counts[0] {
                        return Err(Wrong);
                    }
                    Item::Losses(losses)
                }
                kind::EVENT => {
                    let (guest, tid, time) = (take.small()?, take.small()?, take.number()?);
                    let what = take_happened(take)?;
                    if guest >= self.counts[0] {
                        return Err(Wrong);
                    }
                    Item::Event(Event {
                        guest,
                        tid,
                        time,
                        what,
                    })
                }
                kind::END => Item::End,
                _ => return Err(Wrong),
            });
        }
    }
}
