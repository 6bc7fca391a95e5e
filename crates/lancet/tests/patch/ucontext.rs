//! The remedy `ucontext`: signal masks and floating-point control are kept in every state, and switches are fast.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::programs::{compiled_from, done, tried};
use crate::support::{
    Guest, LIMIT, Load, Snapshot, TempDir, Watch, ask, installed, lancet, say, skip, soak, until,
};

fn program() -> PathBuf {
    compiled_from("contexts", "c/contexts.c", &["-pthread", "-lm", "-ldl"])
}

/// The same, which imports what lets flags trap.
fn program_with_traps() -> PathBuf {
    let options = ["-DIMPORTS", "-pthread", "-lm", "-ldl"];
    compiled_from("contexts-traps", "c/contexts.c", &options)
}

fn guest() -> Guest {
    Guest::ready(&mut Command::new(program()))
}

fn nanoseconds(guest: &mut Guest, what: &str) -> f64 {
    let mut answers = (0..3).map(|_| guest.answer_to(what).parse::<f64>().expect("nanoseconds"));
    let first = answers.next().expect("three");
    answers.fold(first, f64::min)
}

/// What `program` and `switches` of the guest take, and with masks that differ.
struct Times {
    program: f64,
    same: f64,
    differ: f64,
}

impl Times {
    fn of(guest: &mut Guest) -> Times {
        Times {
            program: nanoseconds(guest, "program"),
            same: nanoseconds(guest, "switches"),
            differ: nanoseconds(guest, "differ"),
        }
    }
}

/// From more than 150 ns to 12 at most, and back, also in a program whose contexts have other exception flags each: the figures of a busy machine are all
/// larger, so the ratio counts too.
#[test]
fn switches_are_fast_and_slow_again_when_it_is_undone() {
    let mut guest = guest();
    let before = Snapshot::take(guest.pid);
    let bare = Times::of(&mut guest);
    let said = done(guest.pid, &["--wait", "10s", "--remedy", "ucontext"]);
    assert!(
        said.contains("swapcontext of remedy ucontext=strict"),
        "{said}"
    );
    let strict = Times::of(&mut guest);
    // One of its patches, and so all.
    done(guest.pid, &["--undo", "3"]);
    before.text_holds(guest.pid, "undone");
    let undone = Times::of(&mut guest);
    done(guest.pid, &["--wait", "10s", "--remedy", "ucontext=lite"]);
    let lite = Times::of(&mut guest);
    done(guest.pid, &["--undo"]);
    done(guest.pid, &["--wait", "10s", "--remedy", "ucontext=exact"]);
    let exact = Times::of(&mut guest);
    done(guest.pid, &["--undo"]);
    before.text_holds(guest.pid, "undone again");
    let all = [
        ("bare", &bare),
        ("strict", &strict),
        ("lite", &lite),
        ("exact", &exact),
        ("undone", &undone),
    ];
    for (name, times) in all {
        say(format_args!(
            "a switch, {name}: {} ns in a program, {} in a loop, {} with masks that differ",
            times.program, times.same, times.differ
        ));
    }
    for fast in [&strict, &lite] {
        assert!(
            fast.same * 10.0 < bare.same,
            "{} of {}",
            fast.same,
            bare.same
        );
        assert!(
            fast.program * 10.0 < bare.program,
            "{} of {}",
            fast.program,
            bare.program
        );
    }
    assert!(undone.program * 2.0 > bare.program, "{}", undone.program);
    assert!(strict.differ < bare.differ, "{}", strict.differ);
    guest.ends_with("answer 0");
}

/// A signal that is blocked stays blocked and is delivered where it is not: masks that are equal, that differ, that are changed between, by handlers, by leaving them, by
/// switching within them. The kernel is asked past glibc. It is applied and undone while all that goes on.
#[test]
fn masks_are_kept_in_every_state() {
    let mut guest = guest();
    assert_eq!(guest.answer_to("masks"), "right", "before");
    assert_eq!(guest.answer_to("flags"), "right", "before");
    for turn in 0..5 {
        done(guest.pid, &["--wait", "10s", "--remedy", "ucontext=strict"]);
        assert_eq!(guest.answer_to("masks"), "right", "turn {turn}");
        assert_eq!(guest.answer_to("floats"), "right", "turn {turn}");
        assert_eq!(guest.answer_to("contexts"), "0", "turn {turn}");
        // Under way when it is undone, and when it is applied again.
        guest.tell("masks");
        done(guest.pid, &["--undo"]);
        guest.expect("right");
        guest.tell("contexts");
        done(guest.pid, &["--wait", "10s", "--remedy", "ucontext"]);
        guest.expect("0");
        guest.tell("masks");
        done(guest.pid, &["--undo"]);
        guest.expect("right");
    }
    // The test can fail: without masks it does.
    done(guest.pid, &["--wait", "10s", "--remedy", "ucontext=lite"]);
    assert!(guest.answer_to("masks").contains("another mask"));
    assert_eq!(guest.answer_to("floats"), "right");
    // Of exception flags it promises no more than that none is lost.
    assert!(guest.answer_to("flags").contains("flags came along"));
    done(guest.pid, &["--undo"]);
    done(guest.pid, &["--wait", "10s", "--remedy", "ucontext=exact"]);
    assert_eq!(guest.answer_to("masks"), "right", "exact");
    assert_eq!(guest.answer_to("flags"), "right", "exact");
    guest.ends_with("answer 0");
}

#[test]
fn what_may_switch_within_signals_is_refused() {
    let guest = Guest::ready(Command::new(program()).arg("timer"));
    let before = Snapshot::take(guest.pid);
    let output = tried(guest.pid, &["--remedy", "ucontext"]);
    assert_eq!(output.code(), 1, "{output:?}");
    assert!(output.stderr.contains("it catches SIGALRM"), "{output:?}");
    before.holds(guest.pid, "refused");
    let guest = Guest::ready(Command::new(program()).env("GLIBC_TUNABLES", "glibc.pthread.rseq=0"));
    let output = tried(guest.pid, &["--remedy", "ucontext"]);
    assert_eq!(output.code(), 1, "{output:?}");
    assert!(
        output.stderr.contains("no restartable sequences"),
        "{output:?}"
    );
    let unregistered = Guest::ready(Command::new(program()).arg("unregistered"));
    let output = tried(unregistered.pid, &["--remedy", "ucontext"]);
    assert_eq!(output.code(), 1, "{output:?}");
    let wanted = format!(
        "thread {} has no restartable sequences registered",
        unregistered.pid
    );
    assert!(output.stderr.contains(&wanted), "{output:?}");
    let output = tried(guest.pid, &["--remedy", "ucontext=quick"]);
    assert_eq!(output.code(), 1, "{output:?}");
    assert!(output.stderr.contains("ucontext=lite"), "{output:?}");
}

/// A flag that another context has raised would end a context that enables traps later, or puts an environment back: where a module may do that, `exact` alone is
/// applied, and the guest gets no SIGFPE.
#[test]
fn programs_that_let_flags_trap_keep_their_flags_apart() {
    let mut guest = Guest::ready(&mut Command::new(program_with_traps()));
    assert_eq!(guest.answer_to("enables"), "right", "before");
    let before = Snapshot::take(guest.pid);
    for remedy in ["ucontext", "ucontext=strict", "ucontext=lite"] {
        let output = tried(guest.pid, &["--remedy", remedy]);
        assert_eq!(output.code(), 1, "{remedy}: {output:?}");
        let said = &output.stderr;
        assert!(said.contains(" may call fe"), "{remedy}: {said}");
        assert!(said.contains("ucontext=exact"), "{remedy}: {said}");
        before.holds(guest.pid, remedy);
    }
    done(guest.pid, &["--wait", "10s", "--remedy", "ucontext=exact"]);
    assert_eq!(guest.answer_to("enables"), "right", "exact");
    assert_eq!(guest.answer_to("flags"), "right", "exact");
    done(guest.pid, &["--undo"]);
    before.text_holds(guest.pid, "undone");
    guest.ends_with("answer 0");
}

/// How often a process calls rt_sigprocmask while this is done.
fn calls_of_sigprocmask(pid: i32, work: impl FnOnce()) -> u64 {
    let mut command = lancet();
    command.args(["syscalls", "--no-modify", "-c"]);
    command.args(["-e", "trace=rt_sigprocmask", "-p", &pid.to_string()]);
    let mut watch = Watch::start(command);
    watch.until("lancet: process ");
    work();
    let output = watch.interrupt();
    assert_eq!(output.code(), 0, "{output:?}");
    let rows = output.stdout.lines();
    let row = rows.into_iter().find(|row| row.ends_with("rt_sigprocmask"));
    row.map_or(0, |row| {
        let calls = row.split_whitespace().nth(3).expect("a column of calls");
        calls.parse().expect("a number")
    })
}

/// uWSGI's green threads (`--ugreen`) switch by `swapcontext` whenever an answer yields: two switches each time, and a look for events in each round. What
/// each request has counted is right while the remedy comes and goes. A switch calls rt_sigprocmask, and none with the remedy; what one yield costs in
/// processor time is printed only, since it is another one from run to run where the processors are shared.
#[test]
fn green_threads_of_a_uwsgi() {
    const APPLICATION: &str = r#"
import time

def application(environ, start_response):
    number = int(environ["QUERY_STRING"])
    turns = number - 1000000000 if number > 1000000000 else number % 50 + 1
    start_response("200 OK", [("Content-Type", "text/plain")])
    began = time.process_time_ns()
    total = 0
    for turn in range(turns):
        total += turn
        yield b""
    yield b"%d %d" % (total, (time.process_time_ns() - began) // turns)
"#;
    const TURNS: u64 = 100_000;
    const COUNTED: u64 = 1_000;
    const MANY: u64 = 1_000_000_000;
    let plugins =
        ["python3", "ugreen"].map(|name| format!("/usr/lib/uwsgi/plugins/{name}_plugin.so"));
    if !installed("uwsgi") || plugins.iter().any(|plugin| !Path::new(plugin).exists()) {
        return skip("patch uwsgi", "no uwsgi-core or no uwsgi-plugin-python3");
    }
    let folder = TempDir::new("patch-uwsgi");
    std::fs::write(folder.join("shop.py"), APPLICATION).expect("a file");
    let mut command = Command::new("sh");
    command
        .args(["-c", "exec uwsgi --plugin python3,ugreen --http-socket 127.0.0.1:0 --async 8 --ugreen --disable-logging --wsgi-file shop.py 2>&1"])
        .current_dir(folder.join(""));
    let guest = Guest::start("uwsgi", command);
    let said = guest.find_within("bound to TCP address 127.0.0.1:");
    let digits: String = said.chars().take_while(char::is_ascii_digit).collect();
    let port: u16 = digits.parse().expect("a port");
    guest.find_within("spawned uWSGI worker 1");
    let before = Snapshot::take(guest.pid);
    let parts = |answer: &str| {
        let (total, nanoseconds) = answer.split_once(' ').expect("two numbers");
        (total.parse().unwrap(), nanoseconds.parse::<u64>().unwrap())
    };
    let sum = |turns: u64| turns * (turns - 1) / 2;
    let calls_of_many = || {
        calls_of_sigprocmask(guest.pid, || {
            let (total, _): (u64, u64) = parts(&ask(port, MANY + COUNTED));
            assert_eq!(total, sum(COUNTED));
        })
    };
    let a_yield = || {
        let answers = (0..3).map(|_| parts(&ask(port, MANY + TURNS)));
        let times = answers.map(|(total, time): (u64, u64)| {
            assert_eq!(total, sum(TURNS));
            time
        });
        times.min().expect("three")
    };
    let is_right = |number: u64, answer: &str| {
        let turns = number % 50 + 1;
        answer.starts_with(&format!("{} ", turns * (turns - 1) / 2))
    };
    let two_a_turn = 2 * COUNTED..3 * COUNTED;
    let (bare, calls) = (a_yield(), calls_of_many());
    assert!(two_a_turn.contains(&calls), "bare: {calls}");
    let apply = ["--wait", "10s", "--remedy", "ucontext"];
    done(guest.pid, &apply);
    let (strict, calls) = (a_yield(), calls_of_many());
    assert!(calls < COUNTED / 10, "with the remedy: {calls}");
    done(guest.pid, &["--undo"]);
    let (undone, calls) = (a_yield(), calls_of_many());
    assert!(two_a_turn.contains(&calls), "undone: {calls}");
    let load = Load::start(port, 4, is_right);
    let turns = if soak() { 500 } else { 10 };
    for _ in 0..turns {
        done(guest.pid, &apply);
        let answers = load.answers();
        until(LIMIT, "an answer", || {
            (load.answers() > answers).then_some(())
        });
        done(guest.pid, &["--undo"]);
    }
    let answers = load.end();
    before.text_holds(guest.pid, "undone");
    say(format_args!(
        "uwsgi: a yield costs {bare} ns, with the remedy {strict}, undone {undone}; {turns} times under load, {answers} answers, all right"
    ));
}
