//! The control groups of a process (cgroups(7)), of version 1, version 2, or both side by side (systemd's "hybrid").
//! Used by `rules::group` and `rules::shares`.
//!
//! A controller works in one hierarchy: in one of version 1 if `/proc/PID/cgroup` has a line with its name, else in that of version 2. A
//! limit of any group around the process counts, so the path is followed up to the root of what is mounted. In a container the groups
//! outside of it are not seen.

use crate::guest::Guest;
use crate::tree::{Cannot, Tree};

/// Where version 2 is mounted if nothing says where.
const USUAL: &str = "/sys/fs/cgroup";
/// Groups within groups that are followed.
const DEEPEST: usize = 32;

/// The versions have other files for the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Documentation/admin-guide/cgroup-v1.
    First,
    /// Documentation/admin-guide/cgroup-v2.rst.
    Second,
}

/// A group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its folder.
    pub folder: String,
    /// Its version.
    pub version: Version,
}

/// Returns the groups of a process in the hierarchy of a controller, its own first.
///
/// # Errors
/// Its groups cannot be read, or are not to be seen from here: then nothing is known of their limits.
pub fn of(tree: &Tree, guest: &Guest, controller: &str) -> Result<Vec<Group>, Cannot> {
    let file = guest.file("cgroup");
    let text = tree.read(&file)?;
    let hidden = |why: &str| Cannot::Failed {
        what: format!("the control groups of process {}", guest.pid),
        why: why.to_owned(),
    };
    let (version, path) =
        path_of(&text, controller).ok_or_else(|| hidden("it is in none that could limit it"))?;
    // A path that goes up leads out of the container whose root is seen here.
    if path.split('/').any(|name| name == "..") {
        return Err(Cannot::odd(&file, path));
    }
    let mounts = tree.read("/proc/self/mountinfo");
    let (root, top) = match &mounts {
        Ok(mounts) => mounts
            .lines()
            .find_map(|line| mounted(line, version, controller))
            .ok_or_else(|| hidden("their hierarchy is not mounted here"))?,
        // A tree of files below `--root` need not have it.
        Err(_) if version == Version::Second => ("/", USUAL),
        Err(cannot) => return Err(cannot.clone()),
    };
    let below = match root {
        "/" => path,
        root => path
            .strip_prefix(root)
            .filter(|below| below.is_empty() || below.starts_with('/'))
            .ok_or_else(|| hidden("they are outside of what is mounted here"))?,
    };
    let mut below = below.trim_end_matches('/');
    if tree.list(&format!("{top}{below}")).is_err() {
        return Err(hidden("they are outside of what is mounted here"));
    }
    let mut found = Vec::new();
    while !below.is_empty() && found.len() < DEEPEST {
        found.push(format!("{top}{below}"));
        below = below.rsplit_once('/').map_or("", |(outer, _)| outer);
    }
    // Within a container the group's own files are at the mount's root.
    found.push(top.to_owned());
    let group = |folder| Group { folder, version };
    Ok(found.into_iter().map(group).collect())
}

/// The path of a process's group: `4:memory:/a/b`, or `0::/a/b` of version 2.
fn path_of<'t>(groups: &'t str, controller: &str) -> Option<(Version, &'t str)> {
    let lines = || {
        groups.lines().filter_map(|line| {
            let mut parts = line.splitn(3, ':');
            Some((parts.next()?, parts.next()?, parts.next()?))
        })
    };
    let first =
        lines().find(|(_, controllers, _)| controllers.split(',').any(|one| one == controller));
    let second = lines().find(|(number, controllers, _)| *number == "0" && controllers.is_empty());
    let first = first.map(|(.., path)| (Version::First, path));
    first.or(second.map(|(.., path)| (Version::Second, path)))
}

/// Which group is mounted where, from a line of `mountinfo` (proc_pid_mountinfo(5)) that is of this hierarchy: number, parent, device,
/// root, mount point, options, fields up to `-`, file system, source, options of the file system.
fn mounted<'t>(line: &'t str, version: Version, controller: &str) -> Option<(&'t str, &'t str)> {
    let (mount, of) = line.split_once(" - ")?;
    let mut mount = mount.split(' ').skip(3);
    let (root, point) = (mount.next()?, mount.next()?);
    let mut of = of.split(' ');
    let (file_system, _, options) = (of.next()?, of.next()?, of.next()?);
    let is_it = match version {
        Version::First => {
            file_system == "cgroup" && options.split(',').any(|option| option == controller)
        }
        Version::Second => file_system == "cgroup2",
    };
    is_it.then_some((root, point))
}
