//! Switches in Rust: ours and corosensei's, CPU time of the thread, in turn.
//!
//! Prints `name ns` lines, one for each round and row; `benches/switch/run` takes the medians.

use std::hint::black_box;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine as Theirs, CoroutineResult};
use lancet_switch::pool::{Config, Pool};
use lancet_switch::{Builder, Coroutine, Stack, State, Suspender};

/// CPU time of this thread in nanoseconds.
fn now() -> u64 {
    // SAFETY: clock_gettime fills the struct it is given.
    unsafe {
        let mut t: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut t);
        t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
    }
}

/// Nanoseconds for one of `count` operations.
fn time(count: u64, run: impl FnOnce(u64)) -> f64 {
    let start = now();
    run(count);
    (now() - start) as f64 / count as f64
}

/// Clears the flags of floating-point exceptions.
fn exact() {
    let initial = 0x1f80u32;
    // SAFETY: the value that every thread starts with.
    unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const initial) };
}

/// Sets the flag of an inexact result: what nearly every program has done on one side, and not on the other.
fn inexact() {
    black_box(black_box(1.0) / black_box(3.0));
}

/// A round trip is two switches; a word goes in and comes back, as in `c/switches.c`. The compiler
/// cannot see through a switch, so it needs no `black_box`, whose stores would be timed too.
fn ours(keep_fp: bool, rounds: u64) -> f64 {
    exact();
    let mut echo = echo(keep_fp);
    echo.resume(0);
    time(2 * rounds, |_| {
        for round in 0..rounds as usize {
            assert!(matches!(echo.resume(round), State::Suspended(back) if back == round));
        }
    })
}

fn echo(keep_fp: bool) -> Coroutine<usize, usize, ()> {
    Builder::new()
        .keep_fp(keep_fp)
        .spawn(|suspender: &Suspender<usize, usize>, mut input| {
            inexact();
            loop {
                input = suspender.suspend(input);
            }
        })
        .expect("a coroutine")
}

/// Coroutines that are resumed in turn: what a loop around one of them has in the caches and predicts is not there.
const MANY: usize = 1000;

fn many(rounds: u64) -> f64 {
    let mut all: Vec<_> = (0..MANY).map(|_| echo(false)).collect();
    for echo in &mut all {
        echo.resume(0);
    }
    time(2 * rounds, |_| {
        for round in 0..rounds as usize {
            let back = all[round % MANY].resume(round);
            assert!(matches!(back, State::Suspended(back) if back == round));
        }
    })
}

fn their_echo() -> Theirs<usize, usize, ()> {
    Theirs::new(|yielder, mut input| {
        inexact();
        loop {
            input = yielder.suspend(input);
        }
    })
}

fn many_of_theirs(rounds: u64) -> f64 {
    let mut all: Vec<_> = (0..MANY).map(|_| their_echo()).collect();
    for echo in &mut all {
        echo.resume(0);
    }
    let ns = time(2 * rounds, |_| {
        for round in 0..rounds as usize {
            let back = all[round % MANY].resume(round);
            assert!(matches!(back, CoroutineResult::Yield(back) if back == round));
        }
    });
    for echo in &mut all {
        // SAFETY: the body owns nothing.
        unsafe { echo.force_reset() };
    }
    ns
}

fn theirs(rounds: u64) -> f64 {
    let mut echo = their_echo();
    echo.resume(0);
    let ns = time(2 * rounds, |_| {
        for round in 0..rounds as usize {
            assert!(matches!(echo.resume(round), CoroutineResult::Yield(back) if back == round));
        }
    });
    // SAFETY: the body owns nothing.
    unsafe { echo.force_reset() };
    ns
}

fn create(rounds: u64) -> f64 {
    time(rounds, |_| {
        for round in 0..rounds as usize {
            let mut once = Coroutine::<usize, (), usize>::new(|_, input| input);
            black_box(once.resume(black_box(round)));
        }
    })
}

fn create_theirs(rounds: u64) -> f64 {
    time(rounds, |_| {
        for round in 0..rounds as usize {
            let mut once = Theirs::<usize, (), usize>::new(|_, input| input);
            black_box(once.resume(black_box(round)));
        }
    })
}

/// The same stack again and again: what a coroutine costs without one.
fn create_reused(rounds: u64) -> f64 {
    let mut stack = Pool::global().stack().expect("a stack");
    time(rounds, |_| {
        for round in 0..rounds as usize {
            let mut once = Coroutine::<usize, (), usize, _>::with_stack(stack, |_, input| input)
                .expect("a coroutine");
            black_box(once.resume(black_box(round)));
            stack = once.into_stack().ok().expect("it has ended");
        }
    })
}

/// The same with corosensei, whose stacks a `Vec` keeps if `kept` is given, as it has no pool.
fn create_theirs_reused(rounds: u64, kept: bool) -> f64 {
    let mut stacks = vec![DefaultStack::default()];
    time(rounds, |_| {
        let mut stack = stacks.pop().expect("one");
        for round in 0..rounds as usize {
            let mut once = Theirs::<usize, (), usize>::with_stack(stack, |_, input| input);
            black_box(once.resume(black_box(round)));
            stack = once.into_stack();
            if kept {
                stacks.push(stack);
                stack = black_box(&mut stacks).pop().expect("just pushed");
            }
        }
    })
}

/// A pool nobody has used: of what it costs to come to a stack for the first time, the part that is
/// ours (slab, guard) and the part that is the kernel's at the first touch (a zeroed page).
fn create_fresh(round: u32) {
    const COUNT: u64 = 10_000;
    let pool = Pool::new(Config::default()).expect("a pool");
    let mut stacks = Vec::with_capacity(COUNT as usize);
    let ns = time(COUNT, |count| {
        stacks.extend((0..count).map(|_| pool.stack().expect("a stack")));
    });
    println!("fresh-stack {ns:.3}");
    let ns = time(COUNT, |_| {
        for stack in &stacks {
            // SAFETY: within a stack that nothing runs on.
            unsafe { ((stack.range().end - 8) as *mut u64).write_volatile(1) };
        }
    });
    println!("fresh-touch {ns:.3}");
    drop(stacks);
    let pool = Pool::new(Config::default()).expect("a pool");
    let mut all = Vec::with_capacity(COUNT as usize);
    let ns = time(COUNT, |count| {
        for _ in 0..count {
            let mut idle = Builder::new()
                .pool(&pool)
                .spawn(|suspender: &Suspender<(), ()>, ()| suspender.suspend(()))
                .expect("a coroutine");
            idle.resume(());
            all.push(idle);
        }
    });
    // The first round also makes the heap grow.
    if round > 0 {
        println!("create-fresh {ns:.3}");
    }
}

fn main() {
    let rounds: u64 = std::env::args()
        .nth(1)
        .and_then(|text| text.parse().ok())
        .unwrap_or(3_000_000);
    for round in 0..7 {
        create_fresh(round);
        println!("switch {:.3}", ours(false, rounds));
        println!("switch-fp {:.3}", ours(true, rounds));
        println!("corosensei {:.3}", theirs(rounds));
        println!("switch-many {:.3}", many(rounds / 3));
        println!("corosensei-many {:.3}", many_of_theirs(rounds / 3));
        println!("create {:.3}", create(rounds / 30));
        println!("create-reused {:.3}", create_reused(rounds / 30));
        println!(
            "create-corosensei-reused {:.3}",
            create_theirs_reused(rounds / 30, false)
        );
        println!(
            "create-corosensei-vec {:.3}",
            create_theirs_reused(rounds / 30, true)
        );
        println!("create-corosensei {:.3}", create_theirs(rounds / 300));
    }
}
