//! Writes values by what the files in `conf/` say of them.

mod texts;

use super::tables::tables;
use super::types::{Form, Length, Member, Struct, Ty, When};
use crate::call::{Constants, Hex, Style};
use crate::text;
use crate::writer::{Unknown, Writer, Written};
use prototypes::digits::decimal;

/// A struct of the guest's, and where it lies.
#[derive(Clone, Copy)]
pub struct Around<'a> {
    of: &'a Struct,
    at: u64,
}

fn size_of(ty: &Ty) -> u32 {
    ty.layout(tables()).0
}

fn number(w: &Writer, size: u32, at: u64) -> Result<u64, Unknown> {
    let mut bytes = [0; 8];
    let size = size.clamp(1, 8) as usize;
    match w.read(at, &mut bytes[..size]) {
        true => Ok(u64::from_le_bytes(bytes)),
        false => Err(Unknown),
    }
}

/// Appends a number of `size` bytes in the form that is given; what stands above these bytes in the word does not count.
pub fn scalar(w: &mut Writer, size: u32, form: Form, word: u64) {
    let unused = 64 - 8 * size.clamp(1, 8);
    let word = word << unused >> unused;
    let signed = (word << unused).cast_signed() >> unused;
    let list = |index: usize| &tables().lists[index];
    match form {
        Form::Unsigned => decimal(word, w.out),
        Form::Signed => decimal(signed, w.out),
        Form::Hex => w.hexadecimal(word),
        Form::Octal => w.octal(word),
        Form::Address => w.address(word),
        Form::Ticks => crate::forms::clock_ticks(w, word),
        Form::Network => {
            let (name, word) = match size {
                2 => ("htons", u64::from((word as u16).swap_bytes())),
                4 => ("htonl", u64::from((word as u32).swap_bytes())),
                _ => ("htobe64", word.swap_bytes()),
            };
            w.push(&format!("{name}({word})"));
        }
        Form::Name(index) => list(index).name(w, word),
        Form::CountedName(index) => list(index).decimal(w, word.cast_signed()),
        Form::SignedName(index) => list(index).decimal(w, signed),
        Form::Flags(index) => list(index).flags(w, word),
        Form::ToldName(index) => told(w, word, |w| list(index).name(w, word)),
        Form::ToldFlags(index) => told(w, word, |w| list(index).flags(w, word)),
        Form::NetworkHex => {
            w.push("htonl(");
            w.hexadecimal((word as u32).swap_bytes().into());
            w.push(")");
        }
        // C's `%#0*x` has no prefix for zero; its width is that of both.
        Form::Padded if word == 0 => w.push(&"0".repeat(2 * size as usize)),
        Form::Padded => w.push(&format!("{word:#0$x}", 2 * size as usize)),
    }
}

/// Appends a number and, in a comment, what `write` makes of it.
fn told(w: &mut Writer, word: u64, write: impl FnOnce(&mut Writer)) {
    let both = Style {
        constants: Constants::Both,
        ..*w.style
    };
    match w.style.constants {
        Constants::Numbers => w.hexadecimal(word),
        _ => write(&mut Writer::new(&both, w.call, w.forms, w.out)),
    }
}

/// Appends a number that was passed itself.
pub fn passed(w: &mut Writer, ty: &Ty, word: u64) -> Written {
    match ty {
        Ty::Number(size, form) => scalar(w, *size, *form, word),
        Ty::Custom(custom, list) => return (custom.passed.ok_or(Unknown)?)(w, word, *list),
        _ => return Err(Unknown),
    }
    Ok(())
}

/// Appends what lies in memory there.
pub fn value(w: &mut Writer, ty: &Ty, at: u64, around: Option<Around>) -> Written {
    match ty {
        Ty::Number(size, form) => {
            let word = number(w, *size, at)?;
            scalar(w, *size, *form, word);
            Ok(())
        }
        Ty::Text(kind, length) => texts::characters(w, *kind, length, at, around),
        Ty::Array(of, length) => {
            let count = used(w, length, around)?;
            if length.open && count > length.places.into() {
                counted(w, of, at, length.places.into())?;
                // Where not even all places were shown the dots are there.
                if w.style.elements() >= length.places.into() {
                    w.out.pop();
                    w.push(", ...]");
                }
                return Ok(());
            }
            match length.names {
                Some(names) => named(w, of, at, count, names),
                None => counted(w, of, at, count),
            }
        }
        // What has no name is all that there is.
        Ty::Struct(index, _) if is_bare(*index) => fields(w, ty, at),
        Ty::Struct(index, _) if tables().structure(*index).zeros => {
            super::zeros::value(w, tables().structure(*index), at, |w, at| fields(w, ty, at))
        }
        Ty::Struct(..) => {
            w.push("{");
            fields(w, ty, at)?;
            w.push("}");
            Ok(())
        }
        Ty::Pointer(to) => {
            let address = number(w, 8, at)?;
            or_address(w, address, |w| match address {
                0 => Err(Unknown),
                address => value(w, to, address, around),
            });
            Ok(())
        }
        Ty::Changing(of) => {
            let size = size_of(of);
            let now = number(w, size, at);
            let before = w.before(|w| number(w, size, at))?;
            w.before_mut(|w| value(w, of, at, around))?;
            if now.is_ok_and(|now| now != before) {
                w.push(" => ");
                value(w, of, at, around)?;
            }
            Ok(())
        }
        Ty::Custom(custom, list) => (custom.show)(w, at, *list),
    }
}

/// Appends what `write` writes, or the address if that is not known.
fn or_address(w: &mut Writer, at: u64, write: impl FnOnce(&mut Writer) -> Written) {
    let before = w.out.len();
    if write(w).is_err() {
        w.out.truncate(before);
        w.cut = true;
        w.address(at);
    }
}

/// The number in an argument, as its prototype has it; a negative one is no length.
fn argument(w: &Writer, index: usize) -> Result<u64, Unknown> {
    let word = *w.call.arguments.get(index).ok_or(Unknown)?;
    let Some(parameter) = w.call.prototype.parameters.get(index) else {
        return Ok(word);
    };
    let unused = 64 - 8 * parameter.ty.size().clamp(1, 8);
    match parameter.ty.is_signed() && (word << unused).cast_signed() < 0 {
        true => Err(Unknown),
        false => Ok(word << unused >> unused),
    }
}

/// Whether a struct has one member alone, and that without a name.
fn is_bare(index: usize) -> bool {
    matches!(&tables().structure(index).members[..], [only] if &*only.name == ".")
}

/// How many elements of an array are in use.
fn used(w: &Writer, length: &Length, around: Option<Around>) -> Result<u64, Unknown> {
    let Some(name) = &length.used else {
        return Ok(length.places.into());
    };
    if &**name == "result" {
        return Ok(w.call.count());
    }
    // No more than there was room for.
    if let Some(room) = name.strip_prefix("result,arg") {
        let room = room
            .parse()
            .ok()
            .and_then(|index: usize| w.call.arguments.get(index));
        return Ok(w.call.count().min(*room.ok_or(Unknown)?));
    }
    if let Some(index) = name
        .strip_prefix("arg")
        .and_then(|index| index.parse::<usize>().ok())
    {
        let count = argument(w, index)?;
        // More than there can be: nothing of it is looked at.
        let most = u64::from(length.places);
        return match most > 0 && count > most && !length.open {
            true => Err(Unknown),
            false => Ok(count),
        };
    }
    let around = around.ok_or(Unknown)?;
    let count = match name.strip_prefix('=') {
        Some(of) => {
            let length = tables().lengths.ok_or(Unknown)?;
            length(w, of, &|w, member| around.number(w, member))?
        }
        None => around.count(w, name)?,
    };
    Ok(match length.places {
        _ if length.open => count,
        0 => count,
        places => count.min(places.into()),
    })
}

/// Appends so many elements: `[1, 2]`; as far as they could be read.
pub fn counted(w: &mut Writer, of: &Ty, at: u64, count: u64) -> Written {
    let stride = u64::from(size_of(of)).max(1);
    listed(w, at, stride, count, w.style.elements(), |w, here, _| {
        value(w, of, here, None)
    })
}

/// The same with the name of each: `[[SK_MEMINFO_RCVBUF]=1]`.
pub fn named(w: &mut Writer, of: &Ty, at: u64, count: u64, names: usize) -> Written {
    let stride = u64::from(size_of(of)).max(1);
    listed(
        w,
        at,
        stride,
        count,
        w.style.elements(),
        |w, here, index| {
            w.push("[");
            tables().lists[names].decimal(w, index.cast_signed());
            w.push("]=");
            value(w, of, here, None)
        },
    )
}

/// Appends elements that `each` writes.
pub fn listed(
    w: &mut Writer,
    at: u64,
    stride: u64,
    count: u64,
    most: u64,
    mut each: impl FnMut(&mut Writer, u64, u64) -> Written,
) -> Written {
    w.push("[");
    for index in 0..count {
        let before = w.out.len();
        let here = at.wrapping_add(index * stride);
        if index > 0 {
            w.push(", ");
        }
        if index >= most {
            // One more than is shown was copied: memory may end there.
            match w.bytes(here, stride as usize).len() as u64 == stride {
                true => w.push("..."),
                false if index == 0 => return Err(Unknown),
                false => w.push(&format!("... /* {here:#x} */")),
            }
            break;
        }
        if each(w, here, index).is_err() {
            if index == 0 {
                return Err(Unknown);
            }
            w.out.truncate(before);
            w.cut = true;
            w.push(&format!(", ... /* {here:#x} */"));
            break;
        }
    }
    w.push("]");
    Ok(())
}

/// Where members of a struct end, from so many bytes on.
pub fn ends(ty: &Ty, least: u32) -> impl Iterator<Item = u32> + use<> {
    let members: &'static [Member] = match ty {
        Ty::Struct(index, _) => &tables().structure(*index).members,
        _ => &[],
    };
    let ends = members.iter().map(|of| of.offset + size_of(&of.ty));
    ends.filter(move |end| *end >= least)
}

/// Appends a struct of which only so many bytes are there: the member that is cut as bytes, and those behind it not at all.
pub fn beginning(w: &mut Writer, ty: &Ty, at: u64, length: u64) -> Written {
    let Ty::Struct(index, _) = ty else {
        return Err(Unknown);
    };
    let of = tables().structure(*index);
    let length = length.min(of.size.into());
    if (w.bytes(at, length as usize).len() as u64) < length {
        return Err(Unknown);
    }
    w.push("{");
    for (number, member) in of.members.iter().enumerate() {
        let from = u64::from(member.offset);
        if from >= length {
            break;
        }
        w.push(if number > 0 { ", " } else { "" });
        w.push(&member.name);
        w.push("=");
        let here = at.wrapping_add(from);
        let whole = from + u64::from(size_of(&member.ty)) <= length;
        if whole {
            or_address(w, here, |w| value(w, &member.ty, here, None));
        } else {
            w.buffer_as(here, (length - from) as usize, Hex::Always)?;
        }
    }
    w.push("}");
    Ok(())
}

/// Appends the members of a struct, without its braces.
pub fn fields(w: &mut Writer, ty: &Ty, at: u64) -> Written {
    let Ty::Struct(index, only) = ty else {
        return Err(Unknown);
    };
    let of = tables().structure(*index);
    let around = Around { of, at };
    let members: Vec<&Member> = match only {
        None => of.members.iter().collect(),
        Some(only) => {
            let rest = of.members.iter().find(|member| member.verbose);
            let mut found = Vec::new();
            for name in only {
                // Several may have one name, each under a condition of its own.
                match &**name {
                    "--" | "..." => found.extend(rest),
                    name => found.extend(of.members.iter().filter(|of| &*of.name == name)),
                }
            }
            found
        }
    };
    // Whichever members are asked for, all of it must be there.
    let there = around.there(w)?;
    let known = w.bytes(at, there as usize).len() as u64;
    if known < there.into()
        && (!of.parts || known < of.members.last().map_or(0, |last| last.offset.into()))
    {
        return Err(Unknown);
    }
    let mut first = true;
    for member in members {
        if member.verbose {
            if w.style.verbose && &*member.name != "..." {
                continue;
            }
            w.push(if first { "..." } else { ", ..." });
            break;
        }
        let is_there = member.offset < there || of.sized.is_none();
        if &*member.name == "-" || !is_there || !around.is_written(w, member)? {
            continue;
        }
        if !std::mem::take(&mut first) {
            w.push(", ");
        }
        if &*member.name != "." {
            w.push(&member.name);
            w.push("=");
        }
        let here = at.wrapping_add(member.offset.into());
        if of.parts {
            let before = w.out.len();
            if value(w, &member.ty, here, Some(around)).is_err() {
                w.out.truncate(before);
                w.push("???");
            }
            continue;
        }
        or_address(w, here, |w| value(w, &member.ty, here, Some(around)));
    }
    if let Some((argument, _)) = of.sized {
        let all = self::argument(w, argument)?;
        behind(w, at, of.size.into(), all);
    }
    Ok(())
}

/// Appends the bytes behind the members of a struct that a program knows more of, if they are not zero:
/// `, /* bytes 24..31 */ "\x80…"`.
pub fn behind(w: &mut Writer, at: u64, from: u64, to: u64) {
    /// `PAGE_SIZE`: the kernel takes no more (lib/usercopy.c, `copy_struct_from_user`).
    const LONGEST: u64 = 4096;
    let to = to.min(LONGEST);
    if to <= from {
        return;
    }
    let length = (to - from) as usize;
    let bytes = w.bytes(at.wrapping_add(from), length);
    if bytes.len() < length {
        return w.push(", ???");
    }
    if bytes.iter().all(|byte| *byte == 0) {
        return;
    }
    w.push(&format!(", /* bytes {from}..{} */ ", to - 1));
    let shown = length.min(w.style.strings);
    text::quoted(&bytes[..shown], Hex::Always, w.out);
    if shown < length {
        w.push("...");
    }
}

impl Around<'_> {
    /// How many bytes of the struct there are.
    fn there(&self, w: &Writer) -> Result<u32, Unknown> {
        let Some((argument, least)) = self.of.sized else {
            return Ok(self.of.size);
        };
        let said = self::argument(w, argument)?.min(self.of.size.into()) as u32;
        match said < least {
            true => Err(Unknown),
            false => Ok(said),
        }
    }

    /// Returns the number in a member; 0 for one behind the end of the struct.
    fn number(&self, w: &Writer, name: &str) -> Result<u64, Unknown> {
        let member = self.of.member(name).ok_or(Unknown)?;
        if member.offset >= self.there(w)? && self.of.sized.is_some() {
            return Ok(0);
        }
        let at = self.at.wrapping_add(member.offset.into());
        number(w, size_of(&member.ty), at)
    }

    /// The same as how many there are of something: fewer than none are none.
    fn count(&self, w: &Writer, name: &str) -> Result<u64, Unknown> {
        let number = self.number(w, name)?;
        match self.of.member(name).map(|member| &member.ty) {
            Some(Ty::Number(4, Form::Signed)) if (number as i32) < 0 => Ok(0),
            _ => Ok(number),
        }
    }

    fn is_written(&self, w: &Writer, member: &Member) -> Result<bool, Unknown> {
        for when in &member.when {
            let holds = match when {
                When::Filled => {
                    let at = self.at.wrapping_add(member.offset.into());
                    let bytes = w.bytes(at, size_of(&member.ty) as usize);
                    bytes.iter().any(|byte| *byte != 0)
                }
                When::Fewer(length) => w.overlay.as_ref().is_some_and(|of| of.there < *length),
                When::There(length) => w.overlay.as_ref().is_some_and(|of| of.there > *length),
                When::Brief => !w.style.verbose,
                When::Longer(argument, from) => {
                    let length = w.call.arguments.get(*argument).ok_or(Unknown)?;
                    *length as u32 > *from
                }
                When::Altered => {
                    let at = self.at.wrapping_add(member.offset.into());
                    let size = size_of(&member.ty) as usize;
                    let now = w.bytes(at, size);
                    now.len() == size && w.bytes_before(at, size) != now
                }
                When::Verbose(None) => w.style.verbose,
                When::Verbose(Some(name)) => w.style.verbose || self.number(w, name)? != 0,
                When::Done => w.call.error().is_none(),
                When::Failed => w.call.error().is_some(),
                When::Is(name, numbers) => numbers.contains(&self.number(w, name)?),
                When::IsNot(name, numbers) => !numbers.contains(&self.number(w, name)?),
                When::Has(name, bits) => self.number(w, name)? & bits != 0,
                When::Lacks(name, bits) => self.number(w, name)? & bits == 0,
            };
            if !holds {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
