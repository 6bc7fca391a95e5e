//! The console: sounds, ports, keys (include/uapi/linux/kd.h, keyboard.h). Used by `custom`.

use crate::call::Constants;
use crate::layout::list;
use crate::writer::{Writer, Written};
use prototypes::digits::decimal;

/// Of the clock that makes sounds, in Hz (`PIT_TICK_RATE` in include/linux/timex.h).
const TICKS: u64 = 1_193_182;

fn comment(w: &mut Writer, text: &str) {
    if w.style.constants != Constants::Numbers {
        w.push(&format!(" /* {text} */"));
    }
}

/// `440 /* 2711 Hz */`
pub fn sound(w: &mut Writer, word: u64, _: Option<usize>) -> Written {
    decimal(word, w.out);
    match TICKS.checked_div(word).unwrap_or(0) {
        0 => comment(w, "off"),
        hertz => comment(w, &format!("{hertz} Hz")),
    }
    Ok(())
}

/// `1<<16|440 /* 2711 Hz, 1 ms */`
pub fn tone(w: &mut Writer, word: u64, _: Option<usize>) -> Written {
    let (ticks, count) = (word >> 16 & 0xffff, word & 0xffff);
    if ticks != 0 {
        w.push(&format!("{ticks}<<16|"));
    }
    decimal(count, w.out);
    let hertz = if ticks == 0 {
        None
    } else {
        TICKS.checked_div(count)
    };
    match hertz {
        None | Some(0) => comment(w, "off"),
        Some(hertz) => comment(w, &format!("{hertz} Hz, {ticks} ms")),
    }
    Ok(())
}

/// A port of a display (`GPFIRST`, `GPLAST` in drivers/tty/vt/vt_ioctl.c).
pub fn port(w: &mut Writer, word: u64, _: Option<usize>) -> Written {
    const FIRST: u64 = 0x3b4;
    const LAST: u64 = 0x3df;
    w.hexadecimal(word);
    if (FIRST..=LAST).contains(&word) {
        comment(w, &format!("GPFIRST + {}", word - FIRST));
    }
    Ok(())
}

pub fn signal(w: &mut Writer, word: u64, _: Option<usize>) -> Written {
    if word < i32::MAX as u64 {
        crate::forms::signal_number(w, word);
    } else {
        decimal(word, w.out);
    }
    Ok(())
}

/// A map of keys: its name, or the modifiers that choose it.
pub fn table(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let [number] = w.number(at)?;
    let tables = list("kd_key_tables");
    match tables.find(number.into()) {
        Some(name) => w.known(number.into(), name),
        None => list("kd_keymap_flags").flags(w, number.into()),
    }
    Ok(())
}

/// `0xf001 /* K_F2 */`, or what makes it up: `/* K(KT_LATIN, 'a') */`.
pub fn value(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    /// `KT_LATIN`, `KT_META`, `KT_LETTER`, `KT_DEAD2`: their values are characters.
    const CHARACTERS: [u64; 4] = [0, 8, 11, 13];
    let word = u64::from(w.number(at).map(u16::from_le_bytes)?);
    w.hexadecimal(word);
    let (kind, number) = (word >> 8, word & 0xff);
    let text = match list("kd_keys").find(word) {
        Some(name) => name.to_owned(),
        None => {
            let kinds = list("kd_key_types");
            let kind_name = kinds
                .find(kind)
                .map_or_else(|| crate::words::plain(kind).to_string(), ToOwned::to_owned);
            let number = match CHARACTERS.contains(&kind) {
                true => super::characters::escaped_character(number as u8),
                false => crate::words::plain(number).to_string(),
            };
            format!("K({kind_name}, {number})")
        }
    };
    comment(w, &text);
    Ok(())
}

/// A glyph, often one of those that the font has by their numbers (`UNI_DIRECT_BASE`).
pub fn glyph(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    const DIRECT: u64 = 0xf000;
    const MASK: u64 = 0x1ff;
    let word = u64::from(w.number(at).map(u16::from_le_bytes)?);
    if word & !MASK != DIRECT || w.style.constants == Constants::Numbers {
        w.hexadecimal(word);
        return Ok(());
    }
    w.known(
        word,
        &format!("UNI_DIRECT_BASE+{}", crate::words::plain(word & MASK)),
    );
    Ok(())
}
