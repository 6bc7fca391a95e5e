//! Recordings of any length are read in the same memory, and what is asked of a part of them takes no time that grows
//! with the rest. `LANCET_SOAK=1`: a thousand million calls, and 10 GB.

#[path = "../../../recording/tests/all/made.rs"]
mod made;

use crate::support::{LIMIT, TempDir, lancet, run, soak};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// What lancet may take for its data, in bytes.
const MEMORY: u64 = 64 << 20;

/// Runs `lancet calls` on a file within that memory; its output and how long it took.
fn read(file: &Path, options: &[&str]) -> (String, Duration) {
    let mut command = Command::new("prlimit");
    command.arg(format!("--data={MEMORY}"));
    command.arg(lancet().get_program()).arg("calls");
    let began = Instant::now();
    let output = run(command.args(options).arg(file), LIMIT * 100);
    let took = began.elapsed();
    assert_eq!((output.code(), &*output.stderr), (0, ""), "{options:?}");
    (output.stdout, took)
}

/// The rows of `-c` for these functions.
fn counted(table: &str, function: &str) -> u64 {
    let rows = table
        .lines()
        .filter(|line| line.contains(&format!(" {function} ")));
    let calls = rows.filter_map(|row| {
        let words: Vec<&str> = row.split_whitespace().collect();
        let at = words.iter().position(|word| *word == function)?;
        words[at - 1].parse::<u64>().ok()
    });
    calls.sum()
}

#[test]
fn a_recording_of_any_length_is_read_in_the_same_memory() {
    let folder = TempDir::new("large");
    let file = folder.join("calls");
    let sizes = match soak() {
        true => [2_000_000, 1_000_000_000],
        false => [100_000, 500_000],
    };
    for calls in sizes {
        let bytes = made::write(&file, calls, made::How::default()).expect("a file");
        let say = |what: &str, took: Duration| {
            let each = took.as_nanos() as f64 / calls as f64;
            println!("{calls} calls, {bytes} bytes, {what}: {took:.2?}, {each:.1} ns a call");
        };
        let (table, took) = read(&file, &["-c"]);
        assert_eq!(
            (counted(&table, "work"), counted(&table, "rare")),
            (calls - 1, 1),
            "{table}"
        );
        say("-c", took);
        // A millisecond holds 10,000 calls.
        for tenth in [1, 9] {
            let at = calls / 10 * tenth * made::APART / 1_000_000;
            let [since, until] = [at, at + 1].map(|at| format!("{at}ms"));
            let window = ["--since", &since, "--until", &until];
            let (lines, took) = read(&file, &window);
            assert_eq!(lines.lines().count(), 10_000, "{window:?}");
            say("lines of a window", took);
            let (objects, _) = read(&file, &[&window[..], &["--json"]].concat());
            assert!(objects.lines().count() >= 10_000);
        }
        for asked in [
            &["-x", "rare"][..],
            &["--at", "rare.rb:7"],
            &["-x", "rare", "--where", "arg1 > 5"],
        ] {
            let (lines, took) = read(&file, asked);
            assert_eq!(lines.lines().count(), 1, "{asked:?}: {lines}");
            assert!(
                lines.contains("rare(") && lines.contains("rare.rb:7"),
                "{lines}"
            );
            say(&asked.join(" "), took);
            assert!(
                !soak() || took < Duration::from_secs(2),
                "{asked:?}: {took:?}"
            );
        }
        let (table, _) = read(&file, &["-c", "--at", "rare.rb:7"]);
        assert_eq!(
            (counted(&table, "work"), counted(&table, "rare")),
            (0, 1),
            "{table}"
        );
    }
}
