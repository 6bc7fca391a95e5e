//! Guests that do not hold still: they die, or become another program, while they are looked at.

use std::process::{Command, Stdio};

use super::harness::stack;

/// Either an answer, or one line that says why not.
fn is_answered(output: &std::process::Output) {
    let said = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(0) => assert!(!output.stdout.is_empty(), "{output:?}"),
        Some(1) => assert!(
            said.lines().count() == 1 && said.starts_with("lancet: "),
            "{said}"
        ),
        other => panic!("{other:?}: {said}"),
    }
}

#[test]
fn a_guest_that_dies() {
    for round in 0..40 {
        let mut guest = Command::new("ruby")
            .args(["-e", "sleep"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("it starts");
        let pid = guest.id();
        let killer = std::thread::spawn(move || {
            // Another moment each time; none is waited for.
            std::thread::sleep(std::time::Duration::from_millis(round * 2));
            let _ = nix::sys::signal::kill(
                nix::unistd::Pid::from_raw(pid.cast_signed()),
                nix::sys::signal::Signal::SIGKILL,
            );
        });
        is_answered(&stack(&["-p", &pid.to_string()]));
        killer.join().expect("the killer ends");
        guest.wait().expect("it ended");
    }
}

#[test]
fn a_guest_that_execs_without_end() {
    let again = "n=$1; [ \"$n\" -gt 0 ] && exec sh -c \"$2\" sh $((n - 1)) \"$2\"";
    let mut guest = Command::new("sh")
        .args(["-c", again, "sh", "3000", again])
        .stdin(Stdio::null())
        .spawn()
        .expect("it starts");
    let pid = guest.id().to_string();
    for _ in 0..40 {
        is_answered(&stack(&["-p", &pid]));
        if guest.try_wait().expect("ours").is_some() {
            break;
        }
    }
    // It was not harmed: sh says with 1 that there was nothing left to do.
    assert_eq!(guest.wait().expect("it ends").code(), Some(1));
}

#[test]
fn a_guest_that_cannot_be_opened() {
    let kernel_thread = stack(&["-p", "2"]);
    assert_eq!(kernel_thread.status.code(), Some(1), "{kernel_thread:?}");
    let said = String::from_utf8_lossy(&kernel_thread.stderr);
    assert_eq!(said.lines().count(), 1, "{said}");
}
