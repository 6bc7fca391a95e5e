//! The filters of `-x`, `-e` and `-l`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use prototypes::filter::{Filter, Where};

fuzz_target!(|text: &str| {
    let place = Where {
        path: "/usr/lib/libc.so.6",
        soname: "libc.so.6",
        is_main: false,
    };
    for filter in [Filter::parse(text), Filter::library(text)] {
        match filter {
            Ok(filter) => {
                let _ = (filter.matches("malloc", place), filter.may_match(place));
            }
            Err(error) => {
                let _ = error.to_string();
            }
        }
    }
});
