//! Arguments of `keyctl` whose length stands in the memory that another argument points to. Used by `custom`.

use crate::layout::{list, listed};
use crate::writer::{Unknown, Writer, Written};

// `struct keyctl_pkey_params` (include/uapi/linux/keyctl.h).
const INPUT_LENGTH: u64 = 4;
const SECOND_LENGTH: u64 = 8;

/// What is encrypted, signed or verified.
pub fn input(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    of_length(w, at, INPUT_LENGTH)
}

/// The signature that is verified.
pub fn second(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    of_length(w, at, SECOND_LENGTH)
}

/// The bytes that the operation yields.
pub fn output(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    if w.call.error().is_some() {
        return Err(Unknown);
    }
    of_length(w, at, SECOND_LENGTH)
}

fn of_length(w: &mut Writer, at: u64, member: u64) -> Written {
    /// `sizeof(struct keyctl_pkey_params)`, all of which must be there.
    const WHOLE: usize = 40;
    let parameters = w.call.arguments[1];
    let length = w.before(|w| {
        let whole = w.bytes(parameters, WHOLE).len() == WHOLE;
        whole.then(|| w.u32_at(parameters.wrapping_add(member)))
    });
    let length = length.ok_or(Unknown)??;
    w.buffer(at, length as usize)
}

/// What the kernel can do with keys: a byte of each kind, and more that have no names.
pub fn abilities(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let count = w.call.count().min(w.call.arguments[2]);
    let most = w.style.strings as u64;
    listed(w, at, 1, count, most, |w, here, index| {
        let [byte] = w.number(here)?;
        match index {
            0 => list("key_abilities").flags(w, byte.into()),
            1 => list("key_more_abilities").flags(w, byte.into()),
            _ => w.hexadecimal(byte.into()),
        }
        Ok(())
    })
}
