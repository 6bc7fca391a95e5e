//! `--where` on values of the script's language: its numbers, its texts, its nothing, decided in the process; `--at`.

use crate::support::{LIMIT, Snapshot, TempDir, chosen, lancet, run, schema};
use crate::watch::{calls, hooked, hooked_something, left, text_holds};

const ROUNDS: u64 = 50;

/// What is asked of `$`, and how many of the ten values that the scripts have are so.
const ASKED: &[(&str, u64)] = &[
    ("$ == null", 1),
    ("$ == nil || $ == None || $ == undef", 1),
    ("$ != null", 9),
    ("$ == 7", 1),
    ("$ != 7", 2),
    ("$ < 0", 1),
    ("$ >= 0", 2),
    ("$ > 6.5", 1),
    ("$ ~ \"SELECT\"", 1),
    ("$ ~* \"select\"", 2),
    ("$ ~ \"grün – x\"", 1),
    ("$ == \"SELECT 1\"", 1),
    ("$ != \"SELECT 1\"", 3),
    ("$ == \"\"", 1),
    // What lies beyond 4096 bytes is not looked at.
    ("$ !~ \"SELECT\"", 3),
    ("$ ~ \"xx\" && !($ ~ \"SELECT\")", 1),
    ("$ == 7 || $ ~ \"SELECT\"", 2),
    ("$ ~ \"SELECT\" && time >= 0ns", 1),
    ("line ~ \"asked\" && $ == -3", 1),
];

/// A function by its name, and which of its words goes through all values.
struct Function {
    name: &'static str,
    word: &'static str,
}

const fn of(name: &'static str, word: &'static str) -> Function {
    Function { name, word }
}

fn calls_that(counted: &str) -> u64 {
    let total = counted.lines().find(|row| row.ends_with(" total"));
    let count = total.and_then(|row| row.split_whitespace().rev().nth(1));
    count.map_or(0, |count| count.parse().expect("a count"))
}

fn asks(language: &'static str, functions: &[Function]) {
    for interpreter in chosen(language, "compared") {
        let folder = TempDir::new(&format!("compared-{interpreter}").replace(' ', "-"));
        let out = folder.join("out").display().to_string();
        let mut guest = interpreter.start("asked", &[]);
        let before = Snapshot::take(guest.pid);
        let mut counted = |name: &str, condition: &str, what: &str| {
            let options = ["-c", "-o", &out, "-x", name, "--where", condition];
            let watch = hooked(calls(guest.pid, &options));
            guest.tell(&ROUNDS.to_string());
            guest.expect("end");
            let output = watch.interrupt();
            hooked_something(&output, what);
            text_holds(&before, guest.pid, what, &output);
            (std::fs::read_to_string(&out).expect("a table"), output)
        };
        for (number, function) in functions.iter().enumerate() {
            // All of one, of the others one of each kind: they differ in where the value is found.
            let asked = ASKED.iter().step_by(if number == 0 { 1 } else { 4 });
            for (condition, of_round) in asked {
                // Perl's arguments are not there any more when the call returns.
                if language == "perl" && function.word != "ret" && condition.contains("||") {
                    continue;
                }
                let condition = condition.replace('$', function.word);
                let what = format!("{interpreter}: {} {condition}", function.name);
                let (mut table, mut output) = counted(function.name, &condition, &what);
                // What an old frame left on the stack may look like an address in the function; after another round it is
                // mostly gone.
                for _ in 0..3 {
                    if output.stderr.contains("is about to go on in its first") {
                        (table, output) = counted(function.name, &condition, &what);
                    }
                }
                let expected = of_round * ROUNDS;
                assert_eq!(calls_that(&table), expected, "{what}: {table}{output:?}");
            }
            // There is no such argument, in these calls or in any.
            let what = format!("{interpreter}: {}", function.name);
            let (table, _) = counted(function.name, "arg9 == null || arg9 != null", &what);
            assert_eq!(calls_that(&table), 0, "{what}: {table}");
        }
        guest.ends_with_nothing(&interpreter.to_string());
    }
}

#[test]
fn values_of_ruby() {
    asks(
        "ruby",
        &[
            of("ruby:Array#push", "arg1"),
            of("ruby:Hash#store", "arg2"),
            of("ruby:Array#pop", "ret"),
        ],
    );
}

#[test]
fn values_of_python() {
    asks(
        "python",
        &[
            of("python:list.count", "arg1"),
            of("python:list.insert", "arg2"),
            of("python:list.pop", "ret"),
        ],
    );
}

#[test]
fn values_of_perl() {
    asks(
        "perl",
        &[
            of("perl:Scalar::Util::looks_like_number", "arg1"),
            of("perl:List::Util::shuffle", "ret"),
        ],
    );
}

#[test]
fn values_of_php() {
    asks(
        "php",
        &[
            of("php:array_search", "arg1"),
            of("php:array_push", "arg2"),
            of("php:array_pop", "ret"),
        ],
    );
}

/// What the process cannot decide is said, in one line.
#[test]
fn what_cannot_be_asked_is_said() {
    for (language, name, condition, why) in [
        (
            "ruby",
            "ruby:Array#push",
            "arg1 < nil",
            "argument 1 is a value of the script's language: null is only equal or not",
        ),
        (
            "ruby",
            "ruby:Array#push",
            "arg1 == 18446744073709551615",
            "numbers of 64 bits with a sign",
        ),
        (
            "ruby",
            "ruby:Array#push",
            "arg1 == 1.5",
            "only whole numbers are equal or not",
        ),
        (
            "ruby",
            "ruby:Hash#store",
            "arg3 == 1",
            "it has no argument 3",
        ),
        (
            "perl",
            "perl:List::Util::shuffle",
            "arg1 == 1 || ret == 1",
            "can be asked at the call only",
        ),
    ] {
        let Some(interpreter) = chosen(language, "compared").into_iter().next() else {
            continue;
        };
        let guest = interpreter.start("asked", &[]);
        let options = ["-x", name, "--where", condition, "--for", "10ms"];
        let output = run(&mut calls(guest.pid, &options), LIMIT);
        let lines = output.stderr.lines().filter(|line| line.contains(why));
        assert_eq!(lines.count(), 1, "{condition}: {output:?}");
    }
    // A recording has texts of values, not the values.
    let Some(interpreter) = chosen("ruby", "compared").into_iter().next() else {
        return;
    };
    let folder = TempDir::new("compared-again");
    let file = folder.join("calls").display().to_string();
    let mut guest = interpreter.start("asked", &[]);
    let options = [
        "-x",
        "ruby:Array#push",
        "--record",
        &file,
        "--where",
        "arg1 ~ \"SELECT\"",
    ];
    let watch = hooked(calls(guest.pid, &options));
    guest.tell("3");
    guest.expect("end");
    left(watch, "recorded");
    let output = run(lancet().args(["calls", &file]), LIMIT);
    assert_eq!(
        output.stdout.matches("Array#push(").count(),
        3,
        "{output:?}"
    );
    let asked = output.stdout.matches("], \"SELECT 1\") ").count();
    assert_eq!(asked, 3, "{output:?}");
    let output = run(
        lancet().args(["calls", "--where", "arg1 == 7", &file]),
        LIMIT,
    );
    let said = output
        .stderr
        .contains("can be asked in the process, not in a recording");
    assert!(said && output.stdout.is_empty(), "{output:?}");
}

/// The lines that a table of `-c --json` has, and how many calls each.
fn lines(table: &str) -> Vec<(String, u64)> {
    let rows = schema::records(&["calls"], table);
    // Of a recording, too.
    assert_eq!(rows[0]["record"], "process", "{table}");
    let rows = rows.iter().filter(|row| row["record"] == "row");
    let rows = rows.map(|row| (schema::site(row), row["calls"].as_u64().expect("a number")));
    rows.filter(|(line, _)| !line.is_empty()).collect()
}

/// `--at` in the process and of a recording: the calls of that line, which the table of all lines has.
#[test]
fn of_one_line() {
    for (language, function) in [
        ("ruby", "ruby:Array#push"),
        ("python", "python:list.count"),
        ("perl", "perl:Scalar::Util::looks_like_number"),
        ("php", "php:array_search"),
    ] {
        for interpreter in chosen(language, "one line") {
            let folder = TempDir::new(&format!("at-{interpreter}").replace(' ', "-"));
            let [file, out] = ["file", "out"].map(|name| folder.join(name).display().to_string());
            let mut guest = interpreter.start("asked", &[]);
            let mut watched = |options: &[&str]| {
                let watch = hooked(calls(guest.pid, &[&["-x", function], options].concat()));
                guest.tell(&ROUNDS.to_string());
                guest.expect("end");
                hooked_something(&watch.interrupt(), function);
            };
            watched(&["--record", &file]);
            let table = run(lancet().args(["calls", "-c", "--json", &file]), LIMIT);
            let [(line, all), ..] = &lines(&table.stdout)[..] else {
                panic!("{interpreter}: {table:?}");
            };
            let place = line.split(' ').next().unwrap_or_default();
            let place = place.rsplit('/').next().unwrap_or_default();
            let (path, _) = place.split_once(':').expect("a path and a line");
            let other = format!("{path}:9999");
            for (at, count) in [(place, *all), (&*other, 0)] {
                watched(&["-c", "-o", &out, "--at", at]);
                let live = std::fs::read_to_string(&out).expect("a table");
                assert_eq!(calls_that(&live), count, "{interpreter}: {at}: {live}");
                let again = run(lancet().args(["calls", "-c", "--at", at, &file]), LIMIT);
                assert_eq!(
                    calls_that(&again.stdout),
                    count,
                    "{interpreter}: {at}: {again:?}"
                );
                let told = run(lancet().args(["calls", "--at", at, &file]), LIMIT);
                assert_eq!(
                    told.stdout.lines().count() as u64,
                    count,
                    "{interpreter}: {at}"
                );
            }
            guest.ends_with_nothing(&interpreter.to_string());
        }
    }
    let output = run(lancet().args(["calls", "--at", "app.rb", "-p", "1"]), LIMIT);
    assert_eq!(output.code(), 2);
    assert!(output.stderr.contains("a place is FILE:LINE"), "{output:?}");
}
