//! What leads to the heap, where some of it cannot be read.

use vm::php::Php;
use vm::php::heap::{Place, Root};
use vm::{Fault, Memory};

use super::guest::each_version;
use crate::process::{ProcessMemory, Symbols};

/// A memory in which the first word of a thing cannot be read: its count of references.
struct Hole<'m> {
    memory: &'m ProcessMemory,
    at: u64,
}

impl Memory for Hole<'_> {
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Fault> {
        let end = at.saturating_add(into.len() as u64);
        if at < self.at + 8 && self.at < end {
            return Err(Fault { at: self.at });
        }
        self.memory.read(at, into)
    }
}

/// The roots, and how many could not be read.
fn roots<M: Memory>(php: &Php<M>, symbols: &Symbols) -> (Vec<Root>, u64) {
    let places = php.places(&|name| symbols.address(name));
    let mut found = Vec::new();
    let unread = php.each_root(&places.expect("places"), 1 << 20, &mut |root| {
        found.push(root);
    });
    (found, unread.expect("roots"))
}

#[test]
fn a_value_that_cannot_be_read_costs_itself_alone() {
    each_version(include_str!("roots.php"), |version, guest| {
        let symbols = Symbols::find(guest.script.pid(), "/bin/php").expect("php is mapped");
        let (all, unread) = roots(&guest.php(), &symbols);
        assert_eq!(unread, 0, "{version}");
        let is_of_script =
            |root: &&Root| matches!(root.place, Place::Static(..) | Place::Local(..));
        let mut tried = 0;
        for hidden in all.iter().filter(is_of_script) {
            let memory = Hole {
                memory: &guest.memory,
                at: hidden.thing.address,
            };
            let php = Php::new(&memory, guest.facts).expect("a known version");
            let (found, unread) = roots(&php, &symbols);
            let expected = all.iter().filter(|root| root.thing != hidden.thing);
            let expected: Vec<Root> = expected.copied().collect();
            assert_eq!(found, expected, "{version}: without {hidden:?}");
            assert_eq!(unread, (all.len() - expected.len()) as u64, "{version}");
            tried += 1;
        }
        // Two static properties and three local variables.
        assert_eq!(tried, 5, "{version}: {all:?}");
    });
}
