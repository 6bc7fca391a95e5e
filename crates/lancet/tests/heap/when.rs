//! `lancet heap --when`: it waits until the process has so much in memory, and no longer than it lives.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::{Group, Guest, LIMIT, lancet, run, schema, wait};

const GROWS: &str = "$stdout.sync = true; kept = []; puts 'ready'; \
                     while (line = $stdin.gets) do kept << 'x' * line.to_i; puts 'done' end; puts \"answer #{kept.size}\"";

fn guest() -> Guest {
    Guest::ready(Command::new("ruby").args(["--disable-gems", "-e", GROWS]))
}

/// A lancet that waits.
struct Waiting {
    child: Child,
    stderr: BufReader<std::process::ChildStderr>,
}

impl Waiting {
    fn start(pid: i32, arguments: &[&str]) -> Self {
        let mut command = lancet();
        command
            .args(["heap", "-p", &pid.to_string()])
            .args(arguments);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("lancet starts");
        let stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        let mut waiting = Waiting { child, stderr };
        let line = waiting.line();
        assert!(line.contains("waiting until process"), "{line}");
        waiting
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stderr.read_line(&mut line).expect("text");
        line
    }

    /// Its exit code, what it wrote, and what it said.
    fn end(mut self) -> (i32, String, String) {
        let (mut out, mut said) = (String::new(), String::new());
        let mut stdout = self.child.stdout.take().expect("a pipe");
        stdout.read_to_string(&mut out).expect("text");
        self.stderr.read_to_string(&mut said).expect("text");
        let status = wait(&mut self.child, LIMIT).expect("it ends");
        (status.code().unwrap_or(-1), out, said)
    }
}

/// What the ledger that it wrote says is in memory.
fn resident(out: &str) -> u64 {
    let records = schema::records(&["rss"], out);
    let ledger = records.iter().find(|record| record["record"] == "ledger");
    ledger.expect("a ledger")["rss"].as_u64().expect("a number")
}

/// What is refused is refused before anything is waited for.
#[test]
fn what_cannot_be_done_is_said_at_once() {
    let guest = guest();
    let refused = |pid: i32, more: &[&str], code: i32| {
        let mut command = lancet();
        command.args(["heap", "-p", &pid.to_string(), "--when", "rss>200G"]);
        let output = run(command.args(more), LIMIT);
        assert_eq!(output.code(), code, "{output:?}");
        assert!(!output.stderr.contains("waiting until"), "{output:?}");
        output.stderr
    };
    let asked = |pid: i32, more: &[&str]| refused(pid, more, 1);
    let said = asked(guest.pid, &["--save", "/nowhere/at/all"]);
    assert!(said.contains("cannot write to /nowhere/at/all"), "{said}");
    let said = asked(guest.pid, &["--live"]);
    assert!(said.contains("terminal"), "{said}");
    let said = refused(guest.pid, &["--rss", "--format", "html"], 2);
    assert!(said.contains("--rss has no --format html"), "{said}");
    // What has no VM is no process to make a snapshot of.
    let mut cat = Command::new("cat");
    let mut cat = cat.stdin(Stdio::piped()).spawn().expect("cat");
    let said = asked(cat.id() as i32, &[]);
    assert!(said.contains("no Python, Perl or PHP"), "{said}");
    cat.kill().expect("it runs");
    cat.wait().expect("it is ours");
    guest.ends_with("answer 0");
}

/// A limit that leaves enough now, and too little when there is so much in memory.
#[test]
fn a_limit_that_will_leave_too_little_is_said_at_once() {
    let Some(group) = Group::make("heap-when") else {
        return;
    };
    let mut ruby = Command::new("ruby");
    ruby.args(["--disable-gems", "-e", GROWS]);
    let guest = Guest::start("limited", group.inside(&ruby));
    guest.expect("ready");
    group.write("memory.limit_in_bytes", 400_u64 << 20);
    let mut command = lancet();
    command.args(["heap", "-p", &guest.pid.to_string(), "--when", "rss>300M"]);
    let output = run(&mut command, LIMIT);
    assert_eq!(output.code(), 1, "{output:?}");
    assert!(
        output
            .stderr
            .contains("300.0 MiB in memory: no copy of process")
            && output.stderr.contains("--despite-limit"),
        "{output:?}"
    );
    guest.ends_with("answer 0");
}

#[test]
fn it_answers_when_there_is_so_much_in_memory_and_not_before() {
    let mut guest = guest();
    let mut waiting = Waiting::start(guest.pid, &["--when", "rss>200M", "--rss", "--json"]);
    guest.tell(&(60 << 20).to_string());
    guest.expect("done");
    assert!(
        waiting.child.try_wait().expect("our child").is_none(),
        "it waits on"
    );
    guest.tell(&(180 << 20).to_string());
    let (code, out, said) = waiting.end();
    assert!(code == 0 && said.contains("MiB in memory"), "{code} {said}");
    assert!(resident(&out) > 200 << 20, "{out}");
    guest.expect("done");
}

#[test]
fn it_answers_when_it_grows_so_fast() {
    let mut guest = guest();
    guest.tell(&(100 << 20).to_string());
    guest.expect("done");
    // What it has had before is not growth.
    let waiting = Waiting::start(guest.pid, &["--when", "rss+80M/min", "--rss", "--json"]);
    for _ in 0..3 {
        guest.tell(&(40 << 20).to_string());
        guest.expect("done");
    }
    let (code, out, said) = waiting.end();
    assert_eq!(code, 0, "{said}");
    assert!(resident(&out) > 180 << 20, "{out}");
}

#[test]
fn it_waits_no_longer_than_the_process_lives_or_the_user_wants() {
    let mut guest = guest();
    let (code, out, said) =
        Waiting::start(guest.pid, &["--when", "rss>9G", "--for", "300ms", "--rss"]).end();
    assert!(
        code == 1 && out.is_empty() && said.lines().count() == 1,
        "{code} {out} {said}"
    );
    assert!(said.contains("the time of --for is over"), "{said}");

    let waiting = Waiting::start(guest.pid, &["--when", "rss>9G", "--rss"]);
    kill(Pid::from_raw(waiting.child.id() as i32), Signal::SIGINT).expect("it lives");
    let (code, out, said) = waiting.end();
    assert!(
        code != 0 && out.is_empty() && said.contains("stopped before"),
        "{code} {out} {said}"
    );

    let waiting = Waiting::start(guest.pid, &["--when", "rss>9G", "--rss"]);
    guest.tell("0");
    guest.expect("done");
    guest.ends_with("answer 1");
    let (code, out, said) = waiting.end();
    assert!(
        code == 1 && out.is_empty() && said.contains("has ended before"),
        "{code} {out} {said}"
    );
}
