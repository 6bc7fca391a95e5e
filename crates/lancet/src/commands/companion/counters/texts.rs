//! What calls are about, and the lines that make them, by number: statements without their values, descriptors, lines of scripts. Used by
//! `counters` and `rows`.
//!
//! What comes from the program is bounded: so many texts and prepared statements are known, and those that come later have no text. Descriptors have a table
//! of their own, because each connection may be a new one.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::time::{Duration, Instant};

use calls::preset::{Dialect, normalise};
use process::sockets::Sockets;
use process::wait::descriptor;

use super::functions::{About, Function, Name};
use super::record::{Place, Record};

/// How many texts, lines and prepared statements are known, of each.
const MOST: usize = 1 << 14;
/// Characters of a text.
const LONGEST: usize = 600;
/// What a descriptor is, is looked up where a call has taken so long: the lookup is a system call of ours, and calls that do not wait are many.
const WAITED: u64 = 20_000;
/// The kernel's tables of sockets are read anew for one that is not in them, at most for this part of the time.
const PART_FOR_SOCKETS: u32 = 20;
/// A descriptor that is closed by the time at which it is looked up is what it was in an earlier call of its thread, which is so old at most: nanoseconds.
const REMEMBERED: u64 = 10_000_000_000;

/// No text, and no line.
pub const NOTHING: u32 = 0;
/// This bit of the number of a text says that it is a descriptor's.
const IS_DESCRIPTOR: u32 = 1 << 31;
/// Ports from here on are those that the kernel gives to who connects.
const EPHEMERAL: u16 = 32768;

/// Things by number, from 1.
struct Numbered<T> {
    numbers: HashMap<T, u32>,
    all: Vec<T>,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Numbered {
            numbers: HashMap::new(),
            all: Vec::new(),
        }
    }
}

impl<T: Clone + Eq + Hash> Numbered<T> {
    fn number(&mut self, of: T) -> u32 {
        if let Some(known) = self.numbers.get(&of) {
            return *known;
        }
        if self.all.len() == MOST {
            return NOTHING;
        }
        self.all.push(of.clone());
        self.numbers.insert(of, self.all.len() as u32);
        self.all.len() as u32
    }

    fn get(&self, number: u32) -> Option<&T> {
        self.all.get((number as usize).checked_sub(1)?)
    }
}

/// The texts of one program's calls.
#[derive(Default)]
pub struct Texts {
    /// The program; 0: descriptors are not looked up.
    pid: i32,
    texts: Numbered<String>,
    named: Numbered<String>,
    lines: Numbered<Place>,
    /// Prepared statements, by what they are called.
    prepared: HashMap<u64, u32>,
    sockets: Option<Read>,
    /// What descriptors were, by thread and number, and when the call ended that says so.
    descriptors: HashMap<(u32, u64), (u32, u64)>,
}

/// The kernel's tables of sockets, when they were read, and how long that has taken.
struct Read {
    sockets: Sockets,
    at: Instant,
    took: Duration,
}

impl Texts {
    pub fn of(pid: i32) -> Self {
        Texts {
            pid,
            ..Texts::default()
        }
    }

    /// The number of the line that has made a call.
    pub fn line(&mut self, record: &Record) -> u32 {
        record
            .place()
            .map_or(NOTHING, |place| self.lines.number(place.clone()))
    }

    /// The number of what a call is about, which took so many nanoseconds.
    pub fn about(&mut self, function: &Function, record: &Record, took: u64) -> u32 {
        let first = record.registers().first().copied();
        match function.about {
            About::Nothing => NOTHING,
            About::Words(words) => self.texts.number(words.to_owned()),
            About::Descriptor if took < WAITED && function.group != "connect" => NOTHING,
            About::Descriptor => first.map_or(NOTHING, |fd| self.descriptor(fd, record)),
            About::Polled => {
                let list = record.arguments.first().map_or("", String::as_str);
                first_number(list).map_or(NOTHING, |fd| self.descriptor(fd, record))
            }
            About::Statement(argument, dialect) => self.statement(record, argument, dialect),
            About::Prepares(argument, dialect, name) => {
                let statement = self.statement(record, argument, dialect);
                if let Some(name) = name_of(name, record)
                    && (self.prepared.len() < MOST || self.prepared.contains_key(&name))
                {
                    self.prepared.insert(name, statement);
                }
                statement
            }
            About::Prepared(name) => {
                let known = name_of(name, record).and_then(|name| self.prepared.get(&name));
                known.copied().unwrap_or(NOTHING)
            }
            About::Ends(name) => {
                // What is prepared at its address later is another one, also where that was not heard.
                if let Some(name) = name_of(name, record) {
                    self.prepared.remove(&name);
                }
                NOTHING
            }
        }
    }

    pub fn text(&self, number: u32) -> Option<&str> {
        let table = match number & IS_DESCRIPTOR {
            0 => &self.texts,
            _ => &self.named,
        };
        table.get(number & !IS_DESCRIPTOR).map(String::as_str)
    }

    pub fn place(&self, number: u32) -> Option<&Place> {
        self.lines.get(number)
    }

    fn statement(&mut self, record: &Record, argument: usize, dialect: Dialect) -> u32 {
        let Some((text, cut)) = record.arguments.get(argument).and_then(|it| string(it)) else {
            return NOTHING;
        };
        let mut shape: String = normalise(&text, dialect).chars().take(LONGEST).collect();
        if cut {
            shape.push('…');
        }
        self.texts.number(shape)
    }

    /// What a descriptor is now, some milliseconds after the call, or was in the last call of this thread.
    fn descriptor(&mut self, fd: u64, record: &Record) -> u32 {
        if self.pid == 0 {
            return NOTHING;
        }
        let text = self.look_up(fd);
        let is_known = !(text.starts_with("socket, ") || text.starts_with("descriptor "));
        let key = (record.tid, fd & 0xffff_ffff);
        let number = self.number_of(text.chars().take(LONGEST).collect());
        let when = record.end().unwrap_or(record.time_ns);
        let before = self.descriptors.get(&key).copied();
        let before = before.filter(|(_, when)| record.time_ns.saturating_sub(*when) < REMEMBERED);
        if is_known && (self.descriptors.len() < MOST || self.descriptors.contains_key(&key)) {
            self.descriptors.insert(key, (number, when));
        }
        match before {
            Some((known, _)) if !is_known => known,
            // It was closed, and its number is another file's now: nobody knows of which of the two this call was.
            Some((known, _)) if known != number => NOTHING,
            _ => number,
        }
    }

    /// When half of the table is full, connections to one host are no longer told apart by such ports.
    fn number_of(&mut self, mut text: String) -> u32 {
        if self.named.all.len() >= MOST / 2
            && let Some((peer, port)) = text.rsplit_once(':')
            && port.parse().is_ok_and(|port: u16| port >= EPHEMERAL)
        {
            text.truncate(peer.len());
        }
        match self.named.number(text) {
            NOTHING => NOTHING,
            number => number | IS_DESCRIPTOR,
        }
    }

    fn look_up(&mut self, fd: u64) -> String {
        let pid = self.pid;
        let read = self.sockets.get_or_insert_with(|| Read {
            sockets: Sockets::of(pid),
            at: Instant::now(),
            took: Duration::ZERO,
        });
        let text = descriptor(pid, fd, &mut read.sockets);
        if !text.starts_with("socket, ") || read.at.elapsed() < read.took * PART_FOR_SOCKETS {
            return text;
        }
        let began = Instant::now();
        let mut sockets = Sockets::of(pid);
        let text = descriptor(pid, fd, &mut sockets);
        *read = Read {
            sockets,
            at: Instant::now(),
            took: began.elapsed(),
        };
        text
    }
}

/// What a prepared statement is called, as a number.
fn name_of(name: Name, record: &Record) -> Option<u64> {
    let first = record.registers().first().copied();
    match name {
        Name::First => first,
        Name::Behind(argument) => {
            let text = record.arguments.get(argument)?;
            let (_, digits) = text.rsplit_once("0x")?;
            let end = digits.find(|c: char| !c.is_ascii_hexdigit());
            u64::from_str_radix(&digits[..end.unwrap_or(digits.len())], 16).ok()
        }
        Name::Text(argument) => {
            let mut hash = DefaultHasher::new();
            (first?, record.arguments.get(argument)?).hash(&mut hash);
            Some(hash.finish())
        }
    }
}

/// The first number in a text: the descriptor of `[{ 7, 0x1, 0 }]`.
fn first_number(text: &str) -> Option<u64> {
    let from = text.find(|c: char| c.is_ascii_digit())?;
    let end = text[from..].find(|c: char| !c.is_ascii_digit());
    text[from..][..end.unwrap_or(text.len() - from)]
        .parse()
        .ok()
}

/// The text of a string as `lancet calls` writes it, and whether it was cut: `"SELECT 1\n"...`. Its escapes are of C; what stands for
/// white space is, and other characters matter to no statement's shape.
fn string(written: &str) -> Option<(String, bool)> {
    let cut = written.ends_with("...");
    let (inner, _) = written.strip_prefix('"')?.rsplit_once('"')?;
    let mut text = String::with_capacity(inner.len());
    let mut left = inner.chars();
    while let Some(c) = left.next() {
        if c != '\\' {
            text.push(c);
            continue;
        }
        match left.next() {
            Some('\\') => text.push('\\'),
            Some('0'..='3') => {
                left.nth(1);
                text.push('\u{fffd}');
            }
            _ => text.push(' '),
        }
    }
    Some((text, cut))
}

#[cfg(test)]
mod tests {
    use super::{MOST, NOTHING, Texts, first_number, string};

    /// However many connections there were, statements and hosts have names.
    #[test]
    fn connections_leave_room_for_statements() {
        let mut texts = Texts::default();
        for number in 0..2 * MOST {
            let (host, port) = (number / 20_000, 40_000 + number % 20_000);
            let known = texts.number_of(format!("tcp to 10.0.0.{host}:{port}"));
            assert_ne!(known, NOTHING);
        }
        let known = texts.number_of("tcp to 10.0.0.1:40001".to_owned());
        assert_eq!(texts.text(known), Some("tcp to 10.0.0.1"));
        let statement = texts.texts.number("SELECT ?".to_owned());
        assert_eq!(texts.text(statement), Some("SELECT ?"));
    }

    #[test]
    fn strings_are_read_as_they_are_written() {
        let plain = |text: &str| Some((text.to_owned(), false));
        assert_eq!(
            string(r#""SELECT "a"\n  FROM t""#),
            plain("SELECT \"a\"   FROM t")
        );
        assert_eq!(string(r#""\303\244 \\""#), plain("\u{fffd}\u{fffd} \\"));
        assert_eq!(string(r#""SELECT"..."#), Some(("SELECT".to_owned(), true)));
        assert_eq!(string("nil"), None);
        assert_eq!(first_number("[{ 17, 0x1, 0 }]"), Some(17));
        assert_eq!(first_number("nil"), None);
    }
}
