//! Code that PHP's JIT made, for which no file has call frame information.

use serde_json::{Value, json};

use super::core::same;
use super::languages::PHP;
use super::output::{records, stack};
use crate::support::Guest;

/// Calls from compiled code to compiled code, and through C, to a function of C that waits.
const SCRIPT: &str = "<?php
function leaf() { echo \"ready\\n\"; return fgets(STDIN); }
function again($n) { for ($s = $i = 0; $i < 100; $i++) { $s += $i; } return $n == 0 ? leaf() : again($n - 1) . $s; }
function through($n) { return array_map(fn($x) => again($x), [$n]); }
if (!(opcache_get_status()['jit']['on'] ?? false)) { echo \"none\\nready\\n\"; return fgets(STDIN); }
through(2);
";

#[test]
fn it_stands_in_the_frame_of_who_runs_scripts() {
    let interpreters = PHP.interpreters();
    let with_jit = interpreters.iter().filter(|one| one.version != "7.4");
    for interpreter in with_jit {
        let what = &interpreter.to_string();
        let name = format!("tmp/lancet-jit-{}.php", std::process::id());
        let file = interpreter.root().join(&name);
        std::fs::write(&file, SCRIPT).expect("written");
        let mut command = interpreter.chrooted();
        let options = [
            "zend_extension=opcache.so",
            "opcache.enable_cli=1",
            "opcache.jit_buffer_size=16M",
            // Every function, when it is read.
            "opcache.jit=1205",
            // Also of a file that was just written.
            "opcache.file_update_protection=0",
        ];
        for option in options {
            command.args(["-d", option]);
        }
        let guest = Guest::asleep(command.arg(format!("/{name}")));
        std::fs::remove_file(&file).expect("removed");
        if guest.preface.iter().any(|line| line == "none") {
            println!("SKIPPED: {what} has no JIT");
            continue;
        }
        let output = stack(&["--json", "-p", &guest.pid.to_string()]);
        let stacks = records(&output, "stack");
        assert_eq!(stacks[0]["whole"], true, "{what}: {}", stacks[0]);
        let frames = records(&output, "frame");
        let made: Vec<&Value> = frames
            .iter()
            .filter(|frame| frame["made_at_run_time"] == true)
            .collect();
        // One below `fgets`, one below `array_map`.
        assert_eq!(made.len(), 2, "{what}: {frames:#?}");
        for (frame, names) in made.iter().zip([
            &["leaf", "again", "again", "again", "{closure"][..],
            &["through", "{main}"],
        ]) {
            assert_eq!(frame["function"], PHP.runner, "{what}");
            let scripts = frame["scripts"].as_array().expect("a list");
            assert_eq!(scripts.len(), names.len(), "{what}: {frame}");
            for (script, name) in scripts.iter().zip(names) {
                let found = script["function"].as_str().expect("a name");
                assert!(found.starts_with(name), "{what}: {frame}");
            }
        }
        assert_eq!(
            frames.last().expect("some")["function"],
            json!("_start"),
            "{what}"
        );
        // A core names the memory that the code lies in as if it were a file.
        if interpreter.is_system() {
            same("core-jit", guest);
        } else {
            assert!(guest.ends_well());
        }
    }
}
