//! gdb as oracle: the same process, looked at by both while it waits.

use std::process::Command;

use super::languages::{DEEP, PERL, PHP, PYTHON, own, start};
use super::output::{records, stack};
use crate::output::address;
use crate::support::Guest;

/// Per frame of the main thread: the place it executes at, and its CFA, as gdb computes them.
fn by_gdb(pid: &str) -> Vec<(u64, u64)> {
    let script = "set pagination off\nset backtrace limit unlimited\nset backtrace past-main on\nset backtrace past-entry on\nset debuginfod enabled off\npython\n\
        frame = gdb.newest_frame()\n\
        while frame is not None:\n\
        \x20 if frame.type() != gdb.INLINE_FRAME:\n\
        \x20   print('FRAME', frame.pc(), int(frame.read_register('rsp')))\n\
        \x20 frame = frame.older()\n\
        end\n";
    let path = super::output::folder("gdb").join(format!("walk-{pid}"));
    std::fs::write(&path, script).expect("written");
    let output = Command::new("gdb")
        .args(["-nx", "-batch", "-p", pid, "-x"])
        .arg(&path)
        .output()
        .expect("gdb");
    let said = String::from_utf8_lossy(&output.stdout);
    let frames = said.lines().filter_map(|line| line.strip_prefix("FRAME "));
    frames
        .map(|frame| {
            let (pc, sp) = frame.split_once(' ').expect("two numbers");
            (pc.parse().expect("a number"), sp.parse().expect("a number"))
        })
        .collect()
}

fn agree(guest: &Guest, least: usize) {
    let theirs = by_gdb(&guest.pid.to_string());
    let output = stack(&["--json", "-p", &guest.pid.to_string()]);
    let main = guest.pid.to_string().parse::<u64>().expect("a number");
    let ours: Vec<(u64, u64)> = records(&output, "frame")
        .iter()
        .filter(|frame| frame["tid"] == main)
        .map(|frame| {
            (
                address(&frame["ip"]).expect("an address"),
                address(&frame["sp"]).expect("an address"),
            )
        })
        .collect();
    assert!(theirs.len() >= least, "gdb saw {} frames", theirs.len());
    let differs = ours
        .iter()
        .zip(&theirs)
        .position(|(ours, theirs)| ours != theirs);
    assert_eq!(
        differs,
        None,
        "of {} and {}: {ours:x?} {theirs:x?}",
        ours.len(),
        theirs.len()
    );
    assert_eq!(
        ours.len(),
        theirs.len(),
        "{:x?} {:x?}",
        ours.last(),
        theirs.last()
    );
}

/// `ruby -e` code that waits 100 blocks deep.
const BLOCKS: &str = "def deep(n) = n == 0 ? STDIN.read : [1].each { deep(n - 1) }; puts 'ready'; STDOUT.flush; deep(100)";

#[test]
fn ruby_600_frames_deep() {
    let guest = Guest::asleep(Command::new("ruby").args(["-e", BLOCKS]));
    agree(&guest, 600);
    let output = stack(&["--json", "-p", &guest.pid.to_string()]);
    let frames = records(&output, "frame");
    let count = |name: &str| {
        let scripts = frames
            .iter()
            .flat_map(|frame| frame["scripts"].as_array().cloned().unwrap_or_default());
        scripts.filter(|script| script["function"] == name).count()
    };
    assert_eq!(
        (count("deep"), count("block in deep"), count("<main>")),
        (101, 100, 1)
    );
    assert_eq!(records(&output, "stack")[0]["whole"], true);
    assert!(guest.ends_well());
}

#[test]
fn the_other_languages_600_frames_deep() {
    for language in [PYTHON, PERL, PHP] {
        if let Some(interpreter) = own(&language) {
            let guest = start(&language, &interpreter, DEEP);
            agree(&guest, 600);
            assert!(guest.ends_well(), "{}", language.name);
        }
    }
}
