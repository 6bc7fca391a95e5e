//! Stubs that record system calls by themselves: what they write is what the agent writes, whatever comes in between.

use std::sync::atomic::Ordering;

use wire::calls::record::{self, Shape};
use wire::calls::{Ring, kind, want};

use crate::guest::{seen, turn};
use crate::inline::{
    CLOSE, Counted, GETPID, GETPPID, RECORDED, RECORDS, SESSION, leaves_all_alone, shape,
};
use crate::signals::Signals;

pub const WANTED: u64 = want::ENTRY | want::RETURN | want::PLACE;

fn ring(of: &Counted) -> &Ring {
    // SAFETY: the test's own, never given back.
    unsafe { &*of.ring }
}

/// The words of the ring that are reserved.
pub fn words(of: &Counted) -> Vec<u64> {
    let count = ring(of).written.reserved.load(Ordering::Relaxed) as usize;
    assert!(count <= RECORDS / 8);
    // SAFETY: the test's own records.
    unsafe { std::slice::from_raw_parts(ring(of).records as *const u64, count).to_vec() }
}

/// The records among words that begin at the ring's first.
pub fn records(words: &[u64]) -> Vec<(u64, &[u64])> {
    let (mut all, mut at) = (Vec::new(), 0);
    while at < words.len() {
        let (length, kind) = wire::calls::open(words[at], at as u64).expect("a header");
        all.push((kind, &words[at..at + length as usize]));
        at += length as usize;
    }
    all
}

#[test]
fn calls_are_recorded_without_the_agent() {
    let _turn = turn();
    let told = Counted::new(GETPID, WANTED);
    let (pid, argument) = (i64::from(std::process::id()), 0x1234_5678_9abc);
    for _ in 0..20 {
        assert_eq!(told.make(argument), pid);
    }
    let words = words(&told);
    let records = records(&words);
    assert_eq!(records.len(), 40);
    let mut last = 0;
    for pair in records.chunks(2) {
        let [(kind::ENTRY, call), (kind::RETURNED, back)] = pair else {
            panic!("{pair:x?}");
        };
        assert_eq!(record::hook([call[1], call[2]]), RECORDED);
        assert_eq!(record::lines_of([call[2], call[3]]), [0, 0]);
        assert_eq!(record::address(call[3]), told.call + 5);
        let shape = Shape::of_header(call[0]);
        assert_eq!((shape.integers(), shape.is_narrow()), (6, false));
        assert_eq!(shape.integer_registers::<6>(&call[4..])[0], argument);
        let began = call[1] & ((1 << record::TIME) - 1);
        assert!(began > last);
        last = began + (back[1] & 0xffff_ffff);
        assert_eq!(back[2], pid as u64);
        assert_eq!(back.len(), 4, "rdx is the last");
    }
    assert_eq!(told.depth(), 0);
    assert!(seen().is_empty(), "the routine was asked");
}

#[test]
fn narrow_values_share_a_word() {
    let _turn = turn();
    let told = Counted::new(CLOSE, WANTED);
    assert_eq!(told.make(u64::MAX), -i64::from(libc::EBADF));
    let words = words(&told);
    let records = records(&words);
    let [(kind::ENTRY, call), (kind::RETURNED, back)] = &records[..] else {
        panic!("{records:x?}");
    };
    let shape = Shape::of_header(call[0]);
    assert_eq!(shape.integer_registers::<6>(&call[4..])[0], 0xffff_ffff);
    assert_eq!((back[1] >> 32) as i32, -libc::EBADF);
    assert_eq!(back.len(), 2);
    assert!(seen().is_empty(), "the routine was asked");
}

#[test]
fn registers_are_left_alone_where_it_is_recorded() {
    let _turn = turn();
    let told = Counted::new(GETPID, WANTED);
    assert_eq!(leaves_all_alone(&told), 0, "the stack below was written");
    assert!(seen().is_empty());
    // Where the routine is asked at the last moment, too; it writes to the stack.
    let told = Counted::new(GETPID, WANTED);
    let limit = &ring(&told).written.limit;
    limit.store(shape(GETPID).entry_words(), Ordering::Relaxed);
    leaves_all_alone(&told);
    assert_eq!(seen().len(), 2);
}

#[test]
fn whatever_is_not_plain_is_recorded_by_the_agent() {
    let _turn = turn();
    type Change = (&'static str, fn(&Counted));
    // SAFETY: this test's own, and no stub runs meanwhile.
    let before: [Change; 4] = unsafe {
        [
            ("a condition", |it| (*it.hooks[2]).want |= want::HELD),
            ("counted", |it| (*it.hooks[2]).want = want::COUNT),
            ("full", |it| {
                ring(it).written.limit.store(8, Ordering::Relaxed)
            }),
            ("another session", |it| (*it.hooks[0]).inline += 1),
        ]
    };
    for (name, change) in before {
        let told = Counted::new(GETPID, WANTED);
        change(&told);
        let already = seen().len();
        assert_eq!(told.make(0), i64::from(std::process::id()), "{name}");
        assert_eq!(seen().len(), already + 2, "{name}: both probes ask");
        assert!(words(&told).is_empty() && told.depth() == 0, "{name}");
    }
    // SAFETY: as above.
    let behind: [Change; 2] = unsafe {
        [
            ("another session", |it| (*it.hooks[1]).inline += 1),
            ("no hook", |it| (*it.hooks[1]).inline = 0),
        ]
    };
    for (name, change) in behind {
        let told = Counted::new(GETPID, WANTED);
        change(&told);
        let already = seen().len();
        assert_eq!(told.make(77), i64::from(std::process::id()), "{name}");
        assert_eq!(seen().len(), already + 1, "{name}: the one behind asks");
        let words = words(&told);
        let kinds: Vec<u64> = records(&words).iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, [kind::ENTRY, kind::ROOM], "{name}");
        // What the agent needs for it.
        let open = told.open();
        let hook = told.hooks[2] as u64;
        assert_eq!(
            [open.instruction, open.hook, open.ticket, open.injected],
            [told.call + 5, hook, SESSION.into(), 0],
            "{name}"
        );
        assert_eq!([open.arguments[0], told.depth()], [77, 1], "{name}");
        assert_eq!(
            open.began & ((1 << record::TIME) - 1),
            words[1] & ((1 << record::TIME) - 1)
        );
    }
}

/// A handler that makes the same call comes in anywhere: each call is recorded once and each record is whole. The return of one
/// that a handler came into is left to the routine, for which its room stays.
#[test]
fn signals_between_any_two_instructions_lose_no_record() {
    let _turn = turn();
    for number in [GETPID, GETPPID] {
        let told = Counted::new(number, WANTED);
        let already = seen().len();
        let written = &ring(&told).written;
        let signals = Signals::new(told.call, None);
        let (mut made, mut calls, mut returns) = (0u64, 0u64, 0u64);
        let mut read = || {
            let words = words(&told);
            for (kind, _) in records(&words) {
                match kind {
                    kind::ENTRY => calls += 1,
                    kind::RETURNED => returns += 1,
                    _ => assert!(matches!(kind, kind::ROOM | kind::GAP), "{kind}"),
                }
            }
            written.reserved.store(0, Ordering::Relaxed);
        };
        while Signals::handled() < 2000 {
            if written.reserved.load(Ordering::Relaxed) > RECORDS as u64 / 16 {
                signals.without(&mut read);
            }
            told.make(0);
            made += 1;
        }
        drop(signals);
        read();
        let all = made + Signals::handled();
        let asked = (seen().len() - already) as u64;
        assert_eq!(calls, all);
        assert_eq!(returns + asked, all, "{asked} were left to the routine");
        assert!(asked <= Signals::handled());
    }
}
