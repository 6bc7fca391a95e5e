//! Counts the births of blocks of code that a program marks itself, for the doors from inside (gem and wheel). Used by
//! `lancet::commands::companion::blocks`.
//!
//! ```text
//!   blocks       ──────┬── first ──────────────────────┬──────
//!                      │         ┌── second ──┐        │
//!   epoch           0  │    1    │     2      │   2    │  0        each birth carries the number of its own
//!   first has                    1, 2, 2
//!   second has                   2            (it has ended; later births of epoch 2 are the first's alone)
//! ```
//!
//! A block that begins takes the next epoch, so its objects are those of its own epoch and of all later ones; epoch 0 is that of births
//! outside of any block. To begin or end a block, a word is written into the memory of the guest (`Ledger::epoch`), and the guest is not
//! stopped. Only a count stops it, as every census does. When the numbers are used up and no block is open, the agent leaves and comes
//! anew, with empty books.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use inject::image::Image;
use process::error::{Error, Result};
use wire::slots::EPOCHS;

use crate::census::losses;
use crate::ledger::{SiteTally, Tally};
use crate::objects::Numbered;
use crate::session::{Options, Session};

/// One block: the number by which its program knows it.
pub type Block = u64;

/// A guest in which blocks are tracked. It is left when this is dropped.
pub struct Tracked {
    session: Session,
    epochs: Epochs,
    /// The births before the block began, for those blocks that count births.
    births: BTreeMap<Block, HashMap<LineAndType, u64>>,
    /// Whether the hook may be taken out while no thread wants its account.
    may_rest: bool,
}

/// The key by which rows of a count are told apart.
type LineAndType = (Option<(Arc<str>, u32)>, Arc<str>);

/// A row of a count: a line and a type.
pub struct Row {
    /// The file and the line; `None`: no script ran.
    pub line: Option<(Arc<str>, u32)>,
    /// The name of the type.
    pub kind: Arc<str>,
    /// Objects that were made in the block; 0 if births are not counted.
    pub born: u64,
    /// Objects that were made in the block and still live.
    pub live: u64,
}

/// The result of counting one block.
pub struct Counted {
    /// Rows, in no order.
    pub rows: Vec<Row>,
    /// What could not be counted since the process was opened, a sentence each.
    pub lost: Vec<String>,
}

impl Tracked {
    /// Opens a process; no block is open. The numbers of its blocks follow `last`, so that an earlier block is not taken for a new one.
    ///
    /// # Errors
    /// Those of [`Session::open`].
    pub fn open(pid: i32, image: &Image, last: Block) -> Result<Self> {
        let options = Options {
            door: true,
            ..Options::NONE
        };
        Ok(Tracked {
            session: Session::open_with_accounts(pid, image, options)?,
            epochs: Epochs {
                blocks: last,
                ..Epochs::default()
            },
            births: BTreeMap::new(),
            may_rest: false,
        })
    }

    /// Lets a program go on that is about to make its first Ractor, which its VM does not support while births are watched; the program
    /// waits for that for a limited time. Returns whether it did; then the agent has left.
    pub fn let_go(&mut self) -> bool {
        let waits = matches!(self.session.awaits_last_count(), Ok(true));
        if waits {
            // The last count is not read, because it comes too late for a report of the program's own.
            let _ = self.session.let_go();
        }
        waits
    }

    /// Whether the agent is still there and has not left by itself.
    pub fn is_there(&self) -> bool {
        matches!(self.session.farewell(), Ok(None))
    }

    /// Whether there is a number left for a block.
    pub fn has_room(&self) -> bool {
        self.epochs.has_room()
    }

    /// Whether this block is open.
    pub fn has(&self, block: Block) -> bool {
        self.epochs.open.contains_key(&block)
    }

    /// Whether any block is open.
    pub fn is_in_use(&self) -> bool {
        self.epochs.is_in_use()
    }

    /// Begins a block. With `births` all objects made in it can be counted, dead or alive; this takes a count here and one at the end.
    ///
    /// # Errors
    /// The process cannot be written or asked.
    pub fn begin(&mut self, births: bool) -> Result<Block> {
        if self.may_rest {
            self.session.keep_hook()?;
            self.may_rest = false;
        }
        let found = match births {
            true => Some(self.born_until_now()?),
            false => None,
        };
        let block = self.epochs.begin();
        self.session.begin_epoch(self.epochs.current())?;
        if let Some(found) = found {
            self.births.insert(block, found);
        }
        Ok(block)
    }

    /// Forgets what was made in a block until now; the block goes on.
    ///
    /// # Errors
    /// As for [`Tracked::begin`].
    pub fn forget(&mut self, block: Block) -> Result<()> {
        self.epochs.forget(block);
        self.session.begin_epoch(self.epochs.current())
    }

    /// Ends a block.
    ///
    /// # Errors
    /// The process cannot be written.
    pub fn end(&mut self, block: Block) -> Result<()> {
        self.epochs.end(block);
        self.births.remove(&block);
        self.session.begin_epoch(self.epochs.current())
    }

    /// Makes births from now on belong to no block, until [`Tracked::resume`].
    ///
    /// # Errors
    /// The process cannot be written.
    pub fn pause(&self) -> Result<()> {
        self.session.begin_epoch(NOBODY)
    }

    /// Takes back [`Tracked::pause`].
    ///
    /// # Errors
    /// The process cannot be written, or the agent has left.
    pub fn resume(&self) -> Result<()> {
        if let Some(why) = self.session.farewell()? {
            let pid = self.session.pid();
            return Err(Error::Left { pid, why });
        }
        self.session.begin_epoch(self.epochs.current())
    }

    /// Counts the objects of a block, after a garbage collection if `collect` is set.
    ///
    /// # Errors
    /// Those of [`Session::census`].
    pub fn count(&mut self, block: Block, collect: bool) -> Result<Counted> {
        self.session
            .set_intervals(&self.epochs.intervals_of(block))?;
        let tally = self.session.census(collect)?;
        let before = self.births.get(&block);
        let mut rows: HashMap<LineAndType, (u64, u64)> = HashMap::new();
        for site in shown(&tally) {
            let (born, live) = rows.entry(place_of(site)).or_default();
            *born += site.counts.born;
            *live += u64::from(site.counts.alive[usize::from(OF_BLOCK)]);
        }
        let rows = rows.into_iter().map(|(place, (born, live))| {
            let born = match before {
                Some(before) => born.saturating_sub(before.get(&place).copied().unwrap_or(0)),
                None => 0,
            };
            let (line, kind) = place;
            Row {
                line,
                kind,
                born,
                live,
            }
        });
        Ok(Counted {
            rows: rows.filter(|row| row.born != 0 || row.live != 0).collect(),
            lost: lost(&tally, self.session.language()),
        })
    }

    /// Calls `each` for every living object of a block, with its line and type. Returns what could not be counted.
    ///
    /// # Errors
    /// As for [`Tracked::count`].
    pub fn each_object(
        &mut self,
        block: Block,
        each: &mut dyn FnMut(&SiteTally, &Numbered),
    ) -> Result<Vec<String>> {
        let of_epochs = self.epochs.intervals_of(block);
        let mut tally = self.session.census(false)?;
        let sites: HashMap<u32, &SiteTally> =
            shown(&tally).map(|site| (site.number, site)).collect();
        let is_whole = self.session.each_object(&mut |object| {
            let of_block = of_epochs.get(object.epoch as usize) == Some(&OF_BLOCK);
            if of_block && let Some(site) = sites.get(&object.site) {
                each(site, &object);
            }
        })?;
        tally.unfinished |= !is_whole;
        Ok(lost(&tally, self.session.language()))
    }

    /// Allows the hook to be taken out while no thread wants its account. For when no block is open or will be soon: the next one makes the
    /// agent set it again before it begins, which takes a request to the VM.
    ///
    /// # Errors
    /// The process cannot be written.
    pub fn let_rest(&mut self) -> Result<()> {
        if !self.may_rest && !self.is_in_use() {
            self.session.let_rest()?;
            self.may_rest = true;
        }
        Ok(())
    }

    /// Gives a thread an account of its own births, which it begins, reads and ends itself (`wire::accounts`).
    ///
    /// # Errors
    /// The process cannot be read or written, has no such thread, or 64 of its threads have accounts.
    pub fn give_account(&mut self, tid: u64) -> Result<()> {
        self.session.give_account(tid)?;
        self.session.begin_epoch(self.epochs.current())
    }

    /// Returns what threads have done with their accounts: whether one is in use, and a sum that changes whenever one is begun.
    /// Ends those of threads that have ended.
    ///
    /// # Errors
    /// The process cannot be read or written.
    pub fn account_use(&self) -> Result<(bool, u64)> {
        self.session.end_accounts_of_the_dead()?;
        let accounts = self.session.accounts()?;
        let in_use = accounts.iter().any(|account| account.wanted != 0);
        let begun = accounts.iter().map(|account| account.counting);
        Ok((in_use, begun.fold(0, u64::wrapping_add)))
    }

    /// Takes all accounts back if none is in use, and returns whether it did. A thread first says that it wants its account and then checks
    /// that it still has it; this function first takes the accounts and then checks that none is wanted, so at least one of the two notices
    /// the other.
    ///
    /// # Errors
    /// The process cannot be read or written.
    pub fn take_accounts_back(&mut self) -> Result<bool> {
        self.session.take_accounts_back()
    }

    /// Takes the hook out and unmaps the agent's books.
    ///
    /// # Errors
    /// Those of [`Session::leave`].
    pub fn leave(self) -> Result<()> {
        self.session.leave().map(drop)
    }

    fn born_until_now(&mut self) -> Result<HashMap<LineAndType, u64>> {
        let tally = self.session.census(false)?;
        let mut born = HashMap::new();
        for site in shown(&tally) {
            *born.entry(place_of(site)).or_insert(0) += site.counts.born;
        }
        Ok(born)
    }
}

/// Describes what could not be counted of this language's births, a sentence each.
fn lost(tally: &Tally, language: &str) -> Vec<String> {
    let losses = losses(tally, language).into_iter();
    losses.map(|loss| loss.text).collect()
}

/// Returns the sites of objects that scripts can see.
fn shown(tally: &Tally) -> impl Iterator<Item = &SiteTally> {
    tally.sites.iter().filter(|site| !site.internal)
}

fn place_of(site: &SiteTally) -> LineAndType {
    let line = site.path.first();
    (
        line.map(|line| (line.path.clone(), line.line)),
        site.kind.clone(),
    )
}

/// Returns the error of a program with too many nested blocks.
pub fn no_numbers(pid: i32) -> Error {
    Error::NotAGuest {
        pid,
        reason: "more blocks were tracked within another one than there are numbers for (1,023): end the outer one",
    }
}

/// The epoch of births that belong to no block.
const NOBODY: u32 = 0;
/// The interval that a count uses for the objects of its block.
const OF_BLOCK: u8 = 1;

/// The epochs of each block.
#[derive(Default)]
struct Epochs {
    last: u32,
    blocks: u64,
    /// The first epoch of each open block.
    open: BTreeMap<Block, u32>,
}

impl Epochs {
    fn has_room(&self) -> bool {
        self.last + 1 < EPOCHS
    }

    fn is_in_use(&self) -> bool {
        !self.open.is_empty()
    }

    /// The epoch of births now.
    fn current(&self) -> u32 {
        match self.is_in_use() {
            true => self.last,
            false => NOBODY,
        }
    }

    fn begin(&mut self) -> Block {
        self.blocks += 1;
        self.last += 1;
        self.open.insert(self.blocks, self.last);
        self.blocks
    }

    fn forget(&mut self, block: Block) {
        if let Some(first) = self.open.get_mut(&block) {
            self.last += 1;
            *first = self.last;
        }
    }

    fn end(&mut self, block: Block) {
        self.open.remove(&block);
    }

    /// Returns for each epoch the interval in which a count for this block puts it.
    fn intervals_of(&self, block: Block) -> [u8; EPOCHS as usize] {
        let first = self.open.get(&block).map_or(EPOCHS, |first| *first);
        let mut intervals = [0; EPOCHS as usize];
        intervals[first as usize..].fill(OF_BLOCK);
        intervals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the epochs of a block.
    fn of(epochs: &Epochs, block: Block) -> Vec<u32> {
        let intervals = epochs.intervals_of(block);
        (0..8)
            .filter(|epoch| intervals[*epoch as usize] == OF_BLOCK)
            .collect()
    }

    #[test]
    fn a_block_has_its_own_epoch_and_those_within_it() {
        let mut epochs = Epochs::default();
        assert_eq!(epochs.current(), NOBODY);
        let first = epochs.begin();
        let second = epochs.begin();
        assert_eq!(of(&epochs, first)[..2], [1, 2]);
        assert_eq!(of(&epochs, second)[0], 2);
        epochs.end(second);
        assert_eq!((epochs.current(), of(&epochs, second)), (2, vec![]));
        epochs.forget(first);
        assert_eq!((epochs.current(), of(&epochs, first)[0]), (3, 3));
        epochs.end(first);
        assert_eq!((epochs.current(), epochs.is_in_use()), (NOBODY, false));
    }

    #[test]
    fn numbers_run_out_in_time() {
        let mut epochs = Epochs::default();
        while epochs.has_room() {
            let block = epochs.begin();
            assert!(epochs.current() < EPOCHS);
            epochs.end(block);
        }
        assert_eq!(epochs.blocks, u64::from(EPOCHS) - 1);
    }
}
