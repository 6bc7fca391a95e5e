//! Arguments of system calls that are put together of several numbers.

use crate::call::Constants;
use crate::layout::{self, list, listed};
use crate::words;
use crate::writer::{Unknown, Writer, Written};

/// A policy and its flags (`MPOL_MODE_FLAGS` in include/uapi/linux/mempolicy.h).
pub fn policy(w: &mut Writer, word: u64, _: Option<usize>) -> Written {
    const FLAGS: u64 = 0xe000;
    let modes = list("mpol_modes");
    let flags = list("mpol_mode_flags");
    if word & FLAGS == 0 {
        modes.name(w, word);
        return Ok(());
    }
    match modes.find(word & !FLAGS) {
        None => flags.flags(w, word),
        Some(name) => {
            let mut text = Vec::from(name);
            text.push(b'|');
            words::bits(word & FLAGS, &flags.names, &mut text);
            w.known(word, &String::from_utf8_lossy(&text));
        }
    }
    Ok(())
}

/// Nodes as words of 64 bits, as many as the argument behind it has bits.
pub fn node_mask(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let bits = w.call.arguments[2];
    let shown = if w.style.verbose { 4096 } else { w.style.strings as u64 };
    listed(w, at, 8, bits.div_ceil(64), shown, |w, here, _| {
        let word = w.u64_at(here)?;
        w.push(&format!("{word:016x}"));
        Ok(())
    })
}

/// `IOPRIO_PRIO_VALUE(IOPRIO_CLASS_BE, 4)` (include/uapi/linux/ioprio.h)
pub fn io_priority(w: &mut Writer, word: u64, _: Option<usize>) -> Written {
    let word = u64::from(word as u32);
    let (class, data) = (word >> 13, word & 0x1fff);
    let classes = list("ioprio_class");
    let class = match classes.find(class) {
        Some(name) => name.to_owned(),
        None => format!("{} /* {} */", words::plain(class), classes.unknown),
    };
    let text = format!("IOPRIO_PRIO_VALUE({class}, {data})");
    w.known_decimal((word as u32 as i32).into(), &text);
    Ok(())
}

/// `struct landlock_ruleset_attr`, of which the next argument says how much there is.
pub fn ruleset(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    const KNOWN: u64 = 8;
    let size = w.call.arguments[1];
    if size < KNOWN {
        return Err(Unknown);
    }
    w.push("{handled_access_fs=");
    layout::value(w, &layout::ty("f64.landlock_access"), at, None)?;
    w.push(if size > KNOWN { ", ...}" } else { "}" });
    Ok(())
}

/// `QCMD(Q_QUOTAON, USRQUOTA)` (include/uapi/linux/quota.h)
pub fn quota_command(w: &mut Writer, word: u64, _: Option<usize>) -> Written {
    let word = u64::from(word as u32);
    if w.style.constants == Constants::Numbers {
        w.hexadecimal(word);
        return Ok(());
    }
    if w.style.constants == Constants::Both {
        w.hexadecimal(word);
        w.push(" /* ");
    }
    w.push("QCMD(");
    for (name, number, end) in [
        ("quota_commands", word >> 8, ", "),
        ("quota_types", word & 0xff, ")"),
    ] {
        let of = list(name);
        match of.find(number) {
            Some(name) => w.push(name),
            None if w.style.constants == Constants::Both => w.hexadecimal(number),
            None => of.name(w, number),
        }
        w.push(end);
    }
    if w.style.constants == Constants::Both {
        w.push(" */");
    }
    Ok(())
}

/// A machine and flags (`KEXEC_ARCH_MASK` in include/uapi/linux/kexec.h).
pub fn kexec_flags(w: &mut Writer, word: u64, _: Option<usize>) -> Written {
    const MACHINE: u64 = 0xffff_0000;
    list("kexec_arch").name(w, word & MACHINE);
    if word & !MACHINE != 0 {
        w.push("|");
        list("kexec_flags").flags(w, word & !MACHINE);
    }
    Ok(())
}

/// A path up to its NUL.
pub fn path(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let bytes = w.bytes(at, 4096);
    let end = bytes.iter().position(|byte| *byte == 0).ok_or(Unknown)?;
    crate::text::quoted(&bytes[..end], w.style.hex, w.out);
    Ok(())
}
