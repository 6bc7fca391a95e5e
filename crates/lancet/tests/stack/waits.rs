//! What the threads of a process do: the dump of `lancet stack -p PID`.

use std::process::Command;
use std::time::Instant;

use serde_json::Value;

use super::languages::PYTHON;
use super::output::{records, stack, text};
use crate::support::{Guest, Interpreter, LIMIT, rubies, skip};

/// Looks until `is_it`, because a thread that has just been told to wait does so a moment later.
fn until(guest: &Guest, options: &[&str], is_it: impl Fn(&str) -> bool) -> String {
    let deadline = Instant::now() + LIMIT;
    let pid = guest.pid.to_string();
    loop {
        let said = text(&stack(&[options, &["-p", &pid]].concat()));
        if is_it(&said) {
            return said;
        }
        assert!(Instant::now() < deadline, "{said}");
        std::thread::yield_now();
    }
}

/// A thread of the fixture.
const LEFT: &str = "left, with a name that the kernel cuts";

fn guest(ruby: &Interpreter, arguments: &[&str]) -> Guest {
    let guest = Guest::script(ruby, "waits/locks.rb", arguments);
    guest.expect("ready");
    guest
}

/// Returns the block of a thread without its id and without the times: they differ from run to run.
fn block<'a>(said: &'a str, name: &str) -> Vec<&'a str> {
    let mark = format!(" {name}: ");
    let mut lines = said
        .lines()
        .skip_while(|line| !line.starts_with("thread ") || !line.contains(&mark));
    let head = lines
        .next()
        .unwrap_or_else(|| panic!("no thread {name} in {said}"));
    let (_, state) = head.split_once(&mark).expect("a state");
    let rows = lines.take_while(|line| line.starts_with("    "));
    std::iter::once(state).chain(rows.map(str::trim)).collect()
}

/// Returns the text without what stands between a verb and what follows: `waits 0.7 s for` becomes `waits for`.
fn timeless(state: &str) -> String {
    let mut words: Vec<&str> = state.split(' ').collect();
    while words.get(1).is_some_and(|word| word.parse::<f64>().is_ok()) {
        words.drain(1..3);
    }
    // The ids of threads.
    words.retain(|word| !word.bytes().all(|byte| byte.is_ascii_digit()));
    words.join(" ")
}

#[test]
fn every_way_to_wait_is_told() {
    for ruby in rubies("waits") {
        let guest = guest(&ruby, &[]);
        let waits = [
            (
                LEFT,
                "waits for a mutex that thread right (locks.rb:21) holds",
            ),
            (
                "right",
                "waits for a mutex that thread left, with a name that the kernel cuts (locks.rb:21) holds",
            ),
            (
                "wants",
                "waits for a mutex that thread holder (locks.rb:29) holds",
            ),
            ("joins", "waits for the end of thread holder (locks.rb:29)"),
        ];
        // Ruby 3.1 has one of the threads that wait look every 100 ms whether all of them do.
        let said = until(&guest, &[], |said| {
            let is_told = |(name, wanted): &(&str, &str)| timeless(block(said, name)[0]) == *wanted;
            said.contains("\ndeadlock: ") && waits.iter().all(is_told)
        });
        let state = |name: &str| timeless(block(&said, name)[0]);
        // The one that also looks for deadlocks does so in a system call, which is then named.
        let pops = state("pops");
        assert!(
            pops.starts_with("asleep in ") && pops.contains("Queue#pop"),
            "{ruby}: {said}"
        );
        assert!(state("sleeps").contains("Kernel#sleep"), "{ruby}: {said}");
        let reads = state("reads");
        assert!(
            reads.starts_with("asleep in IO#read (") && reads.contains("tcp to 127.0.0.1:"),
            "{ruby}: {said}"
        );
        let rows = &block(&said, LEFT)[1..];
        // What the VM has written in Ruby is shown as such: since 4.0 `Mutex#lock`.
        let own = rows.iter().filter(|row| !row.contains("<internal:"));
        let names: Vec<&str> = own
            .filter_map(|row| row.rsplit_once(" in "))
            .map(|row| row.1)
            .collect();
        assert_eq!(
            names,
            ["Object#lock", "<main>", "Worker#run", "Worker#initialize"],
            "{ruby}: {said}"
        );
        let deadlock: Vec<&str> = said.lines().skip(2).take(3).collect();
        assert_eq!(
            deadlock[0],
            "deadlock: these 2 threads wait for each other, and none goes on unless it is interrupted",
            "{ruby}: {said}"
        );
        let told = records(
            &stack(&["--json", "-p", &guest.pid.to_string()]),
            "deadlock",
        );
        assert_eq!(told[0]["tids"].as_array().map(Vec::len), Some(2), "{ruby}");
        assert!(guest.ends_well());
    }
}

/// Of several processes the one that hangs comes first, whatever the order in which they are named.
#[test]
fn a_deadlock_comes_before_processes_that_are_well() {
    for ruby in rubies("waits") {
        let stuck = guest(&ruby, &[]);
        let well = Guest::script(&ruby, "states/sleep.rb", &[]);
        well.expect("ready");
        let of_well = well.pid.to_string();
        let said = until(&stuck, &["-p", &of_well], |said| {
            said.contains("\ndeadlock: ")
        });
        let heads: Vec<&str> = said
            .lines()
            .filter(|line| line.contains(" (PID "))
            .collect();
        let pid = |guest: &Guest| format!("(PID {})", guest.pid);
        assert!(
            heads.len() == 2 && heads[0].contains(&pid(&stuck)) && heads[1].contains(&pid(&well)),
            "{ruby}: {said}"
        );
        assert!(
            said.contains(&format!("\n\n{}", heads[1])),
            "{ruby}: {said}"
        );
        assert!(stuck.ends_well());
    }
}

#[test]
fn who_has_the_lock_of_the_vm_is_told() {
    for ruby in rubies("waits") {
        let guest = guest(&ruby, &["busy"]);
        let said = until(&guest, &[], |said| {
            said.contains(": running with the VM lock")
                && said.contains(" for the VM lock, which thread ")
        });
        assert!(said.contains("locks.rb:3"), "{ruby}: {said}");
    }
}

#[test]
fn since_when_a_thread_waits_is_told() {
    let Some(ruby) = rubies("waits").into_iter().next() else {
        return;
    };
    let guest = guest(&ruby, &[]);
    let begin = Instant::now();
    let asleep = |said: &str| -> f64 {
        let stacks = said
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let mut pops = stacks.filter(|record| record["state"]["name"] == "pops");
        pops.next()
            .and_then(|stack| stack["state"]["asleep_ns"].as_f64())
            .unwrap_or(0.0)
            / 1e9
    };
    let first = asleep(&until(&guest, &["--json"], |said| asleep(said) > 0.0));
    let second = asleep(&until(&guest, &["--json"], |said| {
        asleep(said) > first + 0.2
    }));
    // It has slept at most since it was started.
    assert!(
        second < begin.elapsed().as_secs_f64() + 30.0,
        "{first} {second}"
    );
    assert!(guest.ends_well());
}

/// What `caller` says in `value`, and in whatever `value` is called by.
const SUM: &str = "
class Item
  def initialize(number)
    @number = number
  end
  def value
    puts caller(0).map { |place| place[/\\d+/] }.join(' ') if @number == -1
    @number
  end
end
def total(items)
  items.sum(&:value)
end
def rounds(items)
  total(items) while true
end
$stdout.sync = true
total([Item.new(-1)])
puts 'ready'
rounds(Array.new(50) { |number| Item.new(number) })
";

/// The Rubies as they are, and with YJIT where it is built in: Debian's have none. `LANCET_YJIT` is the program of one that
/// has (Ruby's own source, `./configure --enable-yjit`).
fn with_yjit() -> Vec<(String, Command)> {
    let mut all = Vec::new();
    for ruby in rubies("waits") {
        all.push((ruby.to_string(), ruby.command()));
        all.push((format!("{ruby} --yjit"), ruby.command()));
    }
    if let Some(program) = std::env::var_os("LANCET_YJIT") {
        all.push(("LANCET_YJIT --yjit".to_owned(), Command::new(program)));
    }
    all.retain_mut(|(name, command)| {
        if !name.ends_with("--yjit") {
            return true;
        }
        command.arg("--yjit");
        let mut asked = Command::new(command.get_program());
        asked.args(command.get_args()).current_dir("/tmp");
        asked.args(["-e", "exit RubyVM::YJIT.enabled?"]);
        let answer = asked.output().expect("a Ruby");
        if !answer.status.success() {
            skip(
                name,
                "that Ruby has no YJIT; LANCET_YJIT names one that has",
            );
        }
        answer.status.success()
    });
    all
}

/// A thousand looks at methods that last some nanoseconds: a frame may have been left or not been entered at the inner
/// end, but none within may be missing.
#[test]
fn no_frame_is_missing_under_a_function_of_c() {
    for (ruby, mut command) in with_yjit() {
        command.args(["-e", SUM]);
        let guest = Guest::start(&format!("{ruby} sum"), command);
        // The lines of `value`, of `total` (for `sum` and for itself) and of the program.
        assert!(
            guest.line().is_some_and(|line| line.starts_with("7 12")),
            "{ruby}"
        );
        guest.expect("ready");
        let pid = guest.pid.to_string();
        let (mut seen, mut complete) = (0, 0);
        let deadline = Instant::now() + LIMIT;
        while seen < 1000 && Instant::now() < deadline {
            let folded = ["--every", "1ms", "--for", "1s", "--format", "folded"];
            let output = stack(&[&folded[..], &["-p", &pid]].concat());
            for line in String::from_utf8_lossy(&output.stdout).lines() {
                let (frames, count) = line.rsplit_once(' ').expect("a count");
                let scripts = frames.split(';').filter(|frame| frame.ends_with(')'));
                let scripts: Vec<&str> = scripts.collect();
                if scripts.is_empty() {
                    // A thread of the VM's own.
                    continue;
                }
                let count: u64 = count.parse().expect("a number");
                seen += count;
                let names: Vec<&str> = scripts
                    .iter()
                    .filter_map(|frame| frame.split(' ').next())
                    .collect();
                let whole = ["<main>", "rounds", "total", "value"];
                assert!(
                    whole.starts_with(&names) && names.len() >= 2,
                    "{ruby}: {line}"
                );
                let runs_value = frames.contains("rb_funcall_with_block");
                assert!(!runs_value || names.len() >= 3, "{ruby}: {line}");
                complete += if names.len() == whole.len() { count } else { 0 };
            }
        }
        assert!(
            seen >= 100 && complete > 0,
            "{ruby}: {seen} looks, {complete} with value"
        );
        crate::support::say(format_args!(
            "{ruby}: {seen} looks, {complete} within value"
        ));
    }
}

/// Returns the states of the threads whose innermost frame is that function, without times and ids.
fn states_in(said: &str, function: &str) -> Vec<String> {
    let lines: Vec<&str> = said.lines().collect();
    let pairs = lines.windows(2);
    let is_it = |pair: &&[&str]| {
        pair[0].starts_with("thread") && pair[1].ends_with(&format!(" in {function}"))
    };
    let state = |pair: &[&str]| timeless(pair[0].split_once(": ").map_or("", |(_, state)| state));
    pairs.filter(is_it).map(state).collect()
}

#[test]
fn python_waits_for_locks_peers_and_its_own() {
    for python in PYTHON.interpreters() {
        let script = crate::support::fixtures().join("python/waits/locks.py");
        let start = |arguments: &[&str]| {
            let mut command = python.command();
            Guest::ready(command.arg(&script).args(arguments))
        };
        let guest = start(&[]);
        let said = until(&guest, &[], |said| {
            let reads = states_in(said, "reads");
            states_in(said, "wants") == ["asleep in acquire of a lock"]
                && reads.len() == 1
                && reads[0].contains("tcp to 127.0.0.1:")
                && states_in(said, "sleeps").len() == 1
        });
        assert!(!said.contains("deadlock"), "{python}: {said}");
        assert!(guest.ends_well());
        let guest = start(&["busy"]);
        until(&guest, &[], |said| {
            let mut states = states_in(said, "spins").into_iter();
            states.any(|state| state.starts_with("waits for the VM lock, which thread "))
        });
    }
}

/// Python's locks do not say who holds them; a `with` does.
#[test]
fn who_holds_a_lock_of_python_by_with_is_told() {
    for python in PYTHON.interpreters() {
        let mut command = python.command();
        let script = crate::support::fixtures().join("python/waits/held.py");
        let guest = Guest::ready(command.arg(&script));
        let state = |said: &str, function: &str| states_in(said, function).join("; ");
        // Before 3.11 functions are told without their class.
        let waits = |said: &str| state(said, "Condition.wait") + &state(said, "wait");
        let in_two = "asleep in acquire of a lock; asleep in acquire of a lock";
        let held_by = |said: &str, function: &str, lines: &[u32]| {
            let state = state(said, function);
            let begins = state.starts_with("waits for a mutex that thread ");
            let mut ends = lines.iter().map(|line| format!(" (held.py:{line}) holds"));
            begins && ends.any(|end| state.ends_with(&end))
        };
        let said = until(&guest, &[], |said| {
            let both = said.contains("\ndeadlock: these 2 threads wait for each other");
            let one = said.contains("\ndeadlock: this thread waits for itself");
            both && one && held_by(said, "wants", &[31, 32]) && waits(said) == in_two
        });
        assert!(held_by(&said, "left", &[27]), "{python}: {said}");
        assert!(held_by(&said, "right", &[16]), "{python}: {said}");
        let twice = state(&said, "twice");
        assert_eq!(twice, "waits for a mutex that it holds itself", "{said}");
        // Threads are called as `threading` calls them.
        for name in [
            " MainThread: ",
            " wants of it: waits ",
            " ended of it: asleep ",
        ] {
            assert!(said.contains(name), "{python}: {name}: {said}");
        }
        // Conditions and events are made of locks that nobody holds.
        assert_eq!(waits(&said), in_two, "{python}: {said}");
        assert_eq!(said.matches("\ndeadlock: ").count(), 2, "{python}: {said}");
        assert!(guest.ends_well());
    }
}

#[test]
fn a_process_that_is_stopped_does_not_run() {
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "echo ready; while :; do :; done"]);
    let guest = Guest::ready(&mut command);
    guest.signal(nix::sys::signal::Signal::SIGSTOP);
    guest.settle('T');
    let said = text(&stack(&["-p", &guest.pid.to_string()]));
    assert!(said.contains(": 1 thread, 0 running"), "{said}");
    assert!(
        said.contains(": stopped by a signal or a debugger"),
        "{said}"
    );
}
