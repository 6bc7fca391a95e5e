//! Relocated beginnings of libc's own functions do what the functions do.
//!
//! Nothing is patched here: the stub's `original` is called, which runs the stolen instructions and jumps into the function. So
//! this holds for functions that run all the time. The implementations are those that the loader chose for this processor
//! (IFUNC), whose sizes are in no symbol table.

use std::ffi::{CStr, CString, c_char, c_int, c_void};

use proptest::prelude::*;
use trampoline::{Destination, Function, Options, Pads, Targets, plan};

use crate::guest::{island, write};

/// The address of a function that does what `name` does, by its stub.
fn relocated(name: &CStr) -> (u64, u64) {
    // SAFETY: a valid string; libc is loaded.
    let entry = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) } as u64;
    assert_ne!(entry, 0, "{name:?}");
    // SAFETY: libc's text goes on for more than this behind each of these functions.
    let code = unsafe { std::slice::from_raw_parts(entry as *const u8, 256) };
    let function = Function {
        entry,
        code,
        size: 0,
    };
    let targets = Targets::of(code, entry, &[], None);
    let plan = plan(
        &function,
        &targets,
        &mut Pads::default(),
        Options::default(),
    )
    .unwrap_or_else(|why| panic!("{name:?}: {why}"));
    let at = island(entry);
    let to = Destination {
        routine: 0,
        descriptor: 0,
    };
    let stub = plan.stub(at, to).expect("in reach");
    write(at, &stub.bytes);
    (entry, stub.original)
}

macro_rules! both {
    ($name:literal as $type:ty) => {{
        let (real, copy) = relocated(CString::new($name).expect("a name").as_c_str());
        // SAFETY: the function has this type; the copy is the same function.
        unsafe {
            (
                std::mem::transmute::<u64, $type>(real),
                std::mem::transmute::<u64, $type>(copy),
            )
        }
    }};
}

extern "C" fn compare(a: *const c_void, b: *const c_void) -> c_int {
    // SAFETY: qsort and bsearch give elements of our array.
    let (a, b) = unsafe { (*a.cast::<i32>(), *b.cast::<i32>()) };
    i32::from(a > b) - i32::from(a < b)
}

type Compare = extern "C" fn(*const c_void, *const c_void) -> c_int;
type Copy = extern "C" fn(*mut u8, *const u8, usize) -> *mut u8;
type Text = *const c_char;

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn numbers(text in "[ \\t]{0,3}[-+]?[0-9a-fx]{0,24}", base in 2..36i32) {
        let text = CString::new(text).expect("no zero");
        for (real, copy) in [
            both!("strtol" as extern "C" fn(Text, *mut Text, c_int) -> i64),
            both!("strtoul" as extern "C" fn(Text, *mut Text, c_int) -> i64),
        ] {
            let (mut a, mut b) = (std::ptr::null(), std::ptr::null());
            prop_assert_eq!(real(text.as_ptr(), &mut a, base), copy(text.as_ptr(), &mut b, base));
            prop_assert_eq!(a, b);
        }
        let (real, copy) = both!("strtod" as extern "C" fn(Text, *mut Text) -> f64);
        let mut end = std::ptr::null();
        prop_assert_eq!(real(text.as_ptr(), &mut end).to_bits(), copy(text.as_ptr(), &mut end).to_bits());
    }

    #[test]
    fn sorting(mut values in proptest::collection::vec(any::<i32>(), 1..300), wanted: i32) {
        let (real, copy) = both!("qsort" as extern "C" fn(*mut i32, usize, usize, Compare));
        let mut again = values.clone();
        real(values.as_mut_ptr(), values.len(), 4, compare);
        copy(again.as_mut_ptr(), again.len(), 4, compare);
        prop_assert_eq!(&values, &again);
        let (real, copy) = both!("bsearch" as extern "C" fn(*const i32, *const i32, usize, usize, Compare) -> usize);
        prop_assert_eq!(real(&wanted, values.as_ptr(), values.len(), 4, compare), copy(&wanted, values.as_ptr(), values.len(), 4, compare));
        prop_assert_ne!(copy(&values[0], values.as_ptr(), values.len(), 4, compare), 0);
    }

    #[test]
    fn copying(bytes in proptest::collection::vec(any::<u8>(), 1..600), shift in 0..64usize, byte: u8) {
        for (real, copy) in [both!("memcpy" as Copy), both!("mempcpy" as Copy), both!("memmove" as Copy)] {
            let (mut a, mut b) = (vec![0; 700], vec![0; 700]);
            let from = real(a[shift..].as_mut_ptr(), bytes.as_ptr(), bytes.len()) as usize - a.as_ptr() as usize;
            let to = copy(b[shift..].as_mut_ptr(), bytes.as_ptr(), bytes.len()) as usize - b.as_ptr() as usize;
            prop_assert_eq!(from, to);
            prop_assert_eq!(&a, &b);
            prop_assert_eq!(&a[shift..][..bytes.len()], &bytes[..]);
        }
        let (real, copy) = both!("memset" as extern "C" fn(*mut u8, c_int, usize) -> *mut u8);
        let (mut a, mut b) = (bytes.clone(), bytes.clone());
        real(a.as_mut_ptr(), byte.into(), a.len());
        copy(b.as_mut_ptr(), byte.into(), b.len());
        prop_assert_eq!(&a, &b);
        let (real, copy) = both!("memcmp" as extern "C" fn(*const u8, *const u8, usize) -> c_int);
        prop_assert_eq!(real(a.as_ptr(), bytes.as_ptr(), a.len()), copy(a.as_ptr(), bytes.as_ptr(), a.len()));
        let (real, copy) = both!("memchr" as extern "C" fn(*const u8, c_int, usize) -> usize);
        prop_assert_eq!(real(bytes.as_ptr(), byte.into(), bytes.len()), copy(bytes.as_ptr(), byte.into(), bytes.len()));
    }

    #[test]
    fn text(a in "[a-c]{0,80}", b in "[a-c]{0,3}", number: i64, float: f64) {
        let (a, b) = (CString::new(a).expect("no zero"), CString::new(b).expect("no zero"));
        for (real, copy) in [
            both!("strstr" as extern "C" fn(Text, Text) -> usize),
            both!("strspn" as extern "C" fn(Text, Text) -> usize),
            both!("strpbrk" as extern "C" fn(Text, Text) -> usize),
        ] {
            prop_assert_eq!(real(a.as_ptr(), b.as_ptr()), copy(a.as_ptr(), b.as_ptr()));
        }
        let (real, copy) = both!("strcmp" as extern "C" fn(Text, Text) -> c_int);
        prop_assert_eq!(real(a.as_ptr(), b.as_ptr()), copy(a.as_ptr(), b.as_ptr()));
        let (real, copy) = both!("strlen" as extern "C" fn(Text) -> usize);
        prop_assert_eq!(real(a.as_ptr()), copy(a.as_ptr()));
        let (real, copy) = both!("snprintf" as unsafe extern "C" fn(*mut u8, usize, Text, ...) -> c_int);
        let (mut x, mut y) = ([0u8; 600], [0u8; 600]);
        // SAFETY: the format fits the arguments, six integers and a double.
        let (m, n) = unsafe {
            let format = c"%ld %s %g %ld %ld %ld".as_ptr();
            (
                real(x.as_mut_ptr(), 600, format, number, a.as_ptr(), float, number, 1i64, 2i64),
                copy(y.as_mut_ptr(), 600, format, number, a.as_ptr(), float, number, 1i64, 2i64),
            )
        };
        prop_assert_eq!(m, n);
        prop_assert_eq!(x, y);
    }
}
