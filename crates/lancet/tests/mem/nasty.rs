//! Nasty guests: watched from before their first round to after their last, they give the answer
//! they give unwatched, and lancet its report.

use std::time::Duration;

use crate::support::{self, Guest, Interpreter, LIMIT, Watch, mem, rubies, run, soak};

/// Script, rounds, answer: see `fixtures/ruby/nasty/README.md`; fewer rounds where the long form
/// takes long.
const GUESTS: [(&str, u32); 9] = [
    ("malloc", 2_000),
    ("signals", 5_000),
    ("fork", 30),
    ("threads", 6_000),
    ("fibers", 150),
    ("raise", 15),
    ("compact", 60),
    ("eval", 1_000),
    ("classes", 4_000),
];

/// The long form.
const LONGER: u32 = 10;

/// Several versions share them.
fn rounds(short: u32) -> String {
    support::rounds::<u32>(short, short * LONGER).to_string()
}

/// What it answers when nobody looks.
fn unwatched(ruby: &Interpreter, script: &str, rounds: &str) -> String {
    let guest = Guest::script(ruby, script, &[rounds]);
    let answer = guest.find("answer ");
    let (_, status) = guest.end();
    assert!(status.success(), "{ruby} {script}: {status}");
    answer
}

fn watched(ruby: &Interpreter, script: &str, rounds: &str, options: &[&str]) -> String {
    let mut guest = Guest::held(ruby, script, &[rounds]);
    let mut command = mem(guest.pid);
    command.args(options);
    let watch = Watch::open(command);
    guest.tell("");
    let answer = guest.find("answer ");
    let what = format!("{ruby} {script} {options:?}");
    let output = watch.interrupt();
    // Children that came and went are told of with exit code 4.
    let followed = options.contains(&"--children");
    assert!(
        output.code() == 0 || (followed && output.code() == 4),
        "{what}: {output:?}"
    );
    assert!(output.stdout.contains("\"process\""), "{what}: {output:?}");
    guest.tell("");
    let (_, status) = guest.end();
    assert!(status.success(), "{what}: {status}");
    answer
}

#[test]
fn nasty_guests_compute_the_same_while_they_are_watched() {
    for ruby in rubies("nasty") {
        for (name, short) in GUESTS {
            let script = format!("nasty/{name}.rb");
            let rounds = rounds(short);
            let wanted = unwatched(&ruby, &script, &rounds);
            for options in [&["--no-gc"][..], &["--stacks", "16", "--every", "100ms"]] {
                let got = watched(&ruby, &script, &rounds, options);
                assert_eq!(got, wanted, "{ruby} {script} {options:?}");
            }
        }
    }
}

#[test]
fn forks_that_are_followed_compute_the_same() {
    for ruby in rubies("nasty forks") {
        let rounds = rounds(20);
        let wanted = unwatched(&ruby, "nasty/fork.rb", &rounds);
        let got = watched(&ruby, "nasty/fork.rb", &rounds, &["--children"]);
        assert_eq!(got, wanted, "{ruby}");
    }
}

/// A program that becomes another by exec loses the agent with everything else, and lancet says so
/// or opens what it became; the guest does not care.
#[test]
fn exec_takes_the_agent_away_and_the_guest_goes_on() {
    for ruby in rubies("nasty exec") {
        let wanted = unwatched(&ruby, "nasty/exec.rb", "10");
        let mut guest = Guest::held(&ruby, "nasty/exec.rb", &["10"]);
        let watch = Watch::open(mem(guest.pid));
        guest.tell("");
        assert_eq!(guest.find("answer "), wanted, "{ruby}");
        let output = watch.interrupt();
        assert_ne!(output.status.code(), None, "lancet survives: {output:?}");
        guest.tell("");
        let (_, status) = guest.end();
        assert!(status.success(), "{ruby}: {status}");
    }
}

#[test]
fn a_guest_that_ends_while_it_is_watched_ends_well() {
    for ruby in rubies("ends while watched") {
        let mut guest = Guest::held(&ruby, "nasty/classes.rb", &["500"]);
        let watch = Watch::open(mem(guest.pid));
        guest.tell("");
        guest.find("answer ");
        guest.tell("");
        let (_, status) = guest.end();
        assert!(status.success(), "{ruby}: {status}");
        let output = watch.end();
        assert_eq!(
            output.code(),
            4,
            "it says what it could not know: {output:?}"
        );
    }
}

#[test]
fn a_storm_of_attaches_and_signals_harms_nobody() {
    for ruby in rubies("signal storm") {
        // It must not end before the last attach.
        let rounds = 4_000 * if soak() { LONGER } else { 1 };
        let rounds = rounds.to_string();
        let wanted = unwatched(&ruby, "nasty/signals.rb", &rounds);
        let mut guest = Guest::held(&ruby, "nasty/signals.rb", &[&rounds]);
        guest.tell("");
        for _ in 0..10 {
            let mut command = mem(guest.pid);
            command.args(["--no-gc", "--for", "20ms"]);
            let output = run(&mut command, LIMIT.max(Duration::from_secs(1)));
            assert_eq!(output.code(), 0, "{ruby}: {output:?}");
        }
        assert_eq!(guest.find("answer "), wanted, "{ruby}");
        guest.tell("");
        let (_, status) = guest.end();
        assert!(status.success(), "{ruby}: {status}");
    }
}
