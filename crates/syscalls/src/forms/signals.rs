//! Signals, sets of them, what is done with them.

use crate::call::Constants;
use crate::errors;
use crate::members::Members;
use crate::types::ty;
use crate::words;
use crate::writer::{Place, Unknown, Writer, Written};
use prototypes::digits::decimal;
use prototypes::{Lens, Type};

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
        let name = signal_word(number);
        w.push(name.strip_prefix("SIG").unwrap_or(&name));
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

/// Codes of a signal that some process sent, or that the kernel sent for any reason (include/uapi/asm-generic/siginfo.h).
const SENT: [(i32, &str); 9] = [
    (0, "SI_USER"),
    (0x80, "SI_KERNEL"),
    (-1, "SI_QUEUE"),
    (TIMER, "SI_TIMER"),
    (-3, "SI_MESGQ"),
    (-4, "SI_ASYNCIO"),
    (-5, "SI_SIGIO"),
    (THREAD, "SI_TKILL"),
    (-60, "SI_ASYNCNL"),
];
const TIMER: i32 = -2;
const THREAD: i32 = -6;
const KERNEL: i32 = 0x80;

const ILL: u64 = 4;
const TRAP: u64 = 5;
const BUS: u64 = 7;
const FPE: u64 = 8;
const SEGV: u64 = 11;
const CHLD: u64 = 17;
const IO: u64 = 29;
const SYS: u64 = 31;

/// Why the kernel sent a signal: the names of its codes from 1 on.
fn reasons(number: u64) -> &'static [&'static str] {
    match number {
        ILL => &[
            "ILL_ILLOPC",
            "ILL_ILLOPN",
            "ILL_ILLADR",
            "ILL_ILLTRP",
            "ILL_PRVOPC",
            "ILL_PRVREG",
            "ILL_COPROC",
            "ILL_BADSTK",
        ],
        TRAP => &[
            "TRAP_BRKPT",
            "TRAP_TRACE",
            "TRAP_BRANCH",
            "TRAP_HWBKPT",
            "TRAP_UNK",
            "TRAP_PERF",
        ],
        BUS => &[
            "BUS_ADRALN",
            "BUS_ADRERR",
            "BUS_OBJERR",
            "BUS_MCEERR_AR",
            "BUS_MCEERR_AO",
        ],
        FPE => &[
            "FPE_INTDIV",
            "FPE_INTOVF",
            "FPE_FLTDIV",
            "FPE_FLTOVF",
            "FPE_FLTUND",
            "FPE_FLTRES",
            "FPE_FLTINV",
            "FPE_FLTSUB",
        ],
        SEGV => &["SEGV_MAPERR", "SEGV_ACCERR", "SEGV_BNDERR", "SEGV_PKUERR"],
        CHLD => &[
            "CLD_EXITED",
            "CLD_KILLED",
            "CLD_DUMPED",
            "CLD_TRAPPED",
            "CLD_STOPPED",
            "CLD_CONTINUED",
        ],
        IO => &[
            "POLL_IN", "POLL_OUT", "POLL_MSG", "POLL_ERR", "POLL_PRI", "POLL_HUP",
        ],
        SYS => &["SYS_SECCOMP"],
        _ => &[],
    }
}

/// What is said of a signal that was waited for (include/uapi/asm-generic/siginfo.h).
pub fn info(w: &mut Writer, of: &Type, at: Place) -> Written {
    let mut members = Members::begin(w, of, at)?;
    let number = members.word("si_signo")?;
    if number == 0 {
        return members.end();
    }
    members.label("si_signo");
    signal_number(members.w, number);
    let code = members.word("si_code")? as i32;
    members.label("si_code");
    let reason = usize::try_from(code)
        .ok()
        .and_then(|code| code.checked_sub(1));
    let reason = reason.and_then(|index| reasons(number).get(index));
    match (reason, SENT.iter().find(|(known, _)| *known == code)) {
        (Some(name), _) => members.w.push(name),
        (None, Some((_, name))) => members.w.push(name),
        (None, None) => members.w.hexadecimal(u64::from(code as u32)),
    }
    let error = members.word("si_errno")? as i32;
    if error != 0 {
        members.label("si_errno");
        let name = errors::name(error);
        match name.starts_with('E') {
            true => members.w.push(&name),
            false => decimal(error as u32, members.w.out),
        }
    }
    let (fields, _) = members.find("si_fields")?;
    // Padding to eight bytes comes before the fields.
    let fields = fields + 4;
    if code <= 0 {
        sent(&mut members, code, fields)?;
    } else {
        caused(&mut members, number, code, fields)?;
    }
    members.end()
}

/// Who sent it: the members of a signal that a process sent.
fn sent(members: &mut Members, code: i32, fields: u64) -> Written {
    let value = fields + 8;
    if code == TIMER {
        for (name, at) in [("si_timerid", fields), ("si_overrun", fields + 4)] {
            let word = members.w.u32_at(at)?;
            members.label(name);
            match name {
                "si_timerid" => members.w.hexadecimal(word.into()),
                _ => decimal(word as i32, members.w.out),
            }
        }
        return carried(members, value);
    }
    sender(members, fields)?;
    match code {
        0 | THREAD => Ok(()),
        _ if members.w.u64_at(value)? == 0 => Ok(()),
        _ => carried(members, value),
    }
}

fn sender(members: &mut Members, fields: u64) -> Written {
    let [pid, uid] = [members.w.u32_at(fields)?, members.w.u32_at(fields + 4)?];
    members.label("si_pid");
    decimal(pid as i32, members.w.out);
    members.w.process(pid as i32);
    members.label("si_uid");
    // That of nobody is told as -1.
    match uid {
        u32::MAX => members.w.push("-1"),
        uid => decimal(uid, members.w.out),
    }
    Ok(())
}

/// What a signal carries.
fn carried(members: &mut Members, at: u64) -> Written {
    let value = members.w.u64_at(at)?;
    members.label("si_int");
    decimal(value as u32 as i32, members.w.out);
    members.label("si_ptr");
    members.w.address(value);
    Ok(())
}

/// What caused it: the members of a signal of the kernel's.
fn caused(members: &mut Members, number: u64, code: i32, fields: u64) -> Written {
    match number {
        CHLD => {
            sender(members, fields)?;
            let status = members.w.u32_at(fields + 8)?;
            members.label("si_status");
            match code {
                1 => decimal(status as i32, members.w.out),
                _ => signal_number(members.w, status.into()),
            }
            for (name, at) in [("si_utime", fields + 16), ("si_stime", fields + 24)] {
                let ticks = members.w.u64_at(at)?;
                members.label(name);
                clock_ticks(members.w, ticks);
            }
        }
        ILL | BUS | FPE | SEGV => {
            let address = members.w.u64_at(fields)?;
            members.label("si_addr");
            members.w.address(address);
        }
        IO if code != KERNEL => {
            let [band, fd] = [members.w.u64_at(fields)?, members.w.u64_at(fields + 8)?];
            members.label("si_band");
            decimal(band, members.w.out);
            members.label("si_fd");
            decimal(fd as u32 as i32, members.w.out);
        }
        SYS => {
            let address = members.w.u64_at(fields)?;
            let call = members.w.u32_at(fields + 8)?;
            members.label("si_call_addr");
            members.w.address(address);
            members.label("si_syscall");
            let name = prototypes::system_calls().find(|(of, _)| u64::from(*of) == u64::from(call));
            match name {
                Some((_, name)) => members.w.push(&format!("__NR_{name}")),
                None => decimal(call, members.w.out),
            }
            members.label("si_arch");
            members.w.push("AUDIT_ARCH_X86_64");
        }
        _ => {
            let [pid, uid] = [members.w.u32_at(fields)?, members.w.u32_at(fields + 4)?];
            if pid != 0 || uid != 0 {
                sender(members, fields)?;
            }
            if members.w.u64_at(fields + 8)? != 0 {
                carried(members, fields + 8)?;
            }
        }
    }
    Ok(())
}

/// Ticks of the clock, with the seconds that they are: `7 /* 0.07 s */`.
pub fn clock_ticks(w: &mut Writer, ticks: u64) {
    /// `USER_HZ` (include/asm-generic/param.h)
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

/// `{ss_sp=0x7f…, ss_flags=0, ss_size=65536}`
pub fn stack(w: &mut Writer, of: &Type, at: Place) -> Written {
    let mut members = Members::begin(w, of, at)?;
    members.members(&["ss_sp"])?;
    members.member_as("ss_flags", "sigaltstack_flags")?;
    members.members(&["ss_size"])?;
    members.end()
}
