//! Another command of lancet, run as a process of its own whose answer is handed on. Used by `commands::demo` and `commands::mcp`.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// The most bytes that are kept of each of its streams.
const MOST: usize = 4 << 20;
/// Between two looks whether it has ended.
const LOOK: Duration = Duration::from_millis(20);
/// How long one that was asked to end may take to leave its processes.
const GRACE: Duration = Duration::from_secs(60);

/// What it has answered.
pub struct Answer {
    /// Its exit code; `None`: it was killed.
    pub code: Option<i32>,
    /// Its standard output.
    pub out: String,
    /// Its standard error.
    pub said: String,
}

/// Runs the command with these words to its end. After `most`, or when `is_over` says so, it is asked to end as by Ctrl-C, and its answer is
/// what it knew. Where we are killed it is asked, too, so that it leaves its processes.
///
/// # Errors
/// It cannot be started.
pub fn run(words: &[String], most: Duration, is_over: &dyn Fn() -> bool) -> io::Result<Answer> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // SAFETY: in the new process one system call is made, on numbers. The thread that starts it waits for its end, so that the signal comes
    // with our end alone.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGINT);
            Ok(())
        })
    };
    let mut child = command.spawn()?;
    let out = kept(child.stdout.take());
    let said = kept(child.stderr.take());
    let status = ended(&mut child, most, is_over)?;
    let text = |kept: JoinHandle<Vec<u8>>| {
        let bytes = kept.join().unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    Ok(Answer {
        code: status.code(),
        out: text(out),
        said: text(said),
    })
}

fn ended(
    child: &mut Child,
    most: Duration,
    is_over: &dyn Fn() -> bool,
) -> io::Result<std::process::ExitStatus> {
    let began = Instant::now();
    let mut asked: Option<Instant> = None;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        match asked {
            None if is_over() || began.elapsed() >= most => {
                // It is our child and was not waited for, so the number is its own.
                let _ = kill(Pid::from_raw(child.id() as i32), Signal::SIGINT);
                asked = Some(Instant::now());
            }
            Some(at) if at.elapsed() >= GRACE => child.kill()?,
            _ => {}
        }
        sleep(LOOK);
    }
}

/// Reads a stream to its end, and keeps its beginning.
fn kept(stream: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut kept = Vec::new();
        if let Some(mut stream) = stream {
            let _ = stream.by_ref().take(MOST as u64).read_to_end(&mut kept);
            // The rest is read all the same: who writes it must not wait for us.
            let _ = io::copy(&mut stream, &mut io::sink());
        }
        kept
    })
}
