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
    let mut command = interpreter.command();
    let said = command.arg("--version").output().expect("it runs").stdout;
    let said = String::from_utf8(said).expect("text");
    // `Python 3.13.5`, `ruby 3.1.2p20 (…)`.
    let version = said.split_whitespace().nth(1).expect("a version");
    let minor = version.split('.').nth(1).and_then(|it| it.parse().ok());
    let minor: u32 = minor.expect("a number");
    match interpreter.language {
        "python" => minor >= 13,
        _ => version.starts_with("4.") || version.starts_with("3.") && minor >= 3,
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
                assert!(said.contains("innermost"), "{interpreter}: {said}");
                assert_eq!(found.status.code(), Some(0), "{interpreter}: {said}");
                let parked = without_tables(language, &["--fibers", "-p", &pid]);
                let lost = self::said(&parked);
                assert!(lost.contains("that are parked"), "{interpreter}: {lost}");
                assert_eq!(parked.status.code(), Some(4), "{interpreter}: {lost}");
            } else {
                assert_eq!(scripts, [], "{interpreter}");
                assert!(said.contains("cannot be read"), "{interpreter}: {said}");
                assert_eq!(found.status.code(), Some(4), "{interpreter}: {said}");
            }
            assert!(guest.ends_well());
        }
    }
}

/// Two programs whose text is in no file. The functions of one have two names each: they are named, and that no line is proven is said.
/// Those of the other have one, and one thread alone is not believed by that.
#[test]
fn lines_that_no_text_proves_are_not_shown() {
    for interpreter in PYTHON.interpreters().iter().filter(|one| is_told(one)) {
        let plain = "import sys\ndef inner(): print('ready', flush=True), sys.stdin.read()\n\
                    def outer():\n    inner()\n\nouter()\n";
        let class = "import sys\nclass Shop:\n\
                    \x20def inner(self): print('ready', flush=True), sys.stdin.read()\n\
                    \x20def middle(self):\n  self.inner()\n\
                    \x20def outer(self):\n  self.middle()\n\nShop().outer()\n";
        let of_class = &["<string> in Shop.inner", "<string> in Shop.outer"][..];
        for (text, rows, why) in [
            (class, of_class, "its lines are not shown: none of its"),
            (plain, &[], "only one thread runs scripts"),
        ] {
            let mut command = interpreter.command();
            let guest = Guest::asleep(command.args(["-S", "-c", text]));
            let pid = guest.pid.to_string();
            let found = without_tables(&PYTHON, &["-p", &pid]);
            let shown = String::from_utf8_lossy(&found.stdout).into_owned();
            for row in rows {
                assert!(shown.contains(row), "{interpreter}: {shown}");
            }
            assert_eq!(rows.is_empty(), !shown.contains("<string>"), "{shown}");
            let said = said(&found);
            assert!(said.contains(why), "{interpreter}: {said}");
            assert_eq!(found.status.code(), Some(4), "{interpreter}: {said}");
            assert!(guest.ends_well());
        }
    }
}
