//! A language is named where its own things are: in its folder (or file) `NAME` of a crate's folder `languages`, and in the file that
//! declares these. The crates `vm` and `languages` are such a folder as a whole.
//!
//! All other code asks their tables. What is about languages as such and is no table (the list of them in `vm`, examples in the help,
//! advice on a machine that holds for programs of one language, which prototypes serve which library, whose interpreter
//! runs an engine of `fleet`) is in at most [`MOST`] files.
//!
//! Names count in code, in its texts and in paths; not in comments, which may say what a general thing is in one language, and so not in
//! lines of help that are doc comments (`heap/args.rs`, `watching/args.rs`, `commands/mod.rs`). Tests are not looked at, and nothing but
//! Rust is. The number alone is held: that one file goes while another comes is seen by whoever reads the change.

use std::cmp::Ordering;

use super::{refuse, sources};

/// Files that name a language and are neither its own nor declare one.
const MOST: usize = 12;

/// Crates that are a folder of languages as a whole.
const OF_LANGUAGES: [&str; 2] = ["vm", "languages"];

/// A file's code without its tests and comments.
fn code(text: &str) -> String {
    let mut code = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let opens = |next: &&str| next.contains("mod ") && next.ends_with('{');
        if line == "#[cfg(test)]" && lines.peek().is_some_and(opens) {
            // Its end is the first brace that begins a line, as rustfmt writes it.
            lines.by_ref().find(|line| *line == "}");
        } else {
            code.push(without_comment(line));
        }
    }
    code.join("\n")
}

/// A line up to the comment at its end; two slashes within a text begin none.
fn without_comment(line: &str) -> &str {
    let slashes = line.match_indices("//").map(|(at, _)| at);
    let outside = |at: &usize| line[..*at].matches('"').count().is_multiple_of(2);
    slashes
        .into_iter()
        .find(outside)
        .map_or(line, |at| &line[..at])
}

/// Whether a text names a language: as a word, as one word of a name (`CountedPython`, `mod_php`, `RUBY_GC`), as a library's (`libruby`), or
/// as a VM's with a letter before it (`CPython`, `jruby`).
fn names(text: &str, language: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    lower.match_indices(language).any(|(at, _)| {
        let mut back = text[..at].chars().rev();
        let before = back.next().unwrap_or(' ');
        let one_letter = !back.next().unwrap_or(' ').is_alphabetic();
        let begins = text[at..].starts_with(|c: char| c.is_uppercase());
        let hump = begins && before.is_lowercase();
        !before.is_alphabetic() || one_letter || hump || lower[..at].ends_with("lib")
    })
}

/// The path's part below its crate's folder of languages.
fn below_languages<'a>(parts: &'a [&'a str]) -> Option<&'a [&'a str]> {
    let languages = parts.iter().position(|part| *part == "languages");
    match parts {
        [name, "src", inner @ ..] if OF_LANGUAGES.contains(name) => Some(inner),
        _ => languages.map(|at| &parts[at + 1..]),
    }
}

/// Whether a file is a language's own.
fn is_own(parts: &[&str], languages: &[&str]) -> bool {
    let first = below_languages(parts).and_then(|inner| inner.first());
    let name = first.map(|first| first.trim_end_matches(".rs"));
    name.is_some_and(|name| languages.contains(&name))
}

/// Whether a file declares the folder of a language.
fn declares(code: &str, languages: &[&str]) -> bool {
    let mut names = code.lines().filter_map(|line| {
        let name = line.trim_start_matches("pub ").strip_prefix("mod ")?;
        name.strip_suffix(';')
    });
    names.any(|name| languages.contains(&name))
}

#[test]
fn languages_are_named_in_their_own_folders_and_where_these_are_declared() {
    let languages: Vec<&str> = vm::Language::ALL
        .iter()
        .map(|language| language.description().prefix)
        .collect();
    let (mut own, mut declaring, mut general) = (0, 0, Vec::new());
    for (path, text) in sources() {
        let shown = path.display().to_string();
        let parts: Vec<&str> = shown.split('/').collect();
        let is_test = parts.iter().any(|part| part.starts_with("tests"));
        if parts.get(1) != Some(&"src") || is_test {
            continue;
        }
        let code = code(&text);
        match () {
            () if is_own(&parts, &languages) => own += 1,
            () if declares(&code, &languages) => declaring += 1,
            () => {
                let named = |language: &&&str| names(&code, language) || names(&shown, language);
                let named = languages.iter().filter(named).copied();
                let named: Vec<&str> = named.collect();
                if !named.is_empty() {
                    general.push(format!("{shown} names {}", named.join(", ")));
                }
            }
        }
    }
    // A rule that sees no file holds nothing.
    assert!(
        own > 200,
        "{own} files are a language's own: are sources found?"
    );
    assert_eq!(declaring, 4, "files that declare folders of languages");
    let what = match general.len().cmp(&MOST) {
        Ordering::Equal => return,
        Ordering::Less => "lower MOST",
        Ordering::Greater => "ask a table of languages instead",
    };
    general.insert(0, format!("{MOST} may, {} do: {what}", general.len()));
    refuse(general);
}

#[test]
fn names_are_found_in_words_of_words() {
    for text in [
        "Language::Ruby",
        "CountedPython",
        "\"libruby-3.1\"",
        "mod_php",
        "RUBY_GC",
        "a ruby",
        "CPython",
        "is_cpython()",
        "jruby",
    ] {
        let languages = ["ruby", "python", "php"];
        assert!(languages.iter().any(|name| names(text, name)), "{text}");
    }
    assert!(!names("properly, a hyperlink: HYPERLINK", "perl"));
}

#[test]
fn texts_are_code_and_comments_and_tests_are_not() {
    let text = "let a = \"https://python.org\"; // ruby\n#[cfg(test)]\nmod tests {\n    php\n}\nlet perl = 1;\n";
    let found = code(text);
    let named = |name| names(&found, name);
    assert_eq!(
        ["python", "perl", "ruby", "php"].map(named),
        [true, true, false, false]
    );
}
