//! Databases of SQLite that are locked against a process whose thread does not wait for the lock in the kernel, but sleeps a little and tries
//! again. The kernel knows of no wait then, only who has locked the file: that the thread wants this file is not known, and not said.
//! Used by `frames::live::open`.
//!
//! The locks are read once for all threads of a process, and its descriptors only if some database is locked. What the kernel writes of a
//! lock and of a descriptor (`fdinfo`, with the mount) is compared; nothing is opened, and no other process is looked into.

use std::collections::HashSet;

use super::budget::Budget;
use super::locks::{Database, File, Locks};
use super::others::{Others, Role, field, info, inode_of};
use super::{TOLD, Wait};
use crate::mounts::Mounts;
use crate::proc_file;
use crate::stop::thread_is_gone;

/// Limit of the descriptors of a process that are looked at.
const MOST: usize = 4096;

/// Adds to waits of threads of process `pid` the databases that it has open and other processes have locked. For threads that do not wait for
/// a lock in the kernel, but sleep and try again.
pub fn note<'w>(pid: i32, waits: impl Iterator<Item = &'w mut Wait>) {
    let mut waits = waits.peekable();
    if waits.peek().is_none() {
        return;
    }
    let (found, more) = find(pid, &Locks::read(), Budget::begin());
    for wait in waits {
        wait.others.extend(found.iter().cloned());
        wait.more += more;
    }
}

/// Returns the locked databases, up to a limit, and how many more there are.
fn find(pid: i32, locks: &Locks, budget: Budget) -> (Vec<Others>, usize) {
    let (mut found, mut more) = (Vec::new(), 0);
    let locked = locks.databases(pid);
    let Ok(descriptors) = proc_file::descriptors(pid) else {
        return (found, more);
    };
    if locked.is_empty() {
        return (found, more);
    }
    let mut whole = locks.whole;
    let mounts = Mounts::of(pid);
    let mut seen = HashSet::new();
    for (number, descriptor) in descriptors.enumerate() {
        if number == MOST || budget.is_spent() {
            whole = false;
            break;
        }
        let path = descriptor
            .target()
            .and_then(|path| path.into_os_string().into_string().ok());
        let Some(path) = path.filter(|path| path.starts_with('/')) else {
            continue;
        };
        let info = info(pid, descriptor.number).unwrap_or_default();
        let Some((file, database)) = inode_of(&info)
            .zip(field(&info, "mnt_id:").and_then(|mount| mounts.get(mount)))
            .map(|(inode, mount)| File {
                device: mount.device,
                inode,
            })
            .and_then(|file| Some((file, locked.get(&file)?)))
        else {
            continue;
        };
        // Any other file may have a lock on these bytes, which are its first ones.
        if database.is_index && !path.ends_with("-shm") || !seen.insert(file) {
            continue;
        }
        let Some(others) = others(pid, path, database) else {
            whole = false;
            continue;
        };
        match found.len() < TOLD {
            true => found.push(others),
            false => more += 1,
        }
    }
    for others in &mut found {
        others.whole &= whole;
    }
    (found, more)
}

/// Returns what is told of a database; `None` if those that had locked it have ended.
fn others(pid: i32, path: String, database: &Database) -> Option<Others> {
    let mut others = Others::new(None, Role::LockedMeanwhile);
    others.path = Some(path);
    for owner in &database.owners {
        match thread_is_gone(*owner, *owner) {
            true => others.whole = false,
            false => others.add(*owner, pid),
        }
    }
    (!others.known.is_empty()).then_some(others)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;
    use std::fs;
    use std::os::fd::AsRawFd;

    /// Of the files that this test has open, some are told and the rest is counted; by device and inode, and only if all was seen is that
    /// said.
    #[test]
    fn what_is_locked_is_told_up_to_a_limit() {
        let pid = std::process::id() as i32;
        let folder = std::env::temp_dir().join(format!("lancet-retried-{pid}"));
        fs::create_dir_all(&folder).expect("a folder");
        let paths: Vec<_> = (0..TOLD + 2)
            .map(|number| folder.join(format!("{number}.db")))
            .collect();
        let create = |path| fs::File::create(path).expect("a file");
        let files: Vec<fs::File> = paths.iter().map(create).collect();
        let mounts = Mounts::of(pid);
        let (mut locks, mut elsewhere) = (String::new(), String::new());
        for (number, file) in files.iter().enumerate() {
            let info = info(pid, file.as_raw_fd() as u32).expect("it is open");
            let inode = inode_of(&info).expect("Linux 5.14");
            let mount = field(&info, "mnt_id:").and_then(|mount| mounts.get(mount));
            let (major, minor) = mount.expect("a mount").device;
            let line = |to: &mut String, minor: u32| {
                let file = format!("{major:02x}:{minor:02x}:{inode}");
                writeln!(
                    to,
                    "{number}: POSIX  ADVISORY  WRITE 1 {file} 1073741825 1073741825"
                )
                .expect("text");
            };
            line(&mut locks, minor);
            line(&mut elsewhere, minor + 1);
        }
        let find = |locks: &Locks| find(pid, locks, Budget::begin());
        let (found, more) = find(&Locks::parse(&locks));
        assert_eq!((found.len(), more), (TOLD, 2));
        for one in &found {
            let path = one.path.as_ref().expect("a path");
            assert!(paths.contains(&path.into()), "{one:?}");
            assert_eq!((one.known[0].pid, one.whole), (1, true));
        }
        let mut cut = Locks::parse(&locks);
        cut.whole = false;
        assert!(find(&cut).0.iter().all(|one| !one.whole));
        assert_eq!(find(&Locks::parse(&elsewhere)), (Vec::new(), 0));
        let ended = locks.replace(" WRITE 1 ", " WRITE 2147483647 ");
        assert_eq!(find(&Locks::parse(&ended)), (Vec::new(), 0));
        fs::remove_dir_all(folder).expect("it is ours");
    }
}
