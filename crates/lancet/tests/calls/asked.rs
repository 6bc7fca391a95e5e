//! `--where` and `--min-time`: the calls that a guest tells are those that were asked for, and so are those of its
//! recording; what cannot be read harms nobody.

use std::path::Path;

use crate::machine::{program, start};
use crate::support::{LIMIT, Output, Snapshot, TempDir, lancet, run};
use crate::watch::{calls, counted, hooked, left, text_holds};

const CONF: &str = "\
long h_ask(string, int, ulong, double);
int h_sum(long, long, long, long, long, long, int);
void h_wait(int, bool(char));
void h_around(int);
";
const ROUNDS: u64 = 2000;

/// Condition, which of a round's eight calls of `h_ask` meet it.
const ASKED: &[(&str, u64)] = &[
    ("arg1 ~ \"SELECT\"", 3),
    ("arg1 ~* \"select\"", 4),
    ("arg1 == \"SELECT 9\"", 1),
    ("arg1 != \"SELECT 9\"", 4),
    ("arg1 !~ \"SELECT\"", 2),
    ("arg1 ~ \"never comes\"", 1),
    ("arg1 == null", 1),
    ("arg1 == 8", 1),
    ("arg2 < 0", 1),
    ("arg2 == -1 && arg1 ~ \"1\"", 1),
    ("arg2 >= 1 && arg2 != 99", 5),
    ("arg3 > 0xffffffff", 1),
    ("arg3 < 0", 0),
    ("arg4 > 1.9", 3),
    ("arg4 < -1", 1),
    ("ret < 0", 1),
    ("ret == 99 || arg1 ~ \"INSERT\"", 2),
    ("ret > 0 && arg1 ~ \"SELECT\"", 2),
    ("!(arg1 ~ \"SELECT\") && arg2 < 3", 3),
    ("time > 10s", 0),
    ("time >= 0ns", 8),
    ("line ~ \"rb\"", 0),
    ("!(line ~ \"rb\")", 8),
];

fn replay(file: &Path, arguments: &[&str]) -> Output {
    let output = run(lancet().arg("calls").args(arguments).arg(file), LIMIT);
    assert_eq!(output.code(), 0, "{output:?}");
    output
}

#[test]
fn what_is_asked_for_is_told_and_nothing_else() {
    let Some(path) = program("asked.cpp") else {
        return;
    };
    let folder = TempDir::new("asked");
    let conf = folder.join("asked.conf");
    std::fs::write(&conf, CONF).expect("a .conf");
    let conf = conf.display().to_string();
    let file = folder.join("calls");
    let file_name = file.display().to_string();
    let mut guest = start(&path, "");
    guest.tell(&ROUNDS.to_string());
    let truth = guest.find("answer ");

    // Recorded whole.
    let mut guest = start(&path, "");
    let what = ["-x", "h_*", "-F", &conf, "--record", &file_name];
    let watch = hooked(calls(guest.pid, &what));
    guest.tell(&ROUNDS.to_string());
    assert_eq!(guest.find("answer "), truth);
    left(watch, "recorded");

    for (condition, of_round) in ASKED {
        let mut guest = start(&path, "");
        let before = Snapshot::take(guest.pid);
        let what = ["-c", "-x", "h_ask", "-F", &conf, "--where", condition];
        let watch = hooked(calls(guest.pid, &what));
        guest.tell(&ROUNDS.to_string());
        assert_eq!(guest.find("answer "), truth, "{condition}");
        let output = left(watch, condition);
        assert_eq!(
            counted(&output.stdout, "h_ask"),
            of_round * ROUNDS,
            "{condition}: {output:?}"
        );
        text_holds(&before, guest.pid, condition, &output);
        guest.ends_with_nothing(condition);
        let output = replay(&file, &["-c", "-x", "h_ask", "--where", condition]);
        assert_eq!(
            counted(&output.stdout, "h_ask"),
            of_round * ROUNDS,
            "replayed: {condition}"
        );
    }

    // Told, each whole; and an argument on the stack.
    let mut guest = start(&path, "");
    let condition = "arg7 == -1 && ret == 20 || arg2 == 99";
    let what = [
        "-T",
        "-x",
        "h_ask",
        "-x",
        "h_sum",
        "-F",
        &conf,
        "--max-wait",
        "30s",
        "--where",
        condition,
    ];
    let watch = hooked(calls(guest.pid, &what));
    guest.tell("100");
    guest.find("answer ");
    let output = left(watch, condition);
    // h_ask has no seventh argument, and that is said.
    assert!(
        output
            .stderr
            .contains("no call of h_ask is shown: it has no argument 7"),
        "{output:?}"
    );
    let lines: Vec<&str> = output.stdout.lines().collect();
    assert_eq!(lines.len(), 50, "{output:?}");
    for line in lines {
        assert!(line.starts_with("h_sum(1, 2, 3, 4, 5, 6, -1)"), "{line}");
        assert!(line.contains(" = 20 <0.0"), "{line}");
    }
}

/// Calls that take long, told when they return: inner before outer, each with its own time. One that is left by an
/// exception has no return and is not told.
#[test]
fn short_calls_are_not_told() {
    let Some(path) = program("asked.cpp") else {
        return;
    };
    let folder = TempDir::new("short");
    let (conf, file) = (folder.join("asked.conf"), folder.join("calls"));
    std::fs::write(&conf, CONF).expect("a .conf");
    let (conf, file_name) = (conf.display().to_string(), file.display().to_string());
    let check = |text: &str, what: &str| {
        let names: Vec<&str> = text
            .lines()
            .map(|line| line.split('(').next().unwrap_or_default())
            .collect();
        assert_eq!(
            names,
            ["h_wait", "h_around", "h_wait", "h_around"],
            "{what}: {text}"
        );
        for line in text.lines() {
            assert!(line.contains("(30"), "{what}: {line}");
            let took = line
                .rsplit_once('<')
                .and_then(|(_, rest)| rest.strip_suffix('>'));
            let took: f64 = took.and_then(|took| took.parse().ok()).unwrap_or_default();
            assert!(took >= 0.03, "{what}: {line}");
        }
    };
    for asked in [&["--min-time", "29ms"][..], &["--where", "time > 29ms"]] {
        let mut guest = start(&path, "");
        let before = Snapshot::take(guest.pid);
        let mut what = vec!["-T", "-x", "h_wait", "-x", "h_around", "-F", &conf];
        what.extend(asked);
        let watch = hooked(calls(guest.pid, &what));
        guest.tell("0");
        guest.find("answer ");
        let output = left(watch, "short");
        check(&output.stdout, "told");
        text_holds(&before, guest.pid, "short", &output);
        guest.ends_with_nothing("short");
    }
    let mut guest = start(&path, "");
    let what = [
        "-x", "h_wait", "-x", "h_around", "-F", &conf, "--record", &file_name,
    ];
    let watch = hooked(calls(guest.pid, &what));
    guest.tell("0");
    guest.find("answer ");
    left(watch, "short");
    let output = replay(&file, &["-T", "--min-time", "29ms"]);
    check(&output.stdout, "replayed");
    let output = replay(&file, &["-c", "--min-time", "29ms"]);
    assert_eq!(counted(&output.stdout, "h_around"), 2, "{output:?}");
    let output = replay(&file, &["-T"]);
    assert!(
        output.stdout.contains("<left by an exception or a jump>"),
        "{output:?}"
    );
}

#[test]
fn a_wrong_condition_is_refused_with_its_place() {
    let output = run(
        lancet().args(["calls", "-p", "1", "--where", "arg1 ~ \"a\" && tim > 5ms"]),
        LIMIT,
    );
    assert_eq!(output.code(), 2, "{output:?}");
    let said = "condition, column 15: `tim` is none of arg1, arg2 …, ret, time, line\n    arg1 ~ \"a\" && tim > 5ms\n                  ^\n";
    assert!(output.stderr.contains(said), "{}", output.stderr);
}
