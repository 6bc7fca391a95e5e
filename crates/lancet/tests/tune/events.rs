//! Process events: a burst, a loss that is counted, a worker that is killed.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::Value;
use tune::events::{Connector, Listening};

use crate::harness::{Network, Scratch, for_everybody, may_make_networks};
use crate::support::tool;

const PROCESSES: usize = 10_000;

/// Two bursts at once would blur the counts of each.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn may_listen(test: &str) -> bool {
    match Connector::try_out() {
        Ok(Listening::Heard) => true,
        other => {
            println!("SKIPPED {test}: process events cannot be heard here: {other:?}");
            false
        }
    }
}

/// `lancet tune --events`, listening.
fn listen(args: &[&str]) -> Child {
    let mut lancet = Command::new(tool())
        .args(["tune", "--events", "--for", "300s"])
        .args(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(lancet.stderr.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert_eq!(line, "lancet: listening for process events\n");
    lancet
}

#[test]
fn ten_thousand_processes_in_a_burst() {
    if !may_listen("ten_thousand_processes_in_a_burst") {
        return;
    }
    let _alone = ONE_AT_A_TIME
        .lock()
        .unwrap_or_else(|broken| broken.into_inner());
    // It waits for a line; then two loops at once make half of the processes each.
    let each = PROCESSES / 2;
    let script = format!(
        "read go; f() {{ n=0; while [ $n -lt {each} ]; do /bin/$1; n=$((n+1)); done; }}; f true & f false & wait"
    );
    let mut shell = Command::new("sh")
        .args(["-c", &script])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let lancet = listen(&["--json", "-p", &shell.id().to_string()]);
    shell.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let begin = Instant::now();
    // It ends by itself, as all it follows have ended.
    let output = lancet.wait_with_output().unwrap();
    println!(
        "{PROCESSES} processes in {:.1} s",
        begin.elapsed().as_secs_f64()
    );
    shell.wait().unwrap();

    let lines: Vec<Value> = output
        .stdout
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect();
    let (losses, lines) = lines.split_last().unwrap();
    let (end, events) = lines.split_last().unwrap();
    assert_eq!(end["record"], "end");
    let said = losses["losses"].as_array().unwrap();
    assert_eq!(said.is_empty(), output.status.code() == Some(0), "{losses}");
    assert!(
        said.iter()
            .all(|loss| loss["what"] == "events" && loss["count"] == end["lost"])
    );
    let count = |kind: &str, has: &dyn Fn(&Value) -> bool| {
        let of_kind = events.iter().filter(|event| event["event"] == kind);
        of_kind.filter(|event| has(event)).count()
    };
    let any = |_: &Value| true;
    let with_code = |code: u64| move |event: &Value| event["end"]["code"] == code;
    // The two loops are processes too.
    let expected = [PROCESSES + 2, PROCESSES, PROCESSES + 3];
    let seen = [
        count("fork", &any),
        // The shell's own may come after we listen: its parent hears of it first.
        count("exec", &|event| event["pid"] != shell.id()),
        count("exit", &any),
    ];
    let lost = end["lost"].as_u64().unwrap();
    println!("fork, exec, exit: {seen:?} of {expected:?}; {end}");
    if lost == 0 {
        assert_eq!(output.status.code(), Some(0));
        assert_eq!(seen, expected);
        assert_eq!(count("exit", &with_code(1)), each);
        assert!(count("exit", &with_code(0)) >= each);
    } else {
        assert_eq!(output.status.code(), Some(4));
        assert!(
            end["overruns"].as_u64().unwrap() > 0,
            "lost without a full buffer"
        );
        let missing: usize = expected.iter().sum::<usize>() - seen.iter().sum::<usize>();
        assert!(
            missing as u64 <= lost,
            "{missing} are missing, and {lost} were said to be lost"
        );
    }
}

/// Two subscriptions to the same burst: one with room for all of it, one that has almost none. What the
/// small one says it lost is what the large one has more.
#[test]
fn losses_are_counted() {
    if !may_listen("losses_are_counted") {
        return;
    }
    let _alone = ONE_AT_A_TIME
        .lock()
        .unwrap_or_else(|broken| broken.into_inner());
    let mut large = Connector::open(64 << 20).unwrap();
    let mut small = Connector::open(32 << 10).unwrap();
    let burst = |processes: usize| {
        for _ in 0..processes {
            assert!(Command::new("/bin/true").status().unwrap().success());
        }
    };
    burst(300);
    small.hear_every_cpu().unwrap();
    large.hear_every_cpu().unwrap();
    let (small, large) = (small.losses(), large.losses());
    println!("large: {large:?}; small: {small:?}");
    assert_eq!((large.missing(), large.overruns()), (0, 0));
    assert!(!small.is_lower_bound());
    assert!(small.overruns() > 0 && small.missing() > 300);
    let gone = large.arrived() - small.arrived();
    // The large one began a little earlier and was read a little later, while other tests went on.
    let bound = 30 + gone / 10;
    assert!(
        gone.abs_diff(small.missing()) <= bound,
        "{} counted, {gone} gone",
        small.missing()
    );
}

#[test]
fn a_killed_worker_of_puma_is_seen_with_its_signal() {
    const TEST: &str = "a_killed_worker_of_puma_is_seen_with_its_signal";
    if !may_listen(TEST) {
        return;
    }
    if Command::new("puma").arg("--version").output().is_err() {
        println!("SKIPPED {TEST}: needs puma (package puma)");
        return;
    }
    let scratch = Scratch::new();
    scratch.put("config.ru", "run ->(_) { [200, {}, ['ok']] }\n");
    let socket = format!("unix://{}/socket", scratch.arg());
    let mut puma = Command::new("puma")
        .args([
            "-w",
            "2",
            "-t",
            "1:1",
            "-b",
            &socket,
            "-C",
            "-",
            "config.ru",
        ])
        .current_dir(&scratch.0)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let master = puma.id() as i32;
    let workers = within(Duration::from_secs(60), || {
        Some(children(master)).filter(|all| all.len() == 2)
    });
    let lancet = listen(&["-p", &master.to_string()]);
    let victim = workers.as_ref().map(|all| all[0]);
    if let Some(victim) = victim {
        nix::sys::signal::kill(
            nix::unistd::Pid::from_raw(victim),
            nix::sys::signal::Signal::SIGKILL,
        )
        .unwrap();
    }
    let successor = within(Duration::from_secs(60), || {
        let known = workers.as_ref()?;
        children(master)
            .into_iter()
            .find(|child| !known.contains(child))
    });
    let _ = nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(master),
        nix::sys::signal::Signal::SIGTERM,
    );
    let output = lancet.wait_with_output().unwrap();
    puma.wait().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    let victim = victim.expect("puma started two workers");
    let successor = successor.expect("puma started another worker");
    let line = |kind: &str, pid: i32| {
        let start = format!("  {kind}  {pid:>7}  ");
        told.lines()
            .find(|line| line.contains(&start))
            .unwrap_or_else(|| panic!("no {kind} of {pid}: {told}"))
    };
    assert!(line("exit", victim).contains("killed by SIGKILL"), "{told}");
    assert!(
        line("fork", successor).contains(&format!("child of {master}")),
        "{told}"
    );
    // The time stands first.
    let time = line("exit", victim).split(' ').next().unwrap();
    assert!(
        time.len() == 12 && time.as_bytes()[2] == b':' && time.as_bytes()[8] == b'.',
        "{time}"
    );
}

/// Not root, and in a network where the kernel tells nothing: an end is seen all the same, how it came is not.
#[test]
fn without_events_the_end_of_named_processes_is_told() {
    const TEST: &str = "without_events_the_end_of_named_processes_is_told";
    if !may_make_networks(TEST) {
        return;
    }
    let network = Network::new();
    let (_scratch, copy) = for_everybody();
    let listen = |args: &[&str]| {
        let mut command = network.command("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        command
            .arg(&copy)
            .args(["tune", "--events", "--for", "300s"]);
        command.args(args).stdout(Stdio::piped());
        command.stderr(Stdio::piped()).spawn().unwrap()
    };
    for json in [false, true] {
        let mut guest = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = guest.id().to_string();
        let args = ["-p", &pid, "--json"];
        let mut lancet = listen(&args[..2 + usize::from(json)]);
        let mut line = String::new();
        BufReader::new(lancet.stderr.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        guest.kill().unwrap();
        guest.wait().unwrap();
        let output = lancet.wait_with_output().unwrap();
        assert!(
            line.contains("only the end of the named processes is told"),
            "{line}"
        );
        assert_eq!(output.status.code(), Some(0));
        let told = String::from_utf8(output.stdout).unwrap();
        if json {
            let (event, losses) = told.split_once('\n').unwrap();
            assert!(
                losses.starts_with("{\"record\":\"losses\",\"losses\":[]"),
                "{told}"
            );
            let event: Value = serde_json::from_str(event).unwrap();
            assert_eq!(
                (&event["event"], event["pid"].to_string()),
                (&"exit".into(), pid)
            );
            assert!(event["end"].is_null(), "{event}");
        } else {
            assert!(
                told.contains(&format!("  exit  {pid:>7}  (how is not known)")),
                "{told}"
            );
        }
    }
    // Without a name there is nothing it could do.
    let output = listen(&[]).wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("name processes with -p PID"), "{said}");
}

fn within<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let begin = Instant::now();
    while begin.elapsed() < limit {
        if let Some(found) = look() {
            return Some(found);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    None
}

fn children(of: i32) -> Vec<i32> {
    let all = std::fs::read_dir("/proc").unwrap();
    let pids = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let parent = stat
            .rsplit_once(')')
            .and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok());
        parent == Some(of)
    })
    .collect()
}
