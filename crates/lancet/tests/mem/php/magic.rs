//! Calls that the engine makes by itself, and functions of another tool.

use super::{functions, guest, phps};
use crate::support::{Watch, mem, schema};

/// The line of `fixtures/php/births/magic.php` that has this text.
fn line(text: &str) -> usize {
    let file = include_str!("../../../../../fixtures/php/births/magic.php");
    let at = file.lines().position(|line| line.contains(text));
    at.expect("it is there") + 1
}

/// Blocks of magic methods that C code calls for a method: up to 8.1 a frame lies between that has the method's object and no function. The
/// arguments of a call of a method that is missing are an array, which is taken where the call stands.
#[test]
fn blocks_of_magic_calls_are_at_their_lines() {
    for php in phps("magic") {
        for depth in ["1", "8"] {
            let mut guest = guest(&php, "magic", &[]);
            let mut command = mem(guest.pid);
            command.args(["--no-gc", "--all", "--stacks", depth]);
            let watch = Watch::open(command);
            guest.tell("500");
            guest.expect("made");
            let output = watch.interrupt();
            assert_eq!(output.code(), 0, "{php}: {output:?}");
            let rows = schema::records(&["mem"], &output.stdout);
            let rows: Vec<_> = rows.iter().filter(|row| row["record"] == "row").collect();
            let born = |line: usize| -> u64 {
                let of = rows.iter().filter(|row| row["stack"][0]["line"] == line);
                of.filter_map(|row| row["born"].as_u64()).sum()
            };
            let all = &output.stdout;
            for text in ["str_repeat($name", "str_repeat($at"] {
                assert_eq!(born(line(text)), 500, "{php}, {depth}: {text}: {all}");
            }
            for text in ["$first->one(", "Second::other("] {
                assert_eq!(born(line(text)), 1000, "{php}, {depth}: {text}: {all}");
            }
            let nowhere = rows
                .iter()
                .any(|row| row["stack"][0]["path"].is_string() && row["stack"][0]["line"] == 0);
            assert!(!nowhere, "{php}, {depth}: {all}");
            // Of a class without a name it is told that it has none, and not what tells it from the others.
            let names = all.matches("class@anonymous").count();
            assert_eq!(
                all.matches("class@anonymous::make\"").count(),
                names,
                "{all}"
            );
            guest.tell("");
            guest.ends_with("answer 0");
        }
    }
}

/// Another tool puts its functions in the place of ours in the middle of a request: the next look notices, and it is said that births were lost.
#[test]
fn functions_of_another_tool_are_noticed_at_the_next_look() {
    for php in phps("foreign") {
        if !php.runs("foreign", "exit(class_exists('FFI') ? 0 : 1);") {
            continue;
        }
        let mut guest = guest(&php, "foreign", &[]);
        let own = functions(guest.pid);
        let watch = Watch::open(mem(guest.pid));
        guest.tell("");
        guest.expect("made");
        let output = watch.interrupt();
        let said = output
            .stderr
            .contains("another tool has changed the VM's allocators");
        assert!(said, "{php}: {output:?}");
        assert_eq!(output.code(), 4, "{php}: {output:?}");
        assert_eq!(functions(guest.pid), own, "{php}");
        guest.tell("");
        guest.ends_with("answer 0");
    }
}
