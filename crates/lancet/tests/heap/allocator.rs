//! `--rss --ask-malloc`: what a copy of the process says of its allocator is what the process says itself, and the process has not noticed.

use std::collections::HashMap;
use std::path::Path;

use serde_json::Value;

use super::unseen::children;
use crate::support::{
    Guest, Interpreter, LIMIT, Output, Snapshot, fixtures, lancet, run, say, schema, skip,
};

/// Where Debian has them.
const LIBRARIES: &str = "/usr/lib/x86_64-linux-gnu";
/// What the program takes for reading a line and writing its answers, and what that frees, in bytes.
const APART: u64 = 1 << 20;

fn asked(pid: i32) -> Output {
    let mut command = lancet();
    command.args(["heap", "-p", &pid.to_string(), "--rss", "--ask-malloc"]);
    run(command.arg("--json"), LIMIT)
}

fn records(output: &Output) -> Vec<Value> {
    schema::records(&["rss"], &output.stdout)
}

/// A Ruby with this library in the place of malloc; `None`, and a printed skip, where it is not installed.
fn with(library: &str) -> Option<Guest> {
    let path = format!("{LIBRARIES}/{library}");
    if !Path::new(&path).exists() {
        skip("heap allocator", format_args!("{library} is not installed"));
        return None;
    }
    let mut command = Interpreter::system("ruby").command();
    command.arg(fixtures().join("ruby/heap/allocator.rb"));
    command.env("LD_PRELOAD", path);
    let guest = Guest::start(library, command);
    guest.expect("ready");
    guest.settle('S');
    Some(guest)
}

/// What the program says of its allocator.
fn own(guest: &mut Guest) -> HashMap<String, u64> {
    guest.tell("");
    let mut values = HashMap::new();
    while let Some(line) = guest.line().filter(|line| line != "end") {
        let (name, value) = line.split_once(' ').expect("two words");
        values.insert(name.to_owned(), value.parse().expect("a number"));
    }
    values
}

/// Asks, and holds the rows against each other and against what the allocator has said; that.
fn told(guest: &Guest, name: &str) -> Value {
    let before = Snapshot::take(guest.pid);
    let output = asked(guest.pid);
    assert_eq!(output.code(), 0, "{name}: {output:?}");
    before.holds(guest.pid, "a copy that asked its allocator");
    assert_eq!(children(guest.pid), "", "{name}");
    let records = records(&output);
    let all = |record: &'static str| {
        let of = move |one: &&Value| one["record"] == record;
        records.iter().filter(of)
    };
    let rss = |row: &Value| row["rss"].as_u64().expect("a number");
    let ledger = all("ledger").next().expect("one");
    assert_eq!(all("row").map(rss).sum::<u64>(), rss(ledger), "{name}");
    assert!(
        all("row").all(|row| row["kind"] != "other_allocator"),
        "{name}: nothing of it is left that was not looked into: {records:?}"
    );
    let found = all("allocator").next().expect("it has answered").clone();
    assert_eq!(found["name"], name);
    let row = |kind: &str| -> u64 { all("row").filter(|row| row["kind"] == kind).map(rss).sum() };
    let said = |field: &str| found[field].as_u64().expect("a number");
    assert_eq!(row("other_allocator_free"), said("free"), "{name}");
    assert_eq!(
        row("other_allocator_free_pages"),
        said("free_pages"),
        "{name}"
    );
    // Some of what is in use was never touched.
    let used = row("other_allocator_used");
    assert!(
        used <= said("used") && used * 10 > said("used") * 8,
        "{name}: {used} {found}"
    );
    found
}

fn near(found: &Value, field: &str, own: u64) {
    let said = found[field].as_u64().expect("a number");
    say(format_args!(
        "{} {field}: {said}, its own {own}",
        found["name"]
    ));
    assert!(said.abs_diff(own) <= APART, "{field}: {own} {found}");
}

#[test]
fn jemalloc_says_in_a_copy_what_it_says_in_the_program() {
    let Some(mut guest) = with("libjemalloc.so.2") else {
        return;
    };
    let found = told(&guest, "jemalloc");
    let own = own(&mut guest);
    let cached = own["stats.arenas.4096.tcache_bytes"];
    near(&found, "used", own["stats.allocated"] - cached);
    let between = own["stats.active"] - own["stats.allocated"];
    near(&found, "free", between + cached);
    let pages = own["stats.arenas.4096.pdirty"] + own["stats.arenas.4096.pmuzzy"];
    near(&found, "free_pages", pages * 4096);
    near(&found, "records", own["stats.metadata"]);
    assert!(
        own["stats.allocated"] > 10 << 20,
        "it has something: {own:?}"
    );
    assert!(guest.ends_well());
}

#[test]
fn tcmalloc_says_in_a_copy_what_it_says_in_the_program() {
    let Some(mut guest) = with("libtcmalloc_minimal.so.4") else {
        return;
    };
    let found = told(&guest, "tcmalloc");
    let own = own(&mut guest);
    near(&found, "used", own["generic.current_allocated_bytes"]);
    near(&found, "free_pages", own["tcmalloc.pageheap_free_bytes"]);
    let cached = [
        "current_total_thread_cache_bytes",
        "central_cache_free_bytes",
        "transfer_cache_free_bytes",
    ];
    near(
        &found,
        "free",
        cached
            .map(|name| own[&format!("tcmalloc.{name}")])
            .iter()
            .sum(),
    );
    assert!(guest.ends_well());
}

/// A Perl is copied where it stands, and may have a lock of the allocator's then; one that waits for a line has none.
#[test]
fn the_allocator_of_a_perl_is_asked_too_and_glibcs_is_not() {
    let path = format!("{LIBRARIES}/libjemalloc.so.2");
    if !Path::new(&path).exists() {
        return skip("heap allocator", "libjemalloc.so.2 is not installed");
    }
    let start = |preload: Option<&str>| {
        let mut command = Interpreter::system("perl").command();
        command.args([
            "-e",
            "$| = 1; @k = map { 'x' x (100 + $_ % 50) } 1 .. 100_000; print \"ready\\n\"; <STDIN>",
        ]);
        if let Some(library) = preload {
            command.env("LD_PRELOAD", library);
        }
        let guest = Guest::start("perl", command);
        guest.expect("ready");
        guest.settle('S');
        guest
    };
    let mut guest = start(Some(&path));
    let found = told(&guest, "jemalloc");
    assert!(found["used"].as_u64() > Some(10 << 20), "{found}");
    guest.tell("");
    assert!(guest.ends_well());
    let mut guest = start(None);
    let output = asked(guest.pid);
    assert_eq!(output.code(), 4, "{output:?}");
    let note = "what the allocator has in use: no library of the process has taken malloc's place: leave --ask-malloc away";
    assert!(output.stdout.contains(note), "{output:?}");
    guest.tell("");
    assert!(guest.ends_well());
}
