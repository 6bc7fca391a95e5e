//! An import keeps a type's name, so whoever searches for a name finds all that use it. Where two of one name meet in a file, one of them is
//! written with its path.
//!
//! A module or a constant may have another name where it is imported, and so may what is of another's crate. A single letter abbreviates an
//! enum of which a function matches many variants.

use super::circles::crates;
use super::refuse;

/// Whether an import is of a type of ours under another name than its own.
fn is_renamed_type(path: &str, name: &str, ours: &[String]) -> bool {
    let first = path.split("::").next().unwrap_or(path);
    let is_ours = first == "crate" || ours.iter().any(|one| one == first);
    let last = path.rsplit("::").next().unwrap_or(path);
    let is_type = last.starts_with(|c: char| c.is_ascii_uppercase())
        && last.contains(|c: char| c.is_ascii_lowercase());
    is_ours && is_type && name.len() > 1
}

#[test]
fn no_type_is_imported_under_another_name() {
    let crates = crates();
    let ours: Vec<String> = crates.keys().cloned().collect();
    let mut wrong = Vec::new();
    for (krate, files) in &crates {
        let renamed = files.renamed();
        let types = renamed.filter(|(_, path, name)| is_renamed_type(path, name, &ours));
        wrong.extend(
            types.map(|(file, path, name)| format!("{krate}/src/{file}: {path} as {name}")),
        );
    }
    refuse(wrong);
}

#[test]
fn a_renamed_type_is_found() {
    let ours = ["vm".to_owned()];
    assert!(is_renamed_type("vm::ruby::Error", "ReadError", &ours));
    assert!(is_renamed_type("crate::event::End", "Ended", &ours));
    assert!(!is_renamed_type("vm::Memory", "_", &ours));
    assert!(!is_renamed_type("vm::Door", "D", &ours));
    assert!(!is_renamed_type(
        "crate::forms::folded::FORM",
        "FOLDED",
        &ours
    ));
    assert!(!is_renamed_type("crate::forms::stacks", "forms", &ours));
    assert!(!is_renamed_type("object::LittleEndian", "LE", &ours));
}
