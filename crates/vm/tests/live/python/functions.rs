//! C functions by their names in Python.

use vm::python::Convention;

use super::guest::each_version;

/// `METH_…` flags as Python gives them.
fn flags(convention: Convention) -> u32 {
    match convention {
        Convention::Tuple => 1,
        Convention::TupleKeywords => 3,
        Convention::None => 4,
        Convention::One => 8,
        Convention::Fast => 0x80,
        Convention::FastKeywords => 0x82,
        Convention::Method => 0x282,
        Convention::Slot => 0,
    }
}

#[test]
fn functions_are_those_python_calls() {
    each_version(include_str!("functions.py"), |version, guest| {
        let python = guest.python();
        let (mut functions, mut slots, mut errors) = (0, 0, 0);
        for line in &guest.lines {
            let parts: Vec<&str> = line.split('\t').collect();
            match parts[..] {
                ["function", name, address, told] => {
                    functions += 1;
                    let function = python
                        .function(name)
                        .unwrap_or_else(|why| panic!("python {version}: {name}: {why}"));
                    assert_eq!(function.address.to_string(), address, "{version}: {line}");
                    let found = flags(function.convention).to_string();
                    assert_eq!(found, told, "python {version}: {line}");
                }
                ["slot", name, address] => {
                    slots += 1;
                    let function = python.function(name).expect(line);
                    assert_eq!(function.address.to_string(), address, "{version}: {line}");
                    assert_eq!(function.convention, Convention::Slot);
                }
                ["error", name, expected] => {
                    errors += 1;
                    let why = python.function(name).expect_err(line);
                    assert_eq!(why.to_string(), expected, "python {version}: {line}");
                }
                ["none", module] => println!("skipped: python {version} has no {module}"),
                _ => panic!("{line}"),
            }
        }
        println!("python {version}: {functions} functions, {slots} slots, {errors} errors");
        assert!(
            functions > 700 && errors > 10,
            "python {version}: {functions}"
        );
    });
}
