//! Processes: limits, usage, ends, clones, processors. Used by `forms`, `layout::custom` and `special`.

use super::signals::{signal_number, signal_word};
use crate::members::Members;
use crate::types::ty;
use crate::words;
use crate::writer::{Place, Unknown, Writer, Written};
use prototypes::digits::{decimal, hex};
use prototypes::types::{Lens, Type};

/// A limit, in units of 1024 where it is a multiple of that: `{rlim_cur=8192*1024,
/// rlim_max=RLIM64_INFINITY}`.
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
                words::known(number, &text, constants, members.w.out);
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

/// What the pointer of `wait4` leads to; nothing was written there if no child was found.
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
    processors_in(w, at, length.min(u32::MAX.into()) as u32)
}

/// The same of a set of so many bytes.
pub fn processors_in(w: &mut Writer, at: u64, length: u32) -> Written {
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
