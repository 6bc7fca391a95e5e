//! Functions of every calling convention see what they would see without us, and so do their callers.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use routine::frame::{COPIED, Guard, flags};

use crate::guest::{GATE, Hook, Library, READS_STACK, UNWANTED, calls, count, seen, turn};

const FUNCTIONS: [&str; 18] = [
    "six",
    "twelve",
    "doubles",
    "mixed",
    "small_back",
    "large_back",
    "pair_back",
    "floats_back",
    "wide_back",
    "ld",
    "complex_back",
    "total",
    "sets_errno",
    "deep",
    "leaps",
    "throws",
    "walks",
    "yields",
];
const CHECKERS: [&str; 6] = [
    "check_integers",
    "check_floats",
    "check_structs",
    "check_varargs",
    "check_longjmp",
    "check_fibers",
];

fn hook_all(library: &Library, flags: u32) -> Vec<Hook> {
    FUNCTIONS
        .map(|name| library.hook(name, flags, COPIED))
        .into()
}

fn all_right(library: &Library, when: &str) {
    for checker in CHECKERS {
        assert_eq!(
            library.check(checker),
            0,
            "{checker} {when}: line of calls.cpp"
        );
    }
}

#[test]
fn every_kind_of_argument_and_result_passes() {
    let _turn = turn();
    let library = calls();
    all_right(library, "bare");
    assert_eq!(count(), 0);
    for (flags, when) in [(0, "called through"), (flags::ENTRY_ONLY, "entry only")] {
        let before = count();
        let hooks = hook_all(library, flags);
        all_right(library, when);
        assert!(count() > before, "{when}");
        hooks.iter().for_each(Hook::lift);
    }
    let before = count();
    all_right(library, "after");
    assert_eq!(count(), before, "nothing is hooked any more");
}

#[test]
fn arguments_and_results_are_recorded() {
    let _turn = turn();
    let library = calls();
    let hooks = ["six", "doubles", "twelve"].map(|name| library.hook(name, 0, COPIED));
    // Those of `six` are its caller's frame.
    READS_STACK.store(true, Ordering::Relaxed);
    assert_eq!(library.check("check_integers"), 0);
    assert_eq!(library.check("check_floats"), 0);
    READS_STACK.store(false, Ordering::Relaxed);
    let seen = seen();
    let of = |name, what| {
        let entry = library.address(name);
        let found = seen
            .iter()
            .find(|record| record.payload == entry && record.what == what);
        *found.unwrap_or_else(|| panic!("{name} {what} of {seen:?}"))
    };
    assert_eq!(of("six", 1).integers, [1, 2, 3, 4, 5, 6]);
    assert_eq!(of("six", 2).result, 91);
    assert_eq!(
        of("six", 2).integers,
        [1, 2, 3, 4, 5, 6],
        "leave sees the arguments still"
    );
    assert_eq!(
        of("doubles", 1).floats,
        [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]
    );
    assert_eq!(of("doubles", 1).stack.map(f64::from_bits), [9.0, 10.0]);
    assert_eq!(of("doubles", 2).floats[0], 385.0);
    assert_eq!(of("twelve", 1).stack[0], 7);
    hooks.iter().for_each(Hook::lift);
}

#[test]
fn wide_vector_arguments_pass() {
    let _turn = turn();
    let library = calls();
    for (name, checker, there) in [
        ("ymm", "check_avx", is_x86_feature_detected!("avx2")),
        ("zmm", "check_avx512", is_x86_feature_detected!("avx512f")),
    ] {
        if !there {
            eprintln!("SKIPPED {name}: this processor has no such registers");
            continue;
        }
        for flags in [0, flags::ENTRY_ONLY] {
            let hook = library.hook(name, flags, COPIED);
            let before = count();
            assert_eq!(library.check(checker), 0);
            assert_eq!(count() - before, if flags == 0 { 2 } else { 1 });
            hook.lift();
        }
    }
}

#[test]
fn what_is_not_wanted_leaves_no_trace() {
    let _turn = turn();
    let library = calls();
    let hooks = hook_all(library, 0);
    UNWANTED.store(library.address("six"), Ordering::Relaxed);
    all_right(library, "with six refused by enter");
    let six = library.address("six");
    assert!(seen().iter().all(|record| record.payload != six));
    assert!(
        seen()
            .iter()
            .any(|record| record.payload == library.address("deep"))
    );
    GATE.store(0, Ordering::Relaxed);
    let before = count();
    all_right(library, "with the gate closed");
    assert_eq!(count(), before);
    hooks.iter().for_each(Hook::lift);
}

#[test]
fn registers_that_a_function_leaves_alone_stay() {
    let _turn = turn();
    let library = calls();
    assert_eq!(library.check("check_registers"), 0, "bare");
    for flags in [0, flags::ENTRY_ONLY] {
        let hook = library.hook("keeps", flags, COPIED);
        assert_eq!(library.check("check_registers"), 0, "flags {flags}");
        UNWANTED.store(library.address("keeps"), Ordering::Relaxed);
        assert_eq!(
            library.check("check_registers"),
            0,
            "flags {flags}, unwanted"
        );
        UNWANTED.store(u64::MAX, Ordering::Relaxed);
        hook.lift();
    }
    assert_eq!(count(), 3, "entry and return; entry");
}

#[test]
fn a_guard_refuses_what_one_argument_decides() {
    let _turn = turn();
    let library = calls();
    let hook = library.hook("six", flags::GUARDED, COPIED);
    // SAFETY: the fixture's function of that type.
    let six: extern "C" fn(i64, i64, i64, i64, i64, i64) -> i64 =
        unsafe { std::mem::transmute(library.address("six")) };
    for register in 0..6 {
        for word in [0, 1, 6, 7, 8, -1, i64::MIN, 0x1_0000_0007] {
            let mut arguments = [100; 6];
            arguments[register] = word;
            // As an int from 1 to 7, and anything but that.
            let within = (1..=7).contains(&(word as i32));
            for outside in [false, true] {
                hook.guard(Guard {
                    low: 1 << 32,
                    span: 6 << 32,
                    register: register as u8,
                    left: 32,
                    outside: u8::from(outside),
                    ..Guard::default()
                });
                let before = count();
                let [a, b, c, d, e, f] = arguments;
                let sum = (1..).zip(arguments);
                let sum = sum.fold(0, |all: i64, (factor, word)| {
                    all.wrapping_add(word.wrapping_mul(factor))
                });
                assert_eq!(six(a, b, c, d, e, f), sum);
                let told = if within != outside { 2 } else { 0 };
                assert_eq!(count() - before, told, "{register} {word:#x} {outside}");
            }
        }
    }
    hook.lift();
    for outside in [0, 1] {
        let hook = library.hook("keeps", flags::GUARDED, COPIED);
        hook.guard(Guard {
            span: u64::MAX,
            outside,
            ..Guard::default()
        });
        let before = count();
        assert_eq!(library.check("check_registers"), 0, "{outside}");
        assert_eq!(count() - before, 2 * (1 - usize::from(outside)));
        hook.lift();
    }
}

#[test]
fn every_call_and_return_is_seen_once() {
    let _turn = turn();
    let library = calls();
    let hook = library.hook("deep", 0, COPIED);
    assert_eq!(library.check("check_integers"), 0);
    let whats = seen().iter().map(|record| record.what).collect::<Vec<_>>();
    assert_eq!(whats.iter().filter(|what| **what == 1).count(), 1001);
    assert_eq!(whats.iter().filter(|what| **what == 2).count(), 1001);
    hook.lift();
    let hook = library.hook("leaps", 0, COPIED);
    let before = seen().len();
    assert_eq!(library.check("check_longjmp"), 0);
    let whats = seen()[before..].to_vec();
    assert_eq!(
        whats.len(),
        10 * (1..=20).sum::<usize>(),
        "entries only: none returned"
    );
    assert!(whats.iter().all(|record| record.what == 1));
    hook.lift();
}

#[test]
fn the_copy_of_stack_arguments_ends_where_the_stack_does() {
    let _turn = turn();
    let library = calls();
    // SAFETY: a stack of two pages, and after it a page that nobody may read.
    let stack = unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let at = libc::mmap(
            std::ptr::null_mut(),
            20 * 4096,
            libc::PROT_READ | libc::PROT_WRITE,
            flags,
            -1,
            0,
        );
        assert_eq!(
            libc::mprotect(at.byte_add(19 * 4096), 4096, libc::PROT_NONE),
            0
        );
        at as u64
    };
    // SAFETY: the fixture's function of that type.
    let on_stack_top: extern "C" fn(u64) -> i64 =
        unsafe { std::mem::transmute(library.address("on_stack_top")) };
    let hook = library.hook("six", 0, COPIED);
    for below in [0, 16, 32, 48, 64, 80, 96, 112, 4096] {
        assert_eq!(
            on_stack_top(stack + 19 * 4096 - below),
            91,
            "{below} bytes below the end"
        );
    }
    assert_eq!(count(), 18);
    hook.lift();
}

#[test]
fn signals_at_a_high_rate_change_nothing() {
    let _turn = turn();
    let library = calls();
    let hooks = hook_all(library, 0);
    // SAFETY: the fixture's function of that type.
    let check: extern "C" fn(i32, *mut i64) -> i32 =
        unsafe { std::mem::transmute(library.address("check_signals")) };
    let mut rounds = 0;
    assert_eq!(check(3000, &mut rounds), 0, "line of calls.cpp");
    assert!(rounds > 0);
    hooks.iter().for_each(Hook::lift);
}

#[test]
fn threads_call_side_by_side_and_none_is_lost() {
    let _turn = turn();
    let library = calls();
    let hook = library.hook("six", 0, COPIED);
    // SAFETY: the fixture's function of that type.
    let six: extern "C" fn(i64, i64, i64, i64, i64, i64) -> i64 =
        unsafe { std::mem::transmute(library.address("six")) };
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                for turn in 0..50_000 {
                    assert_eq!(six(thread, turn, 0, 0, 0, 1), thread + 2 * turn + 6);
                }
            });
        }
    });
    assert_eq!(count(), 4 * 50_000 * 2);
    hook.lift();
}

/// The hook on `yields`, set and lifted in turn by [`flip`].
static FLIPPED: AtomicPtr<Hook> = AtomicPtr::new(null_mut());
static FLIPS: AtomicUsize = AtomicUsize::new(0);

extern "C" fn flip() {
    // SAFETY: set by the test below for as long as this is called; nobody changes a hook.
    let hook = unsafe { &*FLIPPED.load(Ordering::Relaxed) };
    match FLIPS.fetch_add(1, Ordering::Relaxed) % 2 {
        0 => hook.lift(),
        _ => hook.put(),
    }
}

#[test]
fn a_hook_is_lifted_and_set_while_its_frames_are_live() {
    let _turn = turn();
    let library = calls();
    let mut hook = library.hook("yields", 0, COPIED);
    FLIPPED.store(&raw mut hook, Ordering::Relaxed);
    // SAFETY: the fixture's variable of that type; its one user runs in this thread.
    let between = unsafe { &mut *(library.address("between") as *mut Option<extern "C" fn()>) };
    *between = Some(flip);
    assert_eq!(library.check("check_fibers"), 0);
    *between = None;
    let flips = FLIPS.load(Ordering::Relaxed);
    assert!(flips > 4000, "{flips}");
    let seen = seen();
    let entries = seen.iter().filter(|record| record.what == 1).count();
    // Half of the 4,000 calls met the hook; each of them came back through it, lifted or not.
    assert!((1500..2500).contains(&entries), "{entries}");
    assert_eq!(seen.len(), 2 * entries);
    if flips.is_multiple_of(2) {
        hook.lift();
    }
    let before = count();
    assert_eq!(library.check("check_fibers"), 0);
    assert_eq!(count(), before);
}

extern "C" fn close_after_the_first() {
    if count() == 1 {
        GATE.store(0, Ordering::Relaxed);
    }
}

#[test]
fn a_gate_that_closes_lets_live_frames_return_unseen() {
    let _turn = turn();
    let library = calls();
    let _hook = library.hook("yields", 0, COPIED);
    // SAFETY: the fixture's variable of that type; its one user runs in this thread.
    let between = unsafe { &mut *(library.address("between") as *mut Option<extern "C" fn()>) };
    *between = Some(close_after_the_first);
    assert_eq!(library.check("check_fibers"), 0);
    *between = None;
    assert_eq!(
        seen().iter().map(|record| record.what).collect::<Vec<_>>(),
        [1],
        "one entry, no return"
    );
}
