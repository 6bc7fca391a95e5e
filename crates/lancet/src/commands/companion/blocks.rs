//! Counts the births of blocks that the guest marks in its code. Used by `run`.
//!
//! The guest is opened by its first block and stays open for some seconds after its last one, so that the next one costs no
//! more than an exchange of two lines.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use births::ledger::SiteTally;
use births::objects::Numbered;
use births::tracked::{Tracked, no_numbers};
use inject::Image;
use process::Error;
use serde_json::{Value, json};

use super::protocol::{Answer, Refusal};
use crate::agent::AGENT;

/// How long a guest stays open without a block.
const IDLE: Duration = Duration::from_secs(5);

/// Between two looks at a guest that asks for nothing: whether it is there, and whether it waits for us.
const LOOK: Duration = Duration::from_secs(1);
const LOOK_WHEN_OPEN: Duration = Duration::from_millis(50);

/// The guest, from its first block on, and what its blocks have counted.
pub struct Blocks {
    pid: i32,
    /// What has this before its path is the asking library's own.
    hidden: Option<String>,
    tracked: Option<Tracked>,
    /// The number of the last block.
    last: u64,
    last_used: Instant,
    /// When a block was last open.
    block_open: Option<Instant>,
    /// Changes with each account that a thread has begun.
    accounts_begun: u64,
}

impl Blocks {
    /// Knows the guest and has not opened it yet. `hidden` is the folder of the asking library, with a slash at its end.
    pub fn new(pid: i32, hidden: Option<String>) -> Self {
        Blocks {
            pid,
            hidden,
            tracked: None,
            last: 0,
            last_used: Instant::now(),
            block_open: None,
            accounts_begun: 0,
        }
    }

    /// Begins a block and returns its number.
    pub fn track(&mut self, births: bool) -> Result<u64, Refusal> {
        if let Some(tracked) = &self.tracked {
            let is_there = tracked.is_there();
            if is_there && !tracked.has_room() && tracked.is_in_use() {
                return Err(Refusal::of(no_numbers(self.pid)));
            }
            if !is_there || !tracked.has_room() {
                self.leave();
            }
        }
        let tracked = match &mut self.tracked {
            Some(tracked) => tracked,
            none => none.insert(open(self.pid, self.last)?),
        };
        let begun = tracked.begin(births);
        self.block_open = Some(Instant::now());
        self.last = self.checked(begun)?;
        Ok(self.last)
    }

    /// Gives a thread an account of its births.
    pub fn account(&mut self, tid: u64) -> Result<(), Refusal> {
        if self.tracked.as_ref().is_some_and(|it| !it.is_there()) {
            self.leave();
        }
        let tracked = match &mut self.tracked {
            Some(tracked) => tracked,
            none => none.insert(open(self.pid, self.last)?),
        };
        let given = tracked.give_account(tid);
        self.checked(given)?;
        self.let_rest();
        Ok(())
    }

    /// Counts the objects of a block; returns what could not be counted. What is made from then on is of no block, until
    /// [`Blocks::resume`].
    pub fn count(
        &mut self,
        block: u64,
        collect: bool,
        answer: &mut Answer,
    ) -> io::Result<Result<Vec<String>, Refusal>> {
        let tracked = match self.known(block) {
            Ok(tracked) => tracked,
            Err(gone) => return Ok(Err(gone)),
        };
        let counted = tracked.pause().and_then(|()| tracked.count(block, collect));
        let counted = match self.checked(counted) {
            Ok(counted) => counted,
            Err(why) => return Ok(Err(why)),
        };
        for row in counted.rows {
            let (path, line) = place(row.line.as_ref().map(|(path, line)| (path, *line)));
            if !self.hides(path) {
                answer.record(&json!({
                    "path": path, "line": line, "type": &*row.kind, "live": row.live, "born": row.born,
                }))?;
            }
        }
        Ok(Ok(counted.lost))
    }

    /// Tells the living objects of a block one by one; otherwise as [`Blocks::count`].
    pub fn objects(
        &mut self,
        block: u64,
        contents: bool,
        answer: &mut Answer,
    ) -> io::Result<Result<Vec<String>, Refusal>> {
        let hidden = self.hidden.clone();
        let tracked = match self.known(block) {
            Ok(tracked) => tracked,
            Err(gone) => return Ok(Err(gone)),
        };
        let mut written = Ok(());
        let mut tell = |site: &SiteTally, numbered: &Numbered| {
            let line = site.path.first();
            let (path, line) = place(line.map(|line| (&line.path, line.line)));
            if written.is_err() || is_below(path, hidden.as_deref()) {
                return;
            }
            let (heap, object) = (numbered.heap, &numbered.object);
            let mut record = json!({
                "_id": format!("{:#x}", object.address), "type": heap.kind(object),
                "class": &*site.kind, "file": path, "line": line,
            });
            if let Some(length) = heap.length(object) {
                record["length"] = length.into();
            }
            if contents {
                record["data"] = heap.contents(object).map_or(Value::Null, Value::from);
            }
            written = answer.record(&record);
        };
        let told = tracked
            .pause()
            .and_then(|()| tracked.each_object(block, &mut tell));
        written.map(|()| self.checked(told))
    }

    /// Has what is made from now on counted for the blocks that are open. Fails if this one is not.
    pub fn resume(&mut self, block: u64) -> Result<(), Refusal> {
        let tracked = self.known(block)?;
        let done = tracked.resume();
        self.checked(done)
    }

    /// Forgets what was made in a block.
    pub fn forget(&mut self, block: u64) -> Result<(), Refusal> {
        let pid = self.pid;
        let tracked = self.known(block)?;
        if !tracked.has_room() {
            return Err(Refusal::of(no_numbers(pid)));
        }
        let done = tracked.forget(block);
        self.checked(done)
    }

    /// Ends a block. One that is gone with the agent has ended.
    pub fn end(&mut self, block: u64) -> Result<(), Refusal> {
        let done = self
            .tracked
            .as_mut()
            .map_or(Ok(()), |tracked| tracked.end(block));
        self.checked(done)
    }

    /// Returns for how long nobody need look at the guest. One that makes its first Ractor waits for the next look.
    pub fn patience(&self) -> Duration {
        match &self.tracked {
            Some(_) => LOOK_WHEN_OPEN,
            None => LOOK,
        }
    }

    /// Lets a guest go that waits before its first Ractor. Until then all of its threads stand still, so this must be called
    /// while another command is waited for, too.
    pub fn let_go(&mut self) {
        if self.tracked.as_mut().is_some_and(Tracked::let_go) {
            self.tracked = None;
        }
    }

    /// Lets a guest go that waits, and leaves one that has no block for some seconds.
    pub fn rest(&mut self) {
        self.let_go();
        self.note_accounts();
        self.let_rest();
        let unused = self
            .tracked
            .as_ref()
            .is_some_and(|tracked| !tracked.is_in_use());
        if unused && self.last_used.elapsed() > IDLE {
            let tracked = self.tracked.as_mut();
            match tracked.map(Tracked::take_accounts_back) {
                Some(Ok(false)) => self.touch(),
                _ => self.leave(),
            }
        }
    }

    /// Has the hook out between accounts, unless a block was open some seconds ago: the next one would wait for it.
    fn let_rest(&mut self) {
        let Some(tracked) = &mut self.tracked else {
            return;
        };
        if tracked.is_in_use() {
            self.block_open = Some(Instant::now());
        } else if self.block_open.is_none_or(|last| last.elapsed() > IDLE) {
            // What cannot be written has ended, which the next request finds.
            let _ = tracked.let_rest();
        }
    }

    /// The program asks for something: it may go on with what it had.
    pub fn touch(&mut self) {
        self.last_used = Instant::now();
    }

    /// Threads begin accounts without asking us.
    fn note_accounts(&mut self) {
        let Some(Ok((in_use, begun))) = self.tracked.as_ref().map(Tracked::account_use) else {
            return;
        };
        if in_use || begun != self.accounts_begun {
            self.accounts_begun = begun;
            self.last_used = Instant::now();
        }
    }

    /// Leaves the guest, if it is open.
    pub fn leave(&mut self) {
        if let Some(tracked) = self.tracked.take() {
            // A guest that cannot be asked any more is left as its agent leaves without us.
            let _ = tracked.leave();
        }
    }

    /// What tracks this block. A block ends with the agent, which leaves by itself where it hears nothing of us for some seconds,
    /// or before a Ractor.
    fn known(&mut self, block: u64) -> Result<&mut Tracked, Refusal> {
        let tracked = self.tracked.as_mut().filter(|tracked| tracked.has(block));
        tracked.ok_or_else(|| {
            Refusal::Gone(format!(
                "block {block} is not open: what it had counted is gone with the agent"
            ))
        })
    }

    /// An error in words. After one by which the agent is gone, the guest is opened anew by the next block.
    fn checked<T>(&mut self, done: Result<T, Error>) -> Result<T, Refusal> {
        done.map_err(|error| {
            if matches!(error, Error::Left { .. } | Error::Replaced(_)) {
                self.tracked = None;
                return Refusal::Gone(error.to_string());
            }
            Refusal::of(error)
        })
    }

    fn hides(&self, path: Option<&str>) -> bool {
        is_below(path, self.hidden.as_deref())
    }
}

fn open(pid: i32, last: u64) -> Result<Tracked, Refusal> {
    let image = Image::parse(AGENT).map_err(Refusal::of)?;
    Tracked::open(pid, &image, last).map_err(Refusal::of)
}

/// A line in the words of a record.
fn place(line: Option<(&Arc<str>, u32)>) -> (Option<&str>, u32) {
    line.map_or((None, 0), |(path, line)| (Some(path), line))
}

fn is_below(path: Option<&str>, folder: Option<&str>) -> bool {
    matches!((path, folder), (Some(path), Some(folder)) if path.starts_with(folder))
}
