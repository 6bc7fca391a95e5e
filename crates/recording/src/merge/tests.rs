//! What is told where more overlaps in time than is kept in memory.

use super::*;
use crate::{
    CallEdge, CallRecord, Copies, Definition, Function, Guest, Head, Module, Place, ReturnRecord,
    Site, Writer,
};
use prototypes::capture::{Registers, Returned};

const THREADS: u32 = 20;
const CALLS: u64 = 500;

/// Threads that call at the same time, each from a hundred places.
fn recorded() -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), Head::default()).unwrap();
    for definition in [
        Definition::Guest(Guest::default()),
        Definition::Module(Module::default()),
        Definition::Function(Function::default()),
        Definition::CallEdge(CallEdge::default()),
    ] {
        writer.define(definition).unwrap();
    }
    let streams: Vec<u32> = (0..THREADS).map(|ring| writer.stream(0, ring)).collect();
    for number in 0..CALLS {
        for &stream in &streams {
            let place = Place {
                guest: 0,
                tid: stream,
                stack: 0,
            };
            let time = number * 1000 + u64::from(stream) * 10;
            let site = Site {
                edge: 1,
                caller: number % 100,
                ..Site::default()
            };
            let call = CallRecord {
                site,
                place,
                frame: 64,
                time,
                registers: &Registers::default(),
                copies: Copies::Words(&[]),
                callers: &[],
            };
            writer.call(stream, &call).unwrap();
            let back = ReturnRecord {
                place,
                frame: 64,
                time: time + 5,
                returned: &Returned::default(),
                copies: Copies::Words(&[]),
            };
            writer.back(stream, &back).unwrap();
        }
    }
    writer.finish().unwrap()
}

/// The times of all events by ring, and whether they came in order; and the most that was open.
fn read(most_open: u64) -> (Vec<Vec<u64>>, bool, u64, Merge) {
    let recording = Recording::open(recorded()).unwrap();
    let mut merge = Merge {
        most_open,
        ..Merge::new(Wanted::ALL)
    };
    let (mut times, mut last) = (vec![Vec::new(); THREADS as usize], 0);
    let (mut in_order, mut most) = (true, 0);
    while let Some(event) = merge.next(&recording).unwrap() {
        most = most.max(merge.open);
        in_order &= last <= event.at.nanos();
        last = event.at.nanos();
        times[event.at.ring as usize].push(last);
    }
    (times, in_order, most, merge)
}

#[test]
fn where_memory_does_not_suffice_order_between_threads_is_lost_and_nothing_else() {
    let (all, in_order, most, merge) = read(MOST_OPEN);
    assert!(in_order);
    assert_eq!((merge.unordered(), merge.open), (0, 0));
    assert!(all.iter().all(|times| times.len() == CALLS as usize * 2));
    // For a few of the segments, and for none: then one is open at a time.
    for room in [most / 4, 0] {
        let (some, in_order, held, merge) = read(room);
        assert_eq!(some, all, "of each thread the same in the same order");
        assert!(!in_order);
        assert!((1..u64::from(THREADS)).contains(&merge.unordered()));
        let one = most / u64::from(THREADS);
        assert!(held <= room.max(1) + 2 * one, "{held} {room}");
        assert_eq!(merge.open, 0);
        assert!(merge.spare.len() <= MOST_SPARE);
    }
}
