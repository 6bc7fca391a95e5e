//! Calls of which one argument decides what another means, or whether it is shown. A file a family. Used by `arguments`
//! and `result`.

mod clone;
mod control;
mod memory;
mod options;
mod polling;
mod prctl;
mod sockets;

pub use clone::entered;
pub use control::{owns, status_flags};
pub use polling::{polled, selected};
pub use prctl::result as prctl_result;

use crate::call::{IdKind, Part, RawCall};
use crate::forms::files;
use crate::writer::{Place, Unknown, Writer, Written};
use prototypes::digits::decimal;

/// Writes one argument, the word that was passed.
pub type Argument = fn(&mut Writer, u64) -> Written;

// include/uapi/asm-generic/fcntl.h
const CREATE: u64 = 0o100;
const TEMPORARY: u64 = 0o20_000_000;

/// The command of `reboot` that takes a text (`LINUX_REBOOT_CMD_RESTART2` in include/uapi/linux/reboot.h).
const RESTART_WITH: u32 = 0xa1b2_c3d4;

/// Returns how many arguments mean something; `None` = all that the prototype has.
pub fn shown(call: &RawCall) -> Option<usize> {
    let arguments = call.arguments;
    let creates = |flags: u64| flags & (CREATE | TEMPORARY) != 0;
    match call.name {
        "mq_open" if !creates(arguments[1]) => Some(2),
        "reboot" if arguments[2] as u32 != RESTART_WITH => Some(3),
        "open" if !creates(arguments[1]) => Some(2),
        "openat" if !creates(arguments[2]) => Some(3),
        "fcntl" => control::fcntl_arguments(arguments[1]),
        "prctl" => prctl::arguments(arguments),
        "mremap" => memory::remap_arguments(arguments[3]),
        "ioctl" => crate::ioctl::arguments(arguments[1]),
        "mknod" if !files::is_device(arguments[1]) => Some(2),
        "mknodat" if !files::is_device(arguments[2]) => Some(3),
        _ => None,
    }
}

/// Returns what writes an argument whose type is not that of the prototype.
pub fn argument(call: &RawCall, index: usize) -> Option<Argument> {
    Some(match (call.name, index) {
        ("fcntl", 2) => control::fcntl,
        ("ioctl", 1) => crate::ioctl::command,
        ("ioctl", 2) => crate::ioctl::argument,
        ("prctl", 1) => |w, word| prctl::argument(w, 1, word),
        ("prctl", 2) => |w, word| prctl::argument(w, 2, word),
        ("prctl", 3) => |w, word| prctl::argument(w, 3, word),
        ("prctl", 4) => |w, word| prctl::argument(w, 4, word),
        // More than the kernel takes (include/uapi/linux/limits.h, `NGROUPS_MAX`; utsname.h, `__NEW_UTS_LEN`; `XATTR_SIZE_MAX`).
        ("setgroups", 1) if call.arguments[0] as i32 > 65536 => |_, _| Err(Unknown),
        ("sethostname" | "setdomainname", 0) if call.arguments[1] as u32 > 64 => {
            |_, _| Err(Unknown)
        }
        ("setxattr" | "lsetxattr" | "fsetxattr", 2) if call.arguments[3] > 65536 => {
            |_, _| Err(Unknown)
        }
        // Nobody was found, so nothing of it was written.
        ("wait4", 3) if call.returned.is_some() && call.count() == 0 => |_, _| Err(Unknown),
        ("setxattr" | "lsetxattr" | "fsetxattr", 2) => |w, word| {
            let length = w.call.arguments[3];
            files::attribute_value(w, word, length)
        },
        ("getxattr" | "lgetxattr" | "fgetxattr", 2) => |w, word| {
            let length = w.call.count();
            match w.call.error() {
                None if length > 0 => files::attribute_value(w, word, length),
                _ => Err(Unknown),
            }
        },
        ("listxattr" | "llistxattr" | "flistxattr", 1) if call.arguments[2] == 0 => {
            |_, _| Err(Unknown)
        }
        ("recvmmsg", 4) => |w, word| {
            w.before_mut(|w| w.whole(&crate::types::ty("timespec_argument"), Place::Word(word)));
            Ok(())
        },
        ("getrandom", 0) => memory::random,
        ("mknod", 1) | ("mknodat", 2) => |w, word| {
            files::mode(w, word & 0xffff);
            Ok(())
        },
        // PRIO_PROCESS, PRIO_PGRP (include/uapi/linux/resource.h), IOPRIO_WHO_PROCESS, IOPRIO_WHO_PGRP (ioprio.h).
        ("getpriority" | "setpriority", 1) => |w, word| who(w, word, 0),
        ("ioprio_get" | "ioprio_set", 1) => |w, word| who(w, word, 1),
        ("nanosleep", 1) | ("clock_nanosleep", 3) => memory::remaining,
        ("execve", 2) | ("execveat", 3) => crate::forms::environment,
        ("socket" | "socketpair", 2) => sockets::protocol,
        ("setsockopt" | "getsockopt", 2) => options::name,
        ("setsockopt", 3) => options::set,
        ("getsockopt", 3) => options::get,
        ("getsockopt", 4) => options::length,
        ("accept" | "accept4" | "getsockname" | "getpeername", 1) => sockets::filled_address,
        ("recvfrom", 4) => sockets::filled_address,
        ("recvfrom", 1) => sockets::received,
        ("sendto", 1) if call.netlink_of_first().is_some() => sockets::sent,
        // Nothing is read of what is to be removed (fs/eventpoll.c, `ep_op_has_event`).
        ("epoll_ctl", 3) if call.arguments[1] as u32 == 2 => |w, word| {
            w.address(word);
            Ok(())
        },
        ("mmap", 3) | ("remap_file_pages", 4) => memory::map_flags,
        ("memfd_create", 1) => memory::file_flags,
        ("readv" | "preadv" | "preadv2" | "process_vm_readv", 1) => sockets::pieces_read,
        ("writev" | "pwritev" | "pwritev2" | "process_vm_writev", 1) => sockets::pieces_written,
        ("sendfile", 2) | ("splice", 1 | 3) => memory::offset,
        ("select" | "pselect6", 1..=3) => polling::set,
        _ => return None,
    })
}

/// Whom a call is about that says so by its first argument: `of_process` means a process, the next number a group, others no id.
fn who(w: &mut Writer, word: u64, of_process: u32) -> Written {
    let number = word as i32;
    decimal(number, w.out);
    match (w.call.arguments[0] as u32).wrapping_sub(of_process) {
        0 => w.process(number),
        1 => w.id(number, IdKind::Group),
        _ => {}
    }
    Ok(())
}

/// Writes all arguments of a call.
pub type Whole = fn(&mut Writer);

/// Returns what writes the arguments of a call in an order of its own, and when they are known.
pub fn whole(name: &str) -> Option<(Part, Whole)> {
    match name {
        "futex" => Some((Part::Entry, memory::futex)),
        "clone" => Some((Part::Exit, memory::clone)),
        "clone3" => Some((Part::Exit, memory::clone3)),
        _ => None,
    }
}
