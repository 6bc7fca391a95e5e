//! Presets: files that name the functions to hook for a question, and how their calls are grouped. Used by `groups`,
//! `options` and others here, and by crate `lancet`.
//!
//! They are files, `crates/calls/presets/*.preset`, and users may write their own (`--preset ./mine.preset`):
//!
//! ```text
//!   # a comment, at the beginning of a line or behind a space
//!   about   SQL statements          what --help says
//!   strings 4000                    characters of a string that are shown, unless -s says otherwise
//!   descriptors                     all system calls that open or close descriptors; with -c: which are still open, by line
//!   allocations                     with -c: what its functions (malloc and its kin) have allocated and not freed, by line
//!
//!   peer :3306 mysql_               who is connected to that speaks to it by functions whose names begin so, or by none
//!
//!   FUNCTION[@LIBRARY] [whole] [BY] [names KEY] [until FUNCTION KEY] [adds NAME | ends KEY]
//!
//!   mysql_real_query    mysql arg2                    with -c a row for each statement, by its dialect's rules
//!   PQexec              postgresql arg2
//!   sqlite3_exec        sqlite arg2
//!   getaddrinfo         text arg1                     with -c a row for each text
//!   php:mysqli_query    value mysql                   the first text among its arguments
//!   malloc                                            with -c a row for each script line, as always
//!   PyEval_RestoreThread  whole                       with -c the preset's calls within it are parts of it and get no row
//!
//!   mysql_stmt_prepare  mysql arg2   names arg1       arg1 stands for that statement from now on …
//!   mysql_stmt_execute  as arg1                       … and here it is
//!   sqlite3_prepare_v2  sqlite arg2  names *arg4      what arg4 points to when it has returned
//!   PQprepare           postgresql arg3  names text arg2
//!
//!   mysql_send_query    mysql arg2   until mysql_read_query_result arg1
//!
//!   sqlite3_step        as arg1      adds sqlite      a row for each execution of the statement …
//!   sqlite3_reset       ends arg1                     … which is over with a step that has no row, or here
//! ```
//!
//! With `until` a call lasts until the other function, called with the same argument (usually a connection), has returned: if a
//! program sends a query and asks for its result later, the time of sending says nothing. Only the outermost of nested calls of a
//! preset's grouped functions counts: `PQexec` calls `PQsendQuery` and `PQgetResult` inside.

mod statement;

pub use statement::{Dialect, normalise};

use prototypes::filter::Filter;
use std::io::{self, Read};
use std::path::Path;
use std::str::FromStr;

/// The presets that come with lancet.
const BUNDLED: &[(&str, &str)] = &[
    ("sql", include_str!("../presets/sql.preset")),
    ("gc", include_str!("../presets/gc.preset")),
    ("redis", include_str!("../presets/redis.preset")),
    ("http", include_str!("../presets/http.preset")),
    ("tls", include_str!("../presets/tls.preset")),
    ("dns", include_str!("../presets/dns.preset")),
    ("alloc", include_str!("../presets/alloc.preset")),
    ("locks", include_str!("../presets/locks.preset")),
    ("files", include_str!("../presets/files.preset")),
];

/// The longest file of a preset that is read, in bytes.
const LONGEST: u64 = 1 << 20;

/// The word before what `--help` says of a preset.
const ABOUT: &str = "about";

/// The functions that one question needs hooked, and how their calls are grouped, as read from a preset's file.
#[derive(Clone, Debug, Default)]
pub struct Preset {
    /// What `--help` says of it.
    pub about: String,
    /// Characters of a string that are shown.
    pub strings: Option<u32>,
    /// Whether it includes all system calls that open or close descriptors, and reports with `-c` which of those are still open
    /// ([`crate::descriptors`]).
    pub descriptors: bool,
    /// Whether it reports with `-c` what is allocated and not freed, by those of its functions that are an allocator's
    /// ([`crate::allocations`]).
    pub allocations: bool,
    /// For each peer, the end of its address and the prefix of the names of the functions that talk to it.
    pub peers: Vec<(String, String)>,
    /// The functions that it watches, in the order of its file.
    pub rules: Vec<Rule>,
}

/// One function of a preset.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The functions that the rule is for, by name and library.
    pub filter: Filter,
    /// Whether calls of the preset within a call of it, on the same stack, are parts of that one: a lock of a VM waits in one of the C
    /// library, and that is one wait. Not of a function that calls what it was given: that may wait for something else.
    pub whole: bool,
    /// How its calls are grouped, besides by function and script line.
    pub by: Option<By>,
    /// The key that stands for the group from now on.
    pub names: Option<Key>,
    /// The function whose return ends the call, and the argument that both are called with.
    pub until: Option<(String, Key)>,
    /// The name under which its calls are added up to one execution of their group.
    pub adds: Option<String>,
    /// Its calls end the execution with this key, and have no row.
    pub ends: Option<Key>,
}

/// How calls are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// By the statement that an argument, counted from 1, points to.
    Statement(Dialect, usize),
    /// By the statement that is the first text among the arguments of a function of the script's language.
    Value(Dialect),
    /// By the text that an argument, counted from 1, points to.
    Text(usize),
    /// By what another function has named by `names`.
    As(Key),
}

/// What identifies a call's group to another function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// The value of an argument, counted from 1.
    Argument(usize),
    /// The value that an argument, counted from 1, points to when the function has returned.
    Behind(usize),
    /// The text that an argument, counted from 1, points to.
    Text(usize),
}

impl Preset {
    /// Reads a preset: one that comes with lancet, or the file at this path, which contains a `/`.
    pub fn load(name: &str) -> Result<Self, String> {
        if let Some((name, text)) = BUNDLED.iter().find(|(known, _)| *known == name) {
            return Self::parse(name, text);
        }
        if !name.contains('/') {
            let known: Vec<&str> = Self::names().collect();
            return Err(format!(
                "there is no preset {name}: {}, or a file of your own (./{name})",
                known.join(", ")
            ));
        }
        let text = read(name).map_err(|error| format!("cannot read the preset {name}: {error}"))?;
        Self::parse(name, &text)
    }

    /// Returns the names of the presets that come with lancet.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUNDLED.iter().map(|(name, _)| *name)
    }

    /// Returns name and purpose of each preset that comes with lancet, a line each.
    pub fn all() -> String {
        // Without their functions, whose patterns take longer to read than all else that a start of lancet does.
        let about = |line: &str| line.strip_prefix(ABOUT).map(str::trim).map(str::to_owned);
        let line = |(name, text): &(&str, &str)| {
            let about = text.lines().find_map(about);
            format!("\n  {name:7}{}", about.unwrap_or_default())
        };
        BUNDLED.iter().map(line).collect()
    }

    /// Returns the functions to hook: its own, those that end their calls, and those for descriptors.
    pub fn filters(&self) -> impl Iterator<Item = Filter> {
        let of_descriptors = self.descriptors.then(crate::descriptors::all);
        let of_descriptors = of_descriptors.into_iter().flatten();
        let of_descriptors = of_descriptors.map(|name| format!("{name}@SYS"));
        let own = self.rules.iter().flat_map(|rule| {
            let ends = rule.until.iter();
            let ends = ends.filter_map(|(name, _)| Filter::parse(name).ok());
            std::iter::once(rule.filter.clone()).chain(ends)
        });
        own.chain(of_descriptors.filter_map(|name| Filter::parse(&name).ok()))
    }

    pub(crate) fn parse(file: &str, text: &str) -> Result<Self, String> {
        let mut preset = Preset::default();
        for (number, line) in text.lines().enumerate() {
            // A name of Ruby's may contain a `#` (`ruby:Class#method`).
            let line = line.split(" #").next().unwrap_or_default().trim();
            if !line.is_empty() && !line.starts_with('#') {
                preset
                    .line(line)
                    .map_err(|wrong| format!("{file}:{}: {wrong}", number + 1))?;
            }
        }
        Ok(preset)
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        let mut words = line.split_whitespace();
        match words.next() {
            Some(ABOUT) => {
                self.about = line[ABOUT.len()..].trim().into();
                return Ok(());
            }
            Some("strings") => {
                let count = words.next().and_then(|word| word.parse().ok());
                self.strings = Some(count.ok_or("strings wants a number")?);
            }
            Some("descriptors") => self.descriptors = true,
            Some("allocations") => self.allocations = true,
            Some("peer") => {
                let mut word = || words.next().map(String::from);
                let peer = word().zip(word());
                self.peers.push(
                    peer.ok_or("peer wants the end of its address and the beginning of names")?,
                );
            }
            Some(name) => self.rules.push(Rule::parse(name, &mut words)?),
            None => {}
        }
        match words.next() {
            None => Ok(()),
            Some(more) => Err(format!("{more} was not expected")),
        }
    }
}

impl Rule {
    fn parse<'t>(name: &str, words: &mut impl Iterator<Item = &'t str>) -> Result<Self, String> {
        let filter = Filter::parse(name).map_err(|error| error.wrong.to_string())?;
        let mut rule = Rule {
            filter,
            whole: false,
            by: None,
            names: None,
            until: None,
            adds: None,
            ends: None,
        };
        while let Some(word) = words.next() {
            match word {
                "whole" => rule.whole = true,
                "mysql" => rule.by = Some(By::Statement(Dialect::MySql, argument(words.next())?)),
                "postgresql" => {
                    rule.by = Some(By::Statement(Dialect::PostgreSql, argument(words.next())?));
                }
                "sqlite" => rule.by = Some(By::Statement(Dialect::Sqlite, argument(words.next())?)),
                "value" => rule.by = Some(By::Value(dialect(words.next())?)),
                "text" => rule.by = Some(By::Text(argument(words.next())?)),
                "as" => rule.by = Some(By::As(key(words)?)),
                "names" => rule.names = Some(key(words)?),
                "adds" => {
                    rule.adds = Some(words.next().ok_or("adds wants a name")?.into());
                }
                "ends" => rule.ends = Some(key(words)?),
                "until" => {
                    let function = words.next().ok_or("until wants a function")?;
                    rule.until = Some((function.into(), key(words)?));
                }
                other => {
                    return Err(format!(
                        "{other}: whole, mysql, postgresql, sqlite, value, text, as, names, until, adds or ends was expected"
                    ));
                }
            }
        }
        if rule.by.is_none()
            && (rule.names.is_some() || rule.until.is_some() || rule.adds.is_some())
        {
            return Err(
                "names, until and adds want to know what the call is of (mysql arg2, …)".into(),
            );
        }
        Ok(rule)
    }
}

/// Reads a preset's file, which is a regular one, and short.
fn read(path: &str) -> io::Result<String> {
    let file = process::modules::open_regular(Path::new(path))?;
    let mut text = String::new();
    file.take(LONGEST + 1).read_to_string(&mut text)?;
    match text.len() as u64 > LONGEST {
        true => Err(io::Error::other("it is longer than 1 MiB")),
        false => Ok(text),
    }
}

/// Parses the dialect of a statement, such as `mysql`.
fn dialect(word: Option<&str>) -> Result<Dialect, String> {
    match word {
        Some("mysql") => Ok(Dialect::MySql),
        Some("postgresql") => Ok(Dialect::PostgreSql),
        Some("sqlite") => Ok(Dialect::Sqlite),
        other => {
            let other = other.unwrap_or("the end of the line");
            Err(format!(
                "mysql, postgresql or sqlite was expected in place of {other}"
            ))
        }
    }
}

/// Parses an argument such as `arg2`, one of the six that are passed in registers.
fn argument(word: Option<&str>) -> Result<usize, String> {
    word.and_then(|word| word.strip_prefix("arg"))
        .and_then(|number| usize::from_str(number).ok())
        .filter(|number| (1..=6).contains(number))
        .ok_or_else(|| {
            let word = word.unwrap_or("the end of the line");
            format!("arg1 to arg6 was expected in place of {word}")
        })
}

/// Parses a key: `arg1`, `*arg4` or `text arg2`.
fn key<'t>(words: &mut impl Iterator<Item = &'t str>) -> Result<Key, String> {
    match words.next() {
        Some("text") => Ok(Key::Text(argument(words.next())?)),
        Some(word) if word.starts_with('*') => Ok(Key::Behind(argument(Some(&word[1..]))?)),
        word => Ok(Key::Argument(argument(word)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prototypes::filter::Where;

    #[test]
    fn those_that_lancet_brings_along_are_right() {
        for (name, text) in BUNDLED {
            let preset = Preset::parse(name, text).unwrap_or_else(|error| panic!("{error}"));
            assert!(
                !preset.about.is_empty() && preset.filters().next().is_some(),
                "{name}"
            );
        }
        assert!(Preset::all().contains("dns    names"), "{}", Preset::all());
    }

    /// They call what they are given, and that may wait for a lock of its own.
    #[test]
    fn what_calls_back_is_no_wait() {
        let preset = Preset::load("locks").unwrap();
        let not_whole = preset.rules.iter().filter(|rule| !rule.whole);
        let place = Where {
            path: "",
            soname: "",
            is_main: false,
        };
        let calls_back = [
            "rb_nogvl",
            "rb_thread_call_without_gvl",
            "rb_thread_call_with_gvl",
        ];
        for rule in not_whole {
            let is = |name: &&str| rule.filter.matches(name, place);
            assert!(calls_back.iter().any(is), "{rule:?}");
        }
        let whole = preset.rules.iter().filter(|rule| rule.whole);
        for rule in whole {
            let is = |name: &&str| rule.filter.matches(name, place);
            assert!(!calls_back.iter().any(is), "{rule:?}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (text, expected) in [
            (
                "a\n\nf mysql",
                "x:3: arg1 to arg6 was expected in place of the end of the line",
            ),
            (
                "f text arg7",
                "x:1: arg1 to arg6 was expected in place of arg7",
            ),
            (
                "f so arg1",
                "x:1: so: whole, mysql, postgresql, sqlite, value, text, as, names, until, adds or ends was expected",
            ),
            ("strings many", "x:1: strings wants a number"),
            (
                "f names arg1",
                "x:1: names, until and adds want to know what the call is of (mysql arg2, …)",
            ),
            ("/f", "x:1: the regular expression has no closing `/`"),
            ("strings 1 2", "x:1: 2 was not expected"),
        ] {
            assert_eq!(Preset::parse("x", text).unwrap_err(), expected);
        }
        let endless = Preset::load("/dev/zero").unwrap_err();
        assert_eq!(
            endless,
            "cannot read the preset /dev/zero: not a regular file"
        );
        let unknown = Preset::load("nosuch").unwrap_err();
        assert!(
            unknown.starts_with("there is no preset nosuch: sql, gc, "),
            "{unknown}"
        );
    }
}
