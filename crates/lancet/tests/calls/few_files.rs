//! lancet with few descriptors (`ulimit -n`): it works, or says in one line that it lacks them. It never takes a process that it cannot
//! look at for one that has ended, and leaves no jump behind. What it starts gets the limit that it was given.

use std::process::Command;

use crate::support::{Guest, LIMIT, Output, Snapshot, TempDir, Watch, lancet, run, soak, until};
use crate::watch::calls;

/// With fewer, the program's own beginning fails. One more than enough is far below the last.
const LIMITS: std::ops::Range<u32> = 4..40;

/// The same command where the soft and the hard limit are so low.
fn limited(soft: u32, hard: u32, command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -Sn $0; ulimit -Hn $1; shift; exec \"$@\""]);
    shell.args([soft.to_string(), hard.to_string()]);
    shell.arg(command.get_program()).args(command.get_args());
    shell
}

fn cat() -> Guest {
    let mut guest = Guest::start("cat", Command::new("cat"));
    guest.tell("ready");
    guest.expect("ready");
    guest
}

/// It was done, or not for want of descriptors; the guest is as it was.
fn is_honest(output: &Output, what: &str) -> bool {
    let said = &output.stderr;
    assert!(
        !said.contains("ended") && !said.contains("there is no process"),
        "{what}: a living process is called gone: {said}"
    );
    let lacks = ["os error 24", "Error 24"]
        .iter()
        .any(|word| said.contains(word));
    assert!(output.code() == 0 || lacks, "{what}: {output:?}");
    output.code() == 0
}

#[test]
fn no_jump_stays_and_nobody_is_called_gone() {
    let mut guest = cat();
    let before = Snapshot::take(guest.pid);
    let of_command: [&[&str]; 4] = [
        &["-c", "-x", "read", "-x", "write"],
        &["-x", "getppid", "-o", "/dev/null"],
        &["syscalls", "-o", "/dev/null"],
        &["syscalls", "-c", "--children"],
    ];
    for (number, arguments) in of_command.into_iter().enumerate() {
        // Each limit is one of some commands'.
        let (mut worked, step) = (0, if soak() { 1 } else { 3 });
        for limit in LIMITS.skip(number % step).step_by(step) {
            let arguments = [arguments, &["--for", "50ms"]].concat();
            let command = limited(limit, limit, &calls(guest.pid, &arguments));
            let what = format!("{arguments:?} with {limit}");
            let output = run(&mut { command }, LIMIT);
            worked += usize::from(is_honest(&output, &what));
            before.text_holds(guest.pid, &what);
        }
        assert!(
            worked > 10 / step,
            "{arguments:?}: it worked with {worked} limits"
        );
    }
    guest.tell("answer");
    guest.expect("answer");
    guest.ends_with_nothing("few descriptors");
}

/// The highest descriptor that a process has.
fn highest(pid: i32) -> u32 {
    let all = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("our child");
    let numbers = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    numbers.max().expect("it has some")
}

/// What was opened before the descriptors were gone is left as it would be otherwise: the limit falls while the hooks are set.
#[test]
fn hooks_are_taken_out_when_no_descriptor_is_left() {
    let guest = cat();
    let before = Snapshot::take(guest.pid);
    for arguments in [&["-c", "-x", "read"][..], &["syscalls", "-o", "/dev/null"]] {
        let watch = crate::watch::hooked(calls(guest.pid, arguments));
        let pid = watch.pid();
        let limit = highest(pid) + 1;
        let done = Command::new("prlimit")
            .args(["--pid", &pid.to_string()])
            .arg(format!("--nofile={limit}:{limit}"))
            .status();
        assert!(done.is_ok_and(|status| status.success()), "prlimit");
        let output = watch.interrupt();
        assert!(!output.stderr.contains("ended"), "{}", output.stderr);
        before.text_holds(guest.pid, &format!("{arguments:?}: {}", output.stderr));
    }
    guest.ends_with_nothing("no descriptor left");
}

/// `Max open files` of a process: soft and hard.
fn limits(pid: i32) -> Option<(String, String)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    let mut words = line.split_whitespace().map(str::to_owned);
    Some((words.next()?, words.next()?))
}

#[test]
fn the_soft_limit_is_raised_to_the_hard_one() {
    let guest = cat();
    let mut watch = Watch::start(limited(32, 200, &calls(guest.pid, &["-c", "-x", "read"])));
    watch.until(crate::watch::HOOKED);
    assert_eq!(limits(watch.pid()), Some(("200".into(), "200".into())));
    let output = watch.interrupt();
    assert_eq!(output.code(), 0, "{}", output.stderr);
    guest.ends_with_nothing("the limit is raised");
}

#[test]
fn what_is_started_gets_the_limit_that_lancet_was_given() {
    let folder = TempDir::new("calls-few-files");
    let file = folder.join("limits");
    let path = file.display();
    let tells = format!("ulimit -Sn >{path}; ulimit -Hn >>{path}");
    let piped = format!("|{tells}; cat >/dev/null");
    let started: [&[&str]; 5] = [
        &["calls", "-c", "-x", "write", "--", "sh", "-c", &tells],
        &["syscalls", "-o", "/dev/null", "--", "sh", "-c", &tells],
        &["syscalls", "--no-modify", "--", "sh", "-c", &tells],
        &["stack", "--for", "10s", "--", "sh", "-c", &tells],
        &["syscalls", "-o", &piped, "--", "true"],
    ];
    for arguments in started {
        let mut command = lancet();
        command.args(arguments);
        let output = run(&mut limited(48, 300, &command), LIMIT);
        let told = until(LIMIT, "both limits are told", || {
            let text = std::fs::read_to_string(&file).ok()?;
            (text.lines().count() == 2).then_some(text)
        });
        assert_eq!(told, "48\n300\n", "{arguments:?}: {}", output.stderr);
        std::fs::remove_file(&file).expect("it was made");
    }
}
