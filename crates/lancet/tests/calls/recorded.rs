//! `--record` and `lancet calls FILE`: what was seen is seen again, whoever dies in between.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::exact::check_numbered;
use crate::ltrace::shape;
use crate::machine::{program, start};
use crate::support::{
    Guest, LIMIT, Output, Snapshot, TempDir, Watch, assert_shown, lancet, rubies, run, until,
};
use crate::watch::{calls, hooked, left, text_holds};

const EACH: u64 = 250_000;

pub fn replay(file: &Path, arguments: &[&str]) -> Output {
    run(lancet().arg("calls").args(arguments).arg(file), LIMIT)
}

/// A million calls at full speed with no patience asked for: nothing is lost.
#[test]
fn a_million_calls_at_full_speed_are_all_in_the_file() {
    let Some(path) = program("calls.cpp") else {
        return;
    };
    let folder = TempDir::new("recorded");
    let (conf, file) = (folder.join("exact.conf"), folder.join("calls"));
    std::fs::write(&conf, "long h_numbered(int, long, double);\n").expect("a .conf");
    let mut guest = start(&path, "many");
    let before = Snapshot::take(guest.pid);
    let (conf, file_name) = (conf.display().to_string(), file.display().to_string());
    let what = ["-x", "h_numbered", "-F", &conf, "--record", &file_name];
    let watch = hooked(calls(guest.pid, &what));
    guest.tell(&EACH.to_string());
    guest.find("answer ");
    let output = left(watch, "recorded");
    assert_eq!(output.stdout, "", "what is recorded is not printed");
    text_holds(&before, guest.pid, "recorded", &output);
    guest.ends_with_nothing("recorded");
    let mode = file.metadata().expect("the file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    // The prototype is in the file.
    let output = replay(&file, &[]);
    assert_eq!((output.code(), &*output.stderr), (0, ""));
    check_numbered(&output.stdout, EACH);
    let output = replay(&file, &["-c"]);
    assert!(output.stdout.contains(" 1000000 h_numbered"), "{output:?}");
}

/// One run: the lines and the table that were shown are those that the file gives, and some of them with other filters.
#[test]
fn what_was_shown_is_shown_again() {
    for ruby in rubies("calls recorded") {
        let folder = TempDir::new("shown");
        let file = folder.join("calls");
        for show in [&["-ttT", "-i", "-w", "5"][..], &["-c"]] {
            let mut guest = Guest::script(&ruby, "live/churn.rb", &[]);
            guest.expect("ready");
            let out = folder.join("out");
            let mut arguments = vec!["-x", "rb_str_times", "-x", "rb_str_concat"];
            arguments.extend(["-x", "rb_ary_concat", "--for", "200ms"]);
            let (file_name, out_name) = (file.display().to_string(), out.display().to_string());
            arguments.extend(["--record", &file_name, "-o", &out_name]);
            arguments.extend(show);
            let output = run(&mut calls(guest.pid, &arguments), LIMIT);
            assert_eq!(output.code(), 0, "{output:?}");
            guest.tell("");
            guest.ends_with("answer right");
            let shown = std::fs::read_to_string(&out).expect("what was shown");
            assert!(shown.lines().count() > 4, "{ruby}: {shown}");
            assert!(shown.contains("churn.rb:"), "{ruby}: {shown}");
            let output = replay(&file, show);
            assert_eq!((output.code(), &*output.stderr), (0, ""));
            assert!(output.stdout == shown, "{ruby}, {show:?}: not the same");
        }
        let of = |arguments: &[&str]| {
            let output = replay(&file, arguments);
            assert_eq!(output.code(), 0, "{output:?}");
            output.stdout
        };
        let times = of(&["-x", "rb_str_times"]);
        assert!(times.contains("rb_str_times(") && !times.contains("_concat("));
        let some = of(&["-x", "*-rb_str_times"]);
        assert!(!some.contains("rb_str_times(") && some.contains("rb_ary_concat("));
        assert_eq!(of(&["-e", "@MAIN"]), "", "its calls come from libruby");
        let output = replay(&file, &["-x", "rb_yield"]);
        assert!(
            output.stderr.contains("holds no call of rb_yield"),
            "{output:?}"
        );
        assert_eq!(output.stdout, "");
    }
}

/// Who called whom stands in the file by name: its process and its libraries are gone when it is shown. The piece of the
/// stack that this was found in is not kept.
#[test]
fn who_called_whom_is_in_the_file() {
    const ON_THE_STACK: &str = "a line that no function was given";
    let folder = TempDir::new("callers recorded");
    let Some(program) = shape(&folder) else {
        return;
    };
    let path = |name: &str| folder.join(name).display().to_string();
    let (file, without, out) = (path("calls"), path("without"), path("out"));
    let mut guest = Guest::start("shape", Command::new(program));
    guest.expect("ready");
    let mut shown = String::new();
    for (file, more) in [(&file, &["-w", "9"][..]), (&without, &[])] {
        let mut arguments = vec!["-x", "shape_*", "--record", file, "-o", &out];
        arguments.extend(more);
        let watch = hooked(calls(guest.pid, &arguments));
        for _ in 0..3 {
            guest.tell(ON_THE_STACK);
            guest.find("answer ");
        }
        left(watch, "callers recorded");
        let told = std::fs::read_to_string(&out).expect("what was shown");
        assert_eq!(told.matches("shape_hash(").count(), 3, "{told}");
        if shown.is_empty() {
            shown = told;
        }
    }
    guest.ends_with_nothing("callers recorded");
    for name in ["shape", "libshape.so.1", "libshape.so.1.2"] {
        std::fs::remove_file(folder.join(name)).expect("it was there");
    }
    let bytes = std::fs::read(&file).expect("the file");
    let leaks = bytes
        .windows(9)
        .any(|some| some == &ON_THE_STACK.as_bytes()[..9]);
    assert!(!leaks, "the stack is in the file");

    let of = |arguments: &[&str], file: &str| {
        let output = replay(Path::new(file), arguments);
        assert_eq!(output.code(), 0, "{output:?}");
        (output.stdout, output.stderr)
    };
    let here = path("");
    // Three rounds alike. An empty line ends a list of frames; the C library's own frames have other names on other machines.
    let round = |told: &str, expected: &str| {
        let lines: Vec<&str> = told
            .lines()
            .filter(|line| !line.is_empty() && !line.contains("/libc.so"))
            .collect();
        assert!(lines.len().is_multiple_of(3) && !lines.is_empty(), "{told}");
        for round in lines.chunks(lines.len() / 3) {
            assert_shown(&(round.join("\n") + "\n"), &[(&here, "HERE/")], expected);
        }
    };
    round(
        &shown,
        r#"
        shape_sides("square" <unfinished ...>
        shape_hash("square")                             = 657
         > HERE/libshape.so.1.2(shape_sides+0xHEX) [0xHEX]
         > HERE/shape(main+0xHEX) [0xHEX]
         > HERE/shape(_start+0xHEX) [0xHEX]
        <... shape_sides resumed> )                      = 6
         > HERE/shape(main+0xHEX) [0xHEX]
         > HERE/shape(_start+0xHEX) [0xHEX]
        "#,
    );
    let told = (shown.clone(), String::new());
    assert_eq!(of(&["-w", "9"], &file), told);
    assert_eq!(of(&["-w", "99"], &file), told, "so many there are not");
    let (one, _) = of(&["-w", "1"], &file);
    round(
        &one,
        r#"
        shape_sides("square" <unfinished ...>
        shape_hash("square")                             = 657
         > HERE/libshape.so.1.2(shape_sides+0xHEX) [0xHEX]
        <... shape_sides resumed> )                      = 6
         > HERE/shape(main+0xHEX) [0xHEX]
        "#,
    );
    let (none, _) = of(&[], &file);
    round(
        &none,
        r#"
        shape_sides("square" <unfinished ...>
        shape_hash("square")                             = 657
        <... shape_sides resumed> )                      = 6
        "#,
    );
    let (json, _) = of(&["--json", "-w", "2"], &file);
    let inner = json
        .lines()
        .find(|line| line.contains("\"shape_hash\""))
        .expect("a call");
    assert!(
        inner.contains("(shape_sides+0x") && inner.contains("(main+0x"),
        "{inner}"
    );

    // What is recorded of a recording is as good as it.
    let again = path("again");
    of(&["--record", &again], &file);
    assert_eq!(of(&["-w", "9"], &again), told);

    let (lines, said) = of(&["-w", "9"], &without);
    assert!(
        lines.contains("shape_hash(") && !lines.contains(" > "),
        "{lines}"
    );
    assert_eq!(
        said,
        format!("lancet: {without} holds no callers: they are recorded with -w\n")
    );
    assert_eq!(of(&["-c", "-w", "9"], &without).1, "");

    // What stands behind a program is its own, and this is none.
    let output = run(lancet().args(["calls", &file, "-w", "9"]), LIMIT);
    let why = "is a recording, no program with arguments: options stand before it";
    assert_eq!(
        (output.code(), output.stderr),
        (2, format!("lancet: {file} {why}\n"))
    );
}

/// `kill -9` of the recorder: what it had written is there, and it is said that the rest is not.
#[test]
fn of_a_killed_recorder_the_file_can_be_read() {
    for ruby in rubies("calls recorder killed") {
        let mut guest = Guest::script(&ruby, "live/churn.rb", &[]);
        guest.expect("ready");
        let folder = TempDir::new("cut");
        let file = folder.join("calls");
        let file_name = file.display().to_string();
        let what = ["-x", "rb_str_times", "--record", &file_name];
        let watch = hooked(calls(guest.pid, &what));
        until(LIMIT, "something in the file", || {
            (file.metadata().ok()?.len() > 2000).then_some(())
        });
        watch.kill();
        let output = replay(&file, &[]);
        assert_eq!(output.code(), 4, "{output:?}");
        assert!(output.stdout.contains("rb_str_times("), "{output:?}");
        assert!(output.stderr.contains("without its end"), "{output:?}");
        guest.tell("");
        guest.ends_with("answer right");
    }
}

#[test]
fn a_full_disk_ends_it_and_harms_nobody() {
    let Some(path) = program("calls.cpp") else {
        return;
    };
    // As one who attaches finds it: a device that takes nothing.
    let mut guest = start(&path, "many");
    let before = Snapshot::take(guest.pid);
    let output = run(
        &mut calls(guest.pid, &["-x", "h_*", "--record", "/dev/full"]),
        LIMIT,
    );
    assert_eq!(output.code(), 1, "{output:?}");
    let full =
        "lancet: cannot write the recording /dev/full: No space left on device (os error 28)";
    assert!(output.stderr.starts_with(full), "{output:?}");
    text_holds(&before, guest.pid, "full", &output);

    // One that fills up while calls come: files of this shell have at most so many blocks.
    let folder = TempDir::new("full");
    let file = folder.join("calls");
    let mut command = Command::new("bash");
    let script = "ulimit -f 100; exec \"$@\"";
    command.args(["-c", script, "bash"]);
    let tool = calls(guest.pid, &["-x", "h_*", "--record"]);
    command.arg(tool.get_program()).args(tool.get_args());
    // The file's name comes last but for `-p PID`.
    let mut arguments: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
    let at = arguments.iter().position(|word| word == "--record");
    arguments.insert(at.expect("it is there") + 1, file.clone().into());
    let mut command = Command::new("bash");
    command.args(arguments);
    let watch = hooked(command);
    guest.tell(&EACH.to_string());
    let output = watch.end();
    assert_eq!(output.code(), 1, "{output:?}");
    assert!(
        output.stderr.contains("cannot write the recording"),
        "{output:?}"
    );
    guest.find("answer ");
    text_holds(&before, guest.pid, "filled", &output);
    guest.ends_with_nothing("filled");
    let output = replay(&file, &["-c"]);
    assert_eq!(output.code(), 4, "{output:?}");
    assert!(output.stdout.contains(" h_numbered"), "{output:?}");
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let Some(path) = program("calls.cpp") else {
        return;
    };
    let folder = TempDir::new("pipe");
    let file = folder.join("calls");
    let mut guest = start(&path, "many");
    let file_name = file.display().to_string();
    let what = ["-x", "h_*", "--record", &file_name];
    let watch = hooked(calls(guest.pid, &what));
    guest.tell("20000");
    guest.find("answer ");
    left(watch, "recorded");
    let mut command = lancet();
    command.arg("calls").arg(&file);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("lancet starts");
    let mut some = [0; 100];
    let mut stdout = child.stdout.take().expect("a pipe");
    stdout.read_exact(&mut some).expect("the first lines");
    drop(stdout);
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn what_is_no_recording_is_refused_in_one_line() {
    let folder = TempDir::new("refused");
    let file = folder.join("calls");
    let said = |arguments: &[&str], file: &Path| {
        let output = replay(file, arguments);
        assert_eq!(output.stdout, "");
        (output.code(), output.stderr)
    };
    // What is no recording is a program, and cannot be one.
    let name = file.display();
    let (code, why) = said(&[], &file);
    assert_eq!(
        (code, &why[..]),
        (
            1,
            &format!("lancet: cannot start {name}: No such file or directory (os error 2)\n")[..]
        )
    );
    std::fs::write(&file, "#!/usr/bin/ruby\n").expect("a file");
    let (code, why) = said(&[], &file);
    assert_eq!(
        (code, &why[..]),
        (
            1,
            &format!("lancet: cannot start {name}: Permission denied (os error 13)\n")[..]
        )
    );
    std::fs::write(&file, b"\x89lancet\n\x63\0\0\0").expect("a file");
    let (code, why) = said(&[], &file);
    assert_eq!(code, 1);
    assert_shown(
        &why,
        &[(&name.to_string(), "FILE")],
        "lancet: cannot read FILE: it is of version 99 and this lancet reads version 6: record again, or read it with the lancet that wrote it\n",
    );
    let (code, why) = said(&["--record", &file.display().to_string()], &file);
    assert_eq!(code, 1);
    assert_shown(
        &why,
        &[(&name.to_string(), "FILE")],
        "lancet: FILE is what is read: record into another file\n",
    );
    assert_eq!(std::fs::read(&file).expect("it is still there").len(), 12);
}

/// Ctrl-C while the guest calls at full speed: the file has its end.
#[test]
fn ctrl_c_ends_the_file() {
    for ruby in rubies("calls recorder interrupted") {
        let mut guest = Guest::script(&ruby, "live/churn.rb", &[]);
        guest.expect("ready");
        let folder = TempDir::new("interrupted");
        let file = folder.join("calls");
        let file_name = file.display().to_string();
        let what = ["-x", "rb_str_*", "-x", "malloc", "--record", &file_name];
        let mut watch = Watch::start(calls(guest.pid, &what));
        watch.until("lancet: process ");
        until(LIMIT, "much in the file", || {
            (file.metadata().ok()?.len() > 1 << 20).then_some(())
        });
        left(watch, "interrupted");
        let output = replay(&file, &["-c"]);
        assert_eq!((output.code(), &*output.stderr), (0, ""), "{ruby}");
        guest.tell("");
        guest.ends_with("answer right");
    }
}
