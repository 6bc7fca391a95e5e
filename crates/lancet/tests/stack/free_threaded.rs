//! Pythons without the GIL, where threads run at the same time, each a copy of the instructions of its own: `fixtures/python/parallel.py`.
//! No Debian suite has one: roots are made of those that `LANCET_PYTHON_314T` and the like name.

use std::collections::BTreeMap;

use serde_json::Value;

use super::languages::FREE_THREADED;
use super::output::{folder, records, stack};
use crate::support::{Guest, Interpreter, LIMIT, fixtures, lancet, run, until};

const SCRIPT: &str = "parallel.py";
/// How often the program is looked at.
const LOOKS: u32 = 10;

fn interpreters() -> Vec<Interpreter> {
    let mut found = FREE_THREADED.interpreters();
    found.retain(|one| !one.is_system());
    found
}

/// The source text of the script, by which each frame is judged.
struct Source {
    lines: Vec<String>,
}

impl Source {
    fn read() -> Source {
        let path = fixtures().join("python").join(SCRIPT);
        let text = std::fs::read_to_string(path).expect("the script");
        let lines = text.lines().map(str::to_owned).collect();
        Source { lines }
    }

    fn line(&self, number: u64) -> &str {
        &self.lines[number as usize - 1]
    }

    /// The function in whose text a line is.
    fn function(&self, number: u64) -> &str {
        let before = self.lines[..number as usize].iter().rev();
        let mut definitions = before.filter_map(|line| line.trim_start().strip_prefix("def "));
        let name = definitions.next().and_then(|line| line.split('(').next());
        name.expect("a function")
    }

    /// Why the frames of a thread, innermost first, cannot be those of the script.
    fn contradiction(&self, frames: &[(String, u64)]) -> Option<String> {
        for (name, line) in frames {
            let own = name.split('.').next_back()?;
            if own != "<genexpr>" && self.function(*line) != own {
                return Some(format!("line {line} is not in {name}"));
            }
        }
        frames.windows(2).find_map(|pair| {
            let [(callee, _), (_, line)] = pair else {
                return None;
            };
            // A constructor is called by its class's name, and a part of an expression by none.
            let called = match callee.strip_suffix(".__init__") {
                Some(class) => class,
                None => callee.split('.').next_back()?,
            };
            let is_named =
                called == "<genexpr>" || self.line(*line).contains(&format!("{called}("));
            (!is_named).then(|| format!("line {line} does not call {callee}"))
        })
    }
}

/// The frames of the script's own file of each thread, by its name.
fn stacks(
    records: &[Value],
    names: &BTreeMap<u64, String>,
) -> BTreeMap<String, Vec<(String, u64)>> {
    let mut stacks: BTreeMap<String, Vec<(String, u64)>> = BTreeMap::new();
    for frame in records {
        let tid = frame["tid"].as_u64().expect("a number");
        let scripts = frame["scripts"].as_array().cloned().unwrap_or_default();
        let own = scripts.iter().filter(|script| {
            let path = script["path"].as_str().unwrap_or_default();
            path.ends_with(SCRIPT)
        });
        let own = own.map(|script| {
            let name = script["function"].as_str().unwrap_or_default();
            (name.to_owned(), script["line"].as_u64().unwrap_or(0))
        });
        let name = names.get(&tid).cloned().unwrap_or_default();
        stacks.entry(name).or_default().extend(own);
    }
    stacks
}

#[test]
fn threads_that_run_at_once_have_their_own_frames() {
    let source = Source::read();
    for interpreter in interpreters() {
        let mut guest = Guest::script(&interpreter, SCRIPT, &[]);
        guest.expect("ready");
        let (mut frames, mut empty, mut refused) = (0, 0, 0);
        for _ in 0..LOOKS {
            // Threads that take memory at the same time wait for each other in the kernel, where they cannot be stopped. Nothing else is a reason to look
            // once more.
            let output = until(LIMIT, "all threads stop", || {
                let output = stack(&["--json", "-p", &guest.pid.to_string()]);
                let said = String::from_utf8_lossy(&output.stderr);
                let is_refused = output.status.code() == Some(1) && said.contains("does not stop");
                refused += u32::from(is_refused);
                (!is_refused).then_some(output)
            });
            assert_eq!(output.status.code(), Some(0), "{interpreter}: {output:?}");
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(said, "", "{interpreter}");
            let threads = records(&output, "stack");
            let names = threads.iter().filter_map(|one| {
                let name = one["state"]["name"].as_str()?;
                Some((one["tid"].as_u64()?, name.to_owned()))
            });
            let names: BTreeMap<u64, String> = names.collect();
            let stacks = stacks(&records(&output, "frame"), &names);
            for number in 0..2 {
                let sleeper = &stacks[&format!("sleeps {number}")];
                let told = [("nap".to_owned(), 67), ("sleeps".to_owned(), 63)];
                assert_eq!(sleeper, &told, "{interpreter}");
            }
            for number in 0..6 {
                let computing = &stacks[&format!("computes {number}")];
                let wrong = source.contradiction(computing);
                assert_eq!(wrong, None, "{interpreter}: {computing:?}");
                frames += computing.len();
                empty += usize::from(computing.is_empty());
            }
        }
        println!(
            "{interpreter}: {frames} frames in {LOOKS} looks, {empty} of a thread without any; {refused} looks refused"
        );
        assert!(refused <= LOOKS, "{interpreter}: {refused} looks refused");
        assert_eq!(empty, 0, "{interpreter}");
        assert!(frames > LOOKS as usize * 6 * 2, "{interpreter}: {frames}");
        guest.tell("");
        guest.ends_with("done");
    }
}

/// The frames of the script's own file in a line of `profile --format folded`, innermost first.
fn folded(line: &str) -> Vec<(String, u64)> {
    let (stack, _) = line.rsplit_once(' ').expect("a count");
    let own = stack.split(';').filter_map(|frame| {
        let (name, place) = frame.split_once(" (")?;
        let (path, number) = place.strip_suffix(')')?.rsplit_once(':')?;
        let is_own = path.ends_with(SCRIPT);
        is_own.then(|| (name.to_owned(), number.parse().expect("a line")))
    });
    own.rev().collect()
}

/// Of a profile too each stack is one that the script can have had, and none is cut.
#[test]
fn profiles_have_the_frames_of_one_moment() {
    let source = Source::read();
    for interpreter in interpreters() {
        let mut guest = Guest::script(&interpreter, SCRIPT, &[]);
        guest.expect("ready");
        let pid = guest.pid.to_string();
        let line = [
            "profile", "--for", "2s", "--every", "20ms", "--format", "folded", "-p",
        ];
        let output = run(lancet().args(line).arg(&pid), LIMIT);
        // Looks may not take place on a busy machine (4).
        assert!([0, 4].contains(&output.code()), "{interpreter}: {output:?}");
        let is_cut = output.stderr.contains("cannot be read");
        assert!(!is_cut, "{interpreter}: {}", output.stderr);
        let mut seen = 0;
        for line in output.stdout.lines() {
            let frames = folded(line);
            let wrong = source.contradiction(&frames);
            assert_eq!(wrong, None, "{interpreter}: {line}");
            if let Some((outermost, _)) = frames.last() {
                assert!(
                    ["computes", "sleeps"].contains(&outermost.as_str()),
                    "{interpreter}: {line}"
                );
                seen += 1;
            }
        }
        assert!(seen > 10, "{interpreter}: {seen} stacks of {output:?}");
        guest.tell("");
        guest.ends_with("done");
    }
}

/// What is not read is refused in a line that says what is.
#[test]
fn what_is_not_read_is_refused_and_the_guest_goes_on() {
    for interpreter in interpreters() {
        let mut guest = Guest::script(&interpreter, SCRIPT, &[]);
        guest.expect("ready");
        let pid = guest.pid.to_string();
        let file = folder("free_threaded").join("fib.py");
        std::fs::write(&file, "def fib(n):\n    return n\n").expect("a file");
        let fib = format!("python:__main__.fib={}", file.display());
        let calls = [
            "calls",
            "-x",
            "python:time.sleep",
            "--for",
            "1s",
            "-p",
            &pid,
        ];
        // `calls` goes on with what else was asked for, here nothing.
        let refused: [(i32, &[&str]); 4] = [
            (1, &["mem", "--for", "1s", "-p", &pid]),
            (1, &["heap", "-p", &pid]),
            (1, &["patch", "-p", &pid, &fib]),
            (4, &calls),
        ];
        for (code, args) in refused {
            let output = run(lancet().args(args), LIMIT);
            assert_eq!(output.code(), code, "{interpreter} {args:?}: {output:?}");
            let said = output.stderr;
            assert!(
                said.contains("is a free-threaded build (python3."),
                "{interpreter} {args:?}: {said}"
            );
            let lines = said.lines().filter(|line| line.contains("free-threaded"));
            assert_eq!(lines.count(), 1, "{interpreter} {args:?}: {said}");
        }
        let parked = stack(&["--fibers", "-p", &pid]);
        let said = String::from_utf8_lossy(&parked.stderr).into_owned();
        assert!(
            said.contains("(free-threaded) has no list of its objects"),
            "{interpreter}: {said}"
        );
        assert_eq!(parked.status.code(), Some(4), "{interpreter}: {said}");
        guest.tell("");
        guest.ends_with("done");
    }
}
