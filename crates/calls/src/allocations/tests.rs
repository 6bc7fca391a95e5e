//! Allocations by events that are made here.

use super::*;
use crate::event::CallEdge;
use hooks::rings::Losses;
use process::functions::Function;
use prototypes::capture::{Registers, Returned};
use prototypes::show::Captures;
use std::sync::Arc;

/// A process of one thread that calls an allocator, one call every 100 ms.
#[derive(Default)]
struct Guest {
    allocations: Allocations,
    calls: u64,
    /// Which of its processes makes the calls.
    worker: i32,
}

fn named(name: &str, module: &str) -> Arc<CallEdge> {
    let function = Function {
        name: name.into(),
        module: module.into(),
        ..Function::default()
    };
    Arc::new(CallEdge {
        function: Arc::new(function),
        ..CallEdge::default()
    })
}

fn called(edge: Arc<CallEdge>, arguments: [u64; 6]) -> Call {
    Call {
        edge,
        caller: 0,
        registers: Registers {
            gp: arguments,
            ..Registers::default()
        },
        captures: Captures::new(),
        line: None,
        library: None,
        callers: Vec::new(),
    }
}

impl Guest {
    fn at(&mut self) -> At {
        self.calls += 1;
        At {
            process: 7 + self.worker,
            time: Duration::from_millis(100 * self.calls),
            ..At::default()
        }
    }

    fn enter(&mut self, name: &str, arguments: [u64; 3]) -> Option<Allocating> {
        let [first, second, third] = arguments;
        let call = called(named(name, "libc.so.6"), [first, second, third, 0, 0, 0]);
        let at = self.at();
        self.allocations.enter(at, &call)
    }

    /// A call; `stored` = what it stores where its first argument points to.
    fn call_storing(&mut self, name: &str, arguments: [u64; 3], result: u64, stored: Option<u64>) {
        let Some(call) = self.enter(name, arguments) else {
            return;
        };
        let mut captures = Captures::new();
        if let Some(word) = stored {
            captures.add(arguments[0], &word.to_le_bytes());
        }
        let back = Return {
            returned: Returned {
                rax: result,
                ..Returned::default()
            },
            captures,
        };
        let key = (name.to_owned(), Site::default());
        let at = self.at();
        self.allocations.leave(at, call, &back, key);
    }

    fn call(&mut self, name: &str, arguments: [u64; 3], result: u64) {
        self.call_storing(name, arguments, result, None);
    }

    fn finish(self) -> NotFreed {
        self.allocations.finish(&SourceEnd::default())
    }
}

/// By function: how many of how many are not freed, and their bytes.
fn rows(all: &NotFreed) -> Vec<(&str, u64, u64, u64)> {
    let rows = all.rows.iter();
    let mut rows: Vec<_> = rows
        .map(|row| (row.call.as_str(), row.kept, row.allocated, row.bytes))
        .collect();
    rows.sort();
    rows
}

#[test]
fn what_is_freed_is_there_no_more() {
    let mut guest = Guest::default();
    guest.call("malloc", [24, 0, 0], 0x1000);
    guest.call("free", [0x1000, 0, 0], 0);
    // The same address again, for which another function asks.
    guest.call("calloc", [3, 100, 0], 0x1000);
    guest.call("malloc", [1 << 60, 0, 0], 0);
    guest.call("aligned_alloc", [64, 128, 0], 0x2000);
    guest.call("memalign", [64, 128, 0], 0x3000);
    guest.call("free", [0x3000, 0, 0], 0);
    // Of one that nobody saw, of nothing, and twice.
    guest.call("free", [0x9000, 0, 0], 0);
    guest.call("free", [0, 0, 0], 0);
    guest.call("free", [0x3000, 0, 0], 0);
    let all = guest.finish();
    assert_eq!(
        rows(&all),
        [("aligned_alloc", 1, 1, 128), ("calloc", 1, 1, 300)]
    );
    assert_eq!((all.allocated, all.kept, all.bytes), (4, 2, 428));
    assert_eq!(all.foreign, 2);
}

#[test]
fn realloc_frees_and_allocates_unless_it_fails() {
    let mut guest = Guest::default();
    guest.call("realloc", [0, 10, 0], 0x1000);
    guest.call("realloc", [0x1000, 20, 0], 0x2000);
    // It stays where it is; it fails; its size overflows.
    guest.call("realloc", [0x2000, 30, 0], 0x2000);
    guest.call("realloc", [0x2000, 1 << 62, 0], 0);
    guest.call("reallocarray", [0x2000, 1 << 40, 1 << 40], 0);
    guest.call("malloc", [5, 0, 0], 0x3000);
    guest.call("reallocarray", [0x3000, 4, 10], 0x4000);
    // With no size it frees.
    guest.call("malloc", [5, 0, 0], 0x5000);
    guest.call("realloc", [0x5000, 0, 0], 0);
    // One that was there before.
    guest.call("realloc", [0x6000, 7, 0], 0x7000);
    let all = guest.finish();
    assert_eq!(
        rows(&all),
        [("realloc", 2, 4, 37), ("reallocarray", 1, 1, 40)]
    );
    assert_eq!(all.foreign, 1);
}

#[test]
fn what_an_argument_points_to_is_where_it_is() {
    let mut guest = Guest::default();
    guest.call_storing("posix_memalign", [0x100, 64, 50], 0, Some(0x1000));
    guest.call_storing("posix_memalign", [0x100, 64, 50], 0, Some(0x2000));
    // It fails, and its argument is what it was.
    guest.call_storing("posix_memalign", [0x100, 3, 50], 22, Some(0x1000));
    guest.call("free", [0x1000, 0, 0], 0);
    let all = guest.finish();
    assert_eq!(rows(&all), [("posix_memalign", 1, 2, 50)]);
}

/// Another thread may be given the address before `realloc` has returned.
#[test]
fn an_address_is_free_from_the_call_on() {
    let mut guest = Guest::default();
    guest.call("malloc", [8, 0, 0], 0x1000);
    let moving = guest
        .enter("realloc", [0x1000, 800, 0])
        .expect("it allocates");
    guest.call("malloc", [9, 0, 0], 0x1000);
    let back = Return {
        returned: Returned {
            rax: 0x2000,
            ..Returned::default()
        },
        ..Return::default()
    };
    let at = guest.at();
    let key = ("realloc".to_owned(), Site::default());
    guest.allocations.leave(at, moving, &back, key);
    let all = guest.finish();
    assert_eq!(rows(&all), [("malloc", 1, 2, 9), ("realloc", 1, 1, 800)]);
}

/// One in ten stays for good, at the same pace: that leaks, however much else the line frees.
#[test]
fn what_stays_at_a_steady_pace_leaks() {
    let mut guest = Guest::default();
    for number in 0..1000 {
        guest.call("malloc", [16, 0, 0], 0x1000 + number * 16);
        if number % 10 != 0 {
            guest.call("free", [0x1000 + number * 16, 0, 0], 0);
        }
    }
    let all = guest.finish();
    assert_eq!(rows(&all), [("malloc", 100, 1000, 1600)]);
    assert!(all.rows[0].leaks, "{all:?}");
}

/// Whichever calls were lost: as long as they are fewer than what each quarter of the time leaves.
#[test]
fn what_leaks_whichever_calls_were_lost_leaks() {
    for (records, leaks) in [(5, true), (20, true), (25, false), (1000, false)] {
        let mut guest = Guest::default();
        for number in 0..1000 {
            guest.call("malloc", [16, 0, 0], 0x1000 + number * 16);
            if number % 10 != 0 {
                guest.call("free", [0x1000 + number * 16, 0, 0], 0);
            }
        }
        let lost = Losses {
            records,
            ..Losses::default()
        };
        let end = SourceEnd {
            losses: vec![(7, lost)],
            ..SourceEnd::default()
        };
        let all = guest.allocations.finish(&end);
        assert_eq!(rows(&all), [("malloc", 100, 1000, 1600)]);
        assert_eq!((all.lost, all.rows[0].leaks), (records, leaks), "{all:?}");
    }
}

/// The same calls from a recording: whether `free` was hooked to the end it does not say.
#[test]
fn of_a_recording_no_line_is_said_to_leak() {
    let mut guest = Guest::default();
    for number in 0..1000 {
        guest.call("malloc", [16, 0, 0], 0x1000 + number * 16);
    }
    let end = SourceEnd {
        recorded: true,
        ..SourceEnd::default()
    };
    let all = guest.allocations.finish(&end);
    assert_eq!(rows(&all), [("malloc", 1000, 1000, 16_000)]);
    assert!(all.recorded && !all.rows[0].leaks, "{all:?}");
}

/// A pool is filled once; requests in flight are of the end; a cache frees as many old ones as it keeps, or its last ones are all it has.
#[test]
fn a_pool_a_cache_and_what_is_in_use_do_not_leak() {
    let mut guest = Guest::default();
    for number in 0..50 {
        guest.call("calloc", [1, 16, 0], 0x100_0000 + number * 16);
    }
    let slot = |number: u64| 0x1000 + number * 16;
    for number in 0..900 {
        // Which one is replaced jumps about, so that some of each quarter are left.
        let place = (number * 7919) % 300;
        if number >= 300 {
            guest.call("free", [slot(place), 0, 0], 0);
        }
        guest.call("malloc", [16, 0, 0], slot(place));
    }
    for number in 0..40 {
        guest.call("memalign", [64, 16, 0], 0x200_0000 + number * 16);
    }
    let all = guest.finish();
    assert_eq!(
        rows(&all),
        [
            ("calloc", 50, 50, 800),
            ("malloc", 300, 900, 4800),
            ("memalign", 40, 40, 640)
        ]
    );
    assert!(all.rows.iter().all(|row| !row.leaks), "{all:?}");
}

#[test]
fn what_was_lost_or_not_watched_is_known() {
    let mut guest = Guest::default();
    guest.call("malloc", [8, 0, 0], 0x1000);
    let lost = Losses {
        records: 3,
        without_ring: 2,
        lines: 9,
        ..Losses::default()
    };
    let end = SourceEnd {
        losses: vec![(7, lost)],
        given_up: vec!["free".into(), "rb_str_new".into(), "free".into()],
        ..SourceEnd::default()
    };
    let all = guest.allocations.finish(&end);
    assert_eq!((all.lost, all.unknown), (5, vec!["free".to_owned()]));
    assert!(all.rows.is_empty() && all.kept == 0);
}

#[test]
fn another_program_has_none_of_it() {
    let mut guest = Guest::default();
    guest.call("malloc", [8, 0, 0], 0x1000);
    guest.allocations.replaced(7);
    guest.call("malloc", [9, 0, 0], 0x1000);
    guest.allocations.replaced(8);
    let all = guest.finish();
    assert_eq!(rows(&all), [("malloc", 1, 2, 9)]);
}

/// What a worker has at its end is not freed by it and leaks nowhere; what the only process has at its end it has not freed itself.
#[test]
fn the_kernel_frees_what_a_worker_has_at_its_end() {
    let mut guest = Guest::default();
    guest.call("malloc", [8, 0, 0], 0x1000);
    guest.worker = 1;
    guest.call("malloc", [9, 0, 0], 0x1000);
    guest.call("malloc", [9, 0, 0], 0x2000);
    guest.allocations.ended(8);
    let all = guest.finish();
    assert_eq!((rows(&all), all.ended), (vec![("malloc", 1, 3, 8)], 2));
    let mut guest = Guest::default();
    guest.call("malloc", [8, 0, 0], 0x1000);
    guest.allocations.ended(7);
    let all = guest.finish();
    assert_eq!((rows(&all), all.ended), (vec![("malloc", 1, 1, 8)], 0));
}

/// A process that has got the id of the one before has nothing of it.
#[test]
fn the_next_process_of_an_id_begins_with_nothing() {
    let mut guest = Guest::default();
    guest.call("malloc", [8, 0, 0], 0x1000);
    guest.allocations.ended(7);
    guest.call("malloc", [9, 0, 0], 0x2000);
    assert_eq!(rows(&guest.finish()), [("malloc", 1, 2, 9)]);
}

#[test]
fn system_calls_allocate_nothing() {
    let mut allocations = Allocations::default();
    let edge = named("free", process::functions::SYSTEM);
    let call = called(edge, [5, 0, 0, 0, 0, 0]);
    assert_eq!(allocations.enter(At::default(), &call), None);
    assert_eq!(allocations.foreign, 0);
}
