//! The screen of `--live` on a terminal: what is there when it has been left.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::support::{Guest, LIMIT, children, rubies, tool, until, wait};

/// The end of the alternate screen (xterm, `rmcup`): what comes behind it stays.
const LEFT: &str = "\x1b[?1049l";

/// `lancet mem --live` on a terminal of its own, which `script` gives it.
struct Screen {
    script: Child,
    keys: ChildStdin,
    output: ChildStdout,
    seen: Vec<u8>,
}

impl Screen {
    /// Opens a guest, and waits for the first look.
    fn of(guest: &Guest) -> Self {
        let (tool, pid) = (tool(), guest.pid);
        let line = format!(
            "stty cols 100 rows 24; exec {} mem --live -p {pid}",
            tool.display()
        );
        let mut script = Command::new("script")
            .args(["-qec", &line, "/dev/null"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("script, of Debian's bsdutils");
        let mut screen = Screen {
            keys: script.stdin.take().expect("a pipe"),
            output: script.stdout.take().expect("a pipe"),
            script,
            seen: Vec::new(),
        };
        let mut piece = [0; 4096];
        // What it costs is there after the first look.
        while !screen.text().contains("paused") {
            let count = screen.output.read(&mut piece).expect("a terminal");
            assert!(count > 0, "{}", screen.text());
            screen.seen.extend_from_slice(&piece[..count]);
        }
        screen
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.seen).into_owned()
    }
}

/// Ctrl-C leaves the screen, and the last look stays behind as a table.
#[test]
fn ctrl_c_leaves_the_last_look_behind() {
    for ruby in rubies("the screen is left") {
        let guest = Guest::script(&ruby, "live/heap.rb", &[]);
        guest.expect("ready");
        let mut screen = Screen::of(&guest);
        screen.keys.write_all(b"\x03").expect("it reads keys");
        screen
            .output
            .read_to_end(&mut screen.seen)
            .expect("a terminal");
        let status = wait(&mut screen.script, LIMIT).expect("it ends");
        assert!(status.success(), "{ruby}: {status}");
        let text = screen.text();
        let (_, left) = text.rsplit_once(LEFT).expect("it leaves the screen");
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
        let mut screen = Screen::of(&guest);
        let [lancet] = children(screen.script.id() as i32)[..] else {
            panic!("not one child");
        };
        screen.script.kill().expect("our child");
        screen.script.wait().expect("our child");
        until(LIMIT, "lancet ends", || {
            let stat = std::fs::read_to_string(format!("/proc/{lancet}/stat")).unwrap_or_default();
            (stat.is_empty() || stat.contains(") Z ")).then_some(())
        });
        // Another is not refused: this one has left.
        drop(Screen::of(&guest));
    }
}
