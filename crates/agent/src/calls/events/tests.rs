//! Records of calls and returns, read back by the layout that the command reads.

use super::hooked::{NO_VECTORS, as_call};
use super::*;
use crate::calls::ring::fixture::Own;
use proptest::prelude::*;
use routine::{Frame, Results};
use std::vec::Vec;
use wire::calls::Hook;
use wire::calls::record::RecordedRegisters;

const ARGUMENTS: [u64; 6] = [0x1_0000_0001, 2, 3, 4, 5, 0xffff_ffff_ffff_ffff];
const STACK: u64 = 0x7ffd_1234_5678;
const CALLER: u64 = 0x5555_0000_1111;

fn hook(shape: Shape) -> Hook {
    Hook {
        shape: shape.0,
        ..Hook::default()
    }
}

fn results(rax: u64, rdx: u64) -> Results {
    Results {
        xmm: core::array::from_fn(|at| [at as u64 + 100, 0]),
        rax,
        rdx,
        scratch: [0; 7],
    }
}

/// A call of this hook, wanted as it says.
fn of<'a>(hook: &'a Hook, frame: &'a Frame, wanted: u64) -> Hooked<'a> {
    Hooked {
        hook,
        wanted,
        frame,
        vectors: NO_VECTORS,
        stack: STACK,
    }
}

/// Records a call at tick 1000 and its return at tick 1500; returns kinds and bodies of what is in the ring.
fn recorded(shape: Shape, wanted: u64, between: impl FnOnce(&Own)) -> Vec<(u64, Vec<u64>)> {
    let own = Own::new(1 << 12);
    let hook = hook(shape);
    let frame = as_call(&hook, ARGUMENTS, 0, CALLER);
    let which = Which {
        number: 77,
        lines: 9,
    };
    assert!(call(own.ring(), of(&hook, &frame, wanted), which, 1000));
    between(&own);
    let results = results(0x1234_5678_9abc, 42);
    let outcome = Outcome {
        results: &results,
        kept: 0,
    };
    returned(
        own.ring(),
        of(&hook, &frame, wanted),
        outcome,
        77,
        [1000, 1500],
    );
    own.take()
        .into_iter()
        .map(|(_, kind, body)| (kind, body))
        .collect()
}

/// A call's record names its hook, its line, its time, its stack pointer and its caller.
#[test]
fn a_call_names_where_it_is() {
    let records = recorded(RecordedRegisters::UNKNOWN.shape(true, false), 0, |_| {});
    let (kind, body) = &records[0];
    assert_eq!(*kind, kind::ENTRY);
    assert_eq!(record::hook([body[0], body[1]]), 77);
    assert_eq!(record::address(body[1]), STACK);
    assert_eq!(record::address(body[2]), CALLER);
    assert_eq!(record::lines_of([body[1], body[2]]), [9, 0]);
    assert_eq!(record::ticks(body[0], 2000), 1000);
    assert_eq!(body[3..9], ARGUMENTS);
}

/// A return that follows its call at once is in the room behind it.
#[test]
fn a_return_is_behind_its_call() {
    let records = recorded(RecordedRegisters::UNKNOWN.shape(true, false), 0, |_| {});
    let (kind, body) = &records[1];
    assert_eq!((*kind, records.len()), (kind::RETURNED, 2));
    assert_eq!(body[..2], [500, 0x1234_5678_9abc]);
}

/// A return behind other records is a record of its own, which names the call by its stack pointer, and the room is left empty.
#[test]
fn a_later_return_is_a_record_of_its_own() {
    let records = recorded(RecordedRegisters::UNKNOWN.shape(true, false), 0, |own| {
        let record = Record::begin(own.ring(), kind::FORK, 2, 0).expect("room");
        record.end(0);
    });
    let kinds: Vec<u64> = records.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, [kind::ENTRY, kind::ROOM, kind::FORK, kind::RETURN]);
    let body = &records[3].1;
    assert_eq!(record::hook([body[0], body[1]]), 77);
    assert_eq!(record::address(body[1]), STACK);
    assert_eq!(record::ticks(body[0], 2000), 1500);
    assert_eq!(body[2..], [0x1234_5678_9abc]);
}

/// A call that is held back has no room behind it: its return is a record.
#[test]
fn a_held_call_has_no_room() {
    let records = recorded(
        RecordedRegisters::UNKNOWN.shape(true, false),
        want::HELD,
        |_| {},
    );
    assert_eq!(records[0].0, kind::HELD);
    assert_eq!(records[1].0, kind::RETURN);
}

/// Narrow registers take half a word each, an odd last one a word.
#[test]
fn narrow_registers_share_a_word() {
    let wanted = RecordedRegisters {
        integers: 3,
        narrow: true,
        ..RecordedRegisters::UNKNOWN
    };
    let records = recorded(wanted.shape(true, false), 0, |_| {});
    assert_eq!(records[0].1[3..], [2 << 32 | 1, ARGUMENTS[3] << 32 | 3]);
}

/// A narrow result stands beside the cycles.
#[test]
fn a_narrow_result_is_beside_the_cycles() {
    let wanted = RecordedRegisters {
        narrow_result: true,
        ..RecordedRegisters::UNKNOWN
    };
    let records = recorded(wanted.shape(true, false), 0, |_| {});
    assert_eq!(records[1].1, [500 | 0x5678_9abc << 32]);
}

/// The second result and vector results follow rax, in this order.
#[test]
fn further_results_follow_rax() {
    let wanted = RecordedRegisters {
        second_result: true,
        vector_results: 2,
        ..RecordedRegisters::UNKNOWN
    };
    let in_room = recorded(wanted.shape(true, false), 0, |_| {});
    assert_eq!(in_room[1].1, [500, 0x1234_5678_9abc, 42, 100, 101]);
    let alone = recorded(wanted.shape(true, false), want::HELD, |_| {});
    assert_eq!(alone[1].1[2..], [0x1234_5678_9abc, 42, 100, 101]);
}

/// A call that took longer than the room's 32 bits of cycles can hold is returned in a record of its own.
#[test]
fn a_long_call_does_not_fit_its_room() {
    let own = Own::new(1 << 12);
    let hook = hook(RecordedRegisters::UNKNOWN.shape(true, false));
    let frame = as_call(&hook, ARGUMENTS, 0, CALLER);
    let which = Which {
        number: 1,
        lines: 0,
    };
    assert!(call(own.ring(), of(&hook, &frame, 0), which, 1000));
    assert!(!fill(own.ring(), 1000, 1000 + (1 << 32), 5, |_, _| 0));
    assert!(fill(own.ring(), 1000, 999 + (1 << 32), 5, |_, _| 0));
}

/// A full ring refuses a call, and the return of a call without a record is counted as lost.
#[test]
fn what_finds_no_room_is_counted() {
    let own = Own::new(512);
    let hook = hook(RecordedRegisters::UNKNOWN.shape(true, false));
    let frame = as_call(&hook, ARGUMENTS, 0, CALLER);
    let which = Which {
        number: 1,
        lines: 0,
    };
    let calls = (0..10).filter(|_| call(own.ring(), of(&hook, &frame, 0), which, 1000));
    let recorded = calls.count() as u64;
    assert!(recorded < 10);
    let lost = || own.ring().written.lost.load(Ordering::Relaxed);
    assert_eq!(lost(), 10 - recorded);
    lose_return(own.ring());
    assert_eq!(lost(), 11 - recorded);
}

proptest! {
    /// Whatever registers are wanted, the record has the words that its shape says, and they are read back as they were.
    #[test]
    fn registers_are_read_back(integers in 0u8..=6, narrow in any::<bool>(), values in any::<[u32; 6]>()) {
        let own = Own::new(1 << 12);
        let shape = RecordedRegisters { integers, narrow, ..RecordedRegisters::UNKNOWN }.shape(true, false);
        let hook = hook(shape);
        let frame = as_call(&hook, values.map(u64::from), 0, CALLER);
        let which = Which { number: 5, lines: 0 };
        prop_assert!(call(own.ring(), of(&hook, &frame, want::HELD), which, 3));
        let (_, _, body) = own.take().remove(0);
        prop_assert_eq!(body.len() as u64 + 1, shape.entry_words());
        let read: [u64; 6] = shape.integer_registers(&body[3..]);
        for (at, value) in values.into_iter().enumerate().take(integers.into()) {
            prop_assert_eq!(read[at], u64::from(value));
        }
    }
}
