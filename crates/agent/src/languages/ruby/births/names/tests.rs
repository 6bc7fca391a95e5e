//! What an object is booked as, by its flags and its class.

use super::*;
use std::collections::HashSet;
use std::string::String;

/// An object with a class is booked under the class.
#[test]
fn an_object_is_booked_under_its_class() {
    // T_OBJECT, T_STRING and T_ARRAY (include/ruby/internal/value_type.h).
    for flags in [1, 5, 7] {
        assert_eq!(class_key(flags | 0x8000, 0x7f00_1000), 0x7f00_1000);
    }
}

/// An object whose class is hidden, or no address, is booked under its type.
#[test]
fn a_hidden_object_is_booked_under_its_type() {
    assert_eq!(class_key(5, 0), HIDDEN | 5);
    assert_eq!(class_key(5, 0xfff), HIDDEN | 5);
    assert_eq!(class_key(5, 0x1000), 0x1000);
}

/// The VM's own objects have no class that may be followed, whatever stands in that word.
#[test]
fn an_imemo_is_booked_under_its_subtype() {
    // T_IMEMO is 0x1a; the subtype lies from bit 12 on.
    for subtype in 0..16 {
        assert_eq!(
            class_key(0x1a | subtype << 12, 0x7f00_1000),
            IMEMO | subtype
        );
    }
}

/// Free slots, and what stands for something else, never lead to their class word.
#[test]
fn what_is_no_object_has_no_class() {
    // T_NONE, T_ICLASS, T_NODE, T_ZOMBIE, T_MOVED.
    for flags in [0, 0x1c, 0x1b, 0x1d, 0x1e] {
        assert_eq!(class_key(flags, 0x7f00_1000), HIDDEN | flags);
    }
}

/// No two kinds of keys without a class are the same number, and none is an address.
#[test]
fn keys_without_a_class_are_apart() {
    let hidden = (0..0x20)
        .map(|of| class_key(of, 0))
        .filter(|key| key & HIDDEN != 0);
    let imemos = (0..16).map(|subtype| class_key(0x1a | subtype << 12, 0));
    let modules = (0..0x20).map(internal_module_key);
    let keys: std::vec::Vec<u64> = hidden.chain(imemos).chain(modules).collect();
    let apart: HashSet<u64> = keys.iter().copied().collect();
    assert_eq!(apart.len(), keys.len());
    assert!(keys.iter().all(|key| *key < FIRST_ADDRESS));
}

/// Without a VM a type has its name, and a class is said to be unreadable rather than followed.
#[test]
fn without_a_vm_no_class_is_followed() {
    let mut names = Names::new();
    let mut told = |class| match names.class(class) {
        Class::Named { name, internal } => (String::from_utf8_lossy(name).into_owned(), internal),
        Class::Anonymous { .. } => panic!("a class was followed"),
    };
    assert_eq!(told(0x10), (told(HIDDEN | 0x10).0, true));
    assert_eq!(told(0x7f00_1000), ("__unreadable__".into(), true));
    assert_ne!(told(HIDDEN | 5).0, told(HIDDEN | 7).0);
}

/// Without a VM code has neither path nor name nor line.
#[test]
fn without_a_vm_code_has_no_text() {
    let mut names = Names::new();
    assert_eq!(names.path(0x7f00_1000), b"");
    assert_eq!(names.method(0x7f00_1000), b"");
    assert_eq!(names.line(0x7f00_1000, 8), 0);
    assert!(!names.descends(0x7f00_1000, 0x7f00_2000));
    assert!(names.frame(8, 8).is_none() && names.frames(8, 8).is_none());
}
