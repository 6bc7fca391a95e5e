//! Encodes definitions: a byte with the kind, then numbers as LEB128, and texts after their length. Used by `read` and
//! `write`.

use crate::item::{CallEdge, Caller, Definition, Function, Guest, Head, Line, Losses, Module};
use varint::{Take, Wrong, put, put_bytes};

mod kind {
    pub const HEAD: u8 = 1;
    pub const GUEST: u8 = 2;
    pub const MODULE: u8 = 3;
    pub const FUNCTION: u8 = 4;
    pub const CALL_EDGE: u8 = 5;
    pub const LINE: u8 = 6;
    pub const CALLER: u8 = 7;
    pub const LOSSES: u8 = 8;
}

/// Limit of the bytes of a text, and of the texts of a list, so that a definition fits into a segment. A longer
/// text, such as a command line, is cut.
const LONGEST: usize = 64 << 10;

fn put_text(out: &mut Vec<u8>, text: &str) {
    put_bytes(out, &text.as_bytes()[..text.floor_char_boundary(LONGEST)]);
}

fn put_texts(out: &mut Vec<u8>, texts: &[String]) {
    let mut room = LONGEST;
    let fit = texts.iter().take_while(|text| {
        let length = text.len() + 4;
        let fits = length <= room;
        room = room.saturating_sub(length);
        fits
    });
    let fit: Vec<&String> = fit.collect();
    put(out, fit.len() as u64);
    for text in fit {
        put_text(out, text);
    }
}

/// Writes a definition, with its kind before it; texts that are too long are cut.
pub fn put_definition(out: &mut Vec<u8>, definition: &Definition) {
    match definition {
        Definition::Head(head) => {
            out.push(kind::HEAD);
            put_text(out, &head.lancet);
            put_texts(out, &head.command);
            put(out, head.began);
        }
        Definition::Guest(guest) => {
            out.push(kind::GUEST);
            put(out, u64::from(guest.pid as u32));
            put_texts(out, &guest.command);
            put_text(out, &guest.vm);
            put(out, guest.since);
        }
        Definition::Module(module) => {
            out.push(kind::MODULE);
            put_text(out, &module.path);
            put_text(out, &module.name);
            out.push(module.main.into());
            put(out, module.bias);
        }
        Definition::Function(function) => {
            out.push(kind::FUNCTION);
            put(out, function.module.into());
            put_texts(out, &function.names);
            put(out, function.address);
            put(out, function.size);
            put_text(out, &function.prototype);
        }
        Definition::CallEdge(edge) => {
            out.push(kind::CALL_EDGE);
            put(out, edge.function.into());
            put(out, edge.from.map_or(0, |from| u64::from(from) + 1));
            put(out, edge.slots);
            put_text(out, &edge.inside);
        }
        Definition::Line(line) => {
            out.push(kind::LINE);
            put_text(out, &line.path);
            put(out, line.line.into());
            put_text(out, &line.name);
        }
        Definition::Caller(caller) => {
            out.push(kind::CALLER);
            put(out, caller.address);
            put_text(out, &caller.path);
            put_text(out, &caller.name);
            put(out, caller.offset);
            put(out, caller.in_file);
        }
        Definition::Losses(losses) => {
            out.push(kind::LOSSES);
            put(out, losses.guest.into());
            put(out, losses.records);
            put(out, losses.without_ring);
        }
    }
}

/// Reads a definition. The caller must check that the numbers in it are defined.
pub fn take_definition(take: &mut Take) -> Result<Definition, Wrong> {
    Ok(match take.byte()? {
        kind::HEAD => Definition::Head(Head {
            lancet: take.text()?,
            command: take.texts()?,
            began: take.number()?,
        }),
        kind::GUEST => Definition::Guest(Guest {
            pid: take.small()? as i32,
            command: take.texts()?,
            vm: take.text()?,
            since: take.number()?,
        }),
        kind::MODULE => Definition::Module(Module {
            path: take.text()?,
            name: take.text()?,
            main: take.byte()? != 0,
            bias: take.number()?,
        }),
        kind::FUNCTION => Definition::Function(Function {
            module: take.small()?,
            names: take.texts()?,
            address: take.number()?,
            size: take.number()?,
            prototype: take.text()?,
        }),
        kind::CALL_EDGE => Definition::CallEdge(CallEdge {
            function: take.small()?,
            from: match take.small()? {
                0 => None,
                number => Some(number - 1),
            },
            slots: take.number()?,
            inside: take.text()?,
        }),
        kind::LINE => Definition::Line(Line {
            path: take.text()?,
            line: take.small()?,
            name: take.text()?,
        }),
        kind::CALLER => Definition::Caller(Caller {
            address: take.number()?,
            path: take.text()?,
            name: take.text()?,
            offset: take.number()?,
            in_file: take.number()?,
        }),
        kind::LOSSES => Definition::Losses(Losses {
            guest: take.small()?,
            records: take.number()?,
            without_ring: take.number()?,
        }),
        _ => return Err(Wrong),
    })
}
