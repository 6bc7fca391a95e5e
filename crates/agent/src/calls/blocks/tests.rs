//! The book as several threads use it, and a thread's rows.

use super::book::{
    PARTS, beside, forget_part, forget_thread, row, site, site_at_once, site_with_lines, take,
    tally_at_once, word_at_once, word_for,
};
use super::memory::within;
use super::{Born, died};
use crate::calls::ring::fixture::Own;
use crate::memory::follow::ours;
use crate::memory::sys;
use core::sync::atomic::{AtomicU64, Ordering};
use routine::room::place;
use std::collections::BTreeSet;
use std::vec::Vec;
use wire::calls::blocks::{
    Book, FIRST_WRAPPER, IN_VAIN, LINED_SITES, MARKS, REGION_SHIFT, SITES, TALLY_BYTES,
    size_of_block, table_bytes, word,
};
use wire::calls::{RINGS, lines};

/// A book of the test's own, with this grain. It stays, as the agent's do.
fn book_of(grain: u64) -> &'static Book {
    let at = sys::map(size_of::<Book>() as u64).expect("memory");
    // SAFETY: the mapping is new, and zeros are a book.
    let book = unsafe { &*ours::<Book>(at) };
    book.grain.store(grain, Ordering::Relaxed);
    book
}

fn book() -> &'static Book {
    book_of(5)
}

fn address(number: u64) -> u64 {
    0x7f12_3400_0000 + number * 7
}

/// Several threads meet new sites at once: each has one number, by which its address is known, and none has another's.
#[test]
fn a_site_has_one_number_whoever_comes_first() {
    let book = book();
    let all = std::thread::scope(|scope| {
        let look = |start: u64| {
            (0..2000)
                .map(|at| {
                    let address = address((at + start) % 2000);
                    (address, site(book, address).expect("a number"))
                })
                .collect::<Vec<_>>()
        };
        let threads: Vec<_> = (0..4)
            .map(|number| scope.spawn(move || look(number * 500)))
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().expect("no panic"))
            .collect::<BTreeSet<_>>()
    });
    assert_eq!(all.len(), 2000, "an address has two numbers");
    let numbers: BTreeSet<u64> = all.iter().map(|(_, number)| *number).collect();
    assert_eq!(numbers.len(), 2000, "two addresses have one number");
    for (address, number) in all {
        assert_eq!(site_at_once(book, address).unwrap_or(number), number);
        let known = book.addresses[number as usize].load(Ordering::Relaxed);
        assert_eq!(known, address);
    }
    assert_eq!(site(book, 1 << 50), None, "it is no address of a program");
}

/// Another thread may have the address of a dead one.
#[test]
fn a_tally_is_a_dead_threads_no_more() {
    let (book, thread) = (book(), 0x7f12_3456_7000);
    let at = sys::map(TALLY_BYTES).expect("memory");
    let here = place(thread) % RINGS;
    book.tallies[here].store(at, Ordering::Relaxed);
    beside(at).thread.store(thread, Ordering::Relaxed);
    beside(at).session.store(3, Ordering::Relaxed);
    assert_eq!(tally_at_once(book, thread, 3), Some(at));
    forget_thread(book, here, thread + 64);
    assert_eq!(tally_at_once(book, thread, 3), Some(at), "it is of another");
    forget_thread(book, here, thread);
    assert_eq!(tally_at_once(book, thread, 3), None);
}

#[test]
fn sites_come_to_an_end() {
    let book = book();
    let made = (0..SITES as u64 + 10).filter_map(|at| site(book, address(at)));
    let numbers: BTreeSet<u64> = made.collect();
    assert_eq!(numbers.len(), FIRST_WRAPPER - 1);
    assert!(!numbers.contains(&0) && numbers.last() < Some(&(FIRST_WRAPPER as u64)));
    // Those that have one keep it.
    assert!(site(book, address(0)).is_some());
}

/// Scripts have any number of lines. When sites with them come to an end, what is told apart is functions alone.
#[test]
fn sites_with_lines_come_to_an_end_first() {
    let (book, own) = (book(), Own::new(1 << 12));
    let mut functions = BTreeSet::new();
    let mut with_lines = BTreeSet::new();
    for at in 0..13 {
        let function = site(book, address(at)).expect("a number");
        functions.insert(function);
        with_lines.extend((1..=4000).map(|line| {
            let known = site_with_lines(book, function, own.ring(), lines(line, 0));
            assert_eq!(
                known,
                site_with_lines(book, function, own.ring(), lines(line, 0))
            );
            known
        }));
    }
    let told = with_lines.difference(&functions).count() as u64;
    assert!((LINED_SITES - 13..=LINED_SITES).contains(&told), "{told}");
    assert_eq!(book.unlined.load(Ordering::Relaxed), 2 * (13 * 4000 - told));
    assert!(site(book, address(99)).is_some());
}

/// Blocks 32 bytes apart have words of their own, in one table whoever makes it.
#[test]
fn each_block_has_a_word() {
    let book = book();
    let at = 0x5555_0000_1010;
    assert!(word_at_once(book, at).is_none());
    assert_eq!(take(book, at), 0);
    let places = std::thread::scope(|scope| {
        let place = || core::ptr::from_ref(word_for(book, at).expect("memory")).addr();
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(place)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .collect::<BTreeSet<_>>()
    });
    assert_eq!(places.len(), 1, "there are several tables");
    for block in 0..100 {
        let place = word_for(book, at + block * 32).expect("memory");
        assert_eq!(place.swap(word(block + 1, block, 0), Ordering::Relaxed), 0);
    }
    assert!(word_at_once(book, at).is_some(), "its page was counted");
    assert!(word_at_once(book, at + (1 << 20)).is_none(), "that was not");
    for block in 0..100 {
        let known = take(book, at + block * 32);
        assert_eq!(known, word(block + 1, block, 0));
        assert_eq!(take(book, at + block * 32), 0, "it was taken away");
    }
    assert!(word_for(book, 1 << 60).is_none(), "no program has it");
}

/// A table has the grain of its book, whatever another session has: words never lie behind its end.
#[test]
fn the_last_word_of_a_table_is_in_it_with_each_grain() {
    for grain in 3..=5 {
        let book = book_of(grain);
        let region = 7 << REGION_SHIFT;
        let last = region + (1 << REGION_SHIFT) - (1 << grain);
        let first = core::ptr::from_ref(word_for(book, region).expect("memory")).addr();
        let last = core::ptr::from_ref(word_for(book, last).expect("memory")).addr();
        assert_eq!((last - first) as u64, table_bytes(grain) - MARKS - 8);
        assert_eq!(book.listed.load(Ordering::Relaxed), 1);
    }
}

/// What a thread writes too late is none of the next session's, and the rest is zeros.
#[test]
fn what_is_forgotten_is_not_there_and_what_comes_too_late_is_none() {
    let book = book();
    let (early, late) = (0x7000_0000, 0x7000_1000);
    for block in [early, late] {
        let place = word_for(book, block).expect("memory");
        place.store(word(3, 10, 0), Ordering::Relaxed);
    }
    assert!(site(book, address(1)).is_some());
    let tally = sys::map(TALLY_BYTES).expect("memory");
    book.tallies[9].store(tally, Ordering::Relaxed);
    book.tallies[10].store(IN_VAIN, Ordering::Relaxed);
    // SAFETY: the row is in the mapping just made, which this test alone knows.
    unsafe { (*row(tally, 3)).born = 2 };
    for part in 0..PARTS {
        forget_part(book, part);
    }
    // SAFETY: as above.
    assert_eq!(unsafe { (*row(tally, 3)).born }, 0);
    assert_eq!(book.tallies[10].load(Ordering::Relaxed), 0);
    assert_eq!(site_at_once(book, address(1)), None);
    assert_eq!(book.sites.load(Ordering::Relaxed), 0);
    let place = word_for(book, late).expect("memory");
    assert_eq!(place.load(Ordering::Relaxed), 0);
    place.store(word(3, 10, 0), Ordering::Relaxed);
    assert_eq!([take(book, early), take(book, late)], [0, 0]);
}

#[test]
fn a_bound_is_kept_and_what_is_refused_is_not_counted() {
    let taken = AtomicU64::new(0);
    assert_eq!(within(&taken, 10, 6), Some(()));
    assert_eq!(within(&taken, 10, 6), None);
    assert_eq!(taken.load(Ordering::Relaxed), 6);
    assert_eq!(within(&taken, 10, 4), Some(()));
}

#[test]
fn births_and_deaths_are_in_the_row_of_their_site() {
    let book = book();
    let tally = sys::map(TALLY_BYTES).expect("memory");
    let block = 0x6000_0000;
    let place = word_for(book, block).expect("memory");
    let born = |site, size, outermost| {
        let born = Born {
            block,
            site,
            size,
            era: 0,
            outermost,
        };
        born.count(tally, place);
    };
    born(7, 100, false);
    // Nobody saw its death.
    born(8, 50, false);
    let known = take(book, block);
    assert_eq!(size_of_block(known), 50);
    died(tally, known);
    died(tally, take(book, block));
    // A function that was not seen to be within another one took the block: it is the other's.
    beside(tally).taking.store(1, Ordering::Relaxed);
    born(9, 30, false);
    born(10, 30, true);
    let figures = [7, 8, 9, 10].map(|site| {
        // SAFETY: the mapping has a row for each site, and this test alone knows it.
        let row = unsafe { *row(tally, site) };
        [row.born, row.born_bytes, row.dead, row.dead_bytes]
    });
    let once = [[1, 100, 1, 100], [1, 50, 1, 50], [0; 4], [1, 30, 0, 0]];
    assert_eq!(figures, once);
    assert_eq!(beside(tally).replaced.load(Ordering::Relaxed), 1);
    // SAFETY: nobody else knows the mapping.
    unsafe { sys::unmap(tally, TALLY_BYTES) };
}
