//! `lancet syscalls` on programs that make a fixed number of system calls, linked in every way: what it counts is what strace counts.
//! What no hook can see is seen in another way, or is a loss.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use crate::support::{
    Guest, LIMIT, Output, Snapshot, TempDir, Watch, built_for_32_bits, fixtures, installed, lancet,
    run, skip, until_traced,
};
use crate::watch::{HOOKED, hooked};

/// What the programs do, and what hooks have invented of them.
const CALLS: &str = "trace=getppid,write,nanosleep,clock_nanosleep,open,openat,close,getpid,dup,dup2,shutdown,fcntl";

/// Builds the fixture; `None` if there is no such compiler.
fn built(folder: &TempDir, name: &str, compiler: &str, options: &[&str]) -> Option<PathBuf> {
    if !installed(compiler) {
        skip(name, format!("no {compiler}"));
        return None;
    }
    let path = folder.join(name);
    let mut command = Command::new(compiler);
    command.args(options).arg("-o").arg(&path);
    let output = command.arg(fixtures().join("c/fixed_work.c")).output();
    let output = output.expect("a compiler");
    assert!(output.status.success(), "{name}: {output:?}");
    Some(path)
}

/// The rows of a table: calls by name.
pub fn rows(table: &str) -> BTreeMap<String, u64> {
    let lines = table.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (first, last) = (words.first()?, words.last()?);
        let name = line.split(" ← ").next()?.split_whitespace().last()?;
        // strace also says in between that a process runs in 32 bit mode.
        let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        (*last != "total" && is_name).then_some(())?;
        Some((name.to_owned(), first.parse::<u64>().ok()?))
    });
    let mut all = BTreeMap::new();
    for (name, calls) in lines {
        *all.entry(name).or_insert(0) += calls;
    }
    all
}

/// What strace counts while the program works.
fn by_strace(command: &mut Command, folder: &TempDir) -> BTreeMap<String, u64> {
    let mut guest = Guest::ready(command);
    guest.settle('S');
    let out = folder.join("strace");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-c", "-U", "calls,name", "-e", CALLS, "-o"]);
    strace.arg(&out).args(["-p", &guest.pid.to_string()]);
    let watch = Watch::start(strace);
    until_traced(guest.pid);
    guest.tell("");
    guest.expect("answer 0");
    guest.settle('S');
    watch.interrupt();
    guest.tell("");
    rows(&std::fs::read_to_string(&out).expect("a table"))
}

/// What lancet counts while it works, and what it says.
fn by_lancet(command: &mut Command, options: &[&str]) -> (BTreeMap<String, u64>, Output) {
    let mut guest = Guest::ready(command);
    guest.settle('S');
    let before = Snapshot::take(guest.pid);
    let mut lancet = lancet();
    lancet.args(["syscalls", "-c", "-U", "calls,name", "-e", CALLS]);
    lancet.args(options).args(["-p", &guest.pid.to_string()]);
    let watch = hooked(lancet);
    guest.tell("");
    guest.expect("answer 0");
    // The call by which it has said that may not have returned yet.
    guest.settle('S');
    let output = watch.interrupt();
    before.text_holds(guest.pid, "every place");
    guest.tell("");
    (rows(&output.stdout), output)
}

/// Both count the same, and lancet loses nothing. Returns what it says.
fn counts_as_strace(name: &str, folder: &TempDir, mut program: impl FnMut() -> Command) -> String {
    let expected = by_strace(&mut program(), folder);
    let sum: u64 = expected.values().sum();
    assert!(sum >= 200, "{name}: {expected:?}");
    let (counted, output) = by_lancet(&mut program(), &[]);
    assert_eq!(counted, expected, "{name}: {}", output.stderr);
    assert_eq!(output.code(), 0, "{name}: {}", output.stderr);
    output.stderr
}

/// A program of each kind of linking. Those whose functions neither symbols nor a table of unwinding rules describe are hooked like
/// others: rules without a table, and control flow, say where their functions are.
#[test]
fn programs_linked_in_every_way_are_counted_as_strace_counts() {
    if !installed("strace") {
        return skip("every place", "no strace");
    }
    let folder = TempDir::new("every-place");
    let plain: [(&str, &str, &[&str]); 9] = [
        ("dynamic", "gcc", &["-O2"]),
        ("dynamic-stripped", "gcc", &["-O2", "-s"]),
        ("static", "gcc", &["-O2", "-static"]),
        ("static-stripped", "gcc", &["-O2", "-static", "-s"]),
        ("static-pie-stripped", "gcc", &["-O2", "-static-pie", "-s"]),
        (
            "no-table-of-rules",
            "gcc",
            &["-O2", "-static", "-s", "-Wl,--no-eh-frame-hdr"],
        ),
        ("musl", "musl-gcc", &["-O2"]),
        ("musl-stripped", "musl-gcc", &["-O2", "-s"]),
        (
            "musl-static-stripped",
            "musl-gcc",
            &["-O2", "-static", "-s"],
        ),
    ];
    for (name, compiler, options) in plain {
        let Some(path) = built(&folder, name, compiler, options) else {
            continue;
        };
        let said = counts_as_strace(name, &folder, || Command::new(&path));
        // A small static program may lack the code by which its threads are borrowed, which is said.
        let hooked_or_why = [" places hooked in ", "can be borrowed"];
        let is_right = hooked_or_why.iter().any(|text| said.contains(text));
        assert!(is_right, "{name}: {said}");
    }
}

/// Shells that distributions link statically and strip.
#[test]
fn static_shells_are_counted_as_strace_counts() {
    if !installed("strace") {
        return skip("static shells", "no strace");
    }
    let folder = TempDir::new("static-shells");
    let script = "echo ready; read x; i=0; while [ $i -lt 100 ]; do : </dev/null; i=$((i+1)); done; echo answer 0; read x";
    for (program, first) in [("busybox", Some("sh")), ("bash-static", None)] {
        if !installed(program) {
            skip(program, "not installed");
            continue;
        }
        let command = || {
            let mut command = Command::new(program);
            command.args(first).args(["-c", script]);
            command
        };
        let said = counts_as_strace(program, &folder, command);
        assert!(said.contains(" places hooked in "), "{program}: {said}");
    }
}

/// A program that makes its calls where no hook can be: lancet does without hooks, and says why.
#[test]
fn a_program_whose_own_places_cannot_be_hooked_is_watched_in_another_way() {
    if !installed("strace") {
        return skip("another way", "no strace");
    }
    let folder = TempDir::new("another-way");
    for (way, reason) in [
        ("-DINLINE", "does not work elsewhere"),
        ("-DINT80", "it enters the kernel by int $0x80"),
    ] {
        let Some(path) = built(&folder, way, "gcc", &["-O1", "-s", way]) else {
            return;
        };
        let said = counts_as_strace(way, &folder, || Command::new(&path));
        let beginning = "cannot be hooked (1 of the 1 places where the program itself makes system calls cannot be hooked, because ";
        assert!(said.contains(beginning), "{way}: {said}");
        assert!(said.contains(reason), "{way}: {said}");
        let mut guest = Guest::ready(&mut Command::new(&path));
        let mut exact = lancet();
        exact.args(["syscalls", "-c", "--require", "exact", "-e", "getpid"]);
        exact.args(["-p", &guest.pid.to_string()]);
        let output = run(&mut exact, LIMIT);
        assert_eq!(output.code(), 1, "{way}: {output:?}");
        guest.tell("");
        guest.expect("answer 0");
        guest.tell("");
    }
}

/// A program for 32-bit x86: `ready`, 100 rounds of four calls behind a line, `answer 0`, and another line.
const OF_32_BITS: &str = "
    mov $4, %eax; mov $1, %ebx; mov $ready, %ecx; mov $6, %edx; int $0x80
    call line
    mov $100, %esi
1:  mov $64, %eax; int $0x80
    mov $20, %eax; int $0x80
    mov $41, %eax; mov $1, %ebx; int $0x80
    mov %eax, %ebx; mov $6, %eax; int $0x80
    dec %esi; jnz 1b
    mov $4, %eax; mov $1, %ebx; mov $answer, %ecx; mov $9, %edx; int $0x80
    call line
    mov $1, %eax; xor %ebx, %ebx; int $0x80
line:
    mov $3, %eax; xor %ebx, %ebx; mov $byte, %ecx; mov $1, %edx; int $0x80
    ret
    .data
ready: .ascii \"ready\\n\"
answer: .ascii \"answer 0\\n\"
byte: .byte 0
    .section .note.GNU-stack, \"\", @progbits";

/// Hooks cannot be set in it, and its calls have other numbers and other names.
#[test]
fn a_program_of_32_bits_is_counted_as_strace_counts() {
    if !installed("strace") {
        return skip("a program of 32 bits, counted", "no strace");
    }
    let folder = TempDir::new("counted-32-bits");
    let path = match built_for_32_bits(&folder, OF_32_BITS) {
        Ok(path) => path,
        Err(why) => return skip("a program of 32 bits, counted", why),
    };
    let said = counts_as_strace("32 bits", &folder, || Command::new(&path));
    assert!(said.contains("32-bit x86"), "{said}");
}

/// qemu-user makes the calls of what it runs at one place that must not be changed.
#[test]
fn an_emulator_is_counted_as_strace_counts() {
    let emulator = ["qemu-x86_64", "qemu-x86_64-static"];
    let emulator = emulator.into_iter().find(|name| installed(name));
    let Some(emulator) = emulator.filter(|_| installed("strace")) else {
        return skip("an emulator", "no qemu-user or no strace");
    };
    let folder = TempDir::new("emulator");
    let Some(path) = built(&folder, "emulated", "gcc", &["-O2", "-static"]) else {
        return;
    };
    counts_as_strace(emulator, &folder, || {
        let mut command = Command::new(emulator);
        command.arg(&path);
        command
    });
}

/// A C library without symbols calls memset with 32, which is also the number of `dup`: what is injected into that reaches nothing.
#[test]
fn what_is_injected_reaches_no_function_that_makes_no_system_call() {
    let folder = TempDir::new("musl-injected");
    let Some(path) = built(&folder, "musl", "musl-gcc", &["-O2"]) else {
        return;
    };
    let mut guest = Guest::ready(&mut Command::new(&path));
    let mut command = lancet();
    command.args([
        "syscalls",
        "--inject",
        "dup:EMFILE",
        "--inject",
        "shutdown:EMFILE",
    ]);
    command.args(["-p", &guest.pid.to_string()]);
    let watch = hooked(command);
    guest.tell("");
    guest.expect("answer 0");
    let output = watch.interrupt();
    assert!(!output.stdout.contains("INJECTED"), "{output:?}");
    guest.tell("");
}

/// Code that is made after the hooks were set is a loss, and so is a ring of io_uring.
#[test]
fn code_that_is_made_later_is_a_loss() {
    let folder = TempDir::new("made-later");
    let Some(path) = built(&folder, "made", "gcc", &["-O1", "-DMADE"]) else {
        return;
    };
    let mut guest = Guest::ready(&mut Command::new(&path));
    let mut command = lancet();
    command.args(["syscalls", "--json", "-e", "getpid", "-p"]);
    command.arg(guest.pid.to_string());
    let mut watch = hooked(command);
    // What is there by now is no loss.
    let unseen = watch.until(HOOKED);
    assert!(unseen.contains(": not seen: "), "{unseen}");
    guest.tell("");
    guest.expect("answer 0");
    let output = watch.interrupt();
    assert_eq!(output.code(), 4, "{output:?}");
    let said = "came after the process was hooked: code that was made at run time (1 mapping)";
    assert!(output.stderr.contains(said), "{output:?}");
    let last = output.stdout.lines().last().unwrap_or_default();
    assert!(last.contains(r#""what":"unseen""#), "{last}");
    guest.tell("");
}
