//! What is copied of the memory that arguments point to, by the same rows that say how it is written: only what belongs to
//! the command that the other arguments name.
//!
//! ```text
//!   call fcntl 2 arg1=15 in f_owner_ex        OnlyIf  argument 1 is 15, else skip 2
//!                                               Value   argument 2
//!                                               Bytes   8
//! ```
//!
//! What the prototype in `syscalls.conf` has copied is copied beside it (`prototypes::plan`).

use super::tables::tables;
use super::types::{How, Length, Row, Struct, Tables, Text, Ty, When};
use prototypes::bundle::Bundle;
use prototypes::capture::{Op, Source, Width};
use prototypes::types::Prototype;
use prototypes::{Detail, Programs};

/// What the type of the argument of `ioctl` in `syscalls.conf` has copied: so much behind what the command names, and so much at most.
const BEHIND_COMMAND: u32 = 320;
const LONGEST_COMMAND: u32 = 2048;

/// Elements of an array that are copied, at most, whatever `-v` asks for.
const MOST: u32 = 4096;

/// Bytes that a call has written where it says itself how many, by a tracer: as many as programs offer room for.
const WHOLE: u32 = 128 << 10;

/// Returns the programs that copy what the rows of a system call want; empty where they want nothing.
pub fn programs(name: &str, detail: Detail) -> Programs {
    let program = |exit| {
        let mut plan = Plan {
            tables: tables(),
            detail,
            exit,
            ops: Vec::new(),
            prototype: Bundle::prototype("SYS", name),
        };
        plan.call(name);
        plan.ops.into_iter().map(Op::encode).collect()
    };
    Programs {
        call: program(false),
        exit: program(true),
    }
}

struct Plan<'t> {
    tables: &'t Tables,
    detail: Detail,
    exit: bool,
    ops: Vec<Op>,
    prototype: Option<Prototype>,
}

impl Plan<'_> {
    fn call(&mut self, name: &str) {
        let tables = self.tables;
        for row in tables.calls(name).iter().chain(tables.copies(name)) {
            self.row(row);
        }
        if name == "ioctl" {
            self.commands();
        }
    }

    fn row(&mut self, row: &Row) {
        let Some(ty) = row.how.as_ref().and_then(|how| wanted(how, self.exit)) else {
            return;
        };
        let inner = self.apart(|plan| plan.pointed(row.index, ty));
        self.under(&row.when, inner);
    }

    /// Commands of `ioctl` whose arguments lead on, or are longer than what is copied of all.
    fn commands(&mut self) {
        let tables = self.tables;
        let mut commands: Vec<(&u32, &How)> = tables.ioctls().arguments.iter().collect();
        commands.sort_by_key(|(command, _)| **command);
        for (command, how) in commands {
            let Some(ty) = wanted(how, self.exit) else {
                continue;
            };
            let named = (command >> 16 & 0x3fff) + BEHIND_COMMAND;
            let size = ty.layout(tables).0;
            if !reaches(ty, tables) && size <= named.min(LONGEST_COMMAND) {
                continue;
            }
            let inner = self.apart(|plan| plan.pointed(2, ty));
            self.under(&[(1, 0, vec![*command])], inner);
        }
    }

    /// What `write` writes, on its own.
    fn apart(&mut self, write: impl FnOnce(&mut Self)) -> Vec<Op> {
        let before = std::mem::take(&mut self.ops);
        write(self);
        std::mem::replace(&mut self.ops, before)
    }

    /// Writes operations for each way in which the conditions can be met.
    fn under(&mut self, conditions: &[(usize, u32, Vec<u32>)], inner: Vec<Op>) {
        let Some(((argument, shift, numbers), rest)) = conditions.split_first() else {
            return self.ops.extend(inner);
        };
        for is in numbers {
            let inner = self.apart(|plan| plan.under(rest, inner.clone()));
            if inner.is_empty() {
                return;
            }
            self.ops.push(Op::OnlyIf {
                argument: *argument as u8,
                shift: *shift as u8,
                skip: inner.len() as u16,
                is: *is,
            });
            self.ops.extend(inner);
        }
    }

    fn pointed(&mut self, index: usize, ty: &Ty) {
        self.ops.push(Op::Value(Source::Gp(index as u8)));
        self.there(ty, None);
    }

    /// Writes the operations that copy a value at `v`; `around` is the struct whose address is the base.
    fn there(&mut self, ty: &Ty, around: Option<&Struct>) {
        match ty {
            Ty::Text(kind, length) => self.text(*kind, length, around),
            Ty::Array(of, length) => {
                let stride = of.layout(self.tables).0;
                let most = match (&length.used, length.places) {
                    (Some(_), places @ 1..) => places,
                    _ => self.detail.array.saturating_add(1),
                };
                if !self.count(length, around, most) {
                    return;
                }
                self.ops.push(Op::Array(stride));
                self.each(of, stride);
            }
            Ty::Struct(index, _) => {
                let of = self.tables.structure(*index);
                let said = of.sized.map(|(argument, _)| argument);
                match said.or(of.room.filter(|_| of.zeros)) {
                    None => self.ops.push(Op::Bytes(of.size)),
                    Some(argument) => {
                        let width = self.width_of(argument);
                        let size = Op::Count(Source::Gp(argument as u8), width);
                        self.ops.extend([size, Op::Within(MOST), Op::Array(1)]);
                    }
                }
                self.nested(|skip| Op::Open { skip }, |plan| plan.members(of));
            }
            Ty::Pointer(to) => {
                self.ops.push(Op::Bytes(8));
                self.nested(
                    |skip| Op::Open { skip },
                    |plan| {
                        plan.ops.push(Op::Member(0));
                        plan.there(to, None);
                    },
                );
            }
            Ty::Changing(of) => self.there(of, around),
            Ty::Number(size, _) => self.ops.push(Op::Bytes(*size)),
            Ty::Custom(custom, _) if custom.by_result => {
                let size = Op::Count(Source::Rax, Width::WORD);
                let most = match self.detail.whole {
                    true => WHOLE,
                    false => custom.copied,
                };
                self.ops.extend([size, Op::AtMost(most), Op::Array(1)]);
            }
            Ty::Custom(custom, _) => self.ops.push(Op::Bytes(custom.copied.max(custom.size))),
        }
    }

    fn text(&mut self, kind: Text, length: &Length, around: Option<&Struct>) {
        let shown = self.detail.strings.saturating_add(1);
        let most = match (kind, &length.used) {
            (Text::Label, None) => length.places,
            (_, None) => length.places.min(shown),
            (_, Some(_)) => shown,
        };
        if !self.count(length, around, most) {
            return;
        }
        self.ops.push(match kind {
            Text::String | Text::Label | Text::Brief => Op::CountedText { unit: 1, max: most },
            Text::Hex | Text::Bytes => Op::Array(1),
        });
    }

    fn members(&mut self, of: &Struct) {
        for member in &of.members {
            if !reaches(&member.ty, self.tables) {
                continue;
            }
            let inner = self.apart(|plan| match &member.ty {
                Ty::Pointer(to) => {
                    plan.ops.push(Op::Member(member.offset));
                    plan.there(to, Some(of));
                }
                Ty::Struct(index, _) => {
                    let inner = plan.tables.structure(*index);
                    plan.ops.push(Op::At(member.offset));
                    plan.nested(|skip| Op::Open { skip }, |plan| plan.members(inner));
                }
                other => {
                    plan.ops.push(Op::At(member.offset));
                    plan.there(other, Some(of));
                }
            });
            self.when(of, &member.when, inner);
        }
    }

    /// Writes operations for the numbers of another member by which this one is there.
    fn when(&mut self, of: &Struct, conditions: &[When], inner: Vec<Op>) {
        let is = conditions.iter().find_map(|when| match when {
            When::Is(name, numbers) => Some((of.member(name)?, numbers)),
            _ => None,
        });
        let Some((member, numbers)) = is else {
            return self.ops.extend(inner);
        };
        let width = width(&member.ty, self.tables);
        for number in numbers {
            self.ops.push(Op::CountMember(member.offset, width));
            self.ops.push(Op::OnlyNumber {
                skip: inner.len() as u16,
                is: *number as u32,
            });
            self.ops.extend(inner.iter().copied());
        }
    }

    /// Writes the operation that loads how many elements there are, at most so many, into `n`; false if that is not known.
    fn count(&mut self, length: &Length, around: Option<&Struct>, most: u32) -> bool {
        let most = most.min(MOST);
        let Some(name) = &length.used else {
            self.ops.push(Op::Constant(length.places.min(most.max(1))));
            return true;
        };
        // What follows from several members is copied as far as it is shown.
        if name.starts_with('=') {
            self.ops.push(Op::Constant(most));
            return true;
        }
        let op = if name.starts_with("result") {
            self.exit.then_some(Op::Count(Source::Rax, Width::WORD))
        } else if let Some(index) = name.strip_prefix("arg").and_then(|of| of.parse().ok()) {
            Some(Op::Count(Source::Gp(index), self.width_of(index.into())))
        } else {
            around
                .and_then(|of| of.member(name))
                .map(|member| Op::CountMember(member.offset, width(&member.ty, self.tables)))
        };
        let Some(op) = op else {
            return false;
        };
        self.ops.push(op);
        let places = match length.places {
            0 => most,
            places => most.min(places),
        };
        // A negative result is the number of an error.
        self.ops.push(match &**name {
            name if name.starts_with("result") || length.open => Op::AtMost(places),
            _ => Op::Within(places),
        });
        true
    }

    /// The width of an argument, as its prototype has it.
    fn width_of(&self, index: usize) -> Width {
        let prototype = self.prototype.as_ref();
        let parameter = prototype.and_then(|of| of.parameters.get(index));
        Width {
            bytes: parameter.map_or(8, |of| of.ty.size().clamp(1, 8) as u8),
            ..Width::WORD
        }
    }

    fn each(&mut self, of: &Ty, stride: u32) {
        if !reaches(of, self.tables) {
            return;
        }
        let op = |skip| Op::Each { stride, skip };
        self.nested(op, |plan| match of {
            Ty::Struct(index, _) => plan.members(plan.tables.structure(*index)),
            Ty::Pointer(to) => {
                plan.ops.push(Op::Member(0));
                plan.there(to, None);
            }
            _ => {}
        });
    }

    /// Writes what `inner` writes, with `v` as base; nothing if it writes nothing.
    fn nested(&mut self, op: impl Fn(u16) -> Op, inner: impl FnOnce(&mut Self)) {
        let inner = self.apart(inner);
        if inner.is_empty() {
            return;
        }
        self.ops.push(op(inner.len() as u16 + 1));
        self.ops.extend(inner);
        self.ops.push(Op::Close);
    }
}

fn width(ty: &Ty, tables: &Tables) -> Width {
    Width {
        bytes: ty.layout(tables).0.clamp(1, 8) as u8,
        signed: false,
        skip: 0,
    }
}

/// What is copied of an argument at the call, or at its return.
fn wanted(how: &How, exit: bool) -> Option<&Ty> {
    match how {
        How::Nothing | How::Address | How::Value(_) => None,
        How::In(ty) => (!exit).then_some(ty),
        How::Out(ty) => exit.then_some(ty),
        How::After(ty) | How::Filled(ty) | How::Changed(ty, ..) => Some(ty),
        How::Answered(first, then) | How::More(first, then, _) | How::Both(first, then, _) => {
            Some(if exit { then } else { first })
        }
    }
}

/// Whether a value leads to memory that lies elsewhere or behind it.
fn reaches(ty: &Ty, tables: &Tables) -> bool {
    match ty {
        Ty::Number(..) | Ty::Custom(..) => false,
        Ty::Changing(of) => reaches(of, tables),
        Ty::Text(_, length) => length.places == 0,
        Ty::Array(of, length) => length.places == 0 || length.open || reaches(of, tables),
        Ty::Pointer(_) => true,
        Ty::Struct(index, _) => {
            let of = tables.structure(*index);
            of.members.iter().any(|member| reaches(&member.ty, tables))
        }
    }
}

#[cfg(test)]
mod tests {
    use prototypes::Detail;
    use prototypes::capture::{CopyLimits, Registers, run};
    use prototypes::show::{Captures, Memory as _};

    /// What is copied of a call with these arguments; every byte of memory below this address can be read and holds its
    /// address's lowest byte.
    fn copied(name: &str, arguments: [u64; 6], end: u64) -> Captures {
        let programs = crate::copies(name, Detail::default());
        let registers = Registers {
            gp: arguments,
            ..Registers::default()
        };
        let mut captures = Captures::new();
        run(
            &programs.call,
            &registers,
            None,
            CopyLimits::default(),
            &mut (
                |at: u64, into: &mut [u8]| {
                    (0..).zip(into.iter_mut()).for_each(|(offset, byte)| {
                        *byte = (at + offset) as u8;
                    });
                    at + into.len() as u64 <= end
                },
                |at: u64, bytes: &[u8]| {
                    captures.add(at, bytes);
                    true
                },
            ),
        );
        captures
    }

    fn has(captures: &Captures, at: u64, length: usize) -> bool {
        captures.read(at, &mut vec![0; length])
    }

    #[test]
    fn only_what_belongs_to_the_command_is_copied() {
        // F_SETOWN_EX takes a struct of eight bytes, F_SETFD a number.
        let set_owner = copied("fcntl", [0, 15, 0x10000, 0, 0, 0], u64::MAX);
        assert!(has(&set_owner, 0x10000, 8) && !has(&set_owner, 0x10008, 1));
        let set_flags = copied("fcntl", [0, 2, 0x10000, 0, 0, 0], u64::MAX);
        assert!(!has(&set_flags, 0x10000, 1));
        // The upper half of a register is no part of an int.
        let wide = copied("fcntl", [0, 0xdead_0000_000f, 0x10000, 0, 0, 0], u64::MAX);
        assert!(has(&wide, 0x10000, 8));
    }

    #[test]
    fn as_much_is_copied_as_an_argument_says_and_memory_has() {
        let whole = copied("openat2", [0, 0, 0x10000, 32, 0, 0], u64::MAX);
        assert!(has(&whole, 0x10000, 32) && !has(&whole, 0x10020, 1));
        // A hostile length ends at a bound, and at the last page that can be read.
        let hostile = copied("openat2", [0, 0, 0x10ff0, u64::MAX, 0, 0], 0x11000);
        assert!(has(&hostile, 0x10ff0, 16) && !has(&hostile, 0x11000, 1));
        assert!(!has(
            &copied("openat2", [0, 0, 0, 32, 0, 0], u64::MAX),
            0,
            1
        ));
    }
}
