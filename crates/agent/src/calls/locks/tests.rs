//! Which system calls take away what hooks need.

use super::*;
use special::{PRCTL, SECCOMP};

/// Giving up the counter is seen, and asking for it is not.
#[test]
fn the_counter_is_given_up_by_one_value() {
    assert_eq!(program(PRCTL, [26, 2, 0]), Some(locked::COUNTER));
    assert_eq!(program(PRCTL, [26, 1, 0]), None);
    assert_eq!(program(PRCTL, [25, 2, 0]), None);
}

/// Strict mode is seen by either system call.
#[test]
fn strict_mode_is_seen_by_both_ways() {
    assert_eq!(program(PRCTL, [22, 1, 0]), Some(locked::COUNTER));
    assert_eq!(program(SECCOMP, [0, 0, 0]), Some(locked::COUNTER));
}

/// Strict mode with flags or an argument is refused by the kernel, so nothing is given up.
#[test]
fn a_refused_strict_mode_is_none() {
    assert_eq!(program(SECCOMP, [0, 1, 0]), None);
    assert_eq!(program(SECCOMP, [0, 0, 8]), None);
}

/// A filter is named by the address of its program, by either system call and with whatever flags.
#[test]
fn a_filter_is_named_by_its_program() {
    assert_eq!(program(PRCTL, [22, 2, 0x7f00_1234]), Some(0x7f00_1234));
    for flags in [0, 1, 0x80] {
        assert_eq!(program(SECCOMP, [1, flags, 0x7f00_1234]), Some(0x7f00_1234));
    }
}

/// A filter at an address where none can be only asks whether there are filters.
#[test]
fn a_filter_nowhere_is_a_question() {
    for at in [0, locked::COUNTER, locked::DISPATCH] {
        assert_eq!(program(SECCOMP, [1, 0, at]), None);
        assert_eq!(program(PRCTL, [22, 2, at]), None);
    }
}

/// Dispatch of system calls is seen in both of its forms, and not when it is switched off.
#[test]
fn dispatch_is_seen_when_it_is_switched_on() {
    assert_eq!(program(PRCTL, [59, 1, 0]), Some(locked::DISPATCH));
    assert_eq!(program(PRCTL, [59, 2, 0]), Some(locked::DISPATCH));
    assert_eq!(program(PRCTL, [59, 0, 0]), None);
}

/// The kernel looks at 32 bits of the number and of the first two arguments, so their upper halves do not hide a call.
#[test]
fn upper_halves_hide_nothing() {
    let dirt = 0xdead_beef_0000_0000;
    assert_eq!(
        program(PRCTL | dirt, [26 | dirt, 2 | dirt, dirt]),
        Some(locked::COUNTER)
    );
    assert_eq!(
        program(SECCOMP | dirt, [1 | dirt, dirt, 0x5000]),
        Some(0x5000)
    );
}

/// Other system calls take nothing away, whatever their arguments are.
#[test]
fn others_take_nothing() {
    for number in (0..450).filter(|number| ![PRCTL, SECCOMP].contains(number)) {
        assert_eq!(program(number, [22, 2, 0x5000]), None);
        assert_eq!(program(number, [0, 0, 0]), None);
    }
}

/// This thread may read the counter, so nobody is told anything.
#[test]
fn a_free_thread_is_free() {
    assert!(!are_there());
}
