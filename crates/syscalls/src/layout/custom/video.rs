//! Video devices and their controls (include/uapi/linux/videodev2.h), and the times of clocks. Used by `custom`.

use crate::call::Constants;
use crate::layout::{list, listed, tables, ty, value};
use crate::words;
use crate::writer::{Writer, Written};

/// `KERNEL_VERSION(6, 1, 0)` (include/generated/uapi/linux/version.h)
pub fn version(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let version = w.u32_at(at)?;
    let parts = [version >> 16, version >> 8 & 0xff, version & 0xff].map(|part| part.to_string());
    w.known(
        version.into(),
        &format!("KERNEL_VERSION({})", parts.join(", ")),
    );
    Ok(())
}

/// `v4l2_fourcc('Y', 'U', 'Y', 'V') /* V4L2_PIX_FMT_YUYV */` (include/uapi/linux/videodev2.h)
pub fn fourcc(w: &mut Writer, at: u64, list: Option<usize>) -> Written {
    let code = w.u32_at(at)?;
    if w.style.constants == Constants::Numbers {
        w.hexadecimal(code.into());
        return Ok(());
    }
    let letters = code.to_le_bytes().map(super::characters::quoted_character);
    w.push(&format!("v4l2_fourcc({})", letters.join(", ")));
    let name = list.and_then(|list| tables().lists[list].find(code.into()));
    if let Some(name) = name {
        w.push(&format!(" /* {name} */"));
    }
    Ok(())
}

pub fn fraction(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let [numerator, denominator] = [w.u32_at(at)?, w.u32_at(at + 4)?];
    w.push(&format!("{numerator}/{denominator}"));
    Ok(())
}

/// Flags of a buffer, and among them two numbers: what its time is, and when it was taken
/// (`V4L2_BUF_FLAG_TIMESTAMP_MASK`, `V4L2_BUF_FLAG_TSTAMP_SRC_MASK` in include/uapi/linux/videodev2.h).
pub fn video_buffer_flags(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    const KIND: u64 = 0xe000;
    const SOURCE: u64 = 0x70000;
    let flags = u64::from(w.u32_at(at)?);
    if w.style.constants == Constants::Numbers {
        w.hexadecimal(flags);
        return Ok(());
    }
    if flags & !(KIND | SOURCE) != 0 {
        list("v4l2_buf_flags").flags(w, flags & !(KIND | SOURCE));
        w.push("|");
    }
    list("v4l2_buf_flags_ts_type").name(w, flags & KIND);
    w.push("|");
    list("v4l2_buf_flags_ts_src").name(w, flags & SOURCE);
    Ok(())
}

/// The number of a control: its name, or that of its class and its number in it. Where the next one is asked for, the answer has
/// another one.
pub fn control(w: &mut Writer, at: u64, next: bool) -> Written {
    let id = w.before(|w| w.u32_at(at))?;
    control_number(w, id, next);
    if next && w.late && w.call.error().is_none() {
        let answer = w.u32_at(at)?;
        if answer != id {
            w.push(" => ");
            control_number(w, answer, false);
        }
    }
    Ok(())
}

pub fn control_number(w: &mut Writer, id: u32, next: bool) {
    /// The bits that ask for the next control: `V4L2_CTRL_FLAG_NEXT_CTRL`, `V4L2_CTRL_FLAG_NEXT_COMPOUND`.
    const NEXT: u64 = 0xc000_0000;
    /// `V4L2_CTRL_ID2WHICH`: controls of one class.
    const CLASS: u64 = 0x10000;
    let mut id = u64::from(id);
    if w.style.constants == Constants::Numbers {
        return w.hexadecimal(id);
    }
    if next && id & NEXT != 0 {
        list("v4l2_control_query_flags").flags(w, id & NEXT);
        w.push("|");
        id &= !NEXT;
    }
    if let Some(name) = list("v4l2_control_ids").find(id) {
        return w.known(id, name);
    }
    let classes = list("v4l2_control_classes").names().iter().rev();
    let mut classes = classes.map(|(name, number)| (name, *number as u64));
    let class = classes.find(|(_, number)| *number <= id);
    match class.filter(|(_, number)| id - number < CLASS) {
        Some((name, number)) => {
            let inside = words::plain(id - number);
            w.known(id, &format!("{name}+{inside}"));
        }
        None => words::nameless(words::plain(id), "V4L2_CID_???", w.style.constants, w.out),
    }
}

/// A time of a clock, and its date.
pub fn clock_date(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    value(w, &ty("ptp_clock_time"), at, None)?;
    let [seconds, nanos] = [w.u64_at(at)?, w.u32_at(at + 8)?.into()];
    if w.style.constants != Constants::Numbers && nanos < 1_000_000_000 {
        w.date(seconds.cast_signed(), nanos);
    }
    Ok(())
}

/// As many times as the first member of the struct says, or groups of `group` times; that member lies `before` bytes before this place.
pub fn clock_samples(
    w: &mut Writer,
    at: u64,
    before: u64,
    group: u64,
    of: fn(u64) -> u64,
) -> Written {
    /// Samples that the struct has room for: `PTP_MAX_SAMPLES` (include/uapi/linux/ptp_clock.h).
    const MOST: u32 = 25;
    /// Bytes of one time: `sizeof(struct ptp_clock_time)` (include/uapi/linux/ptp_clock.h).
    const TIME: u64 = 16;
    let count = w.u32_at(at.wrapping_sub(before))?.min(MOST);
    let shown = if w.style.verbose {
        u64::MAX
    } else {
        w.style.strings as u64
    };
    listed(
        w,
        at,
        TIME * group,
        of(count.into()),
        shown,
        |w, here, _| match group {
            1 => clock_date(w, here, None),
            _ => listed(w, here, TIME, group, u64::MAX, |w, here, _| {
                clock_date(w, here, None)
            }),
        },
    )
}
