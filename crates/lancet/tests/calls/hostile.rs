//! A guest that means harm, a full standard error, and files that others have put where ours are to go: nothing outside
//! changes, and no guest keeps our hooks.

use std::fs::{self, File, OpenOptions};
use std::mem::offset_of;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use wire::ControlPage;
use wire::notices::{FREE, Notice, notice};

use crate::machine::program;
use crate::support::{
    Door, Guest, Killed, LIMIT, Snapshot, TempDir, as_nobody, installed, is_release, is_root,
    lancet, refused, run, skip, until,
};
use crate::watch::{calls, hooked};

/// How long lancet may take to open and leave a guest, whatever the guest does.
fn bound() -> Duration {
    if is_release() {
        Duration::from_secs(5)
    } else {
        LIMIT
    }
}

fn cat() -> Guest {
    let mut guest = Guest::start("cat", Command::new("cat"));
    guest.tell("ready");
    guest.expect("ready");
    guest
}

/// Root's file of mode 0600 neither grows nor shrinks when root opens a guest that puts it where the guest's memory for
/// rings should be.
#[test]
fn a_file_that_the_guest_puts_in_the_place_of_its_own_is_not_touched() {
    if !is_root() || !installed("setpriv") {
        return skip("calls: swapped descriptors", "it needs root and setpriv");
    }
    let Some(path) = program("hostile.c") else {
        return;
    };
    let folder = TempDir::new("hostile");
    let secret = folder.join("secret");
    fs::write(&secret, "root's own").expect("a file");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).expect("its mode");
    let mut command = Command::new(path);
    command.arg(&secret);
    let mut guest = Guest::ready(&mut as_nobody(&command));
    for round in 0..20 {
        let started = Instant::now();
        run(
            &mut calls(guest.pid, &["-x", "write", "--for", "1ms"]),
            bound(),
        );
        assert!(
            started.elapsed() < bound(),
            "round {round}: {:?}",
            started.elapsed()
        );
        let content = fs::read(&secret).expect("the file");
        assert_eq!(
            content,
            b"root's own",
            "round {round}: {} bytes",
            content.len()
        );
    }
    guest.tell("line");
    guest.expect("line");
    assert!(guest.ends_well());
}

/// Writes a notice to the control page of a guest, as its own code could, and waits until the command has dealt with it.
fn forge(pid: i32, kind: u32, process: i32, thread: i32, value: i32) {
    let door = Door::find(pid).expect("an agent");
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(format!("/proc/{pid}/mem"));
    let memory = file.expect("the guest's memory");
    let last =
        offset_of!(ControlPage, notices) + (wire::notices::NOTICES - 1) * size_of::<Notice>();
    let at = |offset: usize| door.control_page + offset as u64;
    let write =
        |offset: usize, bytes: &[u8]| memory.write_all_at(bytes, at(offset)).expect("written");
    let half = |offset: usize| {
        let mut bytes = [0; 4];
        memory.read_exact_at(&mut bytes, at(offset)).expect("read");
        u32::from_le_bytes(bytes)
    };
    let news = half(offset_of!(ControlPage, news)).wrapping_add(1);
    write(last + offset_of!(Notice, kind), &kind.to_le_bytes());
    write(last + offset_of!(Notice, pid), &process.to_le_bytes());
    write(last + offset_of!(Notice, tid), &thread.to_le_bytes());
    write(
        last + offset_of!(Notice, value),
        &i64::from(value).to_le_bytes(),
    );
    write(last + offset_of!(Notice, state), &news.to_le_bytes());
    write(offset_of!(ControlPage, news), &news.to_le_bytes());
    until(LIMIT, "the notice to be read", || {
        (half(last + offset_of!(Notice, state)) == FREE).then_some(())
    });
}

/// A guest that says of a process of root's that it is a thread of its own, or its child, does not make lancet open it.
#[test]
fn a_process_that_the_guest_names_is_left_alone() {
    let mut guest = cat();
    let mut stranger = Killed::start(Command::new("sleep").arg("1000")).expect("sleep");
    let (own, other) = (guest.pid, stranger.pid());
    let watch = hooked(calls(own, &["-f", "-x", "write"]));
    for (kind, process, thread) in [
        (notice::EXEC, other, other),
        (notice::EXEC, own, other),
        (notice::EXEC, 0, other),
        (notice::FORK, own, own),
        (notice::EXEC, own, 0),
        (notice::EXEC_FAILED, own, other),
    ] {
        forge(own, kind, process, thread, other);
        let status = fs::read_to_string(format!("/proc/{other}/status")).expect("it lives");
        assert!(
            status.contains("TracerPid:\t0\n"),
            "{kind} {process} {thread}: {status}"
        );
        assert!(
            Door::find(other).is_none(),
            "{kind} {process} {thread}: it was opened"
        );
    }
    guest.tell("line");
    guest.expect("line");
    // That notices made no sense is a loss.
    let output = watch.interrupt();
    assert_eq!(output.code(), 4, "{}", output.stderr);
    assert!(output.stdout.contains("write(1, \"line"), "{output:?}");
    assert!(stranger.runs());
    guest.ends_with_nothing("it goes on");
}

/// Messages that cannot be written are no reason to fall over with the hooks in place.
#[test]
fn a_full_standard_error_leaves_no_hooks() {
    let guest = cat();
    let before = Snapshot::take(guest.pid);
    for arguments in [
        &["-x", "write"][..],
        &["-c", "-x", "write"],
        &["-x", "no_such_function"],
    ] {
        let mut command = calls(guest.pid, arguments);
        command.args(["--for", "100ms"]).stdout(Stdio::null());
        command.stderr(
            File::options()
                .write(true)
                .open("/dev/full")
                .expect("/dev/full"),
        );
        let status = command.status().expect("lancet");
        // 4 where nothing could be hooked.
        let good = status.code()
            == Some(if arguments.contains(&"no_such_function") {
                4
            } else {
                0
            });
        assert!(good, "{arguments:?}: {status}");
        before.text_holds(guest.pid, "2>/dev/full");
    }
    guest.ends_with_nothing("it goes on");
}

#[test]
fn a_pipe_without_a_reader_is_refused_at_once() {
    let folder = TempDir::new("pipe");
    let path = folder.join("fifo");
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    let guest = cat();
    for option in ["-o", "--record"] {
        let mut command = lancet();
        command.args(["calls", "-x", "write", option]).arg(&path);
        command.args(["-p", &guest.pid.to_string()]);
        refused(
            command,
            &format!(
                "lancet: cannot write to {}: nobody reads this pipe: start its reader first",
                path.display()
            ),
        );
    }
    guest.ends_with_nothing("it was not opened");
}

#[test]
fn a_file_of_somebody_else_is_not_written_to() {
    if !is_root() {
        return skip("calls: -o onto another user's file", "it needs root");
    }
    let folder = TempDir::new("theirs");
    let (theirs, mine, link) = (
        folder.join("theirs"),
        folder.join("mine"),
        folder.join("link"),
    );
    fs::write(&theirs, "theirs").expect("a file");
    fs::write(&mine, "mine").expect("a file");
    std::os::unix::fs::symlink(&mine, &link).expect("a link");
    for path in [&theirs, &link] {
        std::os::unix::fs::lchown(path, Some(65534), Some(65534)).expect("root may");
    }
    let guest = cat();
    for option in ["-o", "--record"] {
        for (path, what) in [(&theirs, "a file"), (&link, "a link")] {
            let mut command = lancet();
            command.args(["calls", "-x", "write", option]).arg(path);
            command.args(["-p", &guest.pid.to_string()]);
            refused(
                command,
                &format!(
                    "lancet: cannot write to {}: it is {what} that belongs to user 65534: name a new file or one of yours",
                    path.display()
                ),
            );
        }
    }
    assert_eq!(fs::read_to_string(&theirs).expect("the file"), "theirs");
    assert_eq!(fs::read_to_string(&mine).expect("the file"), "mine");
    guest.ends_with_nothing("it was not opened");
}

/// What could act on the terminal, in the name of a script's file and of a method, in lines, tables, replay and JSON.
#[test]
fn nothing_of_the_guest_acts_on_the_terminal() {
    if !installed("ruby") {
        return skip("calls: escapes", "no ruby");
    }
    const SCRIPT: &str = r#"
        $stdout.sync = true
        name = "a\e]0;x\a\n\u{9b}2J\u{202e}.rb"
        eval("def told(text) = $stdout.syswrite(text)", binding, name, 1)
        puts "ready"
        while (line = gets)
          told(line)
        end
    "#;
    let folder = TempDir::new("escapes");
    let mut command = Command::new("ruby");
    command.args(["-e", SCRIPT]);
    let mut guest = Guest::ready(&mut command);
    let (pid, file) = (guest.pid, folder.join("recording"));
    let mut texts = Vec::new();
    for options in [
        &["-x", "write"][..],
        &["-S"],
        &["-c", "-x", "write"],
        &["--json", "-x", "write"],
    ] {
        let watch = hooked(calls(pid, options));
        // When the second is there the first has come back: it is told whole.
        for _ in 0..2 {
            guest.tell("line");
            guest.expect("line");
        }
        texts.push((options.join(" "), watch.interrupt().stdout));
    }
    let mut record = lancet();
    record.args(["calls", "-x", "write", "--record"]).arg(&file);
    record.args(["-p", &pid.to_string()]);
    let watch = hooked(record);
    guest.tell("line");
    guest.expect("line");
    watch.interrupt();
    for options in [&[][..], &["--json"]] {
        let replayed = run(lancet().arg("calls").args(options).arg(&file), LIMIT);
        texts.push((format!("replay {options:?}"), replayed.stdout));
    }
    for (what, text) in texts {
        assert!(text.contains("]0;x"), "{what}: the name is there: {text:?}");
        let acts = |c: &char| c.is_control() && *c != '\n' || *c == '\u{202e}';
        assert_eq!(text.chars().find(acts), None, "{what}: {text:?}");
        let lines = text
            .lines()
            .filter(|line| line.starts_with("\u{9b}") || line.starts_with("\\x9b"));
        assert_eq!(lines.count(), 0, "{what}: a line is broken: {text:?}");
    }
    assert!(guest.ends_well());
}
