//! Names of classes, of everything that lies about its own, and of what has none.

use vm::ruby::Ruby;

use crate::guest::{each_version, hex};

#[test]
fn names_are_ruby_s_own() {
    each_version(include_str!("classes.rb"), |version, guest| {
        let ruby = Ruby::new(&guest.memory, guest.facts).expect("a known version");
        let mut counts = [0; 3];
        for line in &guest.lines {
            let parts: Vec<&str> = line.split('\t').collect();
            let [what, address, expected] = parts[..] else {
                panic!("{line}")
            };
            let address = hex(address);
            let mut name = String::new();
            match what {
                "object" => {
                    counts[0] += 1;
                    ruby.write_type(address, &mut name).expect(line);
                }
                "class" => {
                    counts[1] += 1;
                    ruby.write_class_name(address, &mut name).expect(line);
                }
                _ => {
                    counts[2] += 1;
                    let constants = ruby.constants(address).expect(line);
                    name = constants.filter(|item| item.is_ok()).count().to_string();
                }
            }
            assert_eq!(name, expected, "ruby {version}: {line}");
        }
        println!(
            "ruby {version}: {} objects, {} classes and modules, {} constant tables",
            counts[0], counts[1], counts[2]
        );
        assert!(
            counts[0] >= 40 && counts[1] >= 500 && counts[2] >= 3,
            "{version}: {counts:?}"
        );
    });
}
