//! `lancet heap --rss` of a process whose heap has become fragmented, as that of every server that has run for long.

use std::process::Command;

use crate::support::{
    Guest, LIMIT, TempDir, chosen, fixtures, installed, lancet, run, schema, skip,
};

#[test]
fn the_state_of_malloc_is_found_in_a_fragmented_heap() {
    for python in chosen("python", "fragmented") {
        let guest = Guest::script(&python, "heap/fragmented.py", &[]);
        guest.expect("ready");
        let mut command = lancet();
        command.args(["heap", "-p", &guest.pid.to_string(), "--rss", "--json"]);
        let output = run(&mut command, LIMIT);
        assert_eq!(output.code(), 0, "{python}: {output:?}");
        let records = schema::records(&["rss"], &output.stdout);
        let kinds = ["malloc_used", "malloc_free", "malloc_free_pages"];
        let bytes = kinds.map(|kind| {
            let rows = records
                .iter()
                .filter(|row| row["record"] == "row" && row["kind"] == kind);
            rows.filter_map(|row| row["rss"].as_u64()).sum::<u64>()
        });
        assert!(bytes[0] > 1 << 20, "{python}: {bytes:?} of {output:?}");
        assert!(
            bytes[1] + bytes[2] > 1 << 20,
            "{python}: {bytes:?} of {output:?}"
        );
    }
}

/// A heap that grows and changes all the time, as that of a program which leaks: a walk that meets a change goes back a little, and what has come
/// meanwhile is left out.
#[test]
fn a_heap_that_changes_meanwhile_is_read_to_its_end() {
    if !installed("cc") {
        return skip("a heap that changes", "there is no compiler");
    }
    let folder = TempDir::new("churn");
    let program = folder.join("churn");
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-o"]).arg(&program);
    let status = compiler.arg(fixtures().join("c/churn.c")).status();
    assert!(status.expect("a compiler").success());
    let guest = Guest::ready(Command::new(&program).arg("200000"));
    for look in 0..6 {
        let mut command = lancet();
        command.args(["heap", "-p", &guest.pid.to_string(), "--rss", "--json"]);
        let output = run(&mut command, LIMIT);
        assert_eq!(output.code(), 0, "look {look}: {output:?}");
        let records = schema::records(&["rss"], &output.stdout);
        let sum = |kind: Option<&str>| {
            let rows = records.iter().filter(|row| row["record"] == "row");
            let rows = rows.filter(|row| kind.is_none_or(|kind| row["kind"] == kind));
            rows.filter_map(|row| row["rss"].as_u64()).sum::<u64>()
        };
        let (used, all) = (sum(Some("malloc_used")), sum(None));
        assert!(
            used > all / 10 * 7,
            "look {look}: {used} of {all} in {output:?}"
        );
    }
}
