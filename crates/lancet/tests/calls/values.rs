//! Arguments and results of every kind are shown as the program passed and got them: it prints the same lines itself.

use crate::machine::{program, start};
use crate::support::{TempDir, fixtures};
use crate::watch::{calls, hooked, left};

/// Without the blanks that align results.
fn plain(line: &str) -> String {
    match line.rsplit_once(" = ") {
        Some((call, result)) => format!("{} = {result}", call.trim_end()),
        None => line.trim_end().into(),
    }
}

#[test]
fn values_of_every_kind_are_shown_as_they_are() {
    let Some(path) = program("values.c") else {
        return;
    };
    let folder = TempDir::new("values");
    let out = folder.join("out").display().to_string();
    let conf = fixtures().join("c/values.conf").display().to_string();
    let mut guest = start(&path, "");
    let what = ["-x", "v_*", "-F", &conf, "-o", &out];
    let watch = hooked(calls(guest.pid, &what));
    guest.tell("go");
    let mut expected = Vec::new();
    let answer = loop {
        let line = guest.line().expect("it gives an answer");
        match line.strip_prefix("answer ") {
            Some(answer) => break answer.to_owned(),
            None => expected.push(line),
        }
    };
    let output = left(watch, "values");
    // Prototypes that are wrong about long doubles have cost it nothing.
    assert_eq!(answer, "undisturbed", "{}", output.stderr);
    guest.ends_with_nothing("values");
    let shown = std::fs::read_to_string(&out).expect("what was shown");
    let shown: Vec<String> = shown.lines().map(plain).collect();
    assert!(expected.len() > 20, "{expected:?}");
    assert_eq!(shown[..expected.len()], expected[..]);
    let wrong = shown.iter().filter(|line| line.starts_with("v_wrong("));
    let wrong: Vec<&String> = wrong.collect();
    assert_eq!(wrong.len(), 100);
    assert!(
        wrong.iter().all(|line| line.ends_with(" = -nan")),
        "{wrong:?}"
    );
}
