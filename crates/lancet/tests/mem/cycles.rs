//! Hundreds of attaches to one guest whose threads do little else than malloc and free.

use std::fs;
use std::time::Instant;

use crate::support::{Guest, Interpreter, LIMIT, Snapshot, mem, rounds, rubies, run, say};

/// How the memory of a guest is laid out, as far as lancet could change it.
#[derive(Debug, PartialEq, Eq)]
struct Layout {
    /// Mappings that hold code without a file: the agent's.
    code: usize,
    /// All mappings without a file.
    anonymous: usize,
    descriptors: usize,
}

impl Layout {
    fn of(pid: i32) -> Self {
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("the guest's maps");
        let anonymous: Vec<&str> = maps
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>())
            .filter(|words| words.len() == 5)
            .map(|words| words[1])
            .collect();
        Layout {
            code: anonymous.iter().filter(|line| line.contains('x')).count(),
            anonymous: anonymous.len(),
            descriptors: fs::read_dir(format!("/proc/{pid}/fd"))
                .expect("the guest's descriptors")
                .count(),
        }
    }
}

fn cycle(pid: i32, number: u32) {
    let mut command = mem(pid);
    command.args(["--no-gc", "--for", "1ms"]);
    let output = run(&mut command, LIMIT);
    assert_eq!(output.code(), 0, "attach {number}: {}", output.stderr);
}

/// malloc makes and drops mappings of its own under load, so the guest's anonymous ones are only
/// held to a bound that growth by one for each attach would break.
fn under_load(ruby: &Interpreter, count: u32) {
    let mut guest = Guest::script(ruby, "live/churn.rb", &[]);
    guest.expect("ready");
    let before = Snapshot::take(guest.pid);
    let started = Instant::now();
    cycle(guest.pid, 1);
    let first = Layout::of(guest.pid);
    for number in 2..=count {
        cycle(guest.pid, number);
        let now = Layout::of(guest.pid);
        assert_eq!(
            (now.code, now.descriptors),
            (first.code, first.descriptors),
            "{ruby}: mappings of code and descriptors after {number} attaches"
        );
        assert!(
            now.anonymous < first.anonymous + 100,
            "{ruby}: after {number} attaches {} anonymous mappings, after the first {}",
            now.anonymous,
            first.anonymous
        );
    }
    say(format_args!(
        "{ruby}: {count} attaches under load in {:.1?}",
        started.elapsed()
    ));
    before.holds(guest.pid, "under load");
    guest.tell("");
    guest.ends_with("answer right");
}

#[test]
fn hundreds_of_attaches_under_malloc_load_leave_nothing_behind() {
    for ruby in rubies("cycles") {
        under_load(&ruby, rounds(150, 1_000));
    }
}

/// A guest that does nothing has the same mappings after a hundred attaches as after the first.
#[test]
fn attaches_to_a_guest_at_rest_do_not_add_up() {
    for ruby in rubies("cycles at rest") {
        let guest = Guest::script(&ruby, "states/sleep.rb", &[]);
        guest.expect("ready");
        guest.settle('S');
        let untouched = Snapshot::take(guest.pid);
        cycle(guest.pid, 1);
        let (first, resident) = (Layout::of(guest.pid), guest.resident());
        for number in 2..=rounds(50, 1_000) {
            cycle(guest.pid, number);
        }
        let grown = guest.resident().saturating_sub(resident);
        assert_eq!(Layout::of(guest.pid), first, "{ruby}");
        assert!(grown < 2 << 20, "{ruby}: {grown} bytes more are in use");
        untouched.holds(guest.pid, "at rest");
        guest.answers("1000");
    }
}
