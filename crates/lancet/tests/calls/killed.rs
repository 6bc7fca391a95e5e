//! `kill -9` of lancet at random instants while hooks fire: the guest goes on, at its pace, and the next attach works.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::{
    Guest, LIMIT, Random, Snapshot, TempDir, Watch, mem, rubies, run, say, soak, tool, until,
};
use crate::watch::{calls, hooked, left, text_holds};

/// A guest that lost its reader is on its way again after so long, whatever it waited for.
const SLOWED: Duration = Duration::from_secs(20);

#[test]
fn a_kill_at_any_instant_leaves_the_guest_computing() {
    let count = if soak() { 300 } else { 12 };
    for ruby in rubies("calls killed") {
        let mut random = Random::new("calls killed");
        let mut kills = 0;
        while kills < count {
            let mut guest = Guest::script(&ruby, "live/churn.rb", &[]);
            guest.expect("ready");
            let before = Snapshot::take(guest.pid);
            for _ in 0..6.min(count - kills) {
                let counted = random.below(2) == 0;
                let mut arguments = vec![
                    "-x",
                    "rb_*",
                    "-x",
                    "malloc",
                    "-x",
                    "free",
                    "-o",
                    "/dev/null",
                ];
                arguments.extend(counted.then_some("-c"));
                let watch = Watch::start(calls(guest.pid, &arguments));
                std::thread::sleep(Duration::from_micros(random.below(600_000)));
                watch.kill();
                kills += 1;
                assert!(
                    !matches!(guest.state(), None | Some('Z' | 't' | 'T')),
                    "{ruby}, kill {kills}: the guest is {:?}: {}",
                    guest.state(),
                    guest.complaints()
                );
                if random.below(3) == 0 {
                    let again = hooked(calls(guest.pid, &["-c", "-x", "rb_*"]));
                    let output = left(again, "after a kill");
                    text_holds(&before, guest.pid, "after a kill", &output);
                }
            }
            // Killed last: it must come to its end by itself, and soon.
            let began = Instant::now();
            guest.tell("");
            guest.ends_with("answer right");
            assert!(began.elapsed() < SLOWED, "{ruby}: {:?}", began.elapsed());
        }
        say(format_args!("{ruby}: {kills} kills"));
    }
}

/// What the killed one hooked is lifted by the next, whichever command that is.
#[test]
fn the_next_attach_lifts_what_was_left() {
    for ruby in rubies("calls lifted") {
        let mut guest = Guest::script(&ruby, "live/churn.rb", &[]);
        guest.expect("ready");
        let before = Snapshot::take(guest.pid);
        let watch = hooked(calls(guest.pid, &["-c", "-x", "rb_*"]));
        watch.kill();
        let output = run(
            &mut calls(guest.pid, &["-c", "-x", "rb_yield", "--for", "10ms"]),
            LIMIT,
        );
        assert_eq!(output.code(), 0, "{output:?}");
        text_holds(&before, guest.pid, "lifted", &output);
        let watch = hooked(calls(guest.pid, &["-c", "-x", "rb_*", "-x", "malloc"]));
        watch.kill();
        let output = run(mem(guest.pid).args(["--for", "10ms"]), LIMIT);
        assert_eq!(output.code(), 0, "{output:?}");
        before.text_holds(guest.pid, "lifted by mem");
        guest.tell("");
        guest.ends_with("answer right");
    }
}

/// A lancet of another build, whose agent is another file: the one of this build with another byte in the header's padding.
fn another_build(folder: &TempDir) -> PathBuf {
    let agent = std::fs::read(env!("LANCET_AGENT")).expect("the agent, built by build.rs");
    let mut bytes = std::fs::read(tool()).expect("lancet");
    let mut heads = (0..bytes.len()).filter(|at| bytes[*at] == 0x7f);
    let at = heads.find(|at| bytes[*at..].starts_with(&agent));
    let at = at.expect("lancet embeds its agent");
    // e_ident[15], which means nothing (ELF gABI chapter 4).
    bytes[at + 15] = 1;
    let path = folder.join("lancet");
    std::fs::write(&path, bytes).expect("a file");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&path, mode).expect("its mode");
    path
}

/// What another build has hooked is lifted if it was killed, and while it lives both are inside.
#[test]
fn another_build_is_known() {
    let folder = TempDir::new("build");
    let other = another_build(&folder);
    let mut guest = Guest::start("cat", Command::new("cat"));
    guest.tell("ready");
    guest.expect("ready");
    let before = Snapshot::take(guest.pid);
    let mut command = Command::new(other);
    command.args(["calls", "-x", "write", "-x", "read"]);
    command.args(["-o", "/dev/null", "-p", &guest.pid.to_string()]);
    let watch = hooked(command);
    let asked = ["-c", "-x", "write", "--for", "10ms", "-o", "/dev/null"];
    let output = run(&mut calls(guest.pid, &asked), LIMIT);
    assert_eq!(output.code(), 0, "{}", output.stderr);
    watch.kill();
    let output = run(&mut calls(guest.pid, &asked), LIMIT);
    assert_eq!(output.code(), 0, "{}", output.stderr);
    text_holds(&before, guest.pid, "another build", &output);
    guest.tell("line");
    guest.expect("line");
    guest.ends_with_nothing("it goes on");
}

/// The descriptors of a process that are files in memory.
fn files_in_memory(pid: i32) -> usize {
    let folder = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("it lives");
    let links = folder.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    links
        .filter(|link| link.to_string_lossy().starts_with("/memfd:"))
        .count()
}

/// Killed where the guest has the file of the rings open, or at a random instant: it closes the file by itself.
#[test]
fn a_killed_lancet_leaves_no_descriptor() {
    let count = if soak() { 200 } else { 15 };
    let mut random = Random::new("descriptors left");
    let mut guest = Guest::start("cat", Command::new("cat"));
    guest.tell("ready");
    guest.expect("ready");
    let mut seen = 0;
    for round in 0..count {
        let command = match round % 2 {
            0 => calls(guest.pid, &["syscalls", "-o", "/dev/null"]),
            _ => calls(guest.pid, &["-x", "write", "-o", "/dev/null"]),
        };
        let watch = Watch::start(command);
        // Three of four are killed as soon as the file is there, if it is seen.
        let waits = match round % 4 {
            0 => Duration::from_micros(random.below(350_000)),
            _ => Duration::from_secs(2),
        };
        let began = Instant::now();
        while began.elapsed() < waits {
            if round % 4 != 0 && files_in_memory(guest.pid) != 0 {
                seen += 1;
                break;
            }
        }
        watch.kill();
        until(LIMIT, "no file in memory", || {
            (files_in_memory(guest.pid) == 0).then_some(())
        });
        assert!(!matches!(guest.state(), None | Some('Z' | 't' | 'T')));
    }
    say(format_args!("{count} kills, {seen} with the file open"));
    guest.tell("line");
    guest.expect("line");
    guest.ends_with_nothing("it goes on");
}
