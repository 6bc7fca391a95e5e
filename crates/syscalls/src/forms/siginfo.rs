//! Writes what is said of a signal that came (`siginfo_t`). Used by `forms`.

use super::signals::{clock_ticks, signal_number};
use crate::errors;
use crate::members::Members;
use crate::types::ty;
use crate::writer::{Place, Writer, Written};
use prototypes::digits::decimal;
use prototypes::types::Type;

/// Codes of a signal that some process sent, or that the kernel sent for any reason (include/uapi/asm-generic/siginfo.h).
const SENT: [(i32, &str); 9] = [
    (0, "SI_USER"),
    (0x80, "SI_KERNEL"),
    (-1, "SI_QUEUE"),
    (TIMER, "SI_TIMER"),
    (-3, "SI_MESGQ"),
    (-4, "SI_ASYNCIO"),
    (POLLED, "SI_SIGIO"),
    (THREAD, "SI_TKILL"),
    (-60, "SI_ASYNCNL"),
];
const TIMER: i32 = -2;
const POLLED: i32 = -5;
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
        SEGV => &[
            "SEGV_MAPERR",
            "SEGV_ACCERR",
            "SEGV_BNDERR",
            "SEGV_PKUERR",
            "SEGV_ACCADI",
            "SEGV_ADIDERR",
            "SEGV_ADIPERR",
            "SEGV_MTEAERR",
            "SEGV_MTESERR",
        ],
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

/// What the kernel says of a signal that came or was waited for (`siginfo_t` in include/uapi/asm-generic/siginfo.h).
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
        (Some(name), _) | (None, Some((_, name))) => members.w.known(u64::from(code as u32), name),
        (None, None) => members.w.hexadecimal(u64::from(code as u32)),
    }
    let error = members.word("si_errno")? as i32;
    if error != 0 {
        members.label("si_errno");
        let name = errors::name(error);
        match name.starts_with('E') {
            true => members.w.known_decimal(error.into(), &name),
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
    if code == POLLED {
        return polled(members, fields);
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

/// Appends the value that a signal carries, as a number and as an address.
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
        TRAP if code == KERNEL => whoever(members, fields)?,
        ILL | TRAP | BUS | FPE | SEGV => address(members, number, code, fields)?,
        IO if code != KERNEL => polled(members, fields)?,
        SYS => refused(members, fields)?,
        _ => whoever(members, fields)?,
    }
    Ok(())
}

/// A sender and a value, if there are any.
fn whoever(members: &mut Members, fields: u64) -> Written {
    let [pid, uid] = [members.w.u32_at(fields)?, members.w.u32_at(fields + 4)?];
    if pid != 0 || uid != 0 {
        sender(members, fields)?;
    }
    if members.w.u64_at(fields + 8)? != 0 {
        carried(members, fields + 8)?;
    }
    Ok(())
}

/// Where a program did what it may not do.
fn address(members: &mut Members, number: u64, code: i32, fields: u64) -> Written {
    let address = members.w.u64_at(fields)?;
    members.label("si_addr");
    members.w.address(address);
    match (number, code) {
        // Memory that is broken; `si_addr_lsb`
        (BUS, 4 | 5) => {
            if let Ok(bits) = members.w.number(fields + 8).map(u16::from_le_bytes) {
                members.label("si_addr_lsb");
                members.w.hexadecimal(bits.into());
            }
        }
        // Bounds
        (SEGV, 3) => {
            for (name, at) in [("si_lower", fields + 16), ("si_upper", fields + 24)] {
                if let Ok(bound) = members.w.u64_at(at) {
                    members.label(name);
                    members.w.address(bound);
                }
            }
        }
        // Keys of memory
        (SEGV, 4) => {
            if let Ok(key) = members.w.u32_at(fields + 16) {
                members.label("si_pkey");
                decimal(key, members.w.out);
            }
        }
        _ => {}
    }
    Ok(())
}

/// A descriptor that something can be done with.
fn polled(members: &mut Members, fields: u64) -> Written {
    let [band, fd] = [members.w.u64_at(fields)?, members.w.u64_at(fields + 8)?];
    members.label("si_band");
    decimal(band.cast_signed(), members.w.out);
    members.label("si_fd");
    let of = ty("fd");
    members.w.value(&of, Place::Word(u64::from(fd as u32)))
}

/// A system call that a filter refused.
fn refused(members: &mut Members, fields: u64) -> Written {
    /// The architecture of calls of 64 bits: `AUDIT_ARCH_X86_64` (include/uapi/linux/audit.h).
    const OURS: u32 = 0xc000_003e;
    let address = members.w.u64_at(fields)?;
    let call = members.w.u32_at(fields + 8)?;
    // Of a signal that the process is sent only the beginning is known: its calls are ours.
    let arch = members.w.u32_at(fields + 12).unwrap_or(OURS);
    members.label("si_call_addr");
    members.w.address(address);
    members.label("si_syscall");
    let mut calls = prototypes::bundle::system_calls().filter(|_| arch == OURS);
    match calls.find(|(of, _)| u64::from(*of) == u64::from(call)) {
        Some((_, name)) => {
            let name = format!("__NR_{name}");
            members.w.known_decimal(call.into(), &name);
        }
        None => decimal(call, members.w.out),
    }
    members.label("si_arch");
    crate::layout::list("audit_arch").name(members.w, arch.into());
    Ok(())
}
