//! How many frames are walked for a birth.

use super::*;
use crate::births::texts::Class;
use crate::shared::EMPTY;
use std::boxed::Box;

const CODE: u64 = 0x7f00_0000_1000;

/// A script of ten frames, and how many of them were walked.
#[derive(Default)]
struct Walk {
    walked: usize,
}

impl Texts for Walk {
    fn line(&self, _code: u64, pc: u64) -> u32 {
        pc as u32
    }

    fn path(&mut self, _code: u64) -> &[u8] {
        b"/a"
    }

    fn method(&mut self, _code: u64) -> &[u8] {
        b"method"
    }

    fn class(&mut self, _class: u64) -> Class<'_> {
        Class::Named {
            name: b"(block)",
            internal: false,
        }
    }

    fn is_own(&mut self, _code: u64) -> bool {
        false
    }
}

impl Script for Walk {
    fn point(&self, _thread: u64) -> Option<(u64, u64)> {
        Some((CODE, 2))
    }

    fn frames(&mut self, _thread: u64, mut each: impl FnMut(u64, u64) -> Option<()>) {
        for number in 0..10 {
            self.walked += 1;
            if each(CODE + number * 0x1000, 2).is_none() {
                return;
            }
        }
    }
}

/// A walk meets frames that the VM is just making or that are not like others, so it ends where enough are known: with the one of the line; with
/// those of the call path, which for a new path are read once more, and one behind them, that tells whether it is cut.
#[test]
fn no_frame_is_walked_that_is_not_wanted() {
    for (depth, first, again) in [(1, 1, 0), (3, 3 + 4, 3)] {
        let mut ledger = Box::new(EMPTY);
        let mut births: Box<Births<Walk>> = Box::new(Births::new(Walk::default()));
        births.depth = depth;
        births.open(&mut ledger).expect("memory");
        for (at, walked) in [(0x7f12_3450_0010, first), (0x7f12_3450_0110, again)] {
            births.names.walked = 0;
            let booked = births.born(&mut ledger, 0, 1, (at, 100));
            assert!(booked.is_some());
            assert_eq!(births.names.walked, walked, "{depth}");
        }
        births.names.walked = 0;
        assert!(!births.is_misplaced(0));
        assert_eq!(births.names.walked, depth);
        births.forget(&mut ledger);
    }
}
