//! Compiles a prototype to the two capture programs that a hook runs: one at the call, one at the return. Used by
//! `condition::compile` and `show::call`, and by the crates `calls`, `syscalls` and `report`.
//!
//! Only the memory that a pointer leads to is copied, because the registers are in the hook's record. What lies on the stack is copied at the call, because
//! it is gone when the line is printed. Arguments from the `+` on and the returned value are copied at the return, with the pointers as they were at the call.

mod limits;

pub(crate) use limits::LONGEST_PATH;

use capture::{CopyLimits, Op, Source, What, Width};
use vm::Word;

use crate::location::{Half, Location, Locations};
use crate::types::{Expr, Kind, Lens, Prototype, Struct, Type};
use limits::{BEHIND_COMMAND, LONGEST, LONGEST_BESIDE, LONGEST_COMMAND};

/// How much of strings and arrays is shown, and therefore copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detail {
    /// Characters of a string, at most (`-s`).
    pub strings: u32,
    /// Elements of an array, and structs of one kind inside one another, at most (`-A`).
    pub array: u32,
    /// A tracer copies: what the kernel has written is copied whole, because no record of a ring must hold it.
    pub whole: bool,
}

impl Default for Detail {
    /// The defaults of ltrace.
    fn default() -> Self {
        Self {
            strings: 32,
            array: 4,
            whole: false,
        }
    }
}

/// The programs of a function, as words ([`Op::encode`]); empty where nothing is copied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Programs {
    /// The program that runs at the call.
    pub call: Vec<u64>,
    /// The program that runs at the return.
    pub exit: Vec<u64>,
}

impl Prototype {
    /// Returns the programs that copy what is needed to show calls in this detail.
    #[must_use]
    pub fn capture(&self, detail: Detail) -> Programs {
        let locations = self.locations();
        let late = self.late_from.unwrap_or(self.parameters.len());
        let mut call = Plan::new(self, &locations, detail, false);
        if let Ok(stack @ 1..) = u16::try_from(locations.used.stack) {
            call.push(Op::Value(Source::StackAddress(0)));
            call.push(Op::Bytes(stack.into()));
        }
        let mut exit = Plan::new(self, &locations, detail, true);
        for (index, (parameter, place)) in
            self.parameters.iter().zip(&locations.arguments).enumerate()
        {
            let Some(spot) = Spot::of_argument(*place) else {
                continue;
            };
            if index < late || parameter.both {
                call.argument(&parameter.ty, spot);
            }
            if index >= late || parameter.both {
                exit.argument(&parameter.ty, spot);
            }
            if parameter.format {
                call.format(&parameter.ty, spot, &locations);
            }
        }
        exit.returned(&self.returns, locations.returned);
        Programs {
            call: call.finish(),
            exit: exit.finish(),
        }
    }
}

/// Where a value lies while the program runs.
#[derive(Clone, Copy)]
enum Spot {
    /// In one or two registers, from this byte on.
    Registers([Option<Source>; 2], u32),
    /// At this offset of the arguments on the stack.
    Stack(u32),
    /// At this offset of the block that is the base.
    Block(u32),
}

impl Spot {
    fn of_argument(place: Location) -> Option<Self> {
        let half = |half| match half {
            Half::Gp(n) => Source::Gp(n),
            Half::Sse(n) => Source::Sse(n),
        };
        Some(match place {
            Location::Gp(n) => Self::Registers([Some(Source::Gp(n)), None], 0),
            Location::Sse(n) => Self::Registers([Some(Source::Sse(n)), None], 0),
            Location::Split(a, b) => Self::Registers([Some(half(a)), Some(half(b))], 0),
            Location::Stack(offset) => Self::Stack(offset),
            Location::Nowhere | Location::X87 | Location::ComplexX87 => return None,
        })
    }

    fn plus(self, more: u32) -> Self {
        match self {
            Self::Registers(sources, at) => Self::Registers(sources, at + more),
            Self::Stack(at) => Self::Stack(at.saturating_add(more)),
            Self::Block(at) => Self::Block(at.saturating_add(more)),
        }
    }

    /// Returns the word of the call that it begins in, and the offset in it.
    fn source(self) -> Option<(Source, u8)> {
        match self {
            Self::Registers(sources, at) => {
                let source = sources.get(at as usize / 8).copied().flatten()?;
                Some((source, (at % 8) as u8))
            }
            Self::Stack(at) => Some((Source::Stack(u16::try_from(at).ok()?), 0)),
            Self::Block(_) => None,
        }
    }
}

/// A struct around a value, to which `eltN` refers.
#[derive(Clone, Copy)]
struct Around<'p>(&'p Struct, Spot);

struct Plan<'p> {
    prototype: &'p Prototype,
    locations: &'p Locations,
    detail: Detail,
    exit: bool,
    ops: Vec<Op>,
    /// Structs whose members are being written, the innermost last.
    inside: Vec<*const Struct>,
    depth: usize,
    /// How many values were looked at: a few lines of typedefs can make more of them than there are atoms.
    looked: usize,
}

impl<'p> Plan<'p> {
    fn new(prototype: &'p Prototype, locations: &'p Locations, detail: Detail, exit: bool) -> Self {
        Self {
            prototype,
            locations,
            detail,
            exit,
            ops: Vec::new(),
            inside: Vec::new(),
            depth: 0,
            looked: 0,
        }
    }

    fn finish(self) -> Vec<u64> {
        self.ops.into_iter().map(Op::encode).collect()
    }

    fn is_long(&self) -> bool {
        self.ops.len() > LONGEST || self.looked > 20 * LONGEST
    }

    fn push(&mut self, op: Op) {
        self.ops.push(op);
    }

    fn argument(&mut self, ty: &'p Type, spot: Spot) {
        match &ty.kind {
            Kind::Array(_) if !is_hidden(ty) => {
                // It was passed as a pointer.
                if self.load(spot) {
                    self.pointee(ty, ty.lens.as_ref(), None);
                }
            }
            _ => self.value(ty, spot, None, None),
        }
    }

    fn returned(&mut self, ty: &'p Type, place: Location) {
        let half = |half| match half {
            Half::Gp(0) => Some(Source::Rax),
            Half::Gp(_) => Some(Source::Rdx),
            // Pointers are not returned there.
            Half::Sse(_) => None,
        };
        let sources = match place {
            Location::Gp(_) if matches!(ty.kind, Kind::Array(_)) => {
                self.push(Op::Value(Source::Rax));
                return self.pointee(ty, ty.lens.as_ref(), None);
            }
            Location::Gp(_) => [Some(Source::Rax), None],
            Location::Split(a, b) => [half(a), half(b)],
            Location::Stack(_) if !is_hidden(ty) => {
                self.push(Op::Value(Source::Rax));
                return self.pointee(ty, ty.lens.as_ref(), None);
            }
            _ => return,
        };
        self.value(ty, Spot::Registers(sources, 0), None, None);
    }

    /// Writes the operation that loads the pointer at the spot into `v`.
    fn load(&mut self, spot: Spot) -> bool {
        match (spot, spot.source()) {
            (Spot::Block(at), _) => self.push(Op::Member(at)),
            (_, Some((source, 0))) => self.push(Op::Value(source)),
            _ => return false,
        }
        true
    }

    /// Writes the operations for what a value leads to; its own bytes are copied already.
    fn value(
        &mut self,
        ty: &'p Type,
        spot: Spot,
        lens: Option<&'p Lens>,
        around: Option<Around<'p>>,
    ) {
        let lens = ty.lens.as_ref().or(lens);
        self.looked += 1;
        if lens == Some(&Lens::Hide) || self.is_long() || !ty.leads_on() {
            return;
        }
        if let Some(Lens::Vm(word)) = lens {
            return self.describe(*word, spot);
        }
        match &ty.kind {
            // `leads_on` has made sure that it is not a `void *`.
            Kind::Pointer(to) if self.load(spot) => {
                self.pointee(to, to.lens.as_ref().or(lens), around);
            }
            Kind::Struct(of) => self.members(of, spot, lens),
            Kind::Array(array) => {
                let stride = array.element.size();
                let Spot::Block(at) = spot else {
                    let most = array.size() / stride.max(1);
                    for index in 0..most.min(self.detail.array) {
                        self.value(&array.element, spot.plus(index * stride), lens, around);
                    }
                    return;
                };
                self.push(Op::At(at));
                // An array for which its struct has no room lies behind it and is copied on its own.
                if array.size() == 0 {
                    return self.pointee(ty, lens, around);
                }
                if self.count(&array.length, around, stride, self.detail.array) {
                    self.each(&array.element, stride, lens);
                }
            }
            _ => {}
        }
    }

    fn members(&mut self, of: &'p Struct, spot: Spot, lens: Option<&'p Lens>) {
        for (offset, field) in of.members() {
            self.value(field, spot.plus(offset), lens, Some(Around(of, spot)));
        }
    }

    /// Writes the operations that copy what is at `v`, a `ty`.
    fn pointee(&mut self, ty: &'p Type, lens: Option<&'p Lens>, around: Option<Around<'p>>) {
        if lens == Some(&Lens::Hide) || self.is_long() {
            return;
        }
        if let Some(Lens::Vm(word)) = lens {
            self.push(Op::Bytes(8));
            return self.block(|plan| plan.describe(*word, Spot::Block(0)));
        }
        match &ty.kind {
            Kind::Void => {}
            Kind::Array(array) => {
                let (element, stride) = (&array.element, array.element.size());
                if matches!(lens, Some(Lens::String | Lens::Path)) && element.is_integer() {
                    let max = match lens {
                        Some(Lens::Path) => LONGEST_PATH,
                        _ => self.detail.strings.saturating_add(1),
                    };
                    let unit = stride as u8;
                    match &array.length {
                        Expr::Zero(None) => self.push(Op::Text { unit, max }),
                        Expr::Zero(Some(most)) => {
                            if self.number(most, around) {
                                // -1 was an error and nothing was read; as an argument it means up to the NUL.
                                if **most == Expr::Returned {
                                    self.push(Op::AtMost(max));
                                }
                                self.push(Op::CountedText { unit, max });
                            }
                        }
                        length => {
                            if self.number(length, around) {
                                let most = self.most(length, around, max);
                                self.push(most);
                                self.push(Op::Array(stride));
                            }
                        }
                    }
                    return;
                }
                let most = match lens {
                    Some(Lens::Bitvec) => 4096,
                    _ if matches!(array.length, Expr::Command(_)) => LONGEST_COMMAND,
                    // Bytes that are structs of their own, as what goes beside the data of a message.
                    _ if matches!(element.kind, Kind::Char) => {
                        self.detail.array.saturating_add(1).max(LONGEST_BESIDE)
                    }
                    // The words of an environment are copied to be counted: it may be long.
                    _ if matches!(array.length, Expr::Zero(_)) && !element.leads_on() => 4096,
                    _ => self.detail.array.saturating_add(1),
                };
                if self.count(&array.length, around, stride, most) {
                    if !matches!(array.length, Expr::Zero(_)) {
                        self.push(Op::Array(stride));
                    }
                    self.each(element, stride, lens);
                }
            }
            _ if lens == Some(&Lens::String) && ty.is_integer() => {
                let (unit, max) = (ty.size() as u8, self.detail.strings.saturating_add(1));
                self.push(Op::Text { unit, max });
            }
            Kind::Struct(of) => {
                let this: *const Struct = &raw const **of;
                let again = self.inside.iter().filter(|outer| **outer == this).count();
                if again >= self.detail.array as usize {
                    return;
                }
                self.push(Op::Bytes(ty.size()));
                self.inside.push(this);
                self.block(|plan| plan.members(of, Spot::Block(0), lens));
                self.inside.pop();
            }
            _ => {
                self.push(Op::Bytes(ty.size()));
                self.block(|plan| plan.value(ty, Spot::Block(0), lens, None));
            }
        }
    }

    /// Writes the operation that hands on the text of a word.
    fn describe(&mut self, word: Word, spot: Spot) {
        if self.load(spot) {
            self.push(Op::Describe {
                what: What(word.number()),
                items: self.detail.array.min(u16::MAX.into()) as u16,
                text: self.detail.strings,
            });
        }
    }

    /// Writes what `inner` writes, with `v` as base; nothing if it writes nothing.
    fn block(&mut self, inner: impl FnOnce(&mut Self)) {
        self.nested(|skip| Op::Open { skip }, inner);
    }

    fn each(&mut self, element: &'p Type, stride: u32, lens: Option<&'p Lens>) {
        if element.leads_on() {
            let op = |skip| Op::Each { stride, skip };
            self.nested(op, |plan| plan.value(element, Spot::Block(0), lens, None));
        }
    }

    fn nested(&mut self, op: impl Fn(u16) -> Op, inner: impl FnOnce(&mut Self)) {
        if self.depth == CopyLimits::DEPTH {
            return;
        }
        let open = self.ops.len();
        self.push(op(0));
        self.depth += 1;
        inner(self);
        self.depth -= 1;
        if self.ops.len() == open + 1 {
            self.ops.pop();
            return;
        }
        self.push(Op::Close);
        let skip = u16::try_from(self.ops.len() - open - 1);
        self.ops[open] = op(skip.expect("programs are cut long before"));
    }

    /// Writes the operations that load an array's length, at most `most`, into `n`; `v` is its address.
    fn count(&mut self, length: &Expr, around: Option<Around>, stride: u32, most: u32) -> bool {
        let Expr::Zero(bound) = length else {
            let known = self.number(length, around);
            if known {
                let most = self.most(length, around, most);
                self.push(most);
            }
            return known;
        };
        match bound {
            Some(bound) if !self.number(bound, around) => return false,
            Some(_) => self.push(Op::AtMost(most)),
            None => self.push(Op::Constant(most)),
        }
        let zero = stride > 0 && stride as usize <= CopyLimits::CHUNK;
        if zero {
            self.push(Op::ZeroEnded(stride));
        }
        zero
    }

    /// The operation that bounds a length: one that is a `size_t` is never negative, whatever its upper bit.
    fn most(&self, length: &Expr, around: Option<Around>, most: u32) -> Op {
        let ty = match length {
            Expr::Argument(index) => {
                let parameter = self.prototype.parameters.get(usize::from(*index));
                parameter.map(|of| &of.ty)
            }
            Expr::Member(index) => around.and_then(|Around(of, _)| {
                let (_, field) = of.members().nth((*index).into())?;
                Some(field)
            }),
            _ => None,
        };
        match ty.is_some_and(|ty| ty.size() == 8 && !ty.is_signed()) {
            true => Op::Within(most),
            false => Op::AtMost(most),
        }
    }

    /// Writes the operation that loads the number into `n`; false if it is not known yet.
    fn number(&mut self, of: &Expr, around: Option<Around>) -> bool {
        let op = match of {
            Expr::Number(number) => Some(Op::Constant(*number)),
            Expr::Argument(index) => {
                let index = usize::from(*index);
                let place = self.locations.arguments.get(index).copied();
                let spot = place.and_then(Spot::of_argument).and_then(Spot::source);
                let parameter = self.prototype.parameters.get(index);
                spot.zip(parameter)
                    .map(|((source, skip), of)| Op::Count(source, width(&of.ty, skip)))
            }
            Expr::Returned if self.exit && matches!(self.locations.returned, Location::Gp(_)) => {
                Some(Op::Count(Source::Rax, width(&self.prototype.returns, 0)))
            }
            Expr::Member(index) => around.and_then(|Around(of, spot)| {
                let (offset, field) = of.members().nth((*index).into())?;
                match spot.plus(offset) {
                    Spot::Block(at) => Some(Op::CountMember(at, width(field, 0))),
                    spot => spot
                        .source()
                        .map(|(source, skip)| Op::Count(source, width(field, skip))),
                }
            }),
            Expr::Command(index) => {
                let known = self.number(&Expr::Argument(*index), around);
                if known {
                    self.push(Op::CommandSize(BEHIND_COMMAND));
                }
                return known;
            }
            Expr::Returned | Expr::Zero(_) => None,
        };
        self.ops.extend(op);
        op.is_some()
    }

    fn format(&mut self, ty: &Type, spot: Spot, locations: &Locations) {
        let unit = match &ty.kind {
            Kind::Pointer(to) => match &to.kind {
                Kind::Array(array) => array.element.size(),
                _ => to.size(),
            },
            _ => return,
        };
        let used = locations.used;
        if let (true, Ok(stack)) = (self.load(spot), u16::try_from(used.stack)) {
            self.push(Op::Format {
                gp: used.gp,
                sse: used.sse,
                stack,
                unit: unit as u8,
                max: self.detail.strings.saturating_add(1).min(u16::MAX.into()) as u16,
            });
        }
    }
}

fn is_hidden(ty: &Type) -> bool {
    ty.lens == Some(Lens::Hide)
}

pub(crate) fn width(ty: &Type, skip: u8) -> Width {
    Width {
        bytes: ty.size().clamp(1, 8) as u8,
        signed: ty.is_signed(),
        skip,
    }
}
