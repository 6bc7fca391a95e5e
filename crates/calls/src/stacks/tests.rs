//! Calls that nest, return and are left; and what is forgotten of those that stay open.

use super::*;
use std::time::Duration;

impl Kept for &str {
    fn beside(&self) -> usize {
        0
    }
}

impl Kept for u64 {
    fn beside(&self) -> usize {
        0
    }
}

/// A call with texts of so many bytes.
#[derive(Clone)]
struct Large(usize);

impl Kept for Large {
    fn beside(&self) -> usize {
        self.0
    }
}

fn at(ring: u32, frame: u64) -> At {
    At {
        process: 1,
        tid: 1,
        ring,
        stack: 0,
        frame,
        time: Duration::ZERO,
    }
}

fn names(unwound: Vec<OpenCall<&'static str>>) -> Vec<&'static str> {
    unwound.into_iter().map(|open| open.call).collect()
}

#[test]
fn calls_nest_and_return() {
    let mut stacks = OpenCalls::default();
    assert_eq!(stacks.enter(at(0, 0x900), "a").0, 0);
    assert_eq!(stacks.enter(at(0, 0x800), "b").0, 1);
    // Another thread's.
    assert_eq!(stacks.enter(at(1, 0x700), "c").0, 0);
    let (call, depth, inside) = stacks.leave(at(0, 0x800)).unwrap();
    assert_eq!((call, depth, inside.len()), ("b", 1, 0));
    stacks.enter_with(at(0, 0x800), |depth| if depth == 1 { "d" } else { "wrong" });
    stacks.enter(at(0, 0x700), "e");
    let mut left = Vec::new();
    let mut note = |call: &mut &'static str, inside: &mut [OpenCall<&'static str>]| {
        left.push((*call, inside.len()));
    };
    stacks.leave_with(at(0, 0x800), &mut note);
    stacks.leave_with(at(0, 0x800), &mut note);
    assert_eq!(left, [("d", 1)]);
    assert_eq!(stacks.leave(at(0, 0x900)).unwrap().0, "a");
    assert!(stacks.leave(at(0, 0x900)).is_none());
}

#[test]
fn a_child_has_the_calls_of_its_parent_and_an_ended_process_has_none() {
    let mut stacks = OpenCalls::default();
    stacks.enter(at(0, 0x900), "a");
    stacks.enter(at(0, 0x800), "b");
    stacks.fork(1, 2);
    assert_eq!(stacks.drain(Some(1)), ["a", "b"]);
    assert!(stacks.leave(at(0, 0x800)).is_none());
    // Another process gets the place of the one that has ended.
    let of = |process, frame| At {
        process,
        ..at(0, frame)
    };
    stacks.enter(of(3, 0x700), "c");
    assert_eq!(stacks.leave(of(2, 0x800)).unwrap().0, "b");
    assert!(stacks.leave(of(2, 0x880)).is_none());
    assert_eq!(stacks.drain(None), ["a", "c"]);
}

/// More stacks than are found without the table, in turn.
#[test]
fn every_stack_has_its_own_calls() {
    let mut stacks = OpenCalls::default();
    for stack in 0..RECENT as u64 * 3 {
        stacks.enter(on(stack, 0x900), stack);
    }
    for stack in 0..RECENT as u64 * 3 {
        assert_eq!(stacks.last(on(stack, 0x900)), Some(&mut { stack }));
        assert_eq!(stacks.leave(on(stack, 0x900)).unwrap().0, stack);
    }
}

#[test]
fn a_longjmp_shows_at_the_next_call() {
    let mut stacks = OpenCalls::default();
    stacks.enter(at(0, 0x900), "outer");
    stacks.enter(at(0, 0x800), "left");
    stacks.enter(at(0, 0x700), "left too");
    assert_eq!(stacks.around(at(0, 0x820)).count(), 1);
    let (depth, unwound) = stacks.enter(at(0, 0x820), "next");
    assert_eq!(depth, 1);
    assert_eq!(names(unwound), ["left", "left too"]);
}

#[test]
fn an_outer_return_settles_what_it_held() {
    let mut stacks = OpenCalls::default();
    stacks.enter(at(0, 0x900), "outer");
    stacks.enter(at(0, 0x800), "left");
    let (call, _, inside) = stacks.leave(at(0, 0x900)).unwrap();
    assert_eq!((call, names(inside)), ("outer", vec!["left"]));
}

fn on(stack: u64, frame: u64) -> At {
    At {
        stack: stack << 12,
        ..at(0, frame)
    }
}

fn held<T: Kept>(stacks: &OpenCalls<T>) -> usize {
    let open = stacks.stacks.iter().map(|stack| bytes(&stack.open));
    let sum = open.sum();
    assert_eq!(stacks.bytes, sum, "what is counted is what is there");
    sum + stacks.places.len() * STACK
}

#[test]
fn stacks_that_are_never_left_have_a_budget_and_what_is_forgotten_is_counted() {
    let mut stacks = OpenCalls::default();
    let all = 4 * MOST_STACKS as u64;
    stacks.enter(on(all, 0x900), u64::MAX);
    for stack in 0..all {
        stacks.enter(on(stack, 0x900), stack);
        // One that is in use is not forgotten.
        stacks.enter(on(all, 0x800), stack);
    }
    assert!(held(&stacks) <= MOST_BYTES && stacks.places.len() <= MOST_STACKS);
    let last = stacks.leave(on(all - 1, 0x900)).map(|(call, ..)| call);
    assert_eq!(last, Some(all - 1));
    assert!(stacks.leave(on(0, 0x900)).is_none());
    assert_eq!(stacks.leave(on(all, 0x900)).unwrap().0, u64::MAX);
    let left = stacks.drain(None).len() as u64;
    assert_eq!(stacks.forgotten() + left, all - 1);
    assert_eq!(held(&stacks), 0);
}

#[test]
fn a_recursion_without_end_has_a_budget_too() {
    let mut stacks = OpenCalls::default();
    let calls = 2 * (MOST_BYTES / size_of::<OpenCall<u64>>()) as u64;
    for call in 0..calls {
        let (_, left) = stacks.enter(at(0, u64::MAX - call), call);
        assert!(left.is_empty());
    }
    assert!(held(&stacks) <= MOST_BYTES);
    let (last, inside) = (u64::MAX - (calls - 1), stacks.stacks[0].open.len() as u64);
    assert_eq!(stacks.forgotten() + inside, calls);
    assert_eq!(stacks.leave(at(0, last)).unwrap().0, calls - 1);
    assert!(stacks.leave(at(0, u64::MAX)).is_none());
}

#[test]
fn what_calls_hold_counts_and_what_children_get_of_it() {
    let mut stacks = OpenCalls::default();
    for frame in 0..1000 {
        stacks.enter(at(0, 0x9000 - frame), Large(10_000));
    }
    for child in 2..200 {
        stacks.fork(1, child);
        assert!(held(&stacks) <= MOST_BYTES);
    }
    assert!(stacks.forgotten() > 1000);
    stacks.enter(on(1, 0x900), Large(2 * MOST_BYTES));
    assert!(
        stacks.leave(on(1, 0x900)).is_some(),
        "the last call is kept"
    );
}

#[test]
fn a_call_of_no_interest_leaves_what_lies_deeper() {
    let mut stacks = OpenCalls::default();
    stacks.enter(at(0, 0x900), "outer");
    stacks.enter(at(0, 0x800), "left");
    assert_eq!(names(stacks.unwind(at(0, 0x800))), ["left"]);
    assert!(stacks.unwind(at(1, 0x800)).is_empty());
    assert_eq!(stacks.leave(at(0, 0x900)).unwrap().0, "outer");
}
