//! `syscalls --blocked`: who waits for what, and on whom. Locks of the C library with their owners, locks of files, the other ends of pipes
//! and sockets, children; owners that lie.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::machine::{built, program};
use crate::now::row;
use crate::support::{
    Guest, LIMIT, Output, Snapshot, TempDir, as_nobody, copy_for_all, installed, is_root, lancet,
    program_of_32_bits, refused, run, schema, skip, until,
};

/// `lancet syscalls --blocked` of a process.
fn blocked(pid: i32, options: &[&str]) -> Command {
    let mut command = lancet();
    command.args(["syscalls", "--blocked"]).args(options);
    command.args(["-p", &pid.to_string()]);
    command
}

fn told(pid: i32, options: &[&str]) -> String {
    let output = run(&mut blocked(pid, options), LIMIT);
    assert_eq!(output.code(), 0, "{}", output.stderr);
    output.stdout
}

/// The records of `--json`, with the thread of each name.
fn records(said: &str) -> Vec<Value> {
    schema::records(&["calls"], said)
}

fn of<'a>(records: &'a [Value], name: &str) -> &'a Value {
    let found = records.iter().find(|record| record["thread"] == name);
    found.unwrap_or_else(|| panic!("no thread {name}: {records:?}"))
}

fn path_of(folder: &TempDir) -> PathBuf {
    let inside = folder.join("inside");
    inside.parent().expect("the folder").to_owned()
}

/// A guest with a thread for each way to hang, all of which sleep.
fn hangs(folder: &TempDir, more: &[&str]) -> Option<Guest> {
    let path = program("hangs.c")?;
    let mut command = Command::new(path);
    command.arg(path_of(folder)).args(more);
    let guest = Guest::ready(&mut command);
    until(LIMIT, "all of them wait", || {
        let said = told(guest.pid, &[]);
        let is_there =
            |name: &&str| row(&said, name).is_some_and(|does| !does.starts_with("running"));
        let last = ["server", "queued", "blackhole", "circle-1", "child"];
        (last.iter().all(is_there) && said.contains(", 0 running;")).then_some(())
    });
    Some(guest)
}

#[test]
fn each_way_to_hang_is_told_with_who_is_waited_for() {
    let folder = TempDir::new("hangs");
    let Some(guest) = hangs(&folder, &[]) else {
        return;
    };
    let before = Snapshot::take(guest.pid);
    let said = told(guest.pid, &[]);
    let all = records(&told(guest.pid, &["--json"]));
    let tid = |name: &str| of(&all, name)["tid"].as_i64().expect("a number");
    // By the kernel's account of each, whoever of the guest's threads has made it.
    let family = children(guest.pid);
    let named = |name: &str| {
        let is_it = |pid: &&i32| {
            let comm = std::fs::read_to_string(format!("/proc/{pid}/comm"));
            comm.is_ok_and(|comm| comm.trim() == name)
        };
        *family.iter().find(is_it).expect("a child of this name")
    };
    let (files, child) = (named("files"), named("child"));
    let folder = path_of(&folder);
    let folder = folder.display();
    let holder = tid("holder");
    let mutex = format!("waits for a pthread mutex that thread {holder} holder holds");
    let ends = format!("whose other end this process itself and process {child} child have");
    for (name, does) in [
        ("plain", format!("{mutex} ← on_plain")),
        ("recursive", mutex.clone()),
        ("robust", mutex.clone()),
        ("inherited", mutex.clone()),
        ("timed", format!("{mutex}, for 59 min ")),
        (
            "reading",
            format!("waits for a pthread read-write lock that thread {holder} holder holds"),
        ),
        (
            "writing",
            "waits for a pthread read-write lock that others hold for reading".into(),
        ),
        (
            "stream",
            format!("waits for the lock of a stdio stream that thread {holder} holder holds"),
        ),
        (
            "joined",
            format!("waits for the end of thread {holder} holder ← on_joined"),
        ),
        ("condition", "pthread_cond_wait ← on_condition".into()),
        ("semaphore", "sem_wait ← on_semaphore".into()),
        ("bare-futex", "futex ← on_bare".into()),
        (
            "flock",
            format!("flock: {folder}/flock, which process {files} files has locked"),
        ),
        (
            "posix",
            format!("fcntl: {folder}/posix, which process {files} files has locked"),
        ),
        (
            "ofd",
            format!(
                "fcntl: {folder}/ofd, which an open file description of process {files} files has locked"
            ),
        ),
        ("pipe", "read: pipe, descriptor ".into()),
        (
            "fifo",
            format!("read: {folder}/fifo, whose other end this process itself has"),
        ),
        ("opening", format!("open: {folder}/nobody")),
        ("child", format!("wait4: child {child} child ← on_child")),
        ("poll", format!("poll: unix socket, {ends} and 97 more")),
        (
            "server",
            format!("read: unix socket, whose other end ({folder}/socket) this process itself has"),
        ),
        ("queued", "read: tcp to 127.0.0.1:".into()),
        ("blackhole", "connect: tcp to 127.0.0.1:".into()),
        (
            "circle-0",
            format!(
                "waits for a pthread mutex that thread {} circle-1 holds",
                tid("circle-1")
            ),
        ),
    ] {
        let found = row(&said, name);
        assert!(
            found.is_some_and(|found| found.starts_with(&does)),
            "{name}: {does}\n{said}"
        );
    }
    assert!(row(&said, "pipe").expect("a row").contains(&ends), "{said}");
    let end = |name: &str, text: &str| row(&said, name).expect("a row").contains(text);
    assert!(
        end("queued", ", which this process itself has not accepted yet"),
        "{said}"
    );
    let unheard = ", which does not answer, though this process itself listens there";
    assert!(end("blackhole", unheard), "{said}");
    assert!(end("sleep", ", for 59 min "), "{said}");
    let last = said.lines().last().expect("a line");
    let holds = format!("thread {holder} holder holds up 7 threads");
    let is_told = last.starts_with(&holds) && last.contains("; it is asleep ");
    assert!(is_told, "{said}");
    let circle = said.find("deadlock: these 2 threads wait for each other, and none goes on\n");
    assert!(circle.is_some(), "{said}");
    in_records(&all, files);
    before.text_holds(guest.pid, "hangs");
}

/// The processes whose parent is this one.
fn children(parent: i32) -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").expect("processes");
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let is_below = |pid: &i32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"));
        status.is_ok_and(|status| status.contains(&format!("PPid:\t{parent}\n")))
    };
    pids.filter(is_below).collect()
}

/// The same for programs.
fn in_records(all: &[Value], files: i32) {
    let state = |name: &str| &of(all, name)["state"];
    let holder = of(all, "holder");
    assert_eq!(holder["holds_up"], 7, "{holder}");
    for (name, kind) in [
        ("plain", "mutex"),
        ("inherited", "mutex"),
        ("reading", "read_write"),
        ("stream", "stream"),
        ("joined", "thread"),
    ] {
        let state = state(name);
        assert_eq!(state["lock"]["kind"], kind, "{state}");
        assert_eq!(state["lock"]["owner"], holder["tid"], "{state}");
        assert_eq!(state["waits_for"]["tid"], holder["tid"], "{state}");
        assert!(state["futex"].is_string(), "{state}");
    }
    assert_eq!(state("writing")["lock"]["readers"], true);
    assert_eq!(state("condition")["lock"], Value::Null);
    let timed = state("timed")["ends_in_ns"].as_f64().expect("an end") / 1e9;
    assert!(timed > 3000.0 && timed < 3600.0, "{timed}");
    for (name, description) in [("flock", false), ("posix", false), ("ofd", true)] {
        let others = &state(name)["others"][0];
        assert_eq!(others["role"], "lock", "{others}");
        assert_eq!(others["description"], description, "{others}");
        assert_eq!(others["processes"][0]["pid"], files, "{others}");
        assert_eq!(others["processes"][0]["name"], "files", "{others}");
    }
    let circle = all.iter().find(|record| record["record"] == "deadlock");
    let tids = circle.expect("a deadlock")["tids"]
        .as_array()
        .expect("ids")
        .len();
    assert_eq!(tids, 2);
    assert_eq!(of(all, "plain")["native"][0], "on_plain");
}

/// A thousand threads in one circle are found, and told in bounded lines and time.
#[test]
fn a_circle_of_a_thousand_owners() {
    let folder = TempDir::new("hangs-circle");
    let Some(guest) = hangs(&folder, &["1000"]) else {
        return;
    };
    let began = Instant::now();
    let said = told(guest.pid, &[]);
    assert!(
        began.elapsed() < Duration::from_secs(20),
        "{:?}",
        began.elapsed()
    );
    let head = "deadlock: these 1,000 threads wait for each other, and none goes on\n";
    assert!(
        said.contains(head) && said.contains("    … and 984 more\n"),
        "{said}"
    );
    let all = records(&told(guest.pid, &["--json"]));
    let circle = all.iter().find(|record| record["record"] == "deadlock");
    let tids = circle.expect("a deadlock")["tids"]
        .as_array()
        .expect("ids")
        .len();
    assert_eq!(tids, 1000);
}

/// Words that look like locks and lie: nobody is named who is no thread of the process, nothing breaks where the word is not mapped, and
/// nothing that a terminal obeys comes out.
#[test]
fn owners_that_lie_are_not_believed() {
    let Some(path) = built("false_locks.c", &["-static"]) else {
        return;
    };
    let folder = TempDir::new("false-locks");
    let guest = Guest::ready(Command::new(path).arg(path_of(&folder)));
    let said = told(guest.pid, &[]);
    for (name, does) in [
        (
            "shared",
            "waits for a pthread mutex whose owner is not to be found",
        ),
        (
            "writer",
            "waits for a pthread read-write lock whose owner is not to be found",
        ),
        ("itself", "waits for a pthread mutex that it holds itself"),
        ("ended", "futex ← pthread_join_lies"),
        ("unknown", "futex ← nobody_knows"),
        ("edge-rw", "futex ← pthread_rwlock_lies"),
        (
            "4 threads",
            "waits for a pthread mutex whose owner is not to be found",
        ),
        ("3 threads", "futex ← pthread_mutex_lies"),
    ] {
        let found = row(&said, name);
        assert!(
            found.is_some_and(|found| found.starts_with(does)),
            "{name}: {does}\n{said}"
        );
    }
    let is_plain = |letter: char| letter == '\n' || !letter.is_control();
    assert!(said.chars().all(is_plain), "{said:?}");
    let all = records(&told(guest.pid, &["--json"]));
    for record in all.iter().filter(|record| record["record"] == "thread") {
        let owner = record["state"]["lock"]["owner"].as_i64();
        assert!(
            owner.is_none_or(|owner| owner == record["tid"].as_i64().unwrap_or(0)),
            "{record}"
        );
    }
}

/// Two look at once, one of them while the guest is killed: each answers, or says in a line why it cannot.
#[test]
fn two_look_while_the_guest_is_killed() {
    let folder = TempDir::new("hangs-killed");
    let Some(guest) = hangs(&folder, &[]) else {
        return;
    };
    let pid = guest.pid;
    let looks: Vec<_> = (0..2)
        .map(|_| {
            std::thread::spawn(move || {
                let looks: Vec<Output> =
                    std::iter::repeat_with(|| run(&mut blocked(pid, &[]), LIMIT))
                        .take_while(|output| output.code() == 0)
                        .collect();
                (looks.len(), run(&mut blocked(pid, &[]), LIMIT))
            })
        })
        .collect();
    // Both have looked while it lives.
    let again = told(pid, &[]);
    assert!(again.contains(" holds up 7 threads"), "{again}");
    drop(guest);
    for look in looks {
        let (_, last) = look.join().expect("no panic");
        assert_eq!(last.code(), 1, "{}", last.stderr);
        assert!(
            last.stderr.starts_with("lancet: ") && !last.stderr.contains("panicked"),
            "{}",
            last.stderr
        );
    }
}

/// Two processes of which each has locked the file that the other wants: of `flock` the kernel sees no deadlock.
#[test]
fn who_has_the_file_and_waits_in_turn_is_told() {
    let folder = TempDir::new("hangs-files");
    let both = ["one", "other"].map(|name| folder.join(name));
    let script = "open A, '>', $ARGV[0]; open B, '>', $ARGV[1]; flock A, 2; $| = 1; print qq(ready\n); <STDIN>; flock B, 2";
    let start = |own: &PathBuf, wanted: &PathBuf| {
        Guest::ready(
            Command::new("perl")
                .args(["-e", script])
                .args([own, wanted]),
        )
    };
    let mut guests = [start(&both[0], &both[1]), start(&both[1], &both[0])];
    for guest in &mut guests {
        guest.tell("go");
    }
    let [pid, other] = [guests[0].pid, guests[1].pid];
    let expected = format!(
        "flock: {}, which process {other} perl has locked, waiting in turn for a file that this process has locked",
        both[1].display()
    );
    until(LIMIT, "both wait", || {
        told(pid, &[]).contains(&expected).then_some(())
    });
}

/// The process that took the lock has ended, and the shell that has started it still has the description.
#[test]
fn who_has_inherited_a_lock_is_told() {
    if !installed("flock") {
        return skip("blocked: an inherited lock", "there is no flock");
    }
    let folder = TempDir::new("hangs-inherited");
    let file = folder.join("file");
    let script = "exec 8>\"$0\"; flock 8; echo ready; read go";
    let shell = Guest::ready(Command::new("sh").args(["-c", script]).arg(&file));
    let waits = Guest::start("flock", Command::new("flock").arg(&file).arg("true"));
    let expected = format!(
        "flock: {}, which process {} sh has locked",
        file.display(),
        shell.pid
    );
    until(LIMIT, "it waits", || {
        let output = run(&mut blocked(waits.pid, &[]), LIMIT);
        output.stdout.contains(&expected).then_some(())
    });
}

/// Without root it is told of one's own process, and that others may hide theirs.
#[test]
fn without_root_one_s_own_process_is_told() {
    let test = "blocked: as an ordinary user";
    if !is_root() || !installed("setpriv") {
        return skip(test, "it needs root and setpriv");
    }
    let folder = TempDir::new("hangs-nobody");
    let Some(path) = program("hangs.c") else {
        return;
    };
    use std::os::unix::fs::PermissionsExt;
    let open = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(path_of(&folder), open).expect("its mode");
    let copy = folder.join("hangs");
    std::fs::copy(path, &copy).expect("a copy");
    let mut command = Command::new(&copy);
    command.arg(path_of(&folder));
    let guest = Guest::ready(&mut as_nobody(&command));
    let mut command = Command::new(copy_for_all(&folder));
    command.args(["syscalls", "--blocked", "-p", &guest.pid.to_string()]);
    let said = until(LIMIT, "all of them wait", || {
        let output = run(&mut as_nobody(&command), LIMIT);
        assert_eq!(output.code(), 0, "{}", output.stderr);
        row(&output.stdout, "circle-1")?
            .starts_with("waits")
            .then_some(())?;
        output
            .stdout
            .contains("deadlock: ")
            .then_some(output.stdout)
    });
    assert!(
        row(&said, "plain")
            .expect("a row")
            .contains(" holder holds ← on_plain"),
        "{said}"
    );
    assert!(
        row(&said, "flock")
            .expect("a row")
            .contains(" files has locked"),
        "{said}"
    );
    let ofd = row(&said, "ofd").expect("a row");
    assert!(
        ofd.contains(", which an open file description of process "),
        "{said}"
    );
}

/// It is said of a program of 32 bits that it is one.
#[test]
fn a_program_of_32_bits_is_refused() {
    let folder = TempDir::new("blocked-bits");
    let mut child = match program_of_32_bits(&folder) {
        Ok(child) => child,
        Err(why) => return skip("blocked: 32-bit program", why),
    };
    let (pid, program) = (child.pid(), folder.join("program"));
    refused(
        blocked(pid, &[]),
        &format!(
            "lancet: process {pid}: {} is a program for 32-bit x86; only 64-bit x86-64 programs can be opened",
            program.display()
        ),
    );
    assert!(child.runs(), "it goes on");
}
