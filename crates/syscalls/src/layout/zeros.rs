//! Structs of which the kernel takes as many bytes as an argument says, and zeros for the rest (`bpf_check_uarg_tail_zero` and
//! `__sys_bpf` in kernel/bpf/syscall.c). Used by `show`.

use super::types::Struct;
use crate::call::Hex;
use crate::text;
use crate::writer::{Overlay, Unknown, Writer, Written};

/// `PAGE_SIZE`: the kernel takes no more.
const LONGEST: u64 = 4096;

/// Appends a struct; what lies behind its last member is told if it is not zero.
pub fn value(
    w: &mut Writer,
    of: &Struct,
    at: u64,
    fields: impl FnOnce(&mut Writer, u64) -> Written,
) -> Written {
    let said = of.room.and_then(|index| w.call.arguments.get(index));
    let said = u64::from(*said.ok_or(Unknown)? as u32);
    if said == 0 || said > LONGEST {
        return Err(Unknown);
    }
    let now = w.bytes(at, said as usize);
    let before = w.bytes_before(at, said as usize);
    if (now.len() as u64) < said || (before.len() as u64) < said {
        return Err(Unknown);
    }
    let whole = |bytes: &[u8]| {
        let mut bytes = bytes[..bytes.len().min(of.size as usize)].to_vec();
        bytes.resize(of.size as usize, 0);
        bytes
    };
    w.push("{");
    let outer = w.overlay.replace(Overlay {
        now: whole(&now),
        before: whole(&before),
        there: said,
    });
    let written = fields(w, Overlay::AT);
    w.overlay = outer;
    written?;
    let rest = now.get(of.size as usize..).unwrap_or_default();
    if rest.iter().any(|byte| *byte != 0) {
        match w.style.verbose {
            false => w.push(", ..."),
            true => {
                w.push(", extra_data=");
                text::quoted(rest, Hex::Always, w.out);
                w.push(&format!(" /* bytes {}..{} */", of.size, said - 1));
            }
        }
    }
    w.push("}");
    Ok(())
}
