//! The 2009 case: an extension of ours with a frame of 786,816 bytes that calls back into Ruby.

use std::path::PathBuf;
use std::process::Command;

use super::harness::{Guest, fixtures, folder, records, stack, text};

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
    Guest::start(
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
        "frame",
    );
    assert_eq!(frames[0]["bytes"], BYTES, "{}", frames[0]);

    let guest = guest(&folder);
    let said = text(&stack(&["-p", &guest.pid()]));
    let warning = said.lines().nth(1).expect("a second line");
    assert!(warning.starts_with("warning: bigframe.so: "), "{said}");
    assert!(warning.contains("a frame of 786,816 bytes"), "{said}");

    let output = stack(&["--json", "-p", &guest.pid()]);
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
            .map(|script| script["name"].as_str().unwrap_or("").to_owned())
            .collect()
    };
    assert_eq!(lines(&frames[..at]), ["block in <main>"]);
    assert_eq!(lines(&frames[at..]), ["<main>"]);
    let stacks = records(&output, "stack");
    assert_eq!(stacks[0]["whole"], true);
    assert!(stacks[0]["scanned"].as_u64() > Some(BYTES));

    let exceeded = stack(&["-p", &guest.pid(), "--max", "100000"]);
    assert_eq!(exceeded.status.code(), Some(3));
    assert!(guest.end());
}

#[test]
fn moving_the_room_off_the_stack_makes_the_warning_vanish() {
    let Some(folder) = build("bigframe-moved", &["-DMOVED"]) else {
        return;
    };
    let guest = guest(&folder);
    let said = text(&stack(&["-p", &guest.pid()]));
    assert!(
        said.contains("bigframe.so: ") && !said.contains("warning:"),
        "{said}"
    );
    assert!(guest.end());
}

#[test]
fn references_in_the_frame_are_counted() {
    let Some(folder) = build("bigframe-full", &[]) else {
        return;
    };
    let script =
        "require 'bigframe'; BigFrame.fill(Object.new) { puts 'ready'; STDOUT.flush; STDIN.read }";
    let guest = Guest::start(
        Command::new("ruby")
            .arg("-I")
            .arg(&folder)
            .args(["-e", script]),
    );
    let frames = records(&stack(&["--json", "-p", &guest.pid()]), "frame");
    let frame = frames
        .iter()
        .find(|frame| frame["bytes"] == BYTES)
        .expect("the frame");
    let full = 786_768 / 8;
    let objects = frame["objects"].as_u64().expect("counted");
    assert!((full..=full + 8).contains(&objects), "{objects} of {full}");
    assert!(guest.end());
}

/// The guest times its own minor collections, without the frame and from inside of it, by processor time.
const TIMED: &str = "require 'bigframe'
def cost
  2.times { GC.start }
  now = -> { Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID, :nanosecond) }
  60.times.map { was = now.(); GC.start(full_mark: false, immediate_sweep: false); now.() - was }.min
end
base = cost
timed = ->(_) { extra = cost - base; puts 'ready'; STDOUT.flush; STDIN.gets; puts extra; STDOUT.flush; STDIN.read }
ARGV[0] == 'full' ? BigFrame.fill(Object.new, &timed) : BigFrame.run(&timed)";

#[test]
fn what_a_collection_pays_for_the_frame_is_predicted() {
    let Some(folder) = build("bigframe-gc", &[]) else {
        return;
    };
    for kind in ["full", "zeros"] {
        let mut guest = Guest::start(
            Command::new("ruby")
                .arg("-I")
                .arg(&folder)
                .args(["-e", TIMED, kind]),
        );
        let scans = records(&stack(&["--gc", "--json", "-p", &guest.pid()]), "scan");
        let predicted = scans[0]["predicted_us"].as_f64().expect("a time");
        let measured = guest.asks("\n").trim().parse::<f64>().expect("a time") / 1e3;
        println!(
            "{kind}: predicted {predicted:.0} µs, measured {measured:.0} µs, {:.2}",
            predicted / measured
        );
        // Within a quarter on the machine the constants are from; processors differ.
        assert!(
            (0.4..2.5).contains(&(predicted / measured)),
            "{kind}: {predicted} and {measured}"
        );
        let said = text(&stack(&["--gc", "-p", &guest.pid()]));
        assert!(
            said.contains("786,816") && said.contains("bigframe.so: "),
            "{said}"
        );
        assert!(guest.end());
    }
}
