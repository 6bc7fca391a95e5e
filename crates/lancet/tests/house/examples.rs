//! Which crates have examples in their documentation that are compiled and run. To look for them rustdoc reads a crate as a whole,
//! seconds each, so a crate without any says `doctest = false`; one that has some must not, because nobody would run them.

use crate::{files, refuse, sources, workspace};
use std::fs;
use std::path::Path;

/// Whether a text has an example: a fence of a comment that opens without the name of another language.
fn has_example(text: &str) -> bool {
    let mut is_within = false;
    text.lines().any(|line| {
        let line = line.trim_start();
        let comment = line
            .strip_prefix("///")
            .or_else(|| line.strip_prefix("//!"));
        let Some(comment) = comment else {
            is_within = false;
            return false;
        };
        let Some(words) = comment.trim_start().strip_prefix("```") else {
            return false;
        };
        is_within = !is_within;
        is_within && !words.starts_with("text")
    })
}

#[test]
fn crates_whose_documentation_has_examples_run_them() {
    assert!(has_example(
        "/// ```text\n/// a\n/// ```\n/// ```\n/// assert!(true);\n"
    ));
    assert!(!has_example(
        "//! ```text\n//! a\n//! ```\n/// No example.\n"
    ));
    let sources = sources();
    let mut manifests = Vec::new();
    files(&workspace().join("crates"), "Cargo.toml", &mut manifests);
    let mut wrong = Vec::new();
    for manifest in manifests {
        let folder = manifest.parent().and_then(Path::file_name);
        let library = Path::new(folder.expect("a crate's folder")).join("src");
        let mut of_crate = sources
            .iter()
            .filter(|(path, _)| path.starts_with(&library));
        let text = fs::read_to_string(&manifest).expect("a manifest");
        let has = of_crate.any(|(_, text)| has_example(text));
        let (_, lib) = text.split_once("[lib]\n").unwrap_or_default();
        let lib = lib.split("\n[").next().unwrap_or_default();
        // rustdoc runs those of libraries only.
        if !lib.is_empty() && has == lib.contains("doctest = false") {
            wrong.push(format!("{}: examples: {has}", manifest.display()));
        }
    }
    refuse(wrong);
}
