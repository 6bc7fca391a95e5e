//! PHPs that lancet starts, and how they end.

use super::phps;
use crate::support::{LIMIT, Report, born, fixtures, lancet, live, run};

/// A program that is started is counted to its end, after its shutdown functions and destructors, and ends with its own code; by each of its
/// ways.
#[test]
fn a_started_program_is_counted_at_its_end() {
    for php in phps("started") {
        let program = fixtures().join("php/births/ends.php");
        for (way, code) in [("falls", 0), ("exits", 3), ("raises", 255), ("fills", 255)] {
            let mut command = lancet();
            command.args(["mem", "--format", "json", "--"]);
            let of = php.command();
            command.arg(of.get_program()).args(of.get_args());
            command.arg(&program).arg(way);
            let output = run(&mut command, LIMIT);
            let what = format!("{php}, {way}");
            assert_eq!(output.code(), code, "{what}: {output:?}");
            assert!(
                output.stdout.contains("shutdown 1000\n"),
                "{what}: {output:?}"
            );
            let records = output.stderr.lines().filter(|line| line.starts_with('{'));
            let report = Report::parse(&records.collect::<Vec<_>>().join("\n"));
            let (_, rows) = report.guests.last_key_value().expect("a guest");
            let row = |line| {
                let ending = format!("ends.php:{line}:(block)");
                (born(rows, &ending), live(rows, &ending))
            };
            let [kept, dropped, shutdown, destructor] = [18, 19, 25, 9].map(row);
            assert!(kept.1 >= 2000 && dropped == (2000, 0), "{what}: {rows:?}");
            assert!(shutdown.1 >= 1000, "{what}: of a shutdown function");
            // After an error that ends the request PHP calls no destructor; to 7.4 an uncaught exception is one.
            if way != "raises" {
                let destroys = way != "fills";
                assert_eq!(destructor.1 >= 500, destroys, "{what}: {rows:?}");
            }
        }
    }
}

/// What is not counted of a program that is killed is said.
#[test]
fn an_end_in_the_middle_of_a_request_is_said() {
    for php in phps("killed itself") {
        if !php.runs(
            "killed itself",
            "exit(function_exists('posix_kill') ? 0 : 1);",
        ) {
            continue;
        }
        let mut command = lancet();
        command.args(["mem", "--"]);
        let of = php.command();
        command.arg(of.get_program()).args(of.get_args());
        command.arg(fixtures().join("php/births/ends.php"));
        command.arg("leaves");
        let output = run(&mut command, LIMIT);
        assert_eq!(output.code(), 128 + 9, "{php}: {output:?}");
        assert!(
            output.stderr.contains("in the middle of its request"),
            "{output:?}"
        );
    }
}
