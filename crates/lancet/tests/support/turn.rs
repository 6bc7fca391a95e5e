//! Which tests may run at the same time: tests that measure time run alone, all others beside each other.
//!
//! A test does not have to ask. Whatever starts a guest, a compiler or lancet calls [`join`], which makes the test's thread
//! share the machine with other tests until the thread ends; a test that measures time calls [`alone`] first. libtest gives
//! every test a thread of its own, named after the test, so the turn is kept in a thread-local and given back by its
//! destructor. Threads that a test starts have no name and run within the turn of their test. With `--test-threads=1` all
//! tests run on the main thread, one after another, and the turn is kept until the process ends.
//!
//! Whoever holds a lock that other tests wait for must have joined before it took the lock: a test that waits to be alone
//! keeps later ones from joining.
//!
//! `.ci/tests` runs each test in a process of its own, where none of this waits for anything. It keeps the turns itself, by the list of tests
//! that run alone in `.ci/tests.json`, and sets `LANCET_ALONE` to 1 for these and to 0 for all others.

use std::cell::RefCell;
use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Instant;

static MACHINE: RwLock<()> = RwLock::new(());

thread_local! {
    static TURN: RefCell<Option<Turn>> = const { RefCell::new(None) };
}

#[allow(dead_code, reason = "the guards are held for their destructors")]
enum Share {
    Beside(RwLockReadGuard<'static, ()>),
    Alone(RwLockWriteGuard<'static, ()>),
}

struct Turn {
    test: String,
    since: Instant,
    _share: Share,
}

impl Turn {
    fn new(test: &str, share: Share) -> Self {
        Turn {
            test: test.to_owned(),
            since: Instant::now(),
            _share: share,
        }
    }
}

impl Drop for Turn {
    /// Says how long the test took since it joined, if `LANCET_TIMES` is set: `cargo test … 2>&1 | grep ^TIME | sort -rnk2`
    /// lists the slowest first.
    fn drop(&mut self) {
        if super::is_set("LANCET_TIMES") {
            let seconds = self.since.elapsed().as_secs_f64();
            super::print(format_args!("TIME {seconds:8.2} s {}", self.test));
        }
    }
}

/// Runs the test of this thread beside others, if it has no turn yet. Waits while another test runs alone.
pub fn join() {
    let thread = std::thread::current();
    let Some(test) = thread.name() else {
        return;
    };
    TURN.with_borrow_mut(|turn| {
        turn.get_or_insert_with(|| {
            let share = MACHINE
                .read()
                .unwrap_or_else(|poisoned| poisoned.into_inner());
            Turn::new(test, Share::Beside(share))
        });
    });
}

/// Runs the test of this thread alone from here on. Must be called on the test's own thread.
pub fn alone() {
    let told = std::env::var("LANCET_ALONE");
    assert_ne!(
        told.as_deref(),
        Ok("0"),
        "a test that runs alone stands in .ci/tests.json under \"alone\""
    );
    let thread = std::thread::current();
    let test = thread.name().expect("libtest names the threads of tests");
    TURN.with_borrow_mut(|turn| {
        // A shared turn must be given back first, or this would wait for itself.
        drop(turn.take());
        let share = MACHINE
            .write()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        *turn = Some(Turn::new(test, Share::Alone(share)));
    });
}
