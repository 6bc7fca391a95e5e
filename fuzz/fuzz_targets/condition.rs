//! The expressions of `--where`, over the prototype behind the first line: read, and made into words that run and end.
#![no_main]

use libfuzzer_sys::fuzz_target;
use prototypes::condition::Condition;
use prototypes::Library;

fuzz_target!(|text: &str| {
    let (condition, prototype) = text.split_once('\n').unwrap_or((text, ""));
    let condition = match Condition::parse(condition) {
        Ok(condition) => condition,
        Err(error) => {
            let _ = error.to_string();
            return;
        }
    };
    let (library, _) = Library::parse("any.conf", prototype, &mut |_| None);
    let of = library.prototypes().next().map(|(_, prototype)| prototype);
    let _ = condition.lines();
    if let Err(error) = condition.compile(of, &|nanoseconds| nanoseconds.saturating_mul(3)) {
        let _ = error.to_string();
    }
});
