//! The verdict on leaks of a Python.

use std::time::Duration;

use super::{guest, pythons, records};
use crate::support::{Interpreter, losses, mem, run};

/// What `lancet mem` writes of a server that was watched for long enough to tell.
fn watched(python: &Interpreter, arguments: &[&str]) -> String {
    let mut guest = guest(python, "server", arguments);
    let mut command = mem(guest.pid);
    command.args(["--for", "14s"]);
    let output = run(&mut command, Duration::from_secs(60));
    assert_eq!(output.code(), 0, "{python}: {}", output.stderr);
    guest.tell("");
    guest.ends_with("answer 0");
    output.stdout
}

/// The line that leaks is named and stands first; where none leaks, none is named.
#[test]
fn what_leaks_is_named_and_stands_first() {
    for python in pythons("leaks") {
        let (leaking, clean) = std::thread::scope(|scope| {
            let leaking = scope.spawn(|| watched(&python, &["leak"]));
            let clean = scope.spawn(|| watched(&python, &[]));
            (
                leaking.join().expect("watched"),
                clean.join().expect("watched"),
            )
        });
        let verdict = |text: &str| {
            let verdicts = records(text, "verdict");
            verdicts[0]["verdict"].as_str().expect("a word").to_owned()
        };
        // Its main thread waits for its input, so the VM is brought to collect on one of its others.
        assert_eq!(verdict(&leaking), "leak", "{python}: {leaking}");
        for report in [&leaking, &clean] {
            let look = &records(report, "look")[0];
            assert_eq!(look["garbage_included"], false, "{python}: {look}");
            assert!(look["collection_pause_ns"].as_u64() > Some(0), "{look}");
        }
        let first = &records(&leaking, "row")[0];
        assert_eq!(
            (first["place"]["line"].as_u64(), first["type"].as_str()),
            (Some(30), Some("(PyObject)")),
            "{python}: {first}"
        );
        assert_eq!(verdict(&clean), "none", "{python}: {clean}");
        assert_eq!(losses(&clean), [], "{python}");
    }
}
