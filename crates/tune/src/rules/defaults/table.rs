//! The tables of keys, and their form. Used by `defaults`.
//!
//! ```text
//! net.ipv4.tcp_rmem[1]  131072  32768..8388608      the window that a connection begins with
//! net.ipv4.tcp_mem[1]   -       15..400/1000*4096   pages of all TCP connections …
//! /sys/…-*kB/enabled    never   =never|madvise      pages of this size …
//! ```
//!
//! The fields are separated by tabs. A name is a sysctl key, or a path where it begins with `/`; `*` stands for any name of one
//! folder, and `[1]` says that the second of several numbers is meant. Then come the kernel's default (`-`: it follows the machine),
//! what is near to it, and what a value outside of that costs. Near are the numbers of a range; or, with `/1000*4096`, numbers whose
//! 4,096-fold is so many thousandths of the machine's memory; or words.

use crate::setting::{chosen, sysctl_path};
use crate::tree::Tree;

const TABLES: [&str; 2] = [include_str!("network.table"), include_str!("machine.table")];

/// The largest number of files of one key with `*` that are read.
const MOST: usize = 512;

/// What is not far from the default.
#[derive(Debug, PartialEq, Eq)]
enum Near {
    /// Numbers between these, inclusive.
    From(i64, i64),
    /// Numbers that, multiplied by the last, are between these thousandths of the machine's memory.
    Memory(u64, u64, u64),
    /// One of these words, or the one that the file marks among all.
    Words(Vec<&'static str>),
}

/// A key of the table.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Key {
    name: &'static str,
    /// Which of several numbers is meant.
    part: usize,
    /// The kernel's default; `None` where it follows the machine.
    pub usual: Option<&'static str>,
    near: Near,
    /// What a value outside costs.
    pub costs: &'static str,
}

/// Returns all keys.
pub(super) fn keys() -> Vec<Key> {
    let lines = TABLES.iter().flat_map(|table| table.lines());
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| parse(line).unwrap_or_else(|| panic!("a line of the tables: {line}")))
        .collect()
}

fn parse(line: &'static str) -> Option<Key> {
    let mut fields = line.split('\t');
    let (name, usual) = (fields.next()?, fields.next()?);
    let (near, costs) = (fields.next()?, fields.next()?);
    let (name, part) = match name.split_once('[') {
        Some((name, part)) => (name, part.strip_suffix(']')?.parse().ok()?),
        None => (name, 0),
    };
    let complete = fields.next().is_none() && !costs.is_empty();
    complete.then_some(Key {
        name,
        part,
        usual: Some(usual).filter(|usual| *usual != "-"),
        near: near_of(near)?,
        costs,
    })
}

fn near_of(text: &'static str) -> Option<Near> {
    if let Some(words) = text.strip_prefix('=') {
        return Some(Near::Words(words.split('|').collect()));
    }
    if let Some((range, bytes)) = text.split_once("/1000*") {
        let (least, most) = range.split_once("..")?;
        let number = |text: &str| text.parse().ok();
        return Some(Near::Memory(number(least)?, number(most)?, number(bytes)?));
    }
    let (least, most) = text.split_once("..")?;
    let most = match most {
        "" => i64::MAX,
        most => most.parse().ok()?,
    };
    Some(Near::From(least.parse().ok()?, most))
}

impl Key {
    fn path(&self) -> String {
        match self.name.starts_with('/') {
            true => self.name.to_owned(),
            false => sysctl_path(self.name),
        }
    }

    /// Returns the files that it means: its own, or one for each name that `*` stands for.
    pub fn files(&self, tree: &Tree) -> Vec<String> {
        let path = self.path();
        let Some((before, after)) = path.split_once('*') else {
            return vec![path];
        };
        let (folder, begin) = before.rsplit_once('/').unwrap_or(("", before));
        let end = after.split('/').next().unwrap_or("");
        let rest = &after[end.len()..];
        let names = tree.list(folder).unwrap_or_default();
        let fits = |name: &&String| {
            name.starts_with(begin) && name.ends_with(end) && is_of_the_machine(tree, folder, name)
        };
        let names = names.iter().filter(fits).take(MOST);
        names.map(|name| format!("{folder}/{name}{rest}")).collect()
    }

    /// Returns whether a value is far from the default; what is no such value is far, too.
    pub fn is_far(&self, text: &str, memory: Option<u64>) -> bool {
        let number = || {
            let word = text.split_whitespace().nth(self.part)?;
            match word.strip_prefix("0x") {
                Some(digits) => i64::from_str_radix(digits, 16).ok(),
                None => word.parse::<i64>().ok(),
            }
        };
        match &self.near {
            Near::Words(near) => !near.contains(&chosen(text)),
            Near::From(least, most) => {
                number().is_none_or(|value| !(*least..=*most).contains(&value))
            }
            Near::Memory(least, most, bytes) => {
                let value = number().and_then(|value| u64::try_from(value).ok());
                let (Some(value), Some(memory @ 1..)) = (value, memory) else {
                    return value.is_none();
                };
                let share = u128::from(value) * u128::from(*bytes) * 1000 / u128::from(memory);
                !(u128::from(*least)..=u128::from(*most)).contains(&share)
            }
        }
    }

    /// Returns the value beside the default: `5 (default 7200)`; of a value with several numbers the one that is meant.
    pub fn beside(&self, text: &str) -> String {
        let value = match self.near {
            Near::Words(_) => chosen(text),
            _ => text.split_whitespace().nth(self.part).unwrap_or(text),
        };
        match self.usual {
            Some(usual) => format!("{value} (default {usual})"),
            None => format!("{value} (the default follows the machine)"),
        }
    }

    /// Returns the whole value with the default in the place of what is meant; `None` where there is no default or no such place.
    pub fn restored(&self, text: &str) -> Option<String> {
        let usual = self.usual?;
        if matches!(self.near, Near::Words(_)) {
            return Some(usual.to_owned());
        }
        let mut words: Vec<&str> = text.split_whitespace().collect();
        *words.get_mut(self.part)? = usual;
        Some(words.join(" "))
    }
}

/// Loop devices and such have queues too, and nobody waits for them.
fn is_of_the_machine(tree: &Tree, folder: &str, name: &str) -> bool {
    folder != "/sys/block" || tree.exists(&format!("{folder}/{name}/device"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_read_and_its_default_is_near() {
        let all = keys();
        assert!(all.len() > 180, "{}", all.len());
        for key in &all {
            let usual = key.usual.unwrap_or_default();
            // The default in the place that is meant.
            let text = format!("{} {usual}", "0 ".repeat(key.part))
                .trim()
                .to_owned();
            assert!(usual.is_empty() || !key.is_far(&text, None), "{key:?}");
            let of = |other: &&Key| (other.name, other.part) == (key.name, key.part);
            let same = all.iter().filter(of).count();
            assert!(same == 1 || key.usual.is_none(), "{key:?}");
        }
    }

    #[test]
    fn ranges_words_and_shares_of_the_memory() {
        let key = parse("vm.a[1]\t-\t15..400/1000*4096\tcosts").unwrap();
        let memory = Some(4096 * 1000);
        assert!(key.is_far("9 14 9", memory) && !key.is_far("9 15 9", memory));
        assert!(key.is_far("9 401 9", memory) && key.is_far("9", memory));
        // Without the memory nothing is known.
        assert!(!key.is_far("9 1 9", None));
        let key = parse("/sys/x\tnever\t=never|madvise\tcosts").unwrap();
        assert!(key.is_far("[always] madvise never", None));
        assert!(!key.is_far("always [madvise] never", None));
        let key = parse("vm.b[1]\t7\t1..9\tcosts").unwrap();
        assert_eq!(key.restored("5 99 5").as_deref(), Some("5 7 5"));
        assert_eq!(key.beside("5 99 5"), "99 (default 7)");
        assert!(!key.is_far("0 0x0007", None));
        assert_eq!(parse("vm.b\t7\tmany\tcosts"), None);
    }
}
