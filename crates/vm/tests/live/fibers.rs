//! Fibers: all that are parked, where, and in which frames.

use std::collections::BTreeMap;

use vm::Memory;
use vm::ruby::Ruby;

use crate::guest::{each_version, hex};

/// `data` in `struct RTypedData`.
const DATA: u64 = 32;

#[test]
fn parked_fibers_are_found() {
    each_version(include_str!("fibers.rb"), |version, guest| {
        let ruby = Ruby::new(&guest.memory, guest.facts).expect("a known version");
        let vm = ruby.vm().expect("a VM");
        let mut fibers = BTreeMap::new();
        ruby.each_fiber(vm, &mut |fiber| {
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
