//! The book as several threads use it, and a thread's rows.

use super::book::{place, room, site, site_at_once, take};
use super::{born, died};
use crate::calls::session::CALLS;
use crate::memory::follow::ours;
use crate::memory::sys;
use core::sync::atomic::Ordering;
use std::collections::BTreeSet;
use std::vec::Vec;
use wire::calls::blocks::{Beside, Book, Row, SITES, TALLY_BYTES, size_of_block, word};

/// A book of the test's own. It stays, as the agent's do.
fn book() -> &'static Book {
    let at = sys::map(size_of::<Book>() as u64).expect("memory");
    // SAFETY: all tests write the same number; the mapping is new, and zeros are a book.
    unsafe {
        (&raw mut CALLS.blocks.grain).write_volatile(5);
        &*ours::<Book>(at)
    }
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

#[test]
fn sites_come_to_an_end() {
    let book = book();
    let made = (0..SITES as u64 + 10).filter_map(|at| site(book, address(at)));
    let numbers: BTreeSet<u64> = made.collect();
    assert_eq!(numbers.len(), SITES - 1);
    assert!(!numbers.contains(&0) && numbers.last() < Some(&(SITES as u64)));
    // Those that have one keep it.
    assert!(site(book, address(0)).is_some());
}

/// Blocks 32 bytes apart have words of their own, in one table whoever makes it.
#[test]
fn each_block_has_a_word() {
    let book = book();
    let at = 0x5555_0000_1010;
    assert_eq!((place(book, at), take(book, at)), (None, 0));
    let places = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| room(book, at).expect("memory").addr()))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .collect::<BTreeSet<_>>()
    });
    assert_eq!(places.len(), 1, "there are several tables");
    assert_eq!(book.listed.load(Ordering::Relaxed), 1);
    for block in 0..100 {
        let place = room(book, at + block * 32).expect("memory");
        // SAFETY: the word is in a table of this test's book.
        unsafe { *place = word(block + 1, block) };
    }
    for block in 0..100 {
        assert_eq!(take(book, at + block * 32), word(block + 1, block));
        assert_eq!(take(book, at + block * 32), 0, "it was taken away");
    }
    assert_eq!(room(book, 1 << 60), None, "no program has such an address");
}

#[test]
fn births_and_deaths_are_in_the_row_of_their_site() {
    let book = book();
    let tally = sys::map(TALLY_BYTES).expect("memory");
    let block = 0x6000_0000;
    let place = room(book, block).expect("memory");
    born(tally, place, 7, 100);
    // Nobody saw its death.
    born(tally, place, 8, 50);
    let known = take(book, block);
    assert_eq!(size_of_block(known), 50);
    died(tally, known);
    died(tally, take(book, block));
    // SAFETY: the mapping has a row for each site.
    let (rows, beside) = unsafe {
        let row = |site| *ours::<Row>(tally).add(site);
        ([row(7), row(8)], *ours::<Beside>(tally))
    };
    let figures = rows.map(|row| [row.born, row.born_bytes, row.dead, row.dead_bytes]);
    assert_eq!(figures, [[1, 100, 1, 100], [1, 50, 1, 50]]);
    assert_eq!((beside.unknown, beside.replaced, beside.unnoted), (1, 1, 0));
    // SAFETY: nobody else knows the mapping.
    unsafe { sys::unmap(tally, TALLY_BYTES) };
}
