//! The hook on the unwinder: it is put back unless a call is proven to return through a frame of ours, what stays is said as a loss, and
//! whatever opens the process next takes it out.

use std::process::Command;

use crate::machine::program;
use crate::support::{Door, Guest, LIMIT, Snapshot, lancet, losses, run};
use crate::watch::{calls, hooked, left};

fn remembers() -> Option<(Guest, Snapshot)> {
    let guest = Guest::ready(&mut Command::new(program("remembers.cpp")?));
    let before = Snapshot::take(guest.pid);
    Some((guest, before))
}

/// The agent may be mapped where memory of the program's was, into which pointers are left over: here to every byte of its code.
#[test]
fn stale_words_are_no_frames() {
    let Some((mut guest, before)) = remembers() else {
        return;
    };
    left(hooked(calls(guest.pid, &["-c", "-x", "r_works"])), "first");
    before.text_holds(guest.pid, "before there are any");
    let [from, to] = Door::find(guest.pid).expect("an agent").routine();
    assert!(from < to, "{from:#x} to {to:#x}");
    guest.tell(&format!("fill {from:x} {to:x}"));
    guest.expect("filled 1");
    for round in ["second", "third"] {
        let watch = hooked(calls(guest.pid, &["--json", "-x", "r_works"]));
        assert_eq!(guest.answer_to("work"), "answer 2");
        let output = left(watch, round);
        assert_eq!(losses(&output.stdout), [], "{output:?}");
        before.text_holds(guest.pid, round);
    }
    guest.ends_with_nothing("remembers");
}

/// A call that waits keeps the hook, which is a loss; when it has returned, by an exception, the next command puts the bytes back.
#[test]
fn what_stays_is_said_and_mended() {
    let next: [&[&str]; 5] = [
        &["calls", "-c", "-x", "r_works", "--for", "100ms"],
        &["syscalls", "-c", "--for", "100ms"],
        &["stack"],
        &["stack", "--json"],
        &["patch", "--list"],
    ];
    for command in next {
        let Some((mut guest, before)) = remembers() else {
            return;
        };
        let what = command.join(" ");
        let watch = hooked(calls(guest.pid, &["--json", "-x", "r_waits"]));
        guest.tell("wait");
        guest.expect("waiting");
        guest.settle_in_read();
        let output = watch.interrupt();
        assert_eq!(output.code(), 4, "{what}: {output:?}");
        assert_eq!(losses(&output.stdout), [("leaving".into(), None)]);
        let why = "a call of r_waits may still return through a frame of ours";
        assert!(output.stderr.contains(why), "{what}: {output:?}");
        before.text_holds_but(guest.pid, &what, 1);
        assert_eq!(guest.answer_to("throw"), "caught 7", "{what}");
        let mut next = lancet();
        next.args(command).args(["-p", &guest.pid.to_string()]);
        let output = run(&mut next, LIMIT);
        assert_eq!(output.code(), 0, "{what}: {output:?}");
        before.text_holds(guest.pid, &what);
        guest.ends_with_nothing(&what);
    }
}
