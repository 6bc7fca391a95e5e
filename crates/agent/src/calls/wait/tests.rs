//! Waits that always end. Their clock is the test's own.

use super::*;
use core::sync::atomic::{AtomicU64, Ordering};

/// A clock that goes on by one at each look.
fn steps() -> u64 {
    static NOW: AtomicU64 = AtomicU64::new(100);
    NOW.fetch_add(1, Ordering::Relaxed)
}

/// A wait ends when its time is over, and not before.
#[test]
fn a_wait_ends_with_its_time() {
    let mut wait = Wait::by(steps, 20);
    let mut rounds = 0;
    while wait.goes_on() {
        rounds += 1;
    }
    // One look for the beginning, then one a round; other tests do not use this clock.
    assert_eq!(rounds, 20);
}

/// A clock that goes backwards, as a counter of another processor may, ends a wait rather than making it endless.
#[test]
fn a_clock_that_goes_backwards_ends_a_wait() {
    fn back() -> u64 {
        static NOW: AtomicU64 = AtomicU64::new(1000);
        NOW.fetch_sub(10, Ordering::Relaxed)
    }
    assert!(!Wait::by(back, 1 << 40).goes_on());
}

/// A wait of no time does not pause.
#[test]
fn no_time_is_no_wait() {
    fn later() -> u64 {
        static NOW: AtomicU64 = AtomicU64::new(5);
        NOW.fetch_add(1, Ordering::Relaxed)
    }
    assert!(!Wait::by(later, 0).goes_on());
}

/// A thread that must not read the time-stamp counter waits by the kernel's clock, and within its limit.
#[test]
fn without_the_counter_the_clock_is_the_kernels() {
    let mut wait = Wait::without_counter();
    assert!(wait.goes_on());
    wait.began = wait.began.wrapping_sub(MOST_WITHOUT_COUNTER + 1);
    assert!(!wait.goes_on());
}
