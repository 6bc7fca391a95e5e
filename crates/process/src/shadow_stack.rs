//! Determines which threads have a shadow stack (CET; Linux 6.6 and later, `Documentation/arch/x86/shstk.rst`). Used by
//! `guest`, and by the crates `hooks`, `inject` and `patch`.
//!
//! Each thread has its own. The C library turns it on in a program's first instructions, if the program requests it, and
//! a new thread has one if the thread that made it has; but any thread may turn it on for itself, by
//! `arch_prctl(ARCH_SHSTK_ENABLE)`. So each thread that will run our code is checked when it is about to; and of a
//! program that lancet starts it is checked whether it will request one.

use crate::proc_file;
use crate::status_file::StatusFile;
use std::sync::OnceLock;

/// Whether the kernel and the processors of this machine have shadow stacks for programs. If not, nothing else is read.
fn on_this_machine() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| proc_file::text("/proc/cpuinfo").is_ok_and(|text| in_cpuinfo(&text)))
}

/// Whether a thread has a shadow stack now; true also where that cannot be read.
pub fn of_thread(pid: i32, tid: i32) -> bool {
    on_this_machine()
        && match StatusFile::of_thread(pid, tid) {
            Ok(status) => in_status(&status),
            Err(error) => !proc_file::is_gone(&error),
        }
}

/// Whether one of these threads has a shadow stack now; see [`of_thread`].
pub fn of_any(pid: i32, tids: &[i32]) -> bool {
    on_this_machine() && tids.iter().any(|tid| of_thread(pid, *tid))
}

/// Whether the C library will turn it on in a program that stands at its exec; true also where its variables cannot be read.
pub fn will_come(pid: i32) -> bool {
    on_this_machine()
        && match proc_file::bytes(proc_file::path(pid, "environ")) {
            Ok(environment) => is_asked_for(&environment),
            Err(error) => !proc_file::is_gone(&error),
        }
}

/// `user_shstk` among the flags of a processor.
fn in_cpuinfo(text: &str) -> bool {
    let flags = text.lines().find(|line| line.starts_with("flags"));
    flags.is_some_and(|flags| {
        flags
            .split_ascii_whitespace()
            .any(|flag| flag == "user_shstk")
    })
}

/// `shstk` among the features of a thread, in its `status` file (`arch_proc_pid_thread_features`,
/// arch/x86/kernel/cpu/proc.c). `x86_Thread_features_locked` says what it can no longer change.
pub(crate) fn in_status(status: &StatusFile) -> bool {
    let features = status.field("x86_Thread_features");
    features.is_some_and(|features| {
        features
            .split_ascii_whitespace()
            .any(|feature| feature == "shstk")
    })
}

/// `GLIBC_TUNABLES=glibc.cpu.x86_shstk=on`, or `permissive`, in the variables of a program. glibc (2.39 and later) turns
/// nothing on without it.
fn is_asked_for(environment: &[u8]) -> bool {
    let variables = environment.split(|byte| *byte == 0);
    let tunables = variables
        .filter_map(|variable| variable.strip_prefix(b"GLIBC_TUNABLES="))
        .flat_map(|tunables| tunables.split(|byte| *byte == b':'));
    let mut values = tunables.filter_map(|tunable| tunable.strip_prefix(b"glibc.cpu.x86_shstk="));
    values.next_back().is_some_and(|value| value != b"off")
}

#[cfg(test)]
mod tests {
    use super::{StatusFile, in_cpuinfo, in_status, is_asked_for};

    #[test]
    fn a_machine_has_it_or_has_it_not() {
        assert!(in_cpuinfo(
            "processor\t: 0\nflags\t\t: fpu vme user_shstk avx512\nbugs\t\t:\n"
        ));
        assert!(!in_cpuinfo(
            "processor\t: 0\nflags\t\t: fpu vme shstk ibt\nbugs\t\t: user_shstk\n"
        ));
        assert!(!in_cpuinfo(""));
    }

    #[test]
    fn a_thread_has_it_or_has_it_not() {
        let status = |features: &str| {
            StatusFile::from_text(format!(
                "Name:\tcat\nx86_Thread_features:\t{features}\nx86_Thread_features_locked:\tshstk wrss \n"
            ))
        };
        assert!(in_status(&status("shstk ")));
        assert!(in_status(&status("wrss shstk ")));
        assert!(!in_status(&status("")));
        let without = [
            "Name:\tcat\nx86_Thread_features_locked:\tshstk \n",
            "Name:\tshstk\n",
        ];
        assert!(
            without
                .iter()
                .all(|text| !in_status(&StatusFile::from_text(*text)))
        );
    }

    #[test]
    fn a_program_asks_by_a_tunable() {
        assert!(is_asked_for(
            b"A=b\0GLIBC_TUNABLES=glibc.cpu.x86_shstk=on\0C=d\0"
        ));
        assert!(is_asked_for(
            b"GLIBC_TUNABLES=glibc.malloc.check=1:glibc.cpu.x86_shstk=permissive\0"
        ));
        assert!(!is_asked_for(
            b"GLIBC_TUNABLES=glibc.cpu.x86_shstk=on:glibc.cpu.x86_shstk=off\0"
        ));
        assert!(!is_asked_for(b"X=GLIBC_TUNABLES=glibc.cpu.x86_shstk=on\0"));
        assert!(!is_asked_for(b""));
    }
}
