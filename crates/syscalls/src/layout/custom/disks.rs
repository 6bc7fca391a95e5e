//! Disks: keys, answers, names of volumes, resets. Used by `custom`.

use crate::layout::list;
use crate::writer::{Writer, Written};

/// A key whose length is the number `before` bytes before it.
pub fn key(w: &mut Writer, at: u64, before: u64, most: u32) -> Written {
    let length = w.u32_at(at.wrapping_sub(before))?.min(most);
    let bytes = w.bytes(at, length as usize);
    crate::text::quoted(&bytes, w.style.hex, w.out);
    Ok(())
}

/// What a disk answered, behind the number of its sectors of 512 bytes.
pub fn sectors(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let [count] = w.number(at)?;
    let length = usize::from(count) * 512;
    let written = w.buffer_as(at.wrapping_add(1), length, crate::call::Hex::Always);
    if written.is_err() {
        w.address(at.wrapping_add(1));
    }
    Ok(())
}

/// The name of a volume, whose length is a number of 16 bits before it (`struct ubi_mkvol_req`, `struct ubi_rnvol_req` in
/// include/uapi/mtd/ubi-user.h).
pub fn volume_name(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    const MAKES: u32 = 0x4098_6f00;
    let before = if w.call.arguments[1] as u32 == MAKES {
        6
    } else {
        4
    };
    let length = w.number(at.wrapping_sub(before)).map(i16::from_le_bytes)?;
    let length = 1 + length.clamp(0, 127) as usize;
    let bytes = w.bytes(at, length);
    let end = bytes.iter().position(|byte| *byte == 0);
    crate::text::quoted(&bytes[..end.unwrap_or(length - 1)], w.style.hex, w.out);
    if end.is_none() {
        w.push("...");
    }
    Ok(())
}

/// What is to be reset, and whether more is if that fails (`SG_SCSI_RESET_NO_ESCALATE` in include/scsi/sg.h).
pub fn reset(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    const ALONE: u32 = 0x100;
    let word = w.u32_at(at)?;
    w.push("[");
    if word & ALONE != 0 {
        w.known(ALONE.into(), "SG_SCSI_RESET_NO_ESCALATE");
        w.push("|");
    }
    list("sg_scsi_reset").name(w, (word & !ALONE).into());
    w.push("]");
    Ok(())
}
