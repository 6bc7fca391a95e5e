//! Of the functions of the interpreters, of libc and of a database driver at least 99 in 100 are hooked, all at once, in a process that
//! runs; and it does not mind.

use std::process::Command;

use crate::support::{Guest, LIMIT, Snapshot, Watch, fixtures, installed, run, say, skip};
use crate::watch::{calls, hooked_something, left, text_holds};

/// An interpreter, a script that says `ready` and waits for a line, and what is hooked of it.
const GUESTS: [(&str, &[&str], &[&str]); 4] = [
    (
        "ruby",
        &[
            "-rfiddle",
            "-e",
            "$stdout.sync = true; Fiddle.dlopen('libmariadb.so.3'); puts 'ready'; $stdin.gets; puts 'answer'",
        ],
        &["libruby*", "libc.so*", "libmariadb*", "libstdc*"],
    ),
    (
        "python3",
        &[
            "-c",
            "import ctypes; ctypes.CDLL('libpython3.11.so.1.0'); print('ready', flush=True); input(); print('answer')",
        ],
        &["libpython*", "libc.so*"],
    ),
    (
        "perl",
        &[
            "-e",
            "$| = 1; print qq(ready\n); <STDIN>; print qq(answer\n)",
        ],
        &["MAIN", "libperl*"],
    ),
    (
        "php",
        &[
            "-r",
            "echo 'ready', PHP_EOL; fgets(STDIN); echo 'answer', PHP_EOL;",
        ],
        &["MAIN"],
    ),
];

/// `N of M functions hooked`.
fn figures(stderr: &str) -> (u64, u64) {
    let before = stderr.split(" functions hooked").next().unwrap_or("");
    let mut words = before.split_whitespace().rev();
    let mut number = || words.next().and_then(|word| word.parse().ok());
    let all = number();
    // "of"
    number();
    match (number(), all) {
        (Some(hooked), Some(all)) => (hooked, all),
        _ => panic!("no figures: {stderr}"),
    }
}

#[test]
fn ninety_nine_in_a_hundred_functions_are_hooked_where_they_run() {
    let (mut seen, mut bad) = (0, Vec::new());
    for (interpreter, script, libraries) in GUESTS {
        if !installed(interpreter) {
            skip(interpreter, "not installed");
            continue;
        }
        for library in libraries {
            let mut command = Command::new(interpreter);
            command.args(script);
            let mut guest = Guest::start(&format!("{interpreter} {library}"), command);
            guest.expect("ready");
            let before = Snapshot::take(guest.pid);
            let filter = format!("*@{library}");
            let what = ["-vc", "-o", "/dev/null", "-x", &filter, "--for", "10ms"];
            let output = run(&mut calls(guest.pid, &what), LIMIT);
            // Linked to it or not, as the distribution has it.
            let some = hooked_something(&output, &format!("{interpreter} {library}"));
            text_holds(&before, guest.pid, library, &output);
            guest.tell("");
            guest.ends_with("answer");
            if !some {
                continue;
            }
            let (hooked, all) = figures(&output.stderr);
            say(format_args!("{interpreter} {library}: {hooked} of {all}"));
            for line in output
                .stderr
                .lines()
                .filter(|line| line.contains("not hooked"))
            {
                say(format_args!("    {line}"));
            }
            if all < 100 {
                continue;
            }
            seen += 1;
            if hooked * 100 < all * 99 {
                bad.push(format!("{interpreter} {library}: {hooked} of {all}"));
            }
        }
    }
    assert!(seen >= 5, "too few libraries to say anything: {seen}");
    assert!(bad.is_empty(), "{bad:?}");
}

/// Nearly all system calls that there are in the C library, the loader and the interpreters.
#[test]
fn nearly_every_system_call_can_be_hooked() {
    let script = fixtures().join("ruby/states/sleep.rb");
    if !installed("ruby") {
        return skip("calls -S of a Ruby", "no ruby");
    }
    let mut command = Command::new("ruby");
    command.arg(script);
    let guest = Guest::start("sleep", command);
    guest.expect("ready");
    let mut watch = Watch::start(calls(guest.pid, &["-L", "-S", "--max-wait", "30s"]));
    let line = watch.until("lancet: process ");
    left(watch, "coverage");
    let (_, rest) = line
        .split_once("system calls at ")
        .unwrap_or_else(|| panic!("{line}"));
    let mut numbers = rest
        .split(' ')
        .filter_map(|word| word.parse::<usize>().ok());
    let (hooked, all) = (numbers.next().expect(rest), numbers.next().expect(rest));
    assert!(all > 300 && hooked * 100 >= all * 97, "{line}");
    drop(guest);
}
