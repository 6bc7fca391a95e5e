//! What stands behind the `=`: `3`, `0x7f…`, `-1 ENOENT (No such file or directory)`, `1 ([{fd=3, revents=POLLIN}])`.

use crate::call::{Constants, IdKind, RawCall, Style};
use crate::errors::AGAIN;
use crate::opened::Opened;
use crate::types::ty;
use crate::writer::{Place, Writer};
use crate::{forms, layout, special, words};
use nix::errno::Errno;
use prototypes::digits::{decimal, hex};
use prototypes::types::Kind;
use std::sync::OnceLock;

/// Appends the result; `?` of a call that has not returned.
pub fn write(style: &Style, call: &RawCall, out: &mut Vec<u8>) {
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
    if !is_of_its_own(&mut w, result) {
        match layout::tables().results.get(call.name) {
            Some(of) => named_by_row(&mut w, of, result),
            None => as_prototype_says(&mut w, result),
        }
    }
    if let Some(entered) = special::entered(call, result) {
        w.push(&format!(" ({entered})"));
    }
}

/// Writes the result of a call whose result has a form of its own; whether it has one.
fn is_of_its_own(w: &mut Writer, result: u64) -> bool {
    let call = w.call;
    let first = call.arguments[0] as u32;
    match call.name {
        "fcntl" => return of_fcntl(w, result),
        "ioctl" => return of_ioctl(w, result),
        "prctl" => return special::prctl_result(w, result),
        "rt_sigtimedwait" if result != 0 => {
            with_meaning(w, result, |w| forms::signal_number(w, result));
        }
        "poll" | "ppoll" => {
            decimal(result, w.out);
            special::polled(w);
        }
        "select" | "pselect6" => {
            decimal(result, w.out);
            special::selected(w);
        }
        "recvmmsg" => received(w, result),
        "bpf" | "seccomp" if is_descriptor(call) => descriptor(w, result),
        // BPF_OBJ_PIN opens nothing, but strace writes its result as it writes that of BPF_OBJ_GET.
        "bpf" if first == 6 => descriptor(w, result),
        "personality" => {
            w.hexadecimal(result);
            w.push(" (");
            let _ = layout::passed(w, &layout::ty("personality"), result);
            w.push(")");
        }
        "clone" | "clone3" => {
            decimal(result, w.out);
            w.id(result as i32, IdKind::Thread);
        }
        // `ARCH_REQ_XCOMP_PERM` and `ARCH_REQ_XCOMP_GUEST_PERM` (arch/x86/include/uapi/asm/prctl.h): what was there before.
        "arch_prctl" if matches!(first, 0x1023 | 0x1025) && result != 0 => {
            state_components(w, result);
        }
        // It is a version that was asked for, no descriptor.
        "landlock_create_ruleset" if call.arguments[2] & 1 != 0 => decimal(result, w.out),
        // It returns 32 bits (arch/x86/kernel/ldt.c).
        "modify_ldt" if (result as i32) < 0 => {
            decimal(result as u32, w.out);
            let mut text = Vec::new();
            failed(-(result as i32), &mut text);
            let text = text.strip_prefix(b"-1").unwrap_or(&text);
            w.out.extend_from_slice(text);
        }
        "sched_getscheduler" => with_meaning(w, result, |w| {
            w.whole(&ty("sched_policy"), Place::Word(result));
        }),
        _ => return false,
    }
    true
}

/// The same of `fcntl`, whose commands return different things (include/uapi/linux/fcntl.h, asm-generic/fcntl.h).
fn of_fcntl(w: &mut Writer, result: u64) -> bool {
    const GETSIG: u32 = 11;
    const GETLEASE: u32 = 1025;
    let command = w.call.arguments[1];
    if is_descriptor(w.call) {
        descriptor(w, result);
    } else if special::owns(command) {
        w.whole(&ty("pid_or_group"), Place::Word(result));
    } else if command as u32 == GETSIG && result != 0 {
        with_meaning(w, result, |w| forms::signal_number(w, result));
    } else if command as u32 == GETLEASE {
        w.hexadecimal(result);
        w.push(" (");
        layout::list("lease_types").name(w, result);
        w.push(")");
    } else {
        return special::status_flags(w, result);
    }
    true
}

/// Whether the result of a call of which arguments decide that is a new descriptor.
fn is_descriptor(call: &RawCall) -> bool {
    Opened::of(call.name, call.arguments) == Some(Opened::Result)
}

/// The number of a descriptor, and what it is called. A number that is none, because it was injected, is told whole and has no name.
fn descriptor(w: &mut Writer, result: u64) {
    decimal(result.cast_signed(), w.out);
    if let Ok(number) = i32::try_from(result) {
        w.name_of(number);
    }
}

/// The same of `ioctl`: some of its commands return what means something.
fn of_ioctl(w: &mut Writer, result: u64) -> bool {
    // `VIDIOC_CREATE_BUFS` (include/uapi/linux/videodev2.h)
    const CREATE_BUFFERS: u32 = 0xc100_565c;
    // `NS_GET_NSTYPE` (include/uapi/linux/nsfs.h)
    const NAMESPACE_TYPE: u32 = 0xb703;
    let [_, command, argument, ..] = *w.call.arguments;
    match command as u32 {
        CREATE_BUFFERS => {
            decimal(result, w.out);
            let before = w.out.len();
            w.push(" (");
            let of = layout::ty("v4l2_create_buffers(index,count)");
            if layout::value(w, &of, argument, None).is_err() {
                w.out.truncate(before);
            } else {
                w.push(")");
            }
        }
        NAMESPACE_TYPE => with_meaning(w, result, |w| {
            layout::list("setns_types").name(w, result);
        }),
        _ if is_descriptor(w.call) => descriptor(w, result),
        _ => return false,
    }
    true
}

/// Of `recvmmsg`: how many messages came, and what the kernel has left of the time that could be waited.
fn received(w: &mut Writer, result: u64) {
    let timeout = w.call.arguments[4];
    decimal(result, w.out);
    if timeout != 0 && !w.style.addresses {
        w.push(" (left ");
        w.whole(&ty("timespec"), Place::Memory(timeout));
        w.push(")");
    }
}

/// A set of state components of XSAVE, with their names if any of them has one.
fn state_components(w: &mut Writer, result: u64) {
    w.hexadecimal(result);
    let names = layout::list("xfeature_masks").names();
    let known = names
        .iter()
        .any(|(_, bits)| result & *bits as u64 == *bits as u64);
    if w.style.constants != Constants::Numbers && known {
        w.push(" (");
        words::bits(result, names, w.out);
        w.push(")");
    }
}

/// By the row `result` of the call in `conf/`, in a comment behind the number.
fn named_by_row(w: &mut Writer, of: &layout::Ty, result: u64) {
    decimal(result.cast_signed(), w.out);
    if w.style.constants != Constants::Numbers {
        w.push(" (");
        let before = w.out.len();
        if layout::passed(w, of, result).is_err() {
            w.out.truncate(before);
        }
        w.push(")");
    }
}

/// By the type that the prototype of the call gives its result.
fn as_prototype_says(w: &mut Writer, result: u64) {
    let returns = &w.call.prototype.returns;
    match (returns.alias(), &returns.kind) {
        (Some("fd"), _) => descriptor(w, result),
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

/// Appends a number and, in parentheses behind it, what it means: `0 (SCHED_OTHER)`.
fn with_meaning(w: &mut Writer, result: u64, meaning: impl FnOnce(&mut Writer)) {
    decimal(result, w.out);
    w.push(" (");
    meaning(w);
    w.push(")");
}

/// `-1 ENOENT (No such file or directory)`
fn failed(error: i32, out: &mut Vec<u8>) {
    static TEXTS: [OnceLock<String>; ERRORS] = [const { OnceLock::new() }; ERRORS];
    match usize::try_from(error).ok().and_then(|at| TEXTS.get(at)) {
        Some(text) => out.extend_from_slice(text.get_or_init(|| text_of(error)).as_bytes()),
        None => out.extend_from_slice(text_of(error).as_bytes()),
    }
}

/// One more than the highest number of an error (include/uapi/asm-generic/errno.h).
const ERRORS: usize = 134;

fn text_of(error: i32) -> String {
    if let Some((_, name, text)) = AGAIN.iter().find(|(number, ..)| *number == error) {
        return format!("? {name} ({text})");
    }
    // The C library's words, as strace has them.
    let text = std::io::Error::from_raw_os_error(error).to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    match Errno::from_raw(error) {
        Errno::UnknownErrno => format!("-1 (errno {error})"),
        known => format!("-1 {known:?} ({text})"),
    }
}
