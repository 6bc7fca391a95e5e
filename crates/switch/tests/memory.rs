//! No memory: making stacks and coroutines is an error then, never an abort, and what was made works on.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, Ordering};

use lancet_switch::pool::{Config, Pool};
use lancet_switch::{Builder, Coroutine, Error, State};

/// The system's allocator, until it is told to have nothing any more.
struct Exhaustible;

static EXHAUSTED: AtomicBool = AtomicBool::new(false);

// SAFETY: hands on to the system's allocator, or says that there is no memory.
unsafe impl GlobalAlloc for Exhaustible {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if EXHAUSTED.load(Ordering::Relaxed) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Exhaustible = Exhaustible;

type Made = Result<Coroutine<u32, u32, u32>, Error>;

fn make(pool: &Pool) -> Made {
    Builder::new()
        .pool(pool)
        .spawn(|suspender, input| suspender.suspend(input) + 1)
}

/// The only test of this program: no other may want memory meanwhile.
#[test]
fn without_memory_there_are_errors() {
    let used = Pool::new(Config::default()).expect("a pool");
    let unused = Pool::new(Config::default()).expect("a pool");
    let mut before = make(&used).expect("a coroutine");
    let mut errors = Vec::with_capacity(100);

    EXHAUSTED.store(true, Ordering::Relaxed);
    for _ in 0..40 {
        errors.push(make(&used));
        errors.push(make(&unused));
    }
    let first = before.resume(1);
    let last = before.resume(2);
    EXHAUSTED.store(false, Ordering::Relaxed);

    assert_eq!(first, State::Suspended(1));
    assert_eq!(last, State::Finished(3));
    for error in errors.drain(..) {
        assert!(matches!(error, Err(Error::OutOfMemory { .. })));
    }
    // Nothing was lost on the way.
    assert_eq!((used.stats().live, unused.stats().live), (1, 0));
    let mut after = make(&unused).expect("a coroutine");
    assert_eq!(after.resume(4), State::Suspended(4));
}
