//! What a recording gives when it is looked at in parts, in several ways, and before it is finished.

use crate::exact::check_numbered;
use crate::machine::{program, start};
use crate::recorded::replay;
use crate::support::{LIMIT, Output, TempDir, lancet, run, until};
use crate::watch::{calls, hooked, left};

/// What threads called before they rested is in the file soon, each call once, whoever kills the recorder then: all of
/// it can be read while it is written.
#[test]
fn what_waited_for_a_moment_is_not_lost_with_the_recorder() {
    let Some(path) = program("calls.cpp") else {
        return;
    };
    let folder = TempDir::new("killed");
    let (conf, file) = (folder.join("exact.conf"), folder.join("calls"));
    std::fs::write(&conf, "long h_numbered(int, long, double);\n").expect("a .conf");
    let mut guest = start(&path, "many");
    let (conf, file_name) = (conf.display().to_string(), file.display().to_string());
    let what = ["-x", "h_numbered", "-F", &conf, "--record", &file_name];
    let watch = hooked(calls(guest.pid, &what));
    guest.tell("5000");
    guest.find("answer ");
    until(LIMIT, "all calls in the file", || {
        let output = replay(&file, &["-c"]);
        output.stdout.contains(" 20000 h_numbered").then_some(())
    });
    watch.kill();
    let output = replay(&file, &[]);
    assert_eq!(output.code(), 4, "{output:?}");
    assert!(output.stderr.contains("without its end"), "{output:?}");
    check_numbered(&output.stdout, 5000);
    guest.ends_with_nothing("killed");
}

/// The calls of a table: of its last line. Of none there is no table.
fn total(table: &Output) -> u64 {
    if table.stdout.starts_with("no call was counted") {
        return 0;
    }
    let last = table.stdout.lines().last().unwrap_or_default();
    let words: Vec<&str> = last.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "total");
    let calls = at.and_then(|at| words[at - 1].parse().ok());
    calls.unwrap_or_else(|| panic!("no total: {table:?}"))
}

/// `--since` and `--until` part a recording so that each call is on one side; by the index and without it the same is found.
#[test]
fn a_recording_is_looked_at_in_parts() {
    let Some(path) = program("calls.cpp") else {
        return;
    };
    let folder = TempDir::new("window");
    let (file, cut) = (folder.join("calls"), folder.join("cut"));
    let mut guest = start(&path, "many");
    let file_name = file.display().to_string();
    let watch = hooked(calls(guest.pid, &["-x", "h_*", "--record", &file_name]));
    guest.tell("90000");
    guest.find("answer ");
    left(watch, "window");
    guest.ends_with_nothing("window");
    let bytes = std::fs::read(&file).expect("the file");
    std::fs::write(&cut, &bytes[..bytes.len() - 1]).expect("a file");
    let all = total(&replay(&file, &["-c"]));
    assert!(all >= 360_000, "{all}");
    assert_eq!(total(&replay(&cut, &["-c"])), all);
    let mut halves = Vec::new();
    for time in ["1ms", "100ms", "200ms", "400ms", "800ms", "1600ms", "1h"] {
        let parts = [["-c", "--until", time], ["-c", "--since", time]];
        let [before, after] = parts.map(|part| total(&replay(&file, &part)));
        // Of each of four threads one call may have begun before and returned after.
        assert!(
            (all - 8..=all).contains(&(before + after)),
            "{time}: {before} {after}"
        );
        assert_eq!(
            total(&replay(&cut, &["-c", "--since", time])),
            after,
            "{time}"
        );
        halves.push(before);
    }
    assert!(
        halves.is_sorted() && halves[0] == 0 && halves[6] == all,
        "{halves:?}"
    );
    let some = replay(&file, &["-x", "h_numbered", "-c"]);
    assert!(some.stdout.contains(" 360000 h_numbered"), "{some:?}");
    let output = run(
        lancet().args(["calls", "--since", "1s", "-x", "f", "-p", "1"]),
        LIMIT,
    );
    assert_eq!(output.code(), 2);
    assert!(output.stderr.contains("name its file"), "{output:?}");
}

/// The table made while it was recorded, that of the merged events and that of the segments are one: with threads, with
/// calls that were left by exceptions, jumps and switches of the stack, and with children that have the calls of their
/// parent open.
#[test]
fn every_way_to_the_table_gives_the_same() {
    let Some(path) = program("calls.cpp") else {
        return;
    };
    let folder = TempDir::new("ways");
    let names = ["calls", "out", "again", "merged"].map(|name| folder.join(name));
    let [file, out, again, merged] = names.each_ref().map(|path| path.display().to_string());
    for mode in [
        "many",
        "jumps",
        "exceptions",
        "ucontexts",
        "forks",
        "vforks",
    ] {
        let mut guest = start(&path, mode);
        let what = ["-x", "h_*", "-c", "--record", &file, "-o", &out];
        let watch = hooked(calls(guest.pid, &what));
        guest.tell("300");
        guest.find("answer ");
        left(watch, "ways");
        guest.ends_with_nothing("ways");
        let table = |path: &str| std::fs::read_to_string(path).expect("a table");
        let shown = table(&out);
        assert!(shown.lines().count() > 4, "{mode}: {shown}");
        assert_eq!(replay(&names[0], &["-c"]).stdout, shown, "{mode}");
        // What is recorded again is merged by time.
        let output = replay(&names[0], &["-c", "--record", &again, "-o", &merged]);
        assert_eq!(output.code(), 0, "{output:?}");
        assert_eq!(table(&merged), shown, "{mode}");
        assert_eq!(replay(&names[2], &["-c"]).stdout, shown, "{mode}");
    }
}
