//! What lines allocated, and what the VM's own objects are, against Ruby's own account of both (`fixtures/ruby/live/allocated.rb`).

use serde_json::Value;

use crate::support::{Guest, Output, Watch, mem, rubies, schema};

const TIMES: u64 = 20_000;

fn records<'a>(output: &'a Output, what: &'a str) -> impl Iterator<Item = Value> + 'a {
    let records = schema::records(&["mem"], &output.stdout).into_iter();
    records.filter(move |record| record["record"] == what)
}

fn sum(records: impl Iterator<Item = Value>, field: &str) -> u64 {
    records.filter_map(|record| record[field].as_u64()).sum()
}

/// Fails unless `got` differs from `wanted` by at most one in `part`.
fn near(got: u64, wanted: u64, part: u64, what: &str) {
    let apart = got.abs_diff(wanted);
    assert!(
        apart <= wanted / part,
        "{what}: {got}, and Ruby says {wanted}"
    );
}

/// The number behind a word of what the guest said.
fn told(line: &str, word: &str) -> u64 {
    let mut words = line.split_whitespace().skip_while(|found| *found != word);
    let number = words.nth(1).and_then(|number| number.parse().ok());
    number.unwrap_or_else(|| panic!("{word} in {line:?}"))
}

#[test]
fn what_lines_allocated_and_what_the_vm_holds() {
    for ruby in rubies("allocated") {
        let mut guest = Guest::script(&ruby, "live/allocated.rb", &[]);
        guest.expect("ready");
        let mut command = mem(guest.pid);
        // The guest has just collected its garbage, and counted what was left.
        command.args(["--internal", "--no-gc"]);
        let watch = Watch::open(command);
        let line = guest.answer_to(&TIMES.to_string());
        let output = watch.interrupt();
        assert_eq!(output.code(), 0, "{ruby}: {output:?}");

        let said: Vec<u64> = line
            .split_whitespace()
            .filter_map(|word| word.parse().ok())
            .collect();
        for ((number, wanted), kind) in [15u64, 16, 17]
            .into_iter()
            .zip(said)
            .zip(["String", "Array", "Pair"])
        {
            let of_line = |row: &Value| row["place"]["line"] == number && row["type"] == kind;
            let rows = || records(&output, "row").filter(of_line);
            let (born, mut allocated) = (sum(rows(), "born"), sum(rows(), "allocated"));
            if kind == "String" {
                // Two on that line: the one that is copied has the same text.
                assert_eq!(born, 3 * TIMES, "{ruby}: {output:?}");
                let literal = TIMES * 40;
                allocated = (allocated - literal) / 2;
            } else {
                assert_eq!(born, TIMES, "{ruby}: {output:?}");
            }
            near(
                allocated,
                wanted,
                20,
                &format!("{ruby}: allocated by {kind} at line {number}"),
            );
        }

        for word in ["iseq", "ment", "cref"] {
            let name = format!("__imemo:{word}__");
            let own = records(&output, "own").filter(|record| record["type"] == name.as_str());
            near(
                sum(own, "live"),
                told(&line, word),
                50,
                &format!("{ruby}: {word}"),
            );
        }
        // Ruby leaves imemos and iclasses out of that sum, and since 3.2 hidden objects and singleton classes too.
        let numbers = ruby.numbers();
        let left_out = |record: &Value| {
            let kind = record["type"].as_str().unwrap_or_default();
            numbers >= (3, 2) || kind.starts_with("__imemo") || kind == "__iclass__"
        };
        let own = sum(records(&output, "own").filter(left_out), "bytes");
        let total = sum(records(&output, "total"), "bytes") - own;
        near(
            total,
            told(&line, "all"),
            50,
            &format!("{ruby}: all objects"),
        );

        // The parts are the whole.
        let resident = records(&output, "resident").next().expect("a record");
        let parts = resident["parts"].as_object().expect("parts");
        let parts: u64 = parts.values().filter_map(Value::as_u64).sum();
        assert_eq!(
            resident["bytes"].as_u64(),
            Some(parts),
            "{ruby}: {resident}"
        );
        assert_eq!(guest.answer_to("reported"), format!("kept {}", TIMES / 100));
        guest.tell("quit");
        assert!(guest.ends_well(), "{ruby}");
    }
}
