//! Tells the agent's own health in the text form of Prometheus, at a port of this machine or a socket. Used by `run`.
//!
//! Whoever asks is served beside the agent, a few at a time and for a moment each, so that one who asks slowly holds nothing up. Who asks without end
//! is let wait, so that the agent goes on and pays for a few a second (`run`).

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;

use super::config::Place;

/// Who is served at the same time.
const MOST: usize = 4;
/// The bytes of a request that are read.
const LONGEST: usize = 4096;
/// How long one may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// Where it is told.
pub struct Health {
    place: Place,
    listener: Listener,
    served: Arc<AtomicUsize>,
}

enum Listener {
    Port(TcpListener),
    Socket(UnixListener),
}

/// Who asks.
trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

impl Health {
    /// Listens there.
    ///
    /// # Errors
    /// Somebody else does, or it may not.
    pub fn open(place: &Place) -> anyhow::Result<Self> {
        let listener = match place {
            Place::Port(address) => {
                let listener = TcpListener::bind(address);
                let listener = listener.and_then(|one| one.set_nonblocking(true).map(|()| one));
                Listener::Port(listener.with_context(|| format!("cannot listen on {address}"))?)
            }
            Place::Socket(path) => {
                let listener = socket(path);
                let cannot = || format!("cannot listen at {}", path.display());
                Listener::Socket(listener.with_context(cannot)?)
            }
        };
        Ok(Health {
            place: place.clone(),
            listener,
            served: Arc::default(),
        })
    }

    /// Where it listens.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// What is ready when somebody asks.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        match &self.listener {
            Listener::Port(listener) => listener.as_fd(),
            Listener::Socket(listener) => listener.as_fd(),
        }
    }

    /// Serves those who have asked, or the first of many: the others are served by a later call. Returns whether somebody has asked.
    pub fn serve(&self, text: &dyn Fn() -> String) -> bool {
        let mut told: Option<Arc<str>> = None;
        for turn in 0..MOST {
            let Some(mut stream) = self.accept() else {
                return turn > 0;
            };
            if self.served.fetch_add(1, Ordering::Relaxed) >= MOST {
                // The connection is closed: there are enough.
                self.served.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            let text = told.get_or_insert_with(|| text().into()).clone();
            let served = self.served.clone();
            let serving = thread::Builder::new().spawn(move || {
                // Who does not listen has no answer.
                let _ = answer(&mut *stream, &text);
                served.fetch_sub(1, Ordering::Relaxed);
            });
            if serving.is_err() {
                // There are too many threads: the connection is closed.
                self.served.fetch_sub(1, Ordering::Relaxed);
            }
        }
        true
    }

    fn accept(&self) -> Option<Box<dyn Stream>> {
        let wait = Some(PATIENCE / 4);
        match &self.listener {
            Listener::Port(listener) => {
                let (stream, _) = listener.accept().ok()?;
                stream.set_read_timeout(wait).ok()?;
                stream.set_write_timeout(wait).ok()?;
                Some(Box::new(stream))
            }
            Listener::Socket(listener) => {
                let (stream, _) = listener.accept().ok()?;
                stream.set_read_timeout(wait).ok()?;
                stream.set_write_timeout(wait).ok()?;
                Some(Box::new(stream))
            }
        }
    }
}

impl Drop for Health {
    fn drop(&mut self) {
        if let Place::Socket(path) = &self.place {
            // Nobody is left to tell.
            let _ = fs::remove_file(path);
        }
    }
}

/// Makes a socket that only this user can reach, in the place of one that an earlier run has left.
fn socket(path: &Path) -> io::Result<UnixListener> {
    let is_socket = |of: fs::Metadata| of.file_type().is_socket();
    if path.symlink_metadata().is_ok_and(is_socket)
        && std::os::unix::net::UnixStream::connect(path).is_err()
    {
        fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Reads a request, as much of it as matters, and answers.
fn answer(stream: &mut dyn Stream, text: &str) -> io::Result<()> {
    let began = Instant::now();
    let mut request = Vec::new();
    let mut bytes = [0; 512];
    while !request.windows(4).any(|four| four == b"\r\n\r\n") {
        if request.len() > LONGEST || began.elapsed() > PATIENCE {
            return Ok(());
        }
        match stream.read(&mut bytes)? {
            0 => return Ok(()),
            read => request.extend_from_slice(&bytes[..read]),
        }
    }
    let is_asked = [&b"GET /metrics "[..], b"GET / "];
    let is_asked = is_asked.iter().any(|asked| request.starts_with(asked));
    let (status, body) = match is_asked {
        true => ("200 OK", text),
        false => ("404 Not Found", "there is /metrics\n"),
    };
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}

/// A text in the form of Prometheus.
#[derive(Default)]
pub struct Text(String);

impl Text {
    /// Begins a figure: its name, `counter` or `gauge`, and what it is.
    pub fn figure(&mut self, name: &str, kind: &str, about: &str) {
        let _ = writeln!(
            self.0,
            "# HELP lancet_agent_{name} {about}\n# TYPE lancet_agent_{name} {kind}"
        );
    }

    /// A value of it. No label has a character that would have to be escaped: names of services are plain.
    pub fn value(&mut self, name: &str, labels: &str, value: impl std::fmt::Display) {
        let braces = if labels.is_empty() { "" } else { "{}" };
        let (open, close) = braces.split_at(braces.len() / 2);
        let _ = writeln!(self.0, "lancet_agent_{name}{open}{labels}{close} {value}");
    }

    /// The answer to one request of Prometheus: the lines that were written.
    pub fn into_text(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpStream;

    #[test]
    fn who_asks_is_told_and_who_is_silent_holds_nothing_up() {
        let health = Health::open(&Place::Port("127.0.0.1:0".parse().expect("an address")));
        let health = health.expect("a port");
        let Listener::Port(listener) = &health.listener else {
            panic!("it is a port");
        };
        let address = listener.local_addr().expect("an address");
        let mut silent: Vec<TcpStream> = Vec::new();
        let asked = |path: &str, silent: &mut Vec<TcpStream>| {
            let mut stream = TcpStream::connect(address).expect("it listens");
            write!(stream, "GET {path} HTTP/1.1\r\n\r\n").expect("it reads");
            // Those who have asked before it, and it.
            for _ in 0..2 {
                health.serve(&|| "up 1\n".to_owned());
            }
            let mut text = String::new();
            let read = stream.read_to_string(&mut text);
            silent.push(stream);
            read.map_or(String::new(), |_| text)
        };
        assert!(asked("/metrics", &mut silent).ends_with("\r\n\r\nup 1\n"));
        assert!(asked("/other", &mut silent).starts_with("HTTP/1.1 404"));
        silent.clear();
        silent.extend((0..MOST).map(|_| TcpStream::connect(address).expect("it listens")));
        // Those who say nothing are given up, and there is room again.
        let began = Instant::now();
        while !asked("/metrics", &mut Vec::new()).contains("up 1") {
            assert!(began.elapsed() < Duration::from_secs(60));
        }
        // Of many who ask at once only the first are served: the others wait.
        silent.extend((0..=MOST).map(|_| TcpStream::connect(address).expect("it listens")));
        assert!(health.serve(&String::new));
        assert!(health.accept().is_some() && health.accept().is_none());
        assert!(!health.serve(&String::new));
    }

    #[test]
    fn figures_have_labels() {
        let mut text = Text::default();
        text.figure("captures_total", "counter", "Captures");
        text.value("captures_total", "task=\"a\"", 3);
        text.value("captures_total", "", 0.5);
        assert_eq!(
            text.into_text(),
            "# HELP lancet_agent_captures_total Captures\n# TYPE lancet_agent_captures_total counter\n\
             lancet_agent_captures_total{task=\"a\"} 3\nlancet_agent_captures_total 0.5\n"
        );
    }
}
