//! What is waited for, and what came of it: `poll` and `select` write that behind their results. Used by `result` and
//! `special`.

use crate::types::ty;
use crate::writer::{Place, Unknown, Writer, Written};
use prototypes::digits::decimal;

/// Descriptors that a set has room for (`__FD_SETSIZE` in include/uapi/linux/posix_types.h).
const SET: u64 = 1024;

/// Descriptors of `poll` that are looked at, at most.
const MOST: u64 = 4096;

/// The descriptors in a set: `[3 4]`.
pub fn set(w: &mut Writer, at: u64) -> Written {
    let number = w.call.arguments[0];
    members(w, at, number, true)
}

fn members(w: &mut Writer, at: u64, number: u64, named: bool) -> Written {
    if at == 0 {
        w.push("NULL");
        return Ok(());
    }
    if (number as i32) < 0 {
        return Err(Unknown);
    }
    let number = u64::from(number as u32).min(SET);
    let bytes = w.bytes(at, number.div_ceil(8) as usize);
    if (bytes.len() as u64) < number.div_ceil(8) {
        return Err(Unknown);
    }
    w.push("[");
    let there = (0..number as usize).filter(|bit| bytes[bit / 8] >> (bit % 8) & 1 != 0);
    for (index, descriptor) in there.enumerate() {
        if index > 0 {
            w.push(" ");
        }
        decimal(descriptor, w.out);
        if named {
            w.name_of(descriptor as i32);
        }
    }
    w.push("]");
    Ok(())
}

/// Appends what stands behind the result of `poll`: `([{fd=3, revents=POLLIN}])`, `(Timeout)`.
pub fn polled(w: &mut Writer) {
    let [at, number, timeout, ..] = *w.call.arguments;
    if w.call.count() == 0 {
        return w.push(" (Timeout)");
    }
    w.push(" ([");
    let mut first = true;
    let mut shown = 0;
    for index in 0..number.min(MOST) {
        let here = at + 8 * index;
        let Ok(came) = w.number(here + 6).map(u16::from_le_bytes) else {
            break;
        };
        let Ok(descriptor) = w.u32_at(here) else {
            break;
        };
        if came == 0 {
            continue;
        }
        if !first {
            w.push(", ");
        }
        first = false;
        if shown >= w.style.strings && !w.style.verbose {
            w.push("...");
            break;
        }
        shown += 1;
        w.push("{fd=");
        decimal(descriptor as i32, w.out);
        w.name_of(descriptor as i32);
        w.push(", revents=");
        w.whole(&ty("poll_events"), Place::Word(came.into()));
        w.push("}");
    }
    w.push("]");
    if w.call.name == "ppoll" {
        left(w, timeout, "timespec");
    }
    w.push(")");
}

/// Appends what stands behind the result of `select`: `(in [3], left {tv_sec=0, tv_usec=4})`.
pub fn selected(w: &mut Writer) {
    let [number, read, write, except, timeout, _] = *w.call.arguments;
    let time = match w.call.name {
        "select" => "timeval",
        _ => "timespec",
    };
    if w.call.count() == 0 {
        return w.push(" (Timeout)");
    }
    w.push(" (");
    let begins = w.out.len();
    for (name, at) in [("in", read), ("out", write), ("except", except)] {
        let is_empty = |w: &Writer| {
            let bytes = w.bytes(at, number.min(SET).div_ceil(8) as usize);
            bytes.iter().all(|byte| *byte == 0)
        };
        if at == 0 || is_empty(w) {
            continue;
        }
        if w.out.len() > begins {
            w.push(", ");
        }
        w.push(name);
        w.push(" ");
        if members(w, at, number, false).is_err() {
            w.address(at);
        }
    }
    left(w, timeout, time);
    w.push(")");
}

/// The time that was left.
fn left(w: &mut Writer, at: u64, form: &str) {
    if at == 0 {
        return;
    }
    w.push(if w.out.ends_with(b"(") {
        "left "
    } else {
        ", left "
    });
    w.whole(&ty(form), Place::Memory(at));
}
