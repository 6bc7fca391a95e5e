//! Births that are counted until a Ruby is copied: what a heap snapshot knows of the lines that made its objects.

use super::{Options, opening};
use crate::lines::Lines;
use enter::{Counting, VmSession};

/// Counts births in a process of which a copy can be made.
pub const COUNTING: Counting = Counting {
    open: |pid, image| VmSession::open_to_copy(pid, image, opening(Options::NONE)),
    lines: |copy, ledger| Ok(Box::new(Lines::of(copy, ledger)?)),
};
