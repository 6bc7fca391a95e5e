//! Which calls are wanted: by who calls, and by conditions as the command writes them.

use super::*;
use crate::calls::hooked::{NO_VECTORS, as_call};
use capture::condition::{Kind, Operand, Relation, Step};
use capture::{Source, Width};

use routine::Results;
use std::vec::Vec;

fn called_from(callers: u64, caller: u64) -> bool {
    let hook = Hook {
        callers,
        ..Hook::default()
    };
    is_called_from_wanted(&hook, &as_call(&hook, [0; 6], 0, caller))
}

/// Without a table calls from everywhere are wanted.
#[test]
fn without_a_table_all_callers_are_wanted() {
    assert!(called_from(0, 0) && called_from(0, u64::MAX));
}

/// A range has its first address and not the one behind its last.
#[test]
fn ranges_have_their_first_address() {
    let table = [2u64, 0x1000, 0x2000, 0x5000, 0x5001];
    let at = table.as_ptr().expose_provenance() as u64;
    for (caller, wanted) in [
        (0xfff, false),
        (0x1000, true),
        (0x1fff, true),
        (0x2000, false),
        (0x5000, true),
        (0x5001, false),
    ] {
        assert_eq!(called_from(at, caller), wanted, "{caller:#x}");
    }
}

/// A table without a range wants nobody.
#[test]
fn an_empty_table_wants_nobody() {
    let table = [0u64, 0, u64::MAX];
    assert!(!called_from(table.as_ptr().expose_provenance() as u64, 5));
}

fn words(steps: &[Step]) -> Vec<u64> {
    let mut words = Vec::new();
    steps
        .iter()
        .for_each(|step| step.encode(|word| words.push(word)));
    words
}

/// Whether a call with these arguments meets a condition; with a result, as its return.
fn asked(steps: &[Step], arguments: [u64; 6], back: Option<u64>, elapsed: u64, lines: u32) -> bool {
    let words = words(steps);
    let hook = Hook::default();
    let frame = as_call(&hook, arguments, 0, 0);
    let call = Hooked {
        stack: 0x7000,
        ..Hooked::new(&hook, 0, &frame, NO_VECTORS)
    };
    let results = back.map(|rax| Results {
        xmm: [[0; 2]; 16],
        rax,
        rdx: 0,
        scratch: [0; 7],
    });
    let outcome = results.as_ref().map(|results| Outcome { results, kept: 0 });
    let asked = Asked {
        outcome,
        elapsed,
        lines,
        ring: None,
    };
    // SAFETY: the words are live.
    unsafe {
        meets(
            [
                words.as_ptr().expose_provenance() as u64,
                words.len() as u64,
            ],
            call,
            asked,
        )
    }
}

fn number(of: Operand, relation: Relation, with: u64) -> Step<'static> {
    Step::Number(of, Kind::Integer(Width::WORD), relation, with)
}

/// No condition is met by every call.
#[test]
fn no_condition_is_met() {
    assert!(asked(&[], [0; 6], None, 0, 0));
}

/// An argument is compared as it stood in its register.
#[test]
fn an_argument_is_compared() {
    let over = [number(Operand::Of(Source::Gp(2)), Relation::Greater, 4096)];
    assert!(asked(&over, [0, 0, 4097, 0, 0, 0], None, 0, 0));
    assert!(!asked(&over, [4097, 4097, 4096, 4097, 0, 0], None, 0, 0));
}

/// A result is known at the return alone; at the call no condition on it is met.
#[test]
fn a_result_is_known_at_the_return() {
    let failed = [number(Operand::Of(Source::Rax), Relation::Equal, u64::MAX)];
    assert!(asked(&failed, [0; 6], Some(u64::MAX), 0, 0));
    assert!(!asked(&failed, [0; 6], Some(0), 0, 0));
    assert!(!asked(&failed, [0; 6], None, 0, 0));
}

/// The time that a call took is compared in cycles.
#[test]
fn the_time_is_compared() {
    let long = [number(Operand::Elapsed, Relation::GreaterOrEqual, 500)];
    assert!(asked(&long, [0; 6], Some(0), 500, 0));
    assert!(!asked(&long, [0; 6], Some(0), 499, 0));
}

/// A line is asked by its bit.
#[test]
fn a_line_is_asked_by_its_bit() {
    assert!(asked(&[Step::Line(3)], [0; 6], None, 0, 0b1000));
    assert!(!asked(&[Step::Line(3)], [0; 6], None, 0, 0b0111));
}

/// Both of two conditions must be met, and a negated one must not.
#[test]
fn conditions_are_joined() {
    let first = number(Operand::Of(Source::Gp(0)), Relation::Equal, 1);
    let both = [first, Step::SkipUnless(1), Step::Line(0)];
    assert!(asked(&both, [1, 0, 0, 0, 0, 0], None, 0, 1));
    assert!(!asked(&both, [1, 0, 0, 0, 0, 0], None, 0, 0));
    assert!(!asked(&both, [2, 0, 0, 0, 0, 0], None, 0, 1));
    let not = [first, Step::Not];
    assert!(asked(&not, [2, 0, 0, 0, 0, 0], None, 0, 0));
    assert!(!asked(&not, [1, 0, 0, 0, 0, 0], None, 0, 0));
}

/// Words that are no step, as a guest could have written there, are met by no call.
#[test]
fn words_that_are_no_step_are_never_met() {
    let hook = Hook::default();
    let frame = as_call(&hook, [0; 6], 0, 0);
    let call = Hooked {
        stack: 0x7000,
        ..Hooked::new(&hook, 0, &frame, NO_VECTORS)
    };
    for word in [0u64, 63, 99, u64::MAX] {
        let asked = Asked {
            outcome: None,
            elapsed: 0,
            lines: u32::MAX,
            ring: None,
        };
        // SAFETY: the word is live.
        assert!(!unsafe {
            meets(
                [(&raw const word).expose_provenance() as u64, 1],
                call,
                asked,
            )
        });
    }
}
