//! The file system as another process sees it. Used by `machine`.
//!
//! A container's `/etc` is not the machine's. `/proc/PID/root` is the root of the process in its own mount namespace
//! (proc_pid_root(5)): opened once, everything below it is resolved inside it, as below `--root`.

use std::fs;
use std::os::unix::fs::MetadataExt;

use crate::first_thread::folder;
use crate::net::borrowed::TRACE;
use crate::tree::{Cannot, Tree};

/// Returns the tree of a process; `None` if it is the one that lancet sees.
pub fn of(pid: i32) -> Result<Option<Tree>, Cannot> {
    let folder = folder(&Tree::live(), pid);
    let root = format!("{folder}/root");
    let failed = |error| Cannot::from_io(&root, &error).needing(TRACE);
    // A link that cannot be read belongs to another user's process: what that sees is not known then.
    let namespace = |of: &str| fs::read_link(format!("{of}/ns/mnt")).map_err(failed);
    let place = |path: &str| {
        let metadata = fs::metadata(path).map_err(failed)?;
        Ok((metadata.dev(), metadata.ino()))
    };
    let same_mounts = namespace(&folder)? == namespace("/proc/self")?;
    if same_mounts && place(&format!("{root}/."))? == place("/")? {
        return Ok(None);
    }
    Tree::below(root.as_ref()).map(Some)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use super::*;

    #[test]
    fn our_own_files_are_no_others() {
        assert!(of(std::process::id() as i32).unwrap().is_none());
        assert!(of(i32::MAX - 1).unwrap_err().is_missing());
    }

    #[test]
    fn a_process_with_other_mounts_has_files_of_its_own() {
        let mut command = Command::new("sleep");
        command.arg("60");
        // SAFETY: between fork and exec, system calls only.
        unsafe {
            command.pre_exec(|| match libc::unshare(libc::CLONE_NEWNS) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            });
        }
        let Ok(mut child) = command.spawn() else {
            println!(
                "SKIPPED a_process_with_other_mounts_has_files_of_its_own: needs root for a mount namespace"
            );
            return;
        };
        let tree = of(child.id() as i32);
        child.kill().unwrap();
        child.wait().unwrap();
        let tree = tree.unwrap().expect("another mount namespace");
        assert!(!tree.is_live());
    }
}
