//! `lancet heap -p PID --rss`: the rows add up to what the kernel counts, and are those that the allocator and the VM count themselves.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::taken::taken;
use crate::support::{
    Guest, Interpreter, LIMIT, Output, Snapshot, TempDir, chosen, fixtures, lancet, refused,
    rubies, run, say, schema, until,
};

/// Runs `lancet heap -p PID --rss --json`.
fn asked(pid: i32) -> Output {
    let mut command = lancet();
    command.args(["heap", "-p", &pid.to_string(), "--rss", "--json"]);
    run(&mut command, LIMIT)
}

/// The records of a ledger that must be whole.
struct Records(Vec<Value>);

impl Records {
    /// Looks, and holds the sum of the rows against the kernel's.
    fn of(pid: i32) -> Self {
        let output = asked(pid);
        assert_eq!(output.code(), 0, "{output:?}");
        let records = Records(schema::records(&["rss"], &output.stdout));
        let counted = rollup(pid);
        let sum = records.sum("row", "rss");
        assert!(
            sum.abs_diff(counted) * 200 <= counted,
            "{sum} is not {counted} within 0.5 %"
        );
        assert_eq!(
            sum,
            records.one("ledger")["rss"].as_u64().expect("a number")
        );
        let changed: u64 = records.kind("changed");
        assert!(changed * 200 <= counted, "{changed} of {counted} in no row");
        records
    }

    fn all(&self, record: &str) -> impl Iterator<Item = &Value> {
        self.0.iter().filter(move |value| value["record"] == record)
    }

    fn one(&self, record: &str) -> &Value {
        self.all(record)
            .next()
            .unwrap_or_else(|| panic!("no {record}: {:?}", self.0))
    }

    fn sum(&self, record: &str, field: &str) -> u64 {
        self.all(record)
            .map(|value| value[field].as_u64().expect("a number"))
            .sum()
    }

    /// Bytes in memory of all rows of a kind.
    fn kind(&self, kind: &str) -> u64 {
        let rows = self.all("row").filter(|row| row["kind"] == kind);
        rows.map(|row| row["rss"].as_u64().expect("a number")).sum()
    }

    fn has_finding(&self, what: &str) -> bool {
        self.all("finding").any(|finding| finding["what"] == what)
    }
}

/// What the kernel counts as resident.
fn rollup(pid: i32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).expect("it lives");
    let line = text.lines().find_map(|line| line.strip_prefix("Rss:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kib.and_then(|kib| kib.trim().parse::<u64>().ok())
        .expect("a number")
        * 1024
}

/// `NAME NUMBER` lines.
fn numbers(lines: &[String]) -> HashMap<String, u64> {
    let pairs = lines.iter().filter_map(|line| line.split_once(' '));
    pairs
        .filter_map(|(name, number)| Some((name.to_owned(), number.parse().ok()?)))
        .collect()
}

/// The fixture with several arenas, built so.
fn built(folder: &TempDir, name: &str, options: &[&str]) -> PathBuf {
    let program = folder.join(name);
    let status = Command::new("cc")
        .args(["-pthread", "-O1", "-o"])
        .arg(&program)
        .arg(fixtures().join("c/arenas.c"))
        .args(options)
        .status();
    assert!(status.expect("a compiler").success(), "{name}");
    program
}

fn arenas(program: &Path) -> Guest {
    Guest::asleep(Command::new(program).args(["5", "40000"]))
}

#[test]
fn arenas_hold_what_malloc_says_they_hold() {
    let folder = TempDir::new("arenas");
    let forms: [(&str, &[&str]); 3] = [
        ("linked", &[]),
        ("stripped", &["-s"]),
        ("static", &["-static", "-s"]),
    ];
    for (name, options) in forms {
        let mut guest = arenas(&built(&folder, name, options));
        let said = numbers(&guest.preface);
        let before = Snapshot::take(guest.pid);
        let resident = rollup(guest.pid);
        let records = Records::of(guest.pid);
        before.holds(guest.pid, "a ledger");
        assert_eq!(
            rollup(guest.pid),
            resident,
            "{name}: no page was brought into memory"
        );
        let malloc = records.one("malloc");
        assert_eq!(malloc["arenas"], 6, "{name}");
        assert_eq!(records.sum("arena", "unread"), 0, "{name}");
        assert_eq!(records.sum("arena", "system"), said["arena"], "{name}");
        assert_eq!(records.sum("arena", "fastbins"), said["fast"], "{name}");
        assert!(
            said["fast"] > 0 && records.sum("arena", "cached") > 0,
            "{name}: they are there"
        );
        for field in ["mapped_chunks", "mapped_chunks_said"] {
            assert_eq!(malloc[field], said["mapped"], "{name} {field}");
        }
        for field in ["mapped_bytes", "mapped_bytes_said"] {
            assert_eq!(malloc[field], said["mapped-bytes"], "{name} {field}");
        }
        let free: u64 = ["free", "fastbins", "top"]
            .iter()
            .map(|field| records.sum("arena", field))
            .sum();
        // It has made a buffer for its standard input since.
        assert!(
            said["free"].abs_diff(free) <= 8192,
            "{name}: {free} {said:?}"
        );
        assert!(records.has_finding("free_in_arenas"), "{name}");
        let stacks = records
            .all("thread")
            .filter(|thread| thread["name"] == "filler");
        assert_eq!(stacks.count(), 5, "{name}: each thread has a stack");
        trimmed(&mut guest, &records, name);
    }
}

/// What would be given back is what `malloc_trim` gives back.
fn trimmed(guest: &mut Guest, records: &Records, name: &str) {
    let promised = records.sum("arena", "returnable");
    let before = rollup(guest.pid);
    guest.tell("trim");
    guest.expect("returned");
    let returned = before.saturating_sub(rollup(guest.pid));
    say(format_args!(
        "{name}: {promised} B promised, {returned} B returned"
    ));
    assert!(
        promised.abs_diff(returned) * 50 <= promised,
        "{name}: {promised} {returned}"
    );
    let left = Records::of(guest.pid).sum("arena", "returnable");
    assert!(
        left * 20 <= promised,
        "{name}: {left} of {promised} are left"
    );
}

#[test]
fn a_heap_holds_what_the_vm_says_it_holds() {
    for ruby in rubies("ledger") {
        let mut command = ruby.command();
        command.arg(fixtures().join("ruby/heap/sparse.rb"));
        let mut guest = Guest::ready(&mut command);
        let said = numbers(&guest.preface);
        let before = Snapshot::take(guest.pid);
        let records = Records::of(guest.pid);
        before.holds(guest.pid, "a ledger");
        let heap = records.one("vm_heap");
        let number = |field: &str| heap[field].as_u64().expect("a number");
        assert_eq!(number("pages"), said["pages"], "{ruby}");
        assert_eq!(number("unread_pages"), 0, "{ruby}");
        // It has printed since.
        assert!(
            number("used").abs_diff(said["live"]) < 200,
            "{ruby}: {heap} {said:?}"
        );
        // Empty slots of pages with nothing in them are not among `free` here.
        assert!(
            number("free") <= said["free"] + 200,
            "{ruby}: {heap} {said:?}"
        );
        let slots = said["live"] + said["free"];
        assert!(
            number("used") + number("free") <= slots && number("empty_pages") * 4 < number("pages"),
            "{ruby}"
        );
        assert!(number("fibers") >= 5, "{ruby}: {heap}");
        assert!(records.has_finding("sparse_heap"), "{ruby}");
        let rows: u64 = [
            "vm_heap_used",
            "vm_heap_free",
            "vm_heap_empty",
            "vm_heap_records",
        ]
        .iter()
        .map(|kind| records.kind(kind))
        .sum();
        // What is in memory of the heap is at most all of it, and nearly that.
        assert!(
            rows <= number("bytes") && rows * 10 >= number("bytes") * 9,
            "{ruby}: {rows} {heap}"
        );
        assert_eq!(
            records.one("malloc")["arenas"],
            4,
            "{ruby}: one for each thread"
        );
        assert_eq!(records.sum("arena", "unread"), 0, "{ruby}");
        guest.tell("");
        guest.ends_with("answer 9008");
    }
}

/// The heap of a PHP, whose own count of what is in use is exact.
#[test]
fn chunks_hold_what_php_says_they_hold() {
    for php in chosen("php", "ledger") {
        let mut command = php.command();
        command.arg(fixtures().join("php/heap/sparse.php"));
        let mut guest = Guest::asleep(&mut command);
        let said = numbers(&guest.preface);
        let records = Records::of(guest.pid);
        let heap = records.one("vm_heap");
        let number = |field: &str| heap[field].as_u64().expect("a number");
        assert_eq!(number("bytes"), said["real"], "{php} {heap}");
        assert_eq!(number("unread_pages"), 0, "{php}");
        // It has printed since.
        assert!(
            number("used_bytes").abs_diff(said["used"]) <= 16 << 10,
            "{php} {heap} {said:?}"
        );
        assert!(
            number("free") > 100_000 && records.has_finding("sparse_heap"),
            "{php} {heap}"
        );
        guest.tell("");
        guest.ends_with("answer 5247880");
    }
}

/// What `malloc_info` has said: of each arena what it has from the kernel, what is in fastbins, and what else is free.
fn malloc_info(path: &Path) -> Vec<[u64; 3]> {
    let text = fs::read_to_string(path).expect("it was written");
    let heaps = text.split("<heap nr=").skip(1);
    let size = |heap: &str, tag: &str| {
        let line = heap.lines().find(|line| line.starts_with(tag));
        let size = line.and_then(|line| line.rsplit_once("size=\"")?.1.split('"').next());
        size.map_or(0, |size| size.parse().expect("a number"))
    };
    let tags = [
        "<system type=\"current\"",
        "<total type=\"fast\"",
        "<total type=\"rest\"",
    ];
    heaps.map(|heap| tags.map(|tag| size(heap, tag))).collect()
}

#[test]
fn small_objects_and_arenas_of_every_c_library_are_as_they_say_themselves() {
    for python in chosen("python", "ledger") {
        let folder = TempDir::new(&format!("ledger-{}", python.version));
        let info = folder.join("malloc");
        let mut command = python.command();
        command
            .arg(fixtures().join("python/heap/sparse.py"))
            .arg(&info);
        let mut guest = Guest::asleep(&mut command);
        let said = until(LIMIT, "what it says of its allocator", || {
            let text = guest.complaints_whole();
            text.contains("arena alignment").then_some(text)
        });
        let said = |name: &str| -> u64 {
            let line = said
                .lines()
                .find(|line| line.contains(name))
                .unwrap_or_else(|| panic!("{name}: {said}"));
            let number = line.rsplit('=').next().unwrap_or_default().replace(',', "");
            number.trim().parse().expect("a number")
        };
        let resident = rollup(guest.pid);
        let records = Records::of(guest.pid);
        assert_eq!(
            rollup(guest.pid),
            resident,
            "{python}: no page was brought into memory"
        );
        let heap = records.one("vm_heap");
        // A few objects have gone since, with what printed it.
        let is_nearly = |field: &str, said: u64| {
            let found = heap[field].as_u64().expect("a number");
            let differs = found.abs_diff(said);
            assert!(
                differs <= 16 << 10,
                "{python}: {field} is {found}, and not {said}"
            );
        };
        is_nearly("used_bytes", said("bytes in allocated blocks"));
        is_nearly("free_bytes", said("bytes in available blocks"));
        is_nearly("empty_bytes", said("unused pools"));
        assert_eq!(heap["unread_pages"], 0, "{python}");
        assert!(records.has_finding("sparse_heap"), "{python}");
        arenas_are(&records, &malloc_info(&info), &python.to_string());
        guest.tell("");
        guest.ends_with("answer 5000");
    }
}

/// Holds arenas against what `malloc_info` has said of them. Of the first a little has changed since, and the order is the same.
fn arenas_are(records: &Records, said: &[[u64; 3]], name: &str) {
    assert_eq!(records.sum("arena", "unread"), 0, "{name}");
    let number = |arena: &Value, field: &str| arena[field].as_u64().expect("a number");
    let arenas: Vec<&Value> = records.all("arena").collect();
    assert_eq!(arenas.len(), said.len(), "{name}: {said:?}");
    assert!(arenas.len() >= 4, "{name}: one for each thread");
    for (arena, [system, fast, free]) in arenas.iter().zip(said) {
        assert_eq!(number(arena, "system"), *system, "{name} {arena}");
        // It takes the lowest bit of each size for a byte (`chunksize_nomask`, in every version).
        let found = number(arena, "free") + number(arena, "free_chunks") + number(arena, "top");
        let may_differ = if number(arena, "number") == 0 {
            32 << 10
        } else {
            0
        };
        assert!(found.abs_diff(*free) <= may_differ, "{name} {arena} {free}");
        assert!(
            number(arena, "fastbins").abs_diff(*fast) <= may_differ,
            "{name} {arena} {fast}"
        );
    }
}

/// A snapshot has the ledger too, and the page shows it.
#[test]
fn a_snapshot_says_what_its_resident_memory_was_used_for() {
    let folder = TempDir::new("ledger-kept");
    let ruby = Interpreter::system("ruby");
    let mut command = ruby.command();
    let guest = Guest::ready(command.arg(fixtures().join("ruby/heap/sparse.rb")));
    let file = folder.join("heap");
    let (snapshot, _) = taken(guest.pid, &file);
    let memory = &snapshot.about().memory;
    let sum: u64 = memory.rows.iter().map(|row| row.rss).sum();
    let counted = rollup(guest.pid);
    assert!(sum.abs_diff(counted) * 50 <= counted, "{sum} {counted}");
    assert!(
        memory
            .findings
            .iter()
            .any(|text| text.contains("Ruby heap")),
        "{memory:?}"
    );
    let has = |part: &str| memory.rows.iter().any(|row| row.text.contains(part));
    assert!(
        has("Ruby heap: objects") && has("lancet's own agent"),
        "{memory:?}"
    );
    assert!(
        !has("code without a file"),
        "this Ruby compiles nothing: {memory:?}"
    );
    let mut page = lancet();
    page.arg("heap").arg(&file).args(["--format", "html"]);
    let output = run(&mut page, LIMIT);
    assert!(
        output.stdout.contains("\"Ruby heap: objects\"") && output.code() == 0,
        "{}",
        output.stderr
    );
    // As a table and as JSON, whose rows add up too.
    let mut table = lancet();
    let output = run(table.arg("heap").arg(&file).arg("--rss"), LIMIT);
    assert!(
        output.stdout.contains("  Ruby heap: objects\n") && output.code() == 0,
        "{output:?}"
    );
    let whose = [
        " that it has from malloc, ",
        "  STRING\n",
        "  of none of these objects: ",
    ];
    assert!(
        whose.iter().all(|part| output.stdout.contains(part)),
        "{output:?}"
    );
    let mut json = lancet();
    let output = run(json.arg("heap").arg(&file).args(["--rss", "--json"]), LIMIT);
    let records = schema::records(&["rss"], &output.stdout);
    let rows = records.iter().filter(|record| record["record"] == "row");
    let said: u64 = rows.filter_map(|row| row["rss"].as_u64()).sum();
    assert_eq!((said, records[1]["rss"].as_u64()), (sum, Some(sum)));
    // Large strings alone have 20 MB, and what is nobody's is no more than a small part in a program that has loaded nothing.
    let allocated = records
        .iter()
        .filter(|record| record["record"] == "allocated");
    let of = |record: &Value| record["in_malloc"].as_u64().expect("a number");
    let (rest, kinds): (Vec<_>, Vec<_>) = allocated.partition(|record| record["kind"].is_null());
    let strings: u64 = { kinds.iter() }
        .filter(|record| record["kind"] == "STRING")
        .map(|record| of(record))
        .sum();
    assert!((20_000_000..24_000_000).contains(&strings), "{kinds:?}");
    let all: u64 = kinds.iter().chain(&rest).map(|record| of(record)).sum();
    assert_eq!(memory.malloc, Some(all));
    assert!(
        rest.len() == 1 && of(rest[0]) * 3 < all,
        "{rest:?} of {all}"
    );
}

#[test]
fn what_runs_is_looked_at_while_it_runs() {
    let code = "Thread.new { loop { Array.new(1000) { |n| 'x' * (n * 7 % 3000) } } }; $stdout.sync = true; puts 'ready'; \
                kept = {}; n = 0; loop { kept[n % 5000] = 'y' * (n * 31 % 2000); n += 1 }";
    let guest = Guest::ready(Command::new("ruby").args(["-e", code]));
    for round in 0..5 {
        let output = asked(guest.pid);
        // What it changed under our eyes is told.
        assert!(matches!(output.code(), 0 | 4), "{round}: {output:?}");
        let records = Records(schema::records(&["rss"], &output.stdout));
        assert_eq!(
            records.sum("row", "rss"),
            records.one("ledger")["rss"].as_u64().expect("a number")
        );
        assert!(
            records.kind("vm_heap_used") > 0 && records.kind("malloc_used") > 0,
            "{round}: {output:?}"
        );
    }
}

#[test]
fn what_cannot_be_looked_at_or_written_is_one_line() {
    let mut gone = lancet();
    gone.args(["heap", "-p", "4194303", "--rss"]);
    refused(
        gone,
        "lancet: there is no process 4194303: look it up again, for instance with pgrep -af NAME",
    );
    let guest = Guest::asleep(Command::new("sh").args(["-c", "echo ready; exec sleep 100"]));
    let mut page = lancet();
    let pid = guest.pid.to_string();
    page.args(["heap", "-p", &pid, "--rss", "--format", "html"]);
    let page = run(&mut page, LIMIT);
    assert_eq!(page.code(), 2, "{page:?}");
    let says = "--rss has no --format html: there are table, json, csv, markdown";
    assert!(page.stderr.contains(says), "{page:?}");
    // A program without a VM has a ledger, too.
    Records::of(guest.pid);
}
