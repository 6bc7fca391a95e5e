//! `lancet syscalls --by bpf`, and `--no-modify -c`: calls are seen by BPF programs at the kernel's tracepoints. Where the kernel does
//! not let this machine's tests do that, it is held that lancet says so and counts by ptrace.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::OnceLock;

use crate::support::{
    Guest, LIMIT, Snapshot, TempDir, Watch, as_nobody, assembled_for_32_bits, copy_for_all,
    installed, is_root, lancet, program_of_32_bits, run, skip, tool, until,
};
use crate::watch::{hooked, left};

fn syscalls(options: &[&str]) -> Command {
    let mut command = lancet();
    command.arg("syscalls").args(options);
    command
}

/// Why lancet may not use BPF here; `None` = it may.
pub fn refused() -> Option<&'static str> {
    static REFUSED: OnceLock<Option<String>> = OnceLock::new();
    let refused = REFUSED.get_or_init(|| {
        let output = run(&mut syscalls(&["--by", "bpf", "-c", "--", "true"]), LIMIT);
        if output.code() == 0 {
            return None;
        }
        let reasons = [
            "BPF needs CAP_BPF and ",
            "the kernel refuses BPF ",
            "the kernel cannot do it by BPF ",
        ];
        let found = reasons
            .into_iter()
            .find(|reason| output.stderr.contains(reason));
        Some(found.unwrap_or_else(|| panic!("{output:?}")).to_owned())
    });
    refused.as_deref()
}

/// Whether BPF may be used; if not, what is done in its place is held, and the test is skipped.
fn may(test: &str) -> bool {
    let Some(reason) = refused() else {
        return true;
    };
    let output = run(&mut syscalls(&["--no-modify", "-c", "--", "true"]), LIMIT);
    assert_eq!(output.code(), 0, "{output:?}");
    let line = output.stderr.lines().next().unwrap_or_default();
    assert!(
        line.contains("are seen by ptrace") && line.contains(reason),
        "{line}"
    );
    skip(test, reason);
    false
}

/// The numbers of a row of `-U calls,errors,name`: calls, and errors if there were any.
fn row(table: &str, name: &str) -> Vec<u64> {
    let rows = table
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    let mut found = rows.filter(|row| row.last() == Some(&name));
    let row = found.next().unwrap_or_default();
    row.iter().filter_map(|word| word.parse().ok()).collect()
}

const COLUMNS: &[&str] = &["-U", "calls,errors,name"];

/// A program that runs: its threads' calls and errors are counted, not those of before and after, and its text stays as it was.
#[test]
fn calls_of_a_running_program_are_counted() {
    if !may("counted by BPF") {
        return;
    }
    for ruby in crate::support::rubies("bpf") {
        let folder = TempDir::new("bpf-ruby");
        let script = folder.join("links.rb");
        std::fs::write(&script, LINKS).expect("written");
        let mut command = ruby.command();
        command.arg(&script).arg(folder.join("link"));
        let mut guest = Guest::ready(&mut command);
        let before = Snapshot::take(guest.pid);
        let out = folder.join("out");
        let mut command = syscalls(&["--no-modify", "-c", "-o"]);
        command
            .arg(&out)
            .args(COLUMNS)
            .args(["-p", &guest.pid.to_string()]);
        let watch = hooked(command);
        guest.tell("");
        guest.expect("answer done");
        let output = left(watch, "counted");
        assert!(
            output.stderr.contains("are seen by BPF programs"),
            "{output:?}"
        );
        let table = std::fs::read_to_string(&out).expect("a table");
        assert_eq!(row(&table, "readlink"), [2000, 800], "{ruby}: {table}");
        before.text_holds(guest.pid, "counted by BPF");
        guest.tell("");
        assert!(guest.ends_well(), "{ruby}");
    }
}

const LINKS: &str = r#"
$stdout.sync = true
link = ARGV[0]
File.symlink("there", link)
File.readlink(link)
puts "ready"
$stdin.gets
4.times.map { Thread.new {
  300.times { File.readlink(link) }
  200.times { File.readlink(link + "none") rescue nil }
} }.each(&:join)
puts "answer done"
$stdin.gets
File.readlink(link)
"#;

/// Each call is told with its numbers, its texts and its result; of the program that is started, all to its end.
#[test]
fn calls_are_told_one_by_one() {
    if !may("told by BPF") {
        return;
    }
    let folder = TempDir::new("bpf-lines");
    let out = folder.join("out");
    let mut command = syscalls(&[
        "--by",
        "bpf",
        "-f",
        "-e",
        "trace=execve,chdir,exit_group,dup2,kill",
        "-o",
    ]);
    command.arg(&out);
    let script = "cd /; cd /none; (exit 5); kill -0 $$; exec 7>&1; exit 3";
    let output = run(command.args(["--", "sh", "-c", script]), LIMIT);
    assert_eq!(output.code(), 3, "{output:?}");
    let lines = std::fs::read_to_string(&out).expect("lines");
    let told: Vec<String> = lines.lines().map(masked).collect();
    let expected = [
        "N execve(\"/usr/bin/sh\", [\"sh\", \"-c\", \"cd /; cd /none; (exit 5); kill -\"...], A /* N vars */) = 0",
        "N chdir(\"/\") = 0",
        "N chdir(\"/none\") = -1 ENOENT (No such file or directory)",
        "N kill(N, 0) = 0",
        "N dup2(1, 7) = 7",
        "N exit_group(3) = ?",
        "N +++ exited with 3 +++",
    ];
    let of = |text: &str| told.iter().filter(|line| line.contains(text)).count();
    for line in expected {
        assert!(of(line) == 1, "{line}: {told:#?}");
    }
    assert_eq!(
        [of("exit_group(5)"), of("exited with 5")],
        [1, 1],
        "{told:#?}"
    );
}

/// A line without what differs from run to run.
fn masked(line: &str) -> String {
    let mut words = line.split(' ').filter(|word| !word.is_empty()).map(|word| {
        let bare = word.trim_end_matches([',', ')']);
        let rest = &word[bare.len()..];
        let (call, last) = bare
            .rsplit_once('(')
            .map_or(("", bare), |(call, last)| (call, last));
        let open = if bare.contains('(') { "(" } else { "" };
        match last {
            _ if last.starts_with("0x") => format!("{call}{open}A{rest}"),
            _ if last.len() > 1 && last.parse::<u64>().is_ok() => format!("{call}{open}N{rest}"),
            _ => word.to_owned(),
        }
    });
    let first = words.next().unwrap_or_default();
    words.fold(first, |line, word| line + " " + &word)
}

/// Its own PID namespace, that of a process within one, and not one that is elsewhere.
#[test]
fn processes_in_pid_namespaces_are_known() {
    if !may("BPF in a PID namespace") || !is_root() || !installed("unshare") {
        return;
    }
    let folder = TempDir::new("bpf-namespace");
    let script = "cd /; (cd /); cd /none 2>/dev/null; exit 0";
    let tool = tool().display().to_string();
    let own = ["unshare", "-pf", "--mount-proc"];
    let by_bpf = [&tool, "syscalls", "--by", "bpf", "-f", "-c", "-e", "chdir"];
    for (out, words) in [
        ("within", [&own[..], &by_bpf].concat()),
        ("around", [&by_bpf[..], &own].concat()),
    ] {
        let out = folder.join(out);
        let mut command = Command::new(words[0]);
        let at = words
            .iter()
            .position(|word| *word == "chdir")
            .expect("it is there")
            + 1;
        command
            .args(&words[1..at])
            .arg("-o")
            .arg(&out)
            .args(COLUMNS)
            .arg("--");
        command.args(&words[at..]).args(["sh", "-c", script]);
        let output = run(&mut command, LIMIT);
        assert_eq!(output.code(), 0, "{output:?}");
        let table = std::fs::read_to_string(&out).expect("a table");
        assert_eq!(row(&table, "chdir"), [3, 1], "{words:?}: {table}");
    }
}

/// Code that hooks cannot be set in is counted so of itself, and that is said: a program of 32 bits (Go: `goroutines`).
#[test]
fn what_cannot_be_hooked_is_counted() {
    use nix::sys::signal::Signal::{SIGCONT, SIGSTOP};
    if !may("counted by BPF because it cannot be hooked") {
        return;
    }
    let folder = TempDir::new("bpf-unhooked");
    let out = folder.join("out");
    let program = match program_of_32_bits(&folder) {
        Ok(program) => program,
        Err(reason) => return skip("a program of 32 bits by BPF", reason),
    };
    let mut command = syscalls(&["-c", "-o"]);
    command.arg(&out).args(COLUMNS);
    command.args(["-p", &program.pid().to_string()]);
    let watch = hooked(command);
    let pid = nix::unistd::Pid::from_raw(program.pid());
    for _ in 0..3 {
        // It sleeps in pause(2), which the kernel makes again afterwards.
        for (signal, state) in [(SIGSTOP, 'T'), (SIGCONT, 'S')] {
            nix::sys::signal::kill(pid, signal).expect("sent");
            until(LIMIT, "its state", || {
                let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
                stat.contains(&format!(") {state} ")).then_some(())
            });
        }
    }
    let output = left(watch, "32 bits");
    for text in [" cannot be hooked (", "are seen by BPF programs"] {
        assert!(output.stderr.contains(text), "{output:?}");
    }
    let table = std::fs::read_to_string(&out).expect("a table");
    assert_eq!(row(&table, "pause"), [3, 3], "{table}");
}

/// Code of 32 bits has its arguments in other registers than code of 64 bits.
#[test]
fn arguments_of_32_bits_are_those_that_were_given() {
    if !may("arguments of 32 bits by BPF") {
        return;
    }
    let folder = TempDir::new("bpf-arguments-of-32");
    // epoll_pwait(1, 2, 3, 4, 5, 6), which fails; poll(NULL, 0, 1); for ever: system calls 319 and 168 of i386.
    let calls = "0: mov $319, %eax; mov $1, %ebx; mov $2, %ecx; mov $3, %edx; mov $4, %esi; mov $5, %edi; mov $6, %ebp; int $0x80;
        mov $168, %eax; xor %ebx, %ebx; xor %ecx, %ecx; mov $1, %edx; int $0x80; jmp 0b";
    let program = match assembled_for_32_bits(&folder, calls) {
        Ok(program) => program,
        Err(reason) => return skip("arguments of 32 bits by BPF", reason),
    };
    let pid = program.pid().to_string();
    let options = ["--by", "bpf", "--json", "--for", "200ms", "-p", &pid];
    let output = run(&mut syscalls(&options), LIMIT);
    assert_eq!(output.code(), 0, "{output:?}");
    let called = "\"registers\":[\"0x1\",\"0x2\",\"0x3\",\"0x4\",\"0x5\",\"0x6\"]";
    let lines = output.stdout.lines();
    let mut of_it = lines.filter(|line| line.contains("\"name\":\"epoll_pwait\""));
    let line = of_it.next().expect("it calls all the time");
    assert!(line.contains(called), "{line}");
}

/// The exec that leads from a program of 64 bits to one of 32 is told as what it was, whoever has seen its beginning.
#[test]
fn an_exec_to_32_bits_is_an_exec() {
    if !may("an exec to 32 bits by BPF") {
        return;
    }
    let folder = TempDir::new("bpf-exec-to-32");
    // _exit(5), system call 1 of i386.
    let ends = "mov $1, %eax; mov $5, %ebx; int $0x80";
    if let Err(reason) = assembled_for_32_bits(&folder, ends) {
        return skip("an exec to 32 bits by BPF", reason);
    }
    let (program, out) = (folder.join("program"), folder.join("out"));
    let programs = "for i in 1 2 3 4 5 6 7 8 9 10; do /bin/true; done";
    let shell = format!("{programs}; exec {}", program.display());
    let direct = [program.display().to_string()];
    let cases: [(&[&str], &[String]); 2] = [
        (&["--by", "bpf", "-o"], &direct),
        (&["-f", "-o"], &["/bin/sh".into(), "-c".into(), shell]),
    ];
    for (options, words) in cases {
        let mut command = lancet();
        command.arg("syscalls").args(options).arg(&out).arg("--");
        let output = run(command.args(words), LIMIT);
        assert_eq!(output.code(), 5, "{}", output.stderr);
        let lines = std::fs::read_to_string(&out).expect("lines");
        let exec = format!(
            "execve(\"{}",
            program.display().to_string().get(..20).expect("a path")
        );
        let mut execs = lines.lines().filter(|line| line.contains(&exec));
        let told = execs.next().unwrap_or_else(|| panic!("{lines}"));
        assert!(told.trim_end().ends_with("= 0"), "{lines}");
        assert!(!lines.contains("uname("), "{lines}");
        assert!(lines.contains("exit(5)"), "{lines}");
    }
}

/// Without the capabilities it is said which are missing, and ptrace takes over; where BPF alone is asked for, nothing is done.
#[test]
fn a_missing_permission_is_named() {
    if !is_root() || !installed("setpriv") {
        return skip("BPF without permission", "it needs root and setpriv");
    }
    let folder = TempDir::new("bpf-nobody");
    let copy = copy_for_all(&folder);
    let run_as_nobody = |options: &[&str]| {
        let mut command = Command::new(&copy);
        command.arg("syscalls").args(options).args(["--", "true"]);
        run(&mut as_nobody(&command), LIMIT)
    };
    let lacks = "BPF needs CAP_BPF and CAP_PERFMON, and lancet has no CAP_BPF and no CAP_PERFMON";
    let output = run_as_nobody(&["--no-modify", "-c"]);
    assert_eq!(output.code(), 0, "{output:?}");
    let first = output.stderr.lines().next().unwrap_or_default();
    assert!(
        first.contains("are seen by ptrace") && first.contains(lacks),
        "{output:?}"
    );
    assert!(output.stderr.contains(" total"), "{output:?}");
    let output = run_as_nobody(&["--by", "bpf", "-c"]);
    assert_eq!(output.code(), 1, "{output:?}");
    assert_eq!(output.stderr.lines().count(), 1, "{output:?}");
    assert!(output.stderr.contains(lacks), "{output:?}");
    // A process that runs, likewise.
    let guest = Guest::start("cat", Command::new("cat"));
    let mut command = Command::new("setpriv");
    command.args([
        "--bounding-set",
        "-bpf,-perfmon,-sys_admin",
        "--inh-caps",
        "-all",
    ]);
    command.arg(&copy).args([
        "syscalls",
        "--by",
        "bpf",
        "-c",
        "-p",
        &guest.pid.to_string(),
    ]);
    let output = run(&mut command, LIMIT);
    assert_eq!(output.code(), 1, "{output:?}");
    assert!(output.stderr.contains(lacks), "{output:?}");
}

/// The programs that the kernel has, by number.
fn programs() -> BTreeSet<u32> {
    /// `BPF_PROG_GET_NEXT_ID`.
    const NEXT: libc::c_int = 11;
    let (mut all, mut last) = (BTreeSet::new(), 0u32);
    loop {
        let mut asked = [last, 0, 0];
        // SAFETY: so many bytes of ours, which hold no address.
        let done = unsafe { libc::syscall(libc::SYS_bpf, NEXT, asked.as_mut_ptr(), 12) };
        if done != 0 {
            return all;
        }
        last = asked[1];
        all.insert(last);
    }
}

/// The numbers of the programs that a process has.
fn own(watch: &Watch) -> BTreeSet<u32> {
    let folder = format!("/proc/{}/fdinfo", watch.pid());
    let entries = std::fs::read_dir(folder).expect("it lives");
    let texts = entries.filter_map(|entry| std::fs::read_to_string(entry.ok()?.path()).ok());
    let numbers = texts.filter_map(|text| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("prog_id:"))?;
        line.trim().parse().ok()
    });
    numbers.collect()
}

/// Whatever ends lancet: nothing stays in the kernel, and the program computes on.
#[test]
fn nothing_stays_after_its_death() {
    if !may("death of a lancet with BPF programs") {
        return;
    }
    let mut guest = Guest::start("cat", Command::new("cat"));
    for signal in [
        nix::sys::signal::Signal::SIGKILL,
        nix::sys::signal::Signal::SIGINT,
    ] {
        let command = |pid: i32| {
            let mut command = syscalls(&["--by", "bpf", "-f", "-c", "-o", "/dev/null"]);
            command.args(["-p", &pid.to_string()]);
            command
        };
        let watch = hooked(command(guest.pid));
        let own = own(&watch);
        assert_eq!(own.len(), 4, "{own:?}");
        assert!(own.is_subset(&programs()), "{own:?}");
        let pid = nix::unistd::Pid::from_raw(watch.pid());
        nix::sys::signal::kill(pid, signal).expect("sent");
        watch.end();
        until(LIMIT, "the end of its programs", || {
            own.is_disjoint(&programs()).then_some(())
        });
        guest.tell("answer");
        guest.expect("answer");
    }
    guest.ends_with_nothing("death");
}

#[test]
fn what_bpf_cannot_tell_is_not_asked() {
    for (options, text) in [
        (&["-k"][..], "--by bpf"),
        (&["--at", "app.rb:1"], "--by bpf"),
        (&["-e", "inject=read:error=EIO"], "--by bpf"),
        (&["-y"], "-y, -P cannot be asked with --by bpf"),
        (
            &["-P", "/etc/passwd"],
            "-y, -P cannot be asked with --by bpf",
        ),
        (&["--no-modify"], "--by"),
        (&["--hooks"], "--by"),
    ] {
        let output = run(
            syscalls(&["--by", "bpf"])
                .args(options)
                .args(["--", "true"]),
            LIMIT,
        );
        assert_eq!(output.code(), 2, "{options:?}: {output:?}");
        assert!(output.stderr.contains(text), "{options:?}: {output:?}");
    }
}
