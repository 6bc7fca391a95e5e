//! Processes in which nobody goes on, and who else has what a thread waits for: `lancet stack` says of it what `calls --now` says.

use std::process::Command;

use super::output::stack;
use crate::support::{Guest, LIMIT, TempDir, Watch, installed, lancet, run, skip, until};

pub fn python(code: &str) -> Option<Guest> {
    if !installed("python3") {
        skip("stuck", "there is no python3");
        return None;
    }
    Some(Guest::ready(Command::new("python3").args(["-c", code])))
}

/// What is said of a process, and what is complained about.
pub fn look(pid: i32, options: &[&str]) -> (String, String) {
    let output = stack(&[options, &["-p", &pid.to_string()]].concat());
    assert!(
        [Some(0), Some(4)].contains(&output.status.code()),
        "{output:?}"
    );
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// Looks until `part` is said: threads come to where they wait a moment after they have said so.
pub fn says(pid: i32, part: &str) -> String {
    until(LIMIT, part, || {
        Some(look(pid, &[]).0).filter(|said| said.contains(part))
    })
}

/// Jobs of a pool that wait for jobs of the same pool.
const POOL: &str = "
from concurrent.futures import ThreadPoolExecutor
pool = ThreadPoolExecutor(max_workers=2)
def part(): return 1
def whole():
    both.wait()
    return pool.submit(part).result(LIMIT)
import threading
both = threading.Barrier(2)
print('ready', flush=True)
jobs = [pool.submit(whole), pool.submit(whole)]
jobs[0].result()
";

#[test]
fn that_no_thread_goes_on_is_told_without_an_owner() {
    let Some(guest) = python(&POOL.replace("LIMIT", "")) else {
        return;
    };
    says(
        guest.pid,
        "\nno thread goes on: all 3 wait without a time limit",
    );
    let now = run(
        lancet().args(["calls", "--now", "-p", &guest.pid.to_string()]),
        LIMIT,
    );
    assert!(
        now.stdout.contains("\nno thread goes on: all 3 "),
        "{now:?}"
    );
    let (said, _) = look(guest.pid, &["--json"]);
    let record = format!(
        "{{\"record\":\"standstill\",\"pid\":{},\"tids\":[",
        guest.pid
    );
    assert!(said.contains(&record), "{said}");
}

#[test]
fn a_wait_for_the_end_of_a_thread_is_one_for_the_process_itself() {
    let code = "
import ctypes, threading
c = ctypes.CDLL(None)
def waits(): c.sem_wait(ctypes.create_string_buffer(64))
thread = threading.Thread(target=waits)
thread.start()
print('ready', flush=True)
c.pthread_join(ctypes.c_ulong(thread.ident), None)
";
    let Some(guest) = python(code) else { return };
    says(
        guest.pid,
        "\nno thread goes on: all 2 wait without a time limit",
    );
}

/// Waits that end by themselves: by a time limit, or by a thread that sleeps for a time.
#[test]
fn of_one_that_goes_on_nothing_is_said() {
    let sleeper = "
import threading, time
def sleeps():
    time.sleep(600)
    lock.release()
lock = threading.Lock()
lock.acquire()
threading.Thread(target=sleeps, daemon=True).start()
print('ready', flush=True)
lock.acquire()
";
    for code in [POOL.replace("LIMIT", "600"), sleeper.to_owned()] {
        let Some(guest) = python(&code) else { return };
        for _ in 0..3 {
            let said = says(guest.pid, "in acquire of a lock");
            assert!(!said.contains("no thread goes on"), "{said}");
        }
    }
}

#[test]
fn who_else_has_what_it_waits_for_is_told() {
    let pipe = "
import os, subprocess
ours, theirs = os.pipe()
child = subprocess.Popen(['sleep', '600'], pass_fds=[theirs])
os.close(theirs)
print('ready', flush=True)
os.read(ours, 1)
";
    let lock = "
import fcntl, os, subprocess, tempfile
file = tempfile.TemporaryFile()
fcntl.flock(file, fcntl.LOCK_EX)
child = subprocess.Popen(['sleep', '600'], pass_fds=[file.fileno()])
again = open(f'/proc/self/fd/{file.fileno()}', 'rb')
file.close()
print('ready', flush=True)
fcntl.flock(again, fcntl.LOCK_EX)
";
    for (code, part) in [(pipe, ", whose other end process "), (lock, " has locked")] {
        let Some(guest) = python(code) else { return };
        let said = says(guest.pid, part);
        let children = crate::support::children(guest.pid);
        let child = children.first().expect("a child").to_string();
        assert!(said.contains(&format!("{child} sleep")), "{said}");
        let id = nix::unistd::Pid::from_raw(children[0]);
        nix::sys::signal::kill(id, nix::sys::signal::Signal::SIGKILL).expect("our guest's");
    }
}

#[test]
fn where_tasks_of_an_event_loop_are_shown_is_told() {
    let code = "
import asyncio
async def main():
    print('ready', flush=True)
    await asyncio.get_running_loop().create_future()
asyncio.run(main())
";
    let Some(guest) = python(code) else { return };
    let said = says(
        guest.pid,
        &format!("lancet stack -p {} --fibers", guest.pid),
    );
    assert!(said.contains("an event loop runs tasks here"), "{said}");
    let (said, _) = look(guest.pid, &["--fibers"]);
    assert!(!said.contains("an event loop runs tasks here"), "{said}");
}

#[test]
fn children_that_nobody_waits_for_are_one_line() {
    let code = "
import os, sys
children = []
for _ in range(20):
    child = os.fork()
    if child == 0: os._exit(0)
    children.append(child)
for child in children: os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
print('ready', flush=True)
sys.stdin.read()
";
    let Some(guest) = python(code) else { return };
    let line = format!(
        "lancet: 20 children of process {} have ended, and nobody has waited for them (zombies)\n",
        guest.pid
    );
    let (_, said) = look(guest.pid, &[]);
    assert_eq!(said, line);
    let mut now = lancet();
    now.args(["calls", "--now", "--children", "-p", &guest.pid.to_string()]);
    let output = run(&mut now, LIMIT);
    assert_eq!((output.code(), output.stderr.as_str()), (0, line.as_str()));
}

/// Another lancet is in the way for a moment, again and again.
#[test]
fn looks_go_on_when_another_lancet_comes() {
    let code = "
import os, time
print('ready', flush=True)
while True:
    os.getppid()
    time.sleep(0.001)
";
    let Some(guest) = python(code) else { return };
    let pid = guest.pid.to_string();
    let mut looks = lancet();
    looks.args(["stack", "--for", "4s", "-p", &pid]);
    let looks = Watch::start(looks);
    for _ in 0..3 {
        let mut other = lancet();
        other.args([
            "syscalls",
            "-c",
            "--for",
            "300ms",
            "-o",
            "/dev/null",
            "-p",
            &pid,
        ]);
        let output = run(&mut other, LIMIT);
        assert!([0, 4].contains(&output.code()), "{output:?}");
    }
    let output = looks.end();
    assert_eq!(output.code(), 0, "{output:?}");
    assert!(output.stdout.contains(" looks in "), "{output:?}");
}

/// The child waits for its parent to read, and the parent for the end of the child: also where another child lies between.
#[test]
fn that_a_child_waits_in_turn_for_its_parent_is_told() {
    let child = "print('x' * 200000)";
    let between =
        format!("import subprocess, sys; subprocess.run([sys.executable, '-c', {child:?}])");
    for code in [child, &between] {
        let code = format!(
            "
import subprocess, sys
child = subprocess.Popen([sys.executable, '-c', {code:?}], stdout=subprocess.PIPE)
print('ready', flush=True)
child.wait()
"
        );
        let Some(guest) = python(&code) else { return };
        says(
            guest.pid,
            ", which waits in turn for this process (write: pipe, descriptor 1)",
        );
    }
}

/// A child that reads what another process is to write does not wait for its parent.
#[test]
fn a_child_that_waits_for_somebody_else_is_told_as_before() {
    let code = "
import subprocess, sys
child = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=sys.stdin)
print('ready', flush=True)
child.wait()
";
    let Some(guest) = python(code) else { return };
    let said = says(guest.pid, "wait4: child ");
    assert!(!said.contains("in turn"), "{said}");
}

/// A process that reads what its child writes, while the child waits for somebody to read something else that it writes: neither goes on.
#[test]
fn that_the_other_end_waits_in_turn_is_told() {
    let child = "import sys; sys.stderr.write('x' * 200000); print('done')";
    let code = format!(
        "
import subprocess, sys
child = subprocess.Popen([sys.executable, '-c', {child:?}], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
print('ready', flush=True)
child.stdout.read()
"
    );
    let Some(guest) = python(&code) else { return };
    let told = " python3 has, which waits in turn for this process (write: pipe, descriptor 2)";
    let said = says(guest.pid, told);
    assert!(said.contains("whose other end process "), "{said}");
    // One that sleeps for a while waits for nobody, though it has the other end.
    let code = code.replace(
        "sys.stderr.write('x' * 200000)",
        "import time; time.sleep(600)",
    );
    let Some(guest) = python(&code) else { return };
    let said = says(guest.pid, " python3 has");
    assert!(!said.contains("in turn"), "{said}");
}

/// Looks until the first thread of a process has slept for some seconds, longer than another end must have.
fn says_after_seconds(pid: i32) -> String {
    until(LIMIT, "asleep for seconds", || {
        let (said, _) = look(pid, &["--json"]);
        let records = said
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("a record"));
        let mut slept = records.filter_map(|record| record["state"]["asleep_ns"].as_f64());
        slept.any(|slept| slept > 3e9).then(|| look(pid, &[]).0)
    })
}

/// A helper that waits for its next request is idle: another thread of the process may send one. And where the first wait ends by its time
/// limit, both go on.
#[test]
fn an_idle_helper_and_a_wait_with_a_time_limit_are_no_standstill() {
    let ask = "import sys; sys.stdin.read()";
    let complain = "import sys; sys.stderr.write('x' * 200000); print('done')";
    let code = |child: &str, wait: &str| {
        format!(
            "
import select, subprocess, sys, threading, time
pipe = subprocess.PIPE
child = subprocess.Popen([sys.executable, '-c', {child:?}], stdin=pipe, stdout=pipe, stderr=pipe)
print('ready', flush=True)
{wait}
"
        )
    };
    let reads = "child.stdout.read()";
    let beside = format!("threading.Thread(target=time.sleep, args=[600]).start()\n{reads}");
    let limited = "select.select([child.stdout], [], [], 600)";
    let cases = [
        (ask, reads, Some("read: pipe, descriptor 0")),
        (ask, &beside, None),
        (complain, &beside, Some("write: pipe, descriptor 2")),
        (complain, limited, None),
    ];
    for (child, wait, turn) in cases {
        let code = code(child, wait);
        let Some(turn) = turn else {
            let Some(guest) = python(&code) else {
                return;
            };
            let said = says_after_seconds(guest.pid);
            assert!(said.contains(" python3 has"), "{said}");
            assert!(!said.contains("in turn"), "{wait}: {said}");
            continue;
        };
        // Of a few threads the kernel does not know since when they sleep (`process::interrupted::slept`), and then nothing is said.
        let turn = format!("which waits in turn for this process ({turn})");
        let mut said = String::new();
        for _ in 0..5 {
            let Some(guest) = python(&code) else {
                return;
            };
            said = says_after_seconds(guest.pid);
            assert!(said.contains(" python3 has"), "{said}");
            if said.contains(&turn) {
                break;
            }
        }
        assert!(said.contains(&turn), "{wait}: {said}");
    }
}

/// SQLite sleeps between its attempts, so the kernel knows of no wait for the lock that another process has: for writing, or, where ours has
/// announced that it will write, for reading. A pid file that is open and locked too is no database.
#[test]
fn who_has_locked_a_database_is_told() {
    let folder = TempDir::new("stuck-database");
    let path = folder.join("jobs.db");
    let cases = [
        ("theirs.execute('BEGIN EXCLUSIVE')", "DELETE"),
        (
            "theirs.execute('BEGIN'); theirs.execute('SELECT * FROM jobs').fetchone()",
            "DELETE",
        ),
        ("theirs.execute('BEGIN IMMEDIATE')", "WAL"),
    ];
    for (has, journal) in cases {
        let _ = std::fs::remove_file(&path);
        let code = format!(
            "
import fcntl, os, sqlite3, sys
path = {path:?}
first = sqlite3.connect(path); first.execute('PRAGMA journal_mode = {journal}')
first.execute('CREATE TABLE jobs (id INTEGER)')
first.execute('INSERT INTO jobs VALUES (0)'); first.commit(); first.close()
taken, has = os.pipe()
lives, parent = os.pipe()
lock = open(path + '.pid', 'w')
child = os.fork()
if child == 0:
    os.close(parent)
    fcntl.lockf(lock, fcntl.LOCK_EX)
    theirs = sqlite3.connect(path, isolation_level=None)
    {has}
    os.write(has, b'x')
    os.read(lives, 1)
    os._exit(0)
os.read(taken, 1)
print('ready', flush=True)
print('child', child, flush=True)
ours = sqlite3.connect(path, timeout=900)
ours.execute('INSERT INTO jobs VALUES (1)')
ours.commit()
"
        );
        let Some(guest) = python(&code) else { return };
        let line = guest.find("child ");
        let child = line.rsplit(' ').next().expect("an id").to_owned();
        let file = match journal {
            "WAL" => format!("{}-shm", path.display()),
            _ => path.display().to_string(),
        };
        let told = format!(
            " (clock_nanosleep): meanwhile process {child} python3 has locked {file}, which this process has open"
        );
        let said = says(guest.pid, &told);
        assert!(said.contains(" in sqlite3_"), "{said}");
        assert!(!said.contains("jobs.db.pid"), "{said}");
        let (said, _) = look(guest.pid, &["--json"]);
        assert!(said.contains("\"role\":\"locked_meanwhile\""), "{said}");
    }
}
