//! `lancet syscalls`: who makes these system calls. Counts by native function and script line are exact, and `--in`, `--at`,
//! `--leaks` and `--blocked` say what they are asked.

use std::path::Path;
use std::process::Command;

use crate::machine::program;
use crate::support::{
    Guest, Interpreter, LIMIT, Output, TempDir, chosen, lancet, run, schema, soak,
};

/// How often a script asks.
const ASKS: u64 = 20_000;

/// `lancet syscalls` of a program that it starts, at no loss.
fn started(options: &[&str], words: &[&str]) -> Output {
    let mut command = lancet();
    command.args(["syscalls", "--max-wait", "60s"]);
    command.args(options).arg("--").args(words);
    run(&mut command, LIMIT * 2)
}

/// The rows of the table: calls, errors, and the name.
fn rows(text: &str) -> Vec<(u64, u64, String)> {
    let mut rules = 0;
    let mut rows = Vec::new();
    for line in text.lines() {
        if line.starts_with("------") {
            rules += 1;
        } else if rules == 1 {
            let (figures, name) = (&line[..51], &line[51..]);
            let calls = figures[30..40].trim().parse().expect("a number");
            let errors = figures[40..50].trim().parse().unwrap_or(0);
            rows.push((calls, errors, name.to_owned()));
        }
    }
    rows
}

/// The return of `swapcontext` is not hooked, so it has no time: none is shown, and never 0.
#[test]
fn a_switch_has_no_time() {
    let Some(path) = program("pingpong.c") else {
        return;
    };
    let folder = TempDir::new("no-time");
    let out = folder.join("out");
    let counted = |form: &[&str]| {
        let mut command = lancet();
        command.args(["calls", "-c", "-x", "swapcontext", "--budget", "100", "-o"]);
        command
            .arg(&out)
            .args(form)
            .arg("--")
            .arg(&path)
            .arg("1000");
        let output = run(&mut command, LIMIT * 2);
        assert_eq!(output.code(), 0, "{}", output.stderr);
        std::fs::read_to_string(&out).expect("a table")
    };
    let text = counted(&["--json"]);
    let records = schema::records(&["calls"], &text);
    let row = schema::first(&records, "row");
    assert_eq!(row["calls"], 1000, "{row}");
    for time in [
        "total_ns", "mean_ns", "p50_ns", "p95_ns", "p99_ns", "max_ns",
    ] {
        assert!(row[time].is_null(), "{time}: {row}");
    }
    let table = counted(&[]);
    let row = table.lines().find(|line| line.contains("swapcontext"));
    let words: Vec<&str> = row.expect("a row").split_whitespace().collect();
    assert!(words.contains(&"-"), "{table}");
    assert!(!table.contains(" 0 ns"), "{table}");
}

/// The story of 2009: a program makes a million system calls that no breakpoint on sigprocmask sees. Every one of them is
/// counted, and the function that makes it is named, with its callers.
#[test]
fn all_switches_are_swapcontext_s() {
    let Some(path) = program("pingpong.c") else {
        return;
    };
    // A tenth of the story's: each is counted in the same way, and more than any ring has room for.
    let switches = if soak() { 1_000_000 } else { 100_000 };
    let words = [path.to_str().expect("plain"), &switches.to_string()];
    let output = started(&["-c", "-e", "trace=rt_sigprocmask"], &words);
    let found = rows(&output.stderr);
    let name = "rt_sigprocmask ← swapcontext".to_owned();
    assert!(
        found.contains(&(switches, 0, name)),
        "{found:?}\n{}",
        output.stderr
    );
    let output = started(&["-c", "-k", "-e", "rt_sigprocmask"], &words);
    let found = rows(&output.stderr);
    for function in ["ping ← main", "pong"] {
        let beginning = format!("rt_sigprocmask ← swapcontext ← {function}");
        let of: u64 = found
            .iter()
            .filter(|(.., name)| name.starts_with(&beginning))
            .map(|(calls, ..)| calls)
            .sum();
        assert_eq!(of, switches / 2, "{function}: {found:?}");
    }
}

/// A script that asks for a file's state on line 2, in `look`, and for one that is not there on line 5.
fn script(language: &str) -> String {
    let asks = ASKS;
    match language {
        "ruby" => format!(
            "def look\n  File.stat('/etc/passwd')\nend\n{asks}.times {{ look }}\n{asks}.times {{ File.exist?('/nosuch') }}\n"
        ),
        "python" => format!(
            "import os\ndef look(): os.stat('/etc/passwd')\n\ndef gone():\n  os.path.exists('/nosuch')\nfor _ in range({asks}): look()\nfor _ in range({asks}): gone()\n"
        ),
        "perl" => format!(
            "sub look {{\n  stat('/etc/passwd');\n}}\nfor (1..{asks}) {{ look() }}\nfor (1..{asks}) {{ stat('/nosuch') }}\n"
        ),
        _ => format!(
            "<?php function look() {{\n  clearstatcache(); return stat('/etc/passwd');\n}}\nfor ($i = 0; $i < {asks}; $i++) {{ look(); }}\nfor ($i = 0; $i < {asks}; $i++) {{ file_exists('/nosuch'); }}\n"
        ),
    }
}

/// What runs a script.
fn words(interpreter: &Interpreter, script: &Path) -> Vec<String> {
    let mut command = interpreter.command();
    command.arg(script);
    std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_str().expect("plain").to_owned())
        .collect()
}

/// Where the script's `look` is, as a row ends.
fn asked(interpreters: &[Interpreter], language: &str, folder: &TempDir) {
    for interpreter in interpreters {
        let path = folder.join(&format!("who.{language}"));
        std::fs::write(&path, script(language)).expect("it can be written");
        let words = words(interpreter, &path);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let output = started(
            &["-c", "-e", "trace=%stat,%lstat,%fstat,statx,access"],
            &words,
        );
        let found = rows(&output.stderr);
        let of = |line: &str, errors: bool| -> u64 {
            let place = format!("who.{language}:{line}");
            let at = found.iter().filter(|(.., name)| name.contains(&place));
            at.map(|(calls, failed, _)| if errors { *failed } else { *calls })
                .sum()
        };
        assert_eq!(of("2", false), ASKS, "{interpreter}: {}", output.stderr);
        // PHP asks twice for what it does not find.
        let gone = of("5", true);
        assert!(
            gone >= ASKS && gone % ASKS == 0,
            "{interpreter}: {gone}: {}",
            output.stderr
        );
        let place = format!("who.{language}:2");
        for only in [["--in", "look"], ["--at", &place]] {
            let options = ["-c", "-e", "trace=%stat,%lstat,%fstat,statx,access"];
            let output = started(&[&options[..], &only].concat(), &words);
            let found = rows(&output.stderr);
            let all: u64 = found.iter().map(|(calls, ..)| calls).sum();
            assert_eq!(all, ASKS, "{interpreter} {only:?}: {}", output.stderr);
        }
    }
}

#[test]
fn states_of_files_are_counted_by_the_script_s_line() {
    let folder = TempDir::new("who");
    for language in ["ruby", "python", "perl", "php"] {
        asked(&chosen(language, "who"), language, &folder);
    }
}

/// What is asked of one function that is not there is answered by a line that says so.
#[test]
fn a_function_that_makes_no_call_is_named() {
    let output = started(&["-c", "--in", "nosuch"], &["true"]);
    assert!(
        output
            .stderr
            .contains("lancet: --in nosuch: no call came from a function of this name"),
        "{}",
        output.stderr
    );
    assert_eq!(rows(&output.stderr), [], "{}", output.stderr);
}

/// A method that is asked for with its class, which its VM's code does not know, is found without it, also in blocks of blocks.
#[test]
fn a_method_whose_class_is_not_known_is_named_without_it() {
    let folder = TempDir::new("who-class");
    let path = folder.join("class.rb");
    let script = "class Look\n  def look = [[1]].each { |all| all.each { File.stat('/nosuch') rescue 0 } }\nend\nLook.new.look\n";
    std::fs::write(&path, script).expect("it can be written");
    // The script has a method without `end`.
    let rubies = chosen("ruby", "who").into_iter();
    for ruby in rubies.filter(|ruby| ruby.numbers() >= (3, 0)) {
        let words = words(&ruby, &path);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let calls = "trace=%stat,%lstat,%fstat,statx";
        let asked = ["-e", calls, "--in", "Look#look", "--in", "Look#other"];
        let output = started(&[&["-c"][..], &asked].concat(), &words);
        for line in [
            "lancet: --in Look#look: no call came from a function of this name; some came from look, of which no class is known here: --in look\n",
            "lancet: --in Look#other: no call came from a function of this name\n",
        ] {
            assert!(output.stderr.contains(line), "{ruby}: {}", output.stderr);
        }
        let output = started(&["-c", "-e", calls, "--in", "look"], &words);
        let found = rows(&output.stderr);
        assert!(
            found
                .iter()
                .any(|(calls, errors, _)| (*calls, *errors) == (1, 1)),
            "{ruby}: {}",
            output.stderr
        );
    }
}

/// What is recorded with `--in` holds what is shown with it.
#[test]
fn what_is_recorded_is_what_was_asked_for() {
    let Some(path) = program("pingpong.c") else {
        return;
    };
    let folder = TempDir::new("who-recorded");
    let file = folder.join("pingpong.lancet");
    let file = file.to_str().expect("plain");
    let words = [path.to_str().expect("plain"), "1000"];
    started(&["--in", "swapcontext", "--record", file], &words);
    let replay = |options: &[&str]| {
        let mut command = lancet();
        command.args(["syscalls", "-c"]).args(options).arg(file);
        rows(&run(&mut command, LIMIT).stdout)
    };
    let expected = [(1000, 0, "rt_sigprocmask ← swapcontext".to_owned())];
    assert_eq!(replay(&[]), expected);
    assert_eq!(replay(&["--in", "swapcontext"]), expected);
    assert_eq!(replay(&["--in", "getcontext"]), []);
}

/// `--leaks` is the verdict on descriptors, and `--blocked` what `calls --now` says.
#[test]
fn leaks_and_what_waits_are_told() {
    for ruby in chosen("ruby", "who") {
        let folder = TempDir::new("who-leaks");
        let path = folder.join("leaks.rb");
        let text = "$stdout.sync = true\nkept = []\nputs 'ready'\n$stdin.gets\n7.times { kept << File.open('/etc/passwd') }\nputs 'answer'\n$stdin.gets\n";
        std::fs::write(&path, text).expect("it can be written");
        let mut command: Command = ruby.command();
        command.arg(&path);
        let mut guest = Guest::ready(&mut command);
        let mut blocked = lancet();
        blocked.args(["syscalls", "--blocked", "-p", &guest.pid.to_string()]);
        let said = run(&mut blocked, LIMIT);
        assert!(
            said.stdout.contains("IO#gets") && said.stdout.contains("leaks.rb:4"),
            "{ruby}: {}",
            said.stdout
        );
        let mut command = lancet();
        command.args(["syscalls", "--leaks", "-p", &guest.pid.to_string()]);
        let watch = crate::watch::hooked(command);
        guest.tell("");
        guest.find("answer");
        let output = crate::watch::left(watch, "leaks");
        let row = output
            .stdout
            .lines()
            .find(|line| line.contains("leaks.rb:5"));
        let row = row.unwrap_or_else(|| panic!("{ruby}: {}", output.stdout));
        let words: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(words[..2], ["7", "7"], "{ruby}: {row}");
        assert!(guest.ends_well());
    }
}
