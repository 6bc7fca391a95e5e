//! What the threads of a process do: the dump of `lancet stack -p PID`.

use std::time::Instant;

use serde_json::Value;

use super::output::{records, stack, text};
use crate::support::{Guest, Interpreter, LIMIT, rubies};

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
        // Ruby 3.1 has one thread that waits look every 100 ms for whether all do.
        let said = until(&guest, &[], |said| {
            let is_told = |(name, wanted): &(&str, &str)| timeless(block(said, name)[0]) == *wanted;
            said.contains("\ndeadlock: ") && waits.iter().all(is_told)
        });
        let state = |name: &str| timeless(block(&said, name)[0]);
        assert!(state("pops").ends_with("Queue#pop"), "{ruby}: {said}");
        assert!(state("sleeps").contains("Kernel#sleep"), "{ruby}: {said}");
        let reads = state("reads");
        assert!(
            reads.starts_with("asleep in IO#read (") && reads.contains("tcp to 127.0.0.1:"),
            "{ruby}: {said}"
        );
        let rows = &block(&said, LEFT)[1..];
        let names: Vec<&str> = rows
            .iter()
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
            deadlock[0], "deadlock: these 2 threads wait for each other and will never go on",
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
            .and_then(|stack| stack["state"]["asleep_s"].as_f64())
            .unwrap_or(0.0)
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

/// A thousand looks at methods that last some nanoseconds: a frame may have been left or not been entered at the inner
/// end, but none within may be missing.
#[test]
fn no_frame_is_missing_under_a_function_of_c() {
    for ruby in rubies("waits") {
        let mut command = ruby.command();
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
            let output = stack(&["-p", &pid, "--every", "1ms", "--for", "1s"]);
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
