//! `fcntl`: a number says what the next argument is. Used by `result`, `special`, `prctl` and others.

use crate::members::Members;
use crate::types::ty;
use crate::words;
use crate::writer::{Place, Writer, Written};
use prototypes::digits::{decimal, hex};
use prototypes::types::Lens;

// Commands of fcntl (include/uapi/asm-generic/fcntl.h, include/uapi/linux/fcntl.h).
const GET_FD: u64 = 1;
const SET_FD: u64 = 2;
const GET_FLAGS: u64 = 3;
const SET_FLAGS: u64 = 4;
const GET_LOCK: u64 = 5;
const SET_LOCK_WAIT: u64 = 7;
const SET_OWNER: u64 = 8;
const GET_OWNER: u64 = 9;
const SET_SIGNAL: u64 = 10;
const GET_SIGNAL: u64 = 11;
const GET_OPEN_LOCK: u64 = 36;
const SET_OPEN_LOCK_WAIT: u64 = 38;
const GET_LEASE: u64 = 1025;
const GET_PIPE_SIZE: u64 = 1032;
const ADD_SEALS: u64 = 1033;
const GET_SEALS: u64 = 1034;

pub fn fcntl_arguments(command: u64) -> Option<usize> {
    let takes_none = matches!(
        command & 0xffff_ffff,
        GET_FD | GET_FLAGS | GET_OWNER | GET_SIGNAL | GET_LEASE | GET_PIPE_SIZE | GET_SEALS
    );
    takes_none.then_some(2)
}

pub fn fcntl(w: &mut Writer, word: u64) -> Written {
    match w.call.arguments[1] & 0xffff_ffff {
        SET_FD => w.plain(&ty("fd_flags"), Place::Word(word)),
        SET_FLAGS => w.value(&ty("open_flags"), Place::Word(word)),
        ADD_SEALS => w.plain(&ty("seal_flags"), Place::Word(word)),
        SET_SIGNAL => w.value(&ty("signum"), Place::Word(word)),
        SET_OWNER => w.value(&ty("pid_or_group"), Place::Word(word)),
        GET_LOCK..=SET_LOCK_WAIT | GET_OPEN_LOCK..=SET_OPEN_LOCK_WAIT => lock(w, word),
        _ => {
            decimal(word.cast_signed(), w.out);
            Ok(())
        }
    }
}

/// `{l_type=F_WRLCK, l_whence=SEEK_SET, l_start=0, l_len=0}`; who holds it is written by the commands that ask for it.
fn lock(w: &mut Writer, at: u64) -> Written {
    let asks = matches!(w.call.arguments[1] & 0xffff_ffff, GET_LOCK | GET_OPEN_LOCK);
    let of = ty("flock");
    let mut members = Members::begin(w, &of, Place::Memory(at))?;
    members.member_as("l_type", "lock_type")?;
    members.member_as("l_whence", "lock_whence")?;
    members.members(&["l_start", "l_len"])?;
    if asks {
        members.members(&["l_pid"])?;
    }
    members.end()
}

/// Whether the result of a command of `fcntl` is a process or, negative, a group.
pub fn owns(command: u64) -> bool {
    command & 0xffff_ffff == GET_OWNER
}

/// What stands behind the result of `fcntl` where that is a word of flags: `0x8002 (flags O_RDWR|O_LARGEFILE)`.
pub fn status_flags(w: &mut Writer, result: u64) -> bool {
    let command = w.call.arguments[1] & 0xffff_ffff;
    let form = match command {
        GET_FD => "fd_flags",
        GET_FLAGS => "open_flags",
        GET_SEALS => "seal_flags",
        _ => return false,
    };
    w.hexadecimal(result);
    if result == 0 && command != GET_FLAGS {
        return true;
    }
    w.push(if command == GET_SEALS {
        " (seals "
    } else {
        " (flags "
    });
    let _ = w.value(&ty(form), Place::Word(result));
    w.push(")");
    true
}

/// The name of a number among those of a type, or the number in hexadecimal.
pub fn named(w: &mut Writer, list: &str, word: u64) {
    let of = ty(list);
    match &of.lens {
        Some(Lens::Enum(names)) => words::name(word, of.size(), names, w.style.constants, w.out),
        _ => hex(word, w.out),
    }
}
