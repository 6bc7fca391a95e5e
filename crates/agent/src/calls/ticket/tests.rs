//! Tickets: what is packed is what is found.

use super::*;
use crate::calls::ring::fixture::Own;
use proptest::prelude::*;
use wire::calls::further::ALL_COUNTS;
use wire::calls::{NO_APPLICATION, lines, ticket};

/// A ticket of a session alone names no ring and no lines.
#[test]
fn a_session_alone_names_no_ring() {
    let ticket = of_session(77);
    assert_eq!(session(ticket), 77);
    assert_eq!(ring_and_lines(ticket), (0, 0));
    assert_eq!(quick_ring(ticket), None);
    assert_eq!(ticket::open(ticket), None);
}

/// A call that went the short way names its ring, its time and its session.
#[test]
fn the_short_way_names_its_ring() {
    let own = Own::new(1 << 12);
    let ticket = quick(5, own.ring(), 123);
    assert_eq!(quick_ring(ticket), Some(own.address()));
    assert_eq!((session(ticket), ticket[2]), (5, 123));
    assert_eq!(ring_and_lines(ticket), (own.address(), 0));
}

/// A call that takes a block keeps its site beside its session.
#[test]
fn a_call_that_takes_a_block_keeps_its_site() {
    let own = Own::new(1 << 12);
    let mut ticket = quick(5, own.ring(), 123);
    assert_eq!(site(ticket), None);
    keep_site(&mut ticket, 65_000);
    assert_eq!((session(ticket), site(ticket)), (5, Some(65_000)));
    assert_eq!((quick_ring(ticket), ticket[2]), (Some(own.address()), 123));
}

/// Neither a packed ticket nor a counted one is taken for one of the short way.
#[test]
fn only_the_short_way_is_quick() {
    let own = Own::new(1 << 12);
    assert_eq!(quick_ring(pack(1, lines(3, 4), 5, own.ring())), None);
    assert_eq!(quick_ring(counted(1, 3, own.ring(), 7, 9)), None);
}

/// The command reads session, ring and row of a counted call from the words that the agent wrote.
#[test]
fn a_counted_call_is_read_outside() {
    let own = Own::new(1 << 12);
    for row in [0, 1, ALL_COUNTS as u64 - 1] {
        let words = counted(9, 4, own.ring(), row, 1000);
        assert_eq!(ticket::open(words), Some((9, own.address(), row)));
        assert_eq!(words[2] & !COUNTED, 1000);
    }
}

/// A counted call began in the process whose id the command has written.
#[test]
fn a_counted_call_knows_its_process() {
    let own = Own::new(1 << 12);
    let ticket = counted(9, 4, own.ring(), 3, 1000);
    assert!(began_here(ticket));
    let other = [ticket[0] ^ 1 << KEPT_AT, ticket[1], ticket[2]];
    assert!(!began_here(other));
}

/// The greatest numbers of lines fit: that of no application beside a library's.
#[test]
fn the_greatest_lines_fit() {
    let own = Own::new(1 << 12);
    let greatest = lines(NO_APPLICATION, 4094);
    let ticket = pack(u32::MAX, greatest, 0, own.ring());
    assert_eq!(ring_and_lines(ticket), (own.address(), greatest));
    assert_eq!(session(ticket), u32::MAX);
}

proptest! {
    /// Session, lines, what is kept and ring come back whatever they are, and none spoils another.
    #[test]
    fn what_is_packed_comes_back(
        number in any::<u32>(), event in 0u32..=NO_APPLICATION, library in 0u32..4095, word in 0u64..1 << 20,
    ) {
        let own = Own::new(1 << 12);
        let lines = lines(event, library);
        let ticket = pack(number, lines, word, own.ring());
        prop_assert_eq!(session(ticket), number);
        prop_assert_eq!(kept(ticket), word);
        prop_assert_eq!(ring_and_lines(ticket), (own.address(), lines));
    }
}
