//! A destination that never keeps us waiting for long: what is written goes through a bounded queue to a thread of its
//! own.
//!
//! `lancet calls` must go on reading what its guests say while nobody reads what it says (`| less`, a full disk cache, a
//! terminal that is stopped), because guests wait for room. A queue that is full is waited for once, for as long as a
//! guest may be made to wait. From then on whole lines are dropped and counted, until all that is in the queue was
//! written.

use super::interrupt;
use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The most that waits to be written, in bytes.
const MOST: usize = 16 << 20;
/// What is handed to the thread at once, in bytes.
const CHUNK: usize = 64 << 10;
/// Between two looks for Ctrl-C while we wait.
const LOOK: Duration = Duration::from_millis(20);
/// After Ctrl-C, a reader that takes nothing for so long is not waited for.
const GRACE: Duration = Duration::from_millis(400);

#[derive(Default)]
struct State {
    chunks: VecDeque<Vec<u8>>,
    /// Bytes in the queue, what is being written included.
    bytes: usize,
    /// Bytes that were written so far.
    written: u64,
    error: Option<(io::ErrorKind, String)>,
    /// A wait was in vain; the next one is worth it when the queue was emptied.
    gave_up: bool,
    /// What was queued last ends within a line, and the rest of that line was dropped.
    torn: bool,
    dropped: u64,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The end that is written to.
pub struct Queued {
    pending: Vec<u8>,
    /// What was queued last ends within a line.
    within_line: bool,
    most_wait: Duration,
    shared: Arc<Shared>,
}

/// The other end: what became of it.
pub struct Written(Arc<Shared>);

/// Writes to `to` from a thread of its own. `name` is for errors; `most_wait` is how long a full queue is waited for.
pub fn queued(
    to: impl Write + Send + 'static,
    name: String,
    most_wait: Duration,
) -> (Queued, Written) {
    let shared = Arc::new(Shared {
        state: Mutex::default(),
        changed: Condvar::new(),
    });
    let theirs = shared.clone();
    thread::spawn(move || drain(&theirs, to, &name));
    let written = Written(shared.clone());
    let queued = Queued {
        pending: Vec::new(),
        within_line: false,
        most_wait,
        shared,
    };
    (queued, written)
}

/// The thread that writes.
fn drain(shared: &Shared, mut to: impl Write, name: &str) {
    loop {
        let mut state = shared.lock();
        let chunk = loop {
            if let Some(chunk) = state.chunks.pop_front() {
                break chunk;
            }
            state = shared
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        };
        drop(state);
        process::fault::point("writing");
        let mut rest = &chunk[..];
        let mut done = Ok(());
        while !rest.is_empty() && done.is_ok() {
            match to.write(rest).and_then(|count| to.flush().map(|()| count)) {
                Ok(0) => done = Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    rest = &rest[count..];
                    shared.lock().written += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => done = Err(error),
            }
        }
        let mut state = shared.lock();
        state.bytes -= chunk.len();
        if let Err(error) = done {
            let text = format!("cannot write to {name}: {error}");
            state.error = Some((error.kind(), text));
            shared.changed.notify_all();
            return;
        }
        shared.changed.notify_all();
    }
}

fn failed(state: &State) -> io::Result<()> {
    match &state.error {
        Some((kind, text)) => Err(io::Error::new(*kind, text.clone())),
        None => Ok(()),
    }
}

impl Queued {
    /// Queues the first `length` bytes of what is pending, or drops them.
    fn push(&mut self, length: usize) -> io::Result<()> {
        let rest = self.pending.split_off(length);
        let mut chunk = std::mem::replace(&mut self.pending, rest);
        let mut state = self.shared.lock();
        failed(&state)?;
        if chunk.is_empty() {
            return Ok(());
        }
        let full = |state: &State| state.bytes != 0 && state.bytes + chunk.len() > MOST;
        let began = Instant::now();
        while full(&state)
            && !state.gave_up
            && began.elapsed() < self.most_wait
            && !interrupt::asked()
        {
            let (next, _) = self
                .shared
                .changed
                .wait_timeout(state, LOOK)
                .unwrap_or_else(PoisonError::into_inner);
            state = next;
            failed(&state)?;
        }
        state.gave_up = full(&state) || state.gave_up && state.bytes != 0;
        if state.gave_up {
            state.dropped += chunk.iter().filter(|byte| **byte == b'\n').count() as u64;
            state.torn |= self.within_line;
            return Ok(());
        }
        if std::mem::take(&mut state.torn) {
            chunk.insert(0, b'\n');
        }
        self.within_line = chunk.last() != Some(&b'\n');
        state.bytes += chunk.len();
        state.chunks.push_back(chunk);
        self.shared.changed.notify_all();
        Ok(())
    }
}

impl Write for Queued {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.pending.extend_from_slice(bytes);
        if self.pending.len() >= CHUNK
            && let Some(end) = self.pending.iter().rposition(|byte| *byte == b'\n')
        {
            self.push(end + 1)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.push(self.pending.len())
    }
}

impl Written {
    /// Waits until all that was queued is written; after Ctrl-C only as long as it goes on. How many lines were dropped.
    pub fn finish(&self) -> io::Result<u64> {
        let mut state = self.0.lock();
        let mut since = (state.written, Instant::now());
        while state.bytes != 0 && state.error.is_none() {
            if since.0 != state.written || !interrupt::asked() {
                since = (state.written, Instant::now());
            }
            if since.1.elapsed() > GRACE {
                let left = state.chunks.iter().flatten();
                state.dropped += left.filter(|byte| **byte == b'\n').count() as u64;
                break;
            }
            let (next, _) = self
                .0
                .changed
                .wait_timeout(state, LOOK)
                .unwrap_or_else(PoisonError::into_inner);
            state = next;
        }
        failed(&state)?;
        Ok(state.dropped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, pipe};

    #[test]
    fn what_a_reader_takes_is_whole_and_in_order() {
        let (reader, writer) = pipe().unwrap();
        let read =
            thread::spawn(move || BufReader::new(reader).lines().map_while(Result::ok).count());
        let (mut queue, written) = queued(writer, "a pipe".into(), Duration::from_secs(60));
        for number in 0..100_000 {
            writeln!(queue, "{number}").unwrap();
        }
        queue.flush().unwrap();
        assert_eq!(written.finish().unwrap(), 0);
        assert_eq!(written.0.lock().dropped, 0);
        drop((queue, written));
        let _ = read;
    }

    #[test]
    fn nobody_waits_for_a_reader_that_has_stopped() {
        let (mut reader, writer) = pipe().unwrap();
        let (mut queue, written) = queued(writer, "a pipe".into(), Duration::from_millis(50));
        let line = [b"x".repeat(1023), b"\n".to_vec()].concat();
        let lines = MOST / line.len() * 2;
        let began = Instant::now();
        for _ in 0..lines {
            queue.write_all(&line).unwrap();
        }
        queue.flush().unwrap();
        assert!(began.elapsed() < Duration::from_secs(30));
        let dropped = written.0.lock().dropped;
        assert!(dropped > 0, "nothing was dropped");
        // All that was not dropped is there.
        let told = (lines as u64 - dropped) * line.len() as u64;
        let mut bytes = vec![0; told as usize];
        io::Read::read_exact(&mut reader, &mut bytes).unwrap();
        assert!(bytes.chunks(line.len()).all(|read| read == line));
        assert_eq!(written.finish().unwrap(), dropped);
    }

    #[test]
    fn a_reader_that_is_gone_is_an_error_of_its_kind() {
        let (reader, writer) = pipe().unwrap();
        drop(reader);
        let (mut queue, written) = queued(writer, "a pipe".into(), Duration::from_secs(1));
        queue.write_all(b"a line\n").unwrap();
        let _ = queue.flush();
        let error = written.finish().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        assert!(queue.flush().is_err());
    }
}
