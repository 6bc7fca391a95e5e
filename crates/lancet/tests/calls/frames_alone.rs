//! Script lines of VMs of which nothing but frames is read: Pythons without the GIL, whose threads call at the same time, and versions whose
//! table is taken away (`LANCET_WITHOUT_TABLE`). The line of a call is that which makes it; or there is none, and a line says why.

use std::process::Command;

use crate::lines::{Shown, of, shown};
use crate::support::{
    Guest, Interpreter, LIMIT, Output, TempDir, all, fixtures, until, without_table,
};
use crate::watch::{calls, hooked};

/// Threads of the fixtures that call at once, and calls of each.
const THREADS: usize = 4;
const CALLS: usize = 300;

/// What is said where lines are not.
const NO_LINES: &str = "calls are shown without the line of a script: ";
const FREE_THREADED: [&str; 3] = ["3.13t", "3.14t", "3.15t"];

fn script(interpreter: &Interpreter) -> &'static str {
    match interpreter.language {
        "ruby" => "calls_at_once.rb",
        _ => "calls_at_once.py",
    }
}

/// The lines of a fixture on which something is called with this number, from 1.
fn lines_with(interpreter: &Interpreter, argument: &str) -> Vec<usize> {
    let path = fixtures()
        .join(interpreter.language)
        .join(script(interpreter));
    let text = std::fs::read_to_string(path).expect("the script");
    let call = format!("umask(0o{argument})");
    let lines = text.lines().enumerate();
    let lines = lines.filter(|(_, line)| line.contains(&call));
    lines.map(|(number, _)| number + 1).collect()
}

/// Starts a fixture, opens it by `open`, and has its threads call. Returns what was told of the calls, and what was said.
fn watched(
    interpreter: &Interpreter,
    open: impl Fn(&Guest, &str) -> Command,
) -> (Vec<Shown>, Output) {
    let mut guest = Guest::script(interpreter, script(interpreter), &[]);
    guest.expect("ready");
    guest.settle_in_read();
    let folder = TempDir::new(&format!("frames-alone-{interpreter}").replace(' ', "-"));
    let out = folder.join("out").display().to_string();
    let watch = hooked(open(&guest, &out));
    guest.tell("go");
    guest.expect("done");
    let told = until(LIMIT, "all calls", || {
        let told = shown(&std::fs::read_to_string(&out).unwrap_or_default());
        (of(&told, "umask").len() == THREADS * CALLS).then_some(told)
    });
    let said = watch.interrupt();
    assert!(guest.ends_well(), "{interpreter}");
    (told, said)
}

/// Each call has the one line that passes its number.
#[track_caller]
fn has_right_lines(interpreter: &Interpreter, told: &[Shown]) {
    for argument in ["1", "2", "3", "4"] {
        let [line] = lines_with(interpreter, argument)[..] else {
            panic!("{interpreter}: not one line calls with {argument}");
        };
        let calls = of(told, "umask");
        let own = calls
            .iter()
            .filter(|call| call.arguments == format!("0{argument}"));
        let own: Vec<_> = own.collect();
        assert_eq!(own.len(), CALLS, "{interpreter}: {argument}");
        let place = format!("{}:{line} in '", script(interpreter));
        let wrong = own.iter().find(|call| !call.line.contains(&place));
        assert!(wrong.is_none(), "{interpreter}: {place} {wrong:?}");
    }
}

#[test]
fn threads_without_the_gil_call_at_once_on_their_own_lines() {
    for python in all("python", &FREE_THREADED) {
        let open = |guest: &Guest, out: &str| calls(guest.pid, &["-ttT", "-x", "umask", "-o", out]);
        let (told, said) = watched(&python, open);
        has_right_lines(&python, &told);
        assert_eq!(said.code(), 0, "{python}: {said:?}");
        assert!(!said.stderr.contains(NO_LINES), "{python}: {said:?}");
    }
}

/// What is not derived is refused; what is derived is right.
#[test]
fn without_a_table_a_line_is_right_or_there_is_none() {
    let mut derived = 0;
    let pythons = all("python", &["3.13", "3.14", "3.15"]).into_iter();
    for interpreter in pythons.chain(all("ruby", &["3.3", "3.4", "4.0"])) {
        let open = |guest: &Guest, out: &str| {
            let mut command = without_table(interpreter.language);
            command.args(["calls", "--budget", "100", "-ttT", "-x", "umask", "-o", out]);
            command.args(["-p", &guest.pid.to_string()]);
            command
        };
        let (told, said) = watched(&interpreter, open);
        let is_refused = said.stderr.contains(NO_LINES);
        if is_refused {
            let any = told.iter().find(|call| !call.line.is_empty());
            assert!(any.is_none(), "{interpreter}: {any:?}");
        } else {
            has_right_lines(&interpreter, &told);
            let proof = "has no table; it is read ";
            assert!(said.stderr.contains(proof), "{interpreter}: {said:?}");
            derived += 1;
        }
        // Pythons from 3.15 and Rubies from 3.3 on tell enough of themselves.
        let version = interpreter.version.as_str();
        let is_told = ["3.15", "3.3", "3.4", "4.0"].contains(&version)
            && (interpreter.language == "ruby" || version == "3.15");
        if version != "system" {
            assert_eq!(!is_refused, is_told, "{interpreter}: {said:?}");
        }
    }
    println!("{derived} read without a table");
}
