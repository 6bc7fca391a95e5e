//! `lancet syscalls -f`: programs that are run are seen by ptrace at first and hooked later. What is counted of a tree of processes is
//! what strace counts, whatever becomes of its processes; and a program that ends soon is never hooked.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::support::{LIMIT, Output, TempDir, installed, lancet, run, skip};

type Counts = BTreeMap<String, u64>;

/// Says that a process is hooked.
const HOOKED: &str = "places hooked";

fn shell(script: &str) -> [String; 3] {
    ["/bin/sh", "-c", script].map(String::from)
}

fn syscalls(options: &[&str]) -> Command {
    let mut command = lancet();
    command.args(["syscalls", "-f", "--max-wait", "60s"]);
    command.args(options);
    command
}

/// The rows of a table of `-U calls,name`, whatever function makes the calls; without calls that do not return, of which strace counts none.
fn rows(text: &str) -> Counts {
    let mut counts = Counts::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let (Some(calls), Some(name)) = (words.next(), words.next()) else {
            continue;
        };
        let Ok(calls) = calls.parse::<u64>() else {
            continue;
        };
        if !["total", "exit", "exit_group"].contains(&name) {
            *counts.entry(name.to_owned()).or_default() += calls;
        }
    }
    counts
}

/// What a tracer counts, and what it says.
fn counted(mut tracer: Command, out: &Path, words: &[String]) -> (Counts, Output) {
    tracer.args(["-c", "-U", "calls,name", "-o"]).arg(out);
    tracer.arg("--").args(words).env("LC_ALL", "C");
    let output = run(&mut tracer, LIMIT * 2);
    let text = std::fs::read_to_string(out).expect("a table");
    (rows(&text), output)
}

/// Both count the same, and both end as the program does. Returns what lancet says.
fn counts_as_strace(folder: &TempDir, words: &[String], varies: &[&str]) -> String {
    let out = folder.join("out");
    let mut strace = Command::new("strace");
    strace.arg("-f");
    let (mut truth, theirs) = counted(strace, &out, words);
    let (mut ours, output) = counted(syscalls(&[]), &out, words);
    for name in varies {
        truth.remove(*name);
        ours.remove(*name);
    }
    assert!(truth.values().sum::<u64>() > 10, "{words:?}: {truth:?}");
    let names = ours.keys().chain(truth.keys());
    let differ = names.filter(|name| ours.get(*name) != truth.get(*name));
    let differ: Vec<_> = differ
        .map(|name| (name, ours.get(name), truth.get(name)))
        .collect();
    assert!(differ.is_empty(), "{words:?}: {differ:?} {}", output.stderr);
    assert_eq!(output.code(), theirs.code(), "{words:?}: {}", output.stderr);
    output.stderr
}

/// Short programs, pipelines, subshells, programs that run others in their place, and what a compiler starts by vfork.
#[test]
fn trees_of_short_programs_are_counted_as_strace_counts() {
    if !installed("strace") {
        return skip("led", "no strace");
    }
    let folder = TempDir::new("led");
    let source = folder.join("one.c");
    std::fs::write(&source, "int main(void) { return 0; }\n").expect("written");
    let makefile = "all: one two three four\n%: one.c\n\t/usr/bin/gcc -o $@ one.c\nclean:\n\trm -f one two three four\n.PHONY: all clean\n";
    std::fs::write(folder.join("Makefile"), makefile).expect("written");
    let thirty =
        "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do /bin/true; /bin/false; done; exit 7";
    let twice = "exec /bin/sh -c 'exec /bin/sh -c \"exec /bin/true\"'";
    let make = format!(
        "make -C {0} clean all && make -C {0} clean",
        folder.join("").display()
    );
    // How often a pipe is read, and whether it is waited for, depends on who is quicker; names of temporary files are random.
    let piped: &[&str] = &["read", "futex", "wait4", "rt_sigreturn", "poll"];
    let made: &[&str] = &[
        "read",
        "futex",
        "getrandom",
        "rt_sigreturn",
        "munmap",
        "brk",
        "wait4",
    ];
    let all: [(&str, &[&str]); 5] = [
        (thirty, &[]),
        (twice, &[]),
        ("seq 1000 | sort -n | tail -1 > /dev/null", piped),
        ("(cd /; ls > /dev/null); (exit 3)", &["rt_sigreturn"]),
        (&make, made),
    ];
    for (script, varies) in all {
        if script == make && !(installed("make") && installed("/usr/bin/gcc")) {
            skip("led", "no make or no gcc");
            continue;
        }
        let said = counts_as_strace(&folder, &shell(script), varies);
        assert!(!said.contains(HOOKED), "{script}: {said}");
        assert_eq!(
            said.matches("are seen by ptrace").count(),
            1,
            "{script}: {said}"
        );
    }
}

/// A shell makes so many calls that it is hooked in the middle of them, where calls may wait long for lancet, and again its subshell, and the shell
/// that takes its place. No call
/// is lost where that happens, and none is told twice.
#[test]
fn what_makes_many_calls_is_hooked_and_no_call_is_lost() {
    if !installed("strace") {
        return skip("led", "no strace");
    }
    let folder = TempDir::new("led-many");
    let many =
        |rounds: u32| format!("i=0; while [ $i -lt {rounds} ]; do i=$((i+1)); kill -0 $$; done");
    let (long, short) = (many(15_000), many(200));
    let own = format!("{long}; /bin/true; ({short}); exec /bin/true");
    let child = format!("/bin/sh -c '{own}'; ({long}; /bin/true); exit 5");
    for (script, hooked, calls) in [(&own, 1, 15_200), (&child, 2, 30_200)] {
        let words = shell(script);
        // The child of a hooked process is not seen until its fork has returned in it, or it runs another program.
        let varies = [
            "vfork",
            "clone",
            "set_robust_list",
            "rt_sigprocmask",
            "execve",
            "rt_sigreturn",
        ];
        // By BPF programs, where they are allowed, from the middle of its calls on.
        counts_as_strace(&folder, &words, &varies);
        let out = folder.join("lines");
        let mut lines = syscalls(&["-e", "trace=kill", "-o"]);
        let output = run(lines.arg(&out).arg("--").args(&words), LIMIT * 2);
        let said = &output.stderr;
        assert!(said.matches(HOOKED).count() >= hooked, "{said}");
        let text = std::fs::read_to_string(&out).expect("lines");
        let told = text.lines().filter(|line| line.contains("kill(")).count();
        assert_eq!(told, calls, "{script}: {}", output.stderr);
        // A signal of another process may come between the two halves of a call.
        let is_whole = |line: &&str| line.contains(", 0) ") || line.contains("kill resumed>) ");
        let whole = text.lines().filter(is_whole).count();
        assert_eq!(whole, calls, "{script}: {}", output.stderr);
    }
}

/// A program that runs scripts is hooked from its start, so that lines are told; also where a program that is seen by ptrace runs it.
#[test]
fn programs_that_run_scripts_have_their_lines() {
    let folder = TempDir::new("led-script");
    let script = folder.join("p.py");
    std::fs::write(&script, "import os\nos.chdir('/usr')\nos.chdir('/')\n").expect("written");
    if !Path::new("/usr/bin/python3").exists() {
        return skip("led", "no python3");
    }
    let python = format!("/usr/bin/python3 {}", script.display());
    for words in [
        format!("{python}; exit 3"),
        format!("/bin/sh -c '{python}; /bin/true'; exit 3"),
        format!("/bin/sh -c 'exec {python}'; exit 3"),
    ] {
        let out = folder.join("lines");
        let mut command = syscalls(&["-e", "trace=chdir", "-o"]);
        let output = run(command.arg(&out).arg("--").args(shell(&words)), LIMIT * 2);
        let text = std::fs::read_to_string(&out).expect("lines");
        for line in ["p.py:2", "p.py:3"] {
            assert_eq!(
                text.matches(line).count(),
                1,
                "{words}: {text} {}",
                output.stderr
            );
        }
        assert_eq!(output.code(), 3, "{words}: {}", output.stderr);
    }
}

/// Processes that are killed at any instant around their exec are over for lancet, too.
#[test]
fn programs_that_are_killed_at_once_are_over() {
    let folder = TempDir::new("led-killed");
    let script = "i=0; while [ $i -lt 40 ]; do i=$((i+1)); /bin/sleep 1000 & kill -9 $!; wait $!; done; exit 6";
    for options in [&["-c"][..], &[]] {
        let out = folder.join("out");
        let mut command = syscalls(options);
        let output = run(
            command.arg("-o").arg(&out).arg("--").args(shell(script)),
            LIMIT * 2,
        );
        assert_eq!(output.code(), 6, "{}", output.stderr);
    }
}

/// What only hooks tell has programs hooked from their start, and so has --by hooks.
#[test]
fn who_asks_for_hooks_has_them() {
    let folder = TempDir::new("led-hooks");
    let ways: [&[&str]; 3] = [&["--by", "hooks"], &["-k"], &["--inject", "getppid:EPERM"]];
    for options in ways {
        let out = folder.join("out");
        let mut command = syscalls(options);
        let words = shell("/bin/true; exit 2");
        let output = run(command.arg("-o").arg(&out).arg("--").args(words), LIMIT * 2);
        assert_eq!(output.code(), 2, "{options:?}: {}", output.stderr);
        assert_eq!(
            output.stderr.matches(HOOKED).count(),
            2,
            "{options:?}: {}",
            output.stderr
        );
    }
}

/// The system calls that a tracer makes itself while it runs a command, without those that end in an error or follow from it: a wait that
/// the clock has ended is begun again, and how often depends on how busy the machine is.
fn own_calls(folder: &TempDir, tracer: &[&str], words: &[String]) -> u64 {
    const BY_THE_CLOCK: [&str; 6] = [
        "rt_sigreturn",
        "rt_sigtimedwait",
        "timer_settime",
        "clock_nanosleep",
        "futex",
        "total",
    ];
    let table = folder.join("own");
    let mut strace = Command::new("strace");
    strace.args(["-c", "-U", "calls,errors,name", "-o"]);
    strace.arg(&table).args(tracer).args(words);
    let output = run(strace.env("LC_ALL", "C"), LIMIT * 2);
    let text = std::fs::read_to_string(&table).expect("a table");
    let rows = text.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (calls, errors, name) = match words[..] {
            [calls, errors, name] => (calls, errors.parse().ok()?, name),
            [calls, name] => (calls, 0, name),
            _ => return None,
        };
        let calls: u64 = calls.parse().ok()?;
        (!BY_THE_CLOCK.contains(&name)).then(|| calls - errors)
    });
    let all = rows.sum();
    assert!(all > 100, "{text} {}", output.stderr);
    all
}

/// Of each program that a shell runs, lancet makes fewer system calls than strace does: that is what the program waits for. (It takes
/// three quarters of them; nine tenths when each stop was waited for and then taken.)
#[test]
fn a_program_costs_fewer_system_calls_than_under_strace() {
    if !installed("strace") {
        return skip("led", "no strace");
    }
    let folder = TempDir::new("led-own");
    let (tool, out) = (crate::support::tool(), folder.join("out"));
    let (tool, out) = (tool.to_string_lossy(), out.to_string_lossy());
    let ours = [&*tool, "syscalls", "-f", "-o", &*out, "--"];
    let theirs = ["strace", "-f", "-o", &*out];
    let programs = |count| shell(&"/bin/true; ".repeat(count));
    let of = |tracer: &[&str]| {
        let [few, many] = [1, 41].map(|count| own_calls(&folder, tracer, &programs(count)));
        many - few
    };
    let (ours, theirs) = (of(&ours), of(&theirs));
    assert!(
        ours * 20 <= theirs * 17,
        "{ours} of ours, {theirs} of strace's"
    );
}

/// A start reads no more tables than the program's calls need. (strace starts with 1.6 million instructions; lancet took 46.8 million when
/// it read all that it knows, and takes 10 now.)
#[test]
fn a_start_takes_few_instructions() {
    const MOST: u64 = 20_000_000;
    if !installed("valgrind") {
        return skip("led", "no valgrind");
    }
    let folder = TempDir::new("led-start");
    let counts = folder.join("counts");
    let mut command = Command::new("valgrind");
    command.arg("--tool=callgrind");
    command.arg(format!("--callgrind-out-file={}", counts.display()));
    command.arg(crate::support::tool());
    command
        .args(["syscalls", "-f", "-o"])
        .arg(folder.join("out"));
    let output = run(command.arg("/bin/true"), LIMIT * 2);
    assert_eq!(output.code(), 0, "{}", output.stderr);
    let text = std::fs::read_to_string(&counts).expect("what it has counted");
    let totals = text.lines().find_map(|line| {
        let words = line
            .strip_prefix("totals: ")
            .or(line.strip_prefix("summary: "));
        words?.trim().parse::<u64>().ok()
    });
    let taken = totals.expect("a total");
    assert!(taken > 1_000_000, "{taken}");
    // The program that is built without optimisation is another one.
    if std::env::var_os("LANCET_BIN").is_some() {
        assert!(taken < MOST, "{taken} instructions");
    }
}
