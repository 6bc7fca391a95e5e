//! What `ptrace` reads and writes: registers, calls, places in `struct user` (include/uapi/linux/ptrace.h, arch/x86/include/asm/user_64.h).

use crate::layout::{Ty, fields, list, tables, ty};
use crate::writer::{Overlay, Place, Unknown, Writer, Written};
use prototypes::digits::decimal;

/// A place in `struct user`: `8*RIP`, `offsetof(struct user, u_debugreg) + 8`.
pub fn user_offset(w: &mut Writer, word: u64, _: Option<usize>) -> Written {
    let names = list("user_offsets").names();
    let below = names.iter().rfind(|(_, from)| *from as u64 <= word);
    let last = names.last().map_or(0, |(_, from)| *from as u64);
    match below {
        Some((name, from)) if word == *from as u64 => known_address(w, word, name),
        Some((name, from)) if (*from as u64) < last => {
            known_address(w, word, &format!("{name} + {}", word - *from as u64));
        }
        _ => w.address(word),
    }
    Ok(())
}

fn known_address(w: &mut Writer, word: u64, name: &str) {
    let mut number = b"NULL".to_vec();
    if word != 0 {
        number.clear();
        prototypes::digits::hex(word, &mut number);
    }
    let number = String::from_utf8_lossy(&number);
    crate::words::known(&number, name, w.style.constants, w.out);
}

/// Appends a struct of which the first bytes are there.
fn beginning(w: &mut Writer, of: &Ty, bytes: Vec<u8>) -> Written {
    let size = of.layout(tables()).0 as usize;
    let there = bytes.len() as u64;
    let mut whole = bytes;
    whole.resize(whole.len().max(size), 0);
    let outer = w.overlay.replace(Overlay {
        before: whole.clone(),
        now: whole,
        there,
    });
    let written = fields(w, of, Overlay::AT);
    w.overlay = outer;
    written
}

/// What is known of a call of the one that is traced: as much as there is room for.
pub fn call(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    /// The end of `seccomp.ret_data`, the last member of `struct ptrace_syscall_info` that is known, in bytes.
    const MOST: u64 = 84;
    let room = w.call.arguments[2];
    let length = room.min(w.call.count()).min(MOST);
    let bytes = w.bytes(at, length as usize);
    if length == 0 || (bytes.len() as u64) < length {
        return Err(Unknown);
    }
    w.push("{");
    beginning(w, &ty("ptrace_syscall_info"), bytes)?;
    w.push("}");
    Ok(())
}

/// The number of that call, by the architecture that stands before it.
pub fn number(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    /// The architecture of calls of 64 bits: `AUDIT_ARCH_X86_64` (include/uapi/linux/audit.h).
    const OURS: u32 = 0xc000_003e;
    let number = w.u64_at(at)?;
    let ours = w.u32_at(Overlay::AT + 4)? == OURS;
    let mut calls = prototypes::bundle::system_calls().filter(|_| ours);
    match calls.find(|(of, _)| u64::from(*of) == number) {
        Some((_, name)) => {
            crate::words::known(number, &format!("__NR_{name}"), w.style.constants, w.out)
        }
        None => decimal(number, w.out),
    }
    Ok(())
}

/// The result of that call: the number of an error, if it is one.
pub fn result(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let number = w.u64_at(at)?.cast_signed();
    let there = w.overlay.as_ref().map_or(0, |of| of.there);
    let [failed] = w.number(at.wrapping_add(8))?;
    let name = i32::try_from(number.wrapping_neg()).map(crate::errors::name);
    match name {
        Ok(name) if there > 32 && failed != 0 && number < 0 && name.starts_with('E') => {
            w.known_decimal(number, &format!("-{name}"));
        }
        _ => decimal(number, w.out),
    }
    Ok(())
}

/// Registers that are read or, with `set`, written: `struct iovec` says where they are and how many bytes of them.
pub fn registers(w: &mut Writer, at: u64, set: bool) -> Written {
    let before = w.before(|w| w.u64_at(at.wrapping_add(8)))?;
    let after = w.u64_at(at.wrapping_add(8)).unwrap_or(before);
    let base = match set {
        true => w.before(|w| w.u64_at(at))?,
        false => w.u64_at(at)?,
    };
    w.push("{iov_base=");
    let length = if set { before } else { after };
    let begins = w.out.len();
    let written = match set {
        true => w.before_mut(|w| of_note(w, base, length)),
        false if w.call.error().is_some() => Err(Unknown),
        false => of_note(w, base, length),
    };
    if written.is_err() {
        w.out.truncate(begins);
        w.address(base);
    }
    w.push(&format!(", iov_len={before}"));
    if after != before {
        w.push(&format!(" => {after}"));
    }
    w.push("}");
    Ok(())
}

/// Registers of a kind (`NT_PRSTATUS`, `NT_FPREGSET` in include/uapi/linux/elf.h); others are told by their address.
fn of_note(w: &mut Writer, at: u64, length: u64) -> Written {
    let of = match w.call.arguments[2] as u32 {
        1 => ty("user_regs_struct"),
        2 => ty("user_fpregs_struct"),
        _ => return Err(Unknown),
    };
    let size = u64::from(of.layout(tables()).0);
    let shown = length.min(size);
    let bytes = w.bytes(at, shown as usize);
    if length == 0 || !length.is_multiple_of(8) || (bytes.len() as u64) < shown {
        return Err(Unknown);
    }
    w.push("{");
    beginning(w, &of, bytes)?;
    w.push(if length > size { ", ...}" } else { "}" });
    Ok(())
}

/// A set of signals whose size in bytes is the argument before it.
pub fn signals(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    const SIZE: u64 = 8;
    match w.call.arguments[2] {
        SIZE => w.value(&crate::types::ty("sigset"), Place::Memory(at)),
        _ => Err(Unknown),
    }
}

/// Which filter is asked about, and its flags (`struct seccomp_metadata`).
pub fn metadata(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    const OFFSET: u64 = 8;
    const WHOLE: u64 = 16;
    let number = w.before(|w| w.u64_at(at))?;
    if w.call.arguments[2] < OFFSET {
        return Err(Unknown);
    }
    w.push(&format!("{{filter_off={number}"));
    let written = w.call.count();
    if w.call.error().is_none() && written > OFFSET {
        w.push(", ");
        match w.u64_at(at.wrapping_add(OFFSET)) {
            Ok(flags) if written >= WHOLE => {
                w.push("flags=");
                list("seccomp_filter_flags").flags(w, flags);
                w.push(if written > WHOLE { ", ..." } else { "" });
            }
            _ => w.push("???"),
        }
    }
    w.push("}");
    Ok(())
}
