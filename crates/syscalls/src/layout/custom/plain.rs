//! Values that need a line or two of their own, and the lengths that follow from several members. Used by `custom` and
//! `layout`.

use super::characters;
use crate::forms;
use crate::layout::types::Numbers;
use crate::types::ty;
use crate::writer::{Place, Unknown, Writer, Written};
use prototypes::digits::decimal;

/// The length of an array that follows from several members of its struct: `[:=glyphs]`.
pub fn length(w: &Writer, name: &str, member: Numbers) -> Result<u64, Unknown> {
    // Of fonts: 32 lines a character, 512 characters at most (`max_font_size` and `con_font_set` in drivers/tty/vt/vt.c).
    const LINES: u64 = 32;
    // `most` integers of `size` bytes at offset `from`; the struct may be truncated.
    let beginning = match name {
        "st" => Some((32, 4, 32)),
        "xmm" => Some((160, 4, 64)),
        "padding" => Some((416, 4, 24)),
        "entry" => Some((32, 8, 6)),
        _ => None,
    };
    if let Some((from, size, most)) = beginning {
        let there = w.overlay.as_ref().map_or(0, |of| of.there);
        return Ok((there.saturating_sub(from) / size).min(most));
    }
    let characters = member(w, "charcount")?.min(512);
    Ok(match name {
        "font" => member(w, "width")?.min(32).div_ceil(8) * LINES * characters,
        _ => LINES * characters,
    })
}

/// As a type of `syscalls.conf` has it.
pub fn typed(w: &mut Writer, name: &str, at: u64) -> Written {
    w.value(&ty(name), Place::Memory(at))
}

pub fn mode(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let mode = w.u32_at(at)?;
    forms::files::mode(w, mode.into());
    Ok(())
}

/// The flags alone, without an access mode that is 0.
pub fn open_mode(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let flags = w.u32_at(at)?;
    let of = ty("dup_flags");
    w.plain(&of, Place::Word(flags.into()))
}

pub fn character(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let [byte] = w.number(at)?;
    w.push(&characters::escaped_character(byte));
    Ok(())
}

/// The number of an error, negative: `-EBADF`.
pub fn error(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let number = w.u32_at(at)? as i32;
    let name = crate::errors::name(number.wrapping_neg());
    let has_name = number < 0 && name.starts_with('E');
    match has_name {
        true => w.known_decimal(number.into(), &format!("-{name}")),
        false => decimal(number, w.out),
    }
    Ok(())
}

/// The number of a system call, by its name where the architecture behind it is x86-64: `__NR_read`.
pub fn system_call(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let number = w.u32_at(at)?;
    /// `AUDIT_ARCH_X86_64` (include/uapi/linux/audit.h), which stands behind the number (`struct seccomp_data`).
    const OURS: u32 = 0xc000_003e;
    let ours = w.u32_at(at + 4)? == OURS;
    let mut calls = prototypes::bundle::system_calls().filter(|_| ours);
    match calls.find(|(of, _)| u64::from(*of) == u64::from(number)) {
        Some((_, name)) => {
            let name = format!("__NR_{name}");
            w.known_decimal(number.into(), &name);
        }
        None => decimal(number, w.out),
    }
    Ok(())
}

pub fn uuid(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let bytes: [u8; 16] = w.number(at)?;
    for (index, byte) in bytes.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            w.push("-");
        }
        w.push(&format!("{byte:02x}"));
    }
    Ok(())
}

/// Seconds since 1970, and their date.
pub fn unix_time(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let seconds = w.u64_at(at)?.cast_signed();
    decimal(seconds, w.out);
    w.date(seconds, 0);
    Ok(())
}

pub fn ticks(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let ticks = w.u64_at(at)?;
    forms::clock_ticks(w, ticks);
    Ok(())
}

pub fn ticks32(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let ticks = w.u32_at(at)?;
    forms::clock_ticks(w, ticks.into());
    Ok(())
}

pub fn descriptor(w: &mut Writer, word: u64, _: Option<usize>) -> Written {
    w.value(&ty("fd"), Place::Word(word))
}

/// Two numbers, the second a key (`EVIOCGKEYCODE`).
pub fn key_pair(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let [code, key] = [w.u32_at(at)?, w.u32_at(at + 4)?];
    w.push(&format!("[{code}, "));
    crate::layout::list("evdev_keycode").name(w, key.into());
    w.push("]");
    Ok(())
}

/// What is asked for, and what there is, where that is something else.
pub fn features(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let asked = w.before(|w| w.u64_at(at))?;
    let list = crate::layout::list("uffd_features");
    list.flags(w, asked);
    let changed = w.call.returned.filter(|_| w.call.error().is_none());
    if let Some((after, _)) = changed {
        let mut bytes = [0; 8];
        let known = prototypes::show::Memory::read(after, at, &mut bytes);
        let there = u64::from_le_bytes(bytes);
        if known && there != asked {
            w.push(" => features=");
            list.flags(w, there);
        }
    }
    Ok(())
}

/// An attribute of a line: what it sets, or its parts if that is not known (`struct gpio_v2_line_config_attribute` in
/// include/uapi/linux/gpio.h).
pub fn line_attribute(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let [kind, padding] = [w.u32_at(at)?, w.u32_at(at + 4)?];
    let of = crate::layout::ty("gpio_v2_line_attribute");
    if matches!(kind, 1..=3) && padding == 0 {
        return crate::layout::fields(w, &of, at);
    }
    w.push("attr=");
    crate::layout::value(w, &of, at, None)
}
