//! Processes: limits, usage, ends, clones, processors.

use super::signals::{signal_number, signal_word};
use crate::layout;
use crate::members::Members;
use crate::types::ty;
use crate::words;
use crate::writer::{Place, Unknown, Writer, Written};
use prototypes::digits::{decimal, hex};
use prototypes::{Lens, Type};

/// `{rlim_cur=8192*1024, rlim_max=RLIM64_INFINITY}`
pub fn limit(w: &mut Writer, of: &Type, at: Place) -> Written {
    let mut members = Members::begin(w, of, at)?;
    for name in ["rlim_cur", "rlim_max"] {
        let number = members.word(name)?;
        members.label(name);
        match number {
            u64::MAX => members.w.known_infinity(),
            1025.. if number % 1024 == 0 => {
                let text = format!("{}*1024", number / 1024);
                let constants = members.w.style.constants;
                words::known(&number.to_string(), &text, constants, members.w.out);
            }
            _ => decimal(number, members.w.out),
        }
    }
    members.end()
}

pub fn usage(w: &mut Writer, of: &Type, at: Place) -> Written {
    const REST: [&str; 14] = [
        "ru_maxrss",
        "ru_ixrss",
        "ru_idrss",
        "ru_isrss",
        "ru_minflt",
        "ru_majflt",
        "ru_nswap",
        "ru_inblock",
        "ru_oublock",
        "ru_msgsnd",
        "ru_msgrcv",
        "ru_nsignals",
        "ru_nvcsw",
        "ru_nivcsw",
    ];
    let verbose = w.style.verbose;
    let mut members = Members::begin(w, of, at)?;
    members.members(&["ru_utime", "ru_stime"])?;
    if !verbose {
        return members.more();
    }
    members.members(&REST)?;
    members.end()
}

pub fn system_name(w: &mut Writer, of: &Type, at: Place) -> Written {
    let verbose = w.style.verbose;
    let mut members = Members::begin(w, of, at)?;
    let shown: &[&str] = match verbose {
        true => &[
            "sysname",
            "nodename",
            "release",
            "version",
            "machine",
            "domainname",
        ],
        false => &["sysname", "nodename"],
    };
    for name in shown {
        let (at, _) = members.find(name)?;
        let mut text = members.w.bytes(at, 65);
        let end = text.iter().position(|byte| *byte == 0).ok_or(Unknown)?;
        text.truncate(end);
        members.label(name);
        let hex = members.w.style.hex;
        crate::text::quoted(&text, hex, members.w.out);
    }
    if verbose {
        members.end()
    } else {
        members.more()
    }
}

pub fn system(w: &mut Writer, of: &Type, at: Place) -> Written {
    let mut members = Members::begin(w, of, at)?;
    members.members(&[
        "uptime",
        "loads",
        "totalram",
        "freeram",
        "sharedram",
        "bufferram",
    ])?;
    members.members(&[
        "totalswap",
        "freeswap",
        "procs",
        "totalhigh",
        "freehigh",
        "mem_unit",
    ])?;
    members.end()
}

/// How a child ended or was stopped (include/uapi/linux/wait.h, and `wait_task_*` in kernel/exit.c).
pub fn wait_status(w: &mut Writer, status: u32) {
    let (signal, code) = (status & 0x7f, status >> 8 & 0xff);
    let text = match (signal, code) {
        (0, code) => format!("WIFEXITED(s) && WEXITSTATUS(s) == {code}"),
        (0x7f, _) if status == 0xffff => "WIFCONTINUED(s)".into(),
        (0x7f, signal) => {
            let signal = signal_word(signal.into());
            format!("WIFSTOPPED(s) && WSTOPSIG(s) == {signal}")
        }
        (signal, _) => {
            let dumped = if status & 0x80 == 0 {
                ""
            } else {
                " && WCOREDUMP(s)"
            };
            let signal = signal_word(signal.into());
            format!("WIFSIGNALED(s) && WTERMSIG(s) == {signal}{dumped}")
        }
    };
    w.push("{");
    w.push(&text);
    w.push("}");
}

/// Behind the pointer of `wait4`; nothing was written if nobody was found.
pub fn status(w: &mut Writer, ty: &Type, at: Place) -> Written {
    if w.call.count() == 0 {
        return Err(Unknown);
    }
    let status = w.word(ty, at)? as u32;
    w.push("[");
    wait_status(w, status);
    w.push("]");
    Ok(())
}

/// Flags, and in the lowest byte the signal that the parent gets at the end.
pub fn clone_flags(w: &mut Writer, of: &Type, at: Place) -> Written {
    let word = w.word(of, at)?;
    let (flags, signal) = (word & !0xff, word & 0xff);
    if flags != 0 || signal == 0 {
        let Some(Lens::Flags(names)) = &of.lens else {
            return Err(Unknown);
        };
        words::flags(flags, names, w.style.constants, w.out);
    }
    if signal != 0 {
        if flags != 0 {
            w.push("|");
        }
        signal_number(w, signal);
    }
    Ok(())
}

/// The numbers of the processors in a set: `[0 1]`.
pub fn processors(w: &mut Writer, _: &Type, at: Place) -> Written {
    let Place::Memory(at) = at else {
        return Err(Unknown);
    };
    let length = match w.late {
        true => w.call.count(),
        false => w.call.arguments[1],
    };
    let bytes = w.bytes(at, length.min(4096) as usize);
    if bytes.is_empty() && length > 0 {
        return Err(Unknown);
    }
    w.push("[");
    let bits = 0..bytes.len() * 8;
    let there = bits.filter(|bit| bytes[bit / 8] >> (bit % 8) & 1 != 0);
    for (index, number) in there.enumerate() {
        if index > 0 {
            w.push(" ");
        }
        decimal(number, w.out);
    }
    w.push("]");
    Ok(())
}

/// The environment of a program: `0x7ffe… /* 20 vars */`.
pub fn environment(w: &mut Writer, at: u64) -> Written {
    if at == 0 {
        w.push("NULL");
        return Ok(());
    }
    let (mut count, mut ends) = (0, false);
    while let Ok(word) = w.u64_at(at + 8 * count) {
        if word == 0 {
            ends = true;
            break;
        }
        count += 1;
    }
    if w.style.verbose && (count > 0 || ends) {
        let of = ty("arguments_of_program");
        return w.value(&of, Place::Word(at));
    }
    hex(at, w.out);
    if count > 0 || ends {
        let plural = if count == 1 { "" } else { "s" };
        let unterminated = if ends { "" } else { ", unterminated" };
        w.push(&format!(" /* {count} var{plural}{unterminated} */"));
    }
    Ok(())
}

/// `{flags=…, child_tid=0x7f…, …} => {parent_tid=[71]}`: the members that mean something (kernel/fork.c,
/// `clone3_args_valid`; `struct clone_args` in include/uapi/linux/sched.h).
pub fn clone_arguments(w: &mut Writer, at: u64, size: u64) -> Written {
    const PIDFD: u64 = 0x1000;
    const PARENT_TID: u64 = 0x10_0000;
    const CHILD_TID: u64 = 0x0100_0000 | 0x20_0000;
    const TLS: u64 = 0x8_0000;
    const INTO_CGROUP: u64 = 0x2_0000_0000;
    const KNOWN: u64 = 88;
    const LEAST: u64 = 64;
    let there = size.min(KNOWN);
    let asked = w.before(|w| w.bytes(at, there as usize));
    if size < LEAST || (asked.len() as u64) < there {
        return Err(Unknown);
    }
    let word = |index: usize| {
        let bytes = asked.get(8 * index..8 * index + 8);
        bytes.map_or(0, |bytes| {
            u64::from_le_bytes(bytes.try_into().unwrap_or_default())
        })
    };
    let flags = word(0);
    w.push("{flags=");
    w.plain(&ty("clone3_flags"), Place::Word(flags))?;
    for (bits, name, index) in [
        (PIDFD, "pidfd", 1),
        (CHILD_TID, "child_tid", 2),
        (PARENT_TID, "parent_tid", 3),
    ] {
        if flags & bits != 0 {
            w.push(&format!(", {name}="));
            w.address(word(index));
        }
    }
    w.push(", exit_signal=");
    match word(4) {
        signal if signal < i32::MAX as u64 => signal_number(w, signal),
        signal => decimal(signal, w.out),
    }
    w.push(", stack=");
    w.address(word(5));
    w.push(", stack_size=");
    w.hexadecimal(word(6));
    if flags & TLS != 0 {
        w.push(", tls=");
        w.address(word(7));
    }
    set_tids(w, word(8), word(9));
    if there >= KNOWN && (word(10) != 0 || flags & INTO_CGROUP != 0) {
        w.push(&format!(", cgroup={}", word(10)));
    }
    w.before_mut(|w| layout::behind(w, at, KNOWN, size));
    w.push("}");
    if !w.late || w.call.error().is_some() {
        return Ok(());
    }
    let mut after = Vec::new();
    for (bits, name, index) in [(PIDFD, "pidfd", 1), (PARENT_TID, "parent_tid", 3)] {
        if flags & bits == 0 {
            continue;
        }
        let pointer = word(index);
        let begins = w.out.len();
        match w.u32_at(pointer) {
            Ok(number) => {
                w.push(&format!("[{}", number as i32));
                match name {
                    "pidfd" => w.name_of(number as i32),
                    _ => w.process(number as i32),
                }
                w.push("]");
            }
            Err(Unknown) => w.address(pointer),
        }
        let text = w.out.split_off(begins);
        after.push(format!("{name}={}", String::from_utf8_lossy(&text)));
    }
    let begins = w.out.len();
    layout::behind(w, at, KNOWN, size);
    let text = w.out.split_off(begins);
    let text = String::from_utf8_lossy(&text);
    if let Some(text) = text.strip_prefix(", ") {
        after.push(text.to_owned());
    }
    if !after.is_empty() {
        w.push(&format!(" => {{{}}}", after.join(", ")));
    }
    Ok(())
}

/// The ids that a process is to have in its namespaces.
fn set_tids(w: &mut Writer, at: u64, count: u64) {
    /// `MAX_PID_NS_LEVEL` (include/linux/pid_namespace.h)
    const MOST: u64 = 32;
    if at == 0 && count == 0 {
        return;
    }
    w.push(", set_tid=");
    let before = w.out.len();
    let known = at != 0 && (1..=MOST).contains(&count);
    let most = w.style.strings as u64;
    let written = known.then(|| {
        layout::listed(w, at, 4, count, most, |w, here, _| {
            let number = w.u32_at(here)? as i32;
            decimal(number, w.out);
            Ok(())
        })
    });
    if !matches!(written, Some(Ok(()))) {
        w.out.truncate(before);
        w.address(at);
    }
    w.push(&format!(", set_tid_size={count}"));
}
