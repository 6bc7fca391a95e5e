//! The verdict on leaks of a PHP.

use std::time::Duration;

use super::{guest, phps};
use crate::support::{Interpreter, losses, mem, run, schema};

/// The verdict on a server that was watched for long enough to tell, and the line of the first row.
fn watched(php: &Interpreter, arguments: &[&str]) -> (String, u64) {
    let mut guest = guest(php, "server", arguments);
    let mut command = mem(guest.pid);
    command.args(["--for", "14s"]);
    let output = run(&mut command, Duration::from_secs(60));
    assert_eq!(output.code(), 0, "{php}: {}", output.stderr);
    assert_eq!(losses(&output.stdout), [], "{php}");
    guest.tell("");
    guest.ends_with("answer 0");
    let records = schema::records(&["mem"], &output.stdout);
    let of = |kind: &str| records.iter().find(|record| record["record"] == kind);
    let verdict = of("verdict").expect("a verdict")["verdict"].as_str();
    let line = of("row").expect("a row")["place"]["line"].as_u64();
    (verdict.expect("a word").to_owned(), line.expect("a line"))
}

/// The line that leaks is named and stands first: perhaps, because PHP is not made to look for cycles. Where none leaks, none is named.
#[test]
fn what_leaks_is_named_and_stands_first() {
    for php in phps("leaks") {
        let (leaking, clean) = std::thread::scope(|scope| {
            let leaking = scope.spawn(|| watched(&php, &["leak"]));
            let clean = scope.spawn(|| watched(&php, &[]));
            (
                leaking.join().expect("watched"),
                clean.join().expect("watched"),
            )
        });
        assert_eq!(leaking, ("perhaps".to_owned(), 23), "{php}");
        assert_eq!(clean.0, "none", "{php}: {clean:?}");
    }
}
