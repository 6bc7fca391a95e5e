//! Lines, paths and labels of compiled code against `RubyVM::InstructionSequence`.

use vm::ruby::{Error, Ruby, Text};

use crate::guest::{ProcessMemory, each_version, hex};

fn string(ruby: &Ruby<'_, ProcessMemory>, text: Result<Text, Error>) -> String {
    let text = text.expect("a string");
    let mut out = String::new();
    ruby.write_text(text, u64::MAX, &mut out)
        .expect("its bytes");
    let mut buffer = [0; 4];
    let copied = ruby.copy(text, &mut buffer).expect("its first bytes");
    assert_eq!(copied.truncated, text.len > 4);
    assert!(out.as_bytes().starts_with(&buffer[..copied.len]) || out.contains('\u{fffd}'));
    out
}

#[test]
fn lines_are_those_of_to_a() {
    each_version(include_str!("lines.rb"), |version, guest| {
        let ruby = Ruby::new(&guest.memory, guest.facts).expect("a known version");
        let (mut iseqs, mut positions, mut iseq) = (0, 0, 0);
        for line in &guest.lines {
            let parts: Vec<&str> = line.split('\t').collect();
            match parts[..] {
                ["iseq", address, first, label, base, path] => {
                    iseq = hex(address);
                    iseqs += 1;
                    let number = ruby.first_line(iseq).expect(line).to_string();
                    assert_eq!(number, first, "ruby {version}: {line}");
                    assert_eq!(
                        string(&ruby, ruby.label(iseq)),
                        label,
                        "ruby {version}: {line}"
                    );
                    assert_eq!(
                        string(&ruby, ruby.base_label(iseq)),
                        base,
                        "ruby {version}: {line}"
                    );
                    assert_eq!(
                        string(&ruby, ruby.path(iseq)),
                        path,
                        "ruby {version}: {line}"
                    );
                }
                [how @ ("at" | "still"), position, expected] => {
                    positions += 1;
                    let position: u32 = position.parse().expect("a number");
                    assert!(
                        position < ruby.code_size(iseq).expect(line),
                        "ruby {version}: {line}"
                    );
                    let found = ruby
                        .line_at_position(iseq, position)
                        .expect(line)
                        .to_string();
                    assert!(
                        found == expected || how == "still" && found == "0",
                        "ruby {version}: iseq {iseq:#x}: {line}: {found}"
                    );
                }
                _ => panic!("{line}"),
            }
        }
        println!("ruby {version}: {iseqs} iseqs, {positions} instructions");
        assert!(
            iseqs > 500 && positions > 10_000,
            "ruby {version}: {iseqs}, {positions}"
        );
    });
}
