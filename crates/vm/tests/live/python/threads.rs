//! Threads in unusual places: gone into another interpreter, alone in the child of a fork.

use std::fs::File;
use std::time::{Duration, Instant};

use vm::python::{Python, Reached, Version};

use super::frames::line_of;
use super::guest::{each_build, each_version};
use crate::process::ProcessMemory;

const SCRIPT: &str = "
import threading
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
run = getattr(interpreters, 'exec', None) or interpreters.run_string
other = interpreters.create()
say(threading.get_ident())
sys.stdout.flush()
run(other, '''
import os
def inside():
    os.write(1, b'READY\\\\n'); os.read(0, 1)
inside()
''')
";

#[test]
fn the_innermost_interpreter_is_found() {
    each_build(SCRIPT, |version, guest| {
        let python = guest.python();
        let id: u64 = guest.lines[0].parse().expect("a number");
        let interpreters: Vec<u64> = python
            .interpreters()
            .collect::<Result<_, _>>()
            .expect("interpreters");
        let main = python.main_interpreter().expect("a main one");
        assert_eq!(interpreters.len(), 2, "python {version}");
        assert_eq!(interpreters[1], main, "python {version}");
        let states: Vec<_> = python
            .all_threads()
            .map(|thread| thread.expect("a thread"))
            .filter(|thread| thread.id == id)
            .collect();
        let found = python.find_thread(id).expect("a walk").expect("a thread");
        let point = python.point(found).expect("a frame").expect("a frame");
        let mut name = String::new();
        let text = python.function_name(point.code).expect("a name");
        python
            .write_text(text, u64::MAX, &mut name)
            .expect("its text");
        assert_eq!(name, "inside", "python {version}: {states:x?}");
        let lines: Vec<String> = python
            .frames(found)
            .map(|frame| line_of(&python, &frame.expect("a frame")))
            .collect();
        let state = python.thread_state(id).expect("a thread").expect("a state");
        // Before 3.12 the thread itself names its first state, whose frames are those outside.
        if guest.facts.version() >= Version::new(3, 12, 0) {
            assert_eq!(state, found, "python {version}: {states:x?}");
        } else {
            assert_eq!(python.thread_at(state).map(|t| t.interpreter), Ok(main));
            assert!(python.point(state).is_ok_and(|point| point.is_some()));
        }
        println!("python {version}: {lines:?}");
    });
}

/// The child has new pthread keys and one thread; what was found in the parent must still do.
#[test]
fn facts_outlive_a_fork() {
    const SCRIPT: &str = "
import threading, time
threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
say(threading.get_ident())
sys.stdout.flush()
into, out = os.pipe()
child = os.fork()
if child == 0:
    os.write(out, b'!')
    # Ends with the parent, whose end of the pipe is closed then.
    os.read(0, 1)
    os._exit(0)
os.read(into, 1)
say(child)
ready()
";
    each_build(SCRIPT, |version, guest| {
        let [id, child] = &guest.lines[..] else {
            panic!("{version}: {:?}", guest.lines)
        };
        let id: u64 = id.parse().expect("a number");
        let memory = ProcessMemory(File::open(format!("/proc/{child}/mem")).expect("memory"));
        let python = Python::new(&memory, guest.facts).expect("a known version");
        let state = python.thread_state(id).expect("a thread").expect("a state");
        assert_eq!(python.find_thread(id), Ok(Some(state)), "python {version}");
        assert_eq!(python.all_threads().count(), 1, "python {version}");
        let point = python.point(state).expect("a frame").expect("a frame");
        let line = python.line(point).expect("a line");
        println!("python {version}: the child is at line {line:?}");
        assert!(matches!(line, Some(9..=11)), "python {version}: {line:?}");
    });
}

/// What is asked at each block of a watched program, of a thread that has the lock: it says the same as what looks at everything. The thread
/// reaches the line once, and stays in a call there that keeps the lock.
#[test]
fn a_thread_with_the_lock_is_read_by_offsets_alone() {
    const SCRIPT: &str = "
import threading
from itertools import repeat
def count():
    sum(repeat(0))
say(threading.get_ident())
sys.stdout.flush()
os.write(1, b'READY\\n')
count()
";
    const LINE: u32 = 5;
    each_version(SCRIPT, |version, guest| {
        let id: u64 = guest.lines[0].parse().expect("a number");
        let python = guest.python();
        let state = python.find_thread(id).expect("a walk").expect("a thread");
        let running = python.running(id);
        let running = running.unwrap_or_else(|| panic!("python {version}: it is not read"));
        let limit = Instant::now() + Duration::from_secs(30);
        // It may still be in the call that has said `READY`, without the lock, or on its way from there: nothing stands still until it counts.
        let is_there = |reached: &Reached| python.line(reached.point) == Ok(Some(LINE));
        let (point, found) = loop {
            assert!(Instant::now() < limit, "python {version}: it is not there");
            let Ok(Some(reached)) = python.reached(state) else {
                continue;
            };
            let found = running.both(python.memory(), id);
            // It goes through these instructions once, so it has not moved meanwhile if it is where it was.
            if is_there(&reached) && found.is_some() && python.reached(state) == Ok(Some(reached)) {
                assert!(reached.is_traceable, "python {version}");
                break (reached.point, found);
            }
        };
        let wanted = (point.code, u64::from(point.lasti as u32));
        assert_eq!(found, Some((state, Some(wanted))), "python {version}");
        println!("python {version}: {point:x?}");
    });
}
