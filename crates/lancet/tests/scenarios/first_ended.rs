//! A process whose first thread has ended while others run on (`pthread_exit` in `main`). The kernel shows the memory, the descriptors and
//! the namespaces of a process by its first thread; every command finds another thread that shows them.

use std::path::PathBuf;
use std::process::Command;

use super::support::{Guest, Output, TempDir, Watch, installed, is_root, lancet, skip};
use super::{answer, scenario, script};

/// How often it makes what is counted.
const CALLS: &str = "500";

fn built(folder: &TempDir) -> Option<PathBuf> {
    if !installed("cc") {
        skip("first_ended.c", "there is no cc");
        return None;
    }
    let to = folder.join("first_ended");
    let mut compiler = Command::new("cc");
    compiler
        .args(["-O1", "-rdynamic", "-pthread", "-o"])
        .arg(&to);
    let status = compiler.arg(script("first_ended.c")).status();
    assert!(status.expect("cc").success());
    Some(to)
}

fn guest(folder: &TempDir) -> Option<Guest> {
    built(folder).map(|program| Guest::ready(&mut Command::new(program)))
}

/// What a command says that is given the process.
fn good(guest: &Guest, line: &str) -> String {
    let output = answer(guest, line);
    assert_eq!(output.code(), 0, "{line}: {output:?}");
    output.stdout
}

/// The row of a function that a command has counted while the process did its work, and what it said.
fn counted(guest: &mut Guest, way: &[&str], name: &str) -> (String, String) {
    let mut command = lancet();
    command.args(way).arg("-p").arg(guest.pid.to_string());
    let mut watch = Watch::start(command);
    watch.until(&format!("lancet: process {}: ", guest.pid));
    guest.answer_to(CALLS);
    let output = watch.interrupt();
    let mut rows = output.stdout.lines();
    let row = rows.find(|row| row.split_whitespace().any(|word| word == name));
    let row = row.unwrap_or_else(|| panic!("{way:?}: {output:?}"));
    (row.to_owned(), output.stderr)
}

fn has_count(row: &str) -> bool {
    row.split_whitespace().any(|word| word == CALLS)
}

#[test]
fn it_is_looked_at() {
    let folder = TempDir::new("first-ended");
    let Some(guest) = guest(&folder) else { return };
    for line in ["lancet stack -p PID", "lancet calls --now -p PID"] {
        let said = good(&guest, line);
        assert!(said.contains("serves"), "{line}: {said}");
        assert!(said.contains("1 thread,"), "{line}: {said}");
        assert!(said.contains("read"), "{line}: {said}");
    }
    let said = good(&guest, "lancet heap --rss -p PID");
    assert!(said.contains("libc.so.6"), "{said}");
    let tuned = answer(&guest, "lancet tune -p PID");
    assert!([0, 4].contains(&tuned.code()), "{tuned:?}");
    assert!(tuned.stdout.contains("for first_ended (PID"), "{tuned:?}");
    let here = format!("/proc/{}/", guest.pid);
    assert!(
        !tuned.stdout.contains(&format!("{here}maps: ")),
        "{tuned:?}"
    );
    // They need a script, and say that: the process is not refused for its first thread.
    for (line, reason) in [
        ("lancet heap -p PID", "no Ruby is loaded in it"),
        ("lancet mem -p PID", "no Ruby is loaded in it"),
    ] {
        let output = answer(&guest, line);
        assert!(output.stderr.contains(reason), "{line}: {output:?}");
    }
    assert!(guest.ends_well());
}

#[test]
fn its_calls_are_counted() {
    let folder = TempDir::new("first-ended");
    let Some(mut guest) = guest(&folder) else {
        return;
    };
    let mut ways = vec![
        (vec!["calls", "-c", "-x", "total"], "total"),
        (vec!["syscalls", "-c", "-e", "getppid"], "getppid"),
        (
            vec!["syscalls", "-c", "--by", "ptrace", "-e", "getppid"],
            "getppid",
        ),
    ];
    if is_root() {
        ways.push((
            vec!["syscalls", "-c", "--by", "bpf", "-e", "getppid"],
            "getppid",
        ));
    }
    for (way, name) in ways {
        let (row, _) = counted(&mut guest, &way, name);
        assert!(has_count(&row), "{way:?}: {row}");
    }
    assert!(guest.ends_well());
}

#[test]
fn its_functions_are_replaced_and_put_back() {
    let folder = TempDir::new("first-ended");
    let Some(mut guest) = guest(&folder) else {
        return;
    };
    let (source, file) = (folder.join("fix.c"), folder.join("fix.so"));
    std::fs::write(
        &source,
        "long total(long a, long b) { return a + b - a - b + 7; }",
    )
    .expect("a file");
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-shared", "-fPIC", "-nostartfiles", "-o"]);
    let status = compiler.arg(&file).arg(&source).status();
    assert!(status.expect("cc").success());
    assert_eq!(guest.answer_to("10"), "answer 40");
    good(
        &guest,
        &format!("lancet patch -p PID total={}:total", file.display()),
    );
    assert_eq!(guest.answer_to("10"), "answer 70");
    let list = good(&guest, "lancet patch -p PID --list");
    assert!(list.contains("in force: total@"), "{list}");
    good(&guest, "lancet patch -p PID --undo");
    assert_eq!(guest.answer_to("10"), "answer 40");
    assert!(guest.ends_well());
}

#[test]
fn a_python_is_read() {
    let Some(mut guest) = scenario("first_ended.py", &[]) else {
        return;
    };
    let said = good(&guest, "lancet stack -p PID");
    assert!(said.contains("first_ended.py:26 in serve"), "{said}");
    let (row, _) = counted(&mut guest, &["calls", "-c", "-x", "getppid"], "getppid");
    assert!(
        has_count(&row) && row.contains("first_ended.py:28"),
        "{row}"
    );
    is_named(&answer(&guest, "lancet heap -p PID"));
    assert!(guest.ends_well());
}

/// The heap names who keeps the objects alive.
fn is_named(output: &Output) {
    assert_eq!(output.code(), 0, "{output:?}");
    assert!(output.stdout.contains("KEPT"), "{output:?}");
}

#[test]
fn a_ruby_is_read() {
    let Some(mut guest) = scenario("first_ended.rb", &[]) else {
        return;
    };
    let said = good(&guest, "lancet stack -p PID");
    assert!(said.contains("first_ended.rb:17 in "), "{said}");
    let (row, said) = counted(&mut guest, &["calls", "-c", "-x", "getppid"], "getppid");
    // A line of the thread that has ended would be a false one.
    assert!(has_count(&row) && !row.contains(".rb:"), "{row}");
    assert!(
        said.contains("its first thread has ended, by which"),
        "{said}"
    );
    let mut command = lancet();
    command.args(["mem", "-p", &guest.pid.to_string()]);
    let watch = Watch::open(command);
    guest.answer_to(CALLS);
    let output = watch.interrupt();
    assert!(
        output.stdout.contains("first_ended.rb:22:Order"),
        "{output:?}"
    );
    guest.answer_to("100000");
    is_named(&answer(&guest, "lancet heap -p PID"));
    assert!(guest.ends_well());
}
