//! The namespaces that a process or thread has entered (namespaces(7)). Used by crate `report`.

use crate::proc_file;
use std::fs;

/// The flags of clone(2), setns(2) and unshare(2) that ask for a namespace, and its file below `/proc/PID/ns` (include/uapi/linux/sched.h);
/// `CLONE_INTO_CGROUP` leads into one too.
const KINDS: [(u64, &str); 8] = [
    (0x2_0200_0000, "cgroup"),
    (0x0800_0000, "ipc"),
    (0x0002_0000, "mnt"),
    (0x4000_0000, "net"),
    (0x2000_0000, "pid"),
    (0x0000_0080, "time"),
    (0x0400_0000, "uts"),
    (0x1000_0000, "user"),
];

/// Returns the namespaces of these kinds in which a process or thread is now: `net:[4026532177], user:[4026532176]`. `None`: of none of these
/// kinds, or it is gone.
#[must_use]
pub fn entered(id: i32, flags: u64) -> Option<String> {
    let kinds = KINDS.iter().filter(|(flag, _)| flags & flag != 0);
    let links = kinds.filter_map(|(_, kind)| {
        let link = fs::read_link(proc_file::path(id, &format!("ns/{kind}")));
        Some(link.ok()?.to_string_lossy().into_owned())
    });
    let links: Vec<String> = links.collect();
    (!links.is_empty()).then(|| links.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_number() {
        let own = std::process::id() as i32;
        let all = KINDS.iter().fold(0, |all, (flag, _)| all | flag);
        let told = entered(own, all).expect("it has namespaces");
        let begins = |part: &str| {
            KINDS
                .iter()
                .any(|(_, kind)| part.starts_with(&format!("{kind}:[")))
        };
        assert!(told.split(", ").all(begins), "{told}");
        assert!(told.contains("net:["), "{told}");
        let user = fs::read_link("/proc/self/ns/user").expect("it has one");
        assert_eq!(entered(own, 0x1000_0000), user.to_str().map(str::to_owned));
        assert_eq!(entered(own, 0x100), None);
        assert_eq!(entered(i32::MAX, all), None);
    }
}
