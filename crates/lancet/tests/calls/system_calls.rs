//! `-S`: system calls of live programs, told with what they were asked and gave, and the program no worse for it.

use std::collections::HashMap;
use std::process::Command;

use crate::machine::{computes_the_same, program, start};
use crate::support::{
    Guest, LIMIT, Output, Random, Snapshot, TempDir, Watch, installed, lancet, run, skip, soak,
};
use crate::watch::{calls, calls_of, hooked, left, left_with_losses, text_holds};

const FIXTURE: &str = "system_calls.cpp";
/// Nothing else, and nothing lost.
const ALL: &[&str] = &["-L", "-S", "--max-wait", "30s"];

/// Counted, and no times.
const BARE: &[&str] = &["syscalls", "-c", "-U", "calls,errors,name"];

/// The fixture in one mode: watched, counted, and opened and left while it works. It computes what it computes without us.
fn holds(mode: &str, rounds: u64) {
    let leave = match mode {
        "jumps" => left_with_losses,
        _ => left,
    };
    let shows = [&["-T"][..], &["-c"], &["-x", "*@libc.so*"]];
    let mut ways = shows
        .map(|show| [ALL, &["-o", "/dev/null"], show].concat())
        .to_vec();
    ways.push([BARE, &["-o", "/dev/null"]].concat());
    computes_the_same(FIXTURE, mode, rounds, &ways, leave);
}

#[test]
fn calls_that_signals_end_or_that_are_made_again_are_as_they_were() {
    holds("interrupted", 500);
}

#[test]
fn handlers_leave_system_calls_by_longjmp() {
    holds("jumps", 500);
}

#[test]
fn threads_are_cancelled_in_them_and_unwound() {
    holds("cancels", 100);
}

#[test]
fn children_come_out_of_them() {
    holds("children", 30);
}

#[test]
fn threads_come_and_go() {
    holds("storm", 100);
}

#[test]
fn a_thread_waits_in_one_while_hooks_come_and_go() {
    holds("blocks", 100_000);
}

/// The number in the row of a table.
fn count(text: &str, name: &str) -> u64 {
    calls_of(text, name).unwrap_or_else(|| panic!("no {name}: {text}"))
}

#[test]
fn a_million_of_four_threads_are_counted() {
    const EACH: u64 = 125_000;
    for arguments in [&[ALL, &["-c"]].concat(), BARE] {
        counts_many(EACH, arguments);
    }
}

fn counts_many(each: u64, arguments: &[&str]) {
    let Some(path) = program(FIXTURE) else {
        return;
    };
    let mut guest = start(&path, "many");
    // Its first read is made before we come.
    guest.settle_in_read();
    let watch = hooked(calls(guest.pid, arguments));
    guest.tell(&each.to_string());
    guest.find("answer ");
    let output = left(watch, "many");
    // Each call of `syscalls` is in as many rows as functions make it.
    let count = |name: &str| match arguments.first() {
        Some(&"syscalls") => {
            let rows = output.stdout.lines().map(str::split_whitespace);
            let of_it = rows.filter(|words| words.clone().any(|word| word == name));
            let calls = of_it.filter_map(|mut words| words.next()?.parse::<u64>().ok());
            calls.sum()
        }
        _ => count(&output.stdout, &format!("{name}@SYS")),
    };
    assert_eq!(count("getppid"), 4 * each, "{output:?}");
    // The last of its standard input has not returned.
    assert_eq!(count("read"), 4 * each, "{output:?}");
    assert_eq!(count("openat"), 1, "{output:?}");
    guest.ends_with_nothing("many");
}

/// What `strace` counts of a program is what we count, from its constructors on.
#[test]
fn strace_counts_the_same() {
    if !installed("strace") {
        return skip("calls -S beside strace", "no strace");
    }
    let Some(path) = program(FIXTURE) else {
        return;
    };
    let folder = TempDir::new("strace");
    let out = folder.join("out").display().to_string();
    let path = path.to_str().expect("plain");
    let script = format!("printf '50\\n' | {path} storm");
    // Those that the program and its shell make themselves, equally often each time: how many `munmap` there are depends on
    // how many stacks of ended threads the C library keeps, and `strace -c` leaves out calls that do not return.
    let names = [
        "getppid", "clone3", "madvise", "write", "wait4", "pipe2", "dup2",
    ];
    let table = |mut command: Command| {
        let output = run(&mut command, LIMIT);
        assert_eq!(output.code(), 0, "{output:?}");
        std::fs::read_to_string(&out).expect("a table")
    };
    let mut strace = Command::new("strace");
    strace.args([
        "-f",
        "-c",
        "-U",
        "calls,name",
        "-o",
        &out,
        "sh",
        "-c",
        &script,
    ]);
    let truth = table(strace);
    let ours = {
        let mut command = lancet();
        command
            .arg("calls")
            .args(ALL)
            .args(["-c", "-f", "-o", &out]);
        command.args(["--", "sh", "-c", &script]);
        table(command)
    };
    for name in names {
        let row = truth
            .lines()
            .find(|line| line.split_whitespace().last() == Some(name))
            .unwrap_or_else(|| panic!("{name}: {truth}"));
        let wanted: u64 = row.split_whitespace().next().unwrap().parse().expect(row);
        assert_eq!(count(&ours, &format!("{name}@SYS")), wanted, "{ours}");
    }
}

#[test]
fn arguments_and_errors_are_those_of_each_call() {
    const ROUNDS: u64 = 200;
    let Some(path) = program(FIXTURE) else {
        return;
    };
    let folder = TempDir::new("numbered");
    let out = folder.join("out").display().to_string();
    let mut guest = start(&path, "numbered");
    let watch = hooked(calls(guest.pid, &[ALL, &["-o", &out]].concat()));
    guest.tell(&ROUNDS.to_string());
    guest.find("answer ");
    left(watch, "numbered");
    guest.ends_with_nothing("numbered");
    let text = std::fs::read_to_string(&out).expect("lines");
    let mut lines: HashMap<String, u64> = HashMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        *lines.entry(words.join(" ")).or_default() += 1;
    }
    for round in 0..ROUNDS {
        let hex = match round {
            0 => "0".into(),
            round => format!("{round:#x}"),
        };
        for line in [
            format!("lseek@SYS(1000, {round}, SEEK_SET) = -1 EBADF"),
            format!("lseek@SYS(1001, {round}, SEEK_CUR) = -1 EBADF"),
            format!("ftruncate@SYS(1002, {round}) = -1 EBADF"),
        ] {
            assert_eq!(lines.get(&line), Some(&1), "{line}: {text}");
        }
        let unknown = format!("unknown@SYS(700, {hex}, ");
        let found = lines.keys().filter(|line| line.starts_with(&unknown));
        assert!(
            found.clone().count() == 1 && found.clone().all(|line| line.ends_with("= -1 ENOSYS")),
            "{unknown}: {text}"
        );
    }
}

/// A child's are its own, also where it runs in its parent's memory as its parent's thread.
#[test]
fn what_children_call_is_not_told_of_their_parent() {
    const ROUNDS: usize = 20;
    let Some(path) = program(FIXTURE) else {
        return;
    };
    let folder = TempDir::new("children");
    let out = folder.join("out").display().to_string();
    let mut guest = start(&path, "children");
    let watch = hooked(calls(guest.pid, &[ALL, &["-o", &out]].concat()));
    guest.tell(&ROUNDS.to_string());
    guest.find("answer ");
    left(watch, "children");
    guest.ends_with_nothing("children");
    let text = std::fs::read_to_string(&out).expect("lines");
    let of = |name: &str| {
        let begin = format!("{name}@SYS(");
        text.lines().filter(|line| line.starts_with(&begin)).count()
    };
    assert_eq!(of("getuid"), 0, "{text}");
    assert_eq!(of("execve"), 0, "{text}");
    assert_eq!(of("getgid"), ROUNDS, "{text}");
    assert_eq!(of("vfork"), ROUNDS, "{text}");
    assert_eq!(of("wait4"), 5 * ROUNDS, "{text}");
    let told = text.lines().filter(|line| line.starts_with("vfork@SYS("));
    for line in told {
        let child = line.rsplit("= ").next().and_then(|id| id.parse().ok());
        assert!(child.is_some_and(|id: i32| id > 0), "{line}");
    }
}

#[test]
fn filters_conditions_and_recordings_are_those_of_calls() {
    let Some(path) = program(FIXTURE) else {
        return;
    };
    let folder = TempDir::new("filters");
    let file = folder.join("file").display().to_string();
    let told = |what: &[&str]| {
        let mut guest = start(&path, "numbered");
        let watch = hooked(calls(guest.pid, what));
        guest.tell("50");
        guest.find("answer ");
        let output = left(watch, "filters");
        guest.ends_with_nothing("filters");
        output.stdout
    };
    let text = told(&["-x", "ftrunc*@SYS"]);
    assert_eq!(text.lines().count(), 50, "{text}");
    assert_eq!(text.matches("ftruncate@SYS(1002, ").count(), 50, "{text}");
    let text = told(&["-x", "lseek@SYS", "--where", "arg1 == 1001 && arg2 >= 48"]);
    assert_eq!(text.lines().count(), 2, "{text}");
    let text = told(&["-x", "ftruncate@SYS", "--where", "ret == -9", "--json"]);
    let calls = text
        .lines()
        .filter(|line| line.contains(r#""record":"call""#));
    assert_eq!(calls.clone().count(), 50, "{text}");
    for line in calls {
        assert!(
            line.contains(r#""function":"ftruncate","module":"SYS""#),
            "{line}"
        );
        assert!(line.contains(r#""result":"-9""#), "{line}");
    }
    told(&["-L", "-S", "--record", &file]);
    let replayed = |what: &[&str]| {
        let mut command = lancet();
        command.arg("calls").args(what).arg(&file);
        let output = run(&mut command, LIMIT);
        assert_eq!(output.code(), 0, "{output:?}");
        output.stdout
    };
    for what in [
        &["-x", "lseek@SYS"][..],
        &["-S", "--where", "arg1 == 1000 || arg1 == 1001"],
    ] {
        let text = replayed(what);
        assert_eq!(
            text.matches("lseek@SYS(100").count(),
            100,
            "{what:?}: {text}"
        );
    }
    assert_eq!(count(&replayed(&["-c"]), "ftruncate@SYS"), 50);
}

/// Each in its own way: by attach, by start.
#[test]
fn the_last_ones_are_told() {
    let folder = TempDir::new("last");
    let out = folder.join("out").display().to_string();
    let told = |output: Output, code: i32| {
        assert_eq!(output.code(), code, "{output:?}");
        let text = std::fs::read_to_string(&out).expect("lines");
        for wanted in [
            "write@SYS(1, \"last\", 4)",
            "exit_group@SYS(7) <return not told>",
        ] {
            assert!(text.contains(wanted), "{wanted}: {text}");
        }
    };
    let words = ["sh", "-c", "read line; printf last; exit 7"];
    let mut command = lancet();
    command.arg("calls").args(ALL).args(["-o", &out, "--"]);
    command.args(words);
    told(run(&mut command, LIMIT), 7);

    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    let mut guest = Guest::start("last", command);
    let watch = hooked(calls(guest.pid, &[ALL, &["-o", &out]].concat()));
    guest.tell("");
    let (_, status) = guest.end();
    assert_eq!(status.code(), Some(7));
    told(watch.end(), 0);
}

/// Records that lie in the process's own memory are gone with it: it waits until they are read.
#[test]
fn the_last_ones_are_told_where_records_lie_in_the_process() {
    const ROUNDS: usize = 2000;
    let Some(path) = program("poolless.c") else {
        return;
    };
    let folder = TempDir::new("poolless");
    let out = folder.join("out").display().to_string();
    for (way, code) in [("exit_group", 7), ("execve", 0)] {
        for _ in 0..10 {
            let mut command = Command::new(&path);
            command.args([way, &ROUNDS.to_string()]);
            let mut guest = Guest::start(way, command);
            guest.expect("ready");
            let watch = hooked(calls(guest.pid, &[ALL, &["-o", &out]].concat()));
            guest.tell("");
            let (_, status) = guest.end();
            assert_eq!(status.code(), Some(code), "{way}");
            let output = watch.end();
            let text = std::fs::read_to_string(&out).expect("lines");
            let told = |call: &str| text.lines().filter(|line| line.contains(call)).count();
            assert_eq!(told("getppid@SYS("), ROUNDS, "{way}: {output:?}");
            assert_eq!(told(&format!("{way}@SYS(")), 1, "{way}: {output:?}");
        }
    }
}

/// The line of the script that asked for it.
#[test]
fn scripts_are_told_with_their_lines() {
    let folder = TempDir::new("scripts");
    let out = folder.join("out").display().to_string();
    for (interpreter, name, script) in [
        (
            "ruby",
            "a.rb",
            "def show\n  $stdout.syswrite(\"shown\\n\")\nend\nshow\n",
        ),
        (
            "python3",
            "a.py",
            "import os\ndef show():\n    os.write(1, b'shown\\n')\nshow()\n",
        ),
        (
            "perl",
            "a.pl",
            "sub show {\n  syswrite(STDOUT, \"shown\\n\");\n}\nshow();\n",
        ),
        (
            "php",
            "a.php",
            "<?php\nfunction show() {\n  fwrite(STDOUT, \"shown\\n\");\n}\nshow();\n",
        ),
    ] {
        if !installed(interpreter) {
            skip("calls -S of a script", format_args!("no {interpreter}"));
            continue;
        }
        let path = folder.join(name);
        std::fs::write(&path, script).expect("a script");
        let mut command = lancet();
        command
            .arg("calls")
            .args(["--max-wait", "30s", "-x", "write@SYS", "-o", &out, "--"]);
        command.arg(interpreter).arg(&path);
        let output = run(&mut command, LIMIT);
        assert_eq!(output.code(), 0, "{output:?}");
        let text = std::fs::read_to_string(&out).expect("lines");
        let line = script
            .lines()
            .position(|line| line.contains("shown"))
            .expect("one")
            + 1;
        let wanted = format!("{name}:{line} in '");
        let found = text
            .lines()
            .find(|line| line.contains("write@SYS(1, \"shown\\n\", 6)"));
        let found = found.unwrap_or_else(|| panic!("{interpreter}: {text} {}", output.stderr));
        assert!(
            found.contains(&wanted) && found.ends_with("show'"),
            "{found}"
        );
    }
}

/// `kill -9` of lancet at random instants; then it is opened again, and left.
#[test]
fn a_kill_at_any_instant_leaves_the_guest_computing() {
    let Some(path) = program(FIXTURE) else {
        return;
    };
    let mut random = Random::new("calls -S killed");
    for mode in ["interrupted", "storm", "blocks"] {
        let rounds = match mode {
            "blocks" => "2000000",
            "storm" => "3000",
            _ => "4000",
        };
        let mut guest = start(&path, mode);
        guest.tell(rounds);
        let truth = guest.find("answer ");
        guest.ends_with_nothing(mode);
        let mut guest = start(&path, mode);
        let before = Snapshot::take(guest.pid);
        guest.tell(rounds);
        for _ in 0..if soak() { 40 } else { 4 } {
            let watch = Watch::start(calls(guest.pid, &["-L", "-S", "-o", "/dev/null"]));
            std::thread::sleep(std::time::Duration::from_micros(random.below(500_000)));
            watch.kill();
        }
        let watch = hooked(calls(guest.pid, &["-L", "-S", "-c", "-o", "/dev/null"]));
        assert_eq!(guest.find("answer "), truth, "{mode}");
        let output = left(watch, mode);
        text_holds(&before, guest.pid, mode, &output);
        guest.ends_with_nothing(mode);
    }
}

/// What the vDSO does not know itself it asks the kernel for, by an instruction of its own; when we leave, it is as it was.
#[test]
fn what_the_vdso_asks_the_kernel_for_is_told() {
    let Some(path) = program("vdso.c") else {
        return;
    };
    let folder = TempDir::new("vdso");
    let lines = folder.join("lines");
    let mut guest = start(&path, "");
    let mut command = lancet();
    command.args(["syscalls", "-e", "trace=clock_gettime", "-o"]);
    command.arg(&lines).args(["-p", &guest.pid.to_string()]);
    let watch = hooked(command);
    guest.tell("a");
    guest.expect("asked");
    let output = left(watch, "vdso");
    assert!(output.stderr.contains("not seen: "), "{}", output.stderr);
    guest.tell("a");
    guest.expect("asked");
    guest.tell("b");
    guest.ends_with("as it was");
    let lines = std::fs::read_to_string(lines).expect("it was written");
    let told = |clock: &str| lines.lines().filter(|line| line.contains(clock)).count();
    let told = [told("CLOCK_PROCESS_CPUTIME_ID"), told("CLOCK_MONOTONIC")];
    assert_eq!(told, [100, 0], "{lines}");
}
