//! What `io_uring_register` takes (include/uapi/linux/io_uring.h).

use crate::layout::{counted, fields, list, ty};
use crate::writer::{Place, Unknown, Writer, Written};
use prototypes::digits::decimal;

/// A descriptor, or the number that leaves one as it is.
pub fn file(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    /// `IORING_REGISTER_FILES_SKIP`, which leaves a descriptor as it is.
    const SKIP: i32 = -2;
    match w.u32_at(at)? as i32 {
        SKIP => w.known_decimal(SKIP.into(), "IORING_REGISTER_FILES_SKIP"),
        number if number < -1 => decimal(number, w.out),
        number => {
            return w.value(
                &crate::types::ty("fd"),
                Place::Word(u64::from(number as u32)),
            );
        }
    }
    Ok(())
}

/// What is restricted; of one without a name, the operation as a number.
pub fn restriction(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let code = w.number(at).map(u16::from_le_bytes)?;
    let names = list("uring_restrictions");
    names.name(w, code.into());
    if names.find(code.into()).is_none() {
        let [operation] = w.number(at.wrapping_add(2))?;
        w.push(" /* op: ");
        w.hexadecimal(operation.into());
        w.push(" */");
    }
    Ok(())
}

/// What was asked about, if it is not all zeros, and what there is.
pub fn probe(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    const HEAD: usize = 16;
    const MOST: u32 = 256;
    let room = w.call.arguments[3] as u32;
    let size = HEAD + 8 * room as usize;
    if room > MOST {
        return Err(Unknown);
    }
    let asked = w.bytes_before(at, size);
    if asked.len() < size {
        return Err(Unknown);
    }
    let filled = asked.iter().any(|byte| *byte != 0);
    if filled {
        w.before_mut(|w| probed(w, at, room.into(), false))?;
    }
    if w.call.error().is_some() {
        return if filled { Ok(()) } else { Err(Unknown) };
    }
    if filled {
        w.push(" => ");
    }
    let [there] = w.number(at.wrapping_add(1))?;
    let shown = u64::from(there).min(room.into());
    probed(w, at, shown, u64::from(there) > shown)
}

fn probed(w: &mut Writer, at: u64, count: u64, more: bool) -> Written {
    const HEAD: u64 = 16;
    w.push("{");
    fields(w, &ty("io_uring_probe"), at)?;
    w.push(", ops=");
    counted(w, &ty("io_uring_probe_op"), at.wrapping_add(HEAD), count)?;
    if more && !w.out.ends_with(b"...]") {
        w.out.pop();
        w.push(if count > 0 { ", ...]" } else { "...]" });
    }
    w.push("}");
    Ok(())
}
