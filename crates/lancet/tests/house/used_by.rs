//! Where a file's first text says who uses it, that is so: each file and each crate that a sentence "Used by …" names has a word for something
//! that the file declares, or a path that the file's module is in.
//!
//! A name in that sentence is a module, as the file's own module would find it: beside itself, else above; else a crate or a module of one.
//! The sentence names those that use most of it. It need not be there (a folder's own file and the root of a crate say what is in them), and
//! who comes to use a file does not have to be added.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::{refuse, sources};

/// A crate's name and the path of a module in it.
type Module = Vec<String>;

/// The module of a file below `crates`.
fn module_of(path: &Path) -> Option<Module> {
    let path = path.with_extension("");
    let parts = path.iter().map(|part| part.to_string_lossy().into_owned());
    let mut module: Module = parts.collect();
    if module.get(1).is_none_or(|folder| folder != "src") {
        return None;
    }
    module.remove(1);
    let last = module.last().map(String::as_str);
    if last == Some("mod") || module.len() == 2 && matches!(last, Some("lib" | "main")) {
        module.pop();
    }
    Some(module)
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
}

/// What a file declares, by name.
fn declared(text: &str) -> BTreeSet<&str> {
    let code = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    let mut names = BTreeSet::new();
    for line in code {
        let words: Vec<&str> = words(line).filter(|word| *word != "mut").collect();
        let declares = ["fn", "struct", "enum", "trait", "type", "const", "static"];
        let pairs = words.windows(2);
        names.extend(
            pairs
                .filter(|pair| declares.contains(&pair[0]))
                .map(|pair| pair[1]),
        );
    }
    names
}

/// The names in the sentence "Used by …" of a file's first text.
fn users(text: &str) -> Vec<String> {
    let first = text.lines().map_while(|line| line.strip_prefix("//!"));
    let first = first.map(str::trim).collect::<Vec<_>>().join(" ");
    let Some((_, sentence)) = first.split_once("Used by ") else {
        return Vec::new();
    };
    let end = sentence.find(". ").unwrap_or(sentence.len());
    let names = sentence[..end].split('`').skip(1).step_by(2);
    names.map(str::to_owned).collect()
}

/// Names of users that are none, of files with their texts.
fn strangers(files: &BTreeMap<Module, String>) -> Vec<String> {
    let mut wrong = Vec::new();
    for (module, text) in files {
        let declared = declared(text);
        let name = module.last().map_or("", String::as_str);
        let paths = [format!("{name}::"), format!("::{name}")];
        let uses = |user: &str| {
            words(user).any(|word| declared.contains(word))
                || paths.iter().any(|path| user.contains(path))
        };
        for name in users(text) {
            let path: Vec<String> = name.split("::").map(str::to_owned).collect();
            let above = (1..module.len()).rev();
            let beside = above.map(|length| [&module[..length], &path].concat());
            let known = beside.filter_map(|one| files.get(&one)).next();
            let is_known = known.is_some_and(|user| uses(user));
            let mut of_crates = files.iter().filter(|(one, _)| one.starts_with(&path));
            if !is_known && !of_crates.any(|(_, user)| uses(user)) {
                wrong.push(format!("{}: {name} does not use it", module.join("::")));
            }
        }
    }
    wrong
}

#[test]
fn who_is_said_to_use_a_file_does() {
    let files = sources().into_iter();
    let files = files.filter_map(|(path, text)| Some((module_of(&path)?, text)));
    refuse(strangers(&files.collect()));
}

#[test]
fn a_user_that_is_none_is_found() {
    let file = |path: &str, text: &str| {
        let module = module_of(Path::new(path)).expect("a source");
        (module, text.to_owned())
    };
    let files = |said: &str| {
        BTreeMap::from([
            file(
                "a/src/b/c.rs",
                &format!("//! Text. Used by {said}. More\n//! text, `z`.\npub fn look() {{}}\n"),
            ),
            file("a/src/b.rs", "mod c;\nfn f() { c::look() }"),
            file("a/src/d.rs", "fn look_here() {}"),
            file("e/src/lib.rs", "use a::b::look;"),
        ])
    };
    for right in ["`b`", "crate `e`", "`b` and crate `e`"] {
        assert!(strangers(&files(right)).is_empty(), "{right}");
    }
    for wrong in ["`d`", "`b` and `d`", "`b::c::gone`", "crate `f`"] {
        assert_eq!(strangers(&files(wrong)).len(), 1, "{wrong}");
    }
}
