//! The heap walked from outside against `ObjectSpace`.

use std::collections::{HashMap, HashSet};

use vm::ruby::{Ruby, Slot, Type};

use crate::guest::{Guest, ProcessMemory, each_version, hex};

fn slots(ruby: &Ruby<'_, ProcessMemory>) -> Vec<Slot> {
    ruby.pages()
        .expect("pages")
        .map(|page| page.expect("page"))
        .flat_map(|page| {
            ruby.slots(page)
                .map(|slot| slot.expect("slot"))
                .collect::<Vec<_>>()
        })
        .collect()
}

fn field<'l>(line: &'l str, name: &str) -> Option<&'l str> {
    let begin = line.find(&format!("\"{name}\":\""))? + name.len() + 4;
    line[begin..].split('"').next()
}

#[test]
fn shows_what_object_space_shows() {
    each_version(include_str!("heap.rb"), |version, guest| {
        let shown: HashSet<u64> = visible(guest);
        guest.resume();
        let told: HashSet<u64> = guest.lines.iter().map(|line| hex(line)).collect();
        let missing = told.difference(&shown).count();
        let extra = shown.difference(&told).count();
        println!(
            "ruby {version}: each_object {}: {missing} missing, {extra} more",
            told.len()
        );
        assert_eq!(missing, 0, "ruby {version}");
        // What `ready` itself made after each_object was done.
        assert!(extra <= 8, "ruby {version}: {extra} more");

        guest.resume();
        let ruby = Ruby::new(&guest.memory, guest.facts).expect("a known version");
        let slots: HashMap<u64, Slot> = slots(&ruby)
            .into_iter()
            .map(|slot| (slot.address, slot))
            .collect();
        let mut compared = 0;
        let mut classes = 0;
        for line in guest
            .lines
            .iter()
            .filter(|line| line.starts_with("{\"address\":"))
        {
            let address = hex(field(line, "address").expect("an address"));
            // Shapes are no objects; and of an object that is just being made Ruby says no type.
            let Some(said) = field(line, "type").filter(|said| *said != "SHAPE") else {
                continue;
            };
            let slot = slots
                .get(&address)
                .unwrap_or_else(|| panic!("{version}: no slot: {line}"));
            let kind = Type::of(slot.flags);
            let name = kind.hidden_name().trim_matches('_').to_uppercase();
            assert_eq!(name, said, "ruby {version}: {line}");
            match (kind, field(line, "imemo_type")) {
                (Type::Imemo, Some(imemo)) => assert_eq!(
                    ruby.imemo(slot.flags).name(),
                    format!("__imemo:{imemo}__"),
                    "ruby {version}: {line}"
                ),
                (Type::Imemo | Type::Iclass, _) => {}
                _ => {
                    if let Some(class) = field(line, "class") {
                        assert_eq!(slot.klass, hex(class), "ruby {version}: {line}");
                        classes += 1;
                    }
                }
            }
            let page = ruby.page_of(address).expect("a page");
            assert!(address >= page.start, "ruby {version}: {line}");
            assert_eq!(
                (address - page.start) % page.slot_size,
                0,
                "ruby {version}: {line}"
            );
            compared += 1;
        }
        println!("ruby {version}: dump_all {compared} slots, {classes} classes");
        assert!(
            compared > told.len() && classes > 1000,
            "ruby {version}: {compared}, {classes}"
        );
    });
}

fn visible(guest: &Guest) -> HashSet<u64> {
    let ruby = Ruby::new(&guest.memory, guest.facts).expect("a known version");
    slots(&ruby)
        .into_iter()
        .map(|slot| slot.address)
        .filter(|&address| !ruby.is_internal(address).expect("an object"))
        .collect()
}

/// Since 3.4 a page of which every slot was freed has no slots at all until it is used again, and stays in the list.
#[test]
fn pages_without_slots_are_pages() {
    each_version(include_str!("empty.rb"), |version, guest| {
        let ruby = Ruby::new(&guest.memory, guest.facts).expect("a known version");
        let pages: Result<Vec<_>, _> = ruby.pages().expect("pages").collect();
        let pages = pages.unwrap_or_else(|error| panic!("ruby {version}: {error}"));
        let empty = pages.iter().filter(|page| page.total_slots == 0).count();
        let told: usize = guest.lines[0].parse().expect("a number");
        println!("ruby {version}: {empty} of {} pages", pages.len());
        assert_eq!(empty, told, "ruby {version}");
    });
}

/// Since 3.4 the VM does not tell its table of finalizers among its roots, so it is read; from earlier versions nothing is read.
#[test]
fn finalizers_are_read_where_the_vm_does_not_tell_them() {
    each_version(include_str!("finalizers.rb"), |version, guest| {
        let ruby = Ruby::new(&guest.memory, guest.facts).expect("a known version");
        let count = |most: u64| {
            let mut callbacks = HashSet::new();
            let whole = ruby.finalizers(most, &|| true, &mut |array| {
                callbacks.insert(array);
            });
            (callbacks.len(), whole.expect("the table"))
        };
        let is_told = matches!(version, "2.7" | "3.0" | "3.1" | "3.2" | "3.3");
        let ((all, is_all), (some, is_some_whole)) = (count(u64::MAX), count(1000));
        println!("ruby {version}: {all} finalizers, {some} of the first 1,000 places");
        if is_told {
            assert_eq!((all, some), (0, 0), "ruby {version}");
            assert!(is_all && is_some_whole, "ruby {version}");
        } else {
            assert!(is_all && !is_some_whole, "ruby {version}");
            let late = ruby.finalizers(u64::MAX, &|| false, &mut |_| panic!("it is too late"));
            assert!(!late.expect("the table"), "ruby {version}");
            // Ruby itself has a few.
            assert!((70_000..70_010).contains(&all), "ruby {version}: {all}");
            assert!(some <= 1000 && some > 400, "ruby {version}: {some}");
        }
    });
}
