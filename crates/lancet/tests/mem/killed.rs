//! `kill -9` of lancet at random instants: the guest goes on, and the next attach works.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::{
    Door, Guest, Interpreter, LIMIT, Random, Report, Snapshot, Watch, alone, born, live, mem,
    rounds, rubies, run, say, unreserved, until,
};

/// Guests for the killing: script, answer. `None`: it is told to end by a line.
const GUESTS: [(&str, Option<&str>); 9] = [
    ("live/churn.rb", None),
    ("states/cpu_loop.rb", Some("332833500")),
    ("states/sleep.rb", Some("1000")),
    ("states/timed_sleep.rb", Some("1000")),
    ("states/join.rb", Some("4950")),
    ("states/accept.rb", Some("1")),
    ("states/select_threads.rb", Some("10")),
    ("states/queue_pop.rb", Some("332833500")),
    ("states/mutex.rb", Some("2")),
];
/// Kills before a guest is asked for its answer and another one is started.
const KILLS_EACH: u32 = 6;

/// When lancet is killed.
#[derive(Clone, Copy, Debug)]
enum Instant9 {
    /// So many microseconds after its start.
    Start(u64),
    /// So long after Ctrl-C, which comes when it has opened the guest.
    Leave(u64),
}

impl Instant9 {
    /// Within `course`, the microseconds that a lancet takes about.
    fn random(random: &mut Random, course: u64) -> Self {
        match random.below(3) {
            0 | 1 => Instant9::Start(random.below(course)),
            _ => Instant9::Leave(random.below(course / 3)),
        }
    }
}

/// After a kill: how long a lancet takes here and now. A third of the kills come too late then.
fn adapted(course: u64, too_late: bool) -> u64 {
    let next = match too_late {
        true => course * 9 / 10,
        false => course * 21 / 20,
    };
    next.clamp(3_000, 60_000)
}

/// Waits without sleeping: a sleep ends when the scheduler likes.
pub fn spin(micros: u64) {
    let end = Instant::now() + Duration::from_micros(micros);
    while Instant::now() < end {
        std::hint::spin_loop();
    }
}

/// Starts lancet and kills it; whether it had ended before.
fn start_and_kill(pid: i32, when: Instant9) -> bool {
    let mut command = mem(pid);
    command.arg("--no-gc");
    match when {
        Instant9::Start(micros) => {
            // It watches for a moment and leaves: late instants hit every part of its course.
            command.args(["--for", "5ms"]);
            let mut child = quiet(command);
            spin(micros);
            let ended = child.try_wait().expect("our child").is_some();
            let _ = child.kill();
            let _ = child.wait();
            ended
        }
        Instant9::Leave(micros) => {
            let watch = Watch::open(command);
            watch.ask(Signal::SIGINT);
            spin(micros);
            let ended = kill(Pid::from_raw(watch.pid()), None).is_err();
            watch.kill();
            ended
        }
    }
}

fn quiet(mut command: Command) -> Child {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("lancet starts")
}

fn attach_works(pid: i32, what: &str) {
    let mut command = mem(pid);
    command.args(["--no-gc", "--for", "1ms"]);
    let output = run(&mut command, LIMIT);
    assert_eq!(output.code(), 0, "{what}: the next attach: {output:?}");
}

fn kill_at_random(ruby: &Interpreter, count: u32) {
    let mut random = Random::new("killed");
    let started = Instant::now();
    let (mut kills, mut too_late) = (0, 0);
    let mut course = 30_000;
    for at in 0.. {
        if kills == count {
            break;
        }
        let (script, answer) = GUESTS[at % GUESTS.len()];
        let mut guest = Guest::script(ruby, script, &[]);
        guest.expect("ready");
        let before = Snapshot::take(guest.pid);
        for _ in 0..KILLS_EACH.min(count - kills) {
            let when = Instant9::random(&mut random, course);
            let what = format!("{ruby}, {script}, kill {kills}, {when:?}");
            let late = start_and_kill(guest.pid, when);
            if matches!(when, Instant9::Start(_)) {
                course = adapted(course, late);
            }
            too_late += u32::from(late);
            kills += 1;
            assert!(
                !matches!(guest.state(), None | Some('Z' | 't' | 'T')),
                "{what}: the guest is {:?}: {}",
                guest.state(),
                guest.complaints()
            );
            // Sometimes another one is killed on top of it.
            if random.below(4) > 0 {
                attach_works(guest.pid, &what);
            }
        }
        attach_works(guest.pid, script);
        before.holds(guest.pid, script);
        match answer {
            Some(answer) => guest.answers(answer),
            None => {
                guest.tell("");
                guest.ends_with("answer right");
            }
        }
    }
    say(format_args!(
        "{ruby}: {kills} kills ({too_late} after its end) in {:.1?}",
        started.elapsed()
    ));
    assert!(too_late < count / 2, "most kills came too late to matter");
}

#[test]
fn a_kill_at_any_instant_leaves_the_guest_computing() {
    for ruby in rubies("killed") {
        kill_at_random(&ruby, rounds(60, 1_000));
    }
}

/// Five seconds without a heartbeat and some births: the agent takes its hook out and gives its memory
/// back by itself.
#[test]
fn an_agent_whose_command_was_killed_leaves_by_itself() {
    for ruby in rubies("deserted") {
        let mut guest = Guest::script(&ruby, "live/births.rb", &[]);
        guest.expect("ready");
        let before = Snapshot::take(guest.pid);
        let make = |guest: &mut Guest| {
            guest.tell("5000");
            guest.find("made ");
        };
        let own = unreserved(guest.pid);
        let watch = Watch::open(mem(guest.pid));
        make(&mut guest);
        let door = Door::find(guest.pid).expect("an agent");
        assert!(door.open() && door.hooked(), "{ruby}: it is watched");
        assert!(unreserved(guest.pid) > own, "{ruby}: books are kept");
        watch.kill();
        let started = Instant::now();
        until(Duration::from_secs(20), "the agent to leave", || {
            make(&mut guest);
            (!door.open()).then_some(())
        });
        assert!(
            started.elapsed() > Duration::from_secs(3),
            "{ruby}: it waits for a command that is only slow"
        );
        assert!(door.deserted() && !door.hooked(), "{ruby}: it has left");
        let now = unreserved(guest.pid);
        assert_eq!(now, own, "{ruby}: the image stays, no book");
        before.holds(guest.pid, "deserted");
        exactly(&ruby, &mut guest, "after the agent left by itself");
        guest.ends_with("answer 0");
    }
}

/// The hook of the killed one is still there: nothing may be counted twice, or from before.
#[test]
fn the_next_attach_counts_from_its_own_beginning() {
    for ruby in rubies("after a kill") {
        let mut guest = Guest::script(&ruby, "live/births.rb", &[]);
        guest.expect("ready");
        for round in 0..3 {
            let watch = Watch::open(mem(guest.pid));
            guest.tell("70");
            guest.find("made ");
            watch.kill();
            exactly(&ruby, &mut guest, &format!("after kill {round}"));
        }
        guest.ends_with("answer 0");
    }
}

fn exactly(ruby: &Interpreter, guest: &mut Guest, what: &str) {
    let watch = Watch::open(mem(guest.pid));
    guest.tell("1000");
    guest.find("made ");
    let report = watch.report();
    let rows = report.of(guest.pid);
    assert_eq!(
        (
            born(rows, "births.rb:9:String"),
            live(rows, "births.rb:9:String")
        ),
        (1000, 1000),
        "{ruby}: {what}"
    );
}

/// Stopped for longer than the agent waits, lancet finds that it was given up, and says so.
#[test]
fn a_command_that_slept_too_long_is_told() {
    let ruby = Interpreter::system("ruby");
    let mut guest = Guest::script(&ruby, "live/births.rb", &[]);
    guest.expect("ready");
    let watch = Watch::open(mem(guest.pid));
    let door = Door::find(guest.pid).expect("an agent");
    watch.ask(Signal::SIGSTOP);
    until(Duration::from_secs(20), "the agent to leave", || {
        guest.tell("5000");
        guest.find("made ");
        (!door.open()).then_some(())
    });
    watch.ask(Signal::SIGCONT);
    let output = watch.interrupt();
    assert_ne!(output.code(), 0, "it could not do what it was asked");
    assert!(output.stderr.contains("by itself"), "{output:?}");
    let last = crate::support::losses(&output.stdout);
    assert!(last.contains(&("process".to_owned(), None)), "{output:?}");
    assert_eq!(output.code(), 4, "{output:?}");
    guest.ends_with("answer 0");
}

/// The heartbeat goes on while lancet does nothing else: it is not given up however long it watches.
#[test]
fn a_long_watch_is_not_given_up() {
    alone();
    let ruby = Interpreter::system("ruby");
    let mut guest = Guest::script(&ruby, "live/births.rb", &[]);
    guest.expect("ready");
    let watch = Watch::open(mem(guest.pid));
    let end = Instant::now() + Duration::from_secs(7);
    let mut made = 0;
    while Instant::now() < end {
        guest.tell("5000");
        guest.find("made ");
        made += 5000;
    }
    let report: Report = watch.report();
    assert_eq!(born(report.of(guest.pid), "births.rb:9:String"), made);
    guest.ends_with("answer 0");
}
