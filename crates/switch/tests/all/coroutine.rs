//! What a coroutine does, case by case; its ends are in `endings.rs`. Scenarios of corosensei's test
//! suite are told again in both, in our words: smoke, suspend and resume, values, state, panics
//! through one and two levels, forced unwinding, growth of the stack, stacks of one's own.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::harness::Bell;
use lancet_switch::pool::{Config, Pool};
use lancet_switch::{Builder, Coroutine, Error, Finished, RawStack, State, Suspender};

#[test]
fn body_runs_only_when_resumed() {
    let ran = Rc::new(Cell::new(false));
    let inside = ran.clone();
    let mut coroutine = Coroutine::<(), (), ()>::new(move |_, ()| inside.set(true));
    assert!(!ran.get() && !coroutine.has_started());
    assert_eq!(coroutine.resume(()), State::Finished(()));
    assert!(ran.get() && coroutine.is_finished());
}

#[test]
fn values_go_both_ways() {
    let mut sum = Coroutine::new(|suspender, first: u32| {
        let mut total = first;
        while total < 100 {
            total += suspender.suspend(total);
        }
        format!("total {total}")
    });
    assert_eq!(sum.resume(10), State::Suspended(10));
    assert_eq!(sum.resume(20), State::Suspended(30));
    assert_eq!(sum.resume(70), State::Finished("total 100".to_owned()));
    assert_eq!(sum.try_resume(5), Err(Finished(5)));
}

#[test]
fn large_and_owned_values_are_moved_once() {
    let bells = Rc::new(Cell::new(0));
    let mut echo = Coroutine::new(|suspender, mut input: (Bell, [u64; 100])| {
        for _ in 0..2 {
            input = suspender.suspend(input);
        }
        input
    });
    let State::Suspended(first) = echo.resume((Bell(bells.clone()), [1; 100])) else {
        panic!("ended early")
    };
    assert_eq!(first.1, [1; 100]);
    assert_eq!(bells.get(), 0);
    drop(first);
    assert_eq!(bells.get(), 1);
    assert!(
        matches!(echo.resume((Bell(bells.clone()), [2; 100])), State::Suspended(s) if s.1 == [2; 100])
    );
    assert_eq!(bells.get(), 2);
    assert!(
        matches!(echo.resume((Bell(bells.clone()), [3; 100])), State::Finished(s) if s.1 == [3; 100])
    );
    assert_eq!(bells.get(), 3);
}

#[test]
fn an_inner_coroutine_may_suspend_an_outer_one() {
    let mut outer = Coroutine::<u32, u32, u32>::new(|outer, first| {
        let suspend_outer = |_: &Suspender<_, ()>, base| base + outer.suspend(base);
        Coroutine::scope(suspend_outer, |mut inner| {
            let State::Finished(sum) = inner.resume(first) else {
                panic!("the inner one never suspends itself")
            };
            sum * 10
        })
    });
    assert_eq!(outer.resume(1), State::Suspended(1));
    assert_eq!(outer.resume(2), State::Finished(30));
}

#[test]
fn nested_a_hundred_deep() {
    fn nest(depth: u32) -> u32 {
        if depth == 0 {
            return 0;
        }
        let mut inner = Coroutine::<(), (), u32>::new(move |suspender, ()| {
            suspender.suspend(());
            nest(depth - 1) + 1
        });
        assert_eq!(inner.resume(()), State::Suspended(()));
        match inner.resume(()) {
            State::Finished(depth) => depth,
            State::Suspended(()) => panic!("suspends once"),
        }
    }
    assert_eq!(nest(100), 100);
}

#[test]
fn a_hundred_thousand_are_made_and_dropped_on_one_stack() {
    let pool = Pool::new(Config::default()).expect("a pool");
    let mut sum = 0;
    for round in 0..100_000u64 {
        let mut coroutine = Builder::new()
            .pool(&pool)
            .spawn::<u64, u64, (), _>(|suspender, input| {
                suspender.suspend(input);
            })
            .expect("a coroutine");
        if let State::Suspended(value) = coroutine.resume(round) {
            sum += value;
        }
    }
    assert_eq!(sum, 100_000 * 99_999 / 2);
    let stats = pool.stats();
    assert_eq!(
        (stats.given, stats.reused, stats.peak),
        (100_000, 99_999, 1)
    );
}

#[test]
fn the_whole_stack_can_be_used() {
    #[inline(never)]
    fn dig(depth: u32) -> u32 {
        let block = std::hint::black_box([depth; 1000]);
        if depth == 0 {
            0
        } else {
            dig(depth - 1) + block[7] - block[8] + 1
        }
    }
    let mut deep = Builder::new()
        .stack_size(4 << 20)
        .spawn::<(), (), u32, _>(|_, ()| dig(500))
        .expect("a coroutine");
    assert_eq!(deep.resume(()), State::Finished(500));
    assert!(deep.high_water_mark() > 500 * 4000);
}

#[test]
fn the_high_water_mark_is_known_at_any_time() {
    let mut coroutine = Builder::new()
        .stack_size(1 << 20)
        .spawn::<(), usize, (), _>(|suspender, ()| {
            #[inline(never)]
            fn fill() -> u8 {
                std::hint::black_box([1u8; 300_000])[299_999]
            }
            suspender.suspend(suspender.high_water_mark());
            fill();
            suspender.suspend(suspender.high_water_mark());
        })
        .expect("a coroutine");
    let State::Suspended(before) = coroutine.resume(()) else {
        panic!()
    };
    let State::Suspended(after) = coroutine.resume(()) else {
        panic!()
    };
    assert!(after >= before + 296_000, "{before} then {after}");
    assert_eq!(coroutine.high_water_mark(), after);
}

#[test]
fn the_remaining_stack_is_that_of_the_stack_that_runs() {
    type Outer<'s> = &'s Suspender<(), ()>;
    let mut outer = Builder::new()
        .stack_size(1 << 20)
        .spawn::<(), (), [usize; 3], _>(|outer: Outer<'_>, ()| {
            let ask = |_: &Suspender<(), ()>, ()| outer.remaining_stack();
            let inner = Coroutine::scope(ask, |mut inner| inner.resume(()));
            let mut memory = vec![0u128; 8192];
            // SAFETY: the memory outlives the scope and is used for nothing else.
            let stack = unsafe { RawStack::new(memory.as_mut_ptr().cast(), 8192 * 16) };
            let stack = stack.expect("a stack");
            let unknown = Builder::new().scope_on(stack, ask, |mut inner| inner.resume(()));
            let (State::Finished(inner), Ok(State::Finished(unknown))) = (inner, unknown) else {
                panic!("neither suspends itself")
            };
            [outer.remaining_stack(), inner, unknown]
        })
        .expect("a coroutine");
    let State::Finished([own, inner, unknown]) = outer.resume(()) else {
        panic!("never suspends itself")
    };
    assert!((900 << 10..1 << 20).contains(&own), "{own}");
    assert!((200 << 10..256 << 10).contains(&inner), "{inner}");
    assert_eq!(unknown, 0);
}

#[test]
fn a_stack_above_or_below_is_not_ones_own() {
    const HALF: usize = 8192;
    for is_above in [false, true] {
        let mut memory = vec![0u128; 2 * HALF];
        let mut half = |upper: bool| {
            let at = if upper { HALF } else { 0 };
            // SAFETY: the memory outlives the scopes, and each half of it is used for one stack only.
            let stack = unsafe { RawStack::new(memory[at..].as_mut_ptr().cast(), HALF * 16) };
            stack.expect("a stack")
        };
        let (own, other) = (half(!is_above), half(is_above));
        let body = |outer: &Suspender<(), ()>, ()| {
            let ask = |_: &Suspender<(), ()>, ()| outer.remaining_stack();
            let asked = Builder::new().scope_on(other, ask, |mut inner| inner.resume(()));
            let Ok(State::Finished(asked)) = asked else {
                panic!("it never suspends itself")
            };
            [outer.remaining_stack(), asked]
        };
        let asked = Builder::new().scope_on(own, body, |mut outer| outer.resume(()));
        let Ok(State::Finished([own, other])) = asked else {
            panic!("it never suspends itself")
        };
        assert!((100 << 10..128 << 10).contains(&own), "{own}");
        assert_eq!(other, 0, "above: {is_above}");
    }
}

#[test]
fn a_stack_of_ones_own_comes_back() {
    let mut memory = vec![0u128; 8192];
    // SAFETY: the memory outlives the coroutine and is used for nothing else.
    let stack = unsafe { RawStack::new(memory.as_mut_ptr().cast(), 8192 * 16) }.expect("a stack");
    let mut coroutine = Coroutine::with_stack(stack, |suspender, input: u8| {
        let next: u8 = suspender.suspend(input + 1);
        next + 1
    })
    .expect("a coroutine");
    assert_eq!(coroutine.resume(1), State::Suspended(2));
    let Err(mut coroutine) = coroutine.into_stack() else {
        panic!("gave up its stack while suspended")
    };
    assert_eq!(coroutine.resume(5), State::Finished(6));
    assert!(coroutine.into_stack().is_ok());
}

#[test]
fn a_stack_too_small_for_the_closure_is_an_error() {
    let mut memory = vec![0u128; 4096 / 16];
    let big = [7u8; 8192];
    // SAFETY: the memory outlives the coroutine, which is never made.
    let stack = unsafe { RawStack::new(memory.as_mut_ptr().cast(), 4096) }.expect("a stack");
    let made = Coroutine::<(), (), u8, RawStack>::with_stack(stack, move |_, ()| big[9]);
    assert!(matches!(made, Err(Error::TooSmall { asked: 4096, .. })));
}

#[test]
fn an_overaligned_closure_is_aligned() {
    #[repr(align(256))]
    struct Wide(u8);
    let wide = Wide(3);
    let mut coroutine = Coroutine::<(), (), (usize, u8)>::new(move |_, ()| {
        let wide = wide;
        (&raw const wide as usize % 256, wide.0)
    });
    assert_eq!(coroutine.resume(()), State::Finished((0, 3)));
}

#[test]
fn control_words_stay_with_their_side_on_request() {
    use std::arch::asm;
    fn mxcsr() -> u32 {
        let mut word = 0u32;
        // SAFETY: stores to `word`.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut word) };
        word
    }
    fn rounding() -> u32 {
        mxcsr() >> 13 & 3
    }
    /// Sets the flag of an inexact result, or clears it.
    fn set_inexact(set: bool) {
        let word = mxcsr() & !0x20 | u32::from(set) << 5;
        // SAFETY: changes a flag of this thread only.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const word) };
    }
    fn set_rounding(mode: u32) {
        let mut word = 0u32;
        // SAFETY: changes the rounding of this thread only, and the test puts it back.
        unsafe {
            asm!("stmxcsr [{}]", in(reg) &raw mut word);
            word = word & !(3 << 13) | mode << 13;
            asm!("ldmxcsr [{}]", in(reg) &raw const word);
        }
    }
    for keep in [true, false] {
        let mut coroutine = Builder::new()
            .keep_fp(keep)
            .spawn::<(), u32, u32, _>(|suspender, ()| {
                set_rounding(3);
                set_inexact(true);
                suspender.suspend(rounding());
                assert_eq!(mxcsr() & 0x20, 0, "flags are the thread's");
                rounding()
            })
            .expect("a coroutine");
        set_inexact(false);
        assert_eq!(coroutine.resume(()), State::Suspended(3));
        assert_eq!(rounding(), if keep { 0 } else { 3 });
        assert_ne!(mxcsr() & 0x20, 0, "flags are the thread's");
        set_inexact(false);
        set_rounding(1);
        assert_eq!(
            coroutine.resume(()),
            State::Finished(if keep { 3 } else { 1 })
        );
        assert_eq!(rounding(), 1);
        set_rounding(0);
    }
}

#[test]
fn a_backtrace_leads_on_into_the_resumer() {
    #[inline(never)]
    fn look_for_me(coroutine: &mut Coroutine<(), (), String>) -> String {
        match coroutine.resume(()) {
            State::Finished(trace) => trace,
            State::Suspended(()) => std::hint::black_box(String::new()),
        }
    }
    let mut coroutine = Coroutine::new(|suspender, ()| {
        suspender.suspend(());
        std::backtrace::Backtrace::force_capture().to_string()
    });
    look_for_me(&mut coroutine);
    let trace = look_for_me(&mut coroutine);
    assert!(trace.contains("look_for_me"), "{trace}");
    assert!(trace.contains("a_backtrace_leads_on"), "{trace}");
}

#[test]
fn threads_have_their_own_coroutines() {
    let handles: Vec<_> = (0..4)
        .map(|seed| {
            std::thread::spawn(move || {
                let mut all: Vec<_> = (0..50)
                    .map(|number| {
                        Coroutine::<u64, u64, ()>::new(move |suspender, mut input| {
                            loop {
                                input = suspender.suspend(input * seed + number);
                            }
                        })
                    })
                    .collect();
                for round in 0..100 {
                    for (number, coroutine) in all.iter_mut().enumerate() {
                        let expected = round * seed + number as u64;
                        assert_eq!(coroutine.resume(round), State::Suspended(expected));
                    }
                }
            })
        })
        .collect();
    for handle in handles {
        handle.join().expect("no thread failed");
    }
}

#[test]
fn a_resume_from_within_itself_is_stopped_by_the_borrow() {
    type Cell_ = Rc<RefCell<Option<Coroutine<(), (), bool>>>>;
    let cell: Cell_ = Rc::default();
    let inside = cell.clone();
    *cell.borrow_mut() = Some(Coroutine::new(move |_, ()| {
        inside.try_borrow_mut().is_err()
    }));
    let state = cell
        .borrow_mut()
        .as_mut()
        .map(|coroutine| coroutine.resume(()));
    assert_eq!(state, Some(State::Finished(true)));
}
