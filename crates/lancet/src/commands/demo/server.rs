//! The server of the demonstration, which ends with this value and leaves nothing behind.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use languages::demo::Demo;
use nix::unistd::mkdtemp;

use crate::itself::ends_within;

/// How long it may take to begin, and to end when it is told.
const PATIENCE: Duration = Duration::from_secs(20);

/// The running server.
pub struct Server {
    /// Its process.
    pub pid: i32,
    /// The process with those who wait for a lock.
    pub waits: i32,
    /// Its script.
    pub script: PathBuf,
    // In this order they end: the server's end gives the lock back for which the worker waits.
    _server: Running,
    _worker: Option<Running>,
    /// Goes with the script.
    _folder: Folder,
}

/// A process that runs the script, and ends with this value.
struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
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
        let why = || format!("{} does not run the server", demo.interpreter);
        let mut server = Running::start(demo, &script, &[])?;
        let pid = server.ready().with_context(why)?;
        let mut worker = match demo.has_worker {
            true => Some(Running::start(demo, &script, &["worker"])?),
            false => None,
        };
        let waits = match &mut worker {
            Some(worker) => worker.go_on().with_context(why)?,
            None => pid,
        };
        Ok(Server {
            pid,
            waits,
            script,
            _server: server,
            _worker: worker,
            _folder: folder,
        })
    }
}

impl Running {
    fn start(demo: &Demo, script: &Path, words: &[&str]) -> anyhow::Result<Self> {
        let mut command = Command::new(demo.interpreter);
        command
            .arg(script)
            .args(words)
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
        Ok(Running {
            stdin: child.stdin.take(),
            stdout: child.stdout.take(),
            child,
        })
    }

    /// Has a worker go on, and waits until it says that it will wait for the lock.
    fn go_on(&mut self) -> anyhow::Result<i32> {
        if let Some(stdin) = &mut self.stdin {
            stdin.write_all(b"go\n")?;
        }
        self.ready()
    }

    /// Waits until it says that it is ready, and returns its process.
    fn ready(&mut self) -> anyhow::Result<i32> {
        let stdout = self.stdout.take();
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
        let number = line.trim_end().strip_prefix("ready ");
        match number.and_then(|number| number.parse().ok()) {
            Some(pid) => Ok(pid),
            None => bail!("it ended, or has said `{}`", line.trim_end()),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // That ends it.
        drop(self.stdin.take());
        let _ = ends_within(&self.child, PATIENCE, &mut || {});
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
