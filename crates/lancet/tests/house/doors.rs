//! What holds for the doors from inside, `gem/` and `python/`, as for the crates: short files that say first what they are, and
//! one version.

use std::fs;

use super::{LONGEST, files, refuse, workspace};

#[test]
fn files_of_the_doors_are_short_and_say_what_they_are() {
    let mut wrong = Vec::new();
    let mut seen = 0;
    for (folder, ending) in [
        ("gem/lib", ".rb"),
        ("gem/test", ".rb"),
        ("python/src", ".py"),
        ("python/tests", ".py"),
    ] {
        let mut found = Vec::new();
        files(&workspace().join(folder), ending, &mut found);
        for path in found {
            seen += 1;
            let text = fs::read_to_string(&path).expect("text");
            let shown = path.display();
            if text.lines().count() > LONGEST {
                wrong.push(format!("{shown}: more than {LONGEST} lines"));
            }
            if ending == ".py" && !text.starts_with("\"\"\"") {
                wrong.push(format!("{shown}: no text on the module at its top"));
            }
            // Literals of the library are not objects that its users count; those of its tests are.
            if folder == "gem/lib" && !text.starts_with("# frozen_string_literal: true\n") {
                wrong.push(format!("{shown}: literals are not frozen"));
            }
        }
    }
    assert!(seen > 20, "these are not all: {seen}");
    refuse(wrong);
}

#[test]
fn the_doors_have_the_version_of_the_program() {
    let version = env!("CARGO_PKG_VERSION");
    for (file, line) in [
        (
            "gem/lib/lancet/version.rb",
            format!("  VERSION = \"{version}\"\n"),
        ),
        (
            "python/src/lancet/__init__.py",
            format!("__version__ = \"{version}\"\n"),
        ),
        (
            "gem/README.md",
            format!("lancet-{version}-x86_64-linux.gem"),
        ),
        ("python/README.md", format!("lancet-{version}-py3-none-")),
    ] {
        let text = fs::read_to_string(workspace().join(file)).expect(file);
        assert!(text.contains(&line), "{file} does not say {line:?}");
    }
}
