//! The functions of libc's names, against slices.

use super::*;
use proptest::prelude::*;
use std::vec::Vec;

/// Bytes that are all different from their neighbours.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 + at / 256) as u8).collect()
}

/// Every length up to several times the longest that is copied by loads and stores is copied whole, and not a byte more.
#[test]
fn every_length_is_copied() {
    for length in 0..400 {
        let from = pattern(length);
        let mut to = std::vec![0xaa; length + 2];
        // SAFETY: both areas have `length` bytes.
        let given = unsafe { memcpy(to[1..].as_mut_ptr(), from.as_ptr(), length) };
        assert_eq!(given, to[1..].as_mut_ptr());
        assert_eq!(to[1..=length], from, "{length}");
        assert_eq!((to[0], to[length + 1]), (0xaa, 0xaa), "{length}");
    }
}

/// Nothing at all is read or written where nothing is to be copied.
#[test]
fn nothing_is_copied_of_nothing() {
    let (from, mut to) = ([1u8], [2u8]);
    // SAFETY: no byte is copied.
    unsafe { memcpy(to.as_mut_ptr(), from.as_ptr(), 0) };
    assert_eq!(to, [2]);
}

/// Areas that overlap are moved as if through a copy, in both directions and by every distance.
#[test]
fn overlapping_areas_are_moved() {
    for length in [0, 1, 3, 7, 15, 31, 32, 33, 63, 64, 65, 200] {
        for (from, to) in (0..20).flat_map(|from| (0..20).map(move |to| (from, to))) {
            let mut bytes = pattern(length + 40);
            let mut expected = bytes.clone();
            expected.copy_within(from..from + length, to);
            let at = bytes.as_mut_ptr();
            // SAFETY: both areas lie in `bytes`.
            unsafe { memmove(at.add(to), at.add(from), length) };
            assert_eq!(bytes, expected, "{length} {from} {to}");
        }
    }
}

/// A move from the end leaves the direction forward: what is copied next goes where it should.
#[test]
fn a_move_leaves_the_direction_forward() {
    let mut bytes = pattern(300);
    let (from, mut to) = (pattern(200), std::vec![0; 200]);
    let at = bytes.as_mut_ptr();
    // SAFETY: both areas of each call lie in their vectors.
    unsafe {
        memmove(at.add(1), at, 299);
        memcpy(to.as_mut_ptr(), from.as_ptr(), 200);
    }
    assert_eq!(to, from);
}

/// An area is filled with the low byte of the number, and its neighbours stay.
#[test]
fn an_area_is_filled() {
    for length in 0..100 {
        let mut bytes = std::vec![1u8; length + 2];
        // SAFETY: the area has `length` bytes.
        unsafe { memset(bytes[1..].as_mut_ptr(), 0x1_23, length) };
        assert!(bytes[1..=length].iter().all(|byte| *byte == 0x23));
        assert_eq!((bytes[0], bytes[length + 1]), (1, 1));
    }
}

/// A difference is seen at every place of every length, and its sign is that of unsigned bytes.
#[test]
fn a_difference_is_seen_anywhere() {
    for length in 1..40 {
        for at in 0..length {
            let a = std::vec![0x7f; length];
            let mut b = a.clone();
            b[at] = 0x80;
            // SAFETY: both areas have `length` bytes.
            let (less, more) = unsafe {
                (
                    memcmp(a.as_ptr(), b.as_ptr(), length),
                    memcmp(b.as_ptr(), a.as_ptr(), length),
                )
            };
            assert!(less < 0 && more > 0, "{length} {at}");
        }
    }
}

/// The first difference decides, not the greatest.
#[test]
fn the_first_difference_decides() {
    let (a, b) = (*b"aaaabaaaaaaaz", *b"aaaaazzzzzzza");
    // SAFETY: both areas have 13 bytes.
    assert!(unsafe { memcmp(a.as_ptr(), b.as_ptr(), 13) } > 0);
    // SAFETY: as above.
    assert_ne!(unsafe { bcmp(a.as_ptr(), b.as_ptr(), 13) }, 0);
    // SAFETY: as above; the first four bytes are the same.
    assert_eq!(unsafe { bcmp(a.as_ptr(), b.as_ptr(), 4) }, 0);
}

proptest! {
    /// The order of two areas is that of their slices.
    #[test]
    fn the_order_is_that_of_slices(
        a in prop::collection::vec(0u8..3, 0..30),
        b in prop::collection::vec(0u8..3, 0..30),
    ) {
        let length = a.len().min(b.len());
        // SAFETY: both areas have `length` bytes.
        let order = unsafe { memcmp(a.as_ptr(), b.as_ptr(), length) };
        prop_assert_eq!(order.cmp(&0), a[..length].cmp(&b[..length]));
    }
}
