//! A destination that never keeps us waiting for long: what is written goes through a bounded queue to a thread of its
//! own. Used by `sink` and `watching::run`.
//!
//! `lancet calls` must go on reading what its guests say while nobody reads what it says (`| less`, a full disk cache, a
//! terminal that is stopped), because guests wait for room. A queue that is full is waited for once, for as long as a
//! guest may be made to wait. From then on whole lines are dropped and counted, until all that is in the queue was
//! written.
//!
//! A recording cannot lose lines: what is in it refers to what was written before. So whoever records asks for room before each
//! event ([`calls::recorder::Destination`]) and drops the event; what is written is queued whole ([`Kind::Whole`]).

use super::interrupt;
use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The most that waits to be written, in bytes.
const MOST: usize = 16 << 20;
/// What is handed to the thread at once, in bytes. One write of so much costs a file system a third less than four of a
/// fourth (ext4, which takes larger pieces of memory for it), and it fits into the second cache.
const CHUNK: usize = 256 << 10;
/// Who writes so much at once has much more to write.
const MUCH: usize = 16 << 10;
/// Empty buffers that are kept to be filled again.
const SPARE: usize = 2;
/// Between two looks for Ctrl-C while we wait.
const LOOK: Duration = Duration::from_millis(20);
/// After Ctrl-C, a reader that takes nothing for so long is not waited for.
const GRACE: Duration = Duration::from_millis(400);

#[derive(Default)]
struct State {
    chunks: VecDeque<Vec<u8>>,
    /// Empty ones: a new buffer would be new memory, which the kernel fills with zeros page by page.
    spare: Vec<Vec<u8>>,
    /// Bytes in the queue, what is being written included.
    bytes: usize,
    /// When the thread began the write that it is in. It may be behind for want of a processor, too, which is no fault of the reader's.
    writing: Option<Instant>,
    error: Option<(io::ErrorKind, String)>,
    /// A wait was in vain; the next one is worth it when the queue was emptied.
    gave_up: bool,
    /// What was queued last ends within a line, and the rest of that line was dropped.
    torn: bool,
    dropped: u64,
    /// The last head that was dropped: it stands before the next line that is not.
    head: Option<Vec<u8>>,
    /// Nothing more is queued: the thread ends when all of it is written.
    closed: bool,
    /// The thread has ended, by a panic if anything is left: nobody writes any more.
    ended: bool,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for room for so many bytes, as long as it is worth it; [`State::gave_up`] says whether there is none.
    fn wait_for_room<'s>(
        &'s self,
        mut state: MutexGuard<'s, State>,
        length: usize,
        most_wait: Duration,
    ) -> io::Result<MutexGuard<'s, State>> {
        let full = |state: &State| state.bytes != 0 && state.bytes + length > MOST;
        let began = Instant::now();
        while full(&state) && !state.gave_up && began.elapsed() < most_wait && !interrupt::asked() {
            let (next, _) = self
                .changed
                .wait_timeout(state, LOOK)
                .unwrap_or_else(PoisonError::into_inner);
            state = next;
            failed(&state)?;
        }
        state.gave_up = full(&state) || state.gave_up && state.bytes != 0;
        Ok(state)
    }
}

/// What may be dropped where nobody reads in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Whole lines, each of which can be understood without the others.
    Lines,
    /// Nothing of what is written: the writer asks for room first.
    Whole,
}

/// The end that is written to.
pub struct Queued {
    pending: Vec<u8>,
    /// What was queued last ends within a line.
    within_line: bool,
    /// What was queued or dropped last ends within a line.
    is_begun: bool,
    kind: Kind,
    /// Which lines the others cannot be understood without.
    is_head: IsHead,
    most_wait: Duration,
    shared: Arc<Shared>,
}

/// The other end: what became of it.
pub struct Written(Arc<Shared>);

/// Writes to `to` from a thread of its own. `most_wait` is how long a full queue is waited for; errors are told by
/// `explain`.
pub fn queued(
    to: impl Write + Send + 'static,
    kind: Kind,
    most_wait: Duration,
    explain: impl Fn(&io::Error) -> String + Send + 'static,
) -> (Queued, Written) {
    let shared = Arc::new(Shared {
        state: Mutex::default(),
        changed: Condvar::new(),
    });
    let theirs = shared.clone();
    thread::spawn(move || drain(&theirs, to, explain));
    let written = Written(shared.clone());
    let queued = Queued {
        pending: Vec::new(),
        within_line: false,
        is_begun: false,
        kind,
        is_head: None,
        most_wait,
        shared,
    };
    (queued, written)
}

/// Says that the thread that writes has ended, however it ends: whoever waits for it would wait for ever after a panic.
struct Ends<'s>(&'s Shared);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.lock().ended = true;
        self.0.changed.notify_all();
    }
}

/// The thread that writes.
fn drain(shared: &Shared, mut to: impl Write, explain: impl Fn(&io::Error) -> String) {
    let _ends = Ends(shared);
    loop {
        let mut state = shared.lock();
        let chunk = loop {
            if let Some(chunk) = state.chunks.pop_front() {
                break chunk;
            }
            if state.closed {
                // What reads our output finds its end.
                return;
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
            shared.lock().writing = Some(Instant::now());
            match to.write(rest).and_then(|count| to.flush().map(|()| count)) {
                Ok(0) => done = Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => done = Err(error),
            }
        }
        let mut state = shared.lock();
        state.writing = None;
        state.bytes -= chunk.len();
        if chunk.capacity() >= CHUNK && state.spare.len() < SPARE {
            let mut chunk = chunk;
            chunk.clear();
            state.spare.push(chunk);
        }
        if let Err(error) = done {
            state.error = Some((error.kind(), explain(&error)));
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

/// Tells heads from other lines, where there are any.
type IsHead = Option<fn(&[u8]) -> bool>;

/// The heads among the whole lines of a chunk; the first line was begun before it where `is_begun`.
fn heads(is_head: IsHead, chunk: &[u8], is_begun: bool) -> impl Iterator<Item = &[u8]> {
    let lines = chunk.split_inclusive(|byte| *byte == b'\n');
    let whole = lines.skip(usize::from(is_begun));
    whole.filter(move |line| line.ends_with(b"\n") && is_head.is_some_and(|is| is(line)))
}

/// Whether a head stands before all other lines of a chunk.
fn begins_table(is_head: IsHead, chunk: &[u8], is_begun: bool) -> bool {
    heads(is_head, chunk, is_begun).next().is_some_and(|head| {
        let before = head.as_ptr().addr() - chunk.as_ptr().addr();
        chunk[..before].iter().all(|byte| *byte == b'\n')
    })
}

impl Queued {
    /// Of lines that were dropped, the last head is kept and stands before the next line that is not.
    pub fn with_heads(mut self, is_head: IsHead) -> Self {
        self.is_head = is_head;
        self
    }

    /// Queues the first `length` bytes of what is pending, or drops them.
    fn push(&mut self, length: usize) -> io::Result<()> {
        let rest = self.pending.split_off(length);
        let mut chunk = std::mem::replace(&mut self.pending, rest);
        let mut state = self.shared.lock();
        failed(&state)?;
        if chunk.is_empty() {
            return Ok(());
        }
        let is_begun = std::mem::replace(&mut self.is_begun, chunk.last() != Some(&b'\n'));
        if self.kind == Kind::Lines {
            state = self
                .shared
                .wait_for_room(state, chunk.len(), self.most_wait)?;
        }
        if state.gave_up && self.kind == Kind::Lines {
            state.dropped += chunk.iter().filter(|byte| **byte == b'\n').count() as u64;
            state.torn |= self.within_line;
            let head = heads(self.is_head, &chunk, is_begun).last();
            state.head = head.map(<[u8]>::to_vec).or(state.head.take());
            return Ok(());
        }
        if let Some(head) = state.head.take()
            && !begins_table(self.is_head, &chunk, is_begun)
        {
            state.dropped -= 1;
            chunk.splice(0..0, [b"\n".to_vec(), head].concat());
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
        if self.pending.is_empty() && bytes.len() >= MUCH {
            // What is pending is not to be moved each time it grows. A chunk of a few lines has no more room than they need,
            // because many such may wait.
            self.pending = self.shared.lock().spare.pop().unwrap_or_default();
            self.pending.reserve(CHUNK + bytes.len());
        }
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

impl Drop for Queued {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_all();
    }
}

impl calls::recorder::Destination for Queued {
    fn has_room(&mut self) -> bool {
        let state = self.shared.lock();
        // An error is told by the next write.
        self.shared
            .wait_for_room(state, CHUNK, self.most_wait)
            .is_ok_and(|state| !state.gave_up)
            || failed(&self.shared.lock()).is_err()
    }

    fn dropped(&mut self) {
        self.shared.lock().dropped += 1;
    }
}

impl Written {
    /// Adds a last text when all else is written, unless nobody reads any more.
    pub fn end_with(&self, text: Vec<u8>) -> io::Result<()> {
        let mut state = self.0.lock();
        if state.bytes != 0 {
            return Ok(());
        }
        state.bytes += text.len();
        state.chunks.push_back(text);
        self.0.changed.notify_all();
        drop(state);
        self.finish().map(drop)
    }

    /// Waits until all that was queued is written; after Ctrl-C only as long as its reader takes it. How many lines, or events, were
    /// dropped.
    pub fn finish(&self) -> io::Result<u64> {
        let mut state = self.0.lock();
        let mut asked = None;
        while state.bytes != 0 && state.error.is_none() {
            if asked.is_none() && interrupt::asked() {
                asked = Some(Instant::now());
            }
            if state.ended || is_stuck(asked, state.writing, Instant::now()) {
                let left = state.chunks.iter().flatten();
                let lines = left.filter(|byte| **byte == b'\n').count() as u64;
                // What is left of a recording is no number of lines, and something.
                state.dropped += lines.max(1);
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

/// Whether a reader has taken nothing for [`GRACE`]: since the end was `asked` for, and since the write began that waits for it.
fn is_stuck(asked: Option<Instant>, writing: Option<Instant>, now: Instant) -> bool {
    let since = asked
        .zip(writing)
        .map(|(asked, writing)| asked.max(writing));
    since.is_some_and(|since| now.saturating_duration_since(since) > GRACE)
}

#[cfg(test)]
mod tests;
