//! Lines, files and names of compiled code against CPython's own `PyCode_Addr2Line`.

use vm::python::{Point, Python, Text};

use super::guest::each_build;
use crate::process::ProcessMemory;

fn string(python: &Python<'_, ProcessMemory>, text: Text) -> String {
    let mut out = String::new();
    python
        .write_text(text, u64::MAX, &mut out)
        .expect("its characters");
    let mut buffer = [0; 7];
    let copied = python.copy(text, &mut buffer).expect("the first of them");
    assert_eq!(copied.truncated, out.len() > copied.len);
    assert_eq!(&buffer[..copied.len], &out.as_bytes()[..copied.len]);
    out
}

#[test]
fn lines_are_those_of_addr2line() {
    each_build(include_str!("lines.py"), |version, guest| {
        let python = guest.python();
        let (mut codes, mut instructions, mut without, mut code) = (0, 0, 0, 0);
        for line in &guest.lines {
            let parts: Vec<&str> = line.split('\t').collect();
            match parts[..] {
                ["code", address, first, file, name, _] => {
                    code = address.parse().expect("an address");
                    codes += 1;
                    let number = python.first_line(code).expect(line).to_string();
                    assert_eq!(number, first, "python {version}: {line}");
                    let found = string(&python, python.file(code).expect(line));
                    assert_eq!(found, file, "python {version}: {line}");
                    let found = string(&python, python.function_name(code).expect(line));
                    assert_eq!(found, name, "python {version}: {line}");
                }
                ["line", begin, end, expected] => {
                    let (begin, end): (i32, i32) = (
                        begin.parse().expect("a number"),
                        end.parse().expect("a number"),
                    );
                    // The first and the last instruction of a run on one line: each table is read anew.
                    for lasti in [begin, end - 2] {
                        instructions += 1;
                        let found = python.line(Point { code, lasti }).expect(line);
                        let found = found.map_or("-1".to_owned(), |line| line.to_string());
                        without += u32::from(found == "-1");
                        assert_eq!(found, expected, "python {version}: {lasti} of {line}");
                    }
                }
                _ => panic!("{line}"),
            }
        }
        println!(
            "python {version}: {codes} functions, {instructions} points, {without} without a line"
        );
        assert!(codes > 1500 && instructions > 40_000, "python {version}");
        assert!(
            without > 1000 || version.contains("3.9"),
            "python {version}"
        );
    });
}
