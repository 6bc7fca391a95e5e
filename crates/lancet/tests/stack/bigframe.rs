//! The 2009 case: an extension of ours with a frame of 786,816 bytes that calls back into Ruby.

use std::path::PathBuf;
use std::process::Command;

use super::output::{folder, records, stack, text};
use crate::support::{Guest, Interpreter, assert_shown, fixtures, rubies};

/// What `sub $0xc0178,%rsp` and the return address made then.
const BYTES: u64 = 786_816;

/// Builds the extension, stripped, and says in which folder it is; `None` without Ruby's headers.
fn build(name: &str, options: &[&str]) -> Option<PathBuf> {
    let ask = "print RbConfig::CONFIG.values_at('rubyhdrdir', 'rubyarchhdrdir').join(' ')";
    let headers = Command::new("ruby").args(["-e", ask]).output().ok()?;
    let headers = String::from_utf8(headers.stdout).expect("paths");
    let headers: Vec<String> = headers.split(' ').map(|path| format!("-I{path}")).collect();
    let there = |path: &String| std::path::Path::new(&path[2..]).join("ruby.h").exists();
    if !headers.iter().any(there) {
        println!("SKIPPED: Ruby's headers (ruby-dev) are not installed");
        return None;
    }
    let folder = folder(name);
    let built = Command::new("gcc")
        .args(["-shared", "-fPIC", "-O2", "-s", "-w"])
        .args(headers)
        .args(options)
        .arg(fixtures().join("c/bigframe/bigframe.c"))
        .arg("-o")
        .arg(folder.join("bigframe.so"))
        .output()
        .expect("gcc");
    assert!(built.status.success(), "{built:?}");
    Some(folder)
}

fn guest(folder: &std::path::Path) -> Guest {
    let script = "require 'bigframe'; BigFrame.run { puts 'ready'; STDOUT.flush; STDIN.read }";
    Guest::asleep(
        Command::new("ruby")
            .arg("-I")
            .arg(folder)
            .args(["-e", script]),
    )
}

#[test]
fn it_is_named_first_on_disk_and_alive() {
    let Some(folder) = build("bigframe", &[]) else {
        return;
    };
    let library = folder.join("bigframe.so");
    let frames = records(
        &stack(&["--json", library.to_str().expect("a path")]),
        "function",
    );
    assert_eq!(frames[0]["bytes"], BYTES, "{}", frames[0]);

    let guest = guest(&folder);
    let said = text(&stack(&[
        "--native",
        "--bytes",
        "-p",
        &guest.pid.to_string(),
    ]));
    let warning = said.lines().nth(1).expect("a second line");
    assert_shown(
        warning,
        &[(&guest.pid.to_string(), "PID")],
        "warning: bigframe.so: 0xHEX+0xHEX, calls rb_yield has a frame of 786,816 bytes on the stack of thread PID; every collection scans it",
    );

    let output = stack(&["--json", "-p", &guest.pid.to_string()]);
    let frames = records(&output, "frame");
    let at = frames
        .iter()
        .position(|frame| frame["bytes"] == BYTES)
        .expect("the frame");
    // Below it the block that it calls, above it the script that called it.
    let lines = |frames: &[serde_json::Value]| -> Vec<String> {
        let scripts = frames
            .iter()
            .flat_map(|frame| frame["scripts"].as_array().cloned().unwrap_or_default());
        scripts
            .map(|script| script["function"].as_str().unwrap_or("").to_owned())
            .collect()
    };
    assert_eq!(lines(&frames[..at]), ["block in <main>"]);
    assert_eq!(lines(&frames[at..]), ["<main>"]);
    let stacks = records(&output, "stack");
    assert_eq!(stacks[0]["whole"], true);
    assert!(stacks[0]["scanned"].as_u64() > Some(BYTES));

    let exceeded = stack(&["-p", &guest.pid.to_string(), "--max", "100000"]);
    assert_eq!(exceeded.status.code(), Some(3));
    assert!(guest.ends_well());
}

#[test]
fn moving_the_room_off_the_stack_makes_the_warning_vanish() {
    let Some(folder) = build("bigframe-moved", &["-DMOVED"]) else {
        return;
    };
    let guest = guest(&folder);
    let said = text(&stack(&[
        "--native",
        "--bytes",
        "-p",
        &guest.pid.to_string(),
    ]));
    assert!(
        said.contains("bigframe.so: ") && !said.contains("warning:"),
        "{said}"
    );
    assert!(guest.ends_well());
}

#[test]
fn references_in_the_frame_are_counted() {
    let Some(folder) = build("bigframe-full", &[]) else {
        return;
    };
    let script =
        "require 'bigframe'; BigFrame.fill(Object.new) { puts 'ready'; STDOUT.flush; STDIN.read }";
    let guest = Guest::asleep(
        Command::new("ruby")
            .arg("-I")
            .arg(&folder)
            .args(["-e", script]),
    );
    let frames = records(&stack(&["--json", "-p", &guest.pid.to_string()]), "frame");
    let frame = frames
        .iter()
        .find(|frame| frame["bytes"] == BYTES)
        .expect("the frame");
    let full = 786_768 / 8;
    let objects = frame["objects"].as_u64().expect("counted");
    assert!((full..=full + 8).contains(&objects), "{objects} of {full}");
    assert!(guest.ends_well());
}

/// Waits inside the frame, then outside of it.
const LEFT: &str = "require 'bigframe'
wait = ->(*) { puts 'ready'; STDOUT.flush; STDIN.gets }
ARGV[0] == 'full' ? BigFrame.fill(Object.new, &wait) : BigFrame.run(&wait)
wait.call";

/// What the stacks are predicted to cost a collection, and the least that a minor one took to mark, in µs.
fn cost(guest: &Guest) -> (f64, f64) {
    let arguments = ["--gc", "--measure", "--collect", "40", "--json", "-p"];
    let output = stack(&[&arguments[..], &[&guest.pid.to_string()]].concat());
    let predicted: f64 = records(&output, "scan")
        .iter()
        .map(|scan| scan["predicted_ns"].as_f64().expect("a time") / 1e3)
        .sum();
    let collections = records(&output, "collections");
    let minor = collections
        .iter()
        .find(|one| one["kind"] == "minor")
        .expect("minor collections");
    // One that was asked for as minor may be made a full one.
    assert!(minor["count"].as_u64() >= Some(30), "{minor}");
    (predicted, minor["least_ns"].as_f64().expect("a time") / 1e3)
}

/// What measured times may be of the predicted: the constants were measured on an AMD EPYC 9004 (Zen 4, family 25),
/// and hold there within a quarter at the clock it had then; a shared machine of the same kind was seen at 1.28 to 1.38. Another
/// one is quicker or slower: on Zen 5 the ratio is about 1.55.
fn tolerance() -> std::ops::Range<f64> {
    let about = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let says = |name: &str, value: &str| {
        let of = |line: &str| Some(line.split_once(':')?.1.trim() == value);
        about
            .lines()
            .find(|line| line.trim_end().starts_with(name))
            .and_then(of)
            == Some(true)
    };
    if says("vendor_id", "AuthenticAMD") && says("cpu family", "25") {
        0.6..1.45
    } else {
        0.3..3.0
    }
}

/// The prediction against collections of the guest, timed in it: with the frame, less those without it. Whatever else the machine
/// does makes a collection slower, never quicker, so it is the least of many that counts, and of several guests.
#[test]
fn what_a_minor_collection_pays_for_the_frame_is_predicted() {
    let Some(folder) = build("bigframe-gc", &[]) else {
        return;
    };
    for kind in ["full", "zeros"] {
        let (mut with, mut without) = (f64::INFINITY, f64::INFINITY);
        let mut ratio = 0.0;
        for _ in 0..12 {
            let mut command = Command::new("ruby");
            command.arg("-I").arg(&folder).args(["-e", LEFT, kind]);
            let mut guest = Guest::asleep(&mut command);
            let inside = cost(&guest);
            guest.tell("");
            guest.expect("ready");
            let outside = cost(&guest);
            guest.tell("");
            assert_eq!(guest.line(), None);
            assert!(guest.ends_well(), "{kind}");
            with = inside.1.min(with);
            without = outside.1.min(without);
            ratio = (inside.0 - outside.0) / (with - without);
            println!(
                "{kind}: predicted {:.0} µs, measured {:.0} µs, {ratio:.2}",
                inside.0 - outside.0,
                with - without
            );
            if tolerance().contains(&ratio) {
                break;
            }
        }
        assert!(tolerance().contains(&ratio), "{kind}: {ratio:.2}");
    }
}

/// So many threads that sleep; each has a VM stack of a megabyte beside what the collector scans of its stack.
const SLEEPERS: &str = "
  ARGV[0].to_i.times { Thread.new { sleep } }
  Thread.pass until Thread.list.all? { |thread| thread == Thread.current || thread.status == 'sleep' }
  puts 'ready'; STDOUT.flush; STDIN.read";

/// Predicted and measured of a Ruby with so many threads: each the least of a few looks.
fn sleepers(ruby: &Interpreter, count: u32) -> (f64, f64) {
    let count = count.to_string();
    let guest = Guest::asleep(ruby.command().args(["-e", SLEEPERS, &count]));
    let looks = (0..2).map(|_| cost(&guest));
    let found = looks.fold(BEGIN, least);
    let scans = records(
        &stack(&["--gc", "--json", "-p", &guest.pid.to_string()]),
        "scan",
    );
    // The VM's own megabyte of each thread is in use, and not scanned.
    for scan in &scans {
        let bytes = scan["bytes"].as_u64().expect("a number");
        assert!(bytes < 200_000, "{ruby}, {count} threads: {scan}");
    }
    let said = text(&stack(&[
        "--native",
        "--bytes",
        "-p",
        &guest.pid.to_string(),
    ]));
    assert!(!said.contains("every collection scans"), "{ruby}: {said}");
    assert!(guest.ends_well(), "{ruby}");
    found
}

/// What the predicted may be of the measured on any machine, also on one whose processors others use: that makes the collections of
/// hundreds of threads slower by half: 0.5 to 1.3 was seen while others built. It does not show that the prediction is within a quarter.
const BROAD: std::ops::Range<f64> = 0.2..3.0;

const BEGIN: (f64, f64) = (f64::INFINITY, f64::INFINITY);

fn least(one: (f64, f64), other: (f64, f64)) -> (f64, f64) {
    (one.0.min(other.0), one.1.min(other.1))
}

#[test]
fn what_collections_pay_for_threads_is_predicted() {
    for ruby in rubies("what_collections_pay_for_threads_is_predicted") {
        let mut ratio = [0.0; 2];
        let (mut alone, mut with) = (BEGIN, [BEGIN; 2]);
        for _ in 0..8 {
            alone = least(alone, sleepers(&ruby, 0));
            for (at, count) in [50, 200].into_iter().enumerate() {
                with[at] = least(with[at], sleepers(&ruby, count));
                let (predicted, measured) = (with[at].0 - alone.0, with[at].1 - alone.1);
                ratio[at] = predicted / measured;
                println!(
                    "{ruby}, {count} threads: predicted {predicted:.0} µs, measured {measured:.0} µs"
                );
            }
            if ratio.iter().all(|ratio| BROAD.contains(ratio)) {
                break;
            }
        }
        for ratio in ratio {
            assert!(BROAD.contains(&ratio), "{ruby}: {ratio:.2}");
        }
        // What the one stack costs cannot be measured apart: it is less than the least times of the same process differ by. It is told as the
        // small part of a collection that it is.
        let (predicted, whole) = alone;
        println!("{ruby}, no threads: predicted {predicted:.1} µs of {whole:.0} µs");
        let small = 0.0..whole / 4.0;
        assert!(
            predicted > 0.0 && small.contains(&predicted),
            "{ruby}: {alone:?}"
        );
    }
}

/// Watching collections that happen by themselves; the guest's answer and its threads are as without us.
#[test]
fn collections_that_happen_are_timed() {
    let script = "puts 'ready'; STDOUT.flush
        before = GC.count
        kept = []
        sum = 0
        until IO.select([STDIN], nil, nil, 0)
          sum += (kept << 'x' * 50).last.size
          kept.clear if kept.size > 200_000
        end
        puts GC.count - before; STDOUT.flush; STDIN.read";
    let mut command = Command::new("ruby");
    let mut guest = Guest::ready(command.args(["-e", script]));
    let output = stack(&[
        "--gc",
        "--measure=2s",
        "--json",
        "-p",
        &guest.pid.to_string(),
    ]);
    let timed: u64 = records(&output, "collections")
        .iter()
        .map(|one| one["count"].as_u64().expect("a number"))
        .sum();
    let happened: u64 = guest.answer_to("").trim().parse().expect("a number");
    assert!(timed > 0 && timed <= happened, "{timed} of {happened}");
    assert!(guest.ends_well());
}

#[test]
fn a_process_that_does_not_collect_says_so() {
    let guest =
        Guest::asleep(Command::new("ruby").args(["-e", "puts 'ready'; STDOUT.flush; gets"]));
    let said = text(&stack(&[
        "--gc",
        "--measure=200ms",
        "-p",
        &guest.pid.to_string(),
    ]));
    assert!(said.contains("no collection came"), "{said}");
    assert!(guest.ends_well());
}
