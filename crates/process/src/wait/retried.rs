//! Files that are locked against a process whose thread does not wait for the lock in the kernel, but sleeps a little and tries again: the
//! busy wait of a library. The kernel knows of no wait then, only who has locked the file.

use std::ffi::OsStr;

use super::Wait;
use super::locks::Locks;
use super::others::{Others, Role, info, inode_of};
use crate::proc_file;

/// Limit of the descriptors of a process that are looked at.
const MOST: usize = 4096;

/// Adds to a wait the files of process `pid` that other processes have locked against it. For a thread that does not wait for a lock in the
/// kernel, but sleeps and tries again.
pub fn note(pid: i32, wait: &mut Wait) {
    let locks = Locks::read();
    let Ok(descriptors) = proc_file::descriptors(pid) else {
        return;
    };
    for descriptor in descriptors.take(MOST) {
        let path = descriptor.target().map(std::path::PathBuf::into_os_string);
        let Some(path) = path.and_then(|path| path.into_string().ok()) else {
            continue;
        };
        if !path.starts_with('/') || wait.on.contains(&path) {
            continue;
        }
        let inode = info(pid, descriptor.number).and_then(|info| inode_of(&info));
        let owners = inode.map_or_else(Vec::new, |inode| locks.against(pid, inode));
        let mut others = Others::new(Some(wait.on.len()), Role::Lock);
        for owner in owners {
            // Of a file in another file system that has the same inode.
            if is_open_in(owner, OsStr::new(&path)) {
                others.add(owner, pid);
            }
        }
        if !others.known.is_empty() {
            wait.on.push(path);
            wait.others.push(others);
        }
    }
}

/// Whether a process has a descriptor of this file. True if its descriptors may not be read.
fn is_open_in(pid: i32, link: &OsStr) -> bool {
    let Ok(descriptors) = proc_file::descriptors(pid) else {
        return true;
    };
    let mut links = descriptors.take(MOST).filter_map(|one| one.target());
    links.any(|to| to.as_os_str() == link)
}
