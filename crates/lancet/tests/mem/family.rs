//! Forked workers: followed with `--children`, left alone without.

use std::process::Command;

use crate::support::{
    Door, Guest, Interpreter, LIMIT, Report, Snapshot, Watch, born, live, mem, rubies, unreserved,
    until,
};

/// The master's and each worker's births when told a number.
const MADE: &str = "births.rb:9:String";
/// The 500 births with which a worker begins.
const FIRST: &str = "births.rb:19:String";

/// A master at its `ready`.
fn master(ruby: &Interpreter) -> Guest {
    let guest = Guest::script(ruby, "live/births.rb", &[]);
    guest.expect("ready");
    guest
}

fn fork(guest: &mut Guest) -> i32 {
    guest.tell("fork");
    let pid = guest.find("worker ");
    pid.parse().expect("a process id")
}

/// All of them make so many.
fn make(guest: &mut Guest, count: u32, processes: usize) {
    guest.tell(&count.to_string());
    for _ in 0..processes {
        guest.find("made ");
    }
}

/// Follows a master and its children; so many it has already.
fn follow(master: &Guest, workers: usize) -> Watch {
    let mut command = mem(master.pid);
    command.arg("--children");
    let mut watch = Watch::open(command);
    for _ in 0..workers {
        watch.until("lancet: opened process ");
    }
    watch
}

fn births(report: &Report, pid: i32) -> (u64, u64) {
    let rows = report.of(pid);
    (born(rows, FIRST), born(rows, MADE))
}

#[test]
fn workers_are_counted_each_for_itself() {
    for ruby in rubies("workers") {
        let mut guest = master(&ruby);
        let workers = [fork(&mut guest), fork(&mut guest)];
        let before = workers.map(Snapshot::take);
        let watch = follow(&guest, workers.len());
        make(&mut guest, 300, 3);
        let report = watch.report();
        for pid in [guest.pid, workers[0], workers[1]] {
            assert_eq!(births(&report, pid), (0, 300), "{ruby}, process {pid}");
            assert_eq!(live(report.of(pid), MADE), 300, "{ruby}, process {pid}");
        }
        // All of them together.
        assert_eq!(births(&report, 0), (0, 900), "{ruby}");
        for (pid, before) in workers.iter().zip(&before) {
            before.holds(*pid, "a worker");
        }
        guest.ends_with("answer 2");
    }
}

#[test]
fn a_worker_forked_later_is_followed_from_its_first_birth() {
    for ruby in rubies("forked later") {
        let mut guest = master(&ruby);
        let watch = follow(&guest, 0);
        make(&mut guest, 100, 1);
        let first = fork(&mut guest);
        make(&mut guest, 200, 2);
        let second = fork(&mut guest);
        make(&mut guest, 400, 3);
        let report = watch.report();
        // A child has its parent's births up to the fork: its memory does, too.
        assert_eq!(births(&report, guest.pid), (0, 700), "{ruby}, master");
        assert_eq!(births(&report, first), (500, 700), "{ruby}, first");
        assert_eq!(births(&report, second), (500, 700), "{ruby}, second");
        assert_eq!(live(report.of(second), FIRST), 500, "{ruby}, second");
        guest.ends_with("answer 2");
    }
}

/// The hook that the fork took along is taken out in the child: if it were still there, an attach to
/// the child would count each birth twice.
#[test]
fn a_child_that_nobody_asked_for_is_left_alone() {
    for ruby in rubies("unwatched child") {
        let mut guest = master(&ruby);
        let own = unreserved(guest.pid);
        let watch = Watch::open(mem(guest.pid));
        make(&mut guest, 100, 1);
        let child = fork(&mut guest);
        make(&mut guest, 200, 2);
        assert!(unreserved(guest.pid) > own, "{ruby}, parent");
        assert_eq!(unreserved(child), own, "{ruby}, child");
        let of_child = Watch::open(mem(child));
        make(&mut guest, 400, 2);
        let report = of_child.report();
        assert_eq!(births(&report, child), (0, 400), "{ruby}, child");
        let report = watch.report();
        assert_eq!(births(&report, guest.pid), (0, 700), "{ruby}, parent");
        assert_eq!(report.guests.len(), 1, "{ruby}: only the parent");
        guest.ends_with("answer 1");
    }
}

/// The agent that a child took along from a watched parent is used again there, also when the child
/// has made nothing since.
#[test]
fn the_child_of_a_watched_parent_can_be_opened_by_itself() {
    for ruby in rubies("child by itself") {
        let mut guest = master(&ruby);
        let watch = Watch::open(mem(guest.pid));
        let child = fork(&mut guest);
        drop(watch.report());
        let watch = Watch::open(mem(child));
        make(&mut guest, 250, 2);
        assert_eq!(births(&watch.report(), child), (0, 250), "{ruby}");
        guest.ends_with("answer 1");
    }
}

#[test]
fn a_worker_that_ends_is_told_and_the_others_are_counted() {
    for ruby in rubies("worker ends") {
        let mut guest = master(&ruby);
        let workers = [fork(&mut guest), fork(&mut guest)];
        let mut watch = follow(&guest, workers.len());
        make(&mut guest, 300, 3);
        nix::sys::signal::kill(
            nix::unistd::Pid::from_raw(workers[0]),
            nix::sys::signal::Signal::SIGKILL,
        )
        .expect("a worker can be killed");
        watch.until(&format!("lancet: process {} ended", workers[0]));
        let output = watch.interrupt();
        assert_eq!(output.code(), 4, "something was lost: {output:?}");
        let report = Report::parse(&output.stdout);
        assert_eq!(births(&report, guest.pid), (0, 300), "{ruby}");
        assert_eq!(births(&report, workers[1]), (0, 300), "{ruby}");
        drop(guest);
    }
}

/// Starts a shell that becomes a Ruby when it is told to, which then becomes another one.
const BECOMES: &str = r#"
ruby = "puts 'a ruby'; $stdout.flush; $stdin.gets; exec('ruby', '-e', 'puts :another; $stdout.flush; $stdin.gets')"
shell = IO.popen(['sh', '-c', 'echo shell; read line; exec ruby -e "$0"', ruby], 'r+')
puts shell.gets, 'ready'
$stdout.flush
while (line = $stdin.gets)
  shell.puts(line)
  shell.flush
  puts shell.gets
  $stdout.flush
end
"#;

/// As `foreman` and `overmind` start a server: `sh -c "exec bundle exec puma"`. And a server that restarts by exec is counted anew.
#[test]
fn a_child_that_becomes_a_ruby_is_counted() {
    let mut guest = Guest::ready(Command::new("ruby").args(["-e", BECOMES]));
    let mut command = mem(guest.pid);
    command.args(["--children", "--every", "100ms"]);
    let mut watch = Watch::open(command);
    guest.tell("go");
    guest.expect("a ruby");
    let opened = watch.until("lancet: opened process ");
    let child = opened.split_whitespace().nth(3).expect("an id").to_owned();
    guest.tell("go");
    guest.expect("another");
    // What lancet says does not tell which of the two it has opened: the first may be opened twice, as it begins.
    // An exec unmaps the agent.
    let id: i32 = child.parse().expect("a number");
    until(LIMIT, "the other Ruby is open", || Door::find(id));
    let output = watch.interrupt();
    let said = &output.stderr;
    assert!(matches!(output.code(), 0 | 4), "{said}");
    assert!(!said.contains("before the first"), "{said}");
    assert!(!said.contains(&format!("process {child} ended")), "{said}");
    let report = Report::parse(&output.stdout);
    assert!(report.guests.contains_key(&i64::from(id)), "{said}");
    drop(guest);
}
