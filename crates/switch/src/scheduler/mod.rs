//! Green threads: coroutines that take turns on one OS thread, round robin.
//!
//! Enough to write thread-ring and to show the library; not a runtime. [`run`] makes a scheduler on
//! the calling thread and runs its argument as the first task; within it, [`spawn`], [`yield_now`],
//! [`sleep`], [`park`], [`JoinHandle::join`] and [`channel`](channel()) work.
//!
//! ```text
//!   run() ──resume──► task 1 ──yield_now()──► back in run() ──resume──► task 2 …
//!              ready: a queue of tasks; a task that waits is in no queue but in somebody's hands
//!              (a channel, a join handle, the timers, an Unparker), who puts it back
//! ```
//!
//! When the first task ends, all others are cancelled. A task that suspends in a destructor then is abandoned, as
//! every coroutine that cannot be ended: nobody would resume it.

mod channel;
mod join;
mod queue;
mod task;

use std::rc::Rc;
use std::time::{Duration, Instant};

pub use channel::{Closed, Receiver, Sender, channel};
pub use join::JoinHandle;
use queue::{Scheduler, here};
pub use queue::{Unparker, park, unparker};
use task::Timer;

use crate::builder::Builder;
use crate::error::Error;

/// After so many resumes in a row the idle function is asked for a moment, so that input is seen
/// even when some task is always ready.
const TURNS: u32 = 256;

/// Runs `main` as the first task; returns its result when it ends.
///
/// # Panics
///
/// With the panic of `main`; when every task waits for another; when called inside a task.
pub fn run<T: 'static>(main: impl FnOnce() -> T + 'static) -> T {
    run_with(main, |wait| match wait {
        Some(wait) => std::thread::sleep(wait),
        None => panic!("deadlock: every task waits for another"),
    })
}

/// As [`run`], with a function of yours for the time when no task is ready: it gets the time until
/// the next sleeper wakes (`None`: nobody sleeps), and may unpark tasks. It is also asked now and
/// then, with zero, while tasks are ready.
pub fn run_with<T: 'static>(
    main: impl FnOnce() -> T + 'static,
    mut idle: impl FnMut(Option<Duration>),
) -> T {
    let scheduler = Rc::new(Scheduler::default());
    queue::begin(scheduler.clone());
    let leaving = Leaving(scheduler);
    let handle = spawn(main);
    let mut turns = 0;
    while !handle.is_finished() {
        let task = leaving.0.ready.borrow_mut().pop_front();
        match task {
            Some(task) if turns < TURNS => {
                turns += 1;
                leaving.0.turn(task);
            }
            // Put back at the front: it keeps its turn.
            Some(task) => {
                leaving.0.ready.borrow_mut().push_front(task);
                turns = 0;
                leaving.0.wake_sleepers();
                idle(Some(Duration::ZERO));
            }
            None => {
                turns = 0;
                let wait = leaving.0.wake_sleepers();
                if leaving.0.ready.borrow().is_empty() {
                    idle(wait);
                    leaving.0.wake_sleepers();
                }
            }
        }
    }
    handle.into_result()
}

/// Ends what is left when [`run_with`] returns or unwinds.
struct Leaving(Rc<Scheduler>);

impl Drop for Leaving {
    fn drop(&mut self) {
        // Destructors of cancelled tasks may still spawn and wake others: until none is left.
        loop {
            let all = self.0.all.take();
            if all.is_empty() {
                break;
            }
            for task in all.iter().filter_map(std::rc::Weak::upgrade) {
                self.0.enter(&task, |task| drop(task.take()));
            }
        }
        self.0.ready.take();
        self.0.timers.take();
        queue::end();
    }
}

/// Starts a task; it first runs when its turn comes.
///
/// # Panics
///
/// When there is no stack for it: see [`try_spawn`].
pub fn spawn<T: 'static>(body: impl FnOnce() -> T + 'static) -> JoinHandle<T> {
    match try_spawn(Builder::new(), body) {
        Ok(handle) => handle,
        Err(error) => panic!("no task: {error}"),
    }
}

/// As [`spawn`], with a name, a size or a pool of your own.
pub fn try_spawn<T: 'static>(
    builder: Builder<'_>,
    body: impl FnOnce() -> T + 'static,
) -> Result<JoinHandle<T>, Error> {
    let scheduler = here();
    let (task, handle) = join::make(builder, body)?;
    scheduler.all.borrow_mut().push(Rc::downgrade(&task));
    scheduler.make_ready(task);
    Ok(handle)
}

/// Lets every other ready task have its turn.
pub fn yield_now() {
    let scheduler = here();
    let task = scheduler.current();
    scheduler.make_ready(task.clone());
    drop(scheduler);
    task.suspend();
}

/// Waits at least this long.
pub fn sleep(time: Duration) {
    let scheduler = here();
    let task = scheduler.current();
    let at = Instant::now() + time;
    while Instant::now() < at {
        scheduler.timers.borrow_mut().push(Timer {
            at,
            task: task.clone(),
        });
        task.suspend();
    }
}
