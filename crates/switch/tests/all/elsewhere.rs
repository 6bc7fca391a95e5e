//! Closures on other stacks, and the ways out of a coroutine that unwind nothing: `on_stack`, `on_parent_stack`,
//! `force_reset`, `trap_handler`, `into_send`. Scenarios of corosensei's suite are told again in our words.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::rc::Rc;

use crate::harness::Bell;
use lancet_switch::pool::{Config, Pool};
use lancet_switch::{
    Coroutine, Error, RawStack, SendCoroutine, Stack, State, Suspender, TrapHandler, on_stack,
};

/// An address on the stack that runs. (AddressSanitizer keeps variables elsewhere.)
#[inline(never)]
fn here() -> usize {
    let address: usize;
    // SAFETY: reads a register into another.
    unsafe {
        std::arch::asm!("mov {}, rsp", out(reg) address, options(nomem, nostack, preserves_flags));
    }
    address
}

fn message(payload: Box<dyn std::any::Any + Send>) -> String {
    (*payload.downcast::<&str>().expect("a text")).to_owned()
}

#[test]
fn a_closure_runs_on_the_stack_that_is_given() {
    let pool = Pool::new(Config::default()).expect("a pool");
    let stack = pool.stack_of(1 << 20).expect("a stack");
    let range = stack.range();
    let text = String::from("borrowed");
    let mut calls = 0;
    let (at, len) = on_stack(stack, || {
        calls += 1;
        (here(), text.len())
    })
    .expect("room");
    assert!(range.contains(&at));
    assert_eq!((len, calls), (8, 1));
    assert_eq!((pool.stats().live, pool.stats().free), (0, 1));
}

#[test]
fn a_panic_on_another_stack_goes_on_here() {
    let pool = Pool::new(Config::default()).expect("a pool");
    let bells = Rc::new(Cell::new(0));
    let bell = Bell(bells.clone());
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        on_stack(pool.stack().expect("a stack"), move || {
            let _bell = bell;
            if here() != 0 {
                panic!("over there");
            }
        })
    }));
    assert_eq!(message(panicked.expect_err("a panic")), "over there");
    assert_eq!((bells.get(), pool.stats().live), (1, 0));
}

#[test]
fn a_stack_without_room_is_an_error() {
    let mut memory = vec![0u8; 8192];
    let mut run = false;
    // SAFETY: the memory is ours until the call is over.
    let stack = unsafe { RawStack::new(memory.as_mut_ptr(), 256) }.expect("a range");
    let error = on_stack(stack, || run = true);
    assert!(matches!(error, Err(Error::TooSmall { asked: 256, .. })));
    assert!(!run);
}

#[test]
fn a_coroutine_is_suspended_from_another_stack() {
    let mut numbers = Coroutine::new(|suspender, first: u32| {
        let stack = Pool::global().stack().expect("a stack");
        on_stack(stack, || suspender.suspend(first + 1) + 10).expect("room")
    });
    assert_eq!(numbers.resume(1), State::Suspended(2));
    assert_eq!(numbers.resume(5), State::Finished(15));
}

#[test]
fn cancelled_on_another_stack() {
    let bells = Rc::new(Cell::new(0));
    let (near, far) = (Bell(bells.clone()), Bell(bells.clone()));
    let mut coroutine = Coroutine::<(), (), ()>::new(move |suspender, ()| {
        let _near = near;
        let stack = Pool::global().stack().expect("a stack");
        let _ = on_stack(stack, move || {
            let _far = far;
            suspender.suspend(());
        });
    });
    coroutine.resume(());
    assert_eq!(bells.get(), 0);
    coroutine.cancel().expect("an end");
    assert_eq!(bells.get(), 2);
}

/// Returns whether two addresses are close enough to be on one stack.
fn is_near(one: usize, other: usize) -> bool {
    one.abs_diff(other) < 100_000
}

#[test]
fn a_closure_runs_on_the_resumers_stack() {
    let outside = here();
    let text = Rc::new(String::from("no Send is asked for"));
    let mut coroutine = Coroutine::<(), (usize, usize), usize>::new(move |suspender, ()| {
        let inside = here();
        let there = suspender.on_parent_stack(here).expect("room");
        suspender.suspend((inside, there));
        suspender.on_parent_stack(|| text.len()).expect("room")
    });
    let range = coroutine.stack_range();
    let State::Suspended((inside, there)) = coroutine.resume(()) else {
        panic!("ended early")
    };
    assert!(range.contains(&inside) && !range.contains(&there));
    assert!(is_near(outside, there), "{outside:#x} {there:#x}");
    assert_eq!(coroutine.resume(()), State::Finished(20));
}

#[test]
fn a_large_closure_and_result_go_to_the_resumers_stack_and_back() {
    let mut coroutine = Coroutine::<(), (), u64>::new(|suspender, ()| {
        let numbers = std::hint::black_box([3u64; 1000]);
        let twice = suspender
            .on_parent_stack(move || numbers.map(|number| number * 2))
            .expect("room");
        twice.iter().sum()
    });
    assert_eq!(coroutine.resume(()), State::Finished(6000));
}

#[test]
fn a_panic_on_the_resumers_stack_goes_on_in_the_coroutine() {
    let mut coroutine = Coroutine::<(), &str, ()>::new(|suspender, ()| {
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            suspender.on_parent_stack(|| {
                if here() != 0 {
                    panic!("up there");
                }
            })
        }));
        assert_eq!(message(panicked.expect_err("a panic")), "up there");
        // The link is the resumer's again.
        suspender.suspend("caught");
        let _ = suspender.on_parent_stack(|| panic!("not caught"));
    });
    assert_eq!(coroutine.resume(()), State::Suspended("caught"));
    let panicked = catch_unwind(AssertUnwindSafe(|| coroutine.resume(())));
    assert_eq!(message(panicked.expect_err("a panic")), "not caught");
    assert!(coroutine.is_finished());
}

/// The outer coroutine is the resumer of the inner one: the closure runs on its stack, and may suspend it.
#[test]
fn the_resumers_resumer_may_be_gone_to_meanwhile() {
    let bells = Rc::new(Cell::new(0));
    let make = |bells: Rc<Cell<u32>>| {
        Coroutine::<u32, u32, u32>::new(move |outer, input| {
            let bell = Bell(bells);
            Coroutine::<u32, (), u32>::scope(
                |inner, input| {
                    let there = inner
                        .on_parent_stack(|| (here(), outer.suspend(input + 1)))
                        .expect("room");
                    let _bell = &bell;
                    // A second time, from a third coroutine.
                    let again = on_stack(Pool::global().stack().expect("a stack"), || {
                        inner.on_parent_stack(|| outer.suspend(there.1 + 1))
                    });
                    again.expect("room").expect("room")
                },
                |mut inner| match inner.resume(input) {
                    State::Finished(value) => value,
                    State::Suspended(()) => unreachable!(),
                },
            )
        })
    };
    let mut outer = make(bells.clone());
    assert_eq!(outer.resume(1), State::Suspended(2));
    assert_eq!(outer.resume(7), State::Suspended(8));
    assert_eq!(outer.resume(9), State::Finished(9));
    assert_eq!(bells.get(), 1);
    let mut outer = make(bells.clone());
    assert_eq!(outer.resume(1), State::Suspended(2));
    outer.cancel().expect("an end");
    assert_eq!(bells.get(), 2);
}

thread_local! {
    /// A suspender that is lent by a thread-local variable, as crates for scoped variables do.
    static LENT: Cell<Option<&'static Suspender<(), ()>>> = const { Cell::new(None) };
    static HANDLER: RefCell<Option<TrapHandler<u64>>> = const { RefCell::new(None) };
}

/// What must end the process, by number.
fn refused(kind: &str) {
    let kind = kind.to_owned();
    let mut coroutine = Coroutine::<(), (), ()>::new(move |suspender, ()| {
        // SAFETY: used below only, while the suspender is alive.
        LENT.set(Some(unsafe { &*std::ptr::from_ref(suspender) }));
        let lent = LENT.get().expect("just set");
        match kind.as_str() {
            "suspended" => lent.on_parent_stack(|| lent.suspend(())).expect("room"),
            // The inner one goes to the stack of the main program; then the outer one returns to it.
            "ended" => {
                let mut inner = Coroutine::<(), (), ()>::new(move |inner, ()| {
                    // SAFETY: used by the closure only, while it is alive.
                    let inner: &'static Suspender<(), ()> = unsafe { &*std::ptr::from_ref(inner) };
                    lent.on_parent_stack(move || inner.suspend(()))
                        .expect("room");
                });
                inner.resume(());
                std::mem::forget(inner);
            }
            _ => unreachable!("no such end"),
        }
    });
    coroutine.resume(());
}

/// The child's way in; does nothing in the parent.
#[test]
fn child() {
    if let Ok(kind) = std::env::var("LANCET_REFUSED") {
        refused(&kind);
    }
}

#[test]
fn the_resumer_cannot_go_on_below_a_closure() {
    for kind in ["suspended", "ended"] {
        let output = Command::new("/proc/self/exe")
            .args([
                "elsewhere::child",
                "--exact",
                "--nocapture",
                "--test-threads=1",
            ])
            .env("LANCET_REFUSED", kind)
            .output()
            .expect("a child");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains("on_parent_stack"), "{kind}: {text}");
        // AddressSanitizer ends the process in its own manner.
        if cfg!(feature = "asan") {
            continue;
        }
        assert_eq!(
            std::os::unix::process::ExitStatusExt::signal(&output.status),
            Some(libc::SIGABRT),
            "{kind}: {text}"
        );
    }
}

#[test]
fn a_reset_coroutine_runs_no_destructor_and_leaves_its_stack() {
    let pool = Pool::new(Config::default()).expect("a pool");
    let bells = Rc::new(Cell::new(0));
    let bell = Bell(bells.clone());
    let mut coroutine = Coroutine::<(), (), (), _>::with_stack(
        pool.stack().expect("a stack"),
        move |suspender, ()| {
            let _bell = bell;
            suspender.suspend(());
        },
    )
    .expect("a coroutine");
    coroutine.resume(());
    // SAFETY: the bell is left on purpose, and nobody looks for it.
    unsafe { coroutine.force_reset() };
    assert!(coroutine.is_finished());
    let stack = coroutine.into_stack().ok().expect("a stack");
    assert_eq!((bells.get(), pool.stats().live), (0, 1));
    assert_eq!(on_stack(stack, || 5), Ok(5));
    assert_eq!(pool.stats().abandoned, 0);
}

extern "C" fn on_fault(
    signal: libc::c_int,
    _info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: with SA_SIGINFO the kernel passes a ucontext. The fault is the coroutine's own, in a function without
    // destructors; the variable is not borrowed where it happens.
    unsafe {
        let registers = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
        let stack_pointer = registers[libc::REG_RSP as usize] as usize;
        let handler = HANDLER.with_borrow(Clone::clone);
        match handler.filter(|handler| handler.is_on_stack(stack_pointer)) {
            Some(handler) => {
                let number = signal as u64;
                let to = handler.return_with(move || {
                    assert!(here() != 0);
                    number * 1000
                });
                registers[libc::REG_RIP as usize] = to.rip as i64;
                registers[libc::REG_RSP as usize] = to.rsp as i64;
                registers[libc::REG_RBP as usize] = to.rbp as i64;
            }
            None => {
                libc::signal(signal, libc::SIG_DFL);
            }
        }
    }
}

#[inline(never)]
fn overflow(depth: u64) -> u64 {
    let block = std::hint::black_box([depth; 100]);
    if depth == u64::MAX {
        return 0;
    }
    overflow(depth + 1) + block[50]
}

#[test]
fn a_trap_ends_its_coroutine_with_a_value() {
    lancet_switch::report::cover_thread().expect("an alternate stack");
    // SAFETY: installs a handler that fits.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_fault as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigaction(libc::SIGSEGV, &action, std::ptr::null_mut());
        libc::sigaction(libc::SIGILL, &action, std::ptr::null_mut());
    }
    let pool = Pool::new(Config::default()).expect("a pool");
    for (kind, expected) in [(0, 11_000), (1, 11_000), (2, 4_000), (0, 11_000)] {
        let mut coroutine = Coroutine::<(), u64, u64, _>::with_stack(
            pool.stack().expect("a stack"),
            move |suspender, ()| {
                suspender.suspend(1);
                match kind {
                    0 => overflow(0),
                    // SAFETY: meant to fault.
                    1 => unsafe { std::ptr::with_exposed_provenance::<u64>(64).read_volatile() },
                    // SAFETY: as above.
                    _ => unsafe { std::arch::asm!("ud2", options(noreturn)) },
                }
            },
        )
        .expect("a coroutine");
        HANDLER.set(Some(coroutine.trap_handler()));
        assert_eq!(coroutine.resume(()), State::Suspended(1));
        assert_eq!(coroutine.resume(()), State::Finished(expected));
        assert!(coroutine.is_finished());
    }
    HANDLER.set(None);
    assert_eq!((pool.stats().live, pool.stats().abandoned), (0, 0));
}

#[test]
fn a_coroutine_goes_on_in_other_threads() {
    let mut sum = Coroutine::new(|suspender, mut total: u64| {
        let kept = vec![total; 100];
        for _ in 0..3 {
            total += suspender.suspend(total);
        }
        kept.len() as u64 + total
    });
    assert_eq!(sum.resume(1), State::Suspended(1));
    // SAFETY: all that is on its stack are numbers and a Vec of them.
    let mut sum: SendCoroutine<u64, u64, u64> = unsafe { sum.into_send() };
    for (input, output) in [(2, 3), (3, 6)] {
        (sum, _) = std::thread::spawn(move || {
            let state = sum.resume(input);
            assert_eq!(state, State::Suspended(output));
            (sum, state)
        })
        .join()
        .expect("no panic");
    }
    let mut sum = sum.into_inner();
    assert_eq!(sum.resume(4), State::Finished(110));
}

#[test]
fn a_coroutine_is_unwound_by_the_thread_that_has_it() {
    let bell = std::sync::Arc::new(());
    let inside = bell.clone();
    let mut coroutine = Coroutine::<(), (), ()>::new(move |suspender, ()| {
        let _inside = inside;
        suspender.suspend(());
    });
    coroutine.resume(());
    // SAFETY: all that is on its stack is an Arc.
    let coroutine = unsafe { coroutine.into_send() };
    assert_eq!(std::sync::Arc::strong_count(&bell), 2);
    std::thread::spawn(move || drop(coroutine))
        .join()
        .expect("no panic");
    assert_eq!(std::sync::Arc::strong_count(&bell), 1);
}

/// Makes a coroutine and drops it; returns its number. (Inlined, so that the body below is one function to the compiler.)
#[inline(always)]
fn number_of_a_new_coroutine() -> u64 {
    Coroutine::<(), (), ()>::new(|_, ()| ()).id()
}

/// A thread takes its numbers in runs of 64, from its own list. A body that went on in another thread with the address of
/// the first one's list would get the number after its last one.
#[test]
fn a_body_makes_coroutines_in_each_thread_that_it_runs_in() {
    let mut maker = Coroutine::<(), u64, u64>::new(|suspender, ()| {
        suspender.suspend(number_of_a_new_coroutine());
        suspender.suspend(number_of_a_new_coroutine());
        number_of_a_new_coroutine()
    });
    let State::Suspended(first) = maker.resume(()) else {
        panic!("ended early")
    };
    // SAFETY: all that is on its stack are numbers.
    let mut maker = unsafe { maker.into_send() };
    let (mut maker, second) = std::thread::spawn(move || {
        let state = maker.resume(());
        (maker, state)
    })
    .join()
    .expect("no panic");
    let State::Suspended(second) = second else {
        panic!("ended early")
    };
    assert!(first.abs_diff(second) > 1, "{first} {second}");
    // Back in the first thread the list is the first one's again, or a new run of numbers.
    let State::Finished(third) = maker.resume(()) else {
        panic!("does not end")
    };
    assert!(third > first && third != second, "{first} {second} {third}");
}
