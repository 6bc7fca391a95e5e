//! `--new`: the file compiles with the line that it says, and applied it changes nothing.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::programs::{done, patch, program};
use crate::support::{Guest, LIMIT, TempDir, installed, run, skip};

/// Writes a template in a folder; the file.
fn written(guest: &Guest, folder: &Path, arguments: &[&str]) -> PathBuf {
    let mut all = vec!["--new"];
    all.extend(arguments);
    let output = run(patch(guest.pid, &all).current_dir(folder), LIMIT);
    assert_eq!(output.code(), 0, "{arguments:?}: {output:?}");
    folder.join(output.stdout.split(':').next().expect("a name"))
}

/// The lines of a template that begin with these words.
fn line<'t>(text: &'t str, begins: &str) -> &'t str {
    let mut lines = text
        .lines()
        .map(|line| line.trim_start_matches([' ', '*', '/', '!']));
    lines.find(|line| line.starts_with(begins)).expect("a line")
}

/// Compiles it as its first lines say, and applies it as they say.
fn applied(guest: &Guest, folder: &Path, file: &Path) {
    let text = std::fs::read_to_string(file).expect("a template");
    let is_c = file.extension().is_some_and(|ending| ending == "c");
    let compiler = line(&text, if is_c { "cc " } else { "rustc " });
    let output = Command::new("sh")
        .arg("-c")
        .arg(compiler)
        .current_dir(folder)
        .output();
    let output = output.expect("a compiler");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.success() && said.is_empty(),
        "{compiler}: {said}\n{text}"
    );
    let request = line(&text, "lancet patch ")
        .rsplit(' ')
        .next()
        .expect("a request");
    let output = run(
        patch(guest.pid, &["--wait", "10s", request]).current_dir(folder),
        LIMIT,
    );
    assert_eq!(output.code(), 0, "{request}: {output:?}\n{text}");
}

/// By debug information, a struct by value and floating point among it; by the bundle; by nothing.
#[test]
fn a_template_compiles_and_does_what_the_function_did() {
    let folder = TempDir::new("template");
    std::fs::create_dir_all(folder.join("")).expect("a folder");
    let program = program("guest-template", &["-g"]);
    let mut guest = Guest::ready(Command::new(program).arg("2"));
    let with_rust = installed("rustc");
    if !with_rust {
        skip("--new --rust", "no rustc");
    }
    let before = ["total", "sum", "many"].map(|line| guest.answer_to(line));
    for ending in if with_rust { &["c", "rs"][..] } else { &["c"] } {
        for function in [
            "total",
            "sum",
            "many",
            "strlen@libc.so.6",
            "fgets@libc",
            "qsort",
        ] {
            let mut arguments = vec![function];
            if *ending == "rs" {
                arguments.push("--rust");
            }
            let file = written(&guest, &folder.join(""), &arguments);
            assert_eq!(file.extension().and_then(|of| of.to_str()), Some(*ending));
            let text = std::fs::read_to_string(&file).expect("a template");
            let wanted = match (function, *ending) {
                ("total", "c") => "long total(long a1, long a2)",
                ("many", "c") => "double many(int a1, double a2, long a3,",
                ("strlen@libc.so.6", "c") => "strlen(const char *a1)",
                ("total", _) => "fn total(a1: i64, a2: i64) -> i64 {",
                _ => "lancet_original",
            };
            assert!(text.contains(wanted), "{text}");
            // A file that is there is the user's work.
            let mut again = vec!["--new"];
            again.extend(&arguments);
            let output = run(patch(guest.pid, &again).current_dir(folder.join("")), LIMIT);
            assert!(
                output.code() == 1 && output.stderr.contains("is not written"),
                "{output:?}"
            );
            // A thread of the guest waits in fgets all the time, and strlen is chosen when the program begins.
            if !matches!(function, "fgets@libc" | "strlen@libc.so.6") {
                applied(&guest, &folder.join(""), &file);
            }
        }
        let after = ["total", "sum", "many"].map(|line| guest.answer_to(line));
        assert_eq!(after, before, "{ending}");
        done(guest.pid, &["--undo"]);
    }
    guest.ends_with("answer 0");
}
