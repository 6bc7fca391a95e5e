//! Memory, threads, and waiting for time. Used by `special`.

use crate::call::Hex;
use crate::types::ty;
use crate::words;
use crate::writer::{Place, Unknown, Writer, Written};
use prototypes::digits::decimal;
use prototypes::types::Lens;

pub fn remap_arguments(flags: u64) -> Option<usize> {
    const FIXED: u64 = 2;
    const KEEPS: u64 = 4;
    (flags & (FIXED | KEEPS) == 0).then_some(4)
}

/// Flags of a mapping: what it is, the flags, and above them the size of huge pages as a power of two
/// (include/uapi/linux/mman.h).
pub fn map_flags(w: &mut Writer, word: u64) -> Written {
    const KIND: u64 = 0xf;
    const HUGE: u64 = 0x4_0000;
    let word = word & 0xffff_ffff;
    let kind = match word & KIND {
        1 => "MAP_SHARED".into(),
        2 => "MAP_PRIVATE".into(),
        3 => "MAP_SHARED_VALIDATE".into(),
        0 => "MAP_FILE".into(),
        other => format!("{other:#x} /* MAP_??? */"),
    };
    let mut text = Vec::from(kind);
    let (mut rest, mut pages) = (word & !KIND, String::new());
    if rest & HUGE != 0 {
        (rest, pages) = huge_pages(rest, "MAP_HUGE_SHIFT");
    }
    if let Some(Lens::Flags(names)) = &ty("mmap_flags").lens
        && rest != 0
    {
        text.push(b'|');
        words::bits(rest, names, &mut text);
    }
    text.extend_from_slice(pages.as_bytes());
    w.known(word, &String::from_utf8_lossy(&text));
    Ok(())
}

/// Flags of a file in memory, the same way.
pub fn file_flags(w: &mut Writer, word: u64) -> Written {
    let word = word & 0xffff_ffff;
    let of = ty("memfd_flags");
    let (rest, pages) = huge_pages(word, "MFD_HUGE_SHIFT");
    let Some(Lens::Flags(names)) = of.lens.as_ref().filter(|_| !pages.is_empty()) else {
        return w.plain(&of, Place::Word(word));
    };
    let mut text = Vec::new();
    words::bits(rest, names, &mut text);
    let pages = if rest == 0 { &pages[1..] } else { &pages };
    text.extend_from_slice(pages.as_bytes());
    w.known(word, &String::from_utf8_lossy(&text));
    Ok(())
}

/// Flags without the size of huge pages, and that size: `|21<<MAP_HUGE_SHIFT`.
fn huge_pages(word: u64, name: &str) -> (u64, String) {
    const SHIFT: u64 = 26;
    let size = word >> SHIFT & 0x3f;
    let text = match size {
        0 => String::new(),
        size => format!("|{size}<<{name}"),
    };
    (word & !(0x3f << SHIFT), text)
}

// Operations of futex (include/uapi/linux/futex.h).
const PRIVATE: u64 = 128;
const REALTIME: u64 = 256;
const WAIT: u64 = 0;
const WAKE: u64 = 1;
const FD: u64 = 2;
const REQUEUE: u64 = 3;
const CMP_REQUEUE: u64 = 4;
const WAKE_OP: u64 = 5;
const LOCK_PI: u64 = 6;
const UNLOCK_PI: u64 = 7;
const TRYLOCK_PI: u64 = 8;
const WAIT_BITSET: u64 = 9;
const WAKE_BITSET: u64 = 10;
const WAIT_REQUEUE_PI: u64 = 11;
const CMP_REQUEUE_PI: u64 = 12;
const LOCK_PI2: u64 = 13;
const OPERATIONS: [&str; 14] = [
    "FUTEX_WAIT",
    "FUTEX_WAKE",
    "FUTEX_FD",
    "FUTEX_REQUEUE",
    "FUTEX_CMP_REQUEUE",
    "FUTEX_WAKE_OP",
    "FUTEX_LOCK_PI",
    "FUTEX_UNLOCK_PI",
    "FUTEX_TRYLOCK_PI",
    "FUTEX_WAIT_BITSET",
    "FUTEX_WAKE_BITSET",
    "FUTEX_WAIT_REQUEUE_PI",
    "FUTEX_CMP_REQUEUE_PI",
    "FUTEX_LOCK_PI2",
];

fn operation(word: u64) -> u64 {
    word & 0xffff_ffff & !(PRIVATE | REALTIME)
}

/// What an operation takes, in the order in which strace writes it: v and w numbers, t a time, a an address, b a set of
/// bits, o an operation.
fn futex_takes(operation: u64) -> &'static str {
    match operation {
        WAIT => "vt",
        WAKE | FD => "v",
        REQUEUE => "vwa",
        CMP_REQUEUE => "vwac",
        WAKE_OP => "vwao",
        LOCK_PI | LOCK_PI2 => "t",
        UNLOCK_PI | TRYLOCK_PI => "",
        WAIT_BITSET => "vtb",
        WAKE_BITSET => "vb",
        WAIT_REQUEUE_PI => "vta",
        CMP_REQUEUE_PI => "vwac",
        _ => "vtab",
    }
}

/// Appends the arguments of `futex` that its operation takes: `0x7f…, FUTEX_WAIT_BITSET_PRIVATE, 2, NULL,
/// FUTEX_BITSET_MATCH_ANY`.
pub fn futex(w: &mut Writer) {
    let [at, word, value, second, other, last] = *w.call.arguments;
    w.argument_name(0);
    w.address(at);
    w.push(", ");
    w.argument_name(1);
    futex_operation(w, word);
    for kind in futex_takes(operation(word)).bytes() {
        w.push(", ");
        match kind {
            b'v' => w.argument_name(2),
            b'w' if w.style.names => w.push("val2="),
            b'w' => {}
            b't' => w.argument_name(3),
            b'a' => w.argument_name(4),
            _ => w.argument_name(5),
        }
        match kind {
            b'v' => decimal(value as u32, w.out),
            b'w' => decimal(second as u32, w.out),
            b't' if second == 0 => w.push("NULL"),
            b't' => {
                let before = w.out.len();
                let time = ty("timespec");
                if w.value(&time, Place::Memory(second)).is_err() {
                    w.out.truncate(before);
                    w.address(second);
                }
            }
            b'a' => w.address(other),
            b'c' => decimal(last as u32, w.out),
            b'b' if last as u32 == u32::MAX => w.push("FUTEX_BITSET_MATCH_ANY"),
            b'b' => w.hexadecimal(last & 0xffff_ffff),
            _ => futex_wake_operation(w, last & 0xffff_ffff),
        }
    }
}

fn futex_operation(w: &mut Writer, word: u64) {
    let word = word & 0xffff_ffff;
    // Operations that take a time by the clock of the day (`FUTEX_CMD_MASK` and `futex_init_timeout` in kernel/futex/syscalls.c).
    let realtime = matches!(operation(word), WAIT | WAIT_BITSET | WAIT_REQUEUE_PI);
    let name = OPERATIONS.get(operation(word) as usize);
    let Some(name) = name.filter(|_| realtime || word & REALTIME == 0) else {
        return words::nameless(words::plain(word), "FUTEX_???", w.style.constants, w.out);
    };
    let private = match (word & PRIVATE != 0, *name) {
        (false, _) => "",
        (true, "FUTEX_FD") => "|FUTEX_PRIVATE_FLAG",
        (true, _) => "_PRIVATE",
    };
    let clock = if word & REALTIME != 0 {
        "|FUTEX_CLOCK_REALTIME"
    } else {
        ""
    };
    w.known(word, &format!("{name}{private}{clock}"));
}

/// `FUTEX_OP_SET<<28|0<<12|FUTEX_OP_CMP_GT<<24|0x1`: what `FUTEX_WAKE_OP` does to the second word.
fn futex_wake_operation(w: &mut Writer, word: u64) {
    const KINDS: [&str; 5] = [
        "FUTEX_OP_SET",
        "FUTEX_OP_ADD",
        "FUTEX_OP_OR",
        "FUTEX_OP_ANDN",
        "FUTEX_OP_XOR",
    ];
    const COMPARISONS: [&str; 6] = [
        "FUTEX_OP_CMP_EQ",
        "FUTEX_OP_CMP_NE",
        "FUTEX_OP_CMP_LT",
        "FUTEX_OP_CMP_LE",
        "FUTEX_OP_CMP_GT",
        "FUTEX_OP_CMP_GE",
    ];
    let (kind, comparison) = (word >> 28 & 7, word >> 24 & 15);
    if word >> 31 != 0 {
        w.push("FUTEX_OP_OPARG_SHIFT<<28|");
    }
    match KINDS.get(kind as usize) {
        Some(name) => w.push(&format!("{name}<<28")),
        None => {
            w.hexadecimal(kind);
            w.push("<<28 /* FUTEX_OP_??? */");
        }
    }
    w.push("|");
    w.hexadecimal(word >> 12 & 0xfff);
    w.push("<<12|");
    match COMPARISONS.get(comparison as usize) {
        Some(name) => w.push(&format!("{name}<<24")),
        None => {
            w.hexadecimal(comparison);
            w.push("<<24 /* FUTEX_OP_CMP_??? */");
        }
    }
    w.push("|");
    w.hexadecimal(word & 0xfff);
}

/// Appends random bytes, in hexadecimal because they are never text.
pub fn random(w: &mut Writer, at: u64) -> Written {
    if at == 0 || w.call.error().is_some() {
        return Err(Unknown);
    }
    w.buffer_as(at, w.call.count() as usize, Hex::Always)
}

/// The time that was left when a signal came; without one nothing was written.
pub fn remaining(w: &mut Writer, at: u64) -> Written {
    /// `EINTR` (include/uapi/asm-generic/errno-base.h).
    const EINTR: i32 = 4;
    /// include/linux/errno.h: what a tracer sees in its place.
    const RESTART_BLOCK: i32 = 516;
    let interrupted = matches!(w.call.error(), Some(EINTR | RESTART_BLOCK));
    if at == 0 || !interrupted {
        return Err(Unknown);
    }
    w.value(&ty("timespec"), Place::Memory(at))
}

/// Where a copy begins, and where it ended: `[0] => [100]`.
pub fn offset(w: &mut Writer, at: u64) -> Written {
    if at == 0 {
        return Err(Unknown);
    }
    let before = w.before(|w| w.u64_at(at))?;
    let after = w.u64_at(at)?;
    // sendfile's is shown without a sign.
    let signed = w.call.name != "sendfile";
    let shown = |w: &mut Writer, number: u64| match signed {
        true => decimal(number.cast_signed(), w.out),
        false => decimal(number, w.out),
    };
    w.push("[");
    shown(w, before);
    w.push("]");
    if after != before && w.call.error().is_none() {
        w.push(" => [");
        shown(w, after);
        w.push("]");
    }
    Ok(())
}

/// The arguments of `clone` as strace writes them, in its order: `child_stack=NULL, flags=CLONE_CHILD_CLEARTID|SIGCHLD,
/// child_tidptr=0x7f…`.
pub fn clone(w: &mut Writer) {
    const PARENT_TID: u64 = 0x10_0000;
    const PIDFD: u64 = 0x1000;
    const CHILD_TID: u64 = 0x0100_0000 | 0x20_0000;
    const TLS: u64 = 0x8_0000;
    let [flags, stack, parent, child, tls, _] = *w.call.arguments;
    w.push("child_stack=");
    w.address(stack);
    w.push(", flags=");
    w.whole(&ty("clone_flags"), Place::Word(flags));
    if flags & (PARENT_TID | PIDFD) != 0 {
        w.push(", parent_tid=");
        let descriptor = w.u32_at(parent).ok().filter(|_| flags & PIDFD != 0);
        if let Some(number) = descriptor.filter(|_| w.call.error().is_none()) {
            w.push("[");
            decimal(number as i32, w.out);
            w.name_of(number as i32);
            w.push("]");
        } else if w.call.error().is_none() && flags & PARENT_TID != 0 {
            let thread = w.call.count();
            w.push(&format!("[{thread}]"));
        } else {
            w.address(parent);
        }
    }
    if flags & TLS != 0 {
        w.push(", tls=");
        w.address(tls);
    }
    if flags & CHILD_TID != 0 {
        w.push(", child_tidptr=");
        w.address(child);
    }
}

pub fn clone3(w: &mut Writer) {
    let [at, size, ..] = *w.call.arguments;
    w.argument_name(0);
    let before = w.out.len();
    if super::clone::clone_arguments(w, at, size).is_err() {
        w.out.truncate(before);
        w.address(at);
    }
    w.push(", ");
    w.argument_name(1);
    decimal(size, w.out);
}
