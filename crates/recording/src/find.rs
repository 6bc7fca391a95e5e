//! Finds the segments of a file: by its index, or by their heads. Used by `read`.

use crate::MAGIC;
use crate::index::{Block, TRAILER, Trailer};
use crate::segment::{HEAD, Kind, Segment};
use crate::source::{Error, Source, fill};

/// Offset of the first segment.
pub const BEGIN: u64 = MAGIC.len() as u64 + 4;

/// The most segments of definitions of one file.
const MOST_DEFINING: usize = 1 << 20;
/// Limit of the blocks of one file, of 48 bytes each in memory: more than 10 TB of full segments.
const MOST_BLOCKS: usize = 1 << 19;
/// The number of segments in a block without an index; a writer lists fewer in one.
const MOST_UNLISTED: u32 = 1024;

/// Where the blocks of a file are, and its definitions.
#[derive(Default)]
pub struct Found {
    /// Where segments of events are, in the order of the file.
    pub blocks: Vec<Block>,
    /// Where segments of definitions are, likewise.
    pub definitions: Vec<u64>,
    /// Why the file ends where it does, if it was not finished.
    pub flaw: Option<Error>,
}

impl Found {
    fn is_too_much(&self) -> bool {
        self.blocks.len() > MOST_BLOCKS || self.definitions.len() > MOST_DEFINING
    }
}

/// Follows the chains of the index and of the definitions, or reads the heads of all segments if the file was not
/// finished.
pub fn find(source: &impl Source) -> Result<Found, Error> {
    let length = source.length()?;
    let mut found = match chained(source, length)? {
        Some(found) => found,
        None => scanned(source, length)?,
    };
    let mut least = u64::MAX;
    for block in found.blocks.iter_mut().rev() {
        least = least.min(block.earliest);
        block.least = least;
    }
    Ok(found)
}

/// The head at an offset, if that is one.
pub fn head(source: &impl Source, offset: u64) -> Result<Option<Segment>, Error> {
    let mut head = [0; HEAD];
    let is_whole = fill(source, &mut head, offset)?;
    Ok(Segment::decode(&head, offset).filter(|_| is_whole))
}

/// Goes from the end of the file to its beginning; `None` = it has no end, or the chains are broken.
fn chained(source: &impl Source, length: u64) -> Result<Option<Found>, Error> {
    let Some((trailer, at)) = trailer(source, length)? else {
        return Ok(None);
    };
    let mut found = Found::default();
    let blocks = chain(source, Kind::Index, trailer.index, at, |index| {
        if let Some(next) = found.blocks.last_mut() {
            next.from = index.end();
        }
        found.blocks.push(Block::listed(BEGIN, index));
        !found.is_too_much()
    })?;
    let definitions = chain(source, Kind::Definitions, trailer.definitions, at, |of| {
        found.definitions.push(of.offset);
        !found.is_too_much()
    })?;
    found.blocks.reverse();
    found.definitions.reverse();
    Ok((blocks && definitions).then_some(found))
}

/// The trailer, and where it is.
fn trailer(source: &impl Source, length: u64) -> Result<Option<(Trailer, u64)>, Error> {
    let mut trailer = [0; TRAILER];
    let Some(at) = length.checked_sub(TRAILER as u64) else {
        return Ok(None);
    };
    let is_whole = fill(source, &mut trailer, at)?;
    let trailer = Trailer::decode(&trailer).filter(|_| is_whole);
    Ok(trailer.map(|trailer| (trailer, at)))
}

/// Follows a chain back from segment to segment of a kind. Returns whether it leads to the first one and `take`
/// accepts all. Each must end before the one that refers to it begins, so the walk ends.
fn chain(
    source: &impl Source,
    kind: Kind,
    mut at: u64,
    mut limit: u64,
    mut take: impl FnMut(&Segment) -> bool,
) -> Result<bool, Error> {
    while at != 0 {
        let segment = head(source, at)?;
        let Some(segment) = segment.filter(|of| of.kind == kind && of.end() <= limit) else {
            return Ok(false);
        };
        if !take(&segment) {
            return Ok(false);
        }
        (limit, at) = (at, segment.first);
    }
    Ok(true)
}

/// Reads all heads, from the first segment to the last one that is complete.
fn scanned(source: &impl Source, length: u64) -> Result<Found, Error> {
    let (mut found, mut at) = (Found::default(), BEGIN);
    let (mut block, mut in_block) = (Block::begin(at), 0);
    found.flaw = loop {
        if length - at < HEAD as u64 {
            let is_over = trailer(source, length)?.is_some_and(|(_, end)| end == at);
            break (!is_over).then_some(Error::Cut(at));
        }
        let segment = match head(source, at)? {
            None => break Some(Error::Damaged(at)),
            Some(segment) if segment.end() > length => break Some(Error::Cut(at)),
            Some(segment) => segment,
        };
        if found.is_too_much() {
            break Some(Error::Damaged(at));
        }
        at = segment.end();
        match segment.kind {
            Kind::Definitions => found.definitions.push(segment.offset),
            Kind::Events => {
                block.add(&segment);
                in_block += 1;
            }
            Kind::Index => (block.to, block.is_listed) = (segment.offset, true),
        }
        if block.is_listed || in_block == MOST_UNLISTED {
            found.blocks.push(block);
            (block, in_block) = (Block::begin(at), 0);
        }
    };
    found.blocks.push(block);
    Ok(found)
}
