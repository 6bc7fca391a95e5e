//! `--rss --compact`: what it says a compaction would give back the program's own then gives back, and the program has not noticed: no collection, no
//! finalizer, no child.

use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::killed::{ALONE, running, start_and_kill};
use super::unseen::children;
use crate::support::{
    Group, Guest, Interpreter, LIMIT, Output, Random, Snapshot, TempDir, fixtures, lancet, rubies,
    run, say, schema, until,
};

/// How far the copy's compaction may be from that of the program, of a hundred pages: the stacks that pin objects are others.
const APART: u64 = 10;

fn command(pid: i32) -> Command {
    let mut command = lancet();
    command.args([
        "heap",
        "-p",
        &pid.to_string(),
        "--rss",
        "--compact",
        "--json",
    ]);
    command
}

/// The records of this name.
fn records(output: &Output, name: &str) -> Vec<Value> {
    let all = schema::records(&["rss"], &output.stdout).into_iter();
    all.filter(|record| record["record"] == name).collect()
}

/// The number behind a word of the program's.
fn number(line: Option<String>, word: &str) -> u64 {
    let line = line.expect("it goes on");
    let number = line.strip_prefix(word).unwrap_or_else(|| panic!("{line}"));
    number.trim().parse().expect("a number")
}

#[test]
fn what_it_would_give_back_the_program_gives_back_itself() {
    for ruby in rubies("compact") {
        let folder = TempDir::new(&format!("compact-{}", ruby.version));
        let written = folder.join("finalizer");
        let path = written.to_str().expect("plain text");
        let mut guest = Guest::script(&ruby, "heap/compact.rb", &[path]);
        let pages = number(guest.line(), "pages");
        let collections = number(guest.line(), "collections");
        guest.expect("ready");
        guest.settle('S');
        let before = Snapshot::take(guest.pid);
        let output = run(&mut command(guest.pid), LIMIT);
        assert_eq!(output.code(), 0, "{ruby}: {output:?}");
        before.holds(guest.pid, "a compaction of its copy");
        assert_eq!(children(guest.pid), "", "{ruby}");
        assert!(
            !written.exists(),
            "{ruby}: a finalizer of the copy has written a file"
        );
        let found = records(&output, "compaction");
        let [found] = &found[..] else {
            panic!("{ruby}: {output:?}")
        };
        let said = |field: &str| found[field].as_u64().expect("a number");
        assert_eq!(said("pages"), pages, "{ruby}");
        guest.tell("");
        assert_eq!(number(guest.line(), "collections"), collections, "{ruby}");
        let freed = number(guest.line(), "freed");
        say(format_args!(
            "{ruby}: {} of {pages} pages promised, {freed} given back, {} without an object left, {} ms",
            said("freed_pages"),
            said("empty_pages"),
            said("took_ns") / 1_000_000
        ));
        assert!(
            said("freed_pages").abs_diff(freed) * 100 <= APART * pages,
            "{ruby}: {found} and not {freed}"
        );
        // Nine tenths of what it holds is gone, so nearly all pages can be emptied.
        assert!(
            (said("freed_pages") + said("empty_pages")) * 10 > pages * 7,
            "{ruby}: {found}"
        );
        assert_eq!(
            said("freed_bytes") % said("freed_pages").max(1),
            0,
            "{ruby}: whole pages"
        );
        guest.expect("finalizer true");
        guest.ends_with("answer 8000");
    }
}

/// At the moment of the copy other threads want the VM's lock, and they are not in it. Where the VM hands them its lock all the same (3.4) the
/// copy hangs and is given up, with a note; the program goes on.
#[test]
fn threads_that_run_are_no_danger_to_it() {
    for ruby in rubies("compact-busy") {
        let folder = TempDir::new(&format!("compact-busy-{}", ruby.version));
        let written = folder.join("finalizer");
        let path = written.to_str().expect("plain text");
        let mut guest = Guest::script(&ruby, "heap/compact.rb", &[path, "3"]);
        while guest.line().is_some_and(|line| line != "ready") {}
        let output = run(&mut command(guest.pid), LIMIT);
        let found = records(&output, "compaction");
        let notes = records(&output, "note");
        let waits = |note: &Value| {
            let text = note["text"].as_str().unwrap_or_default();
            text.contains("it waits for another thread, which is not in it")
        };
        match &found[..] {
            [found] => {
                let said = |field: &str| found[field].as_u64().expect("a number");
                let emptied = said("freed_pages") + said("empty_pages");
                assert!(emptied * 10 > said("pages") * 7, "{ruby}: {found}");
            }
            _ => assert!(
                output.code() == 4 && notes.iter().any(waits),
                "{ruby}: {output:?}"
            ),
        }
        say(format_args!("{ruby}: measured: {}", !found.is_empty()));
        assert_eq!(children(guest.pid), "", "{ruby}");
        assert!(
            !written.exists(),
            "{ruby}: a finalizer of the copy has written a file"
        );
        guest.tell("");
        guest.ends_with("answer 8000");
    }
}

#[test]
fn a_kill_meanwhile_leaves_no_copy() {
    let ruby = Interpreter::system("ruby");
    let folder = TempDir::new("compact-killed");
    let written = folder.join("finalizer");
    let path = written.to_str().expect("plain text");
    let mut guest = Guest::script(&ruby, "heap/compact.rb", &[path]);
    while guest.line().is_some_and(|line| line != "ready") {}
    let mut random = Random::new("heap compact killed");
    let mut left = 0;
    for _ in 0..10 {
        start_and_kill(&mut command(guest.pid), 20_000 + random.below(600_000));
        left += usize::from(!running(guest.pid).is_empty());
    }
    until(ALONE, "every copy to end", || {
        running(guest.pid).is_empty().then_some(())
    });
    say(format_args!(
        "{left} of 10 kills left a copy alone for a moment"
    ));
    assert!(
        !written.exists(),
        "a finalizer of a copy has written a file"
    );
    let output = run(&mut command(guest.pid), LIMIT + Duration::from_secs(10));
    assert_eq!(output.code(), 0, "{output:?}");
    assert_eq!(children(guest.pid), "");
    guest.tell("");
    guest.ends_with("answer 8000");
}

#[test]
fn where_it_cannot_be_measured_the_ledger_says_so() {
    let python = Interpreter::system("python");
    let guest = Guest::script(&python, "heap/waits.py", &[]);
    guest.expect("ready");
    refused(&guest, "its language has no compaction");
    let Some(group) = Group::make("compact") else {
        return;
    };
    let ruby = Interpreter::system("ruby");
    let mut large = ruby.command();
    large.arg(fixtures().join("ruby/heap/large.rb"));
    let guest = Guest::start("limited", group.inside(&large));
    guest.expect("ready");
    group.write("memory.limit_in_bytes", group.charged() + (24 << 20));
    refused(&guest, "its memory limit leaves");
    // What the note advises is taken; the kernel may end the copy then.
    let output = run(command(guest.pid).arg("--despite-limit"), LIMIT);
    assert!(matches!(output.code(), 0 | 4), "{output:?}");
    assert!(
        !output.stdout.contains("its memory limit leaves"),
        "{output:?}"
    );
    let mut alone = lancet();
    let output = run(
        alone.args([
            "heap",
            "--rss",
            "--despite-limit",
            "-p",
            &guest.pid.to_string(),
        ]),
        LIMIT,
    );
    assert_eq!(output.code(), 1, "{output:?}");
    assert!(output.stderr.contains("--despite-limit is for a copy"));
}

/// The ledger of this process is written, without a compaction, and says why.
fn refused(guest: &Guest, why: &str) {
    let output = run(&mut command(guest.pid), LIMIT);
    assert_eq!(output.code(), 4, "{output:?}");
    assert!(records(&output, "compaction").is_empty() && !records(&output, "row").is_empty());
    let notes = records(&output, "note");
    let text = notes[0]["text"].as_str().unwrap_or_default();
    assert!(
        text.starts_with("not looked into: what GC.compact would give back") && text.contains(why),
        "{text}"
    );
}
