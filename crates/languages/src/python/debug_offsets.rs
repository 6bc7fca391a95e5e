//! A Python of a version without a table, read by what it says of its own layout.

use std::fmt::Display;

use process::pages::Pages;
use vm::Memory;
use vm::python::{Error, Facts, Frame, Python};

use crate::frames::LONGEST;
use crate::frames::evidence::{Evidence, Sources, Witness};
use crate::frames::text;
use crate::frames::without_table::{self, Derived};

/// Frames that are held against source text, at most: of a thread, and of all.
const OF_THREAD: usize = 256;
const MOST: usize = 4096;

/// What is read by such a layout.
const BY: &str =
    "by its own offsets (_Py_DebugOffsets; coroutines, locks and names of threads are not read so)";

/// Reads what a Python must be known of, and proves it. `why` says why there is no table.
pub(super) fn find(
    memory: &dyn Memory,
    symbol: &dyn Fn(&str) -> Option<u64>,
    sources: &dyn Sources,
    why: &dyn Display,
) -> Result<Derived<Facts>, String> {
    without_table::settle(why, BY, &|| {
        let pages = Pages::new(memory);
        let (facts, proven) = Facts::by_debug_offsets(&pages, symbol)?;
        let python = Python::new(&pages, facts)?;
        let evidence = evidence(&python, sources)?;
        Ok::<_, Error>((facts, [proven.threads, proven.frames], evidence))
    })
}

fn evidence<'s, M: Memory>(
    python: &Python<'_, M>,
    sources: &'s dyn Sources,
) -> Result<Evidence<'s>, Error> {
    let (mut evidence, mut left) = (Evidence::of(sources, true), MOST);
    for thread in python.all_threads() {
        let frames = python.frames(thread?.address).map_while(Result::ok);
        let frames = frames.take(OF_THREAD.min(left));
        let stack: Vec<Witness> = frames.map(|frame| witness(python, frame)).collect();
        left -= stack.len();
        evidence.add(&stack);
    }
    Ok(evidence)
}

fn witness<M: Memory>(python: &Python<'_, M>, frame: Frame) -> Witness {
    let code = frame.point.code;
    let name = text(|out| python.write_text(python.function_name(code)?, LONGEST, out));
    Witness {
        code,
        path: text(|out| python.write_text(python.file(code)?, LONGEST, out)),
        first: python.first_line(code).unwrap_or(0),
        line: python.line(frame.point).ok().flatten().unwrap_or(0),
        word: word(&name),
        defined: defined(&name),
        has_two_names: name.contains('.'),
    }
}

/// The word by which source text calls a function: its own name, of a class's constructor that of the class. What operators and the
/// VM call, and what has no name, is called by none.
fn word(name: &str) -> Option<String> {
    let mut parts = name.rsplit('.');
    let word = match parts.next()? {
        "__init__" | "__new__" => parts.next()?,
        own => own,
    };
    let is_special = word.starts_with("__") && word.ends_with("__");
    let is_name = |text: &str| text.chars().all(|one| one.is_alphanumeric() || one == '_');
    (!is_special && !word.is_empty() && is_name(word)).then(|| word.to_owned())
}

/// The name that a definition has in source text: that of a function or of a class. Lambdas, scripts and parts of expressions have none.
fn defined(name: &str) -> Option<String> {
    let own = name.rsplit('.').next()?;
    let is_name = |one: char| one.is_alphanumeric() || one == '_';
    (!own.is_empty() && own.chars().all(is_name)).then(|| own.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{defined, word};

    #[test]
    fn a_definition_has_the_own_name() {
        let cases = [
            ("work", Some("work")),
            ("Shop.Cart.__init__", Some("__init__")),
            ("outer.<locals>.<lambda>", None),
            ("<module>", None),
        ];
        for (name, expected) in cases {
            assert_eq!(defined(name).as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn a_function_is_called_by_its_own_name() {
        let cases = [
            ("work", Some("work")),
            ("Shop.Cart.total", Some("total")),
            ("Shop.Cart.__init__", Some("Cart")),
            ("outer.<locals>.inner", Some("inner")),
            ("Cart.__enter__", None),
            ("outer.<locals>.<lambda>", None),
            ("<module>", None),
            ("", None),
        ];
        for (name, expected) in cases {
            assert_eq!(word(name).as_deref(), expected, "{name}");
        }
    }
}
