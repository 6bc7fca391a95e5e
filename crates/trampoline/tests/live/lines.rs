//! Stubs behind system calls before which the agent has noted a script's line. Here the kernel does that: read(2) puts it where the agent would.

use std::sync::atomic::Ordering;

use wire::calls::{Count, NO_APPLICATION, first_row, kind, row_key, want};

use crate::guest::{seen, turn};
use crate::inline::{Counted, NUMBER, READ, SESSION};
use crate::recorded::{WANTED, records, words};

/// Where the agent has noted a script's line, the row is that of the line.
#[test]
fn calls_of_a_line_are_counted_without_the_agent() {
    let _turn = turn();
    const LINE: u32 = 77;
    const LIBRARY: u32 = 3 << 16;
    for bare in [0, want::BARE] {
        let counted = Counted::new(READ, want::COUNT | bare);
        let already = seen().len();
        // SAFETY: this test's own table.
        let row = |line| unsafe {
            let row = ((*counted.ring).counts.load(Ordering::Relaxed) as *mut Count)
                .add(first_row(row_key(NUMBER, line)));
            (*row).key = row_key(NUMBER, line);
            &mut *row
        };
        row(LINE).returned = 1;
        for _ in 0..3 {
            counted.make_in_line(LINE | LIBRARY);
        }
        assert_eq!(seen().len(), already, "the routine was asked");
        let of_line = *row(LINE);
        assert_eq!([of_line.begun, of_line.returned, of_line.errors], [3, 4, 0]);
        assert_eq!(of_line.total == 0, bare != 0);
        assert_eq!([counted.count().begun, counted.depth()], [0, 0]);
        // A row that is not there, one that the agent wants to look at, and the line of no application, which has the library's.
        row(LINE).returned = 1024;
        for lines in [LINE, LINE + 1, NO_APPLICATION] {
            let already = seen().len();
            let before = counted.depth();
            counted.make_in_line(lines);
            assert_eq!(seen().len(), already + 1, "{lines}");
            assert_eq!(counted.depth(), before + 1, "{lines}");
            // SAFETY: this test's own.
            unsafe { (*counted.ring).depth.store(0, Ordering::Relaxed) };
            assert_eq!(
                counted.open().ticket,
                u64::from(lines) << 32 | u64::from(SESSION)
            );
        }
        assert_eq!(row(LINE).begun, 3);
    }
}

/// The agent has noted a script's line before the call: the return is recorded without it. Where that cannot be, the agent has all that it
/// noted.
#[test]
fn returns_of_a_line_are_recorded_without_the_agent() {
    let _turn = turn();
    const LINES: u32 = 5 << 16 | 77;
    let told = Counted::new(READ, WANTED);
    told.make_in_line(LINES);
    let kinds = |told: &Counted| -> Vec<u64> {
        let words = words(told);
        records(&words).iter().map(|(kind, _)| *kind).collect()
    };
    assert_eq!(kinds(&told), [kind::ENTRY, kind::RETURNED]);
    assert!(told.depth() == 0 && seen().is_empty());
    // Something else is wanted since the call: found when rax has been put aside.
    let told = Counted::new(READ, WANTED);
    // SAFETY: this test's own hook.
    let want = unsafe { &raw mut (*told.hooks[2]).want };
    told.make_writing(want, (WANTED | want::HELD) as u32);
    assert_eq!(kinds(&told), [kind::ENTRY, kind::ROOM]);
    assert_eq!((seen().len(), told.depth()), (1, 1));
    let open = told.open();
    let ticket = u64::from(SESSION);
    assert_eq!([open.instruction, open.ticket], [told.call + 5, ticket]);
    assert_eq!(open.arguments[1], want as u64);
}
