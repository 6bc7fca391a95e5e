//! Again and again on busy threads, and killed at any instant.

use std::time::Duration;

use crate::programs::{FIX, PLAIN, done, guest, library, patch, request, tried};
use crate::support::{LIMIT, Random, Snapshot, Watch, say, soak, until};

/// Mappings of a process.
fn mappings(pid: i32) -> usize {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps"));
    maps.expect("the guest's maps").lines().count()
}

#[test]
fn applied_and_undone_again_and_again_on_busy_threads() {
    let turns = if soak() { 10_000 } else { 500 };
    let mut guest = guest("cycles", 4);
    let before = Snapshot::take(guest.pid);
    let file = library("cycles", FIX, PLAIN);
    let request = request("total", &file, "total");
    let mut mapped = 0;
    for turn in 0..turns {
        done(guest.pid, &["--wait", "10s", &request]);
        assert_eq!(guest.answer_to("total"), "1014", "turn {turn}");
        done(guest.pid, &["--undo"]);
        assert_eq!(guest.answer_to("total"), "14", "turn {turn}");
        if turn == 0 {
            mapped = mappings(guest.pid);
        }
    }
    assert_eq!(mappings(guest.pid), mapped, "what was mapped is used again");
    before.holds(guest.pid, "undone for the last time");
    guest.ends_with("answer 0");
}

/// Whatever instant it is killed at: the next lancet sees how it stands, and takes everything out.
#[test]
fn killed_at_any_instant_of_apply_and_undo() {
    let kills = if soak() { 1_000 } else { 100 };
    let mut random = Random::new("patch killed");
    let mut guest = guest("killed", 4);
    let before = Snapshot::take(guest.pid);
    let files = ["killed-0", "killed-1", "killed-2"].map(|name| library(name, FIX, PLAIN));
    let (mut in_force, mut out) = (0, 0);
    // How long it takes when nobody kills it.
    let began = std::time::Instant::now();
    done(
        guest.pid,
        &["--wait", "10s", &request("total", &files[0], "total")],
    );
    let whole = began.elapsed().as_micros() as u64 * 11 / 10;
    done(guest.pid, &["--undo"]);
    for kill in 0..kills {
        let file = &files[random.below(3) as usize];
        let request = request("total", file, "total");
        let apply = random.below(2) == 0;
        let arguments: &[&str] = if apply {
            &["--wait", "10s", &request]
        } else {
            done(guest.pid, &["--wait", "10s", &request]);
            &["--undo"]
        };
        let watch = Watch::start(patch(guest.pid, arguments));
        std::thread::sleep(Duration::from_micros(random.below(whole)));
        watch.kill();
        until(LIMIT, "the guest goes on", || {
            (!matches!(guest.state(), Some('t' | 'T'))).then_some(())
        });
        // What the list says is what the program does.
        let list = done(guest.pid, &["--list"]);
        let patched = list.contains(": in force: ");
        let wanted = if patched { "1014" } else { "14" };
        assert_eq!(guest.answer_to("total"), wanted, "kill {kill}: {list}");
        if patched {
            in_force += 1;
        } else {
            out += 1;
        }
        let output = tried(guest.pid, &["--undo", "all"]);
        assert_eq!(output.code(), 0, "kill {kill}: {output:?}");
        before.text_holds(guest.pid, &format!("kill {kill}"));
        assert_eq!(guest.answer_to("total"), "14", "kill {kill}");
    }
    say(format_args!(
        "{kills} kills: {in_force} in force afterwards, {out} not"
    ));
    before.holds(guest.pid, "after the kills");
    guest.ends_with("answer 0");
}
