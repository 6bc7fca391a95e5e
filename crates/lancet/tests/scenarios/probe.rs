//! `versions/probe`, with which people report what lancet can do with an interpreter of theirs: with those of this machine all is right.
//! Used by nothing else.

use std::process::Command;

use super::support::{LIMIT, fixtures, installed, lancet, run, skip};

fn probe(interpreter: &str, refused: &[&str]) {
    if !installed(interpreter) || !installed("python3") {
        return skip(
            "versions/probe",
            format_args!("no {interpreter} or python3"),
        );
    }
    let mut command = Command::new(fixtures().join("../versions/probe"));
    command
        .args(["--json", "--lancet"])
        .arg(lancet().get_program());
    let output = run(command.arg(interpreter), LIMIT);
    let report: serde_json::Value =
        serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let commands = report["commands"].as_object().expect("commands");
    assert_eq!(commands.len(), 5, "{report}");
    for (command, found) in commands {
        let expected = match refused.contains(&command.as_str()) {
            true => "refused",
            false => "right",
        };
        assert_eq!(found["result"], expected, "{command}: {report}");
    }
    assert_eq!(output.code(), 0, "{output:?}");
}

#[test]
fn ruby() {
    probe("ruby", &[]);
}

#[test]
fn python() {
    probe("python3", &[]);
}

#[test]
fn perl() {
    probe("perl", &["mem"]);
}

#[test]
fn php() {
    probe("php", &[]);
}

/// What is no interpreter is said, and not judged.
#[test]
fn a_script_that_does_not_run() {
    let mut command = Command::new(fixtures().join("../versions/probe"));
    command.args(["--language", "ruby", "--lancet"]);
    command.arg(lancet().get_program()).arg("/bin/false");
    let output = run(&mut command, LIMIT);
    assert_eq!(output.code(), 2, "{output:?}");
    assert!(
        output
            .stderr
            .starts_with("probe: the script does not run: "),
        "{output:?}"
    );
}
