//! The server of the demonstration, which ends with this value and leaves nothing behind.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use languages::demo::Demo;
use nix::unistd::mkdtemp;

/// How long it may take to begin, and to end when it is told.
const PATIENCE: Duration = Duration::from_secs(20);
/// Between two looks whether it has ended.
const LOOK: Duration = Duration::from_millis(10);

/// The running server.
pub struct Server {
    /// Its process.
    pub pid: i32,
    /// The process with those who wait for a lock.
    pub waits: i32,
    /// Its script.
    pub script: PathBuf,
    /// Goes with the script.
    _folder: Folder,
    child: Child,
    stdin: Option<ChildStdin>,
}

/// A folder for the script, which goes with this value.
struct Folder(PathBuf);

impl Folder {
    fn make() -> anyhow::Result<Self> {
        let name = std::env::temp_dir().join("lancet-demo-XXXXXX");
        let made = mkdtemp(&name);
        Ok(Folder(made.with_context(|| {
            format!("cannot make a folder in {}", std::env::temp_dir().display())
        })?))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Server {
    /// Starts it, and waits until it serves.
    ///
    /// # Errors
    /// There is no place for its script, or the interpreter does not run it.
    pub fn start(demo: &Demo) -> anyhow::Result<Self> {
        let folder = Folder::make()?;
        let script = folder.0.join(demo.file);
        fs::write(&script, demo.text)
            .with_context(|| format!("cannot write to {}", script.display()))?;
        let mut command = Command::new(demo.interpreter);
        command
            .arg(&script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C is for us: the server is left by whoever looks at it, and told to end then.
            .process_group(0);
        // SAFETY: in the new process system calls are made, on numbers. Where Yama lets a process be traced by its ancestors alone, the one that
        // runs here may be traced by us and those whom we start; elsewhere the call does nothing.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PTRACER, libc::getppid());
                Ok(())
            })
        };
        let mut child = command
            .spawn()
            .with_context(|| format!("cannot start {}", demo.interpreter))?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let mut server = Server {
            pid: child.id() as i32,
            waits: 0,
            script,
            _folder: folder,
            child,
            stdin,
        };
        let [pid, waits] = ready(stdout)
            .with_context(|| format!("{} does not run the server", demo.interpreter))?;
        (server.pid, server.waits) = (pid, waits);
        Ok(server)
    }
}

/// Waits until the server says that it serves, and returns the two processes that it names.
fn ready(stdout: Option<ChildStdout>) -> anyhow::Result<[i32; 2]> {
    let (send, line) = channel();
    thread::spawn(move || {
        let mut line = String::new();
        if let Some(stdout) = stdout {
            let _ = BufReader::new(stdout).read_line(&mut line);
        }
        // Who waits may have given up.
        let _ = send.send(line);
    });
    let line = line
        .recv_timeout(PATIENCE)
        .with_context(|| format!("it was not ready within {} s", PATIENCE.as_secs()))?;
    let words = line.strip_prefix("ready ").unwrap_or_default();
    let numbers: Vec<i32> = words
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    match numbers[..] {
        [pid, waits] => Ok([pid, waits]),
        _ => bail!("it ended, or has said `{}`", line.trim_end()),
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // That ends it.
        drop(self.stdin.take());
        let began = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && began.elapsed() < PATIENCE {
            thread::sleep(LOOK);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
