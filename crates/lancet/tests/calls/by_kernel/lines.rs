//! Lines of programs whose calls BPF programs tell: what the tracer alone would tell, to the last struct, and nothing is lost, however fast a
//! program makes calls, and however seldom lancet gets the processor.

use super::{BY_KERNEL, PROGRAMS, may, told};
use crate::support::{LIMIT, TempDir, installed, lancet, skip, until};
use regex::Regex;
use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

/// The lines, each call in one piece, with the thread whose it is, in the order in which they were complete.
fn pieces(text: &str) -> Vec<(&str, String)> {
    let cut = Regex::new(r"^(.*) <unfinished \.\.\.>$").expect("a literal");
    let resumed = Regex::new(r"^<\.\.\. \w+ resumed>(.*)$").expect("a literal");
    let mut open: Vec<(&str, String)> = Vec::new();
    let mut lines = Vec::new();
    for line in text.lines() {
        let (thread, rest) = line.trim_start().split_once(' ').expect("an id");
        let rest = rest.trim_start();
        if let Some(found) = cut.captures(rest) {
            open.push((thread, found[1].to_owned()));
            continue;
        }
        let at = open.iter().position(|(of, _)| *of == thread);
        let line = match (resumed.captures(rest), at) {
            (Some(found), Some(at)) => open.remove(at).1 + &found[1],
            _ => rest.to_owned(),
        };
        lines.push((thread, line));
    }
    lines.extend(open);
    lines
}

/// The lines without ids, addresses and times, each call in one piece, in the order of the alphabet: when which process runs is the
/// kernel's to decide.
fn whole(text: &str) -> Vec<String> {
    let varies = Regex::new(r"0x[0-9a-f]{5,}|si_[us]time=\d+( /\* [0-9.]+ s \*/)?|\d{3,}|\s+")
        .expect("a literal");
    let lines = pieces(text).into_iter();
    let lines = lines.map(|(_, line)| varies.replace_all(&line, "#").into_owned());
    let mut lines: Vec<String> = lines.collect();
    // What is random, processor time, where the signal of a child's end comes in between, and how many of those there are: one that is
    // pending stands for all.
    let random = [
        "SIGCHLD",
        "getrusage(",
        "times(",
        "getrandom(",
        "getpeername(",
        "timerfd_settime(",
        "rt_sigreturn(",
    ];
    lines.retain(|line| !random.iter().any(|one| line.contains(one)));
    lines.sort();
    lines
}

/// Every call of the fixture that is held against strace, ends, signals, and who runs another program in its place: the same lines as by
/// ptrace alone, and the same end.
#[test]
fn lines_are_those_of_a_tracer() {
    let Some(calls) = crate::machine::program("syscalls.c").filter(|_| may("lines by BPF")) else {
        return;
    };
    let folder = TempDir::new("by-kernel");
    for (last, code, shows) in [
        (calls.display().to_string(), 0, "revents=POLL"),
        (
            "cat /etc/passwd | wc -l; (exit 3); ls -l / > /dev/null; exit 7".into(),
            7,
            "st_mode=S_IFDIR",
        ),
        (
            "exec /bin/sh -c 'kill -USR1 $$'".into(),
            128 + libc::SIGUSR1,
            "killed by SIGUSR1",
        ),
        (
            "trap 'exit 9' TERM; kill -TERM $$; sleep 100".into(),
            9,
            "--- SIGTERM {si_signo=SIGTERM",
        ),
    ] {
        let script = format!("{PROGRAMS}; {last}");
        let (ours, output) = told(&[], &script, &folder);
        assert!(output.stderr.contains(BY_KERNEL), "{}", output.stderr);
        assert!(ours.contains(shows), "{last}: {ours}");
        let (theirs, by_ptrace) = told(&["--by", "ptrace"], &script, &folder);
        assert_eq!(
            [output.code(), by_ptrace.code()],
            [code; 2],
            "{last}: {}",
            output.stderr
        );
        let (ours, theirs) = (whole(&ours), whole(&theirs));
        let only = |one: &[String], other: &[String]| {
            let mut other = other.to_vec();
            let mut only = one.to_vec();
            only.retain(|line| match other.iter().position(|known| known == line) {
                Some(at) => {
                    other.remove(at);
                    false
                }
                None => true,
            });
            only
        };
        let differ = [only(&ours, &theirs), only(&theirs, &ours)];
        assert!(differ.iter().all(Vec::is_empty), "{last}: {differ:#?}");
        assert!(ours.len() > 700, "{}", ours.len());
    }
}

/// Writes of one byte that `dd` has made, and that have returned: each once.
pub fn written(lines: &str) -> usize {
    let whole = Regex::new(r#"(?m)write\(1, "\\0", 1\) += 1( |$)"#).expect("a literal");
    // What `dd` says at its end may be cut too.
    let cut = Regex::new(r#"write\(1, "\\0", 1 <unfinished "#).expect("a literal");
    whole.find_iter(lines).count() + cut.find_iter(lines).count()
}

/// A program that makes calls faster than they are told is held up: not one call is lost, and none is told twice.
#[test]
fn no_line_is_lost_however_fast_calls_are() {
    const EACH: usize = 60_000;
    if !may("many calls by BPF") || !installed("dd") {
        return;
    }
    let folder = TempDir::new("by-kernel-fast");
    let copy = format!("dd if=/dev/zero of=/dev/null bs=1 count={EACH} 2> /dev/null");
    let script = format!("{PROGRAMS}; {copy} & {copy} & wait; {copy}; exit 4");
    let (lines, output) = told(&["-e", "trace=write"], &script, &folder);
    assert_eq!(output.code(), 4, "{}", output.stderr);
    assert_eq!(written(&lines), 3 * EACH, "{}", output.stderr);
    assert!(output.stderr.contains(BY_KERNEL), "{}", output.stderr);
    assert!(!output.stderr.contains("hooked in"), "{}", output.stderr);
}

/// What a thread has done is told in the order in which it has done it, while others do the same: each umask(2) returns what the one before it
/// has set.
#[test]
fn lines_of_a_thread_are_in_its_order() {
    if !may("the order of lines") {
        return;
    }
    let folder = TempDir::new("by-kernel-order");
    let digits = "in 0 1 2 3 4 5 6 7; do";
    let sets =
        format!("for a {digits} for b {digits} for c {digits} umask 0$a$b$c; done; done; done");
    let script = format!("{PROGRAMS}; ({sets}) & ({sets}) & ({sets}) & wait");
    let (lines, output) = told(&["-e", "trace=umask"], &script, &folder);
    assert_eq!(output.code(), 0, "{}", output.stderr);
    assert!(output.stderr.contains(BY_KERNEL), "{}", output.stderr);
    let call = Regex::new(r"^umask\((0\d*)\) += (0\d*)$").expect("a literal");
    let mut set: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (thread, line) in pieces(&lines) {
        let Some(found) = call.captures(&line) else {
            continue;
        };
        let all = set.entry(thread).or_default();
        if let Some(before) = all.last() {
            assert_eq!(before, &found[2], "{thread}: {line} behind {}", all.len());
        }
        all.push(found[1].to_owned());
    }
    let many: Vec<usize> = set.values().map(Vec::len).collect();
    assert_eq!(many.len(), 3, "{many:?}");
    assert!(many.iter().all(|count| *count >= 512), "{many:?}");
}

/// What is read of a process while it makes a call is for its tracer, as is a wait for lancet that is longer than moments, or none; and scripts
/// are for hooks.
#[test]
fn who_asks_for_more_has_a_tracer_or_hooks() {
    if !may("what is not by BPF") {
        return;
    }
    let folder = TempDir::new("by-kernel-not");
    for options in [
        &["-y"][..],
        &["-Y"],
        &["-P", "/etc/passwd"],
        &["-s", "4000"],
        &["--max-wait", "10s"],
        &["--max-wait", "0"],
    ] {
        let (_, output) = told(options, PROGRAMS, &folder);
        assert_eq!(output.code(), 0, "{options:?}: {}", output.stderr);
        assert!(
            !output.stderr.contains(BY_KERNEL),
            "{options:?}: {}",
            output.stderr
        );
    }
    if !installed("/usr/bin/python3") {
        return skip("scripts beside BPF", "no python3");
    }
    let script = folder.join("p.py");
    std::fs::write(&script, "import os\nos.chdir('/usr')\n").expect("written");
    let words = format!("{PROGRAMS}; /usr/bin/python3 {}; cd /", script.display());
    let (lines, output) = told(&["-e", "trace=chdir"], &words, &folder);
    assert_eq!(output.code(), 0, "{}", output.stderr);
    assert_eq!(lines.matches("p.py:2").count(), 1, "{lines}");
    assert_eq!(lines.matches("chdir(").count(), 2, "{lines}");
}

/// An exec is told once, by whoever has seen its beginning, also where forks are not told.
#[test]
fn each_exec_is_told_once() {
    if !may("execs by BPF") {
        return;
    }
    let folder = TempDir::new("by-kernel-execs");
    let script = format!("{PROGRAMS}; /bin/true; exec /bin/true");
    let (lines, output) = told(&["-e", "trace=execve"], &script, &folder);
    assert_eq!(output.code(), 0, "{}", output.stderr);
    assert!(output.stderr.contains(BY_KERNEL), "{}", output.stderr);
    assert_eq!(lines.matches("execve(\"/bin/true\"").count(), 22, "{lines}");
    let ended = lines.lines().filter(|line| line.contains("execve("));
    assert!(ended.clone().all(|line| line.ends_with("= 0")), "{lines}");
}

/// What `fixtures/c/told.c` says if nobody has disturbed it.
const UNDISTURBED: &str = "0 wrong, 0 interrupted, 0 handled, 0 taken, 0 pending\n";

/// A program of `fixtures/c/told.c` behind so many others that BPF programs tell it from its exec on, and the files that it makes.
struct Told {
    script: String,
    begun: PathBuf,
    done: PathBuf,
}

impl Told {
    fn new(folder: &TempDir, count: usize, more: &str) -> Option<Self> {
        let program = crate::machine::program("told.c")?;
        let (begun, done) = (folder.join("begun"), folder.join("done"));
        let script = format!(
            "{PROGRAMS}; exec {} {} {count} {} {more}",
            program.display(),
            begun.display(),
            done.display()
        );
        Some(Told {
            script,
            begun,
            done,
        })
    }

    /// Waits until the program makes its calls.
    fn begins(&self) {
        until(LIMIT, "the program's calls", || {
            self.begun.exists().then_some(())
        });
    }

    /// Waits until it has made them, and returns what it says.
    fn says(&self) -> String {
        until(LIMIT, "the end of the program's calls", || {
            let text = std::fs::read_to_string(&self.done).ok()?;
            text.ends_with('\n').then_some(text)
        })
    }
}

/// Returns a lancet that tells the writes of a program, and its standard error.
fn telling(told: &Told, out: &Path) -> Child {
    let mut command = lancet();
    command.args(["syscalls", "-f", "-e", "trace=write", "-o"]);
    command.arg(out).args(["--", "/bin/sh", "-c", &told.script]);
    command.process_group(0).stdin(Stdio::null());
    command.stderr(Stdio::piped()).stdout(Stdio::null());
    command.spawn().expect("lancet")
}

fn send(child: &Child, signal: i32) {
    // SAFETY: our own child, which we have not waited for.
    assert_eq!(unsafe { libc::kill(child.id() as i32, signal) }, 0);
}

fn read(child: &mut Child) -> String {
    let mut text = String::new();
    let mut stderr = child.stderr.take().expect("a pipe");
    stderr.read_to_string(&mut text).expect("text");
    text
}

fn writes(lines: &str) -> usize {
    let whole = Regex::new(r#"(?m)write\(\d+, "x", 1\) += 1( |$)"#).expect("a literal");
    // What `dd` says at its end may be cut too.
    let cut = Regex::new(r#"write\(1, "\\0", 1 <unfinished "#).expect("a literal");
    whole.find_iter(lines).count() + cut.find_iter(lines).count()
}

/// Neither Ctrl-C nor the death of lancet, at whatever moment, nor a program that is held up, brings the program a signal, or interrupts one of
/// its waits.
#[test]
fn a_program_that_is_told_is_sent_no_signal() {
    const COUNT: usize = 50_000;
    if !may("signals beside BPF") {
        return;
    }
    for (round, signal) in [
        None,
        Some(libc::SIGINT),
        Some(libc::SIGKILL),
        Some(libc::SIGKILL),
    ]
    .into_iter()
    .enumerate()
    {
        for more in ["", "waits"] {
            let folder = TempDir::new("by-kernel-signals");
            let Some(told) = Told::new(&folder, COUNT, more) else {
                return;
            };
            let out = folder.join("out");
            let mut child = telling(&told, &out);
            told.begins();
            if let Some(signal) = signal {
                let some = (round as u64 + 1) * 100_000;
                until(LIMIT, "some of its lines", || {
                    let written = std::fs::metadata(&out).map_or(0, |of| of.len());
                    (written > some || told.done.exists()).then_some(())
                });
                send(&child, signal);
            }
            assert_eq!(told.says(), UNDISTURBED, "{signal:?} {more}");
            let stderr = read(&mut child);
            child.wait().expect("its end");
            assert!(stderr.contains(BY_KERNEL), "{stderr}");
            if signal.is_none() {
                let lines = std::fs::read_to_string(&out).expect("lines");
                assert_eq!(writes(&lines), COUNT, "{stderr}");
            }
        }
    }
}

/// Ctrl-C leaves a program that is told in the midst of its calls: it goes on alone, and has noticed nothing.
#[test]
fn a_program_that_is_left_while_it_is_told_goes_on() {
    const COUNT: usize = 1_000_000;
    const SOME: u64 = 500_000;
    if !may("leaving what BPF tells") {
        return;
    }
    let folder = TempDir::new("by-kernel-left");
    let Some(told) = Told::new(&folder, COUNT, "waits") else {
        return;
    };
    let out = folder.join("out");
    let mut child = telling(&told, &out);
    told.begins();
    until(LIMIT, "some of its lines", || {
        let written = std::fs::metadata(&out).map_or(0, |of| of.len());
        (written > SOME).then_some(())
    });
    send(&child, libc::SIGINT);
    let stderr = read(&mut child);
    let code = child.wait().expect("its end").code();
    assert_eq!(code, Some(128 + libc::SIGINT), "{stderr}");
    assert!(stderr.contains(BY_KERNEL), "{stderr}");
    let lines = std::fs::read_to_string(&out).expect("lines");
    let shown = writes(&lines);
    assert!(shown > 5_000 && shown < COUNT, "{shown}: {stderr}");
    assert_eq!(told.says(), UNDISTURBED);
}

/// Where nobody reads lancet's output the program goes on, and all of it is there when somebody does.
#[test]
fn output_that_nobody_reads_loses_nothing() {
    const COUNT: usize = 60_000;
    if !may("a pipe that nobody reads") {
        return;
    }
    let folder = TempDir::new("by-kernel-pipe");
    let Some(told) = Told::new(&folder, COUNT, "") else {
        return;
    };
    let (out, done) = (folder.join("out"), told.done.display());
    // A command that reads nothing before the program is over.
    let reader = format!(
        "|until [ -s {done} ]; do sleep 0.01; done; cat > {}",
        out.display()
    );
    let mut child = telling(&told, Path::new(&reader));
    assert_eq!(told.says(), UNDISTURBED);
    let stderr = read(&mut child);
    assert_eq!(child.wait().expect("its end").code(), Some(0), "{stderr}");
    assert!(stderr.contains(BY_KERNEL), "{stderr}");
    let lines = until(LIMIT, "what is read at last", || {
        let lines = std::fs::read_to_string(&out).ok()?;
        lines.contains("exited with").then_some(lines)
    });
    assert_eq!(writes(&lines), COUNT, "{stderr}");
}

/// More than lancet keeps for a reader that reads nothing: the program goes on all the same, and what is shown, what was dropped and what was
/// not told are together all that was made.
#[test]
fn what_a_reader_that_blocks_loses_is_counted() {
    const COUNT: usize = 600_000;
    if !may("a reader that blocks") {
        return;
    }
    let folder = TempDir::new("by-kernel-blocks");
    let Some(told) = Told::new(&folder, COUNT, "") else {
        return;
    };
    let (part, out) = (folder.join("part"), folder.join("out"));
    let reader = format!(
        "|until [ -s {} ]; do sleep 0.01; done; cat > {part}; mv {part} {out}",
        told.done.display(),
        part = part.display(),
        out = out.display()
    );
    let mut child = telling(&told, Path::new(&reader));
    assert_eq!(told.says(), UNDISTURBED);
    let stderr = read(&mut child);
    let code = child.wait().expect("its end").code();
    assert_eq!(code, Some(4), "{stderr}");
    let number = |words: &str| {
        let known = Regex::new(&format!("([0-9,]+) {words}")).expect("a literal");
        let found = known.captures(&stderr)?;
        found[1].replace(',', "").parse::<usize>().ok()
    };
    let dropped = number("lines of output that nobody has read in time are missing");
    let dropped = dropped.unwrap_or_else(|| panic!("{stderr}"));
    let lost = number("calls and returns of write in thread").unwrap_or(0);
    let lines = until(LIMIT, "what is read at last", || {
        std::fs::read_to_string(&out).ok()
    });
    // The line of its end may be one of those: all others were there before.
    let end = 21 - lines.matches("exited with").count();
    let all = writes(&lines) + dropped + lost;
    assert_eq!(all, COUNT + end, "{stderr}");
    assert!(end <= 1, "{end}");
}

/// A lancet that does not get the processor for long loses calls at last, and says how many of which thread: what is there and what is lost are
/// all that was made.
#[test]
fn what_a_lancet_that_stands_still_loses_is_counted() {
    const COUNT: usize = 60_000;
    if !may("a lancet that stands still") {
        return;
    }
    let folder = TempDir::new("by-kernel-stopped");
    let Some(told) = Told::new(&folder, COUNT, "") else {
        return;
    };
    let out = folder.join("out");
    let mut child = telling(&told, &out);
    told.begins();
    send(&child, libc::SIGSTOP);
    // That it is over is written in one call, which needs no lancet.
    assert_eq!(told.says(), UNDISTURBED);
    send(&child, libc::SIGCONT);
    let stderr = read(&mut child);
    let code = child.wait().expect("its end").code();
    assert_eq!(code, Some(4), "{stderr}");
    let lost =
        Regex::new(r"process (\d+): (\d+) calls and returns of write in thread (\d+) are not told")
            .expect("a literal");
    let lost = lost.captures(&stderr).unwrap_or_else(|| panic!("{stderr}"));
    assert_eq!(lost[1], lost[3], "{stderr}");
    let lost: usize = lost[2].parse().expect("a number");
    let lines = std::fs::read_to_string(&out).expect("lines");
    assert!(lost > 1_000, "{stderr}");
    assert_eq!(writes(&lines) + lost, COUNT, "{stderr}");
}
