//! Programs that spin, looked at as they run.

use super::super::activity::{Until, waits_for};
use super::*;
use std::process::{Child, Command};

const SEEN: u32 = 10;

/// A program that runs until this is dropped.
struct Guest(Child, Live);

impl Guest {
    fn run(program: &str, arguments: &[&str]) -> Guest {
        let mut command = Command::new(program);
        let child = command.args(arguments).spawn().expect("Debian's own");
        let live = Live::open(child.id() as i32).expect("ours");
        Guest(child, live)
    }

    /// Looks until `sees` has said yes to so many looks in a row as [`SEEN`] says, and returns how many looks of these were made by stops.
    fn looked_at(&mut self, before: fn(), sees: &dyn Fn(&Look) -> Option<bool>) -> u32 {
        let wanted = Wanted {
            states: true,
            running: true,
            ..Wanted::default()
        };
        let deadline = Instant::now() + Duration::from_secs(60);
        let (mut seen, mut stopped) = (0, 0);
        while seen < SEEN {
            before();
            if self.1.look_again(wanted).is_err() {
                // It has just begun.
                self.1 = Live::open(self.0.id() as i32).expect("ours");
                continue;
            }
            let look = self.1.seen().expect("a look");
            match sees(look) {
                Some(true) => {
                    seen += 1;
                    stopped += u32::from(look.why_stopped.is_some());
                }
                Some(false) => (seen, stopped) = (0, 0),
                None => {}
            }
            assert!(Instant::now() < deadline, "seen in {seen} looks: {look:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
        stopped
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.0.kill().expect("ours");
        self.0.wait().expect("ours");
    }
}

fn ran(look: &Look) -> impl Iterator<Item = &Stack> {
    let ran = |stack: &&Stack| stack.thread.activity == Activity::Ran;
    look.stacks.iter().filter(ran)
}

fn has(stack: &Stack, function: &str) -> bool {
    stack.scripts().any(|script| script.name.contains(function))
}

/// Whether a thread that spins was seen so; `None` where lancet has taken its processor.
fn spins(look: &Look) -> Option<bool> {
    let mut ran = ran(look).peekable();
    ran.peek()?;
    Some(ran.all(|stack| has(stack, "spin")))
}

const PYTHON: &str = "def spin():\n    while True: pass\n";

fn python(rest: &str) -> Guest {
    Guest::run("/usr/bin/python3", &["-c", &format!("{PYTHON}{rest}")])
}

/// As for an ordinary user.
#[test]
fn another_process_that_spins_is_seen_where_the_kernel_allows_no_program() {
    let refuse = || PROGRAM.set(Program::Refused("a test".to_owned()));
    let stopped = python("spin()").looked_at(refuse, &spins);
    assert_eq!(stopped, SEEN);
}

#[test]
fn another_process_that_spins_is_seen_among_several() {
    // Another process was looked at before each time.
    python("spin()").looked_at(|| SERVED.set(1), &spins);
}

/// A thread that is not the main one has a stack with parts that were never touched.
#[test]
fn the_frames_of_any_thread_that_spins_are_found() {
    let ruby = "def spin\n  loop { 1 + 1 }\nend\nThread.new { spin }.join";
    let perl = "use threads; sub spin { while (1) { $x++ } } threads->create(\\&spin)->join";
    let guests = [
        ("/usr/bin/ruby", "-e", ruby.to_owned()),
        ("/usr/bin/perl", "-e", perl.to_owned()),
        (
            "/usr/bin/python3",
            "-c",
            format!("import threading\n{PYTHON}threading.Thread(target=spin).start()"),
        ),
    ];
    for (program, option, script) in guests {
        let stopped = Guest::run(program, &[option, &script]).looked_at(|| {}, &spins);
        eprintln!("{program}: {stopped} of {SEEN} looks by stops");
    }
}

#[test]
fn who_computes_with_a_lock_is_told_as_its_holder() {
    let script = "M = Mutex.new\ndef spin\n  loop { 1 + 1 }\nend\n\
                  Thread.new { M.synchronize { spin } }\nsleep 0.01 until M.locked?\nM.synchronize { }";
    let mut guest = Guest::run("/usr/bin/ruby", &["-e", script]);
    guest.looked_at(|| {}, &|look| {
        ran(look).next()?;
        let holder = look.stacks.iter().position(|stack| has(stack, "spin"))?;
        let waits = (0..look.stacks.len()).find_map(|number| waits_for(&look.stacks, number));
        Some(waits == Some((Until::Unlocked, holder)))
    });
}

#[test]
fn a_thread_that_runs_has_the_name_that_its_vm_knows() {
    let rest = "import threading\nthreading.Thread(target=spin, name='busy').start()";
    let name = |stack: &Stack| stack.state.as_ref()?.vm.as_ref()?.name.clone();
    python(rest).looked_at(|| {}, &|look| {
        Some(name(ran(look).next()?).as_deref() == Some("busy"))
    });
}
