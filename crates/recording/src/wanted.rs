//! Selects events, and the segments that may contain them. Used by `merge`, and by crate `calls`.

use crate::codec::Site;
use crate::read::Recording;
use crate::segment::Segment;
use crate::source::{Error, Source};

/// Which events are wanted.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Whether the calls of each call edge are wanted, by its number; empty = all are.
    pub edges: Vec<bool>,
    /// Whether the calls from each line are wanted, by its number plus 1; index 0 is for calls without a line.
    /// `None` = all are.
    pub lines: Option<Vec<bool>>,
    /// The line of a call is the library's, where it has both.
    pub nearest: bool,
    /// The first time from which on events are wanted, in nanoseconds since 1970.
    pub since: u64,
    /// The time from which on events are not wanted any more.
    pub until: u64,
}

impl Wanted {
    /// All events of a recording.
    pub const ALL: Wanted = Wanted {
        edges: Vec::new(),
        lines: None,
        nearest: false,
        since: 0,
        until: u64::MAX,
    };

    fn edge(&self, edge: u32) -> bool {
        self.edges.get(edge as usize).is_none_or(|wanted| *wanted)
    }

    /// Whether calls from a line are wanted; `line` is its number plus 1.
    fn line(&self, line: u32) -> bool {
        let lines = self.lines.as_ref();
        lines.is_none_or(|lines| lines.get(line as usize).is_none_or(|wanted| *wanted))
    }

    /// Whether calls of a site are wanted. True for a return whose call was not seen, because it may be wanted.
    #[inline]
    pub fn site(&self, site: &Site) -> bool {
        let Some(edge) = site.edge.checked_sub(1) else {
            return true;
        };
        self.edge(edge) && self.line(site.shown(self.nearest))
    }

    /// Whether events of this time are wanted.
    #[inline]
    pub fn time(&self, time: u64) -> bool {
        (self.since..self.until).contains(&time)
    }

    /// Whether events of some time from `earliest` to `latest` are wanted.
    fn any_time(&self, earliest: u64, latest: u64) -> bool {
        latest >= self.since && earliest < self.until
    }
}

/// Visits the segments that may contain wanted events, in the order of the file. One block of the index is in
/// memory.
#[derive(Debug)]
pub struct Scan {
    wanted: Wanted,
    block: usize,
    /// Segments of the block that was read last and not handed out yet, the first of them last.
    segments: Vec<Segment>,
    /// Why there are no more than these.
    flaw: Option<Error>,
}

impl Scan {
    /// Begins before the first segment.
    pub fn new(wanted: Wanted) -> Self {
        Scan {
            wanted,
            block: 0,
            segments: Vec::new(),
            flaw: None,
        }
    }

    /// Which events it looks for.
    #[inline]
    pub fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    /// The earliest time that an event of the blocks may have that were not read yet; `None` = there are no more.
    pub(crate) fn least<S: Source>(&self, recording: &Recording<S>) -> Option<u64> {
        let next = recording.blocks().get(self.block);
        // An error is reported when its position is reached.
        next.map(|block| block.least)
            .or(self.flaw.as_ref().map(|_| u64::MAX))
    }

    /// The next segment; `None` = there are no more.
    pub fn next<S: Source>(&mut self, recording: &Recording<S>) -> Result<Option<Segment>, Error> {
        while self.segments.is_empty() {
            if !self.read(recording)? {
                return Ok(None);
            }
        }
        Ok(self.segments.pop())
    }

    /// The segments of the next block that was not begun, in the order of the file.
    pub(crate) fn take_block<S: Source>(
        &mut self,
        recording: &Recording<S>,
    ) -> Result<impl Iterator<Item = Segment>, Error> {
        self.read(recording)?;
        Ok(self.segments.drain(..).rev())
    }

    /// Reads the next block; false if there is none.
    fn read<S: Source>(&mut self, recording: &Recording<S>) -> Result<bool, Error> {
        if let Some(flaw) = self.flaw.take() {
            self.block = recording.blocks().len();
            return Err(flaw);
        }
        let Some(block) = recording.blocks().get(self.block) else {
            return Ok(false);
        };
        self.block += 1;
        let Scan {
            wanted, segments, ..
        } = self;
        if !wanted.any_time(block.earliest, block.latest) {
            return Ok(true);
        }
        let read = recording.entries(block, |segment, holds| {
            let is_wanted = wanted.any_time(segment.earliest, segment.latest)
                && holds.any_edge(|edge| wanted.edge(edge))
                && (wanted.line(0) || holds.any_line(|line| wanted.line(line + 1)));
            if is_wanted {
                segments.push(segment);
            }
        });
        segments.reverse();
        self.flaw = read.err();
        Ok(true)
    }
}
