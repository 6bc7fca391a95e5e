//! ltrace.conf(5): what is read prints, and what is printed reads again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use prototypes::{Detail, Library};

fuzz_target!(|text: &str| {
    let (library, errors) = Library::parse("any.conf", text, &mut |_| None);
    for error in errors {
        assert!(error.column <= error.text.chars().count() + 1, "{error}");
    }
    for (_, prototype) in library.prototypes() {
        let _ = prototype.capture(Detail {
            strings: 32,
            array: 4,
            whole: false,
        });
    }
    let printed = library.to_string();
    let (again, _) = Library::parse("again.conf", &printed, &mut |_| None);
    assert_eq!(again.to_string(), printed);
});
