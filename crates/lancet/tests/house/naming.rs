//! A language is named where its own things are: in its folder of a crate that has a folder a language, and in that crate's table.
//!
//! All other code asks [`vm::Language`], `vm::Reader`, `languages::ALL`, `enter`'s table and the agent's. What is about languages as such
//! and is no table (texts of the command line that are examples, advice on a machine that holds for programs of one language, which files of
//! prototypes serve which library) has its [`PLACES`].
//!
//! Comments and texts are not looked at, but for the words of code: a comment may say what a general thing is in one language. So neither
//! are the lines of help that are doc comments (`heap/args.rs`, `commands/mod.rs`), which name the languages that a command reads.

use std::path::Path;

use super::{code, refuse, sources, workspace};

/// Where each language has a folder or a file of its name, and the files that are the table of these.
const FOLDERS: [(&str, &[&str]); 4] = [
    ("vm/src", &["vm/src/lib.rs", "vm/src/language.rs"]),
    ("languages/src", &["languages/src/lib.rs"]),
    ("enter/src", &["enter/src/lib.rs", "enter/src/entries.rs"]),
    ("agent/src/languages", &["agent/src/languages.rs"]),
];

/// General places that name languages, with what they are.
const PLACES: [(&str, &str); 8] = [
    (
        "vm/src/doors.rs",
        "the functions of VMs that are called at a stop",
    ),
    ("vm/src/word.rs", "the words of VMs in prototypes"),
    ("lancet/src/commands/mem/args.rs", "examples of the help"),
    ("lancet/src/commands/patch/args.rs", "examples of the help"),
    (
        "prototypes/src/bundle.rs",
        "which prototypes serve which library",
    ),
    (
        "tune/src/rules/memory.rs",
        "advice: which programs suffer from huge pages",
    ),
    (
        "tune/src/rules/process.rs",
        "advice: which programs have too many arenas",
    ),
    (
        "tune/src/rules/runtime.rs",
        "advice on the runtime of a language",
    ),
];

/// The words by which a language is named.
fn names(text: &str, languages: &[&str]) -> bool {
    let code = code(text);
    let mut words = code.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.any(|word| languages.contains(&word))
}

/// Whether a file is a language's own, or a table of languages.
fn is_of_a_language(path: &str, languages: &[&str]) -> bool {
    FOLDERS.iter().any(|(folder, tables)| {
        let inner = path
            .strip_prefix(folder)
            .and_then(|rest| rest.strip_prefix('/'));
        let first = inner.and_then(|inner| inner.split(['/', '.']).next());
        tables.contains(&path) || first.is_some_and(|first| languages.contains(&first))
    })
}

#[test]
fn languages_are_named_in_their_own_folders_and_in_tables_of_them_only() {
    let languages: Vec<&str> = vm::Language::ALL
        .iter()
        .map(|language| language.description().prefix)
        .collect();
    let place = |path: &str| PLACES.iter().any(|(place, _)| *place == path);
    let mut wrong = Vec::new();
    let (mut own, mut seen) = (0, 0);
    for (path, text) in sources() {
        let shown = path.display().to_string();
        let parts: Vec<&str> = shown.split('/').collect();
        let is_test = parts.iter().any(|part| part.starts_with("tests"));
        if parts.get(1) != Some(&"src") || is_test {
            continue;
        }
        if is_of_a_language(&shown, &languages) {
            own += 1;
            continue;
        }
        match (names(&text, &languages), place(&shown)) {
            (true, false) => wrong.push(format!("{shown} names a language: ask the table")),
            (false, true) => wrong.push(format!("{shown} names none: take it from the list")),
            (true, true) => seen += 1,
            (false, false) => {}
        }
    }
    let gone = PLACES.iter().map(|(path, _)| *path);
    let gone = gone.filter(|path| !Path::exists(&workspace().join("crates").join(path)));
    wrong.extend(gone.map(|path| format!("{path} is not there")));
    refuse(wrong);
    assert!(own > 200 && seen == PLACES.len(), "{own} {seen}");
}
