//! The living blocks, against a map from address to number and size.

use super::*;
use crate::memory::bound;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::vec::Vec;

/// The beginning of an arena somewhere in the address space.
const ARENA: u64 = 0x7f12_3450_0000;

fn open() -> Blocks {
    let mut blocks = Blocks::new();
    blocks.open().expect("memory");
    blocks
}

/// Notes a block; returns what was known under its address. Odd numbers are noted the short way, where that can be done.
fn take(blocks: &mut Blocks, at: u64, number: u32, size: u64) -> Option<Block> {
    if number % 2 == 1
        && let Some(place) = blocks.empty_place(at, size)
    {
        blocks.fill(place, number, size);
        return Some(Block::NONE);
    }
    let place = blocks.place(at)?;
    Some(blocks.born(place, number, size))
}

/// Notes that a block is freed; every other one the short way, where that can be done.
fn give(blocks: &mut Blocks, at: u64) -> Option<Known> {
    let shortly = (at / 0x1000 % 2 == 1).then(|| blocks.take(at)).flatten();
    shortly.unwrap_or_else(|| blocks.dead(at))
}

fn living(blocks: &Blocks) -> Vec<(u32, u64)> {
    let mut living = Vec::new();
    blocks.each(|number, size| living.push((number, size)));
    living.sort_unstable();
    living
}

#[derive(Clone, Debug)]
enum Step {
    Born(u64, u32, u64),
    Dead(u64),
    /// It was to be moved and was not.
    Kept(u64),
    Own(u64),
    AllDead,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let at = (0..200u64).prop_map(|grain| ARENA + grain * 0x1010);
    let large = u64::from(LISTED);
    let size = prop_oneof![
        8 => 0..5000u64,
        1 => large - 2..large + 3,
        1 => Just(u64::from(u32::MAX) + 7),
    ];
    let step = prop_oneof![
        20 => (at.clone(), 1..1000u32, size).prop_map(|(at, number, size)| Step::Born(at, number, size)),
        20 => at.clone().prop_map(Step::Dead),
        20 => at.clone().prop_map(Step::Kept),
        20 => at.prop_map(Step::Own),
        1 => Just(Step::AllDead),
    ];
    prop::collection::vec(step, 0..400)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 64 }, ..ProptestConfig::default() })]

    /// What lives is what was taken and not freed, with the size that it was taken with, however they follow one another; and it is told
    /// of each death whether lines are cached under the address.
    #[test]
    fn the_living_are_those_that_were_taken_and_not_freed(steps in steps()) {
        let mut blocks = open();
        let mut model: BTreeMap<u64, (u32, u64, bool)> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Born(at, number, size) => {
                    let before = take(&mut blocks, at, number, size).expect("memory");
                    let was = model.insert(at, (number, size, false));
                    prop_assert_eq!(before.is_owner(), was.is_some_and(|(.., owner)| owner));
                }
                Step::Dead(at) => {
                    let known = give(&mut blocks, at).map(|known| {
                        (known.block.number(), known.size, known.block.is_owner())
                    });
                    prop_assert_eq!(known, model.remove(&at));
                }
                Step::Kept(at) => {
                    if let Some(known) = blocks.dead(at) {
                        blocks.restore(at, known).expect("memory");
                    }
                }
                Step::Own(at) => {
                    blocks.own(at).expect("memory");
                    model.entry(at).or_default().2 = true;
                }
                Step::AllDead => {
                    blocks.all_dead().expect("memory");
                    model.clear();
                }
            }
        }
        let mut wanted: Vec<(u32, u64)> = model
            .values()
            .filter(|(number, ..)| *number != 0)
            .map(|(number, size, _)| (*number, *size))
            .collect();
        wanted.sort_unstable();
        prop_assert_eq!(living(&blocks), wanted);
        blocks.free();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 64 }, ..ProptestConfig::default() })]

    /// However little memory there is: what could be noted is right, and nothing else is noted.
    #[test]
    fn without_memory_the_living_are_those_that_were_noted(
        steps in steps(),
        spread in prop::sample::select(std::vec![1u64, 1 << 16, 1 << 30]),
        most in 0..8u64,
    ) {
        let mut blocks = open();
        bound::allow(most << 20);
        let far = |at: u64| ARENA + (at - ARENA) / 0x1010 * 16 * spread;
        let mut model: BTreeMap<u64, (u32, u64)> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Born(at, number, size) => {
                    // The sizes of the largest are in a list, for which there may be no memory.
                    let size = size.min(u64::from(LISTED) - 1);
                    if take(&mut blocks, far(at), number, size).is_some() {
                        model.insert(far(at), (number, size));
                    } else {
                        prop_assert!(!model.contains_key(&far(at)), "what has room keeps it");
                    }
                }
                Step::Dead(at) | Step::Kept(at) => {
                    let known = give(&mut blocks, far(at));
                    let known = known.map(|known| (known.block.number(), known.size));
                    prop_assert_eq!(known, model.remove(&far(at)));
                }
                Step::AllDead => {
                    // Whether there is memory for blocks that follow or not.
                    let _ = blocks.all_dead();
                    model.clear();
                }
                Step::Own(_) => {}
            }
        }
        let mut wanted: Vec<(u32, u64)> = model.into_values().collect();
        wanted.sort_unstable();
        prop_assert_eq!(living(&blocks), wanted);
        blocks.free();
        bound::allow(u64::MAX);
    }
}

/// An address at which no block of the VM's allocators can begin is refused and changes nothing.
#[test]
fn other_addresses_are_refused() {
    let mut blocks = open();
    take(&mut blocks, ARENA, 5, 100).expect("memory");
    for at in [ARENA + 8, ARENA + 1] {
        assert!(!<Blocks>::is_place(at));
        assert_eq!((blocks.dead(at), blocks.take(at)), (None, None));
        assert!(blocks.empty_place(at, 100).is_none());
        assert_eq!(blocks.own(at), None);
    }
    assert_eq!(take(&mut blocks, 1 << 47, 5, 100), None);
    assert_eq!(living(&blocks), [(5, 100)]);
    blocks.free();
}

/// After it was left, nothing is known, and nothing is noted.
#[test]
fn what_was_left_is_empty() {
    let mut blocks = open();
    take(&mut blocks, ARENA, 5, u64::MAX).expect("memory");
    blocks.free();
    assert_eq!((blocks.mapped(), blocks.dead(ARENA)), (0, None));
    assert_eq!(take(&mut blocks, ARENA, 5, 100), None);
}

/// Of an allocator with blocks of 8 bytes two neighbours are told apart, from each other and from larger blocks.
#[test]
fn blocks_of_eight_bytes_are_told_apart() {
    let mut blocks = Blocks::<8>::new();
    blocks.open().expect("memory");
    for (number, at) in [(1, ARENA), (2, ARENA + 8), (3, ARENA + 16)] {
        assert!(Blocks::<8>::is_tiny(8) && !Blocks::<8>::is_tiny(9));
        blocks.tiny_born(at, number).expect("memory");
    }
    let place = blocks.place(ARENA + 0x1018).expect("memory");
    blocks.born(place, 4, 24);
    let living = |blocks: &Blocks<8>| {
        let mut living = Vec::new();
        blocks.each(|number, size| living.push((number, size)));
        living.sort_unstable();
        living
    };
    assert_eq!(living(&blocks), [(1, 8), (2, 8), (3, 8), (4, 24)]);
    assert!(blocks.dead(ARENA + 8).is_some());
    assert!(blocks.dead(ARENA + 8).is_none(), "it is dead");
    assert!(blocks.dead(ARENA + 0x1018).is_some());
    assert_eq!(living(&blocks), [(1, 8), (3, 8)]);
    blocks.free();
}

/// Code may begin at any multiple of 8 (that of PHP's opcache does), and is found where it begins.
#[test]
fn owners_are_found_where_they_begin() {
    let mut blocks = Blocks::<8>::new();
    blocks.open().expect("memory");
    let codes = [ARENA, ARENA + 0x28, ARENA + 0x1018];
    for at in codes {
        blocks.own(at).expect("memory");
    }
    let mut found = Vec::new();
    blocks.each_owner(|at| found.push(at));
    assert!(codes.iter().all(|at| found.contains(at)), "{found:x?}");
    assert!(!found.contains(&(ARENA + 0x10)), "{found:x?}");
    blocks.free();
}

/// The short ways know blocks that begin at multiples of 8, and leave those of up to 8 bytes to the long ones.
#[test]
fn the_short_ways_know_blocks_at_multiples_of_eight() {
    let mut blocks = Blocks::<8>::new();
    blocks.open().expect("memory");
    let (tiny, other) = (ARENA + 0x1008, ARENA + 0x18);
    let place = blocks.place(other).expect("memory");
    blocks.born(place, 4, 24);
    assert!(blocks.take(other).flatten().is_some());
    assert!(blocks.dead(other).is_none(), "it was taken");
    let place = blocks.empty_place(other, 24).expect("its table was used");
    blocks.fill(place, 5, 24);
    assert!(blocks.empty_place(other, 24).is_none(), "it lives");
    assert!(
        blocks.empty_place(other + 16, 8).is_none(),
        "it is too small"
    );
    blocks.tiny_born(tiny, 6).expect("memory");
    assert_eq!(blocks.take(tiny), None, "it may be one of these");
    assert!(blocks.dead(tiny).is_some());
    blocks.free();
}
