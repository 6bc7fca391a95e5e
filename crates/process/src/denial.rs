//! Finds out why the kernel does not let us trace a process. Used by `guest`.
//!
//! EPERM and EACCES do not say what refused. The kernel checks in this order (`seccomp` at the system call's entry, then
//! `__ptrace_may_access` and `ptrace_attach`, kernel/ptrace.c), and each check that can be examined is examined here: a filter of our own,
//! the owner of the process, its capabilities and whether it may be dumped, Yama, the capabilities of root and user namespaces, and at last
//! the security modules with a policy.

use crate::error::{Denial, Module, Tried};
use crate::proc_file;
use crate::status_file::StatusFile;
use std::fs;
use std::os::unix::fs::MetadataExt;

const SYS_PTRACE: u64 = 1 << 19;

/// Returns why we may not trace process `pid`, whose real user is `owner`; `tried` is what the kernel has refused.
pub(crate) fn reason_for(pid: i32, owner: u32, tried: Tried) -> Denial {
    // SAFETY: getuid has no preconditions and cannot fail.
    let us = unsafe { libc::getuid() };
    let own = StatusFile::own().unwrap_or_default();
    if filter_forbids(&own) {
        return Denial::OwnFilter;
    }
    let capable = own
        .bits("CapEff")
        .is_none_or(|effective| effective & SYS_PTRACE != 0);
    if us != 0 && us != owner && !capable {
        return Denial::OtherUser { owner, us };
    }
    let scope = proc_file::text("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    match (scope.trim(), us == 0 || capable) {
        ("1", false) => Denial::PtraceScope(1),
        ("2", false) => Denial::PtraceScope(2),
        ("3", _) => Denial::PtraceScope(3),
        (_, true) if !capable => Denial::NoCapability,
        (_, true) => reason_although_capable(pid, tried),
        (_, false) => reason_for_its_user(pid, &own, tried),
    }
}

/// What stands in the way of somebody with CAP_SYS_PTRACE: the user namespace of the process, then the security modules.
fn reason_although_capable(pid: i32, tried: Tried) -> Denial {
    // Reading this link of a process needs the right that we lack; then the owner of its files is used instead, which says less.
    let own = fs::read_link("/proc/self/ns/user");
    match (own, fs::read_link(proc_file::path(pid, "ns/user"))) {
        (Ok(own), Ok(its)) if own == its => Denial::SecurityModule(module(pid), tried),
        (Ok(_), Err(_)) if in_first_namespace() => Denial::SecurityModule(module(pid), tried),
        _ => Denial::OtherNamespace,
    }
}

/// What stands in the way of the user that the process belongs to, where Yama does not.
fn reason_for_its_user(pid: i32, own: &StatusFile, tried: Tried) -> Denial {
    let its = StatusFile::of(pid).unwrap_or_default();
    if its.bits("CapPrm").unwrap_or(0) & !own.bits("CapEff").unwrap_or(0) != 0 {
        return Denial::MoreCapabilities;
    }
    // The files of a process that may not be dumped belong to root (proc(5)).
    let owner = fs::metadata(proc_file::path(pid, "environ")).map(|file| file.uid());
    match module(pid) {
        Module::Unknown => Denial::NotDumpable,
        _ if owner.is_ok_and(|owner| owner == 0) => Denial::NotDumpable,
        module => Denial::SecurityModule(module, tried),
    }
}

/// Whether a seccomp filter of our own refuses ptrace. Without one the kernel finds no process 0 and says so (ESRCH).
fn filter_forbids(own: &StatusFile) -> bool {
    if own.number("Seccomp") != Some(2) {
        return false;
    }
    // SAFETY: there is no process 0, so nothing is read.
    let answer = unsafe { libc::ptrace(libc::PTRACE_PEEKUSER, 0, 0, 0) };
    answer == -1 && std::io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
}

/// Returns which security module with a policy is enabled and applies to us or to the process.
fn module(pid: i32) -> Module {
    let enforced = proc_file::text("/sys/fs/selinux/enforce").unwrap_or_default();
    if enforced.trim() == "1" {
        return Module::SeLinux;
    }
    let profile = |of: &str| {
        let own = proc_file::text(format!("/proc/{of}/attr/apparmor/current"));
        own.or_else(|_| proc_file::text(format!("/proc/{of}/attr/current")))
            .unwrap_or_default()
    };
    let is_on = proc_file::text("/sys/module/apparmor/parameters/enabled").unwrap_or_default();
    let confines = ["self", &pid.to_string()].map(|of| is_confined(&profile(of)));
    match (is_on.trim(), confines) {
        ("Y", [true, _]) => Module::AppArmorOfOurs,
        ("Y", [_, true]) => Module::AppArmorOfIts,
        _ => Module::Unknown,
    }
}

/// Whether an AppArmor profile (`docker-default (enforce)`) is enforced; `unconfined` and a complaining one are not.
fn is_confined(profile: &str) -> bool {
    profile
        .trim_end_matches(['\0', '\n'])
        .ends_with("(enforce)")
}

/// Returns whether we live in the first user namespace, which maps every id to itself (user_namespaces(7)).
fn in_first_namespace() -> bool {
    let map = proc_file::text("/proc/self/uid_map").unwrap_or_default();
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_that_are_enforced_confine() {
        assert!(is_confined("docker-default (enforce)\n"));
        assert!(!is_confined("docker-default (complain)\n"));
        assert!(!is_confined("unconfined\n"));
        assert!(!is_confined(""));
    }

    /// Runs in a child of ours, whose exit code tells: a filter stays for ever.
    fn under_filter(forbidden: u32, answer: u32) -> bool {
        let statement = |code: u32, k: u32| libc::sock_filter {
            code: code as u16,
            jt: 0,
            jf: 0,
            k,
        };
        let program = [
            statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
            libc::sock_filter {
                jf: 1,
                ..statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, forbidden)
            },
            statement(libc::BPF_RET | libc::BPF_K, answer),
            statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
        ];
        let filter = libc::sock_fprog {
            len: program.len() as u16,
            filter: program.as_ptr().cast_mut(),
        };
        let own = StatusFile::from_text("Seccomp:\t2\n");
        // SAFETY: the child makes system calls and ends; the filter lives until then.
        unsafe {
            match libc::fork() {
                0 => {
                    libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
                    let set = libc::prctl(
                        libc::PR_SET_SECCOMP,
                        libc::SECCOMP_MODE_FILTER,
                        &raw const filter,
                    );
                    libc::_exit(if set != 0 {
                        3
                    } else {
                        i32::from(filter_forbids(&own))
                    })
                }
                child => {
                    let mut status = 0;
                    libc::waitpid(child, &raw mut status, 0);
                    let code = libc::WEXITSTATUS(status);
                    assert!(code < 2, "no filter could be set");
                    code == 1
                }
            }
        }
    }

    #[test]
    fn a_filter_of_ours_is_told_from_other_filters() {
        let refused = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
        assert!(under_filter(libc::SYS_ptrace as u32, refused));
        assert!(!under_filter(libc::SYS_swapon as u32, refused));
        assert!(!filter_forbids(&StatusFile::default()));
    }
}
