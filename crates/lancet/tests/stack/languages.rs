//! Script frames of all languages: what the script itself says of its frames is the truth. Every version there is
//! a root for.

use serde_json::{Value, json};

use super::output::{records, stack, text};
use crate::support::{Guest, Interpreter, all};

/// A frame: name, file, line.
pub type Frame = (String, String, u64);

/// Deep enough for 600 native frames.
pub const DEEP: &str = "190";

/// A language, and a script that goes deep in it.
pub struct Language {
    pub name: &'static str,
    pub versions: &'static [&'static str],
    pub options: &'static [&'static str],
    pub script: &'static str,
    /// The function that runs scripts.
    pub runner: &'static str,
}

impl Language {
    /// All there are of it.
    pub fn interpreters(&self) -> Vec<Interpreter> {
        all(self.name, self.versions)
    }
}

pub const PYTHON: Language = Language {
    name: "python",
    versions: &["3.9", "3.11", "3.13", "3.14", "3.15"],
    options: &["-S", "-c"],
    script: include_str!("deep.py"),
    runner: "_PyEval_EvalFrameDefault",
};
/// Builds of it without the GIL, of which stacks alone are read.
pub const FREE_THREADED: Language = Language {
    versions: &["3.13t", "3.14t", "3.15t"],
    ..PYTHON
};
pub const PERL: Language = Language {
    name: "perl",
    versions: &["5.32", "5.36", "5.40", "5.42", "5.44"],
    options: &["-e"],
    script: include_str!("deep.pl"),
    runner: "Perl_runops_standard",
};
pub const PHP: Language = Language {
    name: "php",
    versions: &["7.4", "8.2", "8.4", "8.5", "8.6"],
    options: &["-r"],
    script: include_str!("deep.php"),
    runner: "execute_ex",
};
pub const RUBY: Language = Language {
    name: "ruby",
    versions: &["2.7", "3.1", "3.3", "3.4", "4.0"],
    options: &["-e"],
    script: include_str!("deep.rb"),
    runner: "rb_vm_exec",
};

/// This machine's own.
pub fn own(language: &Language) -> Option<Interpreter> {
    language
        .interpreters()
        .into_iter()
        .find(Interpreter::is_system)
}

/// Starts one that goes `depth` deep.
pub fn start(language: &Language, interpreter: &Interpreter, depth: &str) -> Guest {
    let mut command = interpreter.chrooted();
    command
        .args(language.options)
        .arg(language.script)
        .arg(depth);
    Guest::asleep(&mut command)
}

/// The script frames of each thread of a guest, innermost first. All of them must have a native frame, and each native
/// frame that runs scripts some of them.
pub fn seen(language: &Language, guest: &Guest, what: &str) -> Vec<(u64, Vec<Frame>)> {
    let output = stack(&["--json", "-p", &guest.pid.to_string()]);
    let frames = records(&output, "frame");
    let stacks = records(&output, "stack");
    let of = |one: &Value| {
        let tid = one["tid"].as_u64().expect("a number");
        assert_eq!(
            one["whole"],
            true,
            "{what}: {}",
            text(&stack(&[
                "--native",
                "--bytes",
                "-p",
                &guest.pid.to_string()
            ]))
        );
        let frames = frames.iter().filter(|frame| frame["tid"] == tid);
        let idle =
            |frame: &&Value| frame["function"] == language.runner && frame["scripts"] == json!([]);
        assert_eq!(frames.clone().find(idle), None, "{what}: it runs no script");
        let scripts =
            frames.flat_map(|frame| frame["scripts"].as_array().cloned().unwrap_or_default());
        (tid, scripts.map(|script| frame(&script)).collect())
    };
    stacks.iter().map(of).collect()
}

fn frame(script: &Value) -> Frame {
    let field = |field: &str| script[field].as_str().unwrap_or_default().to_owned();
    (
        field("function"),
        field("path"),
        script["line"].as_u64().unwrap_or(0),
    )
}

/// As `caller` and `debug_backtrace` say it: of each frame where it was called.
fn with_callers(frames: Vec<Frame>) -> Vec<Frame> {
    let outside = frames
        .iter()
        .skip(1)
        .map(|(_, path, line)| (path.clone(), *line));
    let outside: Vec<_> = outside.collect();
    let inner = frames.into_iter().zip(outside);
    inner
        .map(|((name, ..), (path, line))| (name, path, line))
        .collect()
}

/// `name`, `file` and `line`, by tabs.
fn told(lines: &[String]) -> Vec<Frame> {
    let frame = |line: &String| {
        let fields: Vec<&str> = line.split('\t').collect();
        (
            fields[0].to_owned(),
            fields[1].to_owned(),
            fields[2].parse().expect("a line"),
        )
    };
    lines.iter().skip(1).map(frame).collect()
}

#[track_caller]
fn same(what: &str, seen: &[Frame], told: &[Frame]) {
    let differs = seen.iter().zip(told).position(|(seen, told)| seen != told);
    if let Some(at) = differs {
        panic!(
            "{what}: frame {at} of {} is {:?}, not {:?}",
            told.len(),
            seen[at],
            told[at]
        );
    }
    assert_eq!(
        seen.len(),
        told.len(),
        "{what}: {:?} {:?}",
        seen.last(),
        told.last()
    );
}

#[test]
fn ruby_says_the_same_of_its_frames() {
    for interpreter in RUBY.interpreters() {
        let what = &interpreter.to_string();
        let guest = start(&RUBY, &interpreter, DEEP);
        let (_, mut seen) = seen(&RUBY, &guest, what).remove(0);
        // What 3.4 has written in Ruby it shows as if it were C.
        seen.retain(|(_, path, _)| !path.starts_with("<internal:"));
        let mut told = told(&guest.preface);
        for ((name, ..), (seen, ..)) in told.iter_mut().zip(&mut seen) {
            // Since 3.4 labels tell the class too, and code of `eval` has a name of its own.
            if seen == "<compiled>" {
                *seen = "deep".to_owned();
            }
            *name = name.replace("Object#", "").replace("Thing#", "");
        }
        same(what, &seen, &told);
        println!("{what}: {} frames", seen.len());
        assert!(guest.ends_well(), "{what}");
    }
}

#[test]
fn python_says_the_same_of_its_frames() {
    let mut free_threaded = FREE_THREADED.interpreters();
    free_threaded.retain(|one| !one.is_system());
    for interpreter in PYTHON.interpreters().into_iter().chain(free_threaded) {
        let what = &interpreter.to_string();
        let guest = start(&PYTHON, &interpreter, DEEP);
        let seen = seen(&PYTHON, &guest, what);
        assert!(!seen.is_empty());
        for (tid, seen) in &seen {
            let of_this = |line: &&String| line.starts_with(&format!("stack\t{tid}\t"));
            let Some(told) = guest.preface.iter().find(of_this) else {
                panic!("{what}: thread {tid} said nothing: {seen:?}");
            };
            let told: Vec<Frame> = serde_json::from_str::<Vec<(String, u64, String)>>(
                told.rsplit('\t').next().expect("frames"),
            )
            .expect("JSON")
            .into_iter()
            .map(|(path, line, name)| (name, path, line))
            .collect();
            same(what, seen, &told);
        }
        println!("{what}: {} threads, {} frames", seen.len(), seen[0].1.len());
        assert_eq!(seen.len(), 2, "{what}");
        assert!(guest.ends_well(), "{what}");
    }
}

#[test]
fn perl_says_the_same_of_its_frames() {
    for interpreter in PERL.interpreters() {
        let what = &interpreter.to_string();
        let guest = start(&PERL, &interpreter, DEEP);
        let (_, frames) = seen(&PERL, &guest, what).remove(0);
        // What `caller` does not show.
        let hidden = ["(sort)", "(regex)", "(try)", "(defer)", "(main)"];
        let seen: Vec<Frame> = with_callers(frames)
            .into_iter()
            .filter(|(name, ..)| !hidden.contains(&name.as_str()))
            .collect();
        same(what, &seen, &told(&guest.preface));
        println!("{what}: {} frames", seen.len());
        assert!(guest.ends_well(), "{what}");
    }
}

/// Threads of Perl: the first runs the program, the others a sub each, and say when they are where they are to be.
const PERL_THREADS: &str = "use threads;
pipe my $read, my $write;
sub work { my $n = shift; if ($n) { my @l = sort { work($n - 1); 0 } 1, 2; return } syswrite $write, 'x'; select undef, undef, undef, 1000 }
threads->create(\\&work, 2);
sysread $read, my $byte, 1;
threads->create(sub { eval { work(1) } });
sysread $read, $byte, 1;
$| = 1; print qq{ready\n};
scalar <STDIN>; exec 'true'";

#[test]
fn perls_threads() {
    for interpreter in PERL.interpreters() {
        let what = &interpreter.to_string();
        let guest = Guest::asleep(interpreter.chrooted().args(["-e", PERL_THREADS]));
        let seen = seen(&PERL, &guest, what);
        let names = |(_, frames): &(u64, Vec<Frame>)| -> Vec<String> {
            frames
                .iter()
                .map(|(name, ..)| name.replace("main::", ""))
                .collect()
        };
        let seen: Vec<Vec<String>> = seen.iter().map(names).collect();
        let deep = ["work", "(sort)", "work", "(sort)", "work"];
        let short = ["work", "(sort)", "work", "(eval)", "__ANON__"];
        assert_eq!(
            seen,
            [vec!["(main)"], deep.to_vec(), short.to_vec()],
            "{what}"
        );
        assert!(guest.ends_well(), "{what}");
    }
}

#[test]
fn php_says_the_same_of_its_frames() {
    for interpreter in PHP.interpreters() {
        let what = &interpreter.to_string();
        let guest = start(&PHP, &interpreter, DEEP);
        let (_, frames) = seen(&PHP, &guest, what).remove(0);
        assert_eq!(frames[0].0, "fgets", "{what}");
        let seen = with_callers(frames[1..].to_vec());
        same(what, &seen, &told(&guest.preface));
        println!("{what}: {} frames", seen.len());
        assert!(guest.ends_well(), "{what}");
    }
}
