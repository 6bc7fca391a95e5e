//! Decides which arguments of a system call are written at its begin and which at its end, and by which part of this
//! crate.

mod names;

use crate::call::{Part, RawCall, Style};
use crate::layout::{Row, Rows};
use crate::writer::{Place, Writer};
use crate::{forms, ioctl, layout, netlink, special};
use prototypes::digits::hex;
use prototypes::types::Kind;
use std::ops::Range;

pub use names::argument_name;

/// Appends the arguments of a part.
pub fn write(style: &Style, call: &RawCall, part: Part, out: &mut Vec<u8>) {
    if style.raw {
        if part == Part::Entry {
            raw(style, call, out);
        }
        return;
    }
    let w = &mut Writer::new(style, call, forms::by_name, out);
    w.messages = Some(netlink::messages);
    if let Some((at, write)) = special::whole(call.name) {
        if part == at {
            w.late = part == Part::Exit;
            write(w);
            w.late = false;
        }
        return;
    }
    let rows = layout::rows(call);
    for index in range(call, rows, part) {
        let row = rows.of(index);
        if row.is_some_and(|row| row.how.is_none()) {
            continue;
        }
        if index > 0 {
            w.push(", ");
        }
        w.late = part == Part::Exit;
        w.argument_name(index);
        argument(w, row, index);
    }
    w.late = false;
}

/// Hands the text of each argument of a part to `each`; of a call that writes them in an order of its own, of all together.
pub fn each(style: &Style, call: &RawCall, part: Part, mut each: impl FnMut(&[u8])) {
    let mut text = Vec::new();
    if style.raw || special::whole(call.name).is_some() {
        write(style, call, part, &mut text);
        if !text.is_empty() {
            each(&text);
        }
        return;
    }
    let rows = layout::rows(call);
    for index in range(call, rows, part) {
        let row = rows.of(index);
        if row.is_some_and(|row| row.how.is_none()) {
            continue;
        }
        text.clear();
        let w = &mut Writer::new(style, call, forms::by_name, &mut text);
        w.messages = Some(netlink::messages);
        w.late = part == Part::Exit;
        argument(w, row, index);
        each(&text);
    }
}

/// Which arguments are written in a part.
fn range(call: &RawCall, rows: Rows<'_>, part: Part) -> Range<usize> {
    let all = call.prototype.parameters.len().min(call.arguments.len());
    let shown = special::shown(call).unwrap_or(all).min(all);
    let ends = |index: &usize| {
        let row = rows.of(*index);
        row.is_some_and(|row| matches!(row.how, Some(layout::How::Nothing)))
    };
    let shown = (0..shown).find(ends).unwrap_or(shown);
    let late = call.prototype.late_from.unwrap_or(all).min(shown);
    match part {
        Part::Entry => 0..late,
        Part::Exit => late..shown,
    }
}

/// Appends all arguments as numbers.
fn raw(style: &Style, call: &RawCall, out: &mut Vec<u8>) {
    let all = call.prototype.parameters.iter().zip(call.arguments);
    for (index, (parameter, word)) in all.enumerate() {
        if index > 0 {
            out.extend_from_slice(b", ");
        }
        Writer::new(style, call, forms::by_name, out).argument_name(index);
        // An int has 32 bits, whatever stands above them in its register.
        match word & u64::MAX >> (64 - 8 * u64::from(parameter.ty.size().clamp(1, 8))) {
            0 => out.push(b'0'),
            word => hex(word, out),
        }
    }
}

/// Appends the argument with this index: as a row of `conf/` says, or a function of `special`, or else by its type.
fn argument(w: &mut Writer, row: Option<&Row>, index: usize) {
    let word = w.call.arguments[index];
    let Some(parameter) = w.call.prototype.parameters.get(index) else {
        return hex(word, w.out);
    };
    if let Some(how) = row.and_then(|row| row.how.as_ref()) {
        return ioctl::by_row(w, how, word);
    }
    if let Some(write) = special::argument(w.call, index) {
        let before = w.out.len();
        if write(w, word).is_err() {
            w.out.truncate(before);
            w.address(word);
        }
        return;
    }
    // A call that failed has written nothing; what it was to write is where it was to be written.
    let unwritten = w.late && w.call.error().is_some() && !parameter.both;
    if unwritten && matches!(parameter.ty.kind, Kind::Pointer(_)) {
        return w.address(word);
    }
    w.whole(&parameter.ty, Place::Word(word));
}
