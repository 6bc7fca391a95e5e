//! Coroutines whose bodies borrow: what their scope does at its end, whatever way it comes to it; and what a coroutine
//! that is forgotten keeps.
//!
//! Scopes that abort run in a child: the test runs itself again with `LANCET_SCOPE` set. Those of programs that cannot
//! unwind are in `no_unwinder.rs`.

use std::cell::{Cell, RefCell};
use std::os::unix::process::ExitStatusExt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::{Command, Output};
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender, channel};

use crate::harness::Bell;
use lancet_switch::pool::{Config, Pool};
use lancet_switch::{
    Builder, Coroutine, Error, Finished, RawStack, State, StillSuspended, Suspender,
};

fn message(payload: &(dyn std::any::Any + Send)) -> &str {
    payload.downcast_ref::<&str>().copied().unwrap_or("?")
}

/// Counts drops, in a cell that is borrowed.
struct Count<'c>(&'c Cell<u32>);

impl Drop for Count<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

/// Panics when dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        resume_unwind(Box::new("from a destructor"));
    }
}

#[test]
fn a_body_may_borrow_and_change_its_surroundings() {
    let mut seen = Vec::new();
    let word = String::from("b");
    let count = Coroutine::<&str, (), ()>::scope(
        |suspender, mut input| {
            loop {
                seen.push(input.to_owned());
                input = suspender.suspend(());
            }
        },
        |mut collect| {
            let states = [collect.resume("a"), collect.resume(&word)];
            assert_eq!(states, [State::Suspended(()); 2]);
            states.len()
        },
    );
    assert_eq!(count, 2);
    assert_eq!(seen, ["a", "b"]);
}

#[test]
fn a_handle_answers_as_a_coroutine() {
    let pool = Pool::new(Config::default()).expect("a pool");
    let twice = |suspender: &Suspender<u32, u32>, input| suspender.suspend(input) + 1;
    let id = Builder::new().pool(&pool).scope(twice, |mut handle| {
        assert!(!handle.has_started() && !handle.is_finished());
        assert_eq!(handle.resume(3), State::Suspended(3));
        assert!(handle.has_started() && !handle.is_finished());
        let range = handle.stack_range();
        assert_eq!(range.len(), 256 << 10);
        assert!((1..=range.len()).contains(&handle.high_water_mark()));
        assert_eq!(handle.try_resume(4), Ok(State::Finished(5)));
        assert!(handle.is_finished());
        assert_eq!(handle.try_resume(6), Err(Finished(6)));
        assert_eq!(handle.cancel(), Ok(()));
        handle.id()
    });
    assert!(id.is_ok_and(|id| id > 0));
    assert_eq!((pool.stats().live, pool.stats().free), (0, 1));
}

#[test]
fn what_is_suspended_is_unwound_when_run_returns() {
    let dropped = Cell::new(0);
    let body = |suspender: &Suspender<(), ()>, ()| {
        let _local = Count(&dropped);
        suspender.suspend(());
        unreachable!("resumed after its end");
    };
    Coroutine::scope(body, |mut handle| {
        handle.resume(());
        assert_eq!(dropped.get(), 0);
        // A handle that is never dropped changes nothing: it owns nothing.
        let _kept = std::mem::ManuallyDrop::new(handle);
    });
    assert_eq!(dropped.get(), 1);
    // One that never ran drops its closure.
    let captured = Count(&dropped);
    Coroutine::<(), (), ()>::scope(move |_, ()| drop(captured), |_| ());
    assert_eq!(dropped.get(), 2);
}

#[test]
fn one_that_is_cancelled_within_its_scope_has_ended() {
    let dropped = Cell::new(0);
    let body = |suspender: &Suspender<(), ()>, ()| {
        let _local = Count(&dropped);
        suspender.suspend(());
    };
    Coroutine::scope(body, |mut handle| {
        handle.resume(());
        assert_eq!(handle.cancel(), Ok(()));
        assert_eq!(dropped.get(), 1);
    });
    assert_eq!(dropped.get(), 1);
}

#[test]
fn one_that_catches_some_cancellations_is_ended_by_a_later_one() {
    let caught = Cell::new(0);
    let body = |suspender: &Suspender<(), ()>, ()| {
        while caught.get() < 5 {
            let suspended = catch_unwind(AssertUnwindSafe(|| suspender.suspend(())));
            caught.set(caught.get() + u32::from(suspended.is_err()));
        }
    };
    Coroutine::scope(body, |mut handle| {
        handle.resume(());
        assert_eq!(handle.cancel(), Err(StillSuspended));
    });
    assert_eq!(caught.get(), 5);
}

#[test]
fn a_panic_in_run_ends_the_coroutine_and_goes_on() {
    let pool = Pool::new(Config::default()).expect("a pool");
    let dropped = Cell::new(0);
    let body = |suspender: &Suspender<(), ()>, ()| {
        let _local = Count(&dropped);
        suspender.suspend(());
    };
    let payload = catch_unwind(AssertUnwindSafe(|| {
        Builder::new().pool(&pool).scope(body, |mut handle| {
            handle.resume(());
            resume_unwind(Box::new("out of run"))
        })
    }))
    .map(|_: Result<(), Error>| ())
    .unwrap_err();
    assert_eq!(message(&*payload), "out of run");
    assert_eq!(dropped.get(), 1);
    assert_eq!(pool.stats().live, 0);
    assert!(!std::thread::panicking());
}

#[test]
fn a_panic_of_the_body_at_the_end_goes_on_unless_run_has_panicked() {
    let pool = Pool::new(Config::default()).expect("a pool");
    for (run_panics, expected) in [(false, "from a destructor"), (true, "out of run")] {
        let dropped = Cell::new(0);
        let body = |suspender: &Suspender<(), ()>, ()| {
            let _first = Count(&dropped);
            // Not in the unwinding itself: there Rust aborts.
            let _ = catch_unwind(AssertUnwindSafe(|| suspender.suspend(())));
            drop(Bomb);
        };
        let result = catch_unwind(AssertUnwindSafe(|| {
            Builder::new().pool(&pool).scope(body, |mut handle| {
                handle.resume(());
                if run_panics {
                    resume_unwind(Box::new("out of run"));
                }
                Count(&dropped)
            })
        }));
        let payload = result.map(drop).unwrap_err();
        assert_eq!(message(&*payload), expected);
        // The value that `run` returned is dropped too.
        assert_eq!(dropped.get(), if run_panics { 1 } else { 2 });
        assert_eq!(pool.stats().live, 0);
    }
}

#[test]
fn a_panic_of_the_body_goes_on_through_run() {
    let text = String::from("local");
    let body = |_: &Suspender<(), ()>, ()| -> () {
        assert_eq!(text.len(), 5);
        resume_unwind(Box::new("out of the body"));
    };
    let run = || {
        Coroutine::scope(body, |mut handle| {
            handle.resume(());
        })
    };
    let payload = catch_unwind(AssertUnwindSafe(run)).unwrap_err();
    assert_eq!(message(&*payload), "out of the body");
}

#[test]
fn nested_scopes_end_from_the_innermost_out() {
    let order = RefCell::new(Vec::new());
    struct Note<'n>(&'n RefCell<Vec<u32>>, u32);
    impl Drop for Note<'_> {
        fn drop(&mut self) {
            self.0.borrow_mut().push(self.1);
        }
    }
    let outer = |outer: &Suspender<(), u32>, ()| {
        let note = Note(&order, 1);
        let inner = |inner: &Suspender<(), ()>, ()| {
            let _inner = Note(note.0, 2);
            // The whole chain stands still, then this one alone.
            outer.suspend(7);
            inner.suspend(());
        };
        Coroutine::scope(inner, |mut inner| {
            inner.resume(());
            assert!(!inner.is_finished());
            outer.suspend(8);
        });
    };
    for resumes in 0..3 {
        Coroutine::scope(outer, |mut outer| {
            for resume in 0..resumes {
                assert_eq!(outer.resume(()), State::Suspended(7 + resume));
            }
        });
        let expected: &[u32] = if resumes == 0 { &[] } else { &[2, 1] };
        assert_eq!(order.take(), expected, "after {resumes} resumes");
    }
}

#[test]
fn a_scope_can_use_a_stack_that_is_borrowed() {
    let mut memory = vec![0u128; 8192];
    // SAFETY: the memory outlives the scope and is used for nothing else.
    let stack = unsafe { RawStack::new(memory.as_mut_ptr().cast(), 8192 * 16) }.expect("a stack");
    let text = String::from("local");
    let body = |suspender: &Suspender<(), usize>, ()| suspender.suspend(text.len());
    let made = Builder::new().scope_on(stack, body, |mut handle| handle.resume(()));
    assert_eq!(made, Ok(State::Suspended(5)));
    // SAFETY: as above; no coroutine is made on so little.
    let small = unsafe { RawStack::new(memory.as_mut_ptr().cast(), 512) }.expect("a stack");
    let made = Builder::new().scope_on(small, body, |_| unreachable!("there is no coroutine"));
    assert!(matches!(made, Err(Error::TooSmall { asked: 512, .. })));
}

type Body = fn(&Suspender<(), ()>, Receiver<()>, Sender<[u8; 64]>);

/// Lends a local variable to a thread, which sends it on request, and suspends meanwhile.
fn lend(suspender: &Suspender<(), ()>, asked: Receiver<()>, answer: Sender<[u8; 64]>) {
    let local = [0x41u8; 64];
    let lent = &local;
    std::thread::scope(|threads| {
        threads.spawn(move || {
            asked.recv().expect("the test goes on");
            answer.send(*lent).expect("the test waits");
        });
        suspender.suspend(());
    });
}

/// Makes a coroutine that calls `body`, which is to [`lend`]. It is lost with `lose`, and so is its pool. What was lent is
/// read after that.
fn lose_one_that_lends(body: Body, lose: fn(Coroutine<(), (), ()>)) {
    let pool = Pool::new(Config::default()).expect("a pool");
    let (ask, asked) = channel();
    let (answer, answered) = channel();
    let mut coroutine = Builder::new()
        .pool(&pool)
        .spawn(move |suspender, ()| body(suspender, asked, answer))
        .expect("a coroutine");
    assert_eq!(coroutine.resume(()), State::Suspended(()));
    let range = coroutine.stack_range();
    lose(coroutine);
    drop(pool);
    assert!(is_mapped(range.start) && is_mapped(range.end - 1));
    // Whoever got that memory would write to it.
    for _ in 0..64 {
        let fill = |_: &Suspender<(), ()>, ()| std::hint::black_box([0x5au8; 8192])[4096];
        let mut other = Coroutine::new(fill);
        assert_eq!(other.resume(()), State::Finished(0x5a));
        std::mem::forget(other);
    }
    ask.send(()).expect("the thread waits");
    assert_eq!(answered.recv(), Ok([0x41u8; 64]));
}

/// Whether there is memory at this address that can be written to.
fn is_mapped(address: usize) -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("procfs");
    maps.lines().any(|line| {
        let mut words = line.split([' ', '-']);
        let mut bound = || usize::from_str_radix(words.next().unwrap_or(""), 16).unwrap_or(0);
        let range = bound()..bound();
        range.contains(&address) && words.next().is_some_and(|mode| mode.starts_with("rw"))
    })
}

#[test]
fn a_forgotten_coroutine_keeps_its_stack_when_its_pool_is_dropped() {
    lose_one_that_lends(lend, std::mem::forget);
}

#[test]
fn one_that_is_abandoned_keeps_its_stack_when_its_pool_is_dropped() {
    // Refuses its cancellation, and never comes back to wait for the thread.
    let refuses: Body = |suspender, asked, answer| {
        let local = [0x41u8; 64];
        std::thread::scope(|threads| {
            threads.spawn(|| {
                let (asked, answer) = (asked, answer);
                asked.recv().expect("the test goes on");
                answer.send(local).expect("the test waits");
            });
            refuse(suspender, || ())
        })
    };
    lose_one_that_lends(refuses, drop);
}

#[test]
fn a_scope_in_a_forgotten_coroutine_is_kept_with_it() {
    // Suspended by its inner coroutine, on whose stack is what it lends.
    let nested: Body = |outer, asked, answer| {
        let inner = |_: &Suspender<(), ()>, ()| lend(outer, asked, answer);
        Coroutine::scope(inner, |mut inner| {
            inner.resume(());
        });
    };
    lose_one_that_lends(nested, std::mem::forget);
    let bells = Rc::new(Cell::new(0));
    let bell = Bell(bells.clone());
    let mut outer = Coroutine::new(move |suspender, ()| {
        let inner = |inner: &Suspender<(), ()>, ()| {
            let _bell = &bell;
            inner.suspend(());
        };
        Coroutine::scope(inner, |mut inner| {
            inner.resume(());
            suspender.suspend(());
        });
    });
    assert_eq!(outer.resume(()), State::Suspended(()));
    std::mem::forget(outer);
    assert_eq!(bells.get(), 0);
}

/// Catches every cancellation.
fn refuse<Y>(suspender: &Suspender<(), Y>, value: impl Fn() -> Y) -> ! {
    loop {
        let _ = catch_unwind(AssertUnwindSafe(|| suspender.suspend(value())));
    }
}

/// What the child does; `x` is what its coroutine borrows.
fn end(kind: &str, x: &[u8]) {
    let reads = |suspender: &Suspender<(), ()>, ()| {
        std::thread::scope(|threads| {
            threads.spawn(|| {
                loop {
                    std::hint::black_box(x.iter().all(|byte| *byte == 0x41));
                    std::thread::yield_now();
                }
            });
            refuse(suspender, || ())
        })
    };
    match kind {
        "returns" => Coroutine::scope(reads, |mut handle| {
            handle.resume(());
        }),
        "panics" => Coroutine::scope(reads, |mut handle| {
            handle.resume(());
            resume_unwind(Box::new("out of run"));
        }),
        // The value that it yields in its cancellation is dropped, and that unwinds the scope's end.
        "yields" => Coroutine::scope(
            |suspender: &Suspender<(), Option<Bomb>>, ()| {
                let first = Cell::new(true);
                std::hint::black_box(x);
                refuse(suspender, || (!first.replace(false)).then_some(Bomb))
            },
            |mut handle| {
                handle.resume(());
            },
        ),
        "stands" => Coroutine::scope(
            |suspender: &Suspender<(), ()>, ()| {
                struct Suspends<'s>(&'s Suspender<(), ()>);
                impl Drop for Suspends<'_> {
                    fn drop(&mut self) {
                        self.0.suspend(());
                    }
                }
                let _stops = Suspends(suspender);
                suspender.suspend(());
            },
            |mut handle| {
                handle.resume(());
            },
        ),
        _ => unreachable!("no such end"),
    }
}

/// The child's way in; does nothing in the parent.
#[test]
fn child() {
    let Ok(kind) = std::env::var("LANCET_SCOPE") else {
        return;
    };
    let none = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: no core files of this child.
    unsafe { libc::setrlimit(libc::RLIMIT_CORE, &none) };
    let result = catch_unwind(|| {
        let x = vec![0x41u8; 200];
        end(&kind, &x);
    });
    eprintln!("what was borrowed has ended: {}", result.is_ok());
}

/// Runs `end(kind)` in a child: its output and its stderr as text.
fn run(kind: &str) -> (Output, String) {
    let output = Command::new("/proc/self/exe")
        .args(["scope::child", "--exact", "--nocapture", "--test-threads=1"])
        .env("LANCET_SCOPE", kind)
        .output()
        .expect("a child");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, text)
}

#[test]
fn one_that_cannot_be_ended_ends_the_process_and_says_why() {
    for kind in ["returns", "panics", "yields", "stands"] {
        let (output, text) = run(kind);
        assert_eq!(
            output.status.signal(),
            Some(libc::SIGABRT),
            "{kind}: {text}"
        );
        assert_eq!(
            text,
            "lancet-switch: coroutine 1 cannot be ended with its scope: it was cancelled up to 8 times and suspended \
             itself again each time. The process is aborted, because what the coroutine borrows ends with the scope\n",
            "{kind}"
        );
    }
}
