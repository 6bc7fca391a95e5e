//! The ways to ask, and to be answered: a plan in a file, JSON, several processes.

use std::process::Command;

use serde_json::Value;

use crate::programs::{
    FIX, PLAIN, compiled_from, done, guest, library, patch, request, traced_by_strace, tried,
};
use crate::support::{Guest, LIMIT, Snapshot, TempDir, Watch, installed, run, schema, skip, until};

/// The objects that it writes, without those that say which process they are of.
fn objects(text: &str) -> Vec<Value> {
    let mut all = schema::records(&["patch"], text);
    let last = all.pop().expect("a record");
    assert_eq!(last["record"], "losses", "{text}");
    assert_eq!(last["losses"], Value::Array(Vec::new()), "{text}");
    all.retain(|one| one["record"] != "process");
    all
}

#[test]
fn a_plan_in_a_file_is_carried_out() {
    let folder = TempDir::new("patch-plan");
    let mut guest = guest("plan", 2);
    let before = Snapshot::take(guest.pid);
    let source = "
        long lancet_original_total(long a, long b);
        long total(long a, long b) { return lancet_original_total(a, b) + 1000; }
        long sum(long count) { return -count; }
    ";
    std::fs::copy(library("plan", source, PLAIN), folder.join("fix.so")).expect("a copy");
    let plan = folder.join("fix.toml");
    let path = plan.display().to_string();
    let shown = |build: &str, wait: &str| {
        let text = format!(
            "{wait}\n[[replace]]\nfunction = \"total\"\nbuild-id = \"{build}\"\nfile = \"fix.so\"\n\n\
             [[replace]]\nfunction = \"sum\"\nfile = \"fix.so\"\nnew = \"sum\"\n"
        );
        std::fs::write(&plan, text).expect("a plan");
    };
    shown("abcdef", "");
    let output = tried(guest.pid, &["--plan", &path]);
    assert_eq!(output.code(), 1, "{output:?}");
    assert!(
        output.stderr.contains("and the plan is for abcdef"),
        "{output:?}"
    );
    before.holds(guest.pid, "another build");
    let words = output.stderr.split_whitespace().collect::<Vec<_>>();
    let at = words.iter().position(|word| *word == "is").expect("is");
    let build = words[at + 1].trim_end_matches(',').to_owned();
    assert!(build.len() >= 16, "{build}");
    shown(&build[..8], "wait = \"10s\"");
    let said = done(guest.pid, &["--plan", &path]);
    assert!(
        said.contains("patch 1: total@") && said.contains("patch 2: sum@"),
        "{said}"
    );
    assert_eq!(guest.answer_to("total"), "1014");
    assert_eq!(guest.answer_to("sum"), "-10");
    done(guest.pid, &["--undo"]);
    // With its own time.
    shown(&build[..8], "wait = \"10s\"\nfor = \"1h\"");
    let watch = Watch::start(patch(guest.pid, &["--plan", &path]));
    until(LIMIT, "the patch", || {
        done(guest.pid, &["--list"])
            .contains("in force for 59m")
            .then_some(())
    });
    assert_eq!(watch.interrupt().code(), 0);
    std::fs::write(&plan, "[[replace]]\nfunctoin = \"total\"\n").expect("a plan");
    let output = tried(guest.pid, &["--plan", &path]);
    assert!(
        output.code() == 1 && output.stderr.contains("line 2: unknown field"),
        "{output:?}"
    );
    before.text_holds(guest.pid, "undone");
    guest.ends_with("answer 0");
}

#[test]
fn answers_are_objects_a_line() {
    let mut guest = guest("json", 2);
    let file = library("json", FIX, PLAIN);
    let request = request("total", &file, "total");
    let shown = objects(&done(guest.pid, &["--json", "--dry-run", &request]));
    assert_eq!(shown[0]["record"], "plan");
    assert_eq!(shown[0]["function"], "total");
    assert_eq!(shown[1]["imports"][0]["name"], "lancet_original");
    let said = objects(&done(guest.pid, &["--json", "--wait", "10s", &request]));
    assert_eq!(
        (&said[0]["record"], &said[0]["id"]),
        (&"patch".into(), &1.into())
    );
    assert!(
        said[1]["stopped_ns"]
            .as_f64()
            .is_some_and(|time| time > 0.0),
        "{said:?}"
    );
    assert_eq!(guest.answer_to("total"), "1014");
    let list = objects(&done(guest.pid, &["--json", "--list"]));
    assert_eq!(list.len(), 1);
    assert_eq!(
        (&list[0]["state"], &list[0]["pid"]),
        (&"in_force".into(), &guest.pid.into())
    );
    let said = objects(&done(guest.pid, &["--json", "--undo", "1"]));
    assert_eq!(said[0]["state"], "undone");
    // Its threads may be there just then.
    assert!(said[0]["inside"].is_array(), "{said:?}");
    let list = objects(&done(guest.pid, &["--json", "--list"]));
    assert_eq!(list[0]["state"], "undone");
    guest.ends_with("answer 0");
}

/// What cannot be done in one process is said, and done in the others.
#[test]
fn several_processes_are_done_by_themselves() {
    let (mut one, mut other) = (guest("several-1", 1), guest("several-2", 1));
    let file = library("several", FIX, PLAIN);
    let request = request("total", &file, "total");
    done(one.pid, &["--wait", "10s", &request]);
    let second = other.pid.to_string();
    let output = tried(one.pid, &["-p", &second, "--wait", "10s", &request]);
    assert_eq!(output.code(), 1, "{output:?}");
    let refused = format!("process {}: total cannot be replaced: patch 1", one.pid);
    assert!(output.stderr.contains(&refused), "{output:?}");
    assert!(output.stdout.contains("patch 1: total@"), "{output:?}");
    assert_eq!(
        [one.answer_to("total"), other.answer_to("total")],
        ["1014", "1014"]
    );
    let list = done(one.pid, &["-p", &second, "--list", "--json"]);
    let pids: Vec<Value> = objects(&list)
        .iter()
        .map(|patch| patch["pid"].clone())
        .collect();
    assert_eq!(pids, [Value::from(one.pid), other.pid.into()]);
    done(one.pid, &["-p", &second, "--undo"]);
    assert_eq!(
        [one.answer_to("total"), other.answer_to("total")],
        ["14", "14"]
    );
    // For a time, in both.
    let watch = Watch::start(patch(
        one.pid,
        &["-p", &second, "--wait", "10s", "--for", "1h", &request],
    ));
    for guest in [&mut one, &mut other] {
        until(LIMIT, "the patch", || {
            (guest.answer_to("total") == "1014").then_some(())
        });
    }
    assert_eq!(watch.interrupt().code(), 0);
    assert_eq!(
        [one.answer_to("total"), other.answer_to("total")],
        ["14", "14"]
    );
    let output = run(
        patch(one.pid, &["-p", "0", "--list"]).env("LC_ALL", "C"),
        LIMIT,
    );
    assert_eq!(output.code(), 2, "{output:?}");
    one.ends_with("answer 0");
    other.ends_with("answer 0");
}

/// A patch with a time limit reads the time stamp counter in each call, which would end this program.
#[test]
fn a_process_without_a_clock_gets_no_time_limit() {
    let program = compiled_from("locked", "c/locked.c", &["-O2", "-pthread"]);
    let guest = Guest::ready(Command::new(program).arg("inherited"));
    let before = Snapshot::take(guest.pid);
    let file = library("clockless", "int within(void) { return 0; }", PLAIN);
    let output = tried(
        guest.pid,
        &["--for", "1h", &request("locked_within", &file, "within")],
    );
    assert_eq!(output.code(), 1, "{output:?}");
    let said = "forbids itself the time stamp counter";
    assert!(output.stderr.contains(said), "{output:?}");
    before.holds(guest.pid, "refused");
}

/// One process is traced by something else when the time is over: it stays patched, which is said, and the other one is as it was.
#[test]
fn one_that_cannot_be_undone_leaves_no_other_patched() {
    if !installed("strace") {
        return skip("patch, one of two that is traced", "no strace");
    }
    let (mut one, mut other) = (guest("undone-1", 1), guest("undone-2", 1));
    let file = library("undone", FIX, PLAIN);
    let request = request("total", &file, "total");
    let second = other.pid.to_string();
    let arguments = ["-p", &second, "--wait", "10s", "--for", "1h", &request];
    let watch = Watch::start(patch(one.pid, &arguments));
    for guest in [&mut one, &mut other] {
        until(LIMIT, "the patch", || {
            (guest.answer_to("total") == "1014").then_some(())
        });
    }
    let tracer = traced_by_strace(one.pid);
    let output = watch.interrupt();
    assert_eq!(output.code(), 1, "{output:?}");
    let said = format!("process {}: process {} is already traced", one.pid, one.pid);
    assert!(output.stderr.contains(&said), "{output:?}");
    assert!(output.stdout.contains("is as it was"), "{output:?}");
    assert_eq!(other.answer_to("total"), "14");
    drop(tracer);
    assert_eq!(one.answer_to("total"), "1014");
    done(one.pid, &["--undo"]);
    assert_eq!(one.answer_to("total"), "14");
    one.ends_with("answer 0");
    other.ends_with("answer 0");
}

/// An answer that cannot be written is an error, and the patch ends with its time all the same.
#[test]
fn what_could_not_be_told_is_undone() {
    let mut guest = guest("untold", 1);
    let file = library("untold", FIX, PLAIN);
    let request = request("total", &file, "total");
    let command = patch(guest.pid, &["--wait", "10s", "--for", "100ms", &request]);
    let mut full = Command::new("sh");
    full.args(["-c", "exec \"$@\" >/dev/full", "sh"]);
    full.arg(command.get_program()).args(command.get_args());
    let output = run(&mut full, LIMIT);
    assert_eq!(output.code(), 1, "{output:?}");
    assert!(output.stderr.contains("No space left"), "{output:?}");
    let list = done(guest.pid, &["--list"]);
    assert!(list.starts_with("patch 1: undone: "), "{list}");
    assert_eq!(guest.answer_to("total"), "14");
    guest.ends_with("answer 0");
}

/// What could not be done in one of several processes is a loss in JSON.
#[test]
fn what_fails_in_one_process_is_a_loss() {
    let guest = guest("lost", 1);
    let other = "4194303";
    let output = tried(guest.pid, &["-p", other, "--list", "--json"]);
    assert_eq!(output.code(), 1, "{output:?}");
    let all = schema::records(&["patch"], &output.stdout);
    let last = all.last().expect("a record");
    let loss = &last["losses"][0];
    assert_eq!(
        (&loss["pid"], &loss["what"]),
        (&4194303.into(), &"process".into()),
        "{last}"
    );
    guest.ends_with("answer 0");
}
