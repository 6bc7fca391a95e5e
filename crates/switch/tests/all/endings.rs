//! How a coroutine ends: dropped, cancelled, panicked, and what cannot be ended.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;

use crate::harness::Bell;
use lancet_switch::pool::{Config, Pool};
use lancet_switch::{Builder, Coroutine, Finished, State, StillSuspended, Suspender};

fn message(payload: &(dyn std::any::Any + Send)) -> &str {
    payload.downcast_ref::<&str>().copied().unwrap_or("?")
}

#[test]
fn dropping_a_suspended_coroutine_unwinds_its_stack() {
    let bells = Rc::new(Cell::new(0));
    let mut coroutine = Coroutine::<(), (), ()>::new({
        let captured = Bell(bells.clone());
        let on_stack = bells.clone();
        move |suspender, ()| {
            let _captured = captured;
            let _local = Bell(on_stack);
            suspender.suspend(());
            unreachable!("resumed after its end");
        }
    });
    coroutine.resume(());
    assert_eq!(bells.get(), 0);
    drop(coroutine);
    assert_eq!(bells.get(), 2);
}

#[test]
fn dropping_one_that_never_ran_drops_its_closure() {
    let bells = Rc::new(Cell::new(0));
    let captured = Bell(bells.clone());
    let coroutine = Coroutine::<(), (), ()>::new(move |_, ()| drop(captured));
    drop(coroutine);
    assert_eq!(bells.get(), 1);
}

#[test]
fn cancel_ends_it_and_may_be_repeated() {
    let mut coroutine = Coroutine::<(), (), ()>::new(|suspender, ()| {
        loop {
            suspender.suspend(());
        }
    });
    coroutine.resume(());
    assert_eq!(coroutine.cancel(), Ok(()));
    assert!(coroutine.is_finished());
    assert_eq!(coroutine.cancel(), Ok(()));
    assert_eq!(coroutine.try_resume(()), Err(Finished(())));
}

#[test]
fn a_body_may_catch_its_cancellation() {
    let mut returns = Coroutine::<(), (), u32>::new(|suspender, ()| {
        let _ = catch_unwind(AssertUnwindSafe(|| suspender.suspend(())));
        7
    });
    returns.resume(());
    assert_eq!(returns.cancel(), Ok(()));

    let mut stubborn = Coroutine::<(), u32, ()>::new(|suspender, ()| {
        loop {
            let _ = catch_unwind(AssertUnwindSafe(|| suspender.suspend(1)));
        }
    });
    stubborn.resume(());
    assert_eq!(stubborn.cancel(), Err(StillSuspended));
    assert_eq!(stubborn.resume(()), State::Suspended(1));
}

#[test]
fn one_that_cannot_be_ended_keeps_its_stack() {
    let pool = Pool::new(Config::default()).expect("a pool");
    let mut stubborn = Builder::new()
        .pool(&pool)
        .spawn::<(), (), (), _>(|suspender, ()| {
            loop {
                let _ = catch_unwind(AssertUnwindSafe(|| suspender.suspend(())));
            }
        })
        .expect("a coroutine");
    stubborn.resume(());
    drop(stubborn);
    assert_eq!(pool.stats().abandoned, 1);
    assert_eq!((pool.stats().live, pool.stats().free), (1, 0));
}

#[test]
fn a_panic_goes_on_in_the_resumer_after_the_destructors() {
    let bells = Rc::new(Cell::new(0));
    let local = Bell(bells.clone());
    let mut coroutine = Coroutine::<(), (), ()>::new(move |suspender, ()| {
        let _local = local;
        suspender.suspend(());
        resume_unwind(Box::new("out of the body"));
    });
    coroutine.resume(());
    let payload = catch_unwind(AssertUnwindSafe(|| coroutine.resume(()))).unwrap_err();
    assert_eq!(message(&*payload), "out of the body");
    assert_eq!(bells.get(), 1);
    assert!(coroutine.is_finished());
    assert_eq!(coroutine.try_resume(()), Err(Finished(())));
}

#[test]
fn a_panic_crosses_two_levels() {
    let bells = Rc::new(Cell::new(0));
    let (outer_bell, inner_bell) = (Bell(bells.clone()), Bell(bells.clone()));
    let mut outer = Coroutine::<(), (), ()>::new(move |_, ()| {
        let _outer = outer_bell;
        let mut inner = Coroutine::<(), (), ()>::new(move |_, ()| {
            let _inner = inner_bell;
            resume_unwind(Box::new("from within"));
        });
        inner.resume(());
    });
    let payload = catch_unwind(AssertUnwindSafe(|| outer.resume(()))).unwrap_err();
    assert_eq!(message(&*payload), "from within");
    assert_eq!(bells.get(), 2);
}

#[test]
fn dropping_while_the_thread_unwinds_is_fine() {
    let bells = Rc::new(Cell::new(0));
    let payload = catch_unwind(AssertUnwindSafe(|| {
        let local = Bell(bells.clone());
        let mut coroutine = Coroutine::<(), (), ()>::new(move |suspender, ()| {
            let _local = local;
            suspender.suspend(());
        });
        coroutine.resume(());
        resume_unwind(Box::new("first"));
    }))
    .unwrap_err();
    assert_eq!(message(&*payload), "first");
    assert_eq!(bells.get(), 1);
    assert!(!std::thread::panicking());
}

/// Panics when dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        resume_unwind(Box::new("from a destructor"));
    }
}

#[test]
fn a_destructor_that_panics_when_the_body_returns_is_carried_too() {
    let mut coroutine = Coroutine::<(), (), ()>::new(|_, ()| {
        let _bomb = Bomb;
    });
    let payload = catch_unwind(AssertUnwindSafe(|| coroutine.resume(()))).unwrap_err();
    assert_eq!(message(&*payload), "from a destructor");
}

#[test]
fn a_closure_that_panics_when_dropped_unrun_gives_its_stack_back() {
    let pool = Pool::new(Config::default()).expect("a pool");
    let bomb = Bomb;
    let coroutine = Builder::new()
        .pool(&pool)
        .spawn::<(), (), (), _>(move |_, ()| drop(bomb))
        .expect("a coroutine");
    let payload = catch_unwind(AssertUnwindSafe(|| drop(coroutine))).unwrap_err();
    assert_eq!(message(&*payload), "from a destructor");
    assert_eq!(pool.stats().live, 0);
}

#[test]
fn cancelling_a_chain_unwinds_every_stack_of_it() {
    let bells = Rc::new(Cell::new(0));
    let inside = bells.clone();
    let mut outer = Coroutine::<(), (), ()>::new(move |outer, ()| {
        let _outer = Bell(inside.clone());
        let suspend_outer = |_: &Suspender<(), ()>, ()| {
            let _inner = Bell(inside.clone());
            outer.suspend(());
        };
        Coroutine::scope(suspend_outer, |mut inner| {
            inner.resume(());
            unreachable!("the cancellation passes through");
        })
    });
    outer.resume(());
    assert_eq!(outer.cancel(), Ok(()));
    assert_eq!(bells.get(), 2);
}

/// Suspends when it is dropped.
struct Suspends<'s>(&'s Suspender<(), u32>);

impl Drop for Suspends<'_> {
    fn drop(&mut self) {
        self.0.suspend(2);
    }
}

#[test]
fn a_destructor_that_suspends_in_a_cancellation_stops_it_until_it_is_resumed() {
    let bells = Rc::new(Cell::new(0));
    let outer = Bell(bells.clone());
    let mut coroutine = Coroutine::<(), u32, ()>::new(move |suspender, ()| {
        let _outer = outer;
        let _stops = Suspends(suspender);
        suspender.suspend(1);
    });
    coroutine.resume(());
    assert_eq!(coroutine.cancel(), Err(StillSuspended));
    // It cannot be unwound a second time from where it stands.
    assert_eq!(coroutine.cancel(), Err(StillSuspended));
    assert_eq!(bells.get(), 0);
    let payload = catch_unwind(AssertUnwindSafe(|| coroutine.resume(())));
    assert!(payload.is_err() && coroutine.is_finished());
    assert_eq!(bells.get(), 1);
}

#[test]
fn one_that_stands_in_its_unwinding_is_abandoned_when_dropped() {
    let pool = Pool::new(Config::default()).expect("a pool");
    let mut coroutine = Builder::new()
        .pool(&pool)
        .spawn::<(), u32, (), _>(|suspender, ()| {
            let _stops = Suspends(suspender);
            suspender.suspend(1);
        })
        .expect("a coroutine");
    coroutine.resume(());
    assert_eq!(coroutine.cancel(), Err(StillSuspended));
    drop(coroutine);
    assert_eq!(pool.stats().abandoned, 1);
}
