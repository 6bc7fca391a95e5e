//! The command's heartbeat, and threads that find it silent.

use super::alone::alone;
use super::steps::everywhere;
use crate::calls::pulse::{beats, silent_since};
use crate::calls::session::{CALLS, number};
use crate::calls::wait::Wait;
use crate::memory::sys;
use crate::shared::CONTROL_PAGE;
use core::sync::atomic::Ordering;

const SECOND: u64 = 1_000_000_000;

/// The gate is open, and the heartbeat was last heard so long ago; the silence was first found too long so long ago, if it was.
fn silent(for_so_long: u64, doubted: Option<u64>) {
    let now = sys::now();
    CONTROL_PAGE.calls.store(5, Ordering::Relaxed);
    CONTROL_PAGE.heartbeat.store(3, Ordering::Relaxed);
    silent_since(3, now - for_so_long, doubted.map_or(0, |ago| now - ago));
}

/// A machine that stood still, and the command with it, is no silence yet: the gate is closed at the second look, half a second later.
#[test]
fn a_silence_is_looked_at_twice() {
    if !alone("pulse::a_silence_is_looked_at_twice") {
        return;
    }
    silent(60 * SECOND, None);
    assert!(!beats());
    assert_eq!(number(), 5);
    // The second look comes too soon.
    silent(60 * SECOND, Some(SECOND / 10));
    assert!(!beats());
    assert_eq!(number(), 5);
    silent(60 * SECOND, Some(SECOND));
    assert!(!beats());
    assert_eq!(number(), 0);
    // A heartbeat takes the doubt away.
    silent(60 * SECOND, Some(SECOND));
    CONTROL_PAGE.heartbeat.store(4, Ordering::Relaxed);
    assert!(beats());
    assert_eq!(number(), 5);
}

/// A heartbeat that is heard by another thread while this one finds the silence too long: the gate stays open, and the next look hears it.
#[test]
fn a_heartbeat_in_the_middle_of_a_look() {
    if !alone("pulse::a_heartbeat_in_the_middle_of_a_look") {
        return;
    }
    everywhere(
        || silent(60 * SECOND, None),
        |()| {
            beats();
        },
        |()| {
            CONTROL_PAGE.heartbeat.store(4, Ordering::Relaxed);
            beats();
        },
        |(), at| {
            assert_eq!(number(), 5, "behind instruction {at}");
            assert!(beats(), "behind instruction {at}");
        },
    );
}

/// A wait of a child, which cannot see the heartbeat, ends with the command's process.
#[test]
fn a_wait_ends_with_its_owner() {
    if !alone("pulse::a_wait_ends_with_its_owner") {
        return;
    }
    let waits = |owner: u64| {
        // SAFETY: the process runs this test alone.
        unsafe { (*(&raw mut CALLS)).owner = owner };
        let mut wait = Wait::new(u64::MAX);
        (0..40).take_while(|_| wait.goes_on()).count()
    };
    assert_eq!(waits(std::process::id().into()), 40);
    assert!(waits(i32::MAX as u64) < 20);
}
