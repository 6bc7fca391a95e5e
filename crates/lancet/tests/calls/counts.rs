//! `lancet syscalls -c` beside `strace -f -c` of the same work, call by call.
//!
//! Seen by ptrace, and by BPF (`--no-modify`), the counts are equal. Seen by hooks they are equal but for what the coverage line names, and
//! how often that happened is counted here in strace's own lines.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::bpf::refused;
use crate::machine::{built, program};
use crate::support::{LIMIT, TempDir, database, installed, lancet, run, skip};

type Counts = BTreeMap<String, u64>;

/// The rows of a table of `-U calls,name`.
fn table(mut tracer: Command, out: &Path, words: &[String]) -> (Counts, String) {
    tracer.args(["-f", "-c", "-U", "calls,name", "-o"]).arg(out);
    tracer.arg("--").args(words).env("LC_ALL", "C");
    let output = run(&mut tracer, LIMIT * 2);
    assert!(matches!(output.code(), 0 | 4), "{words:?}: {output:?}");
    let text = std::fs::read_to_string(out).expect("a table");
    let rows = text.lines().filter_map(|line| {
        let (calls, name) = line.split_whitespace().collect::<Vec<_>>()[..]
            .split_first_chunk::<1>()
            .map(|([calls], rest)| (*calls, rest.concat()))?;
        let calls = calls.parse().ok()?;
        (name != "total").then_some((name, calls))
    });
    (rows.collect(), output.stderr)
}

/// What children of vfork ask for before they run another program, and what handlers return by. Out of strace's lines.
fn unseen(out: &Path, words: &[String]) -> Counts {
    let mut strace = Command::new("strace");
    strace.args(["-f", "-o"]).arg(out).arg("--").args(words);
    run(strace.env("LC_ALL", "C"), LIMIT * 2);
    let text = std::fs::read(out).expect("lines");
    let text = String::from_utf8_lossy(&text);
    let mut counts = Counts::new();
    // How each child was made, and whether it is another program already.
    let mut children: BTreeMap<&str, Made> = BTreeMap::new();
    let mut made: Vec<Made> = Vec::new();
    let first = text.split_whitespace().next().unwrap_or_default();
    for line in text.lines() {
        let Some((pid, rest)) = line.split_once(' ') else {
            continue;
        };
        let rest = rest.trim_start();
        let Some((name, _)) = rest.split_once('(').filter(|(name, _)| !name.contains(' ')) else {
            continue;
        };
        if name == "rt_sigreturn" {
            *counts.entry(name.into()).or_default() += 1;
        }
        if pid != first {
            let next = |made: &mut Vec<Made>| match made.is_empty() {
                true => Made::Apart,
                false => made.remove(0),
            };
            let child = children.entry(pid).or_insert_with(|| next(&mut made));
            if *child == Made::Lent {
                *counts.entry(name.into()).or_default() += 1;
            }
            // Who runs another program is seen from there on.
            if name.starts_with("execve") && !rest.contains("= -1") {
                *child = Made::Apart;
            }
        }
        if ["clone", "clone3", "fork", "vfork"].contains(&name) {
            let lent = name == "vfork" || rest.contains("CLONE_VFORK");
            made.push(if lent { Made::Lent } else { Made::Apart });
        }
    }
    counts
}

/// How a thread of strace's lines was made, and so what is not seen of it.
#[derive(Clone, Copy, PartialEq)]
enum Made {
    /// As a thread, or as a process with memory of its own: all is seen.
    Apart,
    /// It is not seen until it runs another program, in memory that its parent lends it.
    Lent,
}

/// Deterministic work of real programs, each with calls that differ from run to run under strace alone.
fn programs(
    folder: &TempDir,
    server: Option<&Path>,
) -> Vec<(Vec<String>, &'static [&'static str])> {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let repository = folder.join("repository").display().to_string();
    std::fs::create_dir(&repository).expect("a folder");
    std::fs::write(
        format!("{repository}/Makefile"),
        "all:\n\t@echo 1 > made\n\t@cat made > again\n",
    )
    .expect("written");
    let made = Command::new("git")
        .args(["init", "-q", &repository])
        .status();
    let mut all: Vec<(Vec<String>, &[&str])> = vec![
        // Ruby aligns the pages of its heap by unmapping what is too much at their ends: how often depends on where the kernel
        // has mapped them. Its timer thread reads its pipe as often as it is woken, which depends on how long everything takes.
        (
            words(&["/usr/bin/ruby", "-e", "puts 1"]),
            &["munmap", "mmap", "read", "ppoll"],
        ),
        (words(&["/usr/bin/python3", "-c", "print(1)"]), &[]),
        (words(&["/usr/bin/perl", "-e", "print 1"]), &[]),
        (words(&["/usr/bin/php", "-r", "echo 1;"]), &[]),
        (words(&["/usr/bin/tar", "cf", "/dev/null", "/etc/apt"]), &[]),
        (
            words(&["/usr/bin/make", "-s", "-C", &repository, "all"]),
            &[],
        ),
        (words(&["/usr/bin/find", "/etc/apt", "-name", "x*"]), &[]),
        (
            words(&[
                "/bin/sh",
                "-c",
                "ls /etc >/dev/null; cat /etc/passwd >/dev/null; (exit 0)",
            ]),
            &[],
        ),
    ];
    if made.is_ok_and(|status| status.success()) {
        all.push((words(&["/usr/bin/git", "-C", &repository, "status"]), &[]));
    }
    if let Some(server) = server {
        let socket = format!("--socket={}", server.display());
        let client = [
            "/usr/bin/mariadb",
            "--no-defaults",
            &socket,
            "-e",
            "SELECT 1",
        ];
        // It polls until the server has answered.
        all.push((words(&client), &["poll", "recvfrom", "ppoll"]));
    }
    let hello = program("hello.c");
    let alone = built("hello.c", &["-static"]);
    for path in hello.into_iter().chain(alone) {
        all.push((vec![path.display().to_string()], &[]));
    }
    all.retain(|(words, _)| Path::new(&words[0]).exists());
    all
}

fn lancet_with(options: &[&str]) -> Command {
    let mut command = lancet();
    // All that is said of what is not seen.
    command.args(["syscalls", "--strace", "-v", "--max-wait", "60s"]);
    command.args(options);
    command
}

#[test]
fn counts_are_those_of_strace() {
    if !installed("strace") {
        return skip("syscalls -c beside strace -f -c", "no strace");
    }
    let folder = TempDir::new("counts");
    let out = folder.join("out");
    // It serves until this ends.
    let database = database("counts");
    let socket = database.as_ref().map(|database| database.socket());
    let programs = programs(&folder, socket.as_deref());
    assert!(programs.len() >= 8, "{programs:?}");
    for (words, varies) in programs {
        // What was there before is there for all of them.
        table(Command::new("strace"), &out, &words);
        let (mut truth, _) = table(Command::new("strace"), &out, &words);
        let (mut traced, _) = table(lancet_with(&["--by", "ptrace"]), &out, &words);
        // By BPF, where that is allowed.
        let (mut unchanged, said) = table(lancet_with(&["--no-modify"]), &out, &words);
        let ways = ["seen by BPF programs", "seen by ptrace"];
        assert!(
            said.contains(ways[usize::from(refused().is_some())]),
            "{said}"
        );
        let (mut hooked, said) = table(lancet_with(&["--hooks"]), &out, &words);
        for name in varies {
            for counts in [&mut truth, &mut traced, &mut unchanged, &mut hooked] {
                counts.remove(*name);
            }
        }
        assert!(truth.values().sum::<u64>() > 10, "{words:?}: {truth:?}");
        assert_same(&words, "--by ptrace", &traced, &truth);
        assert_same(&words, "--no-modify", &unchanged, &truth);
        let unseen = unseen(&out, &words);
        for (name, count) in &unseen {
            if let Some(calls) = truth.get_mut(name) {
                let seen = calls.checked_sub(*count);
                *calls = seen.unwrap_or_else(|| panic!("{words:?}: {name}: {unseen:?}"));
            }
        }
        truth.retain(|_, count| *count != 0);
        assert_same(&words, "hooks", &hooked, &truth);
        for text in [
            "rt_sigreturn",
            "children of vfork and posix_spawn until they run",
        ] {
            assert!(said.contains(text), "{words:?}: {said}");
        }
    }
}

/// What is said alike of every child is said once, and how often it would have been said again.
#[test]
fn what_is_refused_in_each_child_is_said_once() {
    let folder = TempDir::new("counts-said");
    let out = folder.join("out");
    let script = "for i in 1 2 3; do /bin/true; done; exit 0";
    let words = ["/bin/sh", "-c", script].map(String::from);
    let (counts, said) = table(lancet_with(&["--hooks"]), &out, &words);
    // Each program's loader asks for it.
    assert_eq!(counts.get("set_tid_address"), Some(&4), "{counts:?}");
    for text in ["not hooked: ", "not seen: "] {
        let lines: Vec<&str> = said.lines().filter(|line| line.contains(text)).collect();
        let mut texts: Vec<&str> = lines
            .iter()
            .filter_map(|line| line.split(text).nth(1))
            .collect();
        texts.sort_unstable();
        texts.dedup();
        let again = |line: &&&str| line.contains(" more: ");
        let again = lines.iter().filter(again).count();
        assert!(!texts.is_empty() && again >= 1, "{text}: {said}");
        assert_eq!(lines.len() - again, texts.len(), "{text}: {said}");
    }
}

/// Names which calls differ.
fn assert_same(words: &[String], way: &str, ours: &Counts, truth: &Counts) {
    let names = ours.keys().chain(truth.keys());
    let differ = names.filter(|name| ours.get(*name) != truth.get(*name));
    let differ: Vec<_> = differ
        .map(|name| (name, ours.get(name), truth.get(name)))
        .collect();
    assert!(differ.is_empty(), "{words:?} by {way}: {differ:?}");
}

/// Whoever asks for a table sees it first, and then in one line that it is not all.
#[test]
fn what_is_not_seen_stands_behind_the_table_in_one_line() {
    let words = ["syscalls", "--hooks", "-c", "--", "/bin/sh", "-c", ":"];
    let said = |more: &[&str]| {
        let output = run(
            lancet().args(&words[..3]).args(more).args(&words[3..]),
            LIMIT,
        );
        // The program's own streams are standard output.
        let lines = output.stderr.lines().map(str::to_owned);
        lines.collect::<Vec<_>>()
    };
    let short = said(&[]);
    let table = short.iter().position(|line| line.starts_with("% time"));
    let table = table.unwrap_or_else(|| panic!("{short:?}"));
    let before: Vec<_> = short[..table]
        .iter()
        .filter(|line| !line.contains("hooked in"))
        .collect();
    assert!(before.is_empty(), "{short:?}");
    let last = short.last().expect("a line");
    assert!(
        last.contains(" not hooked; ")
            && last.contains("not seen")
            && last.ends_with("; run it again with -v to be told all"),
        "{short:?}"
    );
    let whole = said(&["-v"]);
    assert!(
        whole.iter().any(|line| line.contains("not hooked: ")),
        "{whole:?}"
    );
    assert!(
        whole
            .iter()
            .any(|line| line.contains("not seen: returns from")),
        "{whole:?}"
    );
}

/// A program that begins others all the time: at which line, and how many a second.
#[test]
fn a_storm_of_processes_is_said_beside_the_table() {
    if !installed("ruby") {
        return skip("a storm of processes", "no ruby");
    }
    let folder = TempDir::new("storm");
    let script = folder.join("storm.rb");
    std::fs::write(
        &script,
        "Thread.new { $stdin.read; exit! 0 }\n$stdout.sync = true\nputs 'ready'\nloop { system('/bin/true') }\n",
    )
    .expect("a script");
    let guest = crate::support::Guest::ready(Command::new("ruby").arg(&script));
    let mut command = lancet();
    command.args(["syscalls", "-c", "--for", "2s", "-p"]);
    let output = run(command.arg(guest.pid.to_string()), LIMIT);
    // What reads a pipe knows the columns of strace, and that they stand in its first line.
    let head = output.stdout.lines().next().unwrap_or_default();
    assert!(head.ends_with("     calls    errors syscall"), "{output:?}");
    let told = output
        .stdout
        .lines()
        .find_map(|line| line.split_once(" processes a second"));
    let (rate, rest) = told.unwrap_or_else(|| panic!("{output:?}"));
    let rate: f64 = rate.parse().unwrap_or_else(|_| panic!("{rate}"));
    assert!(rate >= 10.0, "{rate}");
    assert!(
        rest.starts_with(", at ") && rest.contains("storm.rb:4 "),
        "{rest}"
    );
}
