//! What could be missed where a process changes over to BPF programs, and where they cannot read what a call points to.

use super::{BY_KERNEL, PROGRAMS, may, told};
use crate::support::{Output, TempDir, installed};

/// What is told of `fixtures/c/changes.c` behind programs for which the BPF programs are loaded.
fn changes(what: &str, options: &[&str]) -> Option<(String, Output)> {
    let program = crate::machine::program("changes.c").filter(|_| may(what))?;
    let folder = TempDir::new("by-kernel-changes");
    let script = format!("{PROGRAMS}; exec {} {what}", program.display());
    let (lines, output) = told(options, &script, &folder);
    assert!(output.stderr.contains(BY_KERNEL), "{}", output.stderr);
    Some((lines, output))
}

/// Words of an exec that were not in memory when it began are those that the new program has: nothing is lost, and the exit code is the
/// program's.
#[test]
fn an_exec_of_words_that_nobody_has_touched_is_told() {
    const EXEC: &str = r#"execve("/bin/true", ["truth", "a word that nobody has read"], 0x"#;
    for what in ["runs", "forks"] {
        let Some((lines, output)) = changes(what, &["-e", "trace=execve,close"]) else {
            return;
        };
        let exec = lines.lines().filter(|line| line.contains(EXEC));
        let whole = exec.filter(|line| line.contains(" vars */) = 0"));
        assert_eq!(whole.count(), 1, "{what}: {lines} {}", output.stderr);
        assert_eq!(output.code(), 0, "{what}: {}", output.stderr);
    }
    // Its environment, too, and no more of a text than is asked for.
    let options = ["-e", "trace=execve", "-v", "-s", "5"];
    let Some((lines, output)) = changes("runs", &options) else {
        return;
    };
    let exec = r#"execve("/bin/true", ["truth", "a wor"...], [""#;
    assert!(lines.contains(exec), "{lines} {}", output.stderr);
    assert_eq!(output.code(), 0, "{}", output.stderr);
}

/// The same of a program that is run by a descriptor, of itself or of its folder: the kernel has made another path of what was given.
#[test]
fn an_exec_by_a_descriptor_is_told() {
    const WORDS: &str = r#", ["truth", "a word that nobody has read"], 0x"#;
    for (what, path, flags) in [("opened", "", "AT_EMPTY_PATH"), ("below", "true", "0")] {
        let Some((lines, output)) = changes(what, &["-e", "trace=execveat"]) else {
            return;
        };
        let exec = lines.lines().filter(|line| line.contains("execveat("));
        let exec: Vec<_> = exec.collect();
        let [line] = exec[..] else {
            panic!("{what}: {lines} {}", output.stderr);
        };
        let given = format!("\"{path}\"{WORDS}");
        let end = format!(" vars */, {flags}) = 0");
        assert!(
            line.contains(&given) && line.ends_with(&end),
            "{what}: {line}"
        );
        assert_eq!(output.code(), 0, "{what}: {}", output.stderr);
        assert!(!output.stderr.contains("were not read"), "{output:?}");
    }
}

/// What the new program does not have is not known: an interpreter stands in the place of a script's first argument, and an empty argument
/// is what a program without arguments is given, too. That is said.
#[test]
fn an_exec_whose_words_are_gone_is_said() {
    let folder = TempDir::new("by-kernel-script");
    let script = folder.join("script");
    std::fs::write(&script, "#!/bin/sh\nexit 0\n").expect("written");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&script, mode).expect("a file of ours");
    for what in ["empty".to_owned(), format!("script {}", script.display())] {
        let Some((lines, output)) = changes(&what, &["-e", "trace=execve"]) else {
            return;
        };
        let last = lines.lines().rfind(|line| line.contains("execve("));
        let last = last.unwrap_or_else(|| panic!("{lines}"));
        assert!(last.contains(", [0x") && last.ends_with("= 0"), "{lines}");
        let said = ": 1 pieces of memory that arguments lead to were not read, because ";
        let why =
            "or because they were not in memory as BPF programs saw a program begin another one";
        assert!(
            output.stderr.contains(said) && output.stderr.contains(why),
            "{what}: {} {lines}",
            output.stderr
        );
        assert_eq!(output.code(), 4, "{what}: {}", output.stderr);
    }
}

/// A filter refuses a call before the programs see it begin, also the first one behind the change.
#[test]
fn no_call_that_is_refused_is_lost_behind_the_change() {
    let Some((lines, output)) = changes("refused", &["-e", "trace=getppid"]) else {
        return;
    };
    let refused = lines.lines().filter(|line| line.contains("getppid()"));
    let whole = refused.filter(|line| line.contains("= -1 EPERM"));
    assert_eq!(whole.count(), 200, "{lines} {}", output.stderr);
    assert_eq!(output.code(), 0, "{}", output.stderr);
}

/// Who would be ended for the processor time that waits take, or who keeps the processor from lancet, is not held up: its calls are seen by
/// ptrace, and it is hooked. Nothing of its exec is lost, by which it goes back.
#[test]
fn who_must_not_be_held_up_is_not_told_by_bpf() {
    const HOOKED: &str = "places hooked";
    if !may("limits of time") || !installed("dd") || !installed("chrt") {
        return;
    }
    let folder = TempDir::new("by-kernel-limits");
    let copy = "dd if=/dev/zero of=/dev/null bs=1 count=12000 2> /dev/null";
    for (before, is_limited) in [
        ("", false),
        ("ulimit -t 600; ", true),
        ("/usr/bin/chrt -f 1 ", true),
    ] {
        let script = format!("{PROGRAMS}; {before}{copy}");
        let (lines, output) = told(&["-e", "trace=execve,write"], &script, &folder);
        assert_eq!(output.code(), 0, "{before}: {}", output.stderr);
        let hooked = output.stderr.contains(HOOKED);
        assert_eq!(hooked, is_limited, "{before}: {}", output.stderr);
        let execs = lines.lines().filter(|line| line.contains("execve("));
        // chrt looks for dd in each folder of PATH.
        let is_told = |line: &str| line.ends_with("= 0") || line.contains(") = -1 ENOENT");
        assert!(
            execs.clone().all(is_told),
            "{before}: {:?}",
            execs.collect::<Vec<_>>()
        );
        assert_eq!(super::lines::written(&lines), 12_000, "{before}");
    }
}
