//! What a process may and what it is: capabilities, personalities, segments. Used by `custom`.

use crate::layout::list;
use crate::words;
use crate::writer::{Unknown, Writer, Written};
use prototypes::digits::decimal;

/// A personality and its flags (include/uapi/linux/personality.h).
pub fn personality(w: &mut Writer, word: u64, _: Option<usize>) -> Written {
    let word = u64::from(word as u32);
    if word == u64::from(u32::MAX) {
        w.hexadecimal(word);
        return Ok(());
    }
    list("personalities").name(w, word & 0xff);
    if word & !0xff != 0 {
        w.push("|");
        list("personality_flags").flags(w, word & !0xff);
    }
    Ok(())
}

/// Sets of capabilities, of 32 bits or, by the version in the header, twice as many (`struct __user_cap_data_struct`).
pub fn capabilities(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    /// `_LINUX_CAPABILITY_VERSION_2` and `_3` (include/uapi/linux/capability.h)
    const WIDE: [u32; 2] = [0x2007_1026, 0x2008_0522];
    const HALF: u64 = 12;
    const HEADER: usize = 8;
    let header = w.call.arguments[0];
    let version = w.before(|w| match w.bytes(header, HEADER).len() {
        HEADER => w.u32_at(header),
        _ => Err(Unknown),
    })?;
    let wide = WIDE.contains(&version);
    let length = if wide { 2 * HALF } else { HALF };
    if (w.bytes(at, length as usize).len() as u64) < length {
        return Err(Unknown);
    }
    w.push("{");
    for (index, name) in ["effective", "permitted", "inheritable"].iter().enumerate() {
        let here = at.wrapping_add(4 * index as u64);
        w.push(if index > 0 { ", " } else { "" });
        w.push(&format!("{name}="));
        let low = w.u32_at(here)?;
        let high = if wide {
            w.u32_at(here.wrapping_add(HALF))?
        } else {
            0
        };
        if low != 0 || high == 0 {
            half(w, low, 0);
        }
        if high != 0 {
            w.push(if low != 0 { "|" } else { "" });
            half(w, high, 32);
        }
    }
    w.push("}");
    Ok(())
}

/// 32 of the bits, the first of which has this number.
fn half(w: &mut Writer, word: u32, first: i64) {
    let names = list("capabilities").names().iter();
    let bits: Vec<(Box<str>, i64)> = names
        .filter(|(_, number)| (first..first + 32).contains(number))
        .map(|(name, number)| (format!("1<<{name}").into(), 1 << (number - first)))
        .collect();
    words::flags_or(word.into(), &bits, "CAP_???", w.style.constants, w.out);
}

/// Where a segment is in its table; -1 is any free place.
pub fn entry(w: &mut Writer, number: u32) {
    match number {
        u32::MAX => w.push("-1"),
        number => decimal(number, w.out),
    }
}

/// A segment of the local descriptor table, member by member: `struct user_desc` (arch/x86/include/uapi/asm/ldt.h).
pub fn segment(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    const BITS: [(&str, u32, u32); 7] = [
        ("seg_32bit", 0, 1),
        ("contents", 1, 3),
        ("read_exec_only", 3, 1),
        ("limit_in_pages", 4, 1),
        ("seg_not_present", 5, 1),
        ("useable", 6, 1),
        ("lm", 7, 1),
    ];
    let [number, base, limit, bits] = [0, 4, 8, 12].map(|offset| w.u32_at(at.wrapping_add(offset)));
    let (number, base, limit, bits) = (number?, base?, limit?, bits?);
    w.push("{entry_number=");
    entry(w, number);
    // C's `%#08x`
    for (name, word) in [("base_addr", base), ("limit", limit)] {
        match word {
            0 => w.push(&format!(", {name}=00000000")),
            word => w.push(&format!(", {name}={word:#08x}")),
        }
    }
    for (name, shift, mask) in BITS {
        w.push(&format!(", {name}={}", bits >> shift & mask));
    }
    w.push("}");
    Ok(())
}
