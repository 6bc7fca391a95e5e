//! Ten states of a Ruby, three attaches to each: quick, and afterwards the guest is as it was.
//!
//! The times are the tool's own: `opened process … in X ms; it stood still for Y ms`, where Y is the
//! sum of all stops. One of three may be over its limit, but not by far. What else runs on the machine
//! only adds, so where the three are too slow, more are made, and three of all must be good: an attach
//! that is slow by itself is so every time. On a machine with more to run than processors, or whose hypervisor
//! gives them to others, everything takes that many times as long, and so may they. A guest that says for how long its state keeps everybody out of the VM
//! (one collection of 4 million objects) may be opened when three of these have passed: the VM is entered twice to open it, each
//! time behind the collection under way, and either may just miss the moment.

use std::time::Duration;

use nix::sys::signal::Signal;

use crate::support::{
    Guest, Interpreter, Opened, Snapshot, Ticks, alone, is_release, mem, rubies, run, say,
};

/// How far over its limit one attach of three may be.
const OUTLIER: f64 = 4.0;
/// Attaches before a state is called slow.
const MOST: usize = 15;
/// What an unoptimised lancet may take longer.
const DEBUG: f64 = 8.0;
/// How long the guest may stand still, in milliseconds.
const STOPPED: f64 = 5.0;

struct State {
    script: &'static str,
    answer: &'static str,
    /// One letter: where its process is once it is in its state.
    settled: char,
    /// Milliseconds until the first answer.
    limit: f64,
}

/// See `fixtures/ruby/states/README.md`.
const STATES: [State; 10] = [
    state("cpu_loop", "332833500", 'R', 100.0),
    state("sleep", "1000", 'S', 100.0),
    state("timed_sleep", "1000", 'S', 100.0),
    state("join", "4950", 'S', 100.0),
    state("accept", "1", 'S', 100.0),
    state("select_threads", "10", 'S', 100.0),
    state("queue_pop", "332833500", 'S', 300.0),
    state("bignum", "530", 'R', 300.0),
    state("gc_loop", "4000000", 'R', 300.0),
    state("mutex", "2", 'S', 100.0),
];

const fn state(script: &'static str, answer: &'static str, settled: char, limit: f64) -> State {
    State {
        script,
        answer,
        settled,
        limit,
    }
}

/// What lancet says of an attach, its limit, and where it stands.
type Figure = (&'static str, f64, fn(&Opened) -> f64);

fn attach_three_times(ruby: &Interpreter, state: &State) -> Vec<String> {
    let guest = Guest::script(ruby, &format!("states/{}.rb", state.script), &[]);
    let busy = busy_until_ready(&guest);
    guest.settle(state.settled);
    let before = Snapshot::take(guest.pid);
    let began = Ticks::now();
    let mut times: Vec<Opened> = Vec::new();
    let check = |times: &[Opened]| {
        let figures: [Figure; 2] = [
            ("opened in", state.limit.max(busy * 3.0), |opened| {
                opened.milliseconds
            }),
            ("stood still for", STOPPED, |opened| opened.stopped),
        ];
        let slow = figures.into_iter().filter_map(|(what, limit, of)| {
            let mut sorted: Vec<f64> = times.iter().map(of).collect();
            sorted.sort_by(f64::total_cmp);
            let limit = limit * began.slowness() * if is_release() { 1.0 } else { DEBUG };
            let good = match sorted.len() {
                3 => sorted[1] < limit && sorted[2] < limit * OUTLIER,
                _ => sorted[2] < limit,
            };
            let script = state.script;
            (!good).then(|| {
                format!("{ruby}, {script}: {what} {sorted:.1?} ms, the limit is {limit:.0}")
            })
        });
        slow.collect::<Vec<_>>()
    };
    for attach in 1..=MOST {
        if attach > 3 && check(&times).is_empty() {
            break;
        }
        let what = format!("{ruby}, {}, attach {attach}", state.script);
        let mut command = mem(guest.pid);
        command.args(["--no-gc", "--for", "1ms"]);
        let output = run(&mut command, Duration::from_secs(60));
        assert_eq!(output.code(), 0, "{what}: {}", output.stderr);
        times.push(Opened::read(&output.stderr));
        before.holds(guest.pid, &what);
    }
    guest.answers(state.answer);
    let slow = check(&times);
    if times.len() > 3 {
        say(format_args!(
            "{ruby}, {}: {} attaches, the machine is busy; {}",
            state.script,
            times.len(),
            slow.join("; ")
        ));
    }
    slow
}

/// The milliseconds for which its state keeps everybody out of the VM, as it says itself: see
/// `fixtures/ruby/states/README.md`.
fn busy_until_ready(guest: &Guest) -> f64 {
    let mut busy = 0.0;
    loop {
        let line = guest
            .line()
            .unwrap_or_else(|| panic!("{}", guest.complaints()));
        match line.strip_prefix("busy ") {
            Some(milliseconds) => busy = milliseconds.parse().expect("milliseconds"),
            None => {
                assert_eq!(line, "ready");
                return busy;
            }
        }
    }
}

#[test]
fn ten_states_are_opened_quickly_and_left_without_a_trace() {
    alone();
    let mut slow = Vec::new();
    for ruby in rubies("attach") {
        for state in &STATES {
            slow.extend(attach_three_times(&ruby, state));
        }
    }
    assert!(slow.is_empty(), "{}", slow.join("\n"));
}

#[test]
fn ctrl_c_while_it_opens_leaves_the_guest_as_it_was() {
    alone();
    let ruby = Interpreter::system("ruby");
    let guest = Guest::script(&ruby, "states/queue_pop.rb", &[]);
    guest.expect("ready");
    let before = Snapshot::take(guest.pid);
    for wait in [1, 5, 20, 60] {
        let watch = crate::support::Watch::start(mem(guest.pid));
        std::thread::sleep(Duration::from_millis(wait));
        watch.ask(Signal::SIGINT);
        let output = watch.end();
        // Before it catches the signal, Ctrl-C simply ends it.
        if output.status.code().is_none() {
            say(format_args!("ctrl-c after {wait} ms came before main"));
        }
        before.holds(guest.pid, "after ctrl-c");
    }
    guest.answers("332833500");
}
