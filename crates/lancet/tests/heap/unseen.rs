//! The program does not notice: no child that it could wait for, no descriptor, no signal; and none of that stays.

use std::fs;
use std::thread;

use crate::support::{Guest, Interpreter, Snapshot, TempDir, chosen, rubies};

use super::taken::taken;

/// The children that threads of a process have made and that have not been waited for, zombies too.
pub fn children(pid: i32) -> String {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("it lives");
    let lists = threads.filter_map(|thread| {
        let path = thread.ok()?.path().join("children");
        fs::read_to_string(path).ok()
    });
    lists.collect()
}

#[test]
fn the_program_sees_no_child_and_keeps_nothing() {
    for ruby in rubies("unseen") {
        unseen(&ruby, "heap/waits.rb");
    }
    for python in chosen("python", "unseen") {
        unseen(&python, "heap/waits.py");
    }
    for perl in chosen("perl", "unseen") {
        unseen(&perl, "heap/waits.pl");
    }
    for php in chosen("php", "unseen") {
        unseen(&php, "heap/waits.php");
    }
}

fn unseen(interpreter: &Interpreter, script: &str) {
    let folder = TempDir::new(&format!("unseen-{interpreter}"));
    let guest = Guest::script(interpreter, script, &[]);
    guest.expect("ready");
    let before = Snapshot::take(guest.pid);
    for round in 0..5 {
        taken(guest.pid, &folder.join(&format!("{round}")));
        assert_eq!(
            children(guest.pid),
            "",
            "{interpreter}: its copy is gone, no zombie"
        );
    }
    before.holds(guest.pid, "snapshots");
    waited(interpreter, guest);
}

/// Each of several commands that come at the same moment has an agent of its own: none ends another's copy, or is answered in another's place.
#[test]
fn several_snapshots_at_once() {
    for perl in chosen("perl", "several at once") {
        let folder = TempDir::new(&format!("several-{perl}"));
        let guest = Guest::script(&perl, "heap/waits.pl", &[]);
        guest.expect("ready");
        let pid = guest.pid;
        for round in 0..4 {
            thread::scope(|scope| {
                for one in 0..3 {
                    let file = folder.join(&format!("{round}-{one}"));
                    scope.spawn(move || taken(pid, &file));
                }
            });
        }
        assert_eq!(children(pid), "", "{perl}: no copy is left");
        waited(&perl, guest);
    }
}

/// Lets `waits.rb` or its like end. It has asked for children all the time, and has been told each time that it has none.
pub fn waited(interpreter: &Interpreter, mut guest: Guest) {
    guest.tell("");
    let told = guest.find("waited ");
    let words = told.split(' ').filter_map(|word| word.parse().ok());
    let words: Vec<u64> = words.collect();
    assert!(
        words[0] > 100 && words[1] == 0 && words[2] == 0,
        "{interpreter}: {told}"
    );
    guest.ends_with_nothing("waits");
}
