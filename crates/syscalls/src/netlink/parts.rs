//! Parts that follow each other, each behind its length: messages and attributes. Used by `netlink`, `attributes` and `generic`.

use crate::call::Hex;
use crate::writer::{Unknown, Writer, Written};

/// `sizeof(struct nlmsghdr)`, `sizeof(struct nlattr)`
pub const HEADER: u64 = 16;
pub const ATTRIBUTE: u64 = 4;
/// How deep attributes may lie in one another.
pub const DEEPEST: u32 = 16;

/// Appends parts that begin with their lengths; in brackets where there are several.
pub fn chain(
    w: &mut Writer,
    mut at: u64,
    mut length: u64,
    header: u64,
    mut each: impl FnMut(&mut Writer, u64, u64) -> Written,
) -> Written {
    let most = if w.style.verbose {
        usize::MAX
    } else {
        w.style.strings
    };
    let mut several = false;
    for index in 0.. {
        if length < header {
            w.buffer_as(at, length as usize, Hex::Always)?;
            break;
        }
        if w.bytes(at, header as usize).len() < header as usize {
            if !several {
                return Err(Unknown);
            }
            w.push(&format!("... /* {at:#x} */"));
            break;
        }
        if index >= most {
            w.push("...");
            break;
        }
        let own: u64 = match header {
            HEADER => w.u32_at(at)?.into(),
            _ => w.number(at).map(u16::from_le_bytes)?.into(),
        };
        let whole = own.next_multiple_of(4);
        let rest = if own < header {
            0
        } else {
            length.saturating_sub(whole)
        };
        if rest > 0 && !several {
            w.push("[");
            several = true;
        }
        each(w, at, length)?;
        if rest == 0 {
            break;
        }
        w.push(", ");
        (at, length) = (at.wrapping_add(whole), rest);
    }
    if several {
        w.push("]");
    }
    Ok(())
}
