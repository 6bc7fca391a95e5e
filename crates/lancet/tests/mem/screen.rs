//! The screen of `--live` on a terminal: what is there when it has been left.

use crate::support::{Guest, Screen, rubies};

/// Opens a guest, and waits for the first look.
fn opened(guest: &Guest) -> Screen {
    let mut screen = Screen::of(&["mem", "--live", "-p", &guest.pid.to_string()]);
    // What it costs is there after the first look.
    screen.until("paused");
    screen
}

/// Ctrl-C leaves the screen, and the last look stays behind as a table.
#[test]
fn ctrl_c_leaves_the_last_look_behind() {
    for ruby in rubies("the screen is left") {
        let guest = Guest::script(&ruby, "live/heap.rb", &[]);
        guest.expect("ready");
        let mut screen = opened(&guest);
        screen.press(b"\x03");
        let (status, left) = screen.left();
        assert!(status.success(), "{ruby}: {status}");
        for part in [
            ", watched for ",
            "no verdict on leaks yet",
            " total",
            "(before lancet)",
        ] {
            assert!(left.contains(part), "{ruby}: no {part:?} in {left}");
        }
    }
}

/// The connection is cut: lancet leaves the guest and ends, where it once read the end of the terminal for ever.
#[test]
fn a_terminal_that_is_gone_ends_it() {
    for ruby in rubies("the terminal is gone") {
        let guest = Guest::script(&ruby, "live/heap.rb", &[]);
        guest.expect("ready");
        opened(&guest).cut();
        // Another is not refused: this one has left.
        drop(opened(&guest));
    }
}
