//! Ranks the biggest frames of several files. Used by the crates `lancet` and `report`.

use std::cmp::Reverse;
use std::path::PathBuf;

use crate::{Frame, Scan};

/// Which frames of the scanned files are wanted.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Limit of the rows.
    pub rows: usize,
    /// Whether only frames are wanted for which call frame information and code give different sizes.
    pub differing: bool,
    /// Frames of more bytes than this are counted in [`Ranking::larger`].
    pub max: Option<u64>,
}

/// The frames of several files, the biggest first.
#[derive(Debug)]
pub struct Ranking {
    /// The files that were read.
    pub scans: Vec<Scan>,
    /// The wanted rows, the biggest first: the number of the scan, and the frame.
    pub rows: Vec<(usize, Frame)>,
    /// The number of frames that are wanted and not among the rows.
    pub more: usize,
    /// The number of frames larger than [`Wanted::max`], among the rows or not.
    pub larger: u64,
    /// How many functions of Go for each size of a frame there are, and the bytes of the largest. They are no rows: they are the same in
    /// every program of Go.
    pub dispatchers: Option<(usize, u64)>,
    /// The files that could not be read, and why.
    pub refused: Vec<(PathBuf, String)>,
}

impl Ranking {
    /// Ranks the frames of `scans`. Frames of one size stand in the order of their files, and then of their addresses.
    pub fn new(scans: Vec<Scan>, refused: Vec<(PathBuf, String)>, wanted: Wanted) -> Ranking {
        let larger = |frame: &&Frame| wanted.max.is_some_and(|max| frame.bytes > max);
        let all = || scans.iter().flat_map(Scan::frames);
        let sizes = all().filter(|frame| frame.dispatcher);
        let sizes: Vec<u64> = sizes.map(|frame| frame.bytes).collect();
        let dispatchers = sizes.iter().max().map(|largest| (sizes.len(), *largest));
        let all = || all().filter(|frame| !frame.dispatcher);
        let larger = all().filter(larger).count() as u64;
        let is_wanted = |frame: &&Frame| !wanted.differing || differs(frame);
        let count = all().filter(is_wanted).count();
        let mut rows: Vec<(usize, Frame)> = Vec::new();
        for (number, scan) in scans.iter().enumerate() {
            // Each scan is sorted, so no more than its first frames can be among the rows.
            let frames = scan.frames().iter().filter(|frame| !frame.dispatcher);
            let frames = frames.filter(is_wanted);
            let frames = frames.take(wanted.rows);
            rows.extend(frames.map(|frame| (number, frame.clone())));
        }
        rows.sort_by_key(|(number, frame)| (Reverse(frame.bytes), *number, frame.range.start));
        rows.truncate(wanted.rows);
        Ranking {
            more: count - rows.len(),
            scans,
            rows,
            dispatchers,
            larger,
            refused,
        }
    }
}

/// Returns whether call frame information and code gave different sizes.
fn differs(frame: &Frame) -> bool {
    frame.otherwise.is_some_and(|other| other != frame.bytes)
}
