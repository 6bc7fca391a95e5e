//! Births that are counted until a process is copied: what a heap snapshot knows of the lines that made its objects.

use super::{Options, opening};
use crate::lines;
use enter::Counting;

/// Counts births in a process of which a copy can be made.
pub static COUNTING: Counting = Counting {
    opening: opening(Options::NONE),
    books: |copy, ledger| Ok((lines::sites(copy, ledger)?, lines::lines(copy, ledger))),
};
