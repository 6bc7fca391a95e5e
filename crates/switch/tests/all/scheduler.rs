//! Green threads: turns, results, channels, sleep, ends.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::time::{Duration, Instant};

use lancet_switch::scheduler::{
    Closed, channel, park, run, run_with, sleep, spawn, unparker, yield_now,
};

#[test]
fn tasks_take_turns_in_order() {
    let order = run(|| {
        let order = Rc::new(RefCell::new(Vec::new()));
        let handles: Vec<_> = (0..3)
            .map(|task| {
                let order = order.clone();
                spawn(move || {
                    for turn in 0..3 {
                        order.borrow_mut().push((turn, task));
                        yield_now();
                    }
                })
            })
            .collect();
        for handle in handles {
            handle.join().expect("no panic");
        }
        Rc::try_unwrap(order)
            .expect("all tasks have ended")
            .into_inner()
    });
    let expected: Vec<_> = (0..3)
        .flat_map(|turn| (0..3).map(move |task| (turn, task)))
        .collect();
    assert_eq!(order, expected);
}

#[test]
fn join_gives_the_result_or_the_panic() {
    run(|| {
        assert_eq!(spawn(|| 6 * 7).join().ok(), Some(42));
        let payload = spawn::<()>(|| resume_unwind(Box::new("in a task")))
            .join()
            .unwrap_err();
        assert_eq!(payload.downcast_ref::<&str>(), Some(&"in a task"));
    });
    let payload = catch_unwind(|| run::<()>(|| resume_unwind(Box::new("in main")))).unwrap_err();
    assert_eq!(payload.downcast_ref::<&str>(), Some(&"in main"));
    assert_eq!(run(|| 1), 1, "the thread can have a scheduler again");
}

#[test]
fn a_channel_keeps_order_and_capacity() {
    run(|| {
        let (sender, receiver) = channel(2);
        let sent = Rc::new(Cell::new(0));
        let counted = sent.clone();
        spawn(move || {
            for value in 0..10 {
                sender.send(value).expect("a receiver");
                counted.set(value + 1);
            }
        });
        yield_now();
        assert_eq!(sent.get(), 2);
        for value in 0..10 {
            assert_eq!(receiver.recv(), Ok(value));
        }
        assert_eq!(receiver.recv(), Err(Closed(())));
        let (sender, receiver) = channel(1);
        drop(receiver);
        assert_eq!(sender.send(5), Err(Closed(5)));
    });
}

#[test]
fn sleepers_wake_in_the_order_of_their_times() {
    // Their times count from where each went to sleep: an attempt where that was drawn out, because this
    // thread did not get its turn, says nothing.
    let woken = (0..1000).find_map(|_| {
        let start = Instant::now();
        let (woken, all_asleep) = run(move || {
            let woken = Rc::new(RefCell::new(Vec::new()));
            let handles: Vec<_> = [30, 10, 20]
                .into_iter()
                .map(|time| {
                    let woken = woken.clone();
                    spawn(move || {
                        sleep(Duration::from_millis(time));
                        woken.borrow_mut().push(time);
                    })
                })
                .collect();
            let all_asleep = spawn(move || start.elapsed()).join().expect("no panic");
            for handle in handles {
                handle.join().expect("no panic");
            }
            (woken.take(), all_asleep)
        });
        assert!(start.elapsed() >= Duration::from_millis(30));
        (all_asleep < Duration::from_millis(10)).then_some(woken)
    });
    assert_eq!(woken.expect("a turn of 10 ms"), [10, 20, 30]);
}

#[test]
fn tasks_left_over_are_cancelled() {
    struct Bell(Rc<Cell<u32>>);
    impl Drop for Bell {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }
    let rung = Rc::new(Cell::new(0));
    let bells = rung.clone();
    run(move || {
        let (sender, receiver) = channel::<()>(1);
        for _ in 0..5 {
            let bell = Bell(bells.clone());
            let receiver = receiver.clone();
            spawn(move || {
                let _bell = bell;
                receiver.recv().expect("never");
            });
        }
        yield_now();
        let unstarted = Bell(bells);
        spawn(move || drop(unstarted));
        drop(sender.clone());
        std::mem::forget(sender);
    });
    assert_eq!(rung.get(), 6);
}

#[test]
fn a_deadlock_is_a_panic_not_a_hang() {
    let result = catch_unwind(AssertUnwindSafe(|| run(park)));
    assert!(result.is_err());
}

#[test]
fn an_idle_function_can_wake_tasks() {
    let waiting = Rc::new(RefCell::new(None));
    let (inside, outside) = (waiting.clone(), waiting);
    let rounds = run_with(
        move || {
            for round in 0..5 {
                *inside.borrow_mut() = Some(unparker());
                park();
                assert!(inside.borrow().is_none(), "round {round}");
            }
            5
        },
        move |wait| {
            if wait.is_none() {
                outside
                    .borrow_mut()
                    .take()
                    .expect("somebody waits")
                    .unpark();
            }
        },
    );
    assert_eq!(rounds, 5);
}

#[test]
fn ten_thousand_tasks() {
    let sum = run(|| {
        let handles: Vec<_> = (0..10_000u64)
            .map(|number| {
                spawn(move || {
                    yield_now();
                    number
                })
            })
            .collect();
        handles
            .into_iter()
            .map(|handle| handle.join().unwrap_or(0))
            .sum::<u64>()
    });
    assert_eq!(sum, 10_000 * 9_999 / 2);
}
