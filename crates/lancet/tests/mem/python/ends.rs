//! Pythons that lancet starts, and how they end.

use super::pythons;
use crate::support::{LIMIT, Report, born, fixtures, lancet, live, run};

/// A program that is started is counted to its end, after its threads and exit functions, and ends with its own code; by each of its ways.
#[test]
fn a_started_program_is_counted_at_its_end() {
    for python in pythons("started") {
        let program = fixtures().join("python/births/ends.py");
        for (way, code) in [("falls", 0), ("exits", 3), ("raises", 1)] {
            let mut command = lancet();
            command.args(["mem", "--format", "json", "--"]);
            let of = python.command();
            command.arg(of.get_program()).args(of.get_args());
            command.arg(&program).arg(way);
            let output = run(&mut command, LIMIT);
            let what = format!("{python}, {way}");
            assert_eq!(output.code(), code, "{what}: {output:?}");
            assert_eq!(output.stdout, "exit function 3000\n", "{what}: {output:?}");
            let records = output.stderr.lines().filter(|line| line.starts_with('{'));
            let report = Report::parse(&records.collect::<Vec<_>>().join("\n"));
            let (_, rows) = report.guests.last_key_value().expect("a guest");
            let row = |line| {
                let ending = format!("ends.py:{line}:(PyObject)");
                (born(rows, &ending), live(rows, &ending))
            };
            assert_eq!(row(15), (2000, 2000), "{what}: kept");
            assert_eq!(row(16), (2000, 0), "{what}: dropped");
            assert_eq!(row(21), (1000, 1000), "{what}: of a thread");
            assert_eq!(row(27), (500, 500), "{what}: of an exit function");
        }
    }
}

/// What is not counted of a program that ends without its exit functions is said.
#[test]
fn an_end_without_exit_functions_is_said() {
    for python in pythons("no exit functions") {
        let mut command = lancet();
        command.args(["mem", "--"]);
        let of = python.command();
        command.arg(of.get_program()).args(of.get_args());
        command.arg(fixtures().join("python/births/ends.py"));
        command.arg("leaves");
        let output = run(&mut command, LIMIT);
        assert_eq!(output.code(), 4, "{python}: {output:?}");
        assert!(
            output.stderr.contains("without its exit functions"),
            "{output:?}"
        );
    }
}
