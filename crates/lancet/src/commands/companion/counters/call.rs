//! What is kept of a call. Used by `counters` and `sums`.

use super::functions::Function;

/// A call that has ended, or a mark.
#[derive(Clone, Copy)]
pub struct Call {
    pub tid: u32,
    pub what: What,
    pub start: u64,
    pub end: u64,
}

#[derive(Clone, Copy)]
pub enum What {
    /// With how many were lost before it came.
    Mark {
        number: u64,
        lost: u64,
    },
    Of(Made),
}

/// What is kept of a call of a function that is counted.
#[derive(Clone, Copy)]
pub struct Made {
    pub function: &'static Function,
    pub bytes: u64,
    /// The first argument, and the low half of the result.
    pub subject: u64,
    pub result: i32,
    /// What it is about and the line that has made it, as numbers of `texts`.
    pub about: u32,
    pub line: u32,
}
