//! `lancet demo`: each fault of its server is named by the line at which it stands, and nothing is left.

use std::path::PathBuf;
use std::time::Instant;

use nix::sys::signal::Signal;

use super::support::{LIMIT, Output, Watch, installed, lancet, run, skip, soak};

/// The languages with the program that must be there. One is shown, all in the long forms.
fn languages() -> Vec<(&'static str, &'static str)> {
    let all = [
        ("ruby", "ruby"),
        ("python", "python3"),
        ("php", "php"),
        ("perl", "perl"),
    ];
    let there = all.into_iter().filter(|(_, program)| installed(program));
    there.take(if soak() { all.len() } else { 1 }).collect()
}

/// The folder of the server's script, which is in its first line.
fn folder(output: &Output) -> PathBuf {
    let line = output.stdout.lines().next().unwrap_or_default();
    let (_, rest) = line.split_once('(').expect("the script's path");
    let (path, _) = rest.split_once(')').expect("its end");
    let script = PathBuf::from(path);
    script.parent().expect("a folder").to_owned()
}

/// The number of the server's process, from the same line.
fn server(output: &Output) -> PathBuf {
    let line = output.stdout.lines().next().unwrap_or_default();
    let (_, rest) = line.split_once(" process ").expect("its number");
    let number = rest.split_whitespace().next().expect("it");
    PathBuf::from("/proc").join(number)
}

#[test]
fn every_fault_is_named_within_a_minute_and_nothing_is_left() {
    let languages = languages();
    if languages.is_empty() {
        return skip("demo", "there is no interpreter");
    }
    for (language, _) in languages {
        let began = Instant::now();
        let output = run(lancet().args(["demo", "--language", language]), 3 * LIMIT);
        assert_eq!(output.code(), 0, "{language}: {output:?}");
        super::support::say(format_args!(
            "demo of {language}: {:.1} s",
            began.elapsed().as_secs_f64()
        ));
        let parts: Vec<&str> = output.stdout.split("\n$ lancet ").skip(1).collect();
        assert_eq!(parts.len(), 4, "{language}: {output:?}");
        for part in &parts {
            let (answer, shows) = part.split_once("\n→ ").expect("what it shows");
            let line = match part.starts_with("heap ") {
                true => "visits",
                false => "…/shop.",
            };
            assert!(answer.contains(line), "{language}: {line}: {part}");
            assert!(!shows.contains("does not"), "{language}: {part}");
        }
        assert!(!folder(&output).exists(), "{language}: {output:?}");
        assert!(!server(&output).exists(), "{language}: {output:?}");
    }
}

#[test]
fn ctrl_c_ends_it_and_its_server() {
    let Some((language, _)) = languages().first().copied() else {
        return skip("demo", "there is no interpreter");
    };
    let mut command = lancet();
    command.args(["demo", "--language", language]);
    let watch = Watch::start(command);
    // It has started its server when another lancet looks at that.
    super::support::until(LIMIT, "a command is shown", || {
        (super::support::children(watch.pid()).len() >= 2).then_some(())
    });
    watch.ask(Signal::SIGINT);
    let output = watch.end();
    assert_eq!(output.code(), 130, "{output:?}");
    assert!(
        !folder(&output).exists() && !server(&output).exists(),
        "{output:?}"
    );
}
