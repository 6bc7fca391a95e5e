//! `on_parent_stack` where the resumer's stack is taken already, and where its bounds are not known.
//!
//! What ends the process runs in a child: this program again, with `LANCET_PARENT` set.

use std::cell::Cell;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};

use lancet_switch::pool::Pool;
use lancet_switch::{Builder, Coroutine, State, Suspender, on_stack};

/// Runs the kind of end in a child.
fn in_a_child(kind: &str) -> (Output, String) {
    let output = Command::new("/proc/self/exe")
        .args([
            "parent_stack::child",
            "--exact",
            "--nocapture",
            "--test-threads=1",
        ])
        .env("LANCET_PARENT", kind)
        .output()
        .expect("a child");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, text)
}

/// The child's way in; does nothing in the parent.
#[test]
fn child() {
    match std::env::var("LANCET_PARENT").as_deref() {
        Ok("third") => from_a_third_stack(),
        Ok("waiting") => while_one_waits(),
        Ok("guard") => past_the_guard(),
        _ => {}
    }
}

/// What fills a stack with known bytes, so that a frame which was overwritten is seen.
fn sum(bytes: &[u8]) -> usize {
    std::hint::black_box(bytes)
        .iter()
        .map(|byte| *byte as usize)
        .sum()
}

/// Goes to the resumer's stack `depth` times, each time from the closure before. The frames of all of them are whole then.
fn nested(suspender: &Suspender<(), usize>, depth: usize) -> usize {
    let block = std::hint::black_box([1u8; 2000]);
    let below = match depth {
        0 => 0,
        _ => suspender
            .on_parent_stack(|| nested(suspender, depth - 1))
            .expect("room"),
    };
    below + sum(&block)
}

#[test]
fn a_closure_on_the_resumers_stack_goes_there_again() {
    // The resumer is a thread, whose bounds are not known.
    let mut coroutine = Coroutine::<(), usize, usize>::new(|suspender, ()| {
        suspender.suspend(nested(suspender, 5));
        // The link is the resumer's again.
        nested(suspender, 3)
    });
    assert_eq!(coroutine.resume(()), State::Suspended(6 * 2000));
    assert_eq!(coroutine.resume(()), State::Finished(4 * 2000));
}

#[test]
fn a_closure_on_a_pools_stack_goes_there_again() {
    let mut outer = Coroutine::<(), (), usize>::new(|_, ()| {
        let mut inner = Coroutine::<(), usize, usize>::new(|suspender, ()| nested(suspender, 5));
        match inner.resume(()) {
            State::Finished(sum) => sum,
            State::Suspended(_) => panic!("does not suspend"),
        }
    });
    assert_eq!(outer.resume(()), State::Finished(6 * 2000));
}

#[test]
fn a_closure_in_place_may_panic_and_suspend_what_is_further_out() {
    let mut outer = Coroutine::<u32, u32, u32>::new(|outer, _| {
        Coroutine::<(), (), u32>::scope(
            |inner, ()| {
                let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    inner.on_parent_stack(|| {
                        let twice = inner.on_parent_stack(|| outer.suspend(1) + outer.suspend(2));
                        assert_eq!(twice, Ok(30));
                        let _ = inner.on_parent_stack(|| panic!("in place"));
                    })
                }));
                caught.expect_err("a panic");
                inner.suspend(());
                inner.on_parent_stack(|| outer.suspend(3)).expect("room")
            },
            |mut inner| {
                assert_eq!(inner.resume(()), State::Suspended(()));
                match inner.resume(()) {
                    State::Finished(value) => value,
                    State::Suspended(()) => panic!("suspends once"),
                }
            },
        )
    });
    assert_eq!(outer.resume(0), State::Suspended(1));
    assert_eq!(outer.resume(10), State::Suspended(2));
    assert_eq!(outer.resume(20), State::Suspended(3));
    assert_eq!(outer.resume(30), State::Finished(30));
}

/// From a third stack the closure that waits on the resumer's would be overwritten.
fn from_a_third_stack() {
    let mut coroutine = Coroutine::<(), (), ()>::new(|suspender, ()| {
        let answer = suspender.on_parent_stack(|| {
            let third = Pool::global().stack().expect("a stack");
            on_stack(third, || suspender.on_parent_stack(|| sum(&[1; 100])))
        });
        assert_eq!(answer, Ok(Ok(Ok(100))));
    });
    coroutine.resume(());
}

thread_local! {
    /// A suspender that is lent by a thread-local variable, as crates for scoped variables do.
    static LENT: Cell<Option<&'static Suspender<(), ()>>> = const { Cell::new(None) };
}

/// A coroutine goes to the stack of its resumer's resumer and is suspended there; then its resumer would go there.
fn while_one_waits() {
    let mut outer = Coroutine::<(), (), ()>::new(|outer, ()| {
        // SAFETY: used below only, while the suspender is alive.
        let outer: &'static Suspender<(), ()> = unsafe { &*std::ptr::from_ref(outer) };
        LENT.set(Some(outer));
        let mut inner = Coroutine::<(), (), ()>::new(move |inner, ()| {
            let lent = LENT.get().expect("set above");
            lent.on_parent_stack(|| inner.suspend(())).expect("room");
        });
        inner.resume(());
        let _ = outer.on_parent_stack(|| sum(&[1; 100]));
        std::mem::forget(inner);
        // Not by a suspend or an end, which abort for another reason.
        std::process::exit(0);
    });
    outer.resume(());
}

#[test]
fn a_stack_that_is_taken_is_not_used_twice() {
    for kind in ["third", "waiting"] {
        let (output, text) = in_a_child(kind);
        assert!(text.contains("was to run on the stack"), "{kind}: {text}");
        assert_eq!(
            output.status.signal(),
            Some(libc::SIGABRT),
            "{kind}: {text}"
        );
    }
}

/// The alignment, and so the size, of a closure that is larger than the stack of the thread below.
const LARGE: usize = 128 << 10;

#[repr(align(131072))]
struct Large(u8);

extern "C" fn on_a_small_stack(_: *mut libc::c_void) -> *mut libc::c_void {
    let builder = Builder::new().stack_size(16 << 20);
    let coroutine = builder.spawn(|suspender: &Suspender<(), ()>, ()| {
        let large = Large(std::hint::black_box(7));
        let _ = suspender.on_parent_stack(move || std::hint::black_box(&large).0);
    });
    coroutine.expect("a coroutine").resume(());
    std::ptr::null_mut()
}

/// A thread has 96 KiB of stack, with a guard of a page below it. The closure's place is the highest one that is aligned
/// and has room, and that is below the guard: all of it is in memory of others.
fn past_the_guard() {
    const OTHERS: usize = 16 << 20;
    const GUARD: usize = 4096;
    const STACK: usize = 96 << 10;
    const ALL: usize = OTHERS + 2 * LARGE;
    // SAFETY: a new mapping, of which one page is made inaccessible and a part is a thread's stack. It stays for good.
    unsafe {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let at = libc::mmap(std::ptr::null_mut(), ALL, access, flags, -1, 0);
        assert_ne!(at, libc::MAP_FAILED);
        let unaligned = at.addr() + OTHERS;
        let guard = at.byte_add(OTHERS + (unaligned.next_multiple_of(LARGE) - unaligned));
        assert_eq!(libc::mprotect(guard, GUARD, libc::PROT_NONE), 0);
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        libc::pthread_attr_init(&mut attributes);
        let set = libc::pthread_attr_setstack(&mut attributes, guard.byte_add(GUARD), STACK);
        assert_eq!(set, 0);
        let mut thread = 0;
        let made = libc::pthread_create(
            &mut thread,
            &attributes,
            on_a_small_stack,
            std::ptr::null_mut(),
        );
        assert_eq!(made, 0);
        libc::pthread_join(thread, std::ptr::null_mut());
    }
}

/// AddressSanitizer knows the bounds of a thread's stack: there it is an error.
#[test]
#[cfg(not(feature = "asan"))]
fn a_closure_without_room_meets_the_guard() {
    let (output, text) = in_a_child("guard");
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{text}");
}
