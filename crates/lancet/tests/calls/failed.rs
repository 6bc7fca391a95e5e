//! A panic of lancet wherever it may come: no guest keeps a hook, all go on, and lancet ends with one line and exit code 1.

use crate::support::{Guest, LIMIT, Output, Snapshot, failing, mem, rubies, run};
use crate::watch::calls;

/// It failed at this place, and said so in one line, its last.
#[track_caller]
fn has_failed(output: &Output, place: &str) {
    assert_eq!(output.code(), 1, "{place}: {output:?}");
    let said = format!("it: a test asked for a panic here: {place} (crates/");
    let last = output.stderr.lines().last().unwrap_or_default();
    let beginning = "lancet: this is a fault of lancet's, please report ";
    assert!(last.starts_with(beginning), "{place}: {}", output.stderr);
    assert!(last.contains(&said), "{place}: {}", output.stderr);
    let reports = output.stderr.matches("panic").count();
    assert_eq!(reports, 1, "{place}: {}", output.stderr);
}

const HOOKS: [&str; 6] = ["-x", "rb_*", "-x", "malloc", "-x", "free"];

#[test]
fn a_panic_anywhere_leaves_the_guest() {
    for ruby in rubies("calls failed") {
        let mut guest = Guest::script(&ruby, "live/churn.rb", &[]);
        guest.expect("ready");
        let before = Snapshot::take(guest.pid);
        // Threads stand still in `setting`; the other two are threads of lancet's own.
        for place in ["reading", "formatting", "setting", "writing", "beating"] {
            let output = run(&mut failing(&calls(guest.pid, &HOOKS), place), LIMIT);
            has_failed(&output, place);
            before.text_holds(guest.pid, place);
        }
        guest.tell("");
        guest.ends_with("answer right");
    }
}

/// The first panic is while events are read, the second while the first of two guests is left.
#[test]
fn a_panic_while_leaving_keeps_no_other_guest() {
    for ruby in rubies("calls failed twice") {
        let guests = [(); 2].map(|()| Guest::script(&ruby, "live/churn.rb", &[]));
        guests.iter().for_each(|guest| guest.expect("ready"));
        let before = guests.each_ref().map(|guest| Snapshot::take(guest.pid));
        let mut command = calls(guests[0].pid, &HOOKS);
        command.args(["-p", &guests[1].pid.to_string()]);
        for (places, first) in [
            ("reading,leaving", "reading"),
            ("formatting,leaving", "formatting"),
        ] {
            let output = run(&mut failing(&command, places), LIMIT);
            has_failed(&output, first);
            for (guest, before) in guests.iter().zip(&before) {
                before.text_holds(guest.pid, places);
            }
        }
        for mut guest in guests {
            guest.tell("");
            guest.ends_with("answer right");
        }
    }
}

/// A program that was started goes on alone.
#[test]
fn a_started_program_goes_on() {
    for ruby in rubies("calls failed, started") {
        for command in ["calls", "mem"] {
            let place = if command == "calls" {
                "reading"
            } else {
                "counting"
            };
            let mut lancet = crate::support::lancet();
            lancet.arg(command);
            if command == "calls" {
                lancet.args(["-x", "rb_ary_push"]);
            } else {
                lancet.args(["--every", "100ms"]);
            }
            let script = "a = []; 100_000.times { |i| a.push(i); a.clear if i % 100 == 0 }; sleep 0.3; puts 'answer'";
            lancet
                .arg("--")
                .arg(ruby.command().get_program())
                .args(["-e", script]);
            let output = run(&mut failing(&lancet, place), LIMIT);
            has_failed(&output, place);
            assert_eq!(output.stdout, "answer\n", "{command}: {output:?}");
        }
    }
}

/// A session of `mem` has no patched text: its hook is the VM's own, and is out too.
#[test]
fn a_panic_in_a_session_of_mem() {
    for ruby in rubies("mem failed") {
        let mut guest = Guest::script(&ruby, "live/churn.rb", &[]);
        guest.expect("ready");
        let before = Snapshot::take(guest.pid);
        let mut command = mem(guest.pid);
        command.args(["--for", "10ms"]);
        for places in ["counting", "beating", "counting,leaving"] {
            let mut long = mem(guest.pid);
            long.args(["--for", if places == "beating" { "60s" } else { "10ms" }]);
            let output = run(&mut failing(&long, places), LIMIT);
            has_failed(&output, places.split(',').next().expect("one"));
            before.text_holds(guest.pid, places);
            // It was left: nobody else has it, so it can be opened at once.
            let output = run(&mut command, LIMIT);
            assert_eq!(output.code(), 0, "{places}: {output:?}");
        }
        guest.tell("");
        guest.ends_with("answer right");
    }
}

/// All threads stand still when it comes.
#[test]
fn a_panic_in_a_look_at_stacks() {
    for ruby in rubies("stack failed") {
        let mut guest = Guest::script(&ruby, "live/churn.rb", &[]);
        guest.expect("ready");
        let before = Snapshot::take(guest.pid);
        let pid = guest.pid.to_string();
        for more in [&["--for", "1s"][..], &[]] {
            let mut stack = crate::support::lancet();
            stack.args(["stack", "-p", &pid]).args(more);
            let output = run(&mut failing(&stack, "looking"), LIMIT);
            has_failed(&output, "looking");
            before.text_holds(guest.pid, "looking");
        }
        guest.tell("");
        guest.ends_with("answer right");
    }
}
