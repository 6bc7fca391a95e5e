//! Who has the lock of a VM, since when others wait for it, and circles through it: `fixtures/scenarios/vm_lock.*`.

use std::process::Command;

use super::output::stack;
use crate::support::{Guest, LIMIT, fixtures, installed, lancet, run, skip, until};

/// The programs that are installed, each with a name.
fn guests(mode: &'static str) -> impl Iterator<Item = (String, Guest)> {
    let scripts = [("python3", "vm_lock.py"), ("ruby", "vm_lock.rb")];
    scripts
        .into_iter()
        .filter_map(move |(interpreter, script)| {
            if !installed(interpreter) {
                skip(script, format_args!("there is no {interpreter}"));
                return None;
            }
            let mut command = Command::new(interpreter);
            command
                .arg(fixtures().join("scenarios").join(script))
                .arg(mode);
            Some((format!("{script} {mode}"), Guest::ready(&mut command)))
        })
}

/// What is said of a process. The outer frames of a stack may be missing; then the exit code says that something is, and a line what.
fn said(guest: &Guest) -> String {
    let output = stack(&["-p", &guest.pid.to_string()]);
    let complaints = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(0) => {}
        Some(4) => assert_eq!(complaints.lines().count(), 1, "{output:?}"),
        _ => panic!("{output:?}"),
    }
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A thread that waits wakes up to ask for the lock again, now and then between two looks at it: that look is repeated.
fn look(guest: &Guest, is_it: impl Fn(&str) -> bool) -> String {
    until(LIMIT, "what is to be said", || {
        Some(said(guest)).filter(|said| is_it(said))
    })
}

/// The seconds of `waits 3.0 s for`, or of milliseconds.
fn waits(line: &str) -> f64 {
    let mut words = line
        .split_whitespace()
        .skip_while(|word| *word != "waits")
        .skip(1);
    let number: f64 = words
        .next()
        .and_then(|word| word.parse().ok())
        .expect("a time");
    match words.next() {
        Some("ms") => number / 1000.0,
        Some("s") => number,
        unit => panic!("{unit:?} in {line}"),
    }
}

#[test]
fn the_holder_is_named_and_since_when_others_wait() {
    for (name, guest) in guests("keeps") {
        let is_told = |said: &str| said.contains(" for the VM lock, which thread ");
        let said = look(&guest, is_told);
        let line = said
            .lines()
            .find(|line| is_told(line))
            .expect("it was found");
        let holder = format!("which thread {} ", guest.pid);
        assert!(line.contains(&holder), "{name}: {said}");
        // The fixture waits half a second before it says that it is ready; Python asks for the lock each 5 ms.
        assert!(waits(line) >= 0.4, "{name}: {said}");
        assert!(!said.contains("deadlock"), "{name}: {said}");
        // A look at the moment in which it asks for the lock again sees it run.
        until(LIMIT, "calls --now says who holds it up", || {
            let mut command = lancet();
            command.args(["calls", "--now", "-p", &guest.pid.to_string()]);
            let now = run(&mut command, LIMIT).stdout;
            let holds = now.contains(" holds up 1 thread (for the VM lock) for ");
            (holds && now.contains("; it is asleep ")).then_some(())
        });
        // Of a wait of a second that is said before the threads.
        let first = format!("\n\nthread {} ", guest.pid);
        let said = look(&guest, |said| {
            said.contains(" holds up 1 thread (for the VM lock) for ")
        });
        let (before, _) = said
            .split_once(" holds up 1 thread (for the VM lock) for ")
            .expect("found");
        let lines: Vec<&str> = before.lines().collect();
        assert!(
            before.contains(&first) && lines.len() == 3,
            "{name}: {said}"
        );
    }
}

#[test]
fn a_circle_through_the_lock_of_the_vm_is_a_deadlock() {
    for (name, guest) in guests("circle") {
        let said = look(&guest, |said| said.contains("\ndeadlock: "));
        let (_, circle) = said.split_once("\ndeadlock: ").expect("it was found");
        let circle = circle.split("\n\n").next().unwrap_or_default();
        assert!(
            circle.starts_with("these 2 threads wait for each other, and none goes on\n"),
            "{name}: {said}"
        );
        for part in [
            "renderer (vm_lock",
            "waits for the VM lock, which thread",
            "logger (vm_lock",
            "waits for a pthread mutex that thread",
        ] {
            assert!(circle.contains(part), "{name}: {part}: {said}");
        }
    }
}
