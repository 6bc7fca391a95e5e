//! What is asked of a file: answers in each format, what is new between two, and one line for what was wrong.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use heap::{About, Builder, EdgeName, Object, Role, RootKind, RootName};
use serde_json::{Value, json};

use crate::support::{LIMIT, Output, TempDir, lancet, run};

/// Writes the snapshot of a process whose `$cache` holds so many orders; `lost`: one reference leads nowhere.
pub fn write(path: &Path, orders: u64, lost: bool) {
    let mut builder = Builder::new(About {
        pid: 4242,
        language: "some".into(),
        // As many nanoseconds after the watch began, so that the orders behind it are new to this snapshot.
        taken_at: orders,
        ..About::default()
    });
    let (map, instance) = (
        builder.kind(b"MAP", Role::Map),
        builder.kind(b"OBJECT", Role::Instance),
    );
    let [cache, order, file] =
        ["$cache", "Order", "order.src"].map(|text| builder.text(text.as_bytes()));
    builder.object(Object {
        bytes: 100,
        birth: 1,
        ..Object::new(0x1000, map)
    });
    for number in 0..orders + u64::from(lost) {
        builder.edge(0x2000 + number * 40, EdgeName::Value(None));
    }
    for number in 0..orders {
        let site = Some((file, 31));
        builder.object(Object {
            class: Some(order),
            bytes: 40,
            birth: 1 + number,
            site,
            ..Object::new(0x2000 + number * 40, instance)
        });
    }
    builder.root(0x1000, RootName::named(RootKind::Global, cache));
    let mut bytes = Vec::new();
    builder.finish().write(&mut bytes).expect("memory");
    fs::write(path, bytes).expect("a new file");
}

fn asked(words: &[&str]) -> Output {
    let mut command = lancet();
    run(command.arg("heap").args(words), LIMIT)
}

#[test]
fn stacks_have_objects_and_bytes() {
    let folder = TempDir::new("heap-file");
    let file = folder.join("a.heap");
    write(&file, 5000, false);
    let output = asked(&[file.to_str().expect("UTF-8"), "--format", "firefox"]);
    let profile: Value = serde_json::from_str(&output.stdout).expect("JSON");
    for (thread, name, weights) in [
        // The last is the end of the one before: the reader shows each up to the next.
        (0, "inuse_objects", [1, 5_000, 0]),
        (1, "inuse_space", [100, 200_000, 0]),
    ] {
        let thread = &profile["threads"][thread];
        assert_eq!(thread["name"], name);
        assert_eq!(thread["samples"]["weight"], json!(weights), "{name}");
    }
    assert_eq!(profile["meta"]["initialSelectedThreads"], json!([1]));
}

#[test]
fn a_file_is_answered_in_each_format() {
    let folder = TempDir::new("heap-file");
    let file = folder.join("a.heap");
    write(&file, 5000, false);
    let name = file.to_str().expect("UTF-8");
    let output = asked(&[name]);
    assert_eq!(output.code(), 0, "{output:?}");
    let suspect =
        "MAP @global $cache retains 195.4 KiB (100 %): 5,000 × Order, made at order.src:31";
    assert!(output.stdout.contains(suspect), "{}", output.stdout);
    let output = asked(&[name, "--path", "Order"]);
    let ways = "5,000 objects, 195.3 KiB, held so:\n  global $cache MAP → […] Order\n";
    assert_eq!(output.stdout, ways);
    let output = asked(&[name, "--path", "0x2028"]);
    assert!(
        output
            .stdout
            .starts_with("Order 0x2028: 40 B itself, retains 40 B\nmade at order.src:31\n"),
        "{output:?}"
    );
    for (format, begin) in [
        ("json", "{\"record\":\"process\","),
        ("html", "<!doctype html>"),
        ("folded", "MAP (global $cache) 100\n"),
        ("dump_all", "{\"type\":\"ROOT\", \"root\":\"global_tbl\""),
        ("heapsnapshot", "{\"snapshot\":{\"meta\":"),
    ] {
        let written = folder.join(format);
        let output = asked(&[
            name,
            "--format",
            format,
            "-o",
            written.to_str().expect("UTF-8"),
        ]);
        assert_eq!(
            (output.code(), output.stdout.as_str()),
            (0, ""),
            "{output:?}"
        );
        let text = fs::read_to_string(&written).expect("UTF-8");
        assert!(text.starts_with(begin), "{format}: {text:.200}");
        let mode = written
            .metadata()
            .expect("it is there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600, "others may not read it");
    }
}

#[test]
fn what_is_new_and_who_holds_it() {
    let folder = TempDir::new("heap-diff");
    let [earlier, later] = ["a.heap", "b.heap"].map(|name| folder.join(name));
    write(&earlier, 5000, false);
    write(&later, 5100, false);
    let names = [&earlier, &later].map(|path| path.to_str().expect("UTF-8"));
    let output = asked(&["--diff", names[0], names[1]]);
    assert_eq!(output.code(), 0, "{output:?}");
    let sums = "\nnew and living: 100 objects, 3.9 KiB; gone: 0 objects, 0 B\n";
    let holder = "\nMAP @global $cache holds 100 new objects, 3.9 KiB, most of it Order, most made at order.src:31\n";
    assert!(
        output.stdout.contains(sums) && output.stdout.contains(holder),
        "{}",
        output.stdout
    );
}

#[test]
fn what_was_wrong_is_one_line() {
    let folder = TempDir::new("heap-wrong");
    let file = folder.join("a.heap");
    write(&file, 500, true);
    let name = file.to_str().expect("UTF-8");
    let output = asked(&[name]);
    // One reference leads nowhere: that is said, and in the exit code.
    let note = "\nnote: references to addresses at which no object was found: 1\n";
    assert_eq!(output.code(), 4, "{output:?}");
    assert!(output.stdout.contains(note), "{}", output.stdout);
    let whole = fs::read(&file).expect("written");
    let cut = folder.join("cut.heap");
    fs::write(&cut, &whole[..whole.len() / 2]).expect("a new file");
    let cut = cut.to_str().expect("UTF-8");
    for (words, says, code) in [
        (
            vec![cut],
            "the end of the file is missing: copy it again, or make it anew",
            1,
        ),
        (vec!["/etc/passwd"], "it is no heap snapshot of lancet's", 1),
        (vec!["/"], "it is no regular file", 1),
        (vec!["/nowhere"], "No such file or directory", 1),
        (
            vec![name, "--path", "Nothing"],
            "no living object is a `Nothing`",
            1,
        ),
        (
            vec![name, "--path", "0x99"],
            "there is no object at 0x99",
            1,
        ),
        (
            vec!["--diff", name, name, "--format", "html"],
            "--diff has no --format html: there are table, json, csv, markdown",
            2,
        ),
        (
            vec![name, "--live"],
            "--live is for a terminal, and standard input or output is none",
            1,
        ),
        (vec![name, "--live", "--json"], "cannot be used with", 2),
        (
            vec![name, "--rss"],
            "the snapshot does not say what its memory was used for",
            1,
        ),
        (vec!["--diff", name], "", 2),
        (vec![], "missing", 2),
    ] {
        let output = asked(&words);
        assert_eq!(output.code(), code, "{words:?}: {output:?}");
        assert_eq!(output.stdout, "", "{words:?}");
        assert!(output.stderr.contains(says), "{words:?}: {}", output.stderr);
        assert_eq!(
            output.stderr.trim_end().lines().count(),
            1,
            "{words:?}: {}",
            output.stderr
        );
    }
}
