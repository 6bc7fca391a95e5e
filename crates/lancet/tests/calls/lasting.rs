//! What a guest told and counted outlives it, whatever ends it at whatever instant; what its threads leave behind serves others.

use std::process::Command;

use nix::sys::signal::Signal;

use crate::machine::program;
use crate::support::{Guest, LIMIT, Random, Snapshot, TempDir, soak, until};
use crate::watch::{calls, counted, hooked, left, text_holds};

const THREADS: u64 = 4;

fn words(path: &std::path::Path) -> u64 {
    let bytes = std::fs::read(path).unwrap_or_default();
    let words = bytes.as_chunks::<8>().0.iter();
    words.map(|word| u64::from_le_bytes(*word)).sum()
}

/// The last thing each thread did before the signal may be a call that it had not noted yet. The signal is none that a fault raises: of
/// one of these lancet says whether a thread was in a hook, which may be the cause (`ends`).
#[test]
fn a_guest_that_is_killed_takes_nothing_along() {
    let Some(path) = program("lasting.cpp") else {
        return;
    };
    let mut random = Random::new("lasting");
    for round in 0..if soak() { 60 } else { 6 } {
        let folder = TempDir::new("lasting");
        let (back, out) = (folder.join("back"), folder.join("out"));
        let mut command = Command::new(&path);
        command.arg(&back);
        let mut guest = Guest::start("lasting", command);
        guest.expect("ready");
        let counts = round % 2 == 0;
        let mut what = vec!["--max-wait", "30s", "-x", "h_round"];
        match counts {
            true => what.push("-c"),
            false => what.extend(["-o", out.to_str().expect("plain")]),
        }
        let watch = hooked(calls(guest.pid, &what));
        guest.tell("");
        let enough = 20_000 + random.below(40_000);
        until(LIMIT, "calls", || (words(&back) > enough).then_some(()));
        guest.signal([Signal::SIGKILL, Signal::SIGQUIT][random.below(2) as usize]);
        guest.end();
        let came_back = words(&back);
        let output = watch.end();
        assert_eq!(output.code(), 0, "{}", output.stderr);
        let told = match counts {
            true => counted(&output.stdout, "h_round"),
            false => {
                let text = std::fs::read_to_string(&out).expect("what was told");
                text.lines()
                    .filter(|line| line.contains("h_round("))
                    .count() as u64
            }
        };
        assert!(
            (came_back..=came_back + THREADS).contains(&told),
            "{told} told, {came_back} came back: {}",
            output.stderr
        );
    }
}

/// A server that makes a thread for each request.
#[test]
fn rings_of_dead_threads_serve_others() {
    let Some(path) = program("brief.cpp") else {
        return;
    };
    const COUNT: u64 = 50_000;
    let folder = TempDir::new("brief");
    let out = folder.join("out");
    let to_file = ["--max-wait", "30s", "-o", out.to_str().expect("plain")];
    for how in [&["-c"][..], &to_file] {
        let mut command = Command::new(&path);
        command.arg(COUNT.to_string());
        let mut guest = Guest::start("brief", command);
        guest.expect("ready");
        let before = Snapshot::take(guest.pid);
        let mut what = how.to_vec();
        what.extend(["-x", "h_round"]);
        let watch = hooked(calls(guest.pid, &what));
        guest.tell("");
        let grown = guest.find("grown by ");
        let grown: u64 = grown
            .split(' ')
            .next_back()
            .and_then(|kib| kib.parse().ok())
            .expect(&grown);
        let output = left(watch, "brief");
        let count = match how[0] {
            "-c" => counted(&output.stdout, "h_round"),
            _ => {
                let text = std::fs::read_to_string(&out).expect("what was told");
                text.matches("h_round(").count() as u64
            }
        };
        assert_eq!(count, COUNT * 3, "{}", output.stderr);
        // A ring that was filled once, and tables, for each of a few dozen.
        assert!(grown < 100 * 1024, "{grown} KiB: {}", output.stderr);
        text_holds(&before, guest.pid, "brief", &output);
        guest.tell("");
        guest.end();
    }
}
