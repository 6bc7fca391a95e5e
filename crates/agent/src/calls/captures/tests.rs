//! What calls lead to, copied into a record by programs as the command writes them.

use super::*;
use crate::calls::hooked::{NO_VECTORS, as_call};
use crate::calls::record::Record;
use crate::calls::ring::fixture::Own;
use capture::{Op, Source, Width};
use std::vec::Vec;
use wire::calls::{Hook, kind};

/// Runs a program for a call with these arguments, all of whose memory is taken for the thread's own stack; returns the words of the record.
fn captured(program: &[Op], arguments: [u64; 6], words: u64) -> Vec<u64> {
    let own = Own::new(1 << 12);
    let low = arguments
        .iter()
        .copied()
        .filter(|word| *word > 4096)
        .min()
        .unwrap_or(4096);
    let ring = own.ring();
    // The programs of these tests lead to variables of the test's own thread.
    ring.low
        .store(low & !4095, core::sync::atomic::Ordering::Relaxed);
    ring.span
        .store(1 << 24, core::sync::atomic::Ordering::Relaxed);
    let hook = Hook::default();
    let frame = as_call(&hook, arguments, 0x1111, 0x2222);
    let call = Hooked {
        stack: (low & !4095) + 8,
        ..Hooked::new(&hook, 0, &frame, NO_VECTORS)
    };
    let program: Vec<u64> = program.iter().map(|op| op.encode()).collect();
    let mut record = Record::begin(ring, kind::FORK, words + 1, 0).expect("room");
    let into = Destination {
        ring,
        record: &record,
        from: 0,
    };
    let at = [
        program.as_ptr().expose_provenance() as u64,
        program.len() as u64,
    ];
    // SAFETY: the program is live.
    let end = unsafe { copy(at, call, None, into) };
    record.shorten(ring, end);
    record.end(0);
    own.take().remove(0).2
}

fn address<T: ?Sized>(of: &T) -> u64 {
    core::ptr::from_ref(of).expose_provenance() as u64
}

/// An empty program copies nothing.
#[test]
fn an_empty_program_copies_nothing() {
    assert_eq!(captured(&[], [0; 6], 16), []);
}

/// Bytes that an argument points to stand behind their address and their number, padded to a word.
#[test]
fn bytes_are_copied_with_their_address() {
    let bytes = *b"0123456789";
    let words = captured(
        &[Op::Value(Source::Gp(0)), Op::Bytes(10)],
        [address(&bytes), 0, 0, 0, 0, 0],
        16,
    );
    assert_eq!(words[..2], [address(&bytes), 10]);
    assert_eq!(words[2].to_le_bytes(), *b"01234567");
    assert_eq!(words[3].to_le_bytes()[..2], *b"89");
    assert_eq!(words.len(), 4);
}

/// A text ends with its zero, which is copied, and nothing behind it is.
#[test]
fn a_text_ends_with_its_zero() {
    let text = *b"abc\0defghijklmnopqrstuvwx";
    let words = captured(
        &[Op::Value(Source::Gp(2)), Op::Text { unit: 1, max: 20 }],
        [0, 0, address(&text), 0, 0, 0],
        16,
    );
    assert_eq!(words[..2], [address(&text), 4]);
    assert_eq!(words[2].to_le_bytes()[..4], *b"abc\0");
}

/// A text without a zero ends at the limit.
#[test]
fn a_text_is_bounded() {
    let text = [b'a'; 64];
    let words = captured(
        &[Op::Value(Source::Gp(0)), Op::Text { unit: 1, max: 5 }],
        [address(&text), 0, 0, 0, 0, 0],
        16,
    );
    assert_eq!(words[1], 5);
}

/// As many bytes are copied as another argument says.
#[test]
fn an_argument_says_how_many() {
    let bytes = *b"abcdefgh";
    let words = captured(
        &[
            Op::Value(Source::Gp(0)),
            Op::Count(Source::Gp(1), Width::WORD),
            Op::Array(1),
        ],
        [address(&bytes), 3, 0, 0, 0, 0],
        16,
    );
    assert_eq!(words[..2], [address(&bytes), 3]);
    assert_eq!(words[2].to_le_bytes()[..3], *b"abc");
}

/// What does not fit into the record is left out, and nothing is written beyond its end.
#[test]
fn what_does_not_fit_is_left_out() {
    let bytes = [7u8; 64];
    let program = [
        Op::Value(Source::Gp(0)),
        Op::Bytes(16),
        Op::Value(Source::Gp(0)),
        Op::Bytes(64),
    ];
    let words = captured(&program, [address(&bytes), 0, 0, 0, 0, 0], 6);
    assert_eq!(words.len(), 4);
    assert_eq!(words[1], 16);
}

/// A null pointer copies nothing.
#[test]
fn a_null_pointer_copies_nothing() {
    let words = captured(&[Op::Value(Source::Gp(0)), Op::Bytes(8)], [0; 6], 16);
    assert!(words.iter().skip(1).all(|word| *word == 0), "{words:?}");
}

/// The registers of a call are given to programs in the order of the ABI, and the results as they came.
#[test]
fn registers_keep_their_order() {
    let hook = Hook::default();
    let frame = as_call(&hook, [1, 2, 3, 4, 5, 6], 7, 8);
    let mut vectors = *NO_VECTORS;
    vectors[3] = [99, 100];
    let call = Hooked {
        hook: &hook,
        wanted: 0,
        frame: &frame,
        vectors: &vectors,
        stack: 0x7000,
    };
    let registers = registers(&call);
    assert_eq!(registers.gp, [1, 2, 3, 4, 5, 6]);
    assert_eq!(
        (registers.sse[3], registers.sse[2], registers.stack),
        (99, 0, 0x7000)
    );
    assert_eq!((frame.rbp, frame.return_address), (7, 8));
}
