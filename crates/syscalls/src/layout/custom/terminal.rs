//! Terminals: modes and control characters (include/uapi/asm-generic/termbits.h). Used by `custom`.

use crate::layout::list;
use crate::writer::{Unknown, Writer, Written};

pub fn modes(w: &Writer, at: u64, size: usize) -> Result<u64, Unknown> {
    match size {
        2 => Ok(w.number(at).map(u16::from_le_bytes)?.into()),
        _ => Ok(w.u32_at(at)?.into()),
    }
}

/// How a terminal writes: delays, each a number of its own, then flags (include/uapi/asm-generic/termbits.h).
pub fn output_modes(w: &mut Writer, at: u64, size: usize) -> Written {
    const DELAYS: [(&str, u64); 6] = [
        ("term_nldly", 0x100),
        ("term_crdly", 0x600),
        ("term_tabdly", 0x1800),
        ("term_bsdly", 0x2000),
        ("term_vtdly", 0x4000),
        ("term_ffdly", 0x8000),
    ];
    let mut word = modes(w, at, size)?;
    for (names, mask) in DELAYS {
        list(names).name(w, word & mask);
        w.push("|");
        word &= !mask;
    }
    list("term_oflags").flags(w, word);
    Ok(())
}

/// How a line is driven: speeds and the size of characters, then flags (include/uapi/asm-generic/termbits.h).
pub fn control_modes(w: &mut Writer, at: u64, size: usize) -> Written {
    const SPEED: u64 = 0o10017;
    const INPUT_SPEED: u64 = SPEED << INPUT_SHIFT;
    const INPUT_SHIFT: u32 = 16;
    const SIZE: u64 = 0x30;
    let word = modes(w, at, size)?;
    list("term_baud").name(w, word & SPEED);
    w.push("|");
    if word & INPUT_SPEED != 0 {
        list("term_baud").name(w, (word & INPUT_SPEED) >> INPUT_SHIFT);
        w.push("<<");
        w.known(INPUT_SHIFT.into(), "IBSHIFT");
        w.push("|");
    }
    list("term_csize").name(w, word & SIZE);
    w.push("|");
    list("term_cflags").flags(w, word & !(SPEED | INPUT_SPEED | SIZE));
    Ok(())
}

/// The control characters of a terminal by their names: `[[VINTR]=0x3, [VQUIT]=0x1c, …]`.
pub fn control_characters(w: &mut Writer, at: u64, count: usize, names: &str) -> Written {
    let bytes = w.bytes(at, count);
    w.push("[");
    for (index, byte) in bytes.iter().enumerate() {
        if index > 0 {
            w.push(", ");
        }
        let name = list(names).find(index as u64);
        let name = name.map_or_else(|| index.to_string(), ToOwned::to_owned);
        w.push(&format!("[{name}]="));
        w.hexadecimal((*byte).into());
    }
    w.push("]");
    Ok(())
}
