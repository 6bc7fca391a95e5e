//! The tables, once they were read: names of lists, types, rows of calls. Used by `netlink`, `forms::controls`,
//! `custom::calls` and others.

use super::parse;
use super::types::{Attributes, List, Row, Tables, Ty};
use crate::call::RawCall;
use crate::words;
use crate::writer::Writer;
use std::fmt::Display;
use std::sync::OnceLock;

static TABLES: OnceLock<Tables> = OnceLock::new();

/// Takes the tables that `make` reads, if there are none yet.
pub fn take(make: impl FnOnce() -> Tables) {
    TABLES.get_or_init(make);
}

/// All of it.
///
/// # Panics
///
/// Before they were taken.
pub fn tables() -> &'static Tables {
    TABLES
        .get()
        .expect("whoever writes a call prepares the tables")
}

/// The list of a name.
///
/// # Panics
///
/// If there is none: names of lists are those of this crate.
pub fn list(name: &str) -> &'static List {
    let found = tables().list_names.get(name);
    &tables().lists[*found.unwrap_or_else(|| panic!("no list {name} in conf/"))]
}

/// The type of a text in the language.
///
/// # Panics
///
/// If it is none: such texts are those of this crate.
pub fn ty(text: &str) -> Ty {
    parse::ty(tables(), text).unwrap_or_else(|wrong| panic!("{text}: {wrong}"))
}

/// Returns the attributes of this name.
pub fn attributes(name: &str) -> Option<&'static Attributes> {
    let netlink = tables().netlink();
    let index = netlink.attribute_names.get(name)?;
    Some(&netlink.attributes[*index])
}

/// The first member of a struct alone.
pub fn first_name(of: &Ty) -> Option<&'static str> {
    let Ty::Struct(index, _) = of else {
        return None;
    };
    tables()
        .structure(*index)
        .members
        .first()
        .map(|member| &*member.name)
}

/// The rows of the arguments of one system call.
#[derive(Clone, Copy)]
pub struct Rows<'c> {
    call: &'c RawCall<'c>,
    rows: &'static [Row],
}

/// The rows of the arguments of a system call: one look for its name, however many arguments it has.
pub fn rows<'c>(call: &'c RawCall<'c>) -> Rows<'c> {
    let rows = tables().calls(call.name);
    Rows { call, rows }
}

impl Rows<'_> {
    /// The row of one argument.
    pub fn of(&self, index: usize) -> Option<&'static Row> {
        let fits = |row: &&Row| {
            row.index == index
                && row.when.iter().all(|(of, shift, is)| {
                    let word = self.call.arguments.get(*of).map(|word| *word as u32);
                    word.is_some_and(|word| is.contains(&(word >> shift)))
                })
        };
        self.rows.iter().find(fits)
    }
}

impl List {
    /// Its names, in the order in which they are looked for.
    ///
    /// # Panics
    ///
    /// If its file says something else; it is part of this crate.
    pub fn names(&self) -> &Vec<(Box<str>, i64)> {
        let read = || parse::names_of(&self.text).unwrap_or_else(|wrong| panic!("{wrong}"));
        self.read.get_or_init(read)
    }

    /// Appends the name of a number, in hexadecimal where it has none.
    pub fn name(&self, w: &mut Writer, word: u64) {
        self.number(w, word, words::plain(word));
    }

    /// Appends the name of a number, in decimals where it has none.
    pub fn decimal(&self, w: &mut Writer, number: i64) {
        self.number(w, number as u64, number);
    }

    fn number(&self, w: &mut Writer, word: u64, shown: impl Display) {
        match self.find(word) {
            Some(name) => words::known(shown, name, w.style.constants, w.out),
            None => words::nameless(shown, self.unknown, w.style.constants, w.out),
        }
    }

    /// Returns the name of a number.
    pub fn find(&self, word: u64) -> Option<&str> {
        let mut names = self.names().iter();
        let found = names.find(|(_, number)| *number as u64 == word);
        found.map(|(name, _)| &**name)
    }

    /// Appends the names of bits.
    pub fn flags(&self, w: &mut Writer, word: u64) {
        words::flags_or(word, self.names(), self.unknown, w.style.constants, w.out);
    }
}
