//! Signals, sets of them, what is done with them. Used by `forms`, `process`, `siginfo` and others.

use crate::call::Constants;
use crate::members::Members;
use crate::types::ty;
use crate::words;
use crate::writer::{Place, Unknown, Writer, Written};
use prototypes::digits::decimal;
use prototypes::types::{Lens, Type};

/// The first of the signals for real time in the kernel (include/uapi/asm-generic/signal.h).
const REAL_TIME: u64 = 32;
/// How many signals there are.
const SIGNALS: u64 = 64;

/// `SIGINT`, `SIGRTMIN`, `SIGRT_1`, or the number.
pub fn signal_word(number: u64) -> String {
    match number {
        REAL_TIME => return "SIGRTMIN".into(),
        33..=SIGNALS => return format!("SIGRT_{}", number - REAL_TIME),
        _ => {}
    }
    let of = ty("signum");
    let name = match &of.lens {
        Some(Lens::Enum(names)) => words::find(number, 4, names).map(str::to_owned),
        _ => None,
    };
    name.unwrap_or_else(|| (number as i32).to_string())
}

pub fn signal(w: &mut Writer, ty: &Type, at: Place) -> Written {
    let number = w.word(ty, at)?;
    signal_number(w, number);
    Ok(())
}

/// The name of a signal, as the style has it.
pub fn signal_number(w: &mut Writer, number: u64) {
    let name = signal_word(number);
    match name.starts_with("SIG") {
        true => w.known_decimal(number as i32 as i64, &name),
        false => w.push(&name),
    }
}

/// `[HUP INT]`, or `~[KILL STOP]` when most are in it.
pub fn signal_set(w: &mut Writer, set: u64) {
    let inverted = u64::from(set.count_ones()) >= SIGNALS * 2 / 3;
    if inverted {
        w.push("~");
    }
    let shown = if inverted { !set } else { set };
    w.push("[");
    let mut first = true;
    for number in (1..=SIGNALS).filter(|number| shown >> (number - 1) & 1 != 0) {
        if !first {
            w.push(" ");
        }
        first = false;
        let word = signal_word(number);
        match word.strip_prefix("SIG") {
            Some(name) => w.known_decimal(number.cast_signed(), name),
            None => w.push(&word),
        }
    }
    w.push("]");
}

pub fn set(w: &mut Writer, ty: &Type, at: Place) -> Written {
    let Place::Memory(here) = at else {
        let set = w.word(ty, at)?;
        signal_set(w, set);
        return Ok(());
    };
    // Of another size it is none; where the kernel tells the signals that wait, it writes what is asked for.
    let size = size_of_set(w);
    if size > SET_BYTES || size < SET_BYTES && w.call.name != "rt_sigpending" || size == 0 {
        return Err(Unknown);
    }
    let bytes = w.bytes(here, size as usize);
    if (bytes.len() as u64) < size {
        return Err(Unknown);
    }
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(&bytes);
    signal_set(w, u64::from_le_bytes(word));
    Ok(())
}

/// `sizeof(sigset_t)` of the kernel (arch/x86/include/asm/signal.h).
const SET_BYTES: u64 = 8;

/// How large a set is that a call is handed: one of its arguments says so.
fn size_of_set(w: &Writer) -> u64 {
    let index = match w.call.name {
        "rt_sigpending" | "rt_sigsuspend" => 1,
        "signalfd" | "signalfd4" => 2,
        "rt_sigprocmask" | "rt_sigtimedwait" => 3,
        "ppoll" => 4,
        "epoll_pwait" | "epoll_pwait2" | "io_uring_enter" => 5,
        _ => return SET_BYTES,
    };
    w.call.arguments[index]
}

/// `{sa_handler=SIG_DFL, sa_mask=[], sa_flags=SA_RESTORER, sa_restorer=0x7f…}`, in the kernel's layout
/// (`struct sigaction` in arch/x86/include/uapi/asm/signal.h).
pub fn action(w: &mut Writer, of: &Type, at: Place) -> Written {
    const HAS_RESTORER: u64 = 0x0400_0000;
    let mut members = Members::begin(w, of, at)?;
    let flags = members.word("sa_flags")?;
    let handler = members.word("sa_handler")?;
    members.label("sa_handler");
    match handler {
        0 => members.w.push("SIG_DFL"),
        1 => members.w.push("SIG_IGN"),
        address => members.w.address(address),
    }
    members.members(&["sa_mask"])?;
    let (at, _) = members.find("sa_flags")?;
    members.label("sa_flags");
    members.w.value(&ty("sigaction_flags"), Place::Memory(at))?;
    if flags & HAS_RESTORER != 0 {
        members.members(&["sa_restorer"])?;
    }
    members.end()
}

/// Ticks of the clock, with the seconds that they are: `7 /* 0.07 s */`.
pub fn clock_ticks(w: &mut Writer, ticks: u64) {
    /// Ticks of the clock in a second: `USER_HZ` (include/asm-generic/param.h).
    const A_SECOND: u64 = 100;
    decimal(ticks, w.out);
    if ticks != 0 && w.style.constants != Constants::Numbers {
        let (seconds, rest) = (ticks / A_SECOND, ticks % A_SECOND);
        w.push(&format!(" /* {seconds}.{rest:02} s */"));
    }
}

/// The sixth argument of `pselect6`: a set behind a pointer, and its size.
pub fn set_argument(w: &mut Writer, _: &Type, at: Place) -> Written {
    let Place::Memory(at) = at else {
        return Err(Unknown);
    };
    let [set, size] = [w.u64_at(at)?, w.u64_at(at + 8)?];
    w.push("{sigmask=");
    match set {
        0 => w.push("NULL"),
        address => match w.u64_at(address) {
            Ok(set) => signal_set(w, set),
            Err(Unknown) => w.address(address),
        },
    }
    w.push(", sigsetsize=");
    decimal(size, w.out);
    w.push("}");
    Ok(())
}

/// A stack for signal handlers: `{ss_sp=0x7f…, ss_flags=0, ss_size=65536}`.
pub fn stack(w: &mut Writer, of: &Type, at: Place) -> Written {
    let mut members = Members::begin(w, of, at)?;
    members.members(&["ss_sp"])?;
    members.member_as("ss_flags", "sigaltstack_flags")?;
    members.members(&["ss_size"])?;
    members.end()
}
