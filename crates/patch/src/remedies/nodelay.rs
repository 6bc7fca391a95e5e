//! `nodelay[=PORT]`: TCP_NODELAY on the live TCP sockets of a process, or on those with one port. Used by `remedies`.
//!
//! **What it mends.** A server that writes an answer in two pieces over a connection that is used again: Nagle's algorithm keeps the second until the client has acknowledged the
//! first, and the client's kernel delays that by 40 ms. Such an answer takes 40 ms in place of 0.1.
//!
//! **How.** Each descriptor is duplicated from outside (`pidfd_getfd(2)`) and `setsockopt` is called on the duplicate, which is of the same socket. Sockets that listen are among
//! them: what they accept has the option too (the kernel copies the listening socket: net/ipv4/inet_connection_sock.c, `inet_csk_clone_lock`). The process is not stopped but for the journal's page.
//!
//! **What it risks.** More and smaller packets, where a program writes in small pieces and nobody waits for them.
//!
//! **Undo.** The option is cleared on the sockets that are still open, and are the same (by the number of their file). A connection that was accepted meanwhile from a listening socket keeps
//! it: whether the program has set it there itself cannot be known.
//!
//! **When it refuses.** No TCP socket without the option; Linux before 5.6; no right to trace the process.
//!
//! **How it was measured.** `tests/patch/settings.rs`: Python's own `http.server` with HTTP/1.1, one connection.

use super::remedy::{Remedy, SettingsWay, Way, refused};
use crate::error::Result;
use crate::guest::Guest;
use crate::setting::{Setting, SettingsPlan};
use process::pidfd::PidFd;
use process::proc_file;
use std::fs::File;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;

const NAME: &str = "nodelay";
const NOTE: &str = "connections that a listening socket has accepted meanwhile keep it";
/// The most sockets that are set by one command: as many as one journal has room for. How many are left is said.
const MOST: usize = crate::journal::MOST_RECORDS;

pub(super) const REMEDY: Remedy = Remedy {
    name: NAME,
    arguments: "[=PORT]",
    mends: "answers in two pieces wait 40 ms for an acknowledgement (Nagle and delayed ACK): TCP_NODELAY on live sockets",
    risks: "more packets where a program writes in small pieces; connections accepted meanwhile keep it when it is undone",
    way: Way::Settings(SettingsWay {
        plan,
        read,
        write,
        // The program may set the option itself, to either value.
        back: |_, journal| journal,
    }),
};

fn plan(guest: &Guest, arguments: &str) -> Result<SettingsPlan> {
    let port: Option<u16> = match arguments {
        "" => None,
        port => Some(
            port.parse()
                .map_err(|_| refused(NAME, "write nodelay or nodelay=PORT"))?,
        ),
    };
    let reached = |error| refused(NAME, format!("its sockets cannot be reached: {error}"));
    let descriptors = proc_file::descriptors(guest.pid()).map_err(reached)?;
    let numbers = descriptors.filter_map(|one| {
        let is_socket = one.target()?.to_str()?.starts_with("socket:");
        is_socket.then_some(one.number as i32)
    });
    let process = PidFd::open(guest.pid()).map_err(reached)?;
    let mut numbers: Vec<i32> = numbers.collect();
    numbers.sort_unstable();
    let mut settings: Vec<Setting> = Vec::new();
    for number in numbers {
        let socket = match process.duplicate(number) {
            Ok(socket) => socket,
            Err(error) if error.raw_os_error() == Some(libc::EBADF) => continue,
            Err(error) => return Err(reached(error)),
        };
        let inode = socket.metadata().map_or(0, |file| file.ino());
        let known = settings.iter().any(|one| one.identity == inode);
        if known || !is_tcp(&socket) || value(&socket) != Some(0) {
            continue;
        }
        let ends = [
            address(&socket, libc::getsockname),
            address(&socket, libc::getpeername),
        ];
        if port.is_some_and(|port| !ends.iter().flatten().any(|end| end.port() == port)) {
            continue;
        }
        settings.push(Setting {
            target: number as u64,
            identity: inode,
            old: [0, 0],
            new: [1, 0],
            remedy: NAME.into(),
            what: format!("TCP_NODELAY of descriptor {number}, {}", shown(ends)),
            ..Setting::default()
        });
    }
    let left = settings.len().saturating_sub(MOST);
    settings.truncate(MOST);
    if settings.is_empty() {
        return Err(refused(
            NAME,
            "it has no such TCP socket without TCP_NODELAY",
        ));
    }
    Ok(SettingsPlan {
        settings,
        left,
        note: NOTE,
    })
}

fn shown(ends: [Option<SocketAddr>; 2]) -> String {
    match ends {
        [Some(here), Some(there)] => format!("{here} to {there}"),
        [Some(here), None] => format!("listening at {here}"),
        _ => "no address".into(),
    }
}

/// The socket of a setting, if it is still the same.
fn same(guest: &Guest, setting: &Setting) -> Option<File> {
    let number = i32::try_from(setting.target).ok()?;
    let socket = PidFd::of_descriptors(guest.pid())
        .ok()?
        .duplicate(number)
        .ok()?;
    let inode = socket.metadata().ok()?.ino();
    (inode == setting.identity && is_tcp(&socket)).then_some(socket)
}

fn read(guest: &Guest, setting: &Setting) -> Option<[u64; 2]> {
    let now = value(&same(guest, setting)?)?;
    Some([u64::from(now != 0), 0])
}

fn write(guest: &Guest, setting: &Setting, [value, _]: [u64; 2]) -> Result<()> {
    // What has been closed meanwhile needs nothing any more; `read` says that it is gone.
    let Some(socket) = same(guest, setting) else {
        return Ok(());
    };
    let value = i32::from(value != 0);
    // SAFETY: the value is alive for the call, and its size is said.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_NODELAY,
            (&raw const value).cast(),
            size_of::<i32>() as u32,
        )
    };
    if done == 0 {
        return Ok(());
    }
    Err(refused(
        NAME,
        format!("{}: {}", setting.what, std::io::Error::last_os_error()),
    ))
}

fn option(socket: &File, level: i32, name: i32) -> Option<i32> {
    let (mut value, mut length) = (0, size_of::<i32>() as u32);
    // SAFETY: both are alive for the call, and the length is that of the value.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw mut value).cast(),
            &raw mut length,
        )
    };
    (done == 0).then_some(value)
}

fn is_tcp(socket: &File) -> bool {
    let domain = option(socket, libc::SOL_SOCKET, libc::SO_DOMAIN);
    let is_internet = matches!(domain, Some(libc::AF_INET | libc::AF_INET6));
    is_internet && option(socket, libc::SOL_SOCKET, libc::SO_PROTOCOL) == Some(libc::IPPROTO_TCP)
}

fn value(socket: &File) -> Option<i32> {
    option(socket, libc::IPPROTO_TCP, libc::TCP_NODELAY)
}

type Named = unsafe extern "C" fn(i32, *mut libc::sockaddr, *mut libc::socklen_t) -> i32;

/// One end of a socket, by `getsockname` or `getpeername`.
fn address(socket: &File, ask: Named) -> Option<SocketAddr> {
    // SAFETY: all bytes zero are a valid value of this structure of numbers.
    let mut all: libc::sockaddr_in6 = unsafe { std::mem::zeroed() };
    let mut length = size_of_val(&all) as u32;
    // SAFETY: the buffer is alive for the call, and its size is said; a sockaddr_in fits into it.
    let done = unsafe { ask(socket.as_raw_fd(), (&raw mut all).cast(), &raw mut length) };
    if done != 0 {
        return None;
    }
    let port = u16::from_be(all.sin6_port);
    let ip: IpAddr = if i32::from(all.sin6_family) == libc::AF_INET {
        // struct sockaddr_in: family, port, address; the address is where the flow is in the other one.
        IpAddr::from(all.sin6_flowinfo.to_ne_bytes())
    } else {
        IpAddr::from(all.sin6_addr.s6_addr)
    };
    Some(SocketAddr::new(ip, port))
}
