//! Suspenders that a scoped thread-local variable lends, as the crate `scoped-tls` does by safe functions: whoever runs in the
//! thread can ask a coroutine to suspend itself that does not run. What then ends the process runs in a child: this program
//! again, with `LANCET_LENT` set.

use std::cell::{Cell, RefCell};
use std::os::unix::process::ExitStatusExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::rc::Rc;
use std::thread::LocalKey;

use lancet_switch::{Coroutine, State, Suspender};

/// The suspender of coroutines that take texts and yield numbers.
type Lent = Suspender<String, usize>;
type Key = LocalKey<Cell<*const Lent>>;

thread_local! {
    static OUTER: Cell<*const Lent> = const { Cell::new(std::ptr::null()) };
    static INNER: Cell<*const Lent> = const { Cell::new(std::ptr::null()) };
}

/// Lends a suspender while `during` runs, and as long as that is suspended.
#[inline(never)]
fn lend<T>(key: &'static Key, suspender: &Lent, during: impl FnOnce() -> T) -> T {
    let before = key.replace(suspender);
    let result = during();
    key.set(before);
    result
}

/// Runs `with` with what is lent.
#[inline(never)]
fn borrow<T>(key: &'static Key, with: impl FnOnce(&Lent) -> T) -> T {
    let suspender = key.get();
    assert!(!suspender.is_null(), "nothing is lent");
    // SAFETY: the frame that lends it has not ended, because it puts another value there when it does.
    with(unsafe { &*suspender })
}

fn message(panic: Box<dyn std::any::Any + Send>) -> String {
    let text = panic.downcast_ref::<&str>().expect("a text");
    (*text).to_owned()
}

/// The number would arrive in the body as a text: its address would be read as one.
#[test]
fn what_is_suspended_is_not_suspended_again() {
    let mut coroutine = Coroutine::<String, usize, String>::new(|suspender, first| {
        let second = lend(&OUTER, suspender, || suspender.suspend(first.len()));
        first + &second
    });
    assert_eq!(coroutine.resume("first".into()), State::Suspended(5));
    for _ in 0..2 {
        let suspend = || borrow(&OUTER, |lent| lent.suspend(0x41414141));
        let panic = catch_unwind(AssertUnwindSafe(suspend)).expect_err("it does not run");
        assert!(message(panic).contains("does not run"));
        let go = || borrow(&OUTER, |lent| lent.on_parent_stack(|| 1).is_ok());
        let panic = catch_unwind(AssertUnwindSafe(go)).expect_err("it has no resumer");
        assert!(message(panic).contains("does not run"));
    }
    let ended = coroutine.resume(", second".into());
    assert_eq!(ended, State::Finished("first, second".into()));
}

/// The value that a suspender refuses is dropped, and a coroutine that was not suspended by it can be cancelled.
#[test]
fn the_value_that_is_refused_is_dropped() {
    thread_local! {
        static LENT: Cell<*const Suspender<(), Rc<()>>> = const { Cell::new(std::ptr::null()) };
    }
    let value = Rc::new(());
    let mut coroutine = Coroutine::<(), Rc<()>, ()>::new(|suspender, ()| {
        LENT.set(suspender);
        suspender.suspend(Rc::new(()));
    });
    assert!(matches!(coroutine.resume(()), State::Suspended(_)));
    let clone = value.clone();
    let refused = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: the body is suspended and has not ended.
        unsafe { &*LENT.get() }.suspend(clone);
    }));
    assert!(refused.is_err());
    assert_eq!(Rc::strong_count(&value), 1);
    coroutine.cancel().expect("it unwinds");
}

/// An outer coroutine that resumes an inner one, which suspends the outer one: the chain stands still, but the inner
/// coroutine has a resumer, so it can be suspended from outside. The outer body then goes on where it has resumed the inner one.
fn chain(ends: bool) -> Coroutine<String, usize, usize> {
    Coroutine::new(move |outer, first| {
        let inner = Coroutine::<String, usize, usize>::new(|inner, first| {
            lend(&INNER, inner, || {
                borrow(&OUTER, |outer| outer.suspend(first.len())).len()
            })
        });
        let inner = RefCell::new(inner);
        let state = lend(&OUTER, outer, || inner.borrow_mut().resume(first));
        if ends {
            // Its end would unwind whoever has suspended it.
            std::mem::forget(inner);
            return 0;
        }
        // Whoever has suspended the inner coroutine from outside goes on.
        assert_eq!(state, State::Suspended(7));
        match inner.borrow_mut().resume("to whoever suspended".into()) {
            State::Finished(length) => length,
            State::Suspended(_) => unreachable!("it suspends once"),
        }
    })
}

#[test]
fn each_side_gets_values_of_its_type() {
    let mut outer = chain(false);
    assert_eq!(outer.resume("one".into()), State::Suspended(3));
    let back = borrow(&INNER, |inner| inner.suspend(7));
    assert_eq!(back, "to whoever suspended");
    // Now the outer body waits for the inner one again, which stands where it has suspended the outer one.
    assert_eq!(outer.resume("eleven".into()), State::Finished(6));
}

#[test]
fn a_body_without_a_resumer_does_not_end() {
    let output = Command::new("/proc/self/exe")
        .args(["lent::child", "--exact", "--nocapture", "--test-threads=1"])
        .env("LANCET_LENT", "ends")
        .output()
        .expect("a child");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        text.contains("the body of a suspended coroutine has ended"),
        "{text}"
    );
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{text}");
}

/// The child's way in; does nothing in the parent.
#[test]
fn child() {
    if std::env::var("LANCET_LENT").as_deref() != Ok("ends") {
        return;
    }
    let mut outer = chain(true);
    assert_eq!(outer.resume("one".into()), State::Suspended(3));
    borrow(&INNER, |inner| inner.suspend(7));
}
