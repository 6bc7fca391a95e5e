//! The network as another process sees it. Used by `machine`, `apply` and `rules::connections`.
//!
//! `/proc/sys/net`, netlink and ethtool follow the thread into another network namespace, but `/sys`
//! goes on showing the devices of the namespace it was mounted in (fs/sysfs/mount.c). So a sysfs of our
//! own is mounted, for us alone and nowhere in the file tree: `fsopen`, `fsmount`, and the descriptor is
//! the mount (fsopen(2)). It goes away with the process.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::descriptor::owned;
use crate::first_thread::folder;
use crate::tree::{Cannot, Tree};

const FSCONFIG_CMD_CREATE: u32 = 6;

/// Returns the network namespace of this thread, as `net:[4026531833]`.
pub fn current() -> Option<String> {
    let link = fs::read_link("/proc/thread-self/ns/net").ok()?;
    Some(link.to_string_lossy().into_owned())
}

/// Returns the number of this thread's network namespace, as the kernel's log names it.
pub fn number() -> Option<u64> {
    let name = current()?;
    let number = name.strip_prefix("net:[")?.strip_suffix(']')?;
    number.parse().ok()
}

/// Returns the network namespace of another process.
pub fn of(pid: i32) -> Result<String, Cannot> {
    let path = folder(&Tree::live(), pid) + "/ns/net";
    match fs::read_link(&path) {
        Ok(link) => Ok(link.to_string_lossy().into_owned()),
        Err(error) => Err(denied(&path, &error)),
    }
}

fn denied(path: &str, error: &io::Error) -> Cannot {
    Cannot::from_io(path, error).needing("CAP_SYS_ADMIN and CAP_SYS_PTRACE")
}

/// Takes this thread into the network namespace of another process. Everything that is opened afterwards
/// speaks of that network.
pub fn enter(pid: i32) -> Result<(), Cannot> {
    let path = folder(&Tree::live(), pid) + "/ns/net";
    let failed = |error: io::Error| denied(&format!("entering {path}"), &error);
    let namespace = File::open(&path).map_err(failed)?;
    // SAFETY: no memory is handed over.
    match unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(failed(io::Error::last_os_error())),
    }
}

/// Makes `/sys` of the tree show the devices of this thread's network namespace. Does nothing where it already does.
pub fn align_sysfs(tree: &mut Tree) -> Result<(), Cannot> {
    if tree.is_live() && !shows_our_devices(tree) {
        tree.use_sysfs(sysfs()?);
    }
    Ok(())
}

/// Returns whether the mounted sysfs has exactly the devices that the kernel names to this thread, with the same
/// numbers. (A new namespace may have an `lo` of the same number; it shows no other device then.)
fn shows_our_devices(tree: &Tree) -> bool {
    let Ok(names) = tree.list("/sys/class/net") else {
        return false;
    };
    let mut shown: Vec<(String, u32)> = names
        .into_iter()
        .filter_map(|name| {
            Some((
                tree.number(&format!("/sys/class/net/{name}/ifindex"))
                    .ok()?,
                name,
            ))
        })
        .map(|(number, name)| (name, number))
        .collect();
    let mut ours = devices();
    shown.sort();
    ours.sort();
    shown == ours
}

fn devices() -> Vec<(String, u32)> {
    let mut all = Vec::new();
    // SAFETY: if_nameindex(3) hands out an array that ends in an entry with index 0, each name a C string,
    // valid until if_freenameindex; nothing is kept beyond that.
    unsafe {
        let first = libc::if_nameindex();
        let mut entry = first;
        while !entry.is_null() && (*entry).if_index != 0 {
            let name = std::ffi::CStr::from_ptr((*entry).if_name);
            all.push((name.to_string_lossy().into_owned(), (*entry).if_index));
            entry = entry.add(1);
        }
        if !first.is_null() {
            libc::if_freenameindex(first);
        }
    }
    all
}

fn sysfs() -> Result<OwnedFd, Cannot> {
    let failed = |error| {
        let what = "the /sys of this network namespace";
        Cannot::from_io(what, &error).needing("CAP_SYS_ADMIN")
    };
    let null = std::ptr::null::<u8>();
    // SAFETY: a C string and flags; the context is a descriptor made by the call (fsopen(2)).
    let context = unsafe { owned(libc::syscall(libc::SYS_fsopen, c"sysfs".as_ptr(), 1)) };
    let context = context.map_err(failed)?;
    let fd = context.as_raw_fd();
    // SAFETY: integers, and null pointers for what this command does not take (fsconfig(2)).
    if unsafe { libc::syscall(libc::SYS_fsconfig, fd, FSCONFIG_CMD_CREATE, null, null, 0) } < 0 {
        return Err(failed(io::Error::last_os_error()));
    }
    // SAFETY: integers; the mount is a descriptor made by the call (fsmount(2)).
    unsafe { owned(libc::syscall(libc::SYS_fsmount, fd, 1, 0)) }.map_err(failed)
}
