//! The numbers of slots, against a map from address to number.

use super::*;
use proptest::prelude::*;
use std::collections::HashMap;
use std::vec::Vec;

const PAGE: u64 = 1 << 16;
/// The begin of a heap page somewhere in the address space.
const HEAP: u64 = 0x7f12_3450_0000;

fn open(page_shift: u32, sizes: u32) -> Slots {
    let mut slots = Slots::new();
    slots.open(page_shift, sizes).expect("memory");
    slots
}

/// Nothing was born before a number is set, anywhere.
#[test]
fn no_slot_has_a_number_at_first() {
    let mut slots = open(16, 5);
    for address in [0, 8, HEAP, HEAP + 40, (1 << 47) - 40, 1 << 47, u64::MAX] {
        assert_eq!(slots.get(address), 0);
    }
    slots.free();
}

/// A set that was not opened has no number and takes none.
#[test]
fn a_set_that_is_not_open_takes_nothing() {
    let mut slots = Slots::new();
    assert_eq!(slots.get(HEAP), 0);
    assert_eq!(slots.set(HEAP, 5), None);
}

/// An address that no process has is refused and changes nothing.
#[test]
fn an_impossible_address_is_refused() {
    let mut slots = open(16, 1);
    assert_eq!(slots.set(1 << 47, 5), None);
    assert_eq!(slots.set(u64::MAX, 5), None);
    assert_eq!(slots.get(0), 0);
    slots.free();
}

/// A later birth at the same address replaces the number.
#[test]
fn a_birth_overwrites() {
    let mut slots = open(16, 1);
    for number in [1, 7, u32::MAX, 0] {
        slots.set(HEAP + 80, number).expect("memory");
        assert_eq!(slots.get(HEAP + 80), number);
    }
    slots.free();
}

/// Each slot of a page has its own number, for both sizes of pages that VMs have.
#[test]
fn all_slots_of_a_page_are_apart() {
    for page_shift in [14, 16] {
        let mut slots = open(page_shift, 1);
        let addresses = || (HEAP + 16..HEAP + (1 << page_shift) - 40).step_by(40);
        for (number, address) in (1..).zip(addresses()) {
            slots.set(address, number).expect("memory");
        }
        for (number, address) in (1..).zip(addresses()) {
            assert_eq!(slots.get(address), number);
        }
        slots.free();
    }
}

/// Pages that share nothing but the lower bits of their addresses do not share numbers.
#[test]
fn pages_are_apart() {
    let mut slots = open(16, 1);
    let pages = [
        0x1_0000,
        HEAP,
        HEAP + PAGE,
        HEAP + (1 << 30),
        (1 << 47) - PAGE,
    ];
    for (number, page) in (1..).zip(pages) {
        slots.set(page + 400, number).expect("memory");
    }
    for (number, page) in (1..).zip(pages) {
        assert_eq!(slots.get(page + 400), number);
        assert_eq!(slots.get(page + 440), 0);
    }
    slots.free();
}

/// A page of large slots takes a table with a number for each of its slots only.
#[test]
fn large_slots_take_a_small_table() {
    let mut slots = open(16, 5);
    for address in (HEAP..HEAP + PAGE - 640).step_by(640) {
        slots.set(address, 1).expect("memory");
    }
    let table = slots.table(SlotPath::of(HEAP, 16));
    assert_eq!(table.step(), 4);
    slots.free();
}

/// A page that comes again with smaller slots gets a finer table, which has all numbers of the one before.
#[test]
fn a_finer_table_keeps_the_numbers() {
    let mut slots = open(16, 5);
    for (number, address) in (1..).zip((HEAP..HEAP + PAGE - 640).step_by(640)) {
        slots.set(address, number).expect("memory");
    }
    slots.set(HEAP + 40, 9999).expect("memory");
    assert_eq!(slots.table(SlotPath::of(HEAP, 16)).step(), 0);
    assert_eq!(slots.get(HEAP + 40), 9999);
    for (number, address) in (1..).zip((HEAP..HEAP + PAGE - 640).step_by(640)) {
        assert_eq!(slots.get(address), number);
    }
    slots.free();
}

/// A table that was given up is used again by another page, which finds no number of the old one in it.
#[test]
fn a_table_that_is_used_again_is_empty() {
    let mut slots = open(16, 5);
    for address in (HEAP..HEAP + PAGE - 640).step_by(640) {
        slots.set(address, 77).expect("memory");
    }
    let old = slots.table(SlotPath::of(HEAP, 16)).address();
    slots.set(HEAP + 40, 1).expect("memory");
    let next = HEAP + PAGE;
    slots.set(next, 5).expect("memory");
    assert_eq!(slots.table(SlotPath::of(next, 16)).address(), old);
    for address in (next + 640..next + PAGE - 640).step_by(640) {
        assert_eq!(slots.get(address), 0);
    }
    slots.free();
}

/// An address between two slots of a coarse table has no number rather than a neighbour's.
#[test]
fn between_two_slots_is_no_number() {
    let mut slots = open(16, 3);
    slots.set(HEAP + 160, 4).expect("memory");
    assert_eq!(slots.get(HEAP + 200), 0);
    assert_eq!(slots.get(HEAP + 240), 0);
    slots.free();
}

/// Any address within the same 40 bytes is the same slot.
#[test]
fn a_slot_is_found_by_any_of_its_bytes() {
    let mut slots = open(16, 1);
    slots.set(HEAP + 120, 6).expect("memory");
    assert_eq!(slots.get(HEAP + 128), 6);
    assert_eq!(slots.get(HEAP + 159), 6);
    assert_eq!(slots.get(HEAP + 160), 0);
    slots.free();
}

/// Sizes of pages that no VM has are brought within what a table can cover.
#[test]
#[cfg_attr(miri, ignore = "minutes under Miri")]
fn page_sizes_are_bounded() {
    for (given, taken) in [(0, 12), (11, 12), (15, 15), (20, 20), (63, 20)] {
        let mut slots = open(given, 1);
        assert_eq!(slots.page_shift(), taken);
        slots.set(HEAP, 3).expect("memory");
        assert_eq!(slots.get(HEAP), 3);
        slots.free();
    }
}

/// More sizes of slots than a table can tell apart take the greatest step that there is.
#[test]
fn the_step_is_bounded() {
    let mut slots = open(20, 40);
    slots.set(HEAP, 3).expect("memory");
    assert_eq!(slots.table(SlotPath::of(HEAP, 20)).step(), GREATEST_STEP);
    slots.free();
}

/// What was freed has no number, maps nothing, and can be opened again.
#[test]
fn freed_slots_are_gone() {
    let mut slots = open(16, 1);
    slots.set(HEAP, 3).expect("memory");
    assert!(slots.mapped() > 0);
    slots.free();
    assert_eq!(
        (slots.mapped(), slots.address(), slots.get(HEAP)),
        (0, 0, 0)
    );
    slots.open(16, 1).expect("memory");
    assert_eq!(slots.get(HEAP), 0);
    slots.free();
}

/// Numbers that are taken away all at once are gone, and those that follow are found, in the same memory; of a large heap the memory is given
/// back.
#[test]
#[cfg_attr(miri, ignore = "minutes under Miri")]
fn all_numbers_are_taken_away() {
    let mut slots = open(16, 3);
    let fill = |slots: &mut Slots, pages: u64| {
        for page in 0..pages {
            let at = HEAP + page * PAGE + 80 * (page % 7);
            slots.set(at, page as u32 + 1).expect("memory");
        }
    };
    let noted = |slots: &Slots| {
        let mut noted = Vec::new();
        slots.each(|at, number| noted.extend((number != 0).then_some((at, number))));
        noted.sort();
        noted
    };
    for pages in [1, 100, 40, 2_000, 3] {
        fill(&mut slots, pages);
        assert_eq!(noted(&slots).len() as u64, pages);
        let before = slots.mapped();
        slots.clear_all().expect("memory");
        assert_eq!((noted(&slots), slots.get(HEAP)), (Vec::new(), 0));
        let is_large = before > u64::from(KEPT_CHUNKS + 2) * CHUNK;
        assert_eq!(slots.mapped() < before, is_large, "{pages} pages");
    }
    fill(&mut slots, 2);
    assert_eq!(noted(&slots), [(HEAP, 1), (HEAP + PAGE + 80, 2)]);
    slots.free();
}

/// Where there was no memory to open it again, there may be some the next time.
#[test]
fn a_set_that_could_not_be_opened_again_is_opened_later() {
    let mut slots = open(16, 1);
    slots.set(HEAP, 5).expect("memory");
    slots.free();
    assert_eq!(slots.set(HEAP, 5), None);
    slots.clear_all().expect("memory");
    assert_eq!(slots.get(HEAP), 0);
    assert_eq!(slots.set(HEAP, 6), Some(()));
    slots.free();
}

proptest! {
    /// Whatever is born where, in whatever order, the last number of a slot is found, as long as each page has slots of one size.
    #[test]
    #[cfg_attr(miri, ignore = "minutes under Miri")]
    fn the_last_number_is_found(
        births in prop::collection::vec((0u64..6, 0u32..3, 0u64..200, any::<u32>()), 1..400)
    ) {
        let mut slots = open(16, 3);
        let mut model = HashMap::new();
        for (page, step, slot, number) in births {
            // A page's slots are of a size that grows with its number, and sometimes smaller: the page came again.
            let size = 40 << (page % 3).min(u64::from(step));
            let address = HEAP + page * PAGE + (slot * size) % (PAGE - PAGE % size - size);
            let address = address - (address - HEAP) % PAGE % size;
            slots.set(address, number).expect("memory");
            model.insert(address, number);
        }
        for (address, number) in &model {
            prop_assert_eq!(slots.get(*address), *number);
        }
        slots.free();
    }

    /// What the command reads from outside along the words of the tables is what the agent reads.
    #[test]
    fn the_words_lead_to_the_numbers(places in prop::collection::vec((0u64..4, 0u64..1600), 1..100)) {
        let mut slots = open(16, 2);
        for (page, slot) in &places {
            slots.set(HEAP + page * PAGE + slot * 40, (*slot + 1) as u32).expect("memory");
        }
        let roots = slots.address();
        let read: Vec<u32> = places.iter().map(|(page, slot)| {
            let path = SlotPath::of(HEAP + page * PAGE + slot * 40, 16);
            // SAFETY: the tables were made by `set`.
            unsafe {
                let root = *ours::<u64>(roots).add(path.root as usize);
                let table = Table::from_word(*ours::<u64>(root).add(path.page as usize));
                let index = table.index(path.grain).expect("a number");
                *ours::<u32>(table.address()).add(index as usize)
            }
        }).collect();
        for ((_, slot), number) in places.iter().zip(read) {
            prop_assert_eq!(number, (*slot + 1) as u32);
        }
        slots.free();
    }
}
