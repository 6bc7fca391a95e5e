//! A live view of lancet on a terminal of its own, which `script` gives it.

use std::io::{Read, Write};
use std::num::NonZero;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

use super::{LIMIT, children, tool, until, wait};

/// The end of the alternate screen (xterm, `rmcup`): what comes behind it stays.
const LEFT: &str = "\x1b[?1049l";

const LINES: NonZero<u16> = NonZero::new(24).expect("not 0");
const COLUMNS: NonZero<u16> = NonZero::new(100).expect("not 0");

/// A running lancet and what it has written so far. The test must end it by [`Screen::left`] or [`Screen::cut`], because dropping it neither
/// stops lancet nor waits for it.
pub struct Screen {
    script: Child,
    keys: ChildStdin,
    output: ChildStdout,
    seen: Vec<u8>,
    /// What a terminal shows of the output so far.
    terminal: vt100::Parser,
}

impl Screen {
    /// Starts lancet with these words on a terminal of 100 columns and 24 lines.
    pub fn of(words: &[&str]) -> Self {
        let words = words.join(" ");
        let line = format!(
            "stty cols {COLUMNS} rows {LINES}; exec {} {words}",
            tool().display()
        );
        let mut script = Command::new("script")
            .args(["-qec", &line, "/dev/null"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("script, of Debian's bsdutils");
        Screen {
            keys: script.stdin.take().expect("a pipe"),
            output: script.stdout.take().expect("a pipe"),
            script,
            seen: Vec::new(),
            terminal: vt100::Parser::new(LINES, COLUMNS, 0),
        }
    }

    /// Reads until this is on the screen.
    pub fn until(&mut self, wanted: &str) {
        let mut piece = [0; 4096];
        while !self.terminal.screen().contents().contains(wanted) {
            let count = self.output.read(&mut piece).expect("a terminal");
            let shown = self.terminal.screen().contents();
            assert!(count > 0, "no {wanted:?} before the end: {shown}");
            self.terminal.process(&piece[..count]);
            self.seen.extend_from_slice(&piece[..count]);
        }
    }

    /// Sends keys, as the bytes that a terminal sends for them.
    pub fn press(&mut self, keys: &[u8]) {
        self.keys.write_all(keys).expect("it reads keys");
    }

    /// The process of lancet.
    pub fn lancet(&self) -> i32 {
        let [lancet] = children(self.script.id() as i32)[..] else {
            panic!("not one child");
        };
        lancet
    }

    /// Waits for the end of lancet; how it has ended, and what it has written behind the screen.
    pub fn left(mut self) -> (ExitStatus, String) {
        let read = self.output.read_to_end(&mut self.seen);
        read.expect("a terminal");
        let status = wait(&mut self.script, LIMIT).expect("it ends");
        let text = String::from_utf8_lossy(&self.seen).into_owned();
        let (_, left) = text.rsplit_once(LEFT).expect("it leaves the screen");
        (status, left.to_owned())
    }

    /// Cuts the connection, and waits for the end of lancet.
    pub fn cut(mut self) {
        let lancet = self.lancet();
        self.script.kill().expect("our child");
        self.script.wait().expect("our child");
        until(LIMIT, "lancet ends", || {
            let stat = std::fs::read_to_string(format!("/proc/{lancet}/stat")).unwrap_or_default();
            (stat.is_empty() || stat.contains(") Z ")).then_some(())
        });
    }
}
