//! The screen of `--live` on a terminal: what is there when it has been left.

use std::io::{Read, Write};
use std::process::{Command, Stdio};

use crate::support::{Guest, LIMIT, rubies, tool, wait};

/// The end of the alternate screen (xterm, `rmcup`): what comes behind it stays.
const LEFT: &str = "\x1b[?1049l";

/// Ctrl-C leaves the screen, and the last look stays behind as a table.
#[test]
fn ctrl_c_leaves_the_last_look_behind() {
    for ruby in rubies("the screen is left") {
        let guest = Guest::script(&ruby, "live/heap.rb", &[]);
        guest.expect("ready");
        // `script` gives it a terminal.
        let tool = tool();
        let size = "stty cols 100 rows 24";
        let line = format!(
            "{size}; exec {} mem --live -p {}",
            tool.display(),
            guest.pid
        );
        let mut child = Command::new("script")
            .args(["-qec", &line, "/dev/null"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("script, of Debian's bsdutils");
        let mut output = child.stdout.take().expect("a pipe");
        let mut keys = child.stdin.take().expect("a pipe");
        let mut seen = Vec::new();
        let mut piece = [0; 4096];
        // The totals are there after the first look.
        while !String::from_utf8_lossy(&seen).contains("paused") {
            let count = output.read(&mut piece).expect("a terminal");
            assert!(count > 0, "{ruby}: {}", String::from_utf8_lossy(&seen));
            seen.extend_from_slice(&piece[..count]);
        }
        keys.write_all(b"\x03").expect("it reads keys");
        output.read_to_end(&mut seen).expect("a terminal");
        let status = wait(&mut child, LIMIT).expect("it ends");
        assert!(status.success(), "{ruby}: {status}");
        let text = String::from_utf8_lossy(&seen);
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
