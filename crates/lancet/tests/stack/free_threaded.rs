//! Pythons without the GIL, where threads run at the same time, each a copy of the instructions of its own: `fixtures/python/parallel.py`.
//! No Debian suite has one: roots are made of those that `LANCET_PYTHON_314T` and the like name.

use std::collections::BTreeMap;

use serde_json::Value;

use super::languages::FREE_THREADED;
use super::output::{folder, records, stack};
use crate::support::{Guest, Interpreter, LIMIT, fixtures, lancet, run};

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
        let (mut frames, mut empty) = (0, 0);
        for _ in 0..LOOKS {
            let output = stack(&["--json", "-p", &guest.pid.to_string()]);
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
            "{interpreter}: {frames} frames in {LOOKS} looks, {empty} of a thread without any"
        );
        assert_eq!(empty, 0, "{interpreter}");
        assert!(frames > LOOKS as usize * 6 * 2, "{interpreter}: {frames}");
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
        let refused: [&[&str]; 4] = [
            &["mem", "--for", "1s", "-p", &pid],
            &["heap", "-p", &pid],
            &["patch", "-p", &pid, &fib],
            &[
                "calls",
                "-x",
                "python:time.sleep",
                "--for",
                "1s",
                "-p",
                &pid,
            ],
        ];
        for args in refused {
            let output = run(lancet().args(args), LIMIT);
            let said = output.stderr;
            assert!(
                said.contains("is a free-threaded build (python3."),
                "{interpreter} {args:?}: {said}"
            );
            let lines = said.lines().filter(|line| line.contains("free-threaded"));
            assert_eq!(lines.count(), 1, "{interpreter} {args:?}: {said}");
            assert!(!output.status.success(), "{interpreter} {args:?}");
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
