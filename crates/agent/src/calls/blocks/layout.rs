//! Where the routine's short way finds what is counted of blocks. Used by `calls`.

use core::mem::offset_of;
use routine::blocks::{Layout, PLACES};
use wire::calls::blocks::{
    Beside, Blocks, Book, ERA_AT, ERAS, Effect, FACTOR_OF_PLACE, FIRST_WRAPPER, FOUND, IN_VAIN,
    MARKS, NEAR_PLACES, PAGE_SHIFT, REGION_SHIFT, REGIONS, Row, SITES, SIZE_AT,
};
use wire::calls::{Calls, Hook};

pub const LAYOUT: Layout = Layout {
    book: offset_of!(Calls, blocks) + offset_of!(Blocks, book),
    want: offset_of!(Hook, want),
    effect: offset_of!(Hook, blocks),
    factor: Effect::FACTOR as usize,
    tallies: offset_of!(Book, tallies),
    in_vain: IN_VAIN as usize,
    grain: offset_of!(Book, grain),
    era: offset_of!(Book, era),
    eras: [ERAS as usize - 1, ERA_AT as usize],
    tables: offset_of!(Book, tables),
    regions: [REGIONS, REGION_SHIFT as usize],
    words: [MARKS as usize, PAGE_SHIFT as usize],
    found: offset_of!(Book, found),
    sites: [FOUND, SITES],
    factor_of_place: FACTOR_OF_PLACE,
    wrappers: [
        FIRST_WRAPPER,
        offset_of!(Calls, blocks) + offset_of!(Blocks, depths),
    ],
    tally: [
        offset_of!(Beside, thread),
        offset_of!(Beside, session),
        offset_of!(Beside, unwatched),
        offset_of!(Beside, taking),
    ],
    rows: [
        size_of::<Beside>(),
        size_of::<Row>().trailing_zeros() as usize,
    ],
    row: [
        offset_of!(Row, born),
        offset_of!(Row, born_bytes),
        offset_of!(Row, dead),
        offset_of!(Row, dead_bytes),
    ],
    size_at: SIZE_AT as usize,
};

const _: () = {
    assert!(size_of::<Row>().is_power_of_two() && SITES == 1 << 16);
    assert!(NEAR_PLACES == PLACES);
    // The routine checks that a size has no more than 31 bits.
    assert!(SIZE_AT < 32);
};
