//! Trees that are broken on purpose, given to the whole tool. (The checks are fuzzed in crates/tune/tests.)

use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use nix::sys::stat::Mode;

use crate::harness::{Scratch, checks, text, tune};

#[test]
fn an_empty_tree() {
    let scratch = Scratch::new();
    let found = checks(&tune(&["--root", scratch.arg(), "--json"]));
    assert_eq!(found.len(), tune::rules::RULES.len());
    for (id, check) in &found {
        let verdict = check["verdict"].as_str().unwrap();
        assert!(
            matches!(verdict, "cannot_tell" | "not_applicable" | "good"),
            "{id} is {verdict}"
        );
    }
}

#[test]
fn a_tree_that_wants_us_to_hang_or_to_leave() {
    let scratch = Scratch::of("rhel6");
    let at = |path: &str| scratch.0.join(path);
    for path in ["proc/sys/net/core/somaxconn", "proc/swaps", "proc/cmdline"] {
        std::fs::remove_file(at(path)).unwrap();
    }
    nix::unistd::mkfifo(&at("proc/sys/net/core/somaxconn"), Mode::S_IRWXU).unwrap();
    symlink("/dev/zero", at("proc/swaps")).unwrap();
    symlink("../../../../../../../../etc/hostname", at("proc/cmdline")).unwrap();
    symlink("loop", at("proc/loop")).unwrap();
    scratch.put("proc/config.gz", "this is not gzip");
    let begin = Instant::now();
    let output = tune(&["--root", scratch.arg(), "--json"]);
    assert!(begin.elapsed() < Duration::from_secs(60));
    let found = checks(&output);
    assert!(
        found["T21"]["says"]
            .as_str()
            .unwrap()
            .contains("not a regular file"),
        "{}",
        found["T21"]
    );
    assert!(
        found["T27"]["says"].as_str().unwrap().contains("not there"),
        "{}",
        found["T27"]
    );
}

#[test]
fn what_would_act_on_a_terminal_is_written_out() {
    let scratch = Scratch::of("rhel6");
    scratch.put("proc/sys/kernel/osrelease", "2.6.32\x1b[2J\x07\n");
    scratch.put("etc/sysctl.d/x.conf", "net.\x1b]0;owned\x07 = 1\n");
    let said = text(&tune(&["--root", scratch.arg(), "-v"]));
    assert!(!said.contains('\x1b') && !said.contains('\x07'), "{said:?}");
    assert!(said.contains("\\x1b[2J"), "{said}");
}
