//! Fibers: all that are parked, where, and in which frames.

use std::cell::Cell;
use std::collections::BTreeMap;

use vm::ruby::Ruby;
use vm::{Fault, Memory};

use crate::guest::{each_version, hex};

/// `data` in `struct RTypedData`.
const DATA: u64 = 32;

#[test]
fn parked_fibers_are_found() {
    each_version(include_str!("fibers.rb"), |version, guest| {
        let ruby = Ruby::new(&guest.memory, guest.facts).expect("a known version");
        let vm = ruby.vm().expect("a VM");
        let mut fibers = BTreeMap::new();
        ruby.each_fiber(vm, &mut |_| false, &mut |fiber| {
            fibers.insert(fiber.address, fiber);
        })
        .expect("fibers");
        let context = fibers
            .values()
            .find_map(|fiber| ruby.context_of(fiber))
            .expect("a context");
        let mut parked = BTreeMap::new();
        for fiber in fibers.values() {
            if let Some(place) = ruby.parked(fiber, context).expect("readable") {
                let cfp = ruby.current_cfp(fiber.ec).expect("a frame");
                let frames = ruby.frames(fiber.ec, cfp).expect("frames").map(|frame| {
                    let frame = frame.expect("a frame");
                    let mut name = String::new();
                    let label = ruby.base_label(frame.iseq).expect("a label");
                    ruby.write_text(label, 100, &mut name).expect("text");
                    let mut path = String::new();
                    ruby.write_text(ruby.path(frame.iseq).expect("a path"), 100, &mut path)
                        .expect("text");
                    (
                        path,
                        format!(
                            "{name}:{}",
                            ruby.line(frame.iseq, frame.pc).expect("a line")
                        ),
                    )
                });
                let frames: Vec<String> = frames
                    .filter(|(path, _)| !path.starts_with("<internal:"))
                    .map(|(_, frame)| frame)
                    .collect();
                parked.insert(fiber.address, (place, frames.join(" ")));
            }
        }
        let mut told = 0;
        for line in &guest.lines {
            let fields: Vec<&str> = line.split('\t').collect();
            if fields[0] != "fiber" {
                continue;
            }
            told += 1;
            let address = guest.memory.u64(hex(fields[1]) + DATA).expect("data");
            let (place, frames) = parked
                .get(&address)
                .unwrap_or_else(|| panic!("{version}: {line}"));
            if let Some(said) = fields.get(2) {
                assert_eq!(frames, said, "{version}");
            }
            let first = place.stack.is_empty();
            assert!(
                first || place.stack.contains(&place.sp),
                "{version}: {place:x?}"
            );
        }
        // Those of the script, the Enumerator's, the first of each thread.
        let more = if told == 6 { 2 } else { 3 };
        assert_eq!(parked.len(), told + more, "ruby {version}: {parked:#?}");
        println!(
            "ruby {version}: {} fibers, {} parked, {context:?}",
            fibers.len(),
            parked.len()
        );
    });
}

/// Memory in which, when the list of pages is first read, another page stands in the place of one: pages before it were given back, and
/// the list has moved on.
struct Moving<'a> {
    memory: &'a dyn Memory,
    hidden: u64,
    is_over: Cell<bool>,
}

impl Memory for Moving<'_> {
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Fault> {
        self.memory.read(at, into)?;
        if into == self.hidden.to_le_bytes() && !self.is_over.replace(true) {
            into.fill(0);
        }
        Ok(())
    }
}

#[test]
fn the_vm_is_found_while_pages_are_given_back() {
    each_version(include_str!("empty.rb"), |version, guest| {
        let ruby = Ruby::new(&guest.memory, guest.facts).expect("a known version");
        let vm = ruby.vm().expect("a VM");
        let pages = ruby.pages().expect("a list").flatten();
        let has_thread = |page: &vm::ruby::Page| {
            let mut slots = ruby.slots(*page).flatten();
            slots.any(|slot| matches!(ruby.thread_ec(slot.address), Ok(Some(_))))
        };
        let hidden = pages.filter(has_thread).collect::<Vec<_>>();
        // Another page would lead to the VM, too.
        let Some(first) = hidden.first().filter(|_| hidden.len() == 1) else {
            println!(
                "skipped: ruby {version}: {} pages have threads",
                hidden.len()
            );
            return;
        };
        let moving = Moving {
            memory: &guest.memory,
            hidden: first.described_at,
            is_over: Cell::new(false),
        };
        let ruby = Ruby::new(&moving, guest.facts).expect("a known version");
        assert_eq!(ruby.vm(), Ok(vm), "{version}");
    });
}
