//! Frames of waiting threads against `sys._getframe`, and their activations against a native stack.

use std::cell::Cell;
use std::process::Command;

use vm::python::{Frame, Python, Version};
use vm::{Fault, Memory};

use super::guest::{Guest, each_build, each_version};
use crate::process::ProcessMemory;

pub fn line_of(python: &Python<'_, ProcessMemory>, frame: &Frame) -> String {
    let mut line = String::new();
    let file = python.file(frame.point.code).expect("a file");
    python
        .write_text(file, u64::MAX, &mut line)
        .expect("its text");
    let number = python.line(frame.point).expect("a line");
    line += &format!("\t{}\t", number.map_or("None".into(), |n| n.to_string()));
    let name = python.function_name(frame.point.code).expect("a name");
    python
        .write_text(name, u64::MAX, &mut line)
        .expect("its text");
    line
}

/// Holds every thread that told its frames against what is found; says how many frames agreed.
fn compare(version: &str, guest: &Guest) -> usize {
    let python = guest.python();
    let mut agreed = 0;
    let mut threads: Vec<&str> = guest
        .lines
        .iter()
        .filter_map(|line| line.split('\t').next())
        .filter(|who| who.parse::<u64>().is_ok())
        .collect();
    threads.dedup();
    for who in threads {
        let id: u64 = who.parse().expect("a number");
        let told: Vec<&str> = guest
            .lines
            .iter()
            .filter_map(|line| line.strip_prefix(who)?.strip_prefix('\t'))
            .collect();
        let state = python
            .thread_state(id)
            .expect("a thread")
            .expect("its state");
        assert_eq!(python.find_thread(id), Ok(Some(state)), "{version}");
        // One that computes changes its innermost frames while it is read: again, then.
        let found = (0..1000)
            .find_map(|_| {
                let frames: Vec<Frame> = python.frames(state).collect::<Result<_, _>>().ok()?;
                let lines: Vec<String> = frames.iter().map(|f| line_of(&python, f)).collect();
                lines
                    .ends_with(
                        &told[..]
                            .iter()
                            .map(|line| line.to_string())
                            .collect::<Vec<_>>(),
                    )
                    .then_some((frames, lines))
                    .filter(|(frames, _)| activations_are_possible(frames))
            })
            .unwrap_or_else(|| {
                let found: Vec<String> = python
                    .frames(state)
                    .map(|frame| frame.map_or_else(|why| why.to_string(), |f| line_of(&python, &f)))
                    .collect();
                panic!("python {version}: {found:#?}\nis not\n{told:#?}")
            });
        let (frames, lines) = found;
        // The waiting itself is further in: `stack` and `ready`, `inside`, `how` and what that calls.
        let inner = lines.len() - told.len();
        assert!(inner <= 6, "python {version}: {lines:#?}\n{told:#?}");
        agreed += told.len();
        assert!(frames.last().is_some_and(|frame| frame.entry), "{version}");
    }
    agreed
}

/// Whether what the frames say of the C stack is possible: it grows down, so outer activations are higher.
fn activations_are_possible(frames: &[Frame]) -> bool {
    let native: Vec<u64> = frames
        .iter()
        .filter(|frame| frame.entry)
        .map(|frame| frame.native)
        .collect();
    native.first().is_none_or(|first| *first == 0) || native.is_sorted()
}

#[test]
fn frames_are_those_of_getframe() {
    each_build(include_str!("frames.py"), |version, guest| {
        let (mut points, mut frames) = (0, 0);
        while guest.lines != ["END"] {
            frames += compare(version, guest);
            points += 1;
            let python = guest.python();
            for thread in python.all_threads() {
                let thread = thread.expect("a thread");
                if let Some(native) = thread.native_id {
                    let task = format!("/proc/{}/task/{native}", guest.pid());
                    assert!(std::path::Path::new(&task).exists(), "{version}: {task}");
                }
                // One that computes may go on between the two looks: again, then.
                let agree = || {
                    let first = python.frames(thread.address).next();
                    let point = first.transpose().ok().flatten().map(|frame| frame.point);
                    python.point(thread.address) == Ok(point)
                };
                if thread.id == main_thread(guest) {
                    assert!((0..1000).any(|_| agree()), "{version}");
                }
            }
            guest.resume();
        }
        println!("python {version}: {frames} frames at {points} points");
        assert!(
            points >= 25 && frames > 1200,
            "{version}: {points}, {frames}"
        );
    });
}

/// What a hook does at each call must stay a handful of loads, each of a whole word.
#[test]
fn the_hot_path_is_a_handful_of_loads() {
    struct Counting<'a>(&'a ProcessMemory, Cell<u32>, Cell<bool>);
    impl Memory for Counting<'_> {
        fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Fault> {
            self.2.set(true);
            self.0.read(at, into)
        }
        fn u32(&self, at: u64) -> Result<u32, Fault> {
            self.1.set(self.1.get() + 1);
            self.0.u32(at)
        }
        fn u64(&self, at: u64) -> Result<u64, Fault> {
            self.1.set(self.1.get() + 1);
            self.0.u64(at)
        }
    }
    each_version("ready()", |version, guest| {
        let memory = Counting(&guest.memory, Cell::new(0), Cell::new(false));
        let python = Python::new(&memory, guest.facts).expect("a known version");
        let id = python
            .all_threads()
            .next()
            .expect("a thread")
            .expect("a thread")
            .id;
        memory.2.set(false);
        memory.1.set(0);
        let state = python
            .thread_state(id)
            .expect("a thread")
            .expect("its state");
        let for_thread = memory.1.replace(0);
        python.point(state).expect("a frame").expect("a frame");
        let for_place = memory.1.get();
        println!(
            "python {version}: {for_thread} loads to the thread state, {for_place} to code and instruction"
        );
        assert!(for_thread <= 4 && for_place <= 6, "python {version}");
        assert!(!memory.2.get(), "python {version}: not by words");
    });
}

fn main_thread(guest: &Guest) -> u64 {
    let last = guest.lines.last().expect("a frame");
    last.split('\t')
        .next()
        .and_then(|id| id.parse().ok())
        .expect("a thread")
}

/// The native stack has one `_PyEval_EvalFrameDefault` for each outermost frame, and since 3.11 the address
/// in it is between its stack pointer and its caller's.
#[test]
fn activations_are_those_of_the_native_stack() {
    if Command::new("gdb").arg("--version").output().is_err() {
        println!("SKIPPED: there is no gdb");
        return;
    }
    let script = "
class Thing:
    def __init__(self): self.go()
    def go(self): list(generator(self.more))
    def more(self): sorted([1], key=lambda _: [x for x in generator(self.end)])
    def end(self): (lambda: ready())()

def generator(then):
    yield then()

def deep(n):
    return deep(n - 1) if n else Thing()

deep(5)
";
    each_build(script, |version, guest| {
        let python = guest.python();
        let threads: Vec<_> = python
            .all_threads()
            .collect::<Result<_, _>>()
            .expect("threads");
        let [thread] = threads[..] else {
            panic!("{version}: {threads:?}")
        };
        let frames: Vec<Frame> = python
            .frames(thread.address)
            .collect::<Result<_, _>>()
            .expect("frames");
        let entries: Vec<&Frame> = frames.iter().filter(|frame| frame.entry).collect();
        let stack = native_stack(guest.pid());
        let natives: Vec<(u64, u64, &str)> = stack
            .windows(2)
            .map(|pair| (pair[0].0, pair[1].0, pair[0].1.as_str()))
            .collect();
        let named: Vec<_> = natives
            .iter()
            .filter(|native| native.2.contains("PyEval_EvalFrameDefault"))
            .collect();
        let within: Vec<_> = entries
            .iter()
            .filter_map(|entry| {
                natives
                    .iter()
                    .find(|(low, high, _)| (*low..*high).contains(&entry.native))
            })
            .collect();
        if guest.facts.version() >= Version::new(3, 11, 0) {
            assert_eq!(within.len(), entries.len(), "python {version}: {stack:#x?}");
            // One activation, one native frame; and being of one function, they are of one size, to 3.14: since 3.15 each instruction may be a
            // function of its own (the interpreter of tail calls).
            assert!(
                within.is_sorted_by(|one, other| one.0 < other.0),
                "{version}"
            );
            let sizes: Vec<u64> = within.iter().map(|(low, high, _)| high - low).collect();
            assert!(
                guest.facts.version() >= Version::new(3, 15, 0)
                    || sizes.iter().all(|size| *size == sizes[0]),
                "{version}: {sizes:?}"
            );
        }
        // Debian's 3.14 runs all but the first instructions of the function outside of its symbol.
        if named.is_empty() && guest.facts.version() >= Version::new(3, 14, 0) {
            println!("python {version}: no native frame has the function's name");
        } else {
            assert_eq!(named.len(), entries.len(), "python {version}: {stack:#x?}");
            assert!(within.is_empty() || within == named, "python {version}");
        }
        println!(
            "python {version}: {} frames in {} activations",
            frames.len(),
            entries.len()
        );
    });
}

/// Stack pointer and name of each native frame, innermost first, as gdb sees them.
fn native_stack(pid: u32) -> Vec<(u64, String)> {
    let script = "python
frame = gdb.newest_frame()
while frame:
    print('FRAME', int(frame.read_register('rsp')), frame.name())
    frame = frame.older()
end
";
    let file = std::env::temp_dir().join(format!("lancet-vm-frames-{pid}.gdb"));
    std::fs::write(&file, script).expect("a file");
    let output = Command::new("gdb")
        .args(["-nx", "-batch", "-p", &pid.to_string()])
        .args(["-iex", &format!("file /proc/{pid}/exe")])
        .args(["-iex", "set debuginfod enabled off"])
        .args(["-iex", &format!("set sysroot /proc/{pid}/root")])
        .arg("-x")
        .arg(&file)
        .output()
        .expect("gdb runs");
    std::fs::remove_file(&file).expect("the file");
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| {
            let (rsp, name) = line.strip_prefix("FRAME ")?.split_once(' ')?;
            Some((rsp.parse().ok()?, name.to_owned()))
        })
        .collect()
}
