//! The set of objects that were met, and the stack of those to be told.

use super::*;
use proptest::prelude::*;
use std::collections::HashSet;
use std::vec::Vec;

/// An address is new once.
#[test]
fn an_address_is_new_once() {
    let mut seen = Seen::new().expect("memory");
    assert_eq!(seen.insert(0x7f00_0000_0008), Some(true));
    assert_eq!(seen.insert(0x7f00_0000_0008), Some(false));
}

/// Neighbours, and the same place in another gigabyte, are addresses of their own.
#[test]
fn neighbours_are_apart() {
    let mut seen = Seen::new().expect("memory");
    let at = 0x7f00_0000_0000;
    assert_eq!(seen.insert(at), Some(true));
    for other in [at + 8, at + 64, at + (1 << 30), at - 8] {
        assert_eq!(seen.insert(other), Some(true), "{other:#x}");
    }
}

/// What can be no object's address is refused: not a multiple of eight, or beyond user space.
#[test]
fn what_is_no_address_is_refused() {
    let mut seen = Seen::new().expect("memory");
    for address in [1, 12, 0x7f00_0000_0004, 1 << 47, u64::MAX] {
        assert_eq!(seen.insert(address), None, "{address:#x}");
    }
}

/// The first and the last address that a process can have are in the set's reach.
#[test]
fn both_ends_are_within_reach() {
    let mut seen = Seen::new().expect("memory");
    for address in [0, (1 << 47) - 8] {
        assert_eq!(seen.insert(address), Some(true));
        assert_eq!(seen.insert(address), Some(false));
    }
}

/// An empty stack has nothing to take, also after it was emptied.
#[test]
fn an_empty_stack_has_nothing() {
    let mut open = Open::new().expect("memory");
    assert_eq!(open.pop(), None);
    assert!(open.push(5));
    assert_eq!((open.pop(), open.pop(), open.pop()), (Some(5), None, None));
    assert!(open.push(6));
    assert_eq!(open.pop(), Some(6));
}

/// The stack grows beyond its first mapping and gives all back in the reverse order.
#[test]
#[cfg_attr(miri, ignore = "minutes under Miri")]
fn a_stack_grows() {
    let mut open = Open::new().expect("memory");
    for number in 0..500_000u64 {
        assert!(open.push(number * 8));
    }
    for number in (0..500_000u64).rev() {
        assert_eq!(open.pop(), Some(number * 8));
    }
    assert_eq!(open.pop(), None);
}

proptest! {
    /// The set is a set.
    #[test]
    fn the_set_is_a_set(addresses in prop::collection::vec(0u64..300, 1..400)) {
        let mut seen = Seen::new().expect("memory");
        let mut model = HashSet::new();
        for number in addresses {
            let address = 0x7fab_0000_0000 + number * 8;
            prop_assert_eq!(seen.insert(address), Some(model.insert(address)));
        }
    }

    /// The stack is a vector.
    #[test]
    fn the_stack_is_a_vector(steps in prop::collection::vec(prop::option::of(any::<u64>()), 1..300)) {
        let mut open = Open::new().expect("memory");
        let mut model = Vec::new();
        for step in steps {
            match step {
                Some(address) => {
                    prop_assert!(open.push(address));
                    model.push(address);
                }
                None => prop_assert_eq!(open.pop(), model.pop()),
            }
        }
    }
}
