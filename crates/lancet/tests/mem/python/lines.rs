//! Which lines blocks belong to where code and agents come and go.

use super::{guest, pythons, table};
use crate::support::{Door, LIMIT, Watch, live, mem, until};

/// Pieces of code that lie one after the other at one address have their own lines, whatever lay there before.
#[test]
fn code_that_is_gone_names_no_line_of_other_code() {
    for python in pythons("reused") {
        let mut guest = guest(&python, "reused", &[]);
        let watch = Watch::open(mem(guest.pid));
        guest.tell("300");
        let places: usize = guest.find("places ").parse().expect("a number");
        assert!(places < 30, "{python}: addresses are used again: {places}");
        let report = watch.report();
        let rows = report.of(guest.pid);
        for number in 0..300 {
            let row = format!("gone{number}.py:1:(PyObject)");
            assert_eq!(live(rows, &row), 1, "{python}: {row}");
        }
        guest.tell("");
        guest.ends_with("answer 0");
    }
}

/// Where the agent leaves because another tool has taken its functions out, the report is of the last look, and says that of a process which
/// goes on.
#[test]
fn a_process_that_the_agent_has_left_has_not_ended() {
    for python in pythons("left") {
        if !python.runs("left", "import ctypes") {
            continue;
        }
        let mut guest = guest(&python, "table", &[]);
        table(&mut guest, "trace");
        let watch = Watch::open(mem(guest.pid));
        let door = Door::find(guest.pid).expect("an agent");
        let begun = door.answered();
        table(&mut guest, "churn");
        until(LIMIT, "a look that nobody has asked for", || {
            (door.answered() != begun).then_some(())
        });
        table(&mut guest, "untrace");
        let output = watch.interrupt();
        assert_eq!(output.code(), 4, "{python}: {output:?}");
        let said = "the process is not counted any more: this is what it held";
        assert!(output.stdout.contains(said), "{python}: {output:?}");
        assert!(!output.stdout.contains("has ended"), "{python}: {output:?}");
        guest.tell("end");
        guest.expect("answer 0");
    }
}
