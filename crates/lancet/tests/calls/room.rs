//! A guest in a control group with little room left is not brought to its limit by us.

use std::process::Command;

use crate::support::{Group, Guest, LIMIT, run};
use crate::watch::{calls, hooked, left};

#[test]
fn rings_leave_a_guest_the_room_it_has() {
    let Some(group) = Group::make("room") else {
        return;
    };
    let mut command = Command::new("perl");
    command.args(["-e", "$| = 1; print qq(ready\\n); while (<STDIN>) { for (1..20000) { my @a = ('x' x 50) x 20 } print qq(done\\n) }"]);
    let mut guest = Guest::start("limited", command);
    guest.expect("ready");
    group.write("tasks", guest.pid);
    let before = group.charged();
    group.write("memory.limit_in_bytes", before + (512 << 10));
    let output = run(
        &mut calls(guest.pid, &["-x", "malloc", "-o", "/dev/null"]),
        LIMIT,
    );
    assert_eq!(output.code(), 1, "{output:?}");
    assert!(
        output.stderr.contains("the control group of process"),
        "{output:?}"
    );
    // Twice what the smallest rings take, and less than the usual ones would.
    group.write("memory.limit_in_bytes", before + (2 << 20));
    let watch = hooked(calls(
        guest.pid,
        &[
            "-x",
            "malloc",
            "-x",
            "Perl_sv_setsv_flags",
            "--max-wait",
            "30s",
            "-o",
            "/dev/null",
        ],
    ));
    assert_eq!(guest.answer_to("work"), "done");
    let peak = group.charged();
    left(watch, "limited");
    assert!(peak < before + (2 << 20), "{before} bytes, then {peak}");
    assert_eq!(guest.answer_to("work"), "done");
}
