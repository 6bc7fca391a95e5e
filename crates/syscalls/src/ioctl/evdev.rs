//! Input devices: commands whose number names an axis or a kind of event, or whose size is the caller's
//! (include/uapi/linux/input.h). Used by `ioctl`.

use super::{Command, early};
use crate::call::Constants;
use crate::layout::{self, list, listed};
use crate::words;
use crate::writer::{Unknown, Writer, Written};

/// Kinds of events that bits are asked of (`EVIOCGBIT`), with the list and the largest number
/// (include/uapi/linux/input-event-codes.h).
const KINDS: [(u64, &str, u64); 11] = [
    (0, "evdev_ev", 0x1f),
    (1, "evdev_keycode", 0x2ff),
    (2, "evdev_relative_axes", 0x0f),
    (3, "evdev_abs", 0x3f),
    (4, "evdev_misc", 0x07),
    (5, "evdev_switch", 0x10),
    (0x11, "evdev_leds", 0x0f),
    (0x12, "evdev_snd", 0x07),
    (0x14, "evdev_autorepeat", 0x01),
    (0x15, "evdev_ff_types", 0x7f),
    (0x17, "evdev_ff_status", 0x01),
];
/// The greatest number of a property: `INPUT_PROP_MAX` (include/uapi/linux/input-event-codes.h).
const PROPERTIES: u64 = 0x1f;
/// `EV_PWR` (include/uapi/linux/input-event-codes.h), whose `EVIOCGBIT` is answered with a number.
const POWER: u64 = 0x16;

/// Returns the name of a command of an input device; `None` for one that has none.
pub fn name(command: Command, bare: bool) -> Option<String> {
    let Command {
        direction,
        number,
        size,
        ..
    } = command;
    let of = |name: &str, number: u64| {
        let list = list(name);
        match list.find(number) {
            Some(name) => name.to_owned(),
            None if bare => words::plain(number).to_string(),
            None => format!("{} /* {} */", words::plain(number), list.unknown),
        }
    };
    let sized = match (direction, number) {
        (1, 0xc0..=0xff) => return Some(format!("EVIOCSABS({})", of("evdev_abs", number - 0xc0))),
        (2, 0x20) => return Some(format!("EVIOCGBIT(0, {size})")),
        (2, 0x21..=0x3f) => {
            let kind = of("evdev_ev", number - 0x20);
            return Some(format!("EVIOCGBIT({kind}, {size})"));
        }
        (2, 0x40..=0x7f) => return Some(format!("EVIOCGABS({})", of("evdev_abs", number - 0x40))),
        (2, 0x06) => "EVIOCGNAME",
        (2, 0x07) => "EVIOCGPHYS",
        (2, 0x08) => "EVIOCGUNIQ",
        (2, 0x09) => "EVIOCGPROP",
        (2, 0x0a) => "EVIOCGMTSLOTS",
        (2, 0x18) => "EVIOCGKEY",
        (2, 0x19) => "EVIOCGLED",
        (2, 0x1a) => "EVIOCGSND",
        (2, 0x1b) => "EVIOCGSW",
        _ => return None,
    };
    Some(format!("{sized}({size})"))
}

/// The argument of a command that has no row.
pub fn argument(w: &mut Writer, command: Command, at: u64) -> Written {
    let failed = w.call.error().is_some();
    match (command.direction, command.number) {
        (1, 0xc0..=0xff) => early(w, |w| axis(w, command.size, at)),
        (1, _) => Err(Unknown),
        _ if failed => Err(Unknown),
        (_, 0x0a) => slots(w, command.size, at),
        (_, 0x06..=0x08) => {
            let count = w.call.count() as usize;
            w.buffer(at, count)
        }
        (_, 0x09) => bits(w, "evdev_prop", PROPERTIES, at),
        (_, 0x18) => bits(w, "evdev_keycode", 0x2ff, at),
        (_, 0x19) => bits(w, "evdev_leds", 0x0f, at),
        (_, 0x1a) => bits(w, "evdev_snd", 0x07, at),
        (_, 0x1b) => bits(w, "evdev_switch", 0x10, at),
        (_, 0x40..=0x7f) => axis(w, command.size, at),
        (_, number @ 0x20..=0x3f) if number - 0x20 == POWER => {
            let number = w.u32_at(at)? as i32;
            w.push(&format!("[{number}]"));
            Ok(())
        }
        (_, number @ 0x20..=0x3f) => {
            let kind = KINDS.iter().find(|(kind, ..)| *kind == number - 0x20);
            let (_, list, most) = kind.ok_or(Unknown)?;
            bits(w, list, *most, at)
        }
        _ => Err(Unknown),
    }
}

/// `struct input_absinfo`, of which old programs have no `resolution`.
fn axis(w: &mut Writer, size: u64, at: u64) -> Written {
    const WITHOUT: u64 = 20;
    const WHOLE: u64 = 24;
    if size < WITHOUT {
        return Err(Unknown);
    }
    if size >= WHOLE && (size == WHOLE || !w.style.verbose) {
        return layout::value(w, &layout::ty("input_absinfo"), at, None);
    }
    let whole = layout::ty("input_absinfo(value,minimum,--,maximum,fuzz,flat,resolution)");
    let without = layout::ty("input_absinfo_old");
    w.push("{");
    layout::fields(w, if size >= WHOLE { &whole } else { &without }, at)?;
    if size != WITHOUT && w.style.verbose {
        w.push(", ...");
    }
    w.push("}");
    Ok(())
}

/// `{code=ABS_MT_SLOT, values=[1, 2]}`: as many as there is room for.
fn slots(w: &mut Writer, size: u64, at: u64) -> Written {
    let count = size / 4;
    if count == 0 {
        return Err(Unknown);
    }
    w.push("{");
    layout::fields(w, &layout::ty("evdev_slots"), at)?;
    w.push(", values=");
    let before = w.out.len();
    if layout::counted(w, &layout::ty("s32"), at.wrapping_add(4), count - 1).is_err() {
        w.out.truncate(before);
        w.address(at.wrapping_add(4));
    }
    w.push("}");
    Ok(())
}

/// The numbers of the bits that are set, of as many bytes as were returned.
fn bits(w: &mut Writer, names: &str, most: u64, at: u64) -> Written {
    /// How many names of bits are written without `-v`.
    const SHOWN: usize = 4;
    let returned = w.call.count();
    let count = if returned > most / 8 {
        most
    } else {
        returned * 8
    };
    let size = count.div_ceil(8).next_multiple_of(8) as usize;
    let bytes = w.bytes(at, size);
    if size == 0 || bytes.len() < size {
        return Err(Unknown);
    }
    let set = (0..count).filter(|bit| bytes[(bit / 8) as usize] >> (bit % 8) & 1 != 0);
    let style = w.style.constants;
    if style != Constants::Numbers {
        w.push("[");
        for (index, bit) in set.enumerate() {
            if index > 0 {
                w.push(" ");
            }
            if index >= SHOWN && !w.style.verbose {
                w.push("...");
                break;
            }
            list(names).name(w, bit);
        }
        w.push("]");
    }
    if style == Constants::Both {
        w.push(" /* ");
    }
    if style != Constants::Names {
        let words = (size / 8) as u64;
        let shown = if w.style.verbose {
            u64::MAX
        } else {
            w.style.strings as u64
        };
        listed(w, at, 8, words, shown, |w, here, _| {
            let word = w.u64_at(here)?;
            w.hexadecimal(word);
            Ok(())
        })?;
    }
    if style == Constants::Both {
        w.push(" */");
    }
    Ok(())
}
