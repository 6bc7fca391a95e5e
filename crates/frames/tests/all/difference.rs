//! What is said of two builds of one library.

use std::path::PathBuf;
use std::process::Command;

use frames::Scan;
use frames::difference::{Difference, Wanted};
use frames::scan::Decode;

/// Builds a library of functions with arrays of so many bytes on their stacks.
fn build(name: &str, functions: &[(&str, u64)]) -> Scan {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let source = folder.join(format!("difference-{name}.c"));
    let library = folder.join(format!("difference-{name}.so"));
    let mut text = String::from("void use(char *);\n");
    for (function, bytes) in functions {
        text += &format!("void {function}(void) {{ char b[{bytes}]; use(b); }}\n");
    }
    std::fs::write(&source, text).expect("written");
    let output = Command::new("gcc")
        .args(["-O2", "-w", "-fPIC", "-shared", "-nostdlib"])
        .arg("-fno-stack-protector")
        .arg(&source)
        .arg("-o")
        .arg(&library)
        .output()
        .expect("gcc");
    assert!(output.status.success(), "{output:?}");
    Scan::path(&library, Decode::AsNeeded).expect("read")
}

/// A limit is for what has grown or is new: what is large and shrank, or was as large before, does not break a build.
#[test]
fn only_what_grew_or_came_is_too_large() {
    let old = build(
        "old",
        &[
            ("grew", 100),
            ("shrank", 9000),
            ("same", 8000),
            ("gone", 8200),
            ("little", 100),
        ],
    );
    let new = build(
        "new",
        &[
            ("grew", 5000),
            ("shrank", 7000),
            ("same", 8000),
            ("came", 6000),
            ("little", 200),
        ],
    );
    let wanted = Wanted {
        rows: 10,
        max: Some(4000),
    };
    let difference = Difference::new(old, new, wanted);
    let counts = &difference.counts;
    assert_eq!(
        (
            counts.grew,
            counts.came,
            counts.shrank,
            counts.gone,
            counts.same
        ),
        (2, 1, 1, 1, 1)
    );
    assert_eq!(difference.larger, 2, "{:?}", difference.changes);
    let names: Vec<&str> = difference.changes.iter().map(|one| &*one.name).collect();
    assert_eq!(names, ["came", "grew", "little", "shrank", "gone"]);
}
