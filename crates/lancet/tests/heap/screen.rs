//! `--live` on a terminal: a snapshot that is walked through, one that is made anew, and a terminal that is given back.

use super::file::write;
use crate::support::{Guest, Screen, TempDir, chosen, rubies};

/// A file, by keys from the suspects to an order and to what it is called; the terminal is given back on each way out.
#[test]
fn a_file_is_walked_through() {
    let folder = TempDir::new("heap-screen");
    let file = folder.join("a.heap");
    write(&file, 5000, false);
    let name = file.to_str().expect("UTF-8");
    let mut screen = Screen::of(&["heap", name, "--live"]);
    screen.until("MAP @global $cache retains 195.4 KiB (100 %)");
    screen.press(b"\r");
    screen.until("path from a root");
    screen.until("refers to");
    screen.until("MAP 0x1000: 100 B itself, retains 195.4 KiB (100 %)");
    screen.press(b"/0x2028\r");
    screen.until("Order 0x2028: 40 B itself");
    screen.until("made at order.src:31");
    screen.press(b"n");
    screen.until("a file does not change");
    screen.press(b"q");
    let (status, left) = screen.left();
    // Nothing but the cursor comes back.
    let left = left.replace("\x1b[?25h", "");
    assert!(status.success() && left.is_empty(), "{status}: {left:?}");
    for signal in [nix::sys::signal::SIGTERM, nix::sys::signal::SIGINT] {
        let mut screen = Screen::of(&["heap", name, "--live"]);
        screen.until("[Suspects]");
        let lancet = nix::unistd::Pid::from_raw(screen.lancet());
        nix::sys::signal::kill(lancet, signal).expect("our child");
        let (status, _) = screen.left();
        assert!(status.success(), "{signal}: {status}");
    }
    let mut screen = Screen::of(&["heap", name, "--live"]);
    screen.until("[Suspects]");
    screen.cut();
}

/// `n` copies the process again, and shows what has come since; of one that has ended it says that it cannot.
#[test]
fn a_process_is_looked_at_again() {
    for ruby in rubies("the screen of a heap") {
        let mut guest = Guest::script(&ruby, "heap/holder.rb", &["growing"]);
        guest.expect("ready");
        let mut screen = Screen::of(&["heap", "--live", "-p", &guest.pid.to_string()]);
        screen.until("[Suspects]");
        guest.tell("grow");
        guest.expect("grown");
        screen.press(b"n");
        screen.until("[New]");
        screen.until("new and living: ");
        screen.until("Hash @global $cache holds ");
        guest.tell("end");
        assert!(guest.ends_well());
        // What was copied can still be looked at.
        screen.press(b"n");
        screen.until("no new snapshot: ");
        screen.press(b"q");
        let (status, _) = screen.left();
        assert!(status.success(), "{ruby}: {status}");
    }
    for python in chosen("python", "the screen of a heap") {
        let guest = Guest::script(&python, "heap/holder.py", &["global"]);
        guest.expect("ready");
        let mut screen = Screen::of(&["heap", "--live", "-p", &guest.pid.to_string()]);
        screen.until("[Suspects]");
        screen.press(b"n");
        screen.until("new and living: ");
        screen.press(b"q");
        let (status, _) = screen.left();
        assert!(status.success(), "{python}: {status}");
        assert!(guest.ends_well());
    }
}
