//! Another lancet of our own: how it is started, asked to end, and waited for. Used by `commands::companion`, `commands::demo`,
//! `commands::mcp` and others.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use process::pidfd::PidFd;

use crate::ui::interrupt;

/// The most bytes that are kept of its answer: the first ones.
const MOST: u64 = 4 << 20;
/// The same of its messages: the last ones, among which losses and the reason of a failure are.
const MOST_SAID: usize = 64 << 10;
/// Between two looks whether it is to be asked to end.
const LOOK: Duration = Duration::from_millis(50);
/// How long one that was asked to end may take to leave its processes.
const GRACE: Duration = Duration::from_secs(60);

/// A command, and how it is run.
pub struct Run<'a> {
    /// The words of its command line, without the name of the program.
    pub words: &'a [String],
    /// What takes its standard output; `None`: the beginning of that is kept.
    pub out: Option<File>,
    /// How long it may take.
    pub most: Duration,
    /// Is asked again and again, with its process id, whether it is to end before it is done.
    pub is_over: &'a dyn Fn(i32) -> bool,
}

/// What it has answered.
pub struct Answer {
    /// Its exit code; `None`: a signal has ended it.
    pub code: Option<i32>,
    /// It was asked to end before it was done.
    pub is_cut_short: bool,
    /// The beginning of its standard output.
    pub out: Kept,
    /// The end of its standard error.
    pub said: Kept,
}

/// What is kept of a stream.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// The text.
    pub text: String,
    /// How many bytes are not in it.
    pub lost: u64,
}

/// Our own program, whatever its path leads to by now: a package may be upgraded while we run.
pub fn command() -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("lancet");
    command
}

/// Has this process the name by which another lancet knows it for one, and waits until it has left a process
/// ([`process::Error::may_pass`]): one that [`command`] has started is called `exe` by the kernel.
pub fn take_name() {
    // Without it the other one says who traces the process, and ends.
    let _ = nix::sys::prctl::set_name(c"lancet");
}

/// Asks one to end, as Ctrl-C does.
pub fn ask_to_end(child: &Child) {
    // It is our child and was not waited for, so the number is its own.
    let _ = kill(Pid::from_raw(child.id() as i32), Signal::SIGINT);
}

/// Whether a child of ours ends by then; it is there until we have waited for it, so its id is its own.
///
/// # Errors
/// Those of pidfd_open(2).
pub fn ends_within(
    child: &Child,
    patience: Duration,
    meanwhile: &mut dyn FnMut(),
) -> io::Result<bool> {
    let process = PidFd::open(child.id() as i32).map_err(io::Error::other)?;
    let deadline = Instant::now() + patience;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        // A signal of ours may end the wait before its time.
        match process.has_ended(left.min(LOOK)) {
            true => return Ok(true),
            false if left.is_zero() => return Ok(false),
            false => meanwhile(),
        }
    }
}

/// Runs a command to its end. After `most`, or when `is_over` says so, it is asked to end, and its answer is what it knew.
/// Where we are killed it is asked, too, so that it leaves its processes.
///
/// # Errors
/// It cannot be started.
pub fn run(run: Run) -> io::Result<Answer> {
    let mut command = command();
    command
        .args(run.words)
        .stdin(Stdio::null())
        .stdout(run.out.map_or_else(Stdio::piped, Stdio::from))
        .stderr(Stdio::piped())
        // The Ctrl-C of a terminal is ours, and we pass it on: where we ignore it (a script in the background) it would end this one.
        .process_group(0);
    let parent = std::process::id() as i32;
    // SAFETY: in the new process two system calls are made, on numbers. The thread that starts it waits for its end, so that the signal comes
    // with our end alone.
    unsafe { command.pre_exec(move || interrupt::ask_at_end_of(parent)) };
    let mut child = command.spawn()?;
    let out = first_of(child.stdout.take());
    let said = last_of(child.stderr.take());
    let (status, is_cut_short) = ended(&mut child, run.most, run.is_over)?;
    Ok(Answer {
        code: status.code(),
        is_cut_short,
        out: out.join().unwrap_or_default(),
        said: said.join().unwrap_or_default(),
    })
}

/// Waits for its end, and says whether it was asked to.
fn ended(
    child: &mut Child,
    most: Duration,
    is_over: &dyn Fn(i32) -> bool,
) -> io::Result<(ExitStatus, bool)> {
    let pid = child.id() as i32;
    let began = Instant::now();
    let mut asked: Option<Instant> = None;
    while !ends_within(child, LOOK, &mut || {})? {
        match asked {
            None if is_over(pid) || began.elapsed() >= most => {
                ask_to_end(child);
                asked = Some(Instant::now());
            }
            Some(at) if at.elapsed() >= GRACE => child.kill()?,
            _ => {}
        }
    }
    Ok((child.wait()?, asked.is_some()))
}

/// Reads a stream to its end, and keeps its beginning.
fn first_of(stream: Option<impl Read + Send + 'static>) -> JoinHandle<Kept> {
    thread::spawn(move || {
        let Some(mut stream) = stream else {
            return Kept::default();
        };
        let mut kept = Vec::new();
        let _ = stream.by_ref().take(MOST).read_to_end(&mut kept);
        // The rest is read all the same: who writes it must not wait for us.
        let lost = io::copy(&mut stream, &mut io::sink()).unwrap_or_default();
        Kept::of(&kept, lost)
    })
}

/// Reads a stream to its end, and keeps that.
fn last_of(stream: Option<impl Read + Send + 'static>) -> JoinHandle<Kept> {
    thread::spawn(move || match stream {
        Some(mut stream) => last(&mut stream),
        None => Kept::default(),
    })
}

fn last(stream: &mut impl Read) -> Kept {
    let (mut kept, mut lost) = (Vec::new(), 0);
    loop {
        let read = stream
            .by_ref()
            .take(MOST_SAID as u64)
            .read_to_end(&mut kept);
        let over = kept.len().saturating_sub(MOST_SAID);
        kept.drain(..over);
        lost += over as u64;
        if !matches!(read, Ok(1..)) {
            return Kept::of(&kept, lost);
        }
    }
}

impl Kept {
    fn of(bytes: &[u8], lost: u64) -> Self {
        let text = String::from_utf8_lossy(bytes).into_owned();
        Kept { text, lost }
    }

    /// Its beginning, up to the end of a line; how much is left out is said.
    pub fn first(&self, most: usize) -> String {
        let text = &self.text;
        let kept = &text[..text.floor_char_boundary(most)];
        let kept = match kept.len() < text.len() {
            true => kept.rsplit_once('\n').map_or(kept, |(kept, _)| kept),
            false if self.lost == 0 => return text.clone(),
            false => kept,
        };
        let lost = (text.len() - kept.len()) as u64 + self.lost;
        format!("{kept}\n… and {lost} bytes more\n")
    }

    /// Its end, from the beginning of a line; how much is left out is said.
    pub fn last(&self, most: usize) -> String {
        let text = &self.text;
        let kept = &text[text.ceil_char_boundary(text.len().saturating_sub(most))..];
        if kept.len() == text.len() && self.lost == 0 {
            return text.clone();
        }
        let kept = kept.split_once('\n').map_or(kept, |(_, kept)| kept);
        let lost = (text.len() - kept.len()) as u64 + self.lost;
        format!("{lost} bytes before, …\n{kept}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_answer_is_cut_at_a_line() {
        let kept = |text: &str, lost| Kept::of(text.as_bytes(), lost);
        assert_eq!(kept("a\nb\n", 0).first(9), "a\nb\n");
        assert_eq!(kept("aaa\nbbbé\n", 0).first(8), "aaa\n… and 7 bytes more\n");
        assert_eq!(kept("a\nb", 3).first(9), "a\nb\n… and 3 bytes more\n");
        assert_eq!(kept("a\nb\n", 0).last(9), "a\nb\n");
        assert_eq!(kept("éaaa\nbbb\n", 2).last(7), "8 bytes before, …\nbbb\n");
    }

    #[test]
    fn the_end_of_what_was_said_is_kept() {
        let lines: String = (0..20_000)
            .map(|number| format!("line {number}\n"))
            .collect();
        let kept = last(&mut lines.as_bytes());
        assert!(kept.text.ends_with("line 19999\n"));
        assert_eq!(kept.text.len(), MOST_SAID);
        assert_eq!(kept.lost as usize, lines.len() - MOST_SAID);
    }
}
