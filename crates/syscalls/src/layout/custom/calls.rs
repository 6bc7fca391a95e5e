//! Arguments of system calls that are put together of several numbers. Used by `custom`.

use crate::call::Constants;
use crate::layout::{fields, list, listed, tables, ty, value};
use crate::words;
use crate::writer::{Unknown, Writer, Written};
use prototypes::digits::decimal;

/// A policy and its flags (`MPOL_MODE_FLAGS` in include/uapi/linux/mempolicy.h).
pub fn policy(w: &mut Writer, word: u64, _: Option<usize>) -> Written {
    const FLAGS: u64 = 0xe000;
    // `mbind` takes a long (mm/mempolicy.c).
    let word = match w.call.name {
        "mbind" => word,
        _ => u64::from(word as u32),
    };
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
            words::bits(word & FLAGS, flags.names(), &mut text);
            w.known(word, &String::from_utf8_lossy(&text));
        }
    }
    Ok(())
}

/// Nodes as words of 64 bits, as many as the argument behind it has bits.
pub fn node_mask(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    // The kernel takes one less than it is told (mm/mempolicy.c, `get_nodes`).
    let index = match w.call.name {
        "mbind" => 4,
        "migrate_pages" => 1,
        _ => 2,
    };
    let told = w.call.arguments[index];
    let bits = told.saturating_sub(1);
    if told == 1 {
        return Err(Unknown);
    }
    let shown = if w.style.verbose {
        4096
    } else {
        w.style.strings as u64
    };
    listed(w, at, 8, bits.div_ceil(64), shown, |w, here, _| {
        let word = w.u64_at(here)?;
        w.push(&format!("{word:016x}"));
        Ok(())
    })
}

/// The priority of a process at disks: `IOPRIO_PRIO_VALUE(IOPRIO_CLASS_BE, 4)` (include/uapi/linux/ioprio.h).
pub fn io_priority(w: &mut Writer, word: u64, _: Option<usize>) -> Written {
    let word = u64::from(word as u32);
    let (class, data) = (word >> 13, word & 0x1fff);
    let classes = list("ioprio_class");
    let class = match classes.find(class) {
        Some(name) if w.style.constants == Constants::Both => {
            format!("{} /* {name} */", words::plain(class))
        }
        Some(name) => name.to_owned(),
        None => format!("{} /* {} */", words::plain(class), classes.unknown),
    };
    let text = format!("IOPRIO_PRIO_VALUE({class}, {data})");
    // Behind a result the number stands already.
    if w.call.name == "ioprio_get" {
        w.push(&text);
        return Ok(());
    }
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
    value(w, &ty("f64.landlock_access"), at, None)?;
    w.push(if size > KNOWN { ", ...}" } else { "}" });
    Ok(())
}

/// A command and a type of quota in one number: `QCMD(Q_QUOTAON, USRQUOTA)` (include/uapi/linux/quota.h).
pub fn quota_command(w: &mut Writer, word: u64, _: Option<usize>) -> Written {
    let word = u64::from(word as u32);
    if w.style.constants == Constants::Numbers {
        decimal(word, w.out);
        return Ok(());
    }
    if w.style.constants == Constants::Both {
        decimal(word, w.out);
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
            // Within the comment that names are in, too.
            None => {
                let shown = words::plain(number);
                words::nameless(&shown, of.unknown, Constants::Names, w.out);
            }
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

/// Which pages of a mapping are in memory (mm/mincore.c): the lowest bit of a byte each.
pub fn resident_pages(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    const PAGE: u64 = 4096;
    let pages = w.call.arguments[1].div_ceil(PAGE);
    let most = match w.style.verbose {
        true => 128,
        false => w.style.strings as u64,
    };
    listed(w, at, 1, pages, most, |w, here, _| {
        let [byte] = w.number(here)?;
        decimal(byte & 1, w.out);
        Ok(())
    })
}

/// States of the processor, a bit each (arch/x86/include/asm/fpu/types.h): their names are in no header for programs, so the
/// number stands first.
pub fn feature_mask(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let mask = w.u64_at(at)?;
    let list = list("xfeature_masks");
    w.push("[");
    words::flags_or(mask, list.names(), list.unknown, number_first(w), w.out);
    w.push("]");
    Ok(())
}

/// The number of one such state, in the same way.
pub fn feature(w: &mut Writer, word: u64, _: Option<usize>) -> Written {
    let list = list("xfeatures");
    let number = words::plain(word);
    match list.find(word) {
        Some(name) => words::known(&number, name, number_first(w), w.out),
        None => words::nameless(&number, list.unknown, number_first(w), w.out),
    }
    Ok(())
}

fn number_first(w: &Writer) -> Constants {
    match w.style.constants {
        Constants::Numbers => Constants::Numbers,
        _ => Constants::Both,
    }
}

/// How a program is told of a timer or a message (`struct sigevent` in include/uapi/asm-generic/siginfo.h).
pub fn signal_event(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    const THREAD: u32 = 2;
    const THREAD_ID: u32 = 4;
    const SIGNAL: u32 = 0;
    let value = w.u64_at(at)?;
    let [signal, notify, thread] = [w.u32_at(at + 8)?, w.u32_at(at + 12)?, w.u32_at(at + 16)?];
    w.push("{");
    if value != 0 {
        w.push(&format!(
            "sigev_value={{sival_int={}, sival_ptr={value:#x}}}, ",
            value as i32
        ));
    }
    w.push("sigev_signo=");
    match notify {
        SIGNAL | THREAD | THREAD_ID => crate::forms::signal_number(w, signal.into()),
        _ => decimal(signal, w.out),
    }
    w.push(", sigev_notify=");
    list("signal_events").name(w, notify.into());
    match notify {
        THREAD_ID => {
            w.push(&format!(", sigev_notify_thread_id={}", thread as i32));
            w.process(thread as i32);
        }
        THREAD => {
            let [function, attributes] = [w.u64_at(at + 16)?, w.u64_at(at + 24)?];
            w.push(", sigev_notify_function=");
            w.address(function);
            w.push(", sigev_notify_attributes=");
            w.address(attributes);
        }
        _ => {}
    }
    w.push("}");
    Ok(())
}

/// The user namespace of `struct mount_attr` (include/uapi/linux/mount.h): a descriptor where ids are to be mapped.
pub fn mapped_namespace(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    const MAPS: u64 = 0x10_0000;
    const BEFORE: u64 = 24;
    let number = w.u64_at(at)?;
    let [set, cleared] = [BEFORE, BEFORE - 8].map(|back| w.u64_at(at.wrapping_sub(back)));
    decimal(number, w.out);
    if (set? | cleared?) & MAPS != 0
        && let Ok(number) = i32::try_from(number)
    {
        w.name_of(number);
    }
    Ok(())
}

/// What is to happen with a key, and the mode of what it names.
pub fn ipc_flags(w: &mut Writer, word: u64, names: Option<usize>) -> Written {
    const MODE: u64 = 0o777;
    let word = u64::from(word as u32);
    let flags = word & !MODE;
    if flags != 0 {
        tables().lists[names.ok_or(Unknown)?].flags(w, flags);
        w.push("|");
    }
    w.octal(word & MODE);
    Ok(())
}

/// The same of shared memory, with the size of its pages as a power of 2 (`SHM_HUGE_SHIFT` in include/uapi/linux/shm.h).
pub fn shm_flags(w: &mut Writer, word: u64, _: Option<usize>) -> Written {
    const MODE: u64 = 0o777;
    const SHIFT: u32 = 26;
    const PAGES: u64 = 0x3f << SHIFT;
    let word = u64::from(word as u32);
    let (flags, pages) = (word & !MODE & !PAGES, (word & PAGES) >> SHIFT);
    if flags != 0 {
        list("ipc_shm_resources").flags(w, flags);
        w.push("|");
    }
    if pages != 0 {
        w.push(&format!("{pages}<<"));
        w.known_decimal(SHIFT.into(), "SHM_HUGE_SHIFT");
        w.push("|");
    }
    w.octal(word & MODE);
    Ok(())
}

/// A command, with the bit that asks for the newer structs (`IPC_64` in ipc/util.h).
pub fn ipc_command(w: &mut Writer, word: u64, names: Option<usize>) -> Written {
    const NEWER: u64 = 0x100;
    let word = u64::from(word as u32);
    if word & NEWER != 0 {
        w.known(NEWER, "IPC_64");
        w.push("|");
    }
    tables().lists[names.ok_or(Unknown)?].name(w, word & !NEWER);
    Ok(())
}

/// `struct sched_attr`, of which the kernel says how much it wrote.
pub fn sched_attributes(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    const FIRST: u64 = 48;
    const SECOND: u64 = 56;
    let room = w.call.arguments[2] & 0xffff_ffff;
    if w.bytes(at, room.min(SECOND) as usize).len() < room.min(SECOND) as usize {
        return Err(Unknown);
    }
    let size = u64::from(w.u32_at(at)?);
    let of = match size {
        0..FIRST => "sched_attr(size)",
        FIRST..SECOND => "sched_attr",
        _ => "sched_attr_clamped",
    };
    w.push("{");
    fields(w, &ty(of), at)?;
    w.push(if size > SECOND { ", ...}" } else { "}" });
    Ok(())
}

/// The same, of which the program says how much there is (kernel/sched/syscalls.c, `sched_copy_attr`).
pub fn sched_attributes_set(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    const FIRST: u64 = 48;
    const SECOND: u64 = 56;
    /// `E2BIG` (include/uapi/asm-generic/errno-base.h).
    const E2BIG: i32 = 7;
    let after = w.u32_at(at).unwrap_or_default();
    let changed = w.call.error() == Some(E2BIG) && w.before(|w| w.u32_at(at))? != after;
    w.before_mut(|w| sched_attributes_before(w, at, FIRST, SECOND))?;
    if changed {
        w.push(&format!(" => {{size={after}}}"));
    }
    Ok(())
}

fn sched_attributes_before(w: &mut Writer, at: u64, first: u64, second: u64) -> Written {
    let size = u64::from(w.u32_at(at)?);
    if size != 0 && size < first {
        w.push("{");
        fields(w, &ty("sched_attr(size)"), at)?;
        w.push("}");
        return Ok(());
    }
    let of = if size < second {
        "sched_attr_set"
    } else {
        "sched_attr_set_clamped"
    };
    w.push("{");
    fields(w, &ty(of), at)?;
    w.push(if size > second { ", ...}" } else { "}" });
    Ok(())
}

/// A class and flags (`FAN_ALL_CLASS_BITS` in include/uapi/linux/fanotify.h).
pub fn fanotify_flags(w: &mut Writer, word: u64, _: Option<usize>) -> Written {
    const CLASS: u64 = 12;
    let word = u64::from(word as u32);
    list("fanotify_class").name(w, word & CLASS);
    if word & !CLASS != 0 {
        w.push("|");
        list("fanotify_init_flags").flags(w, word & !CLASS);
    }
    Ok(())
}

/// Flags and a priority (`SWAP_FLAG_PRIO_MASK` in include/linux/swap.h).
pub fn swap_flags(w: &mut Writer, word: u64, _: Option<usize>) -> Written {
    const PRIORITY: u64 = 0x7fff;
    let word = u64::from(word as u32);
    if word & !PRIORITY != 0 {
        list("swap_flags").flags(w, word & !PRIORITY);
        w.push("|");
    }
    w.push(&(word & PRIORITY).to_string());
    Ok(())
}

// Flags of mount by which its other arguments are not looked at (fs/namespace.c, `path_mount`).
const REMOUNT: u64 = 32;
pub const NO_DATA: u64 = 0x1000 | 0x2000 | 0x2_0000 | 0x4_0000 | 0x8_0000 | 0x10_0000;
pub const NO_KIND: u64 = NO_DATA | REMOUNT;

/// The flags of mount without the number that old programs put above them (`MS_MGC_VAL` in include/uapi/linux/mount.h).
fn mount_bits(word: u64) -> (u64, bool) {
    const OLD: u64 = 0xc0ed_0000;
    const OLD_MASK: u64 = 0xffff_0000;
    match word & OLD_MASK == OLD {
        true => (word & !OLD_MASK, true),
        false => (word, false),
    }
}

pub fn mount_flags(w: &mut Writer, word: u64, _: Option<usize>) -> Written {
    let (flags, old) = mount_bits(word);
    if old {
        w.known(0xc0ed_0000, "MS_MGC_VAL");
        if flags == 0 {
            return Ok(());
        }
        w.push("|");
    }
    w.plain(
        &crate::types::ty("mount_flags"),
        crate::writer::Place::Word(flags),
    )
}

/// A text of mount, or its address where the flags have none of it looked at.
pub fn mount_text(w: &mut Writer, word: u64, unless: u64) -> Written {
    let (flags, _) = mount_bits(w.call.arguments[3]);
    if flags & unless != 0 && !(unless == NO_DATA && flags & REMOUNT != 0) {
        return Err(Unknown);
    }
    w.value(
        &crate::types::ty("string_argument"),
        crate::writer::Place::Word(word),
    )
}
