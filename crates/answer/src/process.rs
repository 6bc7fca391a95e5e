//! The process that records are of, and the VMs in it. Used by `calls`, `heap` and others here, and by crate `report`.

use std::borrow::Cow;

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use crate::SCHEMA;

/// A process, before all else of it.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Process<'a> {
    /// The number of the schema.
    pub schema: u32,
    /// The process; null: several of them, added up.
    pub pid: Option<i32>,
    /// The words of its command line; where there is none, or it is known as one text alone (core files, some servers), that one. Of
    /// several processes one text: how many they are, and their command lines.
    pub command: Cow<'a, [String]>,
    /// The VMs that were found in it; null: none was looked for.
    pub languages: Option<Vec<Language<'a>>>,
}

impl<'a> Process<'a> {
    /// The record of one process.
    pub fn new(pid: i32, command: impl Into<Cow<'a, [String]>>) -> Self {
        Process {
            schema: SCHEMA,
            pid: Some(pid),
            command: command.into(),
            languages: None,
        }
    }

    /// The same with the VM that was found in it.
    pub fn with(mut self, language: Language<'a>) -> Self {
        self.languages.get_or_insert_default().push(language);
        self
    }
}

/// A VM in a process.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Language<'a> {
    /// `Ruby`, `Python`, `Perl` or `PHP`.
    pub name: &'a str,
    /// Its version: `3.1.2`, of a Python without the GIL `3.14.7 (free-threaded)`; null: not known.
    pub version: Option<&'a str>,
}

impl<'a> Language<'a> {
    /// Takes a text like `Ruby 3.1.2` apart.
    pub fn of(text: &'a str) -> Self {
        match text.split_once(' ') {
            Some((name, version)) => Language {
                name,
                version: Some(version),
            },
            None => Language {
                name: text,
                version: None,
            },
        }
    }
}
