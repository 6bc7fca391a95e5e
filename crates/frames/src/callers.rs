//! Finds the callers of a function that calls nothing and refers to no text: its nearest caller with a name serves as a
//! hint. Used by `scan`.
//!
//! Decoding all code for that would take longer than everything else. A direct call or jump is one byte and a distance
//! (E8, E9 rel32), so all bytes are found that would lead to the beginning of a function, and only the functions that
//! contain such bytes are decoded, to see whether the bytes are an instruction.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::rc::Rc;

use iced_x86::{Decoder, DecoderOptions};

use crate::image::Image;

/// Limit of calls between the function and a named caller: a more distant one says nothing about the function.
const FURTHEST: usize = 4;
const CALL: u8 = 0xe8;
const JUMP: u8 = 0xe9;

/// Branches of a piece of code: the address of each and its target's.
type Branches = Rc<[(u64, u64)]>;

/// The direct calls and jumps within one file, found by their bytes.
#[derive(Debug)]
pub(crate) struct Callers {
    /// The function that is called, and the address of the call; sorted.
    calls: Vec<(u64, u64)>,
    /// Each piece of code and the function it belongs to; sorted.
    pieces: Vec<(Range<u64>, u64)>,
    /// The branches of each piece that was decoded: target and address; sorted.
    branches: RefCell<HashMap<usize, Branches>>,
}

impl Callers {
    /// Finds calls of the functions in `pieces`, each of which comes with the beginning of its function.
    pub fn of(image: &Image, mut pieces: Vec<(Range<u64>, u64)>) -> Callers {
        pieces.sort_by_key(|(range, _)| range.start);
        let mut starts: Vec<u64> = pieces.iter().map(|(_, start)| *start).collect();
        starts.sort_unstable();
        let mut calls = Vec::new();
        for code in image.code() {
            for (at, window) in code.bytes.windows(5).enumerate() {
                let [CALL | JUMP, distance @ ..] = window else {
                    continue;
                };
                let distance =
                    i32::from_le_bytes([distance[0], distance[1], distance[2], distance[3]]);
                let from = code.address.wrapping_add(at as u64);
                let target = from
                    .wrapping_add(5)
                    .wrapping_add_signed(i64::from(distance));
                if starts.binary_search(&target).is_ok() {
                    calls.push((target, from));
                }
            }
        }
        calls.sort_unstable();
        Callers {
            calls,
            pieces,
            branches: RefCell::default(),
        }
    }

    /// Returns the nearest caller of the function at `start` that has a `name`.
    pub fn named(
        &self,
        image: &Image,
        start: u64,
        name: impl Fn(u64) -> Option<String>,
    ) -> Option<String> {
        let mut seen = BTreeSet::from([start]);
        let mut row = vec![start];
        for _ in 0..FURTHEST {
            let callers: BTreeSet<u64> = row
                .iter()
                .flat_map(|called| self.callers(image, *called))
                .filter(|caller| seen.insert(*caller))
                .collect();
            if let Some(name) = callers.iter().find_map(|caller| name(*caller)) {
                return Some(name);
            }
            row = callers.into_iter().collect();
        }
        None
    }

    /// Returns the functions that call the one at `start`.
    fn callers(&self, image: &Image, start: u64) -> BTreeSet<u64> {
        let first = self.calls.partition_point(|(called, _)| *called < start);
        let of_this = self.calls[first..]
            .iter()
            .take_while(|(called, _)| *called == start);
        let owner = |(called, from): &(u64, u64)| {
            let after = self
                .pieces
                .partition_point(|(range, _)| range.start <= *from);
            let piece = after.checked_sub(1)?;
            let (_, owner) = self.pieces.get(piece)?;
            let branches = self.branches(image, piece);
            let there = branches.binary_search(&(*from, *called)).is_ok();
            there.then_some(*owner)
        };
        of_this.filter_map(owner).collect()
    }

    /// Returns the direct calls and jumps of a piece, which is decoded once.
    fn branches(&self, image: &Image, piece: usize) -> Branches {
        let mut known = self.branches.borrow_mut();
        let decode = || {
            let range = &self.pieces[piece].0;
            let code = image.code_of(range).unwrap_or_default();
            let instructions = Decoder::with_ip(64, code, range.start, DecoderOptions::NONE);
            let branches = instructions
                .into_iter()
                .filter(|instruction| instruction.near_branch_target() != 0)
                .map(|instruction| (instruction.ip(), instruction.near_branch_target()));
            branches.collect()
        };
        known.entry(piece).or_insert_with(decode).clone()
    }
}
