//! Processes that are not opened: those of another kind, those of somebody else, those that something else holds.

use std::process::Command;

use nix::sys::signal::Signal;

use crate::programs::{
    FIX, PLAIN, compiled, guest, library, patch, program, refused, request, traced_by_strace, tried,
};
use crate::support::{
    Guest, Killed, LIMIT, TempDir, as_nobody, copy_for_all, installed, is_root, program_of_32_bits,
    run, skip, until,
};

/// Refused with one line that has this in it.
fn is_closed(pid: i32, name: &str, wanted: &str) {
    let file = library(&format!("closed-{name}"), FIX, PLAIN);
    let output = tried(pid, &[&request("total", &file, "total")]);
    assert_eq!(output.code(), 1, "{name}: {output:?}");
    assert!(output.stderr.contains(wanted), "{name}: {}", output.stderr);
    assert_eq!(output.stderr.lines().count(), 1, "{}", output.stderr);
    assert_eq!(output.stdout, "", "{name}");
}

#[test]
fn processes_that_are_gone_or_no_programs_of_ours() {
    let gone = guest("gone", 0);
    let pid = gone.pid;
    gone.ends_with("answer 0");
    is_closed(pid, "gone", "there is no process");
    let folder = TempDir::new("patch-32-bits");
    match program_of_32_bits(&folder) {
        Ok(program) => is_closed(program.pid(), "32 bits", "32-bit"),
        Err(why) => skip("patch, a program of 32 bits", why),
    }
    let ended = Killed::start(&mut Command::new("true")).expect("true");
    until(LIMIT, "a zombie", || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", ended.pid())).ok()?;
        stat.contains(") Z ").then_some(())
    });
    is_closed(ended.pid(), "zombie", "has ended");
}

#[test]
fn a_guest_that_is_stopped_or_traced() {
    let mut guest = guest("stopped", 2);
    guest.signal(Signal::SIGSTOP);
    guest.settle('T');
    is_closed(guest.pid, "stopped", "is stopped (SIGSTOP");
    assert_eq!(guest.state(), Some('T'), "it stays as it was");
    guest.signal(Signal::SIGCONT);
    assert_eq!(guest.answer_to("total"), "14");
    if !installed("strace") {
        return skip("patch, a guest that is traced", "no strace");
    }
    let tracer = traced_by_strace(guest.pid);
    is_closed(guest.pid, "traced", "is already traced by process");
    drop(tracer);
    assert_eq!(guest.answer_to("total"), "14");
    guest.ends_with("answer 0");
}

/// A static program shows no function to others, and has none that nobody called.
#[test]
fn a_static_guest_has_no_imports() {
    let mut guest = Guest::ready(&mut Command::new(program("static-imports", &["-static"])));
    const SOURCE: &str = "
        int nobody_calls_this_in_it(long);
        long total(long a, long b) { return nobody_calls_this_in_it(a) + b; }
    ";
    let file = library("static-imports-file", SOURCE, PLAIN);
    let request = request("total", &file, "total");
    refused(&mut guest, &[&request], "it needs nobody_calls_this_in_it");
    guest.ends_with("answer 0");
}

/// In strict mode the kernel would kill the thread at the first call of ours.
#[test]
fn a_guest_in_strict_seccomp() {
    const SOURCE: &str = r#"
        #include <linux/seccomp.h>
        #include <sys/prctl.h>
        #include <sys/syscall.h>
        #include <unistd.h>
        __attribute__((noipa)) long total(long a, long b) { return 3 * a + b + (a == 77); }
        int main(void) {
            char byte;
            prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
            write(1, "ready\n", 6);
            while (read(0, &byte, 1) == 1)
                if (byte == '\n')
                    write(1, total(4, 2) == 14 ? "14\n" : "??\n", 3);
            write(1, "answer 0\n", 9);
            syscall(SYS_exit, 0);
        }
    "#;
    let program = compiled("cc", "strict", SOURCE, &["-rdynamic"]);
    let mut guest = Guest::ready(&mut Command::new(program));
    let file = library("strict-file", FIX, PLAIN);
    let request = request("total", &file, "total");
    refused(&mut guest, &[&request], "in strict mode");
    guest.ends_with("answer 0");
}

#[test]
fn a_guest_whose_filter_forbids_mappings() {
    const SOURCE: &str = r#"
        #include <linux/filter.h>
        #include <linux/seccomp.h>
        #include <stddef.h>
        #include <stdio.h>
        #include <sys/prctl.h>
        #include <sys/syscall.h>
        __attribute__((noipa)) long total(long a, long b) { return 3 * a + b + (a == 77); }
        int main(void) {
            char line[64];
            struct sock_filter code[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
            };
            struct sock_fprog program = {sizeof code / sizeof *code, code};
            static char out[4096], in[4096];
            setvbuf(stdout, out, _IOLBF, sizeof out);
            setvbuf(stdin, in, _IOFBF, sizeof in);
            prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
            puts("ready");
            while (fgets(line, sizeof line, stdin))
                printf("%ld\n", total(4, 2));
            puts("answer 0");
            return 0;
        }
    "#;
    let program = compiled("cc", "filter", SOURCE, &[]);
    let mut guest = Guest::ready(&mut Command::new(program));
    let file = library("filter-file", FIX, PLAIN);
    refused(
        &mut guest,
        &[&request("total", &file, "total")],
        "is under seccomp",
    );
    guest.ends_with("answer 0");
}

#[test]
fn without_permission() {
    if !is_root() {
        return skip("patch permission", "not root");
    }
    let mut guest = guest("permission", 0);
    let file = library("permission", FIX, PLAIN);
    let folder = TempDir::new("patch-permission");
    let mut theirs = Command::new(copy_for_all(&folder));
    let ours = patch(guest.pid, &[&request("total", &file, "total")]);
    theirs.args(ours.get_args());
    let output = run(&mut as_nobody(&theirs), LIMIT);
    assert_eq!(output.code(), 1, "{output:?}");
    assert!(
        output.stderr.contains("does not allow us to trace"),
        "{output:?}"
    );
    assert_eq!(guest.answer_to("total"), "14");
    guest.ends_with("answer 0");
}
