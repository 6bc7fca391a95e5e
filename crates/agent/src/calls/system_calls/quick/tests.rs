//! The short way of a system call, on a ring of the test's own: what it records and counts, and what it leaves to the long way.

use super::*;
use crate::calls::ring::fixture::Own;
use capture::outcome::{Bytes, Outcome};
use std::boxed::Box;
use std::vec::Vec;
use wire::calls::record::RecordedRegisters;
use wire::calls::{Count, NO_NUMBER, record, row_key};

const SESSION: u32 = 4;
const READ: u64 = 0;
const FORK: u64 = 57;
const INSTRUCTION: u64 = 0x7f00_1234_5678;
const STACK: u64 = 0x7ffd_0000_1000;

/// A place that makes system calls, the hook of read(2) there, and the ring of the thread that passes it. Hooks stay for ever, as the
/// agent's do.
struct Case {
    own: Own,
    place: &'static Hook,
}

impl Case {
    fn new(wanted: u64) -> Self {
        let of_read = Box::leak(Box::new(Hook {
            number: 9,
            want: wanted,
            shape: RecordedRegisters::UNKNOWN.shape(true, true).0,
            outcome: Outcome {
                failure: None,
                bytes: Some(Bytes::Result),
            }
            .to_word(),
            place: READ,
            ..Hook::default()
        }));
        let mut table = std::vec![0; SYSTEM_CALLS as usize + 1];
        table[READ as usize] = core::ptr::from_ref(of_read).expose_provenance() as u64;
        let place = Box::leak(Box::new(Hook {
            number: 33,
            instruction: INSTRUCTION,
            fixed: NO_NUMBER,
            names: [
                table.leak().as_ptr().expose_provenance() as u64,
                SYSTEM_CALLS + 1,
            ],
            ..Hook::default()
        }));
        let own = Own::new(1 << 12);
        let ring = own.ring();
        ring.thread.store(thread::thread(), Ordering::Relaxed);
        ring.session.store(SESSION, Ordering::Relaxed);
        ring.tid.store(77, Ordering::Relaxed);
        pulse::look(sys::ticks());
        // The thread's first record, which is written on the long way, finds out how much room there is.
        let first = Record::begin(ring, kind::FORK, 2, 0).expect("room");
        first.word(0, 0);
        first.end(0);
        own.take();
        Case { own, place }
    }

    /// The registers at the probe before a call of that number, with these arguments.
    fn registers(number: u64, arguments: [u64; 6]) -> [u64; 16] {
        let mut registers = [0; 16];
        registers[RAX] = number;
        registers[RSP] = STACK;
        for (index, value) in [RDI, RSI, RDX, R10, R8, R9].into_iter().zip(arguments) {
            registers[index] = value;
        }
        registers
    }

    fn begins(&self, number: u64) -> u64 {
        let registers = Self::registers(number, [3, 4, 5, 6, 7, 8]);
        quick_begins(self.place, &registers, Some(self.own.ring()), SESSION)
    }

    fn ends(&self, result: u64) -> u64 {
        self.ends_at(result, STACK, SESSION)
    }

    fn ends_at(&self, result: u64, stack: u64, session: u32) -> u64 {
        let mut registers = Self::registers(result, [0; 6]);
        registers[RSP] = stack;
        quick_ends(self.place, &registers, Some(self.own.ring()), session)
    }

    fn depth(&self) -> u64 {
        self.own.ring().depth.load(Ordering::Relaxed)
    }

    /// The row of calls of read at no line, for which a first call on the long way has made room.
    fn with_row(wanted: u64) -> Self {
        let case = Case::new(wanted);
        assert!(counts::row(case.own.ring(), 9, 0).is_some());
        case
    }

    fn counted(&self) -> Count {
        let table = self.own.ring().counts.load(Ordering::Relaxed);
        let mut rows = (0..wire::calls::COUNTS).map(|at| {
            // SAFETY: the table has that many rows.
            unsafe { ours::<Count>(table).add(at).read() }
        });
        rows.find(|row| row.key == row_key(9, 0)).expect("a row")
    }
}

/// Kinds and bodies of what the reader finds.
fn records(case: &Case) -> Vec<(u64, Vec<u64>)> {
    let taken = case.own.take().into_iter();
    taken.map(|(_, kind, body)| (kind, body)).collect()
}

/// A recorded call has its number, its place and its arguments in the kernel's order, and its return follows behind it.
#[test]
fn a_call_is_recorded_with_its_arguments_and_its_result() {
    let case = Case::new(want::ENTRY | want::RETURN);
    assert_eq!((case.begins(READ), case.depth()), (DONE, 1));
    assert_eq!((case.ends(21), case.depth()), (DONE, 0));
    let records = records(&case);
    let (kind, body) = &records[0];
    assert_eq!(*kind, kind::ENTRY);
    assert_eq!(record::hook([body[0], body[1]]), 9);
    assert_eq!(record::address(body[1]), STACK);
    assert_eq!(record::address(body[2]), INSTRUCTION);
    assert_eq!(body[3..9], [3, 4, 5, 6, 7, 8]);
    assert_eq!(records[1].0, kind::RETURNED);
    assert!(records[1].1.contains(&21), "{records:x?}");
}

/// The return of a call whose room another record has taken has a record of its own.
#[test]
fn a_return_behind_other_records_has_its_own() {
    let case = Case::new(want::ENTRY | want::RETURN);
    assert_eq!(case.begins(READ), DONE);
    let between = Record::begin(case.own.ring(), kind::FORK, 2, 0).expect("room");
    between.word(0, 1);
    between.end(0);
    assert_eq!(case.ends(21), DONE);
    let kinds: Vec<u64> = records(&case).into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(kinds.last(), Some(&kind::RETURN), "{kinds:?}");
}

/// A counted call is one call, one return, its bytes, and no error; an error has no bytes.
#[test]
fn a_call_is_counted_with_its_bytes_and_its_error() {
    let case = Case::with_row(want::COUNT);
    assert_eq!((case.begins(READ), case.ends(100)), (DONE, DONE));
    assert_eq!((case.begins(READ), case.ends(-4_i64 as u64)), (DONE, DONE));
    let row = case.counted();
    assert_eq!((row.begun, row.returned), (2, 2));
    assert_eq!((row.errors, row.bytes), (1, 100));
    assert!(row.longest >= row.shortest && row.shortest > 0);
    assert_eq!(records(&case), []);
}

/// Where no time is wanted, none is counted.
#[test]
fn a_bare_count_has_no_time() {
    let case = Case::with_row(want::COUNT | want::BARE);
    assert_eq!((case.begins(READ), case.ends(1)), (DONE, DONE));
    let row = case.counted();
    assert_eq!((row.returned, row.total, row.longest), (1, 0, 0));
}

/// A row has first to be made, on the long way; the call stays open for it.
#[test]
fn a_first_count_is_left_to_the_long_way() {
    let case = Case::new(want::COUNT);
    assert_eq!(case.begins(READ), DONE);
    assert_eq!((case.ends(1), case.depth()), (ASK, 1));
}

/// Of a call that nobody wants nothing is noted. Where another is open, the long way keeps the two apart.
#[test]
fn an_unwanted_call_is_noted_only_where_another_is_open() {
    let case = Case::new(0);
    assert_eq!((case.begins(READ), case.depth()), (DONE, 0));
    let other = Case::new(want::ENTRY | want::RETURN);
    assert_eq!(other.begins(READ), DONE);
    assert_eq!(other.begins(7), ASK);
}

/// A signal handler's call between a call and its return is at another place or deeper on the stack; its return is not the first one's.
#[test]
fn a_return_elsewhere_is_another_calls() {
    let case = Case::new(want::ENTRY | want::RETURN);
    assert_eq!(case.begins(READ), DONE);
    assert_eq!(case.ends_at(21, STACK - 64, SESSION), ASK);
    assert_eq!(case.depth(), 1);
    assert_eq!((case.ends(21), case.depth()), (DONE, 0));
}

/// A call that an earlier session has seen begin is forgotten at its return, and nothing is told of it.
#[test]
fn a_call_of_an_earlier_session_is_forgotten() {
    let case = Case::new(want::ENTRY | want::RETURN);
    assert_eq!(case.begins(READ), DONE);
    records(&case);
    case.own
        .ring()
        .session
        .store(SESSION + 1, Ordering::Relaxed);
    assert_eq!(case.ends_at(21, STACK, SESSION + 1), DONE);
    assert_eq!((case.depth(), records(&case)), (0, Vec::new()));
}

/// What makes a child or ends the program, what needs more than integer registers, a ring that has not been introduced, and a ring that is
/// lent to a child are left to the long way.
#[test]
fn what_is_not_plain_is_left_to_the_long_way() {
    let wanted = want::ENTRY | want::RETURN;
    assert_eq!(Case::new(wanted).begins(FORK), ASK);
    for more in [want::ASKS, want::HELD, want::INJECT] {
        assert_eq!(Case::new(wanted | more).begins(READ), ASK, "{more:#x}");
    }
    let of_another = Case::new(wanted);
    of_another.own.ring().session.store(1, Ordering::Relaxed);
    assert_eq!(of_another.begins(READ), ASK);
    let lent = Case::new(wanted);
    lent.own.ring().lent.store(INSTRUCTION, Ordering::Relaxed);
    assert_eq!((lent.begins(READ), lent.ends(0)), (ASK, ASK));
    assert_eq!(lent.depth(), 0);
    let untold = Case::new(wanted);
    assert_eq!(untold.begins(READ), DONE);
    let ring = untold.own.ring();
    let began = core::mem::offset_of!(wire::calls::OpenSystemCall, began);
    // SAFETY: the first entry of the ring's array, of which nobody else knows.
    unsafe {
        slot(ring, 0)
            .cast::<u8>()
            .add(began)
            .cast::<u64>()
            .write(ticket::UNTOLD)
    };
    assert_eq!((untold.ends(0), untold.depth()), (ASK, 1));
}

/// A return without an open call is nobody's.
#[test]
fn a_return_alone_is_passed_over() {
    let case = Case::new(want::ENTRY | want::RETURN);
    assert_eq!((case.ends(5), records(&case)), (DONE, Vec::new()));
}
