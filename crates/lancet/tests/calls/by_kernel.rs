//! `lancet syscalls -c -f`: programs whose calls BPF programs count, while their tracer sees what becomes of them. What is counted is what the
//! tracer alone would count, however fast a program makes calls.

mod changes;
mod lines;

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use crate::bpf::refused;
use crate::support::{LIMIT, Output, TempDir, installed, lancet, run, skip, until};

/// So many programs that the BPF programs are loaded among them.
const PROGRAMS: &str =
    "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do /bin/true; done";

/// What is said if the kernel sees calls.
const BY_KERNEL: &str = "then by BPF programs";

fn may(test: &str) -> bool {
    match refused() {
        None => true,
        Some(reason) => {
            skip(test, reason);
            false
        }
    }
}

fn told(options: &[&str], script: &str, folder: &TempDir) -> (String, Output) {
    let out = folder.join("out");
    let mut command: Command = lancet();
    command.args(["syscalls", "-f"]).args(options).arg("-o");
    command.arg(&out).args(["--", "/bin/sh", "-c", script]);
    let output = run(command.current_dir(folder.join("")), LIMIT * 2);
    let text = std::fs::read_to_string(&out).expect("a table");
    (text, output)
}

/// How often each system call was made, of a table of `-U calls,name`.
fn counts(table: &str) -> BTreeMap<String, u64> {
    let rows = table.lines().filter_map(|line| {
        let (calls, name) = line.trim().split_once(' ')?;
        Some((name.trim().to_owned(), calls.replace(',', "").parse().ok()?))
    });
    rows.filter(|(name, _)| name != "total").collect()
}

/// Every call of the fixture that is held against strace, ends, signals, and who runs another program in its place: the same figures as by
/// ptrace alone, and the same end.
#[test]
fn figures_are_those_of_a_tracer() {
    let Some(calls) = crate::machine::program("syscalls.c").filter(|_| may("counts by BPF")) else {
        return;
    };
    let folder = TempDir::new("by-kernel");
    for (options, last, code) in [
        (&[][..], calls.display().to_string(), 0),
        (
            &[],
            "cat /etc/passwd | wc -l; (exit 3); ls -l / > /dev/null; exit 7".into(),
            7,
        ),
        (
            &[],
            "exec /bin/sh -c 'kill -USR1 $$'".into(),
            128 + libc::SIGUSR1,
        ),
        (
            &[],
            "trap 'exit 9' TERM; kill -TERM $$; sleep 100".into(),
            9,
        ),
        (
            &["-e", "trace=execve"],
            "/bin/true; exec /bin/true".into(),
            0,
        ),
    ] {
        let script = format!("{PROGRAMS}; {last}");
        let with = |more: &[&'static str]| [&["-c", "-U", "calls,name"], options, more].concat();
        let (ours, output) = told(&with(&[]), &script, &folder);
        assert!(output.stderr.contains(BY_KERNEL), "{}", output.stderr);
        let (theirs, by_ptrace) = told(&with(&["--by", "ptrace"]), &script, &folder);
        let codes = [output.code(), by_ptrace.code()];
        assert_eq!(codes, [code; 2], "{last}: {}", output.stderr);
        let (mut ours, mut theirs) = (counts(&ours), counts(&theirs));
        // Two children of a pipe that end at once are one signal: one that is pending stands for all.
        for counted in [&mut ours, &mut theirs] {
            counted.remove("rt_sigreturn");
        }
        assert_eq!(ours, theirs, "{last}");
        assert!(ours["execve"] >= 21, "{ours:?}");
    }
}

/// What is said of the arguments of calls is in no table, so it changes neither who counts nor what is counted.
#[test]
fn options_of_lines_change_nothing_of_a_table() {
    if !may("tables by BPF") {
        return;
    }
    let folder = TempDir::new("by-kernel-lines");
    let table = |more: &[&str]| {
        let chosen = ["-c", "-U", "calls,name", "-e", "trace=openat,read,write"];
        let (table, output) = told(&[&chosen, more].concat(), PROGRAMS, &folder);
        assert!(
            output.stderr.contains(BY_KERNEL),
            "{more:?}: {}",
            output.stderr
        );
        counts(&table)
    };
    let plain = table(&[]);
    assert!(plain["openat"] >= 40, "{plain:?}");
    for more in [&["-y"][..], &["-yy"], &["-s", "99999"], &["-e", "read=all"]] {
        assert_eq!(table(more), plain, "{more:?}");
    }
}

/// Programs that make calls as fast as they can are counted to the last one.
#[test]
fn no_call_is_lost_however_fast_they_are() {
    const EACH: u64 = 60_000;
    if !may("many calls by BPF") || !installed("dd") {
        return;
    }
    let folder = TempDir::new("by-kernel-fast");
    let copy = format!("dd if=/dev/zero of=/dev/null bs=1 count={EACH} 2> /dev/null");
    let script = format!("{PROGRAMS}; {copy} & {copy} & wait; {copy}; exit 4");
    let options = ["-c", "-U", "calls,name", "-e", "trace=write"];
    let (table, output) = told(&options, &script, &folder);
    assert_eq!(output.code(), 4, "{}", output.stderr);
    // Each dd has three of its own to say what it has done.
    assert_eq!(
        counts(&table).get("write"),
        Some(&(3 * (EACH + 3))),
        "{table}"
    );
}

/// Which calls count must be known before.
#[test]
fn calls_of_a_path_are_not_counted_by_the_kernel() {
    if !may("what is not by BPF") {
        return;
    }
    let folder = TempDir::new("by-kernel-not");
    let (_, output) = told(&["-c", "-P", "/etc/passwd"], PROGRAMS, &folder);
    assert_eq!(output.code(), 0, "{}", output.stderr);
    assert!(!output.stderr.contains(BY_KERNEL), "{}", output.stderr);
}

/// Whoever kills lancet, or has it leave, at any time leaves a tree of programs that do their work to the end, and sends none of them a
/// signal: the guest counts those of SIGCHLD, and its only children are of before it.
#[test]
fn a_lancet_that_is_killed_leaves_programs_that_go_on() {
    const GUEST: &str = "trap 'bad=1' CHLD; bad=0; n=0; while [ $n -lt 200000 ]; do n=$((n+1)); : > /dev/null; done";
    if !may("a death beside BPF") {
        return;
    }
    let folder = TempDir::new("by-kernel-killed");
    let (out, begun, result) = (
        folder.join("out"),
        folder.join("begun"),
        folder.join("result"),
    );
    let script = format!(
        "{PROGRAMS}; exec /bin/sh -c \"echo x > {}; {}; echo \\$bad \\$n > {}\"",
        begun.display(),
        GUEST.replace('$', "\\$"),
        result.display()
    );
    for (round, signal) in [libc::SIGKILL, libc::SIGINT, libc::SIGKILL]
        .into_iter()
        .enumerate()
    {
        for file in [&begun, &result] {
            let _ = std::fs::remove_file(file);
        }
        let said = std::fs::File::create(folder.join("said")).expect("a file");
        let mut command = lancet();
        command.args(["syscalls", "-c", "-f", "-o"]).arg(&out);
        command.args(["--", "/bin/sh", "-c", &script]);
        command.process_group(0).stderr(Stdio::from(said));
        let mut child = command.spawn().expect("lancet");
        until(LIMIT, "the guest's work", || begun.exists().then_some(()));
        // SAFETY: our own child, which we have not waited for.
        assert_eq!(unsafe { libc::kill(child.id() as i32, signal) }, 0);
        child.wait().expect("its end");
        let done = until(LIMIT, "the end of the programs", || {
            let text = std::fs::read_to_string(&result).ok()?;
            text.ends_with('\n').then_some(text)
        });
        assert_eq!(done, "0 200000\n", "round {round}");
        let said = std::fs::read_to_string(folder.join("said")).expect("what it said");
        assert!(said.contains(BY_KERNEL), "{said}");
    }
}
