//! The table of the languages whose VMs are entered, and who asks it. A language that is not in it has no function that lets another thread
//! ask for a safe point: it is copied wherever it stands ([`crate::Entered::copy`]), and asked nothing else.

mod entry;
mod php;
mod python;
mod ruby;

use crate::copyable::Copyable;
use crate::counted::Counted;
use crate::entered::Reached;
use crate::interpreter::Interpreter;
use crate::opening::Opening;
use crate::timer::CollectionTimer;
use entry::{Copy, Count, Entry};
use hooks::ScriptStart;
use inject::Image;
use inject::tracee::Tracee;
use process::error::{Error, Result};
use std::sync::LazyLock;
use vm::Language;

/// How each language is entered, in the order in which a process is searched for their VMs.
const ALL: [Entry; 3] = [ruby::ENTRY, python::ENTRY, php::ENTRY];

/// Why a text is evaluated in no process of another language.
static NOT_EVALUATED: LazyLock<String> = LazyLock::new(|| {
    let those = Language::those(|one| has(one, |entry| entry.evaluate.is_some()), " and ");
    format!("only {those} are asked to evaluate something")
});
/// Why births of a process of another language are not counted until it is copied.
static NOT_NOTED: LazyLock<String> = LazyLock::new(|| {
    let notes = |entry: &Entry| entry.copy.is_some_and(|copy| copy.births);
    let those = Language::those(|one| has(one, notes), " and ");
    format!("births are noted in {those} alone: leave --births away")
});

/// Whether a language is in the table, with an entry that is such.
fn has(language: Language, is_such: impl Fn(&Entry) -> bool) -> bool {
    let mut entries = ALL.iter();
    entries.any(|entry| entry.language == language && is_such(entry))
}

/// Opens a process whose script is in this language, to evaluate texts.
///
/// # Errors
/// It has no such VM, or cannot be opened.
pub fn open(pid: i32, image: &Image, language: Language) -> Result<Box<dyn Interpreter>> {
    let entry = ALL.iter().find(|entry| entry.language == language);
    let open = entry
        .and_then(|entry| entry.evaluate)
        .ok_or(Error::NotAGuest {
            pid,
            reason: &NOT_EVALUATED,
        })?;
    open(pid, image)
}

fn counts() -> impl Iterator<Item = (Language, Count)> {
    let entries = ALL.into_iter();
    entries.filter_map(|entry| Some((entry.language, entry.count?)))
}

/// Whether births of this language can be counted.
pub fn counts_births(language: Language) -> bool {
    counts().any(|(counted, _)| counted == language)
}

/// The functions that the `main` of these VMs calls when the VM is made; each returns when the program ends.
pub fn run_scripts() -> &'static [&'static str] {
    static FUNCTIONS: LazyLock<Vec<&str>> = LazyLock::new(|| {
        let all = counts().map(|(language, _)| language.description().entry);
        all.collect()
    });
    &FUNCTIONS
}

/// Opens a process whose births are counted, and waits until its agent counts; with `accounts` only one whose threads can have accounts.
///
/// # Errors
/// It has no such VM, or one that is not known; it cannot be opened; or it did not come to a safe point in time.
pub fn open_counted(
    pid: i32,
    image: &Image,
    opening: Opening,
    accounts: bool,
) -> Result<Box<dyn Counted>> {
    let counts = counts().filter(|(_, count)| count.accounts || !accounts);
    open_first(
        pid,
        counts.map(|(language, count)| (language, count.open)),
        |open| open(pid, image, opening),
    )
}

/// Opens a program that we started and that waits for us where its script begins: the hooks that brought it there are taken out, and births
/// are counted from there on.
///
/// # Errors
/// Its births cannot be counted, or its memory cannot be read or written; its main thread is given back.
pub fn open_at_script(
    tracee: Tracee,
    start: ScriptStart,
    opening: Opening,
) -> std::result::Result<Box<dyn Counted>, (Tracee, Error)> {
    let function = start.function();
    let runs = |(language, _): &(Language, Count)| Some(language.description().entry) == function;
    match counts().find(runs).or_else(|| counts().next()) {
        Some((_, count)) => (count.at_script)(tracee, start, opening),
        None => {
            let pid = tracee.pid();
            Err((tracee, nobody(pid)))
        }
    }
}

/// Opens a process to have it make a copy of itself at a safe point; with `births` one of which births can be counted until then. The inner
/// error says which VM it does not have: its heap may be one that is read without a call.
///
/// # Errors
/// It cannot be opened or copied, or there are no births to be counted.
pub fn open_to_copy(
    pid: i32,
    image: &Image,
    opening: Opening,
    births: bool,
) -> Result<std::result::Result<Box<dyn Copyable>, String>> {
    let entries = ALL.into_iter();
    let copies = entries.filter_map(|entry| Some((entry.language, entry.copy?)));
    let copies = copies.filter(|(_, copy)| copy.births || !births);
    let opens = copies.map(|(language, Copy { open, .. })| (language, open));
    match open_first(pid, opens, |open| open(pid, image, opening)) {
        Ok(vm) => Ok(Ok(vm)),
        Err(Error::UnreadableVm { .. }) if births => Err(Error::NotAGuest {
            pid,
            reason: &NOT_NOTED,
        }),
        Err(Error::UnreadableVm {
            language, reason, ..
        }) => {
            let others = Language::those(|one| one != language, " or ");
            Ok(Err(format!("{reason}, and no {others}")))
        }
        Err(error) => Err(error),
    }
}

/// Opens a process to have its collections timed.
///
/// # Errors
/// It has no VM of which they can be, or one that is not known; it cannot be opened; or it did not come to a safe point in time.
pub fn open_to_time(pid: i32, image: &Image) -> Result<Box<dyn CollectionTimer>> {
    let entries = ALL.into_iter();
    let opens = entries.filter_map(|entry| Some((entry.language, entry.time?)));
    open_first(pid, opens, |open| open(pid, image))
}

/// Opens a process by the first of these ways, or by that of another language whose VM is loaded in it. If none is, the error is that of the
/// first.
fn open_first<W, T>(
    pid: i32,
    ways: impl Iterator<Item = (Language, W)>,
    open: impl Fn(W) -> Result<T>,
) -> Result<T> {
    let mut refused = None;
    for (language, way) in ways {
        if refused.is_some() && !is_loaded(pid, language) {
            continue;
        }
        match open(way) {
            Err(error @ Error::UnreadableVm { .. }) if refused.is_none() => refused = Some(error),
            other => return other,
        }
    }
    Err(refused.unwrap_or_else(|| nobody(pid)))
}

/// Whether this VM is loaded in a process, as far as its symbols tell.
fn is_loaded(pid: i32, language: Language) -> bool {
    let mark = language.description().mark;
    Reached::new(pid).is_ok_and(|reached| reached.functions.symbol(mark).is_some())
}

/// There is no such VM in the table.
fn nobody(pid: i32) -> Error {
    Error::NotAGuest {
        pid,
        reason: "no VM that lancet knows can be asked this",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `patch` looks only whether there is a text that replaces functions, and has that evaluated.
    #[test]
    fn texts_that_replace_functions_can_be_evaluated() {
        for language in languages::ALL.iter().filter(|entry| entry.patch.is_some()) {
            let language = language.language;
            assert!(
                has(language, |entry| entry.evaluate.is_some()),
                "{language}"
            );
        }
    }

    /// The sentences follow the table.
    #[test]
    fn who_is_not_asked_is_told_who_is() {
        for language in Language::ALL.iter().copied() {
            let name = language.description().name;
            let evaluates = has(language, |entry| entry.evaluate.is_some());
            assert_eq!(NOT_EVALUATED.contains(name), evaluates, "{name}");
            let notes = has(language, |entry| entry.copy.is_some_and(|copy| copy.births));
            assert_eq!(NOT_NOTED.contains(name), notes, "{name}");
        }
    }
}
