//! Guests that do not hold still: they die, or become another program, while they are looked at.

use std::process::{Command, Stdio};

use super::output::{folder, stack, text};
use crate::support::{Guest, LIMIT, fixtures, lancet, run};

/// Either an answer, or one line that says why not.
fn is_answered(output: &std::process::Output) {
    let said = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        // A look in the middle of an exec may find no outer frames.
        Some(0 | 4) => assert!(!output.stdout.is_empty(), "{output:?}"),
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

/// Its threads begin and end, and one of them, the first one or another, begins the program again every few milliseconds: an exec waits for each
/// thread that lancet has seized, and lancet for the exec.
#[test]
fn a_guest_whose_threads_exec_without_end() {
    let program = folder("replaced").join("replaced");
    let source = fixtures().join("c/replaced.c");
    let built = Command::new("gcc")
        .args(["-O1", "-pthread", "-o"])
        .args([&program, &source])
        .status();
    assert!(built.expect("gcc").success());
    for words in [&["3000"][..], &["3000", "first"], &["300"]] {
        let guest = Guest::start("replaced", Command::new(&program).args(words));
        let pid = guest.pid.to_string();
        let looked = run(lancet().args(["stack", "--for", "1s", "-p", &pid]), LIMIT);
        assert!(matches!(looked.status.code(), Some(0 | 4)), "{looked:?}");
        assert!(!looked.stderr.contains("try again"), "{looked:?}");
        let traced = ["syscalls", "-c", "--by", "ptrace", "--for", "300ms", "-p"];
        let began = std::time::Instant::now();
        let traced = run(lancet().args(traced).arg(&pid), LIMIT);
        assert!(matches!(traced.status.code(), Some(0 | 4)), "{traced:?}");
        // A thread that is waited for in vain takes 2 s more.
        let took = began.elapsed();
        assert!(took < std::time::Duration::from_secs(2), "{took:?}");
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
        assert!(status.contains("TracerPid:\t0\n"), "{status}");
        // It goes on: its processor time grows.
        let time = || {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
            let (_, fields) = stat.rsplit_once(')').expect("its name");
            let fields = fields.split_whitespace().skip(11).take(2);
            let ticks = fields.map(|field| field.parse::<u64>().expect("ticks"));
            ticks.sum::<u64>()
        };
        let before = time();
        wait_for("running", || time() > before);
    }
}

/// All processes of a user share the limit of timers, and an emulator may give none.
#[test]
fn without_a_timer_a_process_is_looked_at() {
    let script = "puts 'ready'; STDOUT.flush; loop {}";
    let guest = Guest::ready(Command::new("ruby").args(["-e", script]));
    let mut limited = Command::new("prlimit");
    limited.arg("--sigpending=0").arg(lancet().get_program());
    let looked = run(limited.args(["stack", "-p", &guest.pid.to_string()]), LIMIT);
    assert_eq!(looked.status.code(), Some(0), "{looked:?}");
    assert!(looked.stdout.contains("<main>"), "{looked:?}");
}

/// Whether all threads of a process are stopped by a signal.
fn stands(pid: u32) -> bool {
    let mut tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it lives");
    tasks.all(|task| {
        let status = task.expect("a thread").path().join("status");
        let status = std::fs::read_to_string(status).expect("it lives");
        status.contains("State:\tT (stopped)")
    })
}

fn wait_for(what: &str, condition: impl Fn() -> bool) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !condition() {
        assert!(std::time::Instant::now() < deadline, "never {what}");
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}

/// Stopped by somebody else, who wants to know where it is. It stands on afterwards, until it is let go.
#[test]
fn a_guest_that_stands_already() {
    let script = "one = Thread.new { sleep }; Thread.pass until one.stop?; puts 'ready'; STDOUT.flush; puts STDIN.read";
    let guest = Guest::asleep(Command::new("ruby").args(["-e", script]));
    let id: u32 = guest.pid.to_string().parse().expect("a number");
    let send = |signal| {
        let pid = nix::unistd::Pid::from_raw(id.cast_signed());
        nix::sys::signal::kill(pid, signal).expect("sent");
    };
    let before = text(&stack(&["--json", "-p", &guest.pid.to_string()]));
    send(nix::sys::signal::Signal::SIGSTOP);
    wait_for("stopped", || stands(id));
    for _ in 0..3 {
        let now = text(&stack(&["--json", "-p", &guest.pid.to_string()]));
        let frames = |said: &str| said.matches("\"record\":\"frame\"").count();
        assert_eq!(frames(&now), frames(&before), "{now}");
        wait_for("stopped again", || stands(id));
    }
    // What needs the process to run is refused.
    let output = stack(&["--gc", "--measure", "-p", &guest.pid.to_string()]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(stands(id));
    send(nix::sys::signal::Signal::SIGCONT);
    assert!(guest.ends_well());
}

/// `pthread_exit` in `main`: no zombie that waits for its parent.
#[test]
fn a_guest_whose_first_thread_has_ended() {
    let folder = folder("first-ended");
    let (source, program) = (folder.join("leaves.c"), folder.join("leaves"));
    let code = "#include <pthread.h>\n#include <unistd.h>\nvoid *waits(void *a) { char c; write(1, \"ready\\n\", 6); return (void *)read(0, &c, 1); }\n\
        int main(void) { pthread_t one; pthread_create(&one, 0, waits, 0); pthread_exit(0); }\n";
    std::fs::write(&source, code).expect("written");
    let built = Command::new("gcc")
        .args(["-pthread", "-w", "-o"])
        .arg(&program)
        .arg(&source)
        .status();
    assert!(built.expect("gcc").success());
    // The other thread says it, from where it is to be found.
    let guest = Guest::ready(&mut Command::new(&program));
    let status = format!("/proc/{}/status", guest.pid);
    wait_for("a first thread that ended", || {
        std::fs::read_to_string(&status)
            .expect("it is there")
            .contains("State:\tZ")
    });
    let said = text(&stack(&["-p", &guest.pid.to_string()]));
    assert!(
        said.contains("1 thread,") && said.contains("leaves: waits"),
        "{said}"
    );
    assert!(guest.ends_well());
}

#[test]
fn a_guest_that_cannot_be_opened() {
    let kernel_thread = stack(&["-p", "2"]);
    assert_eq!(kernel_thread.status.code(), Some(1), "{kernel_thread:?}");
    let said = String::from_utf8_lossy(&kernel_thread.stderr);
    assert_eq!(said.lines().count(), 1, "{said}");
}
