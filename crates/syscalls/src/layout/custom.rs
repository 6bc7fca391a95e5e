//! Values with a text of their own.

mod calls;
mod console;

use super::tables;
use crate::call::Constants;
use crate::forms;
use crate::types::ty;
use crate::words;
use crate::writer::{Place, Unknown, Writer, Written};
use prototypes::digits::decimal;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Writes what lies in memory there; the list is that behind the form's name.
type Show = fn(&mut Writer, u64, Option<usize>) -> Written;

/// A value with a text of its own.
#[derive(Debug)]
pub struct Custom {
    name: &'static str,
    pub size: u32,
    pub align: u32,
    pub show: Show,
    /// It is one number.
    pub scalar: bool,
    /// Writes a number that was passed itself.
    pub passed: Option<Show>,
}

const fn custom(name: &'static str, size: u32, align: u32, show: Show) -> Custom {
    Custom {
        name,
        size,
        align,
        show,
        scalar: false,
        passed: None,
    }
}

/// One that is a number which was passed itself.
const fn passed(name: &'static str, show: Show) -> Custom {
    Custom {
        passed: Some(show),
        ..custom(name, 8, 8, |_, _, _| Err(Unknown))
    }
}

static CUSTOM: &[Custom] = &[
    Custom {
        passed: Some(descriptor),
        ..custom("fd", 4, 4, |w, at, _| typed(w, "fd", at))
    },
    custom("pid", 4, 4, |w, at, _| typed(w, "pid", at)),
    Custom {
        scalar: true,
        passed: Some(|w, word, _| w.value(&ty("uid"), Place::Word(word))),
        ..custom("uid", 4, 4, |w, at, _| typed(w, "uid", at))
    },
    custom("mode32", 4, 4, mode),
    Custom {
        passed: Some(|w, word, _| w.value(&ty("open_flags"), Place::Word(u64::from(word as u32)))),
        ..custom("open_flags", 4, 4, |w, at, _| typed(w, "open_flags", at))
    },
    custom("open_mode", 4, 4, open_mode),
    custom("dev64", 8, 8, |w, at, _| typed(w, "dev", at)),
    custom("dev32", 4, 4, |w, at, _| typed(w, "dev_argument", at)),
    custom("version", 4, 4, version),
    custom("fourcc", 4, 4, fourcc),
    custom("fraction", 8, 4, fraction),
    custom("char", 1, 1, character),
    custom("inet", 4, 4, inet),
    custom("inet6", 16, 4, inet6),
    custom("in4", 4, 4, in4),
    custom("mac", 6, 1, mac),
    custom("ifindex", 4, 4, interface),
    custom("error", 4, 4, error),
    custom("system_call", 4, 4, system_call),
    custom("uuid", 16, 1, uuid),
    custom("sockaddr", 16, 8, |w, at, _| forms::address(w, at, 16)),
    Custom {
        scalar: true,
        ..custom("unix_time", 8, 8, unix_time)
    },
    passed("date", |w, word, _| {
        let date = w.style.date.and_then(|date| date(word.cast_signed(), 0));
        w.push(&date.ok_or(Unknown)?);
        Ok(())
    }),
    passed("ipc_flags", calls::ipc_flags),
    passed("shm_flags", calls::shm_flags),
    passed("ipc_command", calls::ipc_command),
    custom("permissions", 4, 4, |w, at, _| typed(w, "mode", at)),
    custom("sched_attributes", 4, 4, calls::sched_attributes),
    custom("v4l2_buffer_flags", 4, 4, video_buffer_flags),
    custom("v4l2_cid", 4, 4, |w, at, _| control(w, at, false)),
    custom("v4l2_next_cid", 4, 4, |w, at, _| control(w, at, true)),
    custom("ptp_date", 16, 8, clock_date),
    custom("ptp_samples", 816, 8, |w, at, _| {
        clock_samples(w, at, 16, 1, |n| 2 * n + 1)
    }),
    custom("ptp_triples", 1200, 8, |w, at, _| {
        clock_samples(w, at, 16, 3, |n| n)
    }),
    passed("sound", console::sound),
    passed("tone", console::tone),
    passed("port", console::port),
    passed("signal", console::signal),
    passed("mpol_mode", calls::policy),
    custom("mpol_mode32", 4, 4, |w, at, _| {
        let mode = w.u32_at(at)?;
        w.push("[");
        calls::policy(w, mode.into(), None)?;
        w.push("]");
        Ok(())
    }),
    custom("node_mask", 8, 8, calls::node_mask),
    passed("io_priority", calls::io_priority),
    custom("landlock_ruleset", 8, 8, calls::ruleset),
    passed("quota_command", calls::quota_command),
    passed("kexec_flags", calls::kexec_flags),
    passed("mount_flags", calls::mount_flags),
    passed("mount_kind", |w, word, _| {
        calls::mount_text(w, word, calls::NO_KIND)
    }),
    passed("mount_data", |w, word, _| {
        calls::mount_text(w, word, calls::NO_DATA)
    }),
    passed("fanotify_flags", calls::fanotify_flags),
    passed("swap_flags", calls::swap_flags),
    custom("path", 1, 1, calls::path),
    custom("kd_table", 1, 1, console::table),
    custom("kd_value", 2, 2, console::value),
    custom("kd_glyph", 2, 2, console::glyph),
    custom("key_pair", 8, 4, key_pair),
    custom("gpio_v2_attribute", 16, 8, line_attribute),
    custom("uffd_features", 8, 8, features),
    custom("loop_key64", 32, 1, |w, at, _| key(w, at, 8 + 2 * 64, 32)),
    custom("loop_key", 32, 1, |w, at, _| key(w, at, 8 + 64, 32)),
    custom("hdio_sectors", 1, 1, sectors),
    custom("ubi_name", 128, 1, volume_name),
    custom("sg_reset", 4, 4, reset),
    custom("mac14", 14, 1, hardware),
    custom("term_oflags", 4, 4, |w, at, _| output_modes(w, at, 4)),
    custom("term_oflags16", 2, 2, |w, at, _| output_modes(w, at, 2)),
    custom("term_cflags", 4, 4, |w, at, _| control_modes(w, at, 4)),
    custom("term_cflags16", 2, 2, |w, at, _| control_modes(w, at, 2)),
    custom("termios_characters", 19, 1, |w, at, _| {
        control_characters(w, at, 19, "termios_cc")
    }),
    custom("termio_characters", 8, 1, |w, at, _| {
        control_characters(w, at, 8, "termios_cc")
    }),
    custom("mdb_address", 16, 4, bridge_address),
    custom("mdb_protocol", 2, 2, bridge_protocol),
    custom("ether", 2, 2, ether),
    custom("ticks", 8, 8, ticks),
    custom("ticks32", 4, 4, ticks32),
];

/// Returns a form by its name.
pub fn find(name: &str) -> Option<&'static Custom> {
    CUSTOM.iter().find(|custom| custom.name == name)
}

/// As a type of `syscalls.conf` has it.
fn typed(w: &mut Writer, name: &str, at: u64) -> Written {
    w.value(&ty(name), Place::Memory(at))
}

fn mode(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let mode = w.u32_at(at)?;
    forms::files::mode(w, mode.into());
    Ok(())
}

/// The flags alone, without an access mode that is 0.
fn open_mode(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let flags = w.u32_at(at)?;
    let of = ty("dup_flags");
    w.plain(&of, Place::Word(flags.into()))
}

/// `KERNEL_VERSION(6, 1, 0)` (include/generated/uapi/linux/version.h)
fn version(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let version = w.u32_at(at)?;
    let parts = [version >> 16, version >> 8 & 0xff, version & 0xff].map(|part| part.to_string());
    w.known(
        version.into(),
        &format!("KERNEL_VERSION({})", parts.join(", ")),
    );
    Ok(())
}

/// A character between single quotes, as C has it.
fn quoted_character(byte: u8) -> String {
    match byte {
        b'\'' | b'\\' => format!("'\\{}'", byte as char),
        b' '..=b'~' => format!("'{}'", byte as char),
        byte => format!("'\\x{byte:02x}'"),
    }
}

/// `v4l2_fourcc('Y', 'U', 'Y', 'V') /* V4L2_PIX_FMT_YUYV */` (include/uapi/linux/videodev2.h)
fn fourcc(w: &mut Writer, at: u64, list: Option<usize>) -> Written {
    let code = w.u32_at(at)?;
    if w.style.constants == Constants::Numbers {
        w.hexadecimal(code.into());
        return Ok(());
    }
    let letters = code.to_le_bytes().map(quoted_character);
    w.push(&format!("v4l2_fourcc({})", letters.join(", ")));
    let name = list.and_then(|list| tables().lists[list].find(code.into()));
    if let Some(name) = name {
        w.push(&format!(" /* {name} */"));
    }
    Ok(())
}

fn fraction(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let [numerator, denominator] = [w.u32_at(at)?, w.u32_at(at + 4)?];
    w.push(&format!("{numerator}/{denominator}"));
    Ok(())
}

fn character(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let [byte] = w.number(at)?;
    w.push(&escaped_character(byte));
    Ok(())
}

fn escaped_character(byte: u8) -> String {
    match byte {
        b'\n' => "'\\n'".into(),
        b'\t' => "'\\t'".into(),
        b'\r' => "'\\r'".into(),
        11 => "'\\v'".into(),
        12 => "'\\f'".into(),
        byte => quoted_character(byte),
    }
}

fn inet(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let address: [u8; 4] = w.number(at)?;
    w.push(&format!("inet_addr(\"{}\")", Ipv4Addr::from(address)));
    Ok(())
}

/// The same as `struct in_addr`.
fn in4(w: &mut Writer, at: u64, list: Option<usize>) -> Written {
    w.push("{s_addr=");
    inet(w, at, list)?;
    w.push("}");
    Ok(())
}

fn inet6(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let address: [u8; 16] = w.number(at)?;
    w.push(&format!(
        "inet_pton(AF_INET6, \"{}\")",
        Ipv6Addr::from(address)
    ));
    Ok(())
}

fn mac(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let address: [u8; 6] = w.number(at)?;
    let parts = address.map(|byte| format!("{byte:02x}"));
    w.push(&parts.join(":"));
    Ok(())
}

/// `if_nametoindex("lo")`, or the number of an interface that is not there.
fn interface(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let number = w.u32_at(at)?;
    match nix::net::if_::if_indextoname(number) {
        Ok(name) => {
            let text = format!("if_nametoindex(\"{}\")", name.to_string_lossy());
            w.known_decimal(number.into(), &text);
        }
        Err(_) => decimal(number, w.out),
    }
    Ok(())
}

/// The number of an error, negative: `-EBADF`.
fn error(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let number = w.u32_at(at)? as i32;
    let name = crate::errors::name(number.wrapping_neg());
    let has_name = number < 0 && name.starts_with('E');
    match has_name {
        true => w.known_decimal(number.into(), &format!("-{name}")),
        false => decimal(number, w.out),
    }
    Ok(())
}

/// `__NR_read`
fn system_call(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let number = w.u32_at(at)?;
    /// `AUDIT_ARCH_X86_64` (include/uapi/linux/audit.h), which stands behind the number (`struct seccomp_data`).
    const OURS: u32 = 0xc000_003e;
    let ours = w.u32_at(at + 4)? == OURS;
    let mut calls = prototypes::system_calls().filter(|_| ours);
    match calls.find(|(of, _)| u64::from(*of) == u64::from(number)) {
        Some((_, name)) => {
            let name = format!("__NR_{name}");
            w.known(number.into(), &name);
        }
        None => decimal(number, w.out),
    }
    Ok(())
}

fn uuid(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
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
fn unix_time(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let seconds = w.u64_at(at)?.cast_signed();
    decimal(seconds, w.out);
    w.date(seconds, 0);
    Ok(())
}

/// `htons(ETH_P_IP)` (include/uapi/linux/if_ether.h)
fn ether(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let number = w.number(at).map(u16::from_be_bytes)?;
    w.push("htons(");
    super::list("ethernet_protocols").name(w, number.into());
    w.push(")");
    Ok(())
}

fn ticks(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let ticks = w.u64_at(at)?;
    forms::clock_ticks(w, ticks);
    Ok(())
}

fn ticks32(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let ticks = w.u32_at(at)?;
    forms::clock_ticks(w, ticks.into());
    Ok(())
}

/// Flags of a buffer, and among them two numbers: what its time is, and when it was taken
/// (`V4L2_BUF_FLAG_TIMESTAMP_MASK`, `V4L2_BUF_FLAG_TSTAMP_SRC_MASK` in include/uapi/linux/videodev2.h).
fn video_buffer_flags(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    const KIND: u64 = 0xe000;
    const SOURCE: u64 = 0x70000;
    let flags = u64::from(w.u32_at(at)?);
    if w.style.constants == Constants::Numbers {
        w.hexadecimal(flags);
        return Ok(());
    }
    if flags & !(KIND | SOURCE) != 0 {
        super::list("v4l2_buf_flags").flags(w, flags & !(KIND | SOURCE));
        w.push("|");
    }
    super::list("v4l2_buf_flags_ts_type").name(w, flags & KIND);
    w.push("|");
    super::list("v4l2_buf_flags_ts_src").name(w, flags & SOURCE);
    Ok(())
}

/// The number of a control: its name, or that of its class and its number in it. Where the next one is asked for, the answer has
/// another one.
fn control(w: &mut Writer, at: u64, next: bool) -> Written {
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

fn control_number(w: &mut Writer, id: u32, next: bool) {
    /// `V4L2_CTRL_FLAG_NEXT_CTRL`, `V4L2_CTRL_FLAG_NEXT_COMPOUND`
    const NEXT: u64 = 0xc000_0000;
    /// `V4L2_CTRL_ID2WHICH`: controls of one class.
    const CLASS: u64 = 0x10000;
    let mut id = u64::from(id);
    if w.style.constants == Constants::Numbers {
        return w.hexadecimal(id);
    }
    if next && id & NEXT != 0 {
        super::list("v4l2_control_query_flags").flags(w, id & NEXT);
        w.push("|");
        id &= !NEXT;
    }
    if let Some(name) = super::list("v4l2_control_ids").find(id) {
        return w.known(id, name);
    }
    let classes = super::list("v4l2_control_classes").names.iter().rev();
    let mut classes = classes.map(|(name, number)| (name, *number as u64));
    let class = classes.find(|(_, number)| *number <= id);
    match class.filter(|(_, number)| id - number < CLASS) {
        Some((name, number)) => {
            let inside = words::plain(id - number);
            w.known(id, &format!("{name}+{inside}"));
        }
        None => words::nameless(&words::plain(id), "V4L2_CID_???", w.style.constants, w.out),
    }
}

/// A time of a clock, and its date.
fn clock_date(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    super::value(w, &super::ty("ptp_clock_time"), at, None)?;
    let [seconds, nanos] = [w.u64_at(at)?, w.u32_at(at + 8)?.into()];
    if w.style.constants != Constants::Numbers && nanos < 1_000_000_000 {
        w.date(seconds.cast_signed(), nanos);
    }
    Ok(())
}

/// As many times as the first member of the struct says, or groups of them; that member lies `before` this place.
fn clock_samples(w: &mut Writer, at: u64, before: u64, group: u64, of: fn(u64) -> u64) -> Written {
    /// `PTP_MAX_SAMPLES` (include/uapi/linux/ptp_clock.h)
    const MOST: u32 = 25;
    /// `sizeof(struct ptp_clock_time)`
    const TIME: u64 = 16;
    let count = w.u32_at(at.wrapping_sub(before))?.min(MOST);
    let shown = if w.style.verbose {
        u64::MAX
    } else {
        w.style.strings as u64
    };
    super::listed(
        w,
        at,
        TIME * group,
        of(count.into()),
        shown,
        |w, here, _| match group {
            1 => clock_date(w, here, None),
            _ => super::listed(w, here, TIME, group, u64::MAX, |w, here, _| {
                clock_date(w, here, None)
            }),
        },
    )
}

fn descriptor(w: &mut Writer, word: u64, _: Option<usize>) -> Written {
    w.value(&ty("fd"), Place::Word(word))
}

/// A key whose length lies in the number so many bytes before it.
fn key(w: &mut Writer, at: u64, before: u64, most: u32) -> Written {
    let length = w.u32_at(at.wrapping_sub(before))?.min(most);
    let bytes = w.bytes(at, length as usize);
    crate::text::quoted(&bytes, w.style.hex, w.out);
    Ok(())
}

/// What a disk answered, behind the number of its sectors of 512 bytes.
fn sectors(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
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
fn volume_name(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
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
fn reset(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    const ALONE: u32 = 0x100;
    let word = w.u32_at(at)?;
    w.push("[");
    if word & ALONE != 0 {
        w.known(ALONE.into(), "SG_SCSI_RESET_NO_ESCALATE");
        w.push("|");
    }
    super::list("sg_scsi_reset").name(w, (word & !ALONE).into());
    w.push("]");
    Ok(())
}

/// An address of an interface's own kind; the kind lies before it (`struct sockaddr`).
fn hardware(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let kind = w.number(at.wrapping_sub(2)).map(u16::from_le_bytes)?;
    let length = match kind {
        1 => 6,
        _ => 14,
    };
    let bytes = w.bytes(at, length);
    let parts: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    w.push(&parts.join(":"));
    Ok(())
}

fn modes(w: &Writer, at: u64, size: usize) -> Result<u64, crate::writer::Unknown> {
    match size {
        2 => Ok(w.number(at).map(u16::from_le_bytes)?.into()),
        _ => Ok(w.u32_at(at)?.into()),
    }
}

/// How a terminal writes: delays, each a number of its own, then flags (include/uapi/asm-generic/termbits.h).
fn output_modes(w: &mut Writer, at: u64, size: usize) -> Written {
    const DELAYS: [(&str, u64); 6] = [
        ("term_nldly", 0x100),
        ("term_crdly", 0x600),
        ("term_tabdly", 0x1800),
        ("term_bsdly", 0x2000),
        ("term_vtdly", 0x4000),
        ("term_ffdly", 0x8000),
    ];
    let mut word = modes(w, at, size)?;
    for (list, mask) in DELAYS {
        super::list(list).name(w, word & mask);
        w.push("|");
        word &= !mask;
    }
    super::list("term_oflags").flags(w, word);
    Ok(())
}

/// How a line is driven: speeds and the size of characters, then flags (include/uapi/asm-generic/termbits.h).
fn control_modes(w: &mut Writer, at: u64, size: usize) -> Written {
    const SPEED: u64 = 0o10017;
    const INPUT_SPEED: u64 = SPEED << INPUT_SHIFT;
    const INPUT_SHIFT: u32 = 16;
    const SIZE: u64 = 0x30;
    let word = modes(w, at, size)?;
    super::list("term_baud").name(w, word & SPEED);
    w.push("|");
    if word & INPUT_SPEED != 0 {
        super::list("term_baud").name(w, (word & INPUT_SPEED) >> INPUT_SHIFT);
        w.push("<<");
        w.known(INPUT_SHIFT.into(), "IBSHIFT");
        w.push("|");
    }
    super::list("term_csize").name(w, word & SIZE);
    w.push("|");
    super::list("term_cflags").flags(w, word & !(SPEED | INPUT_SPEED | SIZE));
    Ok(())
}

/// `[[VINTR]=0x3, [VQUIT]=0x1c, …]`
fn control_characters(w: &mut Writer, at: u64, count: usize, names: &str) -> Written {
    let bytes = w.bytes(at, count);
    w.push("[");
    for (index, byte) in bytes.iter().enumerate() {
        if index > 0 {
            w.push(", ");
        }
        let name = super::list(names).find(index as u64);
        let name = name.map_or_else(|| index.to_string(), ToOwned::to_owned);
        w.push(&format!("[{name}]="));
        w.hexadecimal((*byte).into());
    }
    w.push("]");
    Ok(())
}

/// Two numbers, the second a key (`EVIOCGKEYCODE`).
fn key_pair(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let [code, key] = [w.u32_at(at)?, w.u32_at(at + 4)?];
    w.push(&format!("[{code}, "));
    super::list("evdev_keycode").name(w, key.into());
    w.push("]");
    Ok(())
}

/// What is asked for, and what there is, where that is something else.
fn features(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let asked = w.before(|w| w.u64_at(at))?;
    let list = super::list("uffd_features");
    list.flags(w, asked);
    let changed = w.call.returned.filter(|_| w.call.error().is_none());
    if let Some((after, _)) = changed {
        let mut bytes = [0; 8];
        let known = prototypes::Memory::read(after, at, &mut bytes);
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
fn line_attribute(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let [kind, padding] = [w.u32_at(at)?, w.u32_at(at + 4)?];
    let of = super::ty("gpio_v2_line_attribute");
    if matches!(kind, 1..=3) && padding == 0 {
        return super::fields(w, &of, at);
    }
    w.push("attr=");
    super::value(w, &of, at, None)
}

/// An address of a group of a bridge, whose family stands 16 bytes behind it (`struct br_mdb_entry`).
fn bridge_address(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    match w.number(at + 16).map(u16::from_be_bytes)? {
        2 => {
            w.push("{u=");
            inet(w, at, None)?;
        }
        10 => {
            w.push("{u=");
            inet6(w, at, None)?;
        }
        _ => {
            let bytes = w.bytes(at, 16);
            w.push("{u=");
            crate::text::quoted(&bytes, crate::call::Hex::Always, w.out);
        }
    }
    w.push("}");
    Ok(())
}

fn bridge_protocol(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let family = w.number(at).map(u16::from_be_bytes)?;
    w.push("htons(");
    super::list("address_families").name(w, family.into());
    w.push(")");
    Ok(())
}
