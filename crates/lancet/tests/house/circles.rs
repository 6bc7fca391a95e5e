//! No circle of more than two files: files that need each other can only be read, tested and moved together.
//!
//! The rule, for each crate alone: draw an arrow from file A to file B where A names an item that B defines. Then no
//! three files or more may lie on circles with each other. Two may: a type and its parser, a parent and its child.
//!
//! - An item is named by a path that begins with `crate`, `super`, `self` or the name of a module that the file
//!   declares, in a `use` or anywhere else. Paths are resolved by the names of files, as rustc does without `#[path]`.
//! - A name that a module only imports or re-exports is followed to the file that defines it. So a root that declares
//!   modules and re-exports their items lies on no circle, and children may import through it. That is why `mod` and
//!   `pub use` are no arrows: they say where things are, and need nothing of them.
//! - A child that names an item of its parent needs the parent, as any other file does. Where a parent also names items
//!   of several children, and they name its own, they are a circle: what the children share belongs in a file of its
//!   own.
//! - Tests within a file (`#[cfg(test)] mod …`), comments and strings do not count. Methods do not either: they have no
//!   path.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::{refuse, sources};

/// Files that may need each other.
const MOST: usize = 2;

/// A module's path from its crate's root; the root's is empty.
type Module = Vec<String>;

/// What one file says.
#[derive(Default)]
struct File {
    name: String,
    /// Names that it imports or re-exports, with the paths that they stand for.
    imports: BTreeMap<String, Vec<String>>,
    /// Paths that it imports all names of.
    globs: Vec<Vec<String>>,
    /// Paths that it names, but for re-exports.
    named: BTreeSet<Vec<String>>,
}

/// The files of one crate.
pub(super) struct Crate(BTreeMap<Module, File>);

impl Crate {
    /// What its files import under another name: the file, the path, the name.
    pub(super) fn renamed(&self) -> impl Iterator<Item = (&str, String, &str)> {
        self.0.values().flat_map(|file| {
            let other = |(name, path): &(&String, &Vec<String>)| path.last() != Some(name);
            let others = file.imports.iter().filter(other);
            others.map(|(name, path)| (&*file.name, path.join("::"), &**name))
        })
    }

    /// Of `(path below src, text)`.
    fn of<'a>(files: impl Iterator<Item = (&'a Path, &'a str)>) -> Self {
        let files: Vec<(Module, String, Vec<String>)> = files
            .map(|(path, text)| (module_of(path), path.display().to_string(), tokens(text)))
            .collect();
        let modules: BTreeSet<Module> = files.iter().map(|(module, ..)| module.clone()).collect();
        let read = files.into_iter().map(|(module, name, tokens)| {
            let mut file = File {
                name,
                ..File::default()
            };
            read(&tokens, &module, &modules, &mut file);
            (module, file)
        });
        Crate(read.collect())
    }

    /// The module whose file defines what a path leads to. `steps` bounds re-exports that lead to each other.
    fn definer(&self, path: &[String], steps: usize) -> Option<Module> {
        let mut at = path.len();
        while !self.0.contains_key(&path[..at]) {
            at = at.checked_sub(1)?;
        }
        let file = &self.0[&path[..at]];
        let (Some(item), Some(steps)) = (path.get(at), steps.checked_sub(1)) else {
            return Some(path[..at].to_vec());
        };
        let Some(stands_for) = file.imports.get(item) else {
            return Some(path[..at].to_vec());
        };
        // A name of another crate is nobody's here, whoever imports it.
        let (first, rest) = stands_for.split_first()?;
        if first != "crate" {
            return None;
        }
        self.definer(&[rest, &path[at + 1..]].concat(), steps)
    }

    /// The modules that each module needs.
    fn arrows(&self) -> BTreeMap<&Module, BTreeSet<Module>> {
        let arrows = self.0.iter().map(|(module, file)| {
            let named = file.named.iter().chain(&file.globs);
            let inside = named.filter(|path| path.first().is_some_and(|first| first == "crate"));
            let to = inside.filter_map(|path| self.definer(&path[1..], 16));
            (module, to.filter(|to| to != module).collect())
        });
        arrows.collect()
    }

    /// Circles of more than [`MOST`] files, by the names of the files.
    fn circles(&self) -> Vec<Vec<&str>> {
        let arrows = self.arrows();
        let reached = |from: &Module| {
            let (mut seen, mut next) = (BTreeSet::new(), vec![from.clone()]);
            while let Some(module) = next.pop() {
                let to = arrows[&module].iter();
                next.extend(to.filter(|to| seen.insert((*to).clone())).cloned());
            }
            seen
        };
        let reached: BTreeMap<&Module, BTreeSet<Module>> =
            self.0.keys().map(|from| (from, reached(from))).collect();
        let mut circles = BTreeSet::new();
        for (from, to) in &reached {
            let back = to.iter().filter(|to| reached[to].contains(*from));
            let circle: Vec<&str> = back.map(|module| self.0[module].name.as_str()).collect();
            if circle.len() > MOST {
                circles.insert(circle);
            }
        }
        circles.into_iter().collect()
    }
}

/// The module of a file below `src`.
fn module_of(path: &Path) -> Module {
    let path = path.with_extension("");
    let mut module: Module = path
        .iter()
        .map(|part| part.to_string_lossy().into_owned())
        .collect();
    let is_root = module.len() == 1 && ["lib", "main"].contains(&module[0].as_str());
    if is_root || module.last().is_some_and(|last| last == "mod") {
        module.pop();
    }
    module
}

/// The words and signs of a file without comments, literals and white space; `::` is one sign.
fn tokens(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(hashes) = raw_string(rest) {
            let end = format!("\"{}", "#".repeat(hashes));
            let begin = rest.find('"').expect("it begins so") + 1;
            let length = rest[begin..].find(&end);
            length.map_or(rest.len(), |at| begin + at + end.len())
        } else if first == '"' {
            quoted(rest)
        } else if first == '\'' {
            character(rest)
        } else if is_word(first) {
            rest.find(|c| !is_word(c)).unwrap_or(rest.len())
        } else if rest.starts_with("::") {
            2
        } else {
            first.len_utf8()
        };
        let (token, after) = rest.split_at(length);
        let is_code = !token.starts_with("//") && !token.starts_with("/*");
        if is_code && !token.trim().is_empty() && !token.contains(['"', '\'']) {
            found.push(token.to_owned());
        }
        rest = after;
    }
    found
}

/// How many `#` a raw string at the beginning of `text` has, if one is there.
fn raw_string(text: &str) -> Option<usize> {
    let rest = text.strip_prefix("br").or_else(|| text.strip_prefix('r'))?;
    let hashes = rest.len() - rest.trim_start_matches('#').len();
    rest[hashes..].starts_with('"').then_some(hashes)
}

/// The length of a string with its quotes.
fn quoted(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// The length of a character with its quotes, or of a lifetime's quote.
fn character(text: &str) -> usize {
    let mut inside = text.chars().skip(1);
    match (inside.next(), inside.next()) {
        (Some('\\'), Some(escaped)) => {
            let begin = 2 + escaped.len_utf8();
            text[begin..].find('\'').map_or(1, |at| begin + at + 1)
        }
        (Some(c), Some('\'')) => 2 + c.len_utf8(),
        _ => 1,
    }
}

/// Reads the paths of a file's tokens. Test modules are passed over; in other modules within the file, `super` is the
/// file.
fn read(tokens: &[String], module: &Module, modules: &BTreeSet<Module>, file: &mut File) {
    let is = |at: usize, token: &str| tokens.get(at).is_some_and(|found| found == token);
    let (mut at, mut braces) = (0, 0);
    // The brace depths at which inline modules began.
    let mut inline: Vec<usize> = Vec::new();
    while at < tokens.len() {
        let test = ["#", "[", "cfg", "(", "test", ")", "]", "mod"];
        if test.iter().enumerate().all(|(i, token)| is(at + i, token)) {
            at = behind_body(tokens, at + test.len());
            continue;
        }
        match tokens[at].as_str() {
            "mod" if is(at + 2, "{") => {
                inline.push(braces);
                (at, braces) = (at + 3, braces + 1);
                continue;
            }
            "{" => braces += 1,
            "}" => {
                braces = usize::checked_sub(braces, 1)
                    .unwrap_or_else(|| panic!("{}: a brace too many", file.name));
                if inline.last() == Some(&braces) {
                    inline.pop();
                }
            }
            // Not `impl Trait + use<'a>`.
            "use" if !is(at + 1, "<") => {
                let exported = at > 0 && (is(at - 1, "pub") || is(at - 1, ")"));
                let end = at
                    + tokens[at..]
                        .iter()
                        .position(|token| token == ";")
                        .unwrap_or(0);
                let mut leaves = Vec::new();
                let mut tree = at + 1;
                leaves_of(tokens, &mut tree, &[], &mut leaves);
                for (name, path) in leaves {
                    let path = absolute(&path, module, inline.len(), modules);
                    if name == "*" {
                        file.globs.push(path);
                        continue;
                    }
                    if !exported {
                        file.named.insert(path.clone());
                    }
                    if inline.is_empty() {
                        file.imports.insert(name, path);
                    }
                }
                at = end.max(at + 1);
                continue;
            }
            _ => {}
        }
        // A path that does not go on from another one.
        if is(at + 1, "::") && (at == 0 || !is(at - 1, "::")) {
            let mut path = vec![tokens[at].clone()];
            while is(at + 1, "::") && tokens.get(at + 2).is_some_and(|next| is_name(next)) {
                at += 2;
                path.push(tokens[at].clone());
            }
            file.named
                .insert(absolute(&path, module, inline.len(), modules));
        }
        at += 1;
    }
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Where the next body in braces from `at` on has ended.
fn behind_body(tokens: &[String], mut at: usize) -> usize {
    let mut depth = 0;
    while at < tokens.len() {
        match tokens[at].as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            // Of a module in a file of its own.
            ";" if depth == 0 => return at + 1,
            _ => {}
        }
        at += 1;
        if depth == 0 && tokens[at - 1] == "}" {
            break;
        }
    }
    at
}

/// The names that a tree of a `use` brings, each with its path.
fn leaves_of(
    tokens: &[String],
    at: &mut usize,
    before: &[String],
    leaves: &mut Vec<(String, Vec<String>)>,
) {
    let mut path = before.to_vec();
    while let Some(token) = tokens.get(*at) {
        match token.as_str() {
            "::" => *at += 1,
            "{" => {
                *at += 1;
                while tokens.get(*at).is_some_and(|token| token != "}") {
                    leaves_of(tokens, at, &path, leaves);
                    *at += usize::from(tokens.get(*at).is_some_and(|token| token == ","));
                }
                *at += 1;
                return;
            }
            "*" => {
                *at += 1;
                leaves.push(("*".to_owned(), path));
                return;
            }
            "as" => {
                let name = tokens.get(*at + 1).cloned().unwrap_or_default();
                *at += 2;
                leaves.push((name, path));
                return;
            }
            "self" if !path.is_empty() => *at += 1,
            name if is_name(name) => {
                path.push(name.to_owned());
                *at += 1;
            }
            _ => break,
        }
    }
    if let Some(name) = path.last() {
        leaves.push((name.clone(), path));
    }
}

/// A path from the crate's root, which it then begins with, if it leads into the crate; else as it is.
fn absolute(
    path: &[String],
    module: &Module,
    inline: usize,
    modules: &BTreeSet<Module>,
) -> Vec<String> {
    let inside = |module: &[String], rest: &[String]| -> Vec<String> {
        [&["crate".to_owned()], module, rest].concat()
    };
    let supers = path.iter().take_while(|part| *part == "super").count();
    match path[0].as_str() {
        "crate" => path.to_vec(),
        "self" => inside(module, &path[1..]),
        "super" => {
            let up = supers.saturating_sub(inline);
            let from = &module[..module.len().saturating_sub(up)];
            inside(from, &path[supers..])
        }
        first => {
            let child = [module, &[first.to_owned()][..]].concat();
            if modules.contains(&child) {
                inside(module, path)
            } else {
                path.to_vec()
            }
        }
    }
}

/// Every crate with its files.
pub(super) fn crates() -> BTreeMap<String, Crate> {
    let all = sources();
    let mut crates: BTreeMap<String, Vec<(&Path, &str)>> = BTreeMap::new();
    for (path, text) in &all {
        let mut parts = path.iter();
        let name = parts.next().map(|name| name.to_string_lossy().into_owned());
        let (Some(name), Some(below)) = (name, parts.next()) else {
            continue;
        };
        if below == "src" {
            crates
                .entry(name)
                .or_default()
                .push((parts.as_path(), text));
        }
    }
    assert!(crates.len() > 10, "these are not all: {:?}", crates.keys());
    let read = crates.into_iter();
    read.map(|(name, files)| (name, Crate::of(files.into_iter())))
        .collect()
}

#[test]
fn no_three_files_need_each_other() {
    let mut wrong = Vec::new();
    for (name, files) in crates() {
        let circles = files.circles();
        if !circles.is_empty() {
            wrong.push(format!("{name}: files on circles: {circles:?}"));
        }
    }
    refuse(wrong);
}

#[test]
fn circles_are_found_through_re_exports_and_not_in_tests() {
    let circles = |files: &[(&str, &str)]| -> Vec<Vec<String>> {
        let files = files.iter().map(|(path, text)| (Path::new(*path), *text));
        let found = Crate::of(files);
        let names = |circle: Vec<&str>| circle.into_iter().map(str::to_owned).collect();
        found.circles().into_iter().map(names).collect()
    };
    let root = "mod a; mod b; mod c; pub use c::C;";
    let a = ("a.rs", "use crate::b::B; pub struct A(B);");
    let b = ("b.rs", "pub struct B(crate::C);");
    let round = (
        "c.rs",
        "use super::a::{self, A as X}; pub struct C(a::A, X);",
    );
    assert_eq!(
        circles(&[("lib.rs", root), a, b, round]),
        [["a.rs", "b.rs", "c.rs"]]
    );
    let only_in_a_test = (
        "c.rs",
        "pub struct C; // crate::a::A\n #[cfg(test)] mod tests { use crate::a::A; } const D: &str = \"crate::a::A\";",
    );
    assert!(circles(&[("lib.rs", root), a, b, only_in_a_test]).is_empty());
    // A parent with items of its own, and two children that it names.
    let parent = (
        "p.rs",
        "mod q; mod r; pub struct P; fn f() { q::g(); r::g() }",
    );
    let child = |path| (path, "use super::P; pub fn g() { P; }");
    assert_eq!(
        circles(&[
            ("lib.rs", "mod p;"),
            parent,
            child("p/q.rs"),
            child("p/r.rs")
        ]),
        [["p.rs", "p/q.rs", "p/r.rs"]]
    );
    // A module within a file: its parent is the file.
    let inline = ("p.rs", "pub struct P; pub mod inside { use super::P; }");
    assert!(circles(&[("lib.rs", "mod p;"), inline]).is_empty());
}
