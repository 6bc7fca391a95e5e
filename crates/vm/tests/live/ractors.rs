//! How many Ractors there are.

use vm::ruby::Ruby;

use crate::guest::each_version;

#[test]
fn ractors_are_counted() {
    each_version(include_str!("ractors.rb"), |version, guest| {
        let count = |guest: &crate::guest::Guest| {
            let ruby = Ruby::new(&guest.memory, guest.facts).expect("a known version");
            ruby.ractor_count(ruby.vm().expect("a VM"))
                .expect("a count")
        };
        assert_eq!(count(guest), 1, "ruby {version}");
        guest.resume();
        let more = if guest.facts.version().has_ractors() {
            3
        } else {
            0
        };
        assert_eq!(count(guest), 1 + more, "ruby {version}");
    });
}
