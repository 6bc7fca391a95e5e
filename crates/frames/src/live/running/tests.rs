//! Programs that spin, looked at as they run.

use super::super::activity::{Until, waits_for};
use super::super::stack::Stack;
use super::*;
use process::snapshot::Activity;
use std::io::Write;
use std::process::{Child, Command, Stdio};

const SEEN: u32 = 10;

/// A program that runs until this is dropped.
struct Guest(Child, Live);

/// So many looks that have not seen what is expected.
const OPENED_ANEW: u32 = 200;

impl Guest {
    fn run(program: &str, arguments: &[&str]) -> Guest {
        let mut command = Command::new(program);
        let command = command.args(arguments).stdin(Stdio::piped());
        let child = command.spawn().expect("Debian's own");
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
        let (mut seen, mut stopped, mut unseen) = (0, 0, 0);
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
                Some(false) => {
                    (seen, stopped) = (0, 0);
                    unseen += 1;
                }
                None => {}
            }
            assert!(Instant::now() < deadline, "seen in {seen} looks: {look:?}");
            // What was found of its VM is of the moment when it was opened, which may have been before there was one.
            if unseen == OPENED_ANEW {
                unseen = 0;
                self.1 = Live::open(self.0.id() as i32).expect("ours");
            }
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

/// How often this thread has read something (proc_pid_io(5)).
fn reads() -> u64 {
    let io = std::fs::read_to_string("/proc/thread-self/io").expect("our own");
    let count = io.lines().find_map(|line| line.strip_prefix("syscr: "));
    count
        .expect("a kernel that counts them")
        .parse()
        .expect("a number")
}

/// A program that spins beside so many threads that sleep. One of these begins another one and ends when a line comes.
fn with_sleepers(threads: usize) -> Guest {
    let rest = format!(
        "import sys, threading\nnever = threading.Event()\ndef begun(): never.wait()\ndef ends():\n    sys.stdin.readline()\n\
         \x20   threading.Thread(target=begun).start()\n\
         for target in [never.wait] * {threads} + [ends]: threading.Thread(target=target).start()\nspin()"
    );
    python(&rest)
}

/// Looks until all but the thread that spins were seen to sleep on, and returns how often something was read for a look then, at the median;
/// `None` where the kernel does not allow what tells that without asking.
fn reads_of_looks(guest: &mut Guest, threads: usize) -> Option<u64> {
    guest.looked_at(|| {}, &|look| Some(look.kept.len() > threads * 9 / 10));
    guest.1.on_processors.marks.as_ref()?;
    let (mut count, mut before) = (Vec::new(), reads());
    for _ in 0..21 {
        let wanted = Wanted {
            states: true,
            running: true,
            ..Wanted::default()
        };
        guest.1.look_again(wanted).expect("it lives");
        let now = reads();
        count.push(now - std::mem::replace(&mut before, now));
    }
    count.sort_unstable();
    Some(count[count.len() / 2])
}

#[test]
fn a_look_reads_no_more_the_more_threads_sleep_and_sees_who_woke() {
    let [mut few, mut many] = [100, 1000].map(with_sleepers);
    let both = reads_of_looks(&mut few, 100).zip(reads_of_looks(&mut many, 1000));
    let Some((of_few, of_many)) = both else {
        return eprintln!("SKIP reads of a look: the kernel does not allow BPF here");
    };
    assert!(of_many < of_few + 50, "{of_few} and {of_many} reads");
    // As many threads as before, of which one is another.
    let input = few.0.stdin.as_mut().expect("piped");
    input.write_all(b"go\n").expect("it reads");
    few.looked_at(|| {}, &|look| {
        let is_any = |function| look.stacks.iter().any(|stack| has(stack, function));
        Some(is_any("begun") && !is_any("ends"))
    });
}

/// Programs of which each second one does nothing but collect garbage; the others do not.
#[test]
fn a_collection_of_garbage_is_a_frame() {
    let guests = [
        (
            "/usr/bin/ruby",
            "-e",
            "def collects = loop { 1 + 1 }\nGC.disable\ncollects",
        ),
        (
            "/usr/bin/ruby",
            "-e",
            "K = Array.new(50_000) { [] }\ndef collects = GC.start\nloop { collects }",
        ),
        (
            "/usr/bin/python3",
            "-c",
            "import gc\ngc.disable()\ndef collects():\n    while True: pass\ncollects()",
        ),
        (
            "/usr/bin/python3",
            "-c",
            "import gc\nK = [[] for _ in range(100_000)]\ndef collects(): gc.collect()\nwhile True: collects()",
        ),
    ];
    for (at, (program, option, script)) in guests.into_iter().enumerate() {
        let collects = at % 2 == 1;
        let mut guest = Guest::run(program, &[option, script]);
        guest.looked_at(|| {}, &|look| {
            let mut all = ran(look).filter(|stack| has(stack, "collects")).peekable();
            all.peek()?;
            Some(all.all(|stack| stack.collects == collects))
        });
        let mut profile = crate::profile::Profile::default();
        let look = guest.1.seen().expect("a look");
        profile.add_look(guest.0.id() as i32, &guest.1, look, &|_| None);
        let rows = profile.functions();
        let mut names = rows.iter().map(|row| &*row.function.name);
        let is_told = names.any(|name| name == "(garbage collection)");
        assert_eq!(is_told, collects, "{program} {script}: {rows:?}");
    }
}
