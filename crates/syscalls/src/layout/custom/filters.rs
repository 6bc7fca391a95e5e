//! Programs of classic BPF (`struct sock_fprog` in include/uapi/linux/filter.h): what sockets and seccomp run. Used by
//! `custom`.

use crate::call::Constants;
use crate::layout::{list, listed};
use crate::words;
use crate::writer::{Writer, Written};

/// Instructions of the longest program (`BPF_MAXINSNS` in include/uapi/linux/bpf_common.h).
const LONGEST: u64 = 4096;

// Classes of instructions (include/uapi/linux/bpf_common.h).
const LOAD: u16 = 0;
const LOAD_X: u16 = 1;
const STORE: u16 = 2;
const STORE_X: u16 = 3;
const ARITHMETIC: u16 = 4;
const JUMP: u16 = 5;
const RETURN: u16 = 6;

/// Who runs a program decides what its constants mean.
#[derive(Clone, Copy, PartialEq)]
enum Runs {
    Socket,
    Seccomp,
}

/// The program of a socket.
pub fn of_socket(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    program(w, at, Runs::Socket)
}

/// The program of seccomp.
pub fn of_seccomp(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    program(w, at, Runs::Seccomp)
}

/// `{len=2, filter=0x7f…}`; with `-v` its instructions.
fn program(w: &mut Writer, at: u64, runs: Runs) -> Written {
    let (length, filter) = (w.number(at).map(u16::from_le_bytes)?, w.u64_at(at + 8)?);
    w.push(&format!("{{len={length}, filter="));
    let before = w.out.len();
    let whole = w.style.verbose && filter != 0;
    if !whole || instructions(w, filter, length.into(), runs).is_err() {
        w.out.truncate(before);
        w.address(filter);
    }
    w.push("}");
    Ok(())
}

/// One instruction of a socket's program.
pub fn instruction(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    one(w, at, Runs::Socket)
}

fn instructions(w: &mut Writer, at: u64, count: u64, runs: Runs) -> Written {
    listed(w, at, 8, count, LONGEST, |w, here, _| one(w, here, runs))
}

fn one(w: &mut Writer, at: u64, runs: Runs) -> Written {
    let code = w.number(at).map(u16::from_le_bytes)?;
    let [yes, no]: [u8; 2] = w.number(at + 2)?;
    let constant = w.u32_at(at + 4)?;
    if yes != 0 || no != 0 {
        w.push("BPF_JUMP(");
        operation(w, code);
        w.push(", ");
        w.hexadecimal(constant.into());
        w.push(", ");
        w.hexadecimal(yes.into());
        w.push(", ");
        w.hexadecimal(no.into());
    } else {
        w.push("BPF_STMT(");
        operation(w, code);
        w.push(", ");
        self::constant(w, code, constant, runs);
    }
    w.push(")");
    Ok(())
}

fn constant(w: &mut Writer, code: u16, constant: u32, runs: Runs) {
    const ACTION: u32 = 0xffff_0000;
    const ABSOLUTE: u16 = 0x20;
    let (class, mode) = (code & 7, code & 0xe0);
    match runs {
        Runs::Seccomp if class == RETURN => {
            list("seccomp_actions").name(w, (constant & ACTION).into());
            if constant & !ACTION != 0 {
                w.push("|");
                w.hexadecimal((constant & !ACTION).into());
            }
        }
        Runs::Socket if class == LOAD && mode == ABSOLUTE => ancillary(w, constant),
        _ => w.hexadecimal(constant.into()),
    }
}

/// What lies at a negative offset (include/uapi/linux/filter.h, `SKF_AD_OFF`).
fn ancillary(w: &mut Writer, offset: u32) {
    const ANCILLARY: u32 = 0xffff_f000;
    const NETWORK: u32 = 0xfff0_0000;
    const LINK: u32 = 0xffe0_0000;
    match offset {
        ANCILLARY.. => {
            w.known(ANCILLARY.into(), "SKF_AD_OFF");
            w.push("+");
            list("bpf_ancillary").name(w, (offset - ANCILLARY).into());
        }
        NETWORK.. => {
            w.known(NETWORK.into(), "SKF_NET_OFF");
            w.push(&format!("+{}", offset - NETWORK));
        }
        LINK.. => {
            w.known(LINK.into(), "SKF_LL_OFF");
            w.push(&format!("+{}", offset - LINK));
        }
        _ => w.hexadecimal(offset.into()),
    }
}

/// The code of an instruction by its parts: `BPF_LD|BPF_W|BPF_ABS`.
fn operation(w: &mut Writer, code: u16) {
    let class = code & 7;
    let part = |w: &mut Writer, name: &str, bits: u16| list(name).name(w, bits.into());
    part(w, "bpf_classes", class);
    let mut rest = code & !7;
    match class {
        LOAD | LOAD_X => {
            w.push("|");
            part(w, "bpf_sizes", code & 0x18);
            w.push("|");
            part(w, "bpf_modes", code & 0xe0);
            return;
        }
        ARITHMETIC | JUMP => {
            w.push("|");
            part(w, "bpf_sources", code & 8);
            w.push("|");
            let of = if class == JUMP {
                "bpf_jumps"
            } else {
                "bpf_arithmetic"
            };
            return part(w, of, code & 0xf0);
        }
        RETURN => {
            w.push("|");
            part(w, "bpf_returns", code & 0x18);
            rest &= !0x18;
        }
        STORE | STORE_X => {}
        _ => {
            w.push("|");
            part(w, "bpf_misc", code & 0xf8);
            rest &= !0xf8;
        }
    }
    if rest != 0 {
        w.push("|");
        words::nameless(
            words::plain(rest.into()),
            "BPF_???",
            Constants::Names,
            w.out,
        );
    }
}
