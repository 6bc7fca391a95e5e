//! A collector that the program has switched off: that is the first line, in each language that has one, and nobody reads of garbage
//! that the next collection frees. And resident memory that is no object's.

use super::holders::{asked, first_suspect};
use crate::support::{Guest, Interpreter, LIMIT, chosen, lancet, rubies, run, schema};

/// What the program has called, which the first line names.
fn held(interpreter: &Interpreter, script: &str, call: &str) {
    for state in ["off", "on"] {
        let guest = Guest::script(interpreter, script, &[state]);
        guest.expect("ready");
        let said = asked(guest.pid).stdout;
        let first = said.lines().nth(1).unwrap_or_default();
        let wanted = format!("the program has switched its collector off ({call}): ");
        let is_off = state == "off";
        assert_eq!(
            first.starts_with(&wanted),
            is_off,
            "{interpreter}, {state}: {said}"
        );
        assert!(
            !is_off || !said.contains("the next collection frees"),
            "{interpreter}: {said}"
        );

        let mut command = lancet();
        command.args(["heap", "--json", "-p", &guest.pid.to_string()]);
        let output = run(&mut command, LIMIT);
        let mut records = schema::records(&["heap"], &output.stdout).into_iter();
        let snapshot = records.find(|record| record["record"] == "snapshot");
        let snapshot = snapshot.expect("a record of the snapshot");
        assert_eq!(
            snapshot["collector_off"], is_off,
            "{interpreter}, {state}: {snapshot}"
        );
        assert!(guest.ends_well());
    }
}

#[test]
fn a_collector_that_is_switched_off_is_said_first() {
    for ruby in rubies("the collector is off") {
        held(&ruby, "heap/collector.rb", "GC.disable");
    }
    for python in chosen("python", "the collector is off") {
        held(&python, "heap/collector.py", "gc.disable");
    }
    for php in chosen("php", "the collector is off") {
        held(&php, "heap/collector.php", "gc_disable");
    }
}

/// The guest has 100 MiB that no object of it knows of: a private mapping that is written to.
#[test]
fn objects_that_explain_little_of_the_memory_say_so_first() {
    for python in chosen("python", "memory of no object") {
        let guest = Guest::script(&python, "heap/beside.py", &[]);
        guest.expect("ready");
        let said = asked(guest.pid).stdout;
        let first = said.lines().nth(1).unwrap_or_default();
        assert!(
            first.starts_with("all objects together are "),
            "{python}: {said}"
        );
        assert!(first.contains("lancet heap --rss says"), "{python}: {said}");
        assert!(guest.ends_well());
    }
}

/// Garbage that nothing frees is the first suspect, with a cycle that keeps it: of a Python whose collector is off, of a Perl always.
#[test]
fn garbage_that_nothing_frees_is_the_first_suspect() {
    let first = |interpreter: &Interpreter, script: &str, parts: &[&str]| {
        let guest = Guest::script(interpreter, script, &[]);
        guest.expect("ready");
        let suspect = first_suspect(&asked(guest.pid));
        assert!(
            suspect.starts_with("garbage takes "),
            "{interpreter}: {suspect}"
        );
        for part in parts {
            assert!(
                suspect.contains(part),
                "{interpreter}: no {part} in {suspect}"
            );
        }
        assert!(guest.ends_well());
    };
    for python in chosen("python", "garbage that nothing frees") {
        let parts = [
            "which nothing frees while the collector is switched off: mostly ",
            " kept by 20,000 cycles",
            ", a cycle: ",
            "cart",
            "session",
        ];
        first(&python, "heap/circles.py", &parts);
    }
    for perl in chosen("perl", "garbage that nothing frees") {
        let parts = [
            "which nothing frees: mostly ",
            " kept by 5,000 cycles",
            ", a cycle: ",
            "$walk",
        ];
        first(&perl, "heap/circles.pl", &parts);
    }
}

/// A Python with many modules and no leak: their tables are nobody's suspects, and what to do is said.
#[test]
fn the_tables_of_modules_and_classes_are_no_suspects() {
    for python in chosen("python", "many modules") {
        let guest = Guest::script(&python, "heap/circles.py", &["modules"]);
        guest.expect("ready");
        let said = asked(guest.pid).stdout;
        let none = said.lines().find(|line| line.starts_with("no suspect: "));
        let none = none.unwrap_or_else(|| panic!("{python}: {said}"));
        assert!(none.contains("lancet heap --diff EARLIER LATER"), "{none}");
        assert!(guest.ends_well());
    }
}
