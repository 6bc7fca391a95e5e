//! Attributes of netlink: `[{nla_len=8, nla_type=IFA_FLAGS}, IFA_F_PERMANENT]` (`struct nlattr` in include/uapi/linux/netlink.h).
//! Used by `netlink`.

mod values;

use super::parts::{ATTRIBUTE, DEEPEST, chain};
use crate::call::Hex;
use crate::layout::{self, Attribute, Attributes, Ty};
use crate::writer::{Unknown, Writer, Written};

/// What the message says that attributes are in.
#[derive(Clone, Copy, Default)]
pub struct Context {
    /// The family of its addresses.
    family: u8,
    /// The list of the commands of the family of generic netlink that it is about, as its place in `Tables::lists`.
    commands: Option<usize>,
    /// How deep they lie in other attributes.
    depth: u32,
}

impl Context {
    /// Of a message with addresses of this family.
    pub fn of_family(family: u8) -> Self {
        Context {
            family,
            ..Context::default()
        }
    }

    /// Of a message about a family of generic netlink.
    pub fn of_commands(commands: Option<usize>) -> Self {
        Context {
            commands,
            ..Context::default()
        }
    }

    fn deeper(self) -> Self {
        Context {
            depth: self.depth + 1,
            ..self
        }
    }
}

/// What an attribute lies in.
#[derive(Clone, Copy)]
struct Around<'a> {
    of: Option<&'a Attributes>,
    context: Context,
    /// The number, the place and the length of those before it.
    before: &'a [(u64, u64, u64)],
}

/// Appends attributes.
pub fn attributes(
    w: &mut Writer,
    at: u64,
    length: u64,
    of: Option<&Attributes>,
    context: Context,
) -> Written {
    let of = match of {
        Some(of) if !of.families.is_empty() => {
            let mut rows = of.families.iter();
            let found = rows.find(|(own, _)| own.is_none_or(|own| own == context.family));
            match found {
                Some((_, index)) => Some(&layout::tables().netlink().attributes[*index]),
                None => return w.buffer_as(at, length as usize, Hex::Always),
            }
        }
        of => of,
    };
    let mut before = Vec::new();
    chain(w, at, length, ATTRIBUTE, |w, at, length| {
        let around = Around {
            of,
            context,
            before: &before,
        };
        let own = attribute(w, at, length, around)?;
        before.push(own);
        Ok(())
    })
}

/// Appends an attribute, and returns its number and where what it holds lies.
fn attribute(
    w: &mut Writer,
    at: u64,
    room: u64,
    around: Around,
) -> Result<(u64, u64, u64), Unknown> {
    /// The marks that the type of an attribute may have beside its number (include/uapi/linux/netlink.h).
    const MARKS: [(u16, &str); 2] = [(0x8000, "NLA_F_NESTED"), (0x4000, "NLA_F_NET_BYTEORDER")];
    let [length, kind] = [0, 2].map(|offset| w.number(at + offset).map(u16::from_le_bytes));
    let (length, kind) = (length?, kind?);
    let holds = u64::from(length).min(room);
    if holds > ATTRIBUTE {
        w.push("[");
    }
    w.push(&format!("{{nla_len={length}, nla_type="));
    for (bit, name) in MARKS {
        if kind & bit != 0 {
            w.known(bit.into(), name);
            w.push("|");
        }
    }
    let number = u64::from(kind & 0x3fff);
    match around.of {
        Some(of) => layout::tables().lists[of.list].name(w, number),
        None => w.hexadecimal(number),
    }
    w.push("}");
    let (at, holds) = (at + ATTRIBUTE, holds.saturating_sub(ATTRIBUTE));
    if holds > 0 {
        w.push(", ");
        let own = |of: &'_ Attributes| of.types.get(&number).or(of.rest.as_ref()).cloned();
        let what = around.of.and_then(own);
        let what = what.and_then(|what| said(w, what, around));
        let before = w.out.len();
        let known = what.as_ref().filter(|_| around.context.depth < DEEPEST);
        let written = known.map(|what| held(w, at, holds, what, around));
        if !matches!(written, Some(Ok(()))) {
            w.out.truncate(before);
            unknown(w, at, holds, what.is_some());
        }
        w.push("]");
    }
    Ok((number, at, holds))
}

/// What an attribute is of which another one before it says what it is.
fn said(w: &Writer, what: Attribute, around: Around) -> Option<Attribute> {
    /// The longest kind of a link (`MODULE_NAME_LEN` is more; strace takes so much).
    const LONGEST: u64 = 16;
    let Attribute::Said(name, kinds) = what else {
        return Some(what);
    };
    let names = layout::tables().lists[around.of?.list].names();
    let (_, number) = names.iter().find(|(known, _)| *known == name)?;
    let mut before = around.before.iter().rev();
    let (_, at, length) = before.find(|(own, ..)| *own == *number as u64)?;
    if *length >= LONGEST {
        return None;
    }
    let bytes = w.bytes(*at, *length as usize);
    let end = bytes.iter().position(|byte| *byte == 0)?;
    let mut kinds = kinds.into_iter();
    let found = kinds.find(|(kind, _)| kind.as_bytes() == &bytes[..end]);
    found.map(|(_, what)| what)
}

/// Bytes of an attribute that is too short for its type or has none; the address of those that are not all there.
fn unknown(w: &mut Writer, at: u64, length: u64, has_type: bool) {
    let whole = w.bytes(at, length as usize).len() as u64 == length;
    let before = w.out.len();
    let missing = has_type && !whole;
    if missing || w.buffer_as(at, length as usize, Hex::Always).is_err() {
        w.out.truncate(before);
        w.address(at);
    }
}

fn size(ty: &Ty) -> u64 {
    ty.layout(layout::tables()).0.into()
}

/// What an attribute holds; an error if it is too short for it.
fn held(w: &mut Writer, at: u64, length: u64, what: &Attribute, around: Around) -> Written {
    let inside = |w: &mut Writer, at, length, index: &usize| {
        let of = &layout::tables().netlink().attributes[*index];
        attributes(w, at, length, Some(of), around.context.deeper())
    };
    match what {
        Attribute::Value(ty) | Attribute::Rest(ty) | Attribute::With(ty, _)
            if length < size(ty) =>
        {
            Err(Unknown)
        }
        Attribute::Value(ty) => layout::value(w, ty, at, None),
        Attribute::Rest(ty) => {
            layout::value(w, ty, at, None)?;
            let own = size(ty);
            if length > own {
                w.push(", ");
                w.buffer_as(at + own, (length - own) as usize, Hex::Always)?;
            }
            Ok(())
        }
        Attribute::Legible(ty) if length < size(ty) => w.buffer(at, length as usize),
        Attribute::Legible(ty) => layout::value(w, ty, at, None),
        Attribute::Cut(ty, least) => {
            let ends = layout::ends(ty, *least).any(|end| u64::from(end) == length);
            match ends || length >= size(ty) {
                true => layout::beginning(w, ty, at, length),
                false => Err(Unknown),
            }
        }
        Attribute::Exact(types) => {
            let fits = types.iter().find(|ty| size(ty) == length);
            layout::value(w, fits.ok_or(Unknown)?, at, None)
        }
        Attribute::Short(ty) if length > 8 || length < size(ty) => Err(Unknown),
        Attribute::Short(ty) => layout::value(w, ty, at, None),
        Attribute::Wide(ty) => values::wide(w, ty, at, length),
        Attribute::String => values::string(w, at, length),
        Attribute::Text => values::text(w, at, length),
        Attribute::Typed => {
            w.push("{type=");
            values::text(w, at, length)?;
            w.push("}");
            Ok(())
        }
        Attribute::Many(ty, names) => {
            let count = length / size(ty).max(1);
            match names {
                _ if count == 0 => Err(Unknown),
                Some(names) => layout::named(w, ty, at, count, *names),
                None => layout::counted(w, ty, at, count),
            }
        }
        Attribute::Nest(index) => inside(w, at, length, index),
        Attribute::With(ty, index) => {
            layout::value(w, ty, at, None)?;
            let offset = size(ty).next_multiple_of(4);
            if length > offset {
                w.push(", ");
                inside(w, at + offset, length - offset, index)?;
            }
            Ok(())
        }
        Attribute::Hops(ty, index) => values::hops(w, at, length, ty, |w, at, length| {
            inside(w, at, length, index)
        }),
        Attribute::Address => values::address(w, at, length, around.context.family),
        Attribute::Via => values::via(w, at, length),
        Attribute::Hardware => values::hardware(w, at, length, around.context.family),
        Attribute::Conditions => values::conditions(w, at, length),
        Attribute::Options => values::options(w, at, length),
        Attribute::Command => values::command(w, at, length, around.context.commands),
        Attribute::Said(..) => Err(Unknown),
    }
}
