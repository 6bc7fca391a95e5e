//! What a pool gives out and takes back, in every order; its counts; and memory that comes back by itself.
//!
//! The tests of one process share its pool, so each that counts runs in a process of its own.

use std::collections::{HashSet, VecDeque};
use std::process::Command;

use lancet_switch::pool::{Config, Pool, PoolStack, Reuse, Stats};
use lancet_switch::{Coroutine, Stack};

/// Runs this test alone in a child; true in that child.
fn alone(test: &str) -> bool {
    if std::env::var_os("LANCET_ALONE_WITH_POOL").is_some() {
        return true;
    }
    let output = Command::new("/proc/self/exe")
        .args([
            &format!("pool::{test}"),
            "--exact",
            "--nocapture",
            "--test-threads=1",
        ])
        .env("LANCET_ALONE_WITH_POOL", "1")
        .output()
        .expect("a child");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    false
}

/// Kilobytes of private memory of this process.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("procfs");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let number = line.and_then(|rest| rest.trim().split(' ').next()?.parse().ok());
    number.expect("RssAnon in kB")
}

#[inline(never)]
fn deep(suspender: &lancet_switch::Suspender<(), ()>) {
    let frame = std::hint::black_box([1u8; 20_000]);
    suspender.suspend(());
    std::hint::black_box(&frame);
}

#[test]
fn the_memory_of_ten_thousand_deep_stacks_comes_back_by_itself() {
    // AddressSanitizer has memory of its own for each stack.
    if cfg!(feature = "asan")
        || !alone("the_memory_of_ten_thousand_deep_stacks_comes_back_by_itself")
    {
        return;
    }
    const COUNT: usize = 10_000;
    let before = resident();
    let mut all: Vec<Coroutine<(), (), ()>> = (0..COUNT)
        .map(|_| Coroutine::new(|suspender, ()| deep(suspender)))
        .collect();
    for coroutine in &mut all {
        coroutine.resume(());
    }
    let most = resident() - before;
    assert!(most > COUNT * 20, "{most} kB");
    for coroutine in &mut all {
        coroutine.resume(());
    }
    drop(all);
    // A page each stays, with its entry in the page tables and what the allocator keeps.
    let left = resident() - before;
    assert!(left < COUNT * 6, "{left} kB of {most}");
    let stats = Pool::global().stats();
    assert_eq!((stats.live, stats.free), (0, COUNT));
    // And the last page, when somebody asks for it.
    Pool::global().trim();
    let left = resident() - before;
    assert!(left < COUNT * 2, "{left} kB of {most}");
}

/// A stack that is out, with what was written to its lowest word.
struct Held {
    stack: PoolStack,
    word: usize,
}

impl Held {
    fn new(stack: PoolStack, word: usize) -> Held {
        // SAFETY: the lowest word of a stack that nothing runs on.
        unsafe { (stack.range().start as *mut usize).write_volatile(word) };
        Held { stack, word }
    }
}

impl Drop for Held {
    /// Nobody else has had the stack: the word is still there when the stack goes back.
    fn drop(&mut self) {
        // SAFETY: as in `new`.
        let word = unsafe { (self.stack.range().start as *const usize).read_volatile() };
        if !std::thread::panicking() {
            assert_eq!(word, self.word, "another owner has written to the stack");
        }
    }
}

/// What a pool must be after some steps.
#[derive(Default)]
struct Model {
    live: VecDeque<Held>,
    ever: HashSet<usize>,
    given: u64,
}

impl Model {
    fn take(&mut self, pool: &Pool, count: usize) {
        for _ in 0..count {
            let stack = pool.stack().expect("a stack");
            self.ever.insert(stack.range().start);
            self.given += 1;
            self.live.push_back(Held::new(stack, self.given as usize));
        }
    }

    fn check(&self, pool: &Pool, what: &[usize]) {
        let starts: HashSet<usize> = self
            .live
            .iter()
            .map(|held| held.stack.range().start)
            .collect();
        assert_eq!(starts.len(), self.live.len(), "{what:?}: given out twice");
        let Stats {
            live,
            free,
            given,
            reused,
            peak,
            ..
        } = pool.stats();
        let ever = self.ever.len();
        assert_eq!(live, self.live.len(), "{what:?}");
        assert_eq!(free, ever - self.live.len(), "{what:?}");
        assert_eq!(given, self.given, "{what:?}");
        assert_eq!(reused, self.given - ever as u64, "{what:?}");
        assert!(peak >= live && peak <= ever, "{what:?}: {peak}");
    }
}

/// Every order of steps, each with the free stacks that the orders before have left.
fn every_order(pool: &Pool) {
    const STEPS: usize = 7;
    const LENGTH: u32 = 4;
    let mut model = Model::default();
    for number in 0..STEPS.pow(LENGTH) {
        let order: Vec<usize> = (0..LENGTH)
            .map(|place| number / STEPS.pow(place) % STEPS)
            .collect();
        for step in &order {
            match step {
                0 => model.take(pool, 1),
                // More than a thread keeps, and more than stay warm.
                1 => model.take(pool, 9),
                2 => model.take(pool, 70_usize.saturating_sub(model.live.len())),
                3 => drop(model.live.pop_back()),
                4 => drop(model.live.pop_front()),
                5 => drop(model.live.drain(model.live.len() / 2..)),
                _ => model.live.clear(),
            }
            model.check(pool, &order);
        }
        model.live.clear();
        model.check(pool, &order);
    }
    // A new one is made only where none is free.
    assert_eq!(model.ever.len(), 70 + 9 * (LENGTH as usize - 1));
}

#[test]
fn every_order_of_the_processs_own_pool() {
    if alone("every_order_of_the_processs_own_pool") {
        every_order(Pool::global());
    }
}

#[test]
fn every_order_of_a_pool_for_each_reuse() {
    for reuse in [Reuse::Warm, Reuse::Keep, Reuse::Free, Reuse::DontNeed] {
        let mut config = Config::default();
        config.reuse = reuse;
        config.stack_size = 16 << 10;
        config.guard_size = 4096;
        every_order(&Pool::new(config).expect("a pool"));
    }
}

#[test]
fn a_thread_that_ends_gives_back_what_it_kept() {
    if !alone("a_thread_that_ends_gives_back_what_it_kept") {
        return;
    }
    let pool = Pool::global();
    let stacks = std::thread::spawn(|| {
        let stacks: Vec<PoolStack> = (0..20).map(|_| pool.stack().expect("a stack")).collect();
        drop(pool.stack());
        stacks
    })
    .join()
    .expect("no panic");
    // Some of them are taken back by a thread that has not taken one, some by one that has.
    let (some, others): (Vec<_>, Vec<_>) = stacks.into_iter().enumerate().partition(|s| s.0 < 10);
    std::thread::spawn(move || drop(some))
        .join()
        .expect("no panic");
    drop(pool.stack());
    drop(others);
    let stats = pool.stats();
    assert_eq!((stats.live, stats.free), (0, 21));
    assert_eq!((stats.given, stats.reused), (22, 1));
    // A thread that ends has none of them any more: all can be had at once.
    let all: Vec<PoolStack> = (0..21).map(|_| pool.stack().expect("a stack")).collect();
    assert_eq!(pool.stats().live, all.len());
    assert_eq!(pool.stats().free, 0);
}

#[test]
fn a_stack_that_a_thread_local_variable_drops_goes_back() {
    if !alone("a_stack_that_a_thread_local_variable_drops_goes_back") {
        return;
    }
    thread_local! {
        static FIRST: std::cell::RefCell<Vec<PoolStack>> = const { std::cell::RefCell::new(Vec::new()) };
        static LAST: std::cell::RefCell<Vec<PoolStack>> = const { std::cell::RefCell::new(Vec::new()) };
    }
    let pool = Pool::global();
    std::thread::spawn(|| {
        // One is destroyed before what the thread keeps, the other after it, in whatever order that is.
        FIRST.with_borrow_mut(|kept| kept.push(pool.stack().expect("a stack")));
        drop(pool.stack());
        LAST.with_borrow_mut(|kept| kept.push(pool.stack().expect("a stack")));
    })
    .join()
    .expect("no panic");
    assert_eq!((pool.stats().live, pool.stats().free), (0, 2));
}
