//! VMs of versions without a table: the tables of known ones are taken away (`LANCET_WITHOUT_TABLE`), and what is read all the same is held
//! against what the table leads to. It is the same, or refused.

use std::process::Output;

use serde_json::Value;

use super::languages::{Language, PYTHON, RUBY};
use super::output::stack;
use super::support::{Guest, Interpreter, schema, without_table};

/// Runs `lancet stack` without the tables of a language.
fn without_tables(language: &Language, args: &[&str]) -> Output {
    let mut command = without_table(language.name);
    let output = command.arg("stack").args(args).output();
    output.expect("lancet runs")
}

/// Each script frame of each thread. Which class has a method is not read without a table.
fn scripts(output: &Output) -> Vec<(Value, Value)> {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let all = schema::records(&["stack"], &text).into_iter();
    let frames = all.filter(|line| line["record"] == "frame");
    let scripts = frames.flat_map(|frame| {
        let scripts = frame["scripts"].as_array().cloned().unwrap_or_default();
        scripts.into_iter().map(move |mut script| {
            script["qualified"].take();
            (frame["tid"].clone(), script)
        })
    });
    scripts.collect()
}

/// Whether a version is read without its table.
fn is_told(interpreter: &Interpreter) -> bool {
    let version = &*interpreter.version;
    match interpreter.language {
        "python" => !matches!(version, "3.9" | "3.11" | "system"),
        _ => !matches!(version, "2.7" | "3.1" | "system"),
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Frames and lines are those of the table, where a version says so much of itself; else a line says what is missing.
#[test]
fn without_a_table_the_same_is_read_or_nothing() {
    for (language, script) in [(&PYTHON, "without_table.py"), (&RUBY, "without_table.rb")] {
        for interpreter in language.interpreters() {
            let guest = Guest::script(&interpreter, script, &[]);
            guest.expect("ready");
            guest.settle_in_read();
            let pid = guest.pid.to_string();
            let args = ["--json", "-p", &pid];
            let (known, found) = (stack(&args), without_tables(language, &args));
            assert!(known.status.success(), "{interpreter}: {known:?}");
            let (known, scripts) = (scripts(&known), scripts(&found));
            let said = said(&found);
            assert_eq!(said.lines().count(), 1, "{interpreter}: {said}");
            assert!(known.len() > 10, "{interpreter}: {known:?}");
            if is_told(&interpreter) {
                assert_eq!(scripts, known, "{interpreter}: {said}");
                assert!(said.contains("of 3 threads, and "), "{interpreter}: {said}");
                assert_eq!(found.status.code(), Some(0), "{interpreter}: {said}");
            } else {
                assert_eq!(scripts, [], "{interpreter}");
                assert!(said.contains("cannot be read"), "{interpreter}: {said}");
                assert_eq!(found.status.code(), Some(4), "{interpreter}: {said}");
            }
            assert!(guest.ends_well());
        }
    }
}

/// A program whose text is in no file: its functions are named, and that no line is proven is said.
#[test]
fn lines_that_no_text_proves_are_not_shown() {
    for interpreter in PYTHON.interpreters().iter().filter(|one| is_told(one)) {
        let mut command = interpreter.command();
        let text = "import sys\ndef inner(): print('ready', flush=True), sys.stdin.read()\n\
                    def outer():\n    inner()\n\nouter()\n";
        let guest = Guest::asleep(command.args(["-S", "-c", text]));
        let pid = guest.pid.to_string();
        let found = without_tables(&PYTHON, &["-p", &pid]);
        let shown = String::from_utf8_lossy(&found.stdout).into_owned();
        for row in ["<string> in inner", "<string> in outer"] {
            assert!(shown.contains(row), "{interpreter}: {shown}");
        }
        let said = said(&found);
        assert!(
            said.contains("its lines are not shown"),
            "{interpreter}: {said}"
        );
        assert_eq!(found.status.code(), Some(4), "{interpreter}: {said}");
        assert!(guest.ends_well());
    }
}
