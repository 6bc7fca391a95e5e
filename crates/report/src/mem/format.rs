//! What a format of the answer is, and what it is told.

use std::io::{self, Write};

use births::analysis::{Census, Growth, Report, View};

use crate::Style;
use crate::Writes;
use crate::forms::stacks::StackForm;

/// Writes what grew between two looks.
type WriteGrowth = fn(&mut dyn Write, &Census, &Growth, &Options) -> io::Result<()>;

/// One way to write the answer, and how it treats several guests and several reports.
#[derive(Debug)]
pub struct Format {
    /// What the answer writes in it.
    pub writes: Writes,
    /// Rows are cut to what a person reads, unless the user says how many.
    pub for_people: bool,
    /// More guests than this are not written one by one; merged they are in any case.
    pub(super) most_guests: usize,
    /// An empty line stands between two reports.
    pub(super) blank_lines: bool,
    pub(super) holders: fn(&mut dyn Write, &Look<'_>, &Options) -> io::Result<()>,
    /// Losses are said in the report; where they are not, they have to be said elsewhere.
    pub says_losses: bool,
    /// `None` where the format cannot say what changed: then who holds is written in its place.
    pub(super) growth: Option<WriteGrowth>,
}

impl crate::Format for Format {
    fn writes(&self) -> Writes {
        self.writes
    }
}

/// One look at one guest, and what is to be shown of it.
pub struct Look<'a> {
    pub(super) census: &'a Census,
    pub(super) report: &'a Report,
}

/// What is to be written of each look, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The format, which is one of [`super::FORMATS`].
    pub format: &'static Format,
    /// What shows stacks, where the format gives them.
    pub stacks: &'static StackForm,
    /// What makes a row, and which rows there are.
    pub view: View,
    /// The figure at the end of a folded line.
    pub weight: Weight,
    /// How a table may look.
    pub style: Style,
    /// The number of living objects in one row (with `growing`: of its increase) above which a report exceeds.
    pub limit: Option<u64>,
    /// From the second look on, what changed since the one before is written.
    pub growing: bool,
}

/// Which number is the weight of a stack, where a form has one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Weight {
    /// The number of living objects.
    #[default]
    Live,
    /// The number of objects made while we watched.
    Born,
    /// The bytes of the living objects.
    Bytes,
}
