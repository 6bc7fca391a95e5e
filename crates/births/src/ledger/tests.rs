//! The ledger as a hostile guest writes it, and as the agent does.

use super::*;
use wire::ledger::TEXT;

/// Numbers that look random (xorshift64*).
fn next(state: &mut u64) -> u64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    state.wrapping_mul(0x2545_f491_4f6c_dd1d)
}

/// Books whose every word was written by somebody who means harm are read without a panic and without end. The guest
/// is this process; nothing is written.
#[test]
fn any_books_are_read_to_their_end() {
    let memory = GuestMemory::open(std::process::id() as i32).expect("our own memory");
    let mut state = 0x0123_4567_89ab_cdef;
    let mut pages = vec![0u64; 1 << 16];
    for word in &mut pages {
        // Mostly small, so that lengths and numbers lead somewhere.
        let any = next(&mut state);
        *word = if any.is_multiple_of(4096) {
            any
        } else {
            any & 0x3f_0000_003f
        };
    }
    let from = pages.as_ptr() as u64;
    let mut read = 0;
    for round in 0..300 {
        let mut ledger = vec![0u64; size_of::<Ledger>() / 8];
        for word in &mut ledger {
            *word = match next(&mut state) % 4 {
                0 => next(&mut state) % 3,
                1 => next(&mut state),
                _ => from + next(&mut state) % (1 << 18),
            };
        }
        // Half of them are whole enough to be read.
        let segments = [
            (offset_of!(Ledger, sites), SITES),
            (offset_of!(Ledger, frames), FRAMES),
            (offset_of!(Ledger, kinds), KINDS),
            (offset_of!(Ledger, stacks), STACKS),
            (offset_of!(Ledger, text), TEXT),
        ];
        for (offset, piece) in segments {
            let at = offset / 8;
            if next(&mut state).is_multiple_of(8) {
                continue;
            }
            ledger[at + offset_of!(Segments, piece) / 8] = piece;
            // Every second time so few that all of them may be whole.
            let most = if round % 2 == 0 { 2 } else { 100 };
            ledger[at + offset_of!(Segments, length) / 8] = next(&mut state) % most;
            ledger[at + offset_of!(Segments, pieces) / 8] = from;
        }
        for (count, at) in [
            (
                offset_of!(Ledger, site_count),
                offset_of!(Ledger, site_counts),
            ),
            (
                offset_of!(Ledger, kind_count),
                offset_of!(Ledger, kind_counts),
            ),
        ] {
            if !next(&mut state).is_multiple_of(4) {
                (ledger[count / 8], ledger[at / 8]) = (next(&mut state) % 100, from);
            }
        }
        let paths = next(&mut state).is_multiple_of(2);
        // An error is an answer too.
        if Reader::new(ledger.as_ptr() as u64, paths)
            .tally(&memory)
            .is_ok()
        {
            read += 1;
        }
    }
    assert!(read > 0, "some are read");
}

/// Books of some pages that say how often as many rows as they can: rows are bounded, and no count is lost.
#[test]
fn rows_are_bounded_and_their_sums_are_not() {
    let mut tally = Tally::default();
    let mut rows = Rows::default();
    let line = Arc::new(Frame {
        path: "a.rb".into(),
        line: 1,
        method: "m".into(),
    });
    let more = 1000;
    let all = MOST_ROWS + more;
    for _ in 0..all {
        let counts = Counts {
            born: 2,
            live: 1,
            bytes: 40,
            alive: [0; _],
        };
        let row = SiteTally {
            number: 1,
            path: vec![line.clone(); MOST_DEPTH as usize],
            kind: "String".into(),
            internal: false,
            counts,
            allocated: 0,
        };
        rows.add(&mut tally, 1, row);
    }
    assert_eq!(tally.sites.len(), MOST_ROWS + 1);
    let steps: usize = tally.sites.iter().map(|row| row.path.len()).sum();
    assert!(steps <= MOST_STEPS + MOST_ROWS, "{steps}");
    let born: u64 = tally.sites.iter().map(|row| row.counts.born).sum();
    assert_eq!(born, 2 * all as u64);
    assert_eq!(tally.cut as usize, all - MOST_STEPS / MOST_DEPTH as usize);
}

#[test]
fn books_that_say_too_much_are_refused() {
    let memory = GuestMemory::open(std::process::id() as i32).expect("our own memory");
    let mut segments = vec![0u64; size_of::<Segments>() / 8];
    let at = segments.as_ptr() as u64;
    let refused = |memory: &GuestMemory| Records::at(memory, at, SITES).is_err();
    // A piece of 0 records divides by zero.
    segments[0] = std::hint::black_box(5);
    assert!(refused(&memory));
    segments[1] = std::hint::black_box(SITES);
    assert!(!refused(&memory));
    // More than all pieces have.
    segments[0] = std::hint::black_box(SITES * PIECES as u64 + 1);
    assert!(refused(&memory));
    segments[0] = std::hint::black_box(u64::MAX);
    assert!(refused(&memory));
}
