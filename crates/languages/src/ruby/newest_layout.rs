//! A Ruby of a version without a table, read as the newest that has one.

use std::fmt::Display;

use process::pages::Pages;
use vm::Memory;
use vm::ruby::{Error, Facts, Frame, Ruby};

use crate::frames::LONGEST;
use crate::frames::evidence::{Evidence, Sources, Witness};
use crate::frames::text;
use crate::frames::without_table::{self, Derived};

/// Frames that are held against source text, at most: of a thread, and of all.
const OF_THREAD: usize = 256;
const MOST: usize = 4096;

/// What is read by such a layout.
const BY: &str =
    "as the newest known Ruby (classes, fibers, locks and names of threads are not read so)";

/// Reads what a Ruby must be known of, and proves it. `why` says why there is no table.
pub(super) fn find(
    memory: &dyn Memory,
    symbol: &dyn Fn(&str) -> Option<u64>,
    sources: &dyn Sources,
    why: &dyn Display,
) -> Result<Derived<Facts>, String> {
    without_table::settle(why, BY, &|| {
        let pages = Pages::new(memory);
        let (facts, proven) = Facts::by_newest_layout(&pages, symbol)?;
        let ruby = Ruby::new(&pages, facts)?;
        let evidence = evidence(&ruby, sources)?;
        Ok::<_, Error>((facts, [proven.threads, proven.frames], evidence))
    })
}

fn evidence<'s, M: Memory>(
    ruby: &Ruby<'_, M>,
    sources: &'s dyn Sources,
) -> Result<Evidence<'s>, Error> {
    let (mut evidence, mut left) = (Evidence::of(sources, false), MOST);
    let vm = ruby.vm()?;
    ruby.threads_beside(vm, ruby.main_thread(vm)?, &mut |thread| {
        let frames = || {
            let ec = ruby.running_ec(thread)?;
            ruby.frames(ec, ruby.current_cfp(ec)?)
        };
        let frames = frames().into_iter().flatten().map_while(Result::ok);
        let frames = frames.take(OF_THREAD.min(left));
        let stack: Vec<Witness> = frames.map(|frame| witness(ruby, frame)).collect();
        left -= stack.len();
        evidence.add(&stack);
    });
    Ok(evidence)
}

fn witness<M: Memory>(ruby: &Ruby<'_, M>, frame: Frame) -> Witness {
    let label = text(|out| ruby.write_text(ruby.label(frame.iseq)?, LONGEST, out));
    let base = text(|out| ruby.write_text(ruby.base_label(frame.iseq)?, LONGEST, out));
    Witness {
        code: frame.iseq,
        path: text(|out| ruby.write_text(ruby.path(frame.iseq)?, LONGEST, out)),
        first: ruby.first_line(frame.iseq).unwrap_or(0),
        line: ruby.line(frame.iseq, frame.pc).unwrap_or(0),
        word: word(&base).filter(|_| is_method(&label, &base)),
        defined: defined(&base).filter(|_| is_method(&label, &base)),
        has_two_names: !label.is_empty() && label != base,
    }
}

/// Whether code is a method's own, not that of a block in it. Since 3.4 the label has the class.
fn is_method(label: &str, base: &str) -> bool {
    let class = label.strip_suffix(base);
    class.is_some_and(|class| class.is_empty() || class.ends_with(['#', '.']))
}

/// Methods that text calls everywhere, so that a wrong line names them as well as the right one: `initialize` is called as `new`.
const EVERYWHERE: [&str; 6] = ["initialize", "new", "each", "call", "map", "loop"];

/// The word by which source text calls a method: its own name. An operator is none, and blocks and bodies of classes are called by none.
fn word(name: &str) -> Option<String> {
    let word = defined(name).filter(|word| !EVERYWHERE.contains(&word.as_str()))?;
    Some(word.strip_suffix('=').unwrap_or(&word).to_owned())
}

/// The name that a method's definition has in source text.
fn defined(name: &str) -> Option<String> {
    let begins = |first: char| first.is_alphabetic() || first == '_';
    name.starts_with(begins).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::word;

    #[test]
    fn a_method_is_called_by_its_own_name() {
        let cases = [
            ("work", Some("work")),
            ("empty?", Some("empty?")),
            ("total=", Some("total")),
            ("initialize", None),
            ("each", None),
            ("[]=", None),
            ("<main>", None),
            ("", None),
        ];
        for (name, expected) in cases {
            assert_eq!(word(name).as_deref(), expected, "{name}");
        }
    }
}
