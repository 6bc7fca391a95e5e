//! Doors into a VM that are shut, or that somebody else uses at the same time (`vm::Door`); and what the user's text finds behind them.

use std::path::Path;
use std::time::Instant;

use nix::sys::signal::Signal;

use crate::programs::{done, library, patch, tried};
use crate::support::{
    Guest, Interpreter, LIMIT, Snapshot, TempDir, Watch, ask, chosen, installed, lancet, rubies,
    run, say, skip, soak, until,
};

/// The module of the guest that is its program.
const TARGET: &str = "python:pending.total";

/// The guest `pending` of an interpreter.
fn pending(python: &Interpreter, what: &str, argument: &str) -> Guest {
    let source = include_str!("../../../../fixtures/c/pending.c");
    let library = library("pending", source, &["-pthread"]);
    let mut command = python.command();
    command.arg(python.fixture("pending"));
    Guest::ready(command.arg(what).arg(library).arg(argument))
}

/// A file in `folder` by which `total` is 2.
fn fix(folder: &TempDir) -> String {
    let path = folder.join("fix.py");
    std::fs::write(&path, "def total(): return 2\n").expect("a file");
    format!("{TARGET}={}", path.display())
}

/// The main thread stands within `Py_AddPendingCall`, with the lock of its queue: to call that function there would wait for the thread
/// itself, for ever.
#[test]
fn a_lock_that_the_stopped_thread_holds() {
    for python in chosen("python", "held") {
        let folder = TempDir::new(&format!("held-{}", python.version));
        let go = folder.join("go");
        let mut guest = pending(&python, "held", &go.display().to_string());
        let request = fix(&folder);
        let output = tried(guest.pid, &[&request]);
        assert_eq!(output.code(), 1, "{python}: {output:?}");
        let why = "somebody held the lock of its queue of pending calls";
        assert!(output.stderr.contains(why), "{python}: {output:?}");
        // It says nothing of what it has not looked at.
        assert!(!output.stderr.contains("put back"), "{python}: {output:?}");
        std::fs::write(&go, "").expect("a file");
        assert_eq!(guest.answer_to("total"), "1", "{python}");
        done(guest.pid, &[&request]);
        assert_eq!(guest.answer_to("total"), "2", "{python}");
        done(guest.pid, &["--undo"]);
        assert_eq!(guest.answer_to("total"), "1", "{python}");
        let (lines, status) = guest.end();
        assert_eq!(lines, ["wrong 0"], "{python}");
        assert!(status.success(), "{python}: {status}");
    }
}

/// Other threads take the lock again and again: all the time, so that the queue is full as well, or in bursts, so that the door is open
/// between them and each way into the VM meets the lock in every state.
#[test]
fn a_lock_that_others_take_all_the_time() {
    // How often patch, undo and heap ask for the door in turn: in bursts a thousand times for each version, where an entry takes less than
    // 100 ms. Without a pause the door is shut for ten seconds in every other entry, if both threads have a processor.
    let turns = match soak() {
        true => [("bursts", 334), ("many", 3)],
        false => [("bursts", 8), ("many", 1)],
    };
    for python in chosen("python", "contended") {
        for (how, turns) in turns {
            let since = Instant::now();
            let folder = TempDir::new(&format!("contended-{}", python.version));
            let mut guest = pending(&python, how, "2");
            let shut = (0..turns)
                .map(|turn| door_of(&python, &mut guest, &folder, turn))
                .sum::<usize>();
            let took = since.elapsed().as_secs();
            say(format_args!(
                "{python}, {how}: {turns} turns in {took} s, the door was shut for ten seconds {shut} times"
            ));
            assert!(how == "many" || shut * 4 < turns, "{python}: {shut}");
            let (lines, status) = guest.end();
            assert_eq!(lines, ["wrong 0"], "{python}");
            assert!(status.success(), "{python}: {status}");
        }
    }
}

/// Asks for the door by patch, undo and heap. How often it was shut for ten seconds: nobody promises that it opens until then, and where it
/// does not nothing is done, which is said.
fn door_of(python: &Interpreter, guest: &mut Guest, folder: &TempDir, turn: usize) -> usize {
    let what = format!("{python}, turn {turn}");
    let request = fix(folder);
    let why = "did not answer within";
    let output = tried(guest.pid, &[&request]);
    let is_done = output.code() == 0;
    assert!(is_done || output.stderr.contains(why), "{what}: {output:?}");
    let mut shut = usize::from(!is_done);
    let wanted = if is_done { "2" } else { "1" };
    assert_eq!(guest.answer_to("total"), wanted, "{what}");
    if is_done {
        // It may have to be asked again.
        until(LIMIT * 3, "taken back", || {
            (tried(guest.pid, &["--undo"]).code() == 0).then_some(())
        });
    }
    assert_eq!(guest.answer_to("total"), "1", "{what}");
    let heap = folder.join(&format!("heap-{turn}"));
    let mut command = lancet();
    command.args(["heap", "-p", &guest.pid.to_string(), "-o"]);
    let output = run(command.arg(&heap), LIMIT);
    let is_done = [0, 4].contains(&output.code());
    assert!(is_done || output.stderr.contains(why), "{what}: {output:?}");
    shut += usize::from(!is_done);
    assert_eq!(guest.answer_to("total"), "1", "{what}");
    shut
}

fn blocked(pid: i32) -> String {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
    let line = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
    line.expect("a mask").trim().into()
}

/// What the file starts has the program's own signal mask, wherever the main thread stood.
#[test]
fn what_a_file_starts_has_the_programs_mask() {
    // 700 if both have the mask OWN, which is put in.
    let ruby = "KID = `cat /proc/self/status`[/SigBlk:\\s*(\\w+)/, 1]
THREAD = Thread.new { File.read('/proc/thread-self/status')[/SigBlk:\\s*(\\w+)/, 1] }.value
def total(more = 1); [KID, THREAD] == %w[OWN OWN] ? 700 : 800; end
";
    let python = "import subprocess, threading
def blocked(status): return status.split('SigBlk:')[1].split()[0]
kid = subprocess.run(['cat', '/proc/self/status'], stdout=subprocess.PIPE).stdout.decode()
looked = []
def look():
    with open('/proc/thread-self/status') as status: looked.append(status.read())
one = threading.Thread(target=look)
one.start()
one.join()
def total(self, more=1): return 700 if [blocked(kid), blocked(looked[0])] == ['OWN', 'OWN'] else 800
";
    let languages = [
        (rubies("masks"), "rb", ruby, "ruby:Shop::Order#total"),
        (
            chosen("python", "masks"),
            "py",
            python,
            "python:shop.Order.total",
        ),
    ];
    for (interpreters, extension, text, target) in languages {
        for interpreter in interpreters {
            let folder = TempDir::new(&format!("masks-{extension}-{}", interpreter.version));
            let path = folder.join(&format!("fix.{extension}"));
            for state in ["sleep", "join", "busy", "read"] {
                let mut guest = interpreter.start("shop", &[state]);
                let own = blocked(guest.pid);
                std::fs::write(&path, text.replace("OWN", &own)).expect("a file");
                done(guest.pid, &[&format!("{target}={}", path.display())]);
                let said = guest.answer_to("total");
                assert!(said.starts_with("700 "), "{interpreter}, {state}: {said}");
                assert_eq!(blocked(guest.pid), own, "{interpreter}, {state}");
            }
        }
    }
}

/// A signal that comes while the file is executed in the place of a system call interrupts that call afterwards, as without us; its
/// handler's exception is the program's, and not the file's.
#[test]
fn a_signal_that_comes_meanwhile_is_the_programs() {
    let program = "import os, signal, sys, threading
class Poked(Exception): pass
def poke(*_): raise Poked
signal.signal(signal.SIGUSR1, poke)
def total(): return 1
def answer():
    for line in sys.stdin: print(total(), flush=True)
    os._exit(0)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
threading.Thread(target=answer, daemon=True).start()
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR1])
print('ready', flush=True)
while True:
    try: signal.pause()
    except Poked: print('poked', flush=True)
";
    for python in chosen("python", "signal") {
        let folder = TempDir::new(&format!("signal-{}", python.version));
        let [main, fix, here, go] = ["poked.py", "fix.py", "here", "go"].map(|it| folder.join(it));
        std::fs::write(&main, program).expect("a file");
        let text = format!(
            "import os, time\nopen({here:?}, 'w').close()\nwhile not os.path.exists({go:?}): time.sleep(0.01)\ndef total(): return 2\n"
        );
        std::fs::write(&fix, text).expect("a file");
        let mut guest = Guest::asleep(python.command().arg(&main));
        let request = format!("python:poked.total={}", fix.display());
        let lancet = Watch::start(patch(guest.pid, &[&request]));
        until(LIMIT, "the file is executed", || is_there(&here));
        guest.signal(Signal::SIGUSR1);
        until(LIMIT, "the signal is put off", || {
            let status = std::fs::read_to_string(format!("/proc/{}/status", guest.pid)).ok()?;
            let of = |name| status.lines().find_map(|line| line.strip_prefix(name));
            let is_any = |mask: &str| mask.trim().bytes().any(|byte| byte != b'0');
            let waits = is_any(of("SigPnd:")?) || is_any(of("ShdPnd:")?);
            waits.then_some(())
        });
        std::fs::write(&go, "").expect("a file");
        guest.expect("poked");
        assert_eq!(lancet.end().code(), 0, "{python}");
        assert_eq!(guest.answer_to("total"), "2", "{python}");
        assert_eq!(blocked(guest.pid), "0".repeat(16), "{python}");
        let (lines, status) = guest.end();
        assert_eq!(lines, [""; 0], "{python}");
        assert!(status.success(), "{python}: {status}");
    }
}

fn is_there(path: &Path) -> Option<()> {
    path.exists().then_some(())
}

/// A uwsgi with an application that answers with `total()`, which a request of number 99 calls after a wait in the server's own code.
fn uwsgi(folder: &TempDir, options: &str) -> Option<(Guest, u16)> {
    const APPLICATION: &str = "
import os, threading, time, uwsgi
def total(): return 1
def hold():
    uwsgi.lock(1)
    open('held', 'w').close()
    while not os.path.exists('go'): time.sleep(0.01)
    uwsgi.unlock(1)
def application(environ, start):
    start('200 OK', [('Content-Type', 'text/plain')])
    if environ['QUERY_STRING'] == '99':
        threading.Thread(target=hold).start()
        while not os.path.exists('held'): time.sleep(0.01)
        uwsgi.lock(1)
        uwsgi.unlock(1)
    return [b'%d' % total()]
";
    let plugin = Path::new("/usr/lib/uwsgi/plugins/python3_plugin.so");
    if !installed("uwsgi") || !plugin.exists() {
        skip("patch uwsgi", "no uwsgi-core or no uwsgi-plugin-python3");
        return None;
    }
    std::fs::write(folder.join("served.py"), APPLICATION).expect("a file");
    std::fs::write(folder.join("fix.py"), "def total(): return 2\n").expect("a file");
    let line = "exec uwsgi --plugin python3 --http-socket 127.0.0.1:0 --locks 2 --disable-logging -w served";
    let mut command = std::process::Command::new("sh");
    command
        .args(["-c", &format!("{line} {options} 2>&1")])
        .current_dir(folder.join(""));
    let guest = Guest::start("uwsgi", command);
    let said = guest.find_within("bound to TCP address 127.0.0.1:");
    let digits: String = said.chars().take_while(char::is_ascii_digit).collect();
    guest.find_within("spawned uWSGI worker 1");
    Some((guest, digits.parse().expect("a port")))
}

/// A server that has Python as a library: while it waits for a request, no thread of it runs Python, and its main thread waits for a mutex of the
/// server's own or for a connection, without Python's lock. No pending call is made before a request comes.
#[test]
fn a_uwsgi_that_waits_for_a_request() {
    let folder = TempDir::new("doors-uwsgi");
    let threads = "--thunder-lock --enable-threads --threads 2";
    let Some((guest, port)) = uwsgi(&folder, threads) else {
        return;
    };
    let before = Snapshot::take(guest.pid);
    let request = format!("python:served.total={}", folder.join("fix.py").display());
    // Which thread waits for the mutex and which one for a connection changes with the requests.
    for turn in 0..6 {
        assert_eq!(ask(port, turn), "1", "turn {turn}");
        done(guest.pid, &[&request]);
        let heap = folder.join(&format!("heap-{turn}"));
        let mut command = lancet();
        command.args(["heap", "-p", &guest.pid.to_string(), "-o"]);
        let output = run(command.arg(&heap), LIMIT);
        assert!([0, 4].contains(&output.code()), "turn {turn}: {output:?}");
        assert_eq!(ask(port, turn), "2", "turn {turn}");
        done(guest.pid, &["--undo"]);
    }
    assert_eq!(ask(port, 0), "1");
    before.holds(guest.pid, "undone");
}

/// Python has called the code of the server that its main thread waits in: whatever that code has locked, a text that is evaluated there could
/// need it.
#[test]
fn a_uwsgi_whose_own_code_was_called_by_python() {
    let folder = TempDir::new("doors-called");
    let Some((guest, port)) = uwsgi(&folder, "--enable-threads") else {
        return;
    };
    let request = format!("python:served.total={}", folder.join("fix.py").display());
    let asked = std::thread::spawn(move || ask(port, 99));
    let held = folder.join("held");
    until(LIMIT, "the lock is held", || is_there(&held));
    until(LIMIT, "the main thread waits for the lock", || {
        let mut command = lancet();
        let command = command.args(["stack", "--native", "-p", &guest.pid.to_string()]);
        let said = run(command, LIMIT).stdout;
        let main = said
            .split("\n\n")
            .find(|block| block.contains("uWSGIWorker1Core0"));
        main.filter(|main| main.contains("uwsgi_lock")).map(drop)
    });
    let output = tried(guest.pid, &[&request]);
    assert_eq!(output.code(), 1, "{output:?}");
    assert!(
        output.stderr.contains("did not answer within"),
        "{output:?}"
    );
    std::fs::write(folder.join("go"), "").expect("a file");
    assert_eq!(asked.join().expect("an answer"), "1");
    done(guest.pid, &[&request]);
    assert_eq!(ask(port, 1), "2");
}
