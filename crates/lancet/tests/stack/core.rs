//! Core files: the same stacks as of the living process, and what a core lacks.

use std::path::PathBuf;
use std::process::Command;

use super::languages::{PERL, PHP, PYTHON, own, start};
use super::output::{folder, records, stack};
use crate::support::{Guest, assert_shown};

/// A Ruby with two threads and a fiber that is parked.
fn ruby() -> Guest {
    let script = "def deep(n) = n == 0 ? STDIN.read : [1].each { deep(n - 1) }; Thread.new { sleep }; Thread.pass; \
                  parked = Fiber.new { [1].each { Fiber.yield } }; parked.resume; puts 'ready'; STDOUT.flush; deep(10)";
    Guest::asleep(Command::new("ruby").args(["-e", script]))
}

/// A core of a guest.
fn dump(name: &str, guest: &Guest) -> PathBuf {
    guest.core(&folder(name).join("core"))
}

#[test]
fn a_core_tells_what_the_process_would() {
    same("core", ruby());
}

#[test]
fn a_core_of_the_other_languages_too() {
    for language in [PYTHON, PERL, PHP] {
        if let Some(interpreter) = own(&language) {
            same(
                &format!("core-{}", language.name),
                start(&language, &interpreter, "20"),
            );
        }
    }
}

/// The stacks in a core of the guest are those that it has alive.
pub fn same(name: &str, guest: Guest) {
    let core = dump(name, &guest);
    let alive = stack(&["--fibers", "--json", "-p", &guest.pid.to_string()]);
    let dead = stack(&["--fibers", "--json", core.to_str().expect("a path")]);
    let frames = |output| -> Vec<[serde_json::Value; 7]> {
        let frame = |frame: &serde_json::Value| {
            [
                "tid", "parked", "ip", "bytes", "function", "scripts", "objects",
            ]
            .map(|field| frame[field].clone())
        };
        let mut all: Vec<_> = records(output, "frame").iter().map(frame).collect();
        // The order of threads is the kernel's in one and ours in the other.
        all.sort_by_key(|[tid, ..]| tid.as_u64());
        all
    };
    let (alive, dead) = (frames(&alive), frames(&dead));
    assert!(alive.len() > 15, "{}", alive.len());
    assert_eq!(alive, dead);
    assert!(guest.ends_well());
    std::fs::remove_file(core).expect("removed");
}

#[test]
fn a_core_that_is_cut_short_says_so() {
    let core = dump("cut", &ruby());
    let whole = std::fs::metadata(&core).expect("a core").len();
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(&core)
        .expect("ours");
    file.set_len(whole / 2).expect("cut");
    let output = stack(&[core.to_str().expect("a path")]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("cut short"), "{said}");
    assert!(matches!(output.status.code(), Some(1 | 4)), "{output:?}");
    file.set_len(1000).expect("cut");
    let output = stack(&[core.to_str().expect("a path")]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1));
    assert_shown(
        &said,
        &[(&core.display().to_string(), "CUT")],
        "lancet: CUT: its program header reaches past its end: the core is cut short\n",
    );
    std::fs::remove_file(core).expect("removed");
}

#[test]
fn of_several_cores_those_that_can_be_read_are_shown() {
    let whole = dump("several", &ruby());
    let cut = folder("several").join("cut");
    let bytes = std::fs::read(&whole).expect("a core");
    std::fs::write(&cut, &bytes[..1000]).expect("written");
    let output = stack(&[
        cut.to_str().expect("a path"),
        whole.to_str().expect("a path"),
    ]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_shown(
        &said,
        &[(&cut.display().to_string(), "CUT")],
        "lancet: CUT: its program header reaches past its end: the core is cut short\n",
    );
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("in Object#deep"),
        "{output:?}"
    );
    for core in [whole, cut] {
        std::fs::remove_file(core).expect("removed");
    }
}

#[test]
fn a_core_whose_program_is_gone_says_so() {
    let folder = folder("gone");
    let (source, program) = (folder.join("waits.c"), folder.join("waits"));
    let text = "#include <stdio.h>\nint main(void) { puts(\"ready\"); fflush(stdout); return getchar() != EOF; }\n";
    std::fs::write(&source, text).expect("written");
    let built = Command::new("gcc")
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .status();
    assert!(built.expect("gcc").success());
    let guest = Guest::asleep(&mut Command::new(&program));
    let core = dump("gone", &guest);
    assert!(guest.ends_well());
    let output = stack(&[core.to_str().expect("a path")]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    std::fs::remove_file(&program).expect("removed");
    let output = stack(&[core.to_str().expect("a path")]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let core_name = core.display().to_string();
    assert_shown(
        &said,
        &[
            (&core_name, "CORE"),
            (&program.display().to_string(), "PROGRAM"),
        ],
        "lancet: CORE: PROGRAM is not there, or is another file than then: its functions have no names, and what called them is a guess; put it back, or look where the core was written\n",
    );
    std::fs::remove_file(core).expect("removed");
}
