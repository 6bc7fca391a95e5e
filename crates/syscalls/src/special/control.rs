//! `fcntl`, `ioctl`: a number says what the next argument is.

use crate::members::Members;
use crate::types::ty;
use crate::words;
use crate::writer::{Place, Writer, Written};
use prototypes::Lens;
use prototypes::digits::{decimal, hex};

// Commands of fcntl (include/uapi/asm-generic/fcntl.h, include/uapi/linux/fcntl.h).
const GET_FD: u64 = 1;
const SET_FD: u64 = 2;
const GET_FLAGS: u64 = 3;
const SET_FLAGS: u64 = 4;
const GET_LOCK: u64 = 5;
const SET_LOCK_WAIT: u64 = 7;
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

/// Whether a command of `fcntl` makes a descriptor: `F_DUPFD`, `F_DUPFD_CLOEXEC`.
pub fn duplicates(command: u64) -> bool {
    matches!(command & 0xffff_ffff, 0 | 1030)
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

/// What the argument of an `ioctl` is.
#[derive(Clone, Copy, PartialEq)]
enum Data {
    /// A number, read or written.
    Int,
    /// Rows and columns of a terminal.
    Window,
    /// Settings of a terminal.
    Terminal,
    /// The number itself is passed.
    Value,
    /// Nothing is passed.
    Nothing,
    /// Only its address is shown.
    Address,
}

/// Commands (include/uapi/asm-generic/ioctls.h, include/uapi/linux/sockios.h, fs.h).
const IOCTLS: [(u64, &str, Data); 34] = [
    (0x5401, "TCGETS", Data::Terminal),
    (0x5402, "TCSETS", Data::Terminal),
    (0x5403, "TCSETSW", Data::Terminal),
    (0x5404, "TCSETSF", Data::Terminal),
    (0x5409, "TCSBRK", Data::Value),
    (0x540b, "TCFLSH", Data::Value),
    (0x540e, "TIOCSCTTY", Data::Value),
    (0x540f, "TIOCGPGRP", Data::Int),
    (0x5410, "TIOCSPGRP", Data::Int),
    (0x5411, "TIOCOUTQ", Data::Int),
    (0x5413, "TIOCGWINSZ", Data::Window),
    (0x5414, "TIOCSWINSZ", Data::Window),
    (0x541b, "FIONREAD", Data::Int),
    (0x5421, "FIONBIO", Data::Int),
    (0x5422, "TIOCNOTTY", Data::Nothing),
    (0x5429, "TIOCGSID", Data::Int),
    (0x5450, "FIONCLEX", Data::Nothing),
    (0x5451, "FIOCLEX", Data::Nothing),
    (0x5452, "FIOASYNC", Data::Int),
    (0x8904, "SIOCGPGRP", Data::Int),
    (0x8905, "SIOCATMARK", Data::Int),
    (0x8912, "SIOCGIFCONF", Data::Address),
    (0x8913, "SIOCGIFFLAGS", Data::Address),
    (0x8915, "SIOCGIFADDR", Data::Address),
    (0x891b, "SIOCGIFNETMASK", Data::Address),
    (0x8927, "SIOCGIFHWADDR", Data::Address),
    (0x8933, "SIOCGIFINDEX", Data::Address),
    (0x8946, "SIOCETHTOOL", Data::Address),
    (0x8004_5430, "TIOCGPTN", Data::Int),
    (0x4004_5431, "TIOCSPTLCK", Data::Int),
    (0x8008_6601, "FS_IOC_GETFLAGS", Data::Int),
    (0x4008_6602, "FS_IOC_SETFLAGS", Data::Int),
    (0x4004_9409, "FICLONE", Data::Value),
    (0x8008_1272, "BLKGETSIZE64", Data::Address),
];

fn ioctl_of(command: u64) -> Option<(&'static str, Data)> {
    let command = command & 0xffff_ffff;
    let found = IOCTLS.iter().find(|(number, ..)| *number == command);
    found.map(|(_, name, data)| (*name, *data))
}

/// `TCGETS`, or `_IOC(_IOC_READ, 0x66, 0x1, 0x8)` of one without a name (include/uapi/asm-generic/ioctl.h).
pub fn ioctl_command(w: &mut Writer, command: u64) -> Written {
    let command = command & 0xffff_ffff;
    if let Some((name, _)) = ioctl_of(command) {
        w.known(command, name);
        return Ok(());
    }
    const DIRECTIONS: [&str; 4] = [
        "_IOC_NONE",
        "_IOC_WRITE",
        "_IOC_READ",
        "_IOC_READ|_IOC_WRITE",
    ];
    let direction = DIRECTIONS[(command >> 30 & 3) as usize];
    let parts = [command >> 8 & 0xff, command & 0xff, command >> 16 & 0x3fff];
    let [kind, number, size] = parts.map(words::plain);
    w.known(
        command,
        &format!("_IOC({direction}, {kind}, {number}, {size})"),
    );
    Ok(())
}

pub fn ioctl_arguments(command: u64) -> Option<usize> {
    let takes_none = ioctl_of(command).is_some_and(|(_, data)| data == Data::Nothing);
    takes_none.then_some(2)
}

pub fn ioctl(w: &mut Writer, word: u64) -> Written {
    // Of a command without a name it is not known what its argument is.
    let data = ioctl_of(w.call.arguments[1]).map_or(Data::Nothing, |(_, data)| data);
    let writes = w.call.arguments[1] >> 31 & 1 != 0 || data == Data::Window;
    match data {
        Data::Nothing => w.hexadecimal(word),
        Data::Value => decimal(word.cast_signed(), w.out),
        _ if w.call.error().is_some() && (writes || data == Data::Terminal) => w.address(word),
        Data::Address => w.address(word),
        Data::Int => {
            let number = w.u32_at(word)? as i32;
            w.push("[");
            decimal(number, w.out);
            w.push("]");
        }
        Data::Window => {
            let mut numbers = [0_u16; 4];
            for (index, number) in numbers.iter_mut().enumerate() {
                *number = w.number(word + 2 * index as u64).map(u16::from_le_bytes)?;
            }
            let [rows, columns, width, height] = numbers;
            w.push(&format!(
                "{{ws_row={rows}, ws_col={columns}, ws_xpixel={width}, ws_ypixel={height}}}"
            ));
        }
        Data::Terminal => return terminal(w, word),
    }
    Ok(())
}

/// `{c_iflag=…, c_oflag=…, c_cflag=…, c_lflag=…, ...}` (`struct termios` in include/uapi/asm-generic/termbits.h).
fn terminal(w: &mut Writer, at: u64) -> Written {
    w.push("{");
    for (index, name) in ["c_iflag", "c_oflag", "c_cflag", "c_lflag"]
        .iter()
        .enumerate()
    {
        let flags = w.u32_at(at + 4 * index as u64)?;
        w.push(name);
        w.push("=");
        w.hexadecimal(flags.into());
        w.push(", ");
    }
    w.push("...}");
    Ok(())
}

/// The name of a number among those of a type, or the number in hexadecimal.
pub fn named(w: &mut Writer, list: &str, word: u64) {
    let of = ty(list);
    match &of.lens {
        Some(Lens::Enum(names)) => words::name(word, of.size(), names, w.style.constants, w.out),
        _ => hex(word, w.out),
    }
}
