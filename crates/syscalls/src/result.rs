//! What stands behind the `=`: `3`, `0x7f…`, `-1 ENOENT (No such file or directory)`, `1 ([{fd=3, revents=POLLIN}])`.

use crate::call::{Call, Constants, IdKind, Style};
use crate::errors::AGAIN;
use crate::types::ty;
use crate::writer::{Place, Writer};
use crate::{forms, layout, special, words};
use nix::errno::Errno;
use prototypes::Kind;
use prototypes::digits::{decimal, hex};

/// Appends the result; `?` of a call that has not returned.
pub fn write(style: &Style, call: &Call, out: &mut Vec<u8>) {
    let Some((_, result)) = call.returned else {
        return out.push(b'?');
    };
    if style.raw && call.error().is_none() {
        return match result {
            0 => out.push(b'0'),
            result => hex(result, out),
        };
    }
    // Whoever one is can always be told: each result is a number.
    let fails = call.prototype.returns.alias() != Some("uid");
    if let Some(error) = call.error().filter(|_| fails) {
        return failed(error, out);
    }
    let mut w = Writer::new(style, call, forms::by_name, out);
    w.late = true;
    match call.name {
        "fcntl" if special::duplicates(call.arguments[1]) => {
            decimal(result, w.out);
            return w.name_of(result as i32);
        }
        "fcntl" if special::owns(call.arguments[1]) => {
            return w.whole(&ty("pid_or_group"), Place::Word(result));
        }
        "fcntl" if call.arguments[1] as u32 == 11 && result != 0 => {
            decimal(result, w.out);
            w.push(" (");
            forms::signal_number(&mut w, result);
            return w.push(")");
        }
        "fcntl" if call.arguments[1] as u32 == 1025 => {
            w.hexadecimal(result);
            w.push(" (");
            layout::list("lease_types").name(&mut w, result);
            return w.push(")");
        }
        "rt_sigtimedwait" if result != 0 => {
            decimal(result, w.out);
            w.push(" (");
            forms::signal_number(&mut w, result);
            return w.push(")");
        }
        "fcntl" if special::status_flags(&mut w, result) => return,
        "poll" | "ppoll" => {
            decimal(result, w.out);
            return special::polled(&mut w);
        }
        "select" | "pselect6" => {
            decimal(result, w.out);
            return special::selected(&mut w);
        }
        "recvmmsg" => {
            decimal(result, w.out);
            let timeout = call.arguments[4];
            if timeout != 0 && !style.addresses {
                w.push(" (left ");
                w.whole(&ty("timespec"), Place::Memory(timeout));
                w.push(")");
            }
            return;
        }
        // Commands that return a descriptor (include/uapi/linux/bpf.h).
        "bpf" if matches!(call.arguments[0] as u32, 0 | 5..=7 | 13 | 14 | 17..=19 | 28 | 30) => {
            decimal(result.cast_signed(), w.out);
            if let Ok(number) = i32::try_from(result) {
                w.name_of(number);
            }
            return;
        }
        "personality" => {
            w.hexadecimal(result);
            w.push(" (");
            let _ = layout::passed(&mut w, &layout::ty("personality"), result);
            return w.push(")");
        }
        // `VIDIOC_CREATE_BUFS` (include/uapi/linux/videodev2.h)
        "ioctl" if call.arguments[1] as u32 == 0xc100_565c => {
            decimal(result, w.out);
            let before = w.out.len();
            w.push(" (");
            let of = layout::ty("v4l2_create_buffers(index,count)");
            if layout::value(&mut w, &of, call.arguments[2], None).is_err() {
                return w.out.truncate(before);
            }
            return w.push(")");
        }
        // include/uapi/linux/nsfs.h, `NS_GET_NSTYPE`
        "ioctl" if call.arguments[1] as u32 == 0xb703 => {
            decimal(result, w.out);
            w.push(" (");
            layout::list("setns_types").name(&mut w, result);
            return w.push(")");
        }
        "clone" | "clone3" => {
            decimal(result, w.out);
            return w.id(result as i32, IdKind::Thread);
        }
        // What was there before, of a permission that was asked for.
        "arch_prctl" if matches!(call.arguments[0] as u32, 0x1023 | 0x1025) && result != 0 => {
            w.hexadecimal(result);
            let names = &layout::list("xfeature_masks").names;
            let known = names
                .iter()
                .any(|(_, bits)| result & *bits as u64 == *bits as u64);
            if style.constants != Constants::Numbers && known {
                w.push(" (");
                words::bits(result, names, w.out);
                w.push(")");
            }
            return;
        }
        // It is a version that was asked for, no descriptor.
        "landlock_create_ruleset" if call.arguments[2] & 1 != 0 => return decimal(result, w.out),
        // It returns 32 bits (arch/x86/kernel/ldt.c).
        "modify_ldt" if (result as i32) < 0 => {
            decimal(result as u32, w.out);
            let mut text = Vec::new();
            failed(-(result as i32), &mut text);
            return w
                .out
                .extend_from_slice(text.strip_prefix(b"-1").unwrap_or(&text));
        }
        "sched_getscheduler" => return named(&mut w, result, "sched_policy"),
        "prctl" if special::prctl_result(&mut w, result) => return,
        _ => {}
    }
    if let Some(of) = layout::tables().results.get(call.name) {
        decimal(result.cast_signed(), w.out);
        if style.constants != Constants::Numbers {
            w.push(" (");
            let before = w.out.len();
            if layout::passed(&mut w, of, result).is_err() {
                w.out.truncate(before);
            }
            w.push(")");
        }
        return;
    }
    let returns = &call.prototype.returns;
    match (returns.alias(), &returns.kind) {
        (Some("fd"), _) => {
            decimal(result as i32, w.out);
            w.name_of(result as i32);
        }
        (Some("mode"), _) => w.octal(result),
        (Some("uid"), _) => decimal(result, w.out),
        (Some(alias @ ("pid" | "tid" | "pgid" | "sid")), _) => {
            decimal(result as i32, w.out);
            let kind = match alias {
                "tid" => IdKind::Thread,
                "pgid" => IdKind::Group,
                "sid" => IdKind::Session,
                _ => IdKind::Process,
            };
            w.id(result as i32, kind);
        }
        (_, Kind::Pointer(_)) => match result {
            0 => w.push("NULL"),
            address => hex(address, w.out),
        },
        _ => decimal(result.cast_signed(), w.out),
    }
}

/// `0 (SCHED_OTHER)`
fn named(w: &mut Writer, result: u64, list: &str) {
    decimal(result, w.out);
    w.push(" (");
    w.whole(&ty(list), Place::Word(result));
    w.push(")");
}

/// `-1 ENOENT (No such file or directory)`
fn failed(error: i32, out: &mut Vec<u8>) {
    if let Some((_, name, text)) = AGAIN.iter().find(|(number, ..)| *number == error) {
        return out.extend_from_slice(format!("? {name} ({text})").as_bytes());
    }
    // The C library's words, as strace has them.
    let text = std::io::Error::from_raw_os_error(error).to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let text = match Errno::from_raw(error) {
        Errno::UnknownErrno => format!("-1 (errno {error})"),
        known => format!("-1 {known:?} ({text})"),
    };
    out.extend_from_slice(text.as_bytes());
}
