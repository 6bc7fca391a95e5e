//! A guest in a control group with little room left is not brought to its limit by us.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Guest, LIMIT, is_root, run, skip};
use crate::watch::{calls, hooked, left};

/// A group for one guest; its limit is that of version 1, which can be made beside any other.
struct Group(PathBuf);

impl Group {
    fn make() -> Option<Self> {
        let top = Path::new("/sys/fs/cgroup/memory");
        let path = top.join(format!("lancet-test-{}", std::process::id()));
        if !is_root() || fs::create_dir(&path).is_err() || !path.join("tasks").exists() {
            skip("room", "no control group of version 1 can be made here");
            return None;
        }
        Some(Group(path))
    }

    fn write(&self, file: &str, value: impl ToString) {
        fs::write(self.0.join(file), value.to_string()).expect(file);
    }

    fn charged(&self) -> u64 {
        let text = fs::read_to_string(self.0.join("memory.usage_in_bytes")).expect("charged");
        text.trim().parse().expect("a number")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let tasks = fs::read_to_string(self.0.join("tasks")).unwrap_or_default();
        for task in tasks.lines() {
            let _ = fs::write("/sys/fs/cgroup/memory/tasks", task);
        }
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn rings_leave_a_guest_the_room_it_has() {
    let Some(group) = Group::make() else { return };
    let mut command = Command::new("perl");
    command.args(["-e", "$| = 1; print qq(ready\\n); while (<STDIN>) { for (1..20000) { my @a = ('x' x 50) x 20 } print qq(done\\n) }"]);
    let mut guest = Guest::start("limited", command);
    guest.expect("ready");
    group.write("tasks", guest.pid);
    let before = group.charged();
    group.write("memory.limit_in_bytes", before + (512 << 10));
    let output = run(
        &mut calls(guest.pid, &["-x", "malloc", "-o", "/dev/null"]),
        LIMIT,
    );
    assert_eq!(output.code(), 1, "{output:?}");
    assert!(
        output.stderr.contains("the control group of process"),
        "{output:?}"
    );
    // Twice what the smallest rings take, and less than the usual ones would.
    group.write("memory.limit_in_bytes", before + (2 << 20));
    let watch = hooked(calls(
        guest.pid,
        &[
            "-x",
            "malloc",
            "-x",
            "Perl_sv_setsv_flags",
            "-o",
            "/dev/null",
        ],
    ));
    assert_eq!(guest.answer_to("work"), "done");
    let peak = group.charged();
    left(watch, "limited");
    assert!(peak < before + (2 << 20), "{before} bytes, then {peak}");
    assert_eq!(guest.answer_to("work"), "done");
}
