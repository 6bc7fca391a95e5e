//! Parses the language of the files in `conf/`. Used by `tables`, `layout` and `later`.
//!
//! A line that begins in the first column opens a `list`, a `struct` or `attributes`, or is an `ioctl`, an `opens` or a `number`; lines that are
//! indented are its members. `#` begins a comment; in a name `~` is a space. Types:
//!
//! | text | what |
//! |---|---|
//! | `u8` … `u64`, `s8` …, `x8` …, `o16` … | unsigned, signed, hexadecimal, octal |
//! | `n16`, `n32`, `p64`, `t64` | in the order of the network; an address; ticks of the clock |
//! | `z8`, `z64`, `y32` | hexadecimal with all its digits; in the order of the network |
//! | `e32.LIST`, `d32.LIST`, `c32.LIST` | by its name, or in hexadecimal; in decimals with a sign; without one |
//! | `f32.LIST` | by the names of its bits |
//! | `v32.LIST`, `w32.LIST` | a number, with the names of its bits or its name in a comment: no header for programs has them |
//! | `text`, `path` | text up to its NUL; a path, which is written whole |
//! | `str[16]`, `brief[16]`, `hex[16]`, `bytes[16]` | text up to its NUL, whole; no more of it than `-s` asks for; bytes in hexadecimal; bytes |
//! | `T[4]`, `T[4:used]`, `T[:used]` | four; as many of four as the member `used` says; as many, behind the struct |
//! | `T[4+:used]` | four at most, and dots for more |
//! | `T[2@LIST]` | elements with their names: `[[BR_MCAST_DIR_RX]=1, [BR_MCAST_DIR_TX]=2]` |
//! | `T[:=font]` | as many as follow from several members (`custom::length`) |
//! | `*T`, `~T` | the address of a value; a value that the call may change: `1 => 2` |
//! | `NAME`, `NAME(a,b)` | a struct; these of its members |
//! | `NAME.LIST` | a form of its own (`custom`) with a list |
//!
//! Behind the type of a member stands where it lies, and when it is written:
//!
//! | text | when |
//! |---|---|
//! | `@8` | it lies at this offset |
//! | `?` | if it is not zero |
//! | `when=type:1,2`, `when=type!1` | if the member `type` is one of these numbers; if it is none |
//! | `when=flags&2`, `when=flags^2` | if the member `flags` has one of these bits; if it has none |
//! | `failed`, `done` | if the call failed; if it did not |
//! | `brief`, `verbose`, `verbose=type` | without `-v`; with `-v`; with `-v` or if the member `type` is not zero |
//! | `altered` | if the call has changed it |
//! | `long=24`, `short=24` | if more than so many bytes of an address are there; if fewer are |
//! | `since`, `since=a` | if the struct is long enough for it; for the member `a` |
//!
//! Behind the name of a struct: its size, if it is more than that of its members; `sized=arg3,24`: argument 3 says how many bytes of
//! it there are, at least 24; `room=arg2`: the same for members with `since`, and with `zeros` the kernel takes zeros for what there
//! is no room for; `parts`: a member that memory ends in is `???`. On a line of its own `--` means that what follows is written with
//! `-v` alone, and `...` that it never is.
//!
//! A file is cut into its parts ([`read`]); each part is understood when it is first asked for ([`super::later`]), because of some
//! thousands a program's calls need few.

mod arguments;
mod attributes;
mod names;
mod structs;
mod types;

pub use arguments::{ioctls, rows};
pub use attributes::netlink;
pub use names::LONGEST_TEXT;
pub use structs::structure;
pub use types::ty;

use super::types::{Later, List, Tables};
use std::sync::OnceLock;

/// What the indented lines belong to that follow.
enum Open {
    Nothing,
    List(usize),
    Struct(usize),
    Attributes,
}

/// Cuts a file into its parts.
pub fn read(tables: &mut Tables, text: &'static str) -> Result<(), String> {
    let mut open = Open::Nothing;
    for (number, line) in text.lines().enumerate() {
        match (line.as_bytes().first(), &open) {
            (None | Some(b'#'), _) => {}
            (Some(b' '), Open::List(index)) => tables.lists[*index].text.push(line),
            (Some(b' '), Open::Struct(index)) => tables.structs[*index].add(line),
            (Some(b' '), Open::Attributes) => tables.netlink.add(line),
            (Some(b' '), Open::Nothing) => {
                return Err(format!("line {}: nothing is open", number + 1));
            }
            _ => {
                let begun = begin(tables, line);
                open = begun.map_err(|wrong| format!("line {}: {wrong}", number + 1))?;
            }
        }
    }
    Ok(())
}

/// What stands before a comment.
fn said(line: &'static str) -> &'static str {
    line.split('#').next().unwrap_or("")
}

/// The words of a line.
fn words(line: &'static str) -> Vec<&'static str> {
    said(line).split_ascii_whitespace().collect()
}

fn begin(tables: &mut Tables, line: &'static str) -> Result<Open, String> {
    let mut words = line.split_ascii_whitespace();
    let what = words.next().unwrap_or_default();
    match what {
        "number" | "ioctl" | "opens" => tables.ioctls.add(line),
        "list" => return begin_list(tables, &self::words(line)),
        "struct" => {
            let name = words.next().ok_or("a struct has a name")?;
            let index = tables.structs.len();
            if tables.struct_names.insert(name, index).is_some() {
                return Err(format!("{name} is there already"));
            }
            tables.structs.push(Later::of(line));
            return Ok(Open::Struct(index));
        }
        "call" | "copy" => {
            let names = words.next().ok_or("a row has a name")?;
            let of = match what {
                "call" => &mut tables.calls,
                _ => &mut tables.copies,
            };
            for name in names.split(',') {
                of.entry(name).or_default().add(line);
            }
        }
        "message" | "requests" | "families" | "diagnosis" | "address" | "generic" | "commands" => {
            tables.netlink.add(line);
        }
        "attributes" => {
            tables.netlink.add(line);
            return Ok(Open::Attributes);
        }
        "result" => {
            let [_, name, text] = self::words(line)[..] else {
                return Err("a result has a name and a type".into());
            };
            let of = ty(tables, text)?;
            tables.results.insert(name, of);
        }
        _ => return Err(format!("{} is not understood", said(line).trim())),
    }
    Ok(Open::Nothing)
}

/// `list NAME UNKNOWN NAMES…`: names of numbers; UNKNOWN is the comment behind a number that has none, `-` for no comment.
fn begin_list(tables: &mut Tables, words: &[&'static str]) -> Result<Open, String> {
    let [_, name, unknown, names @ ..] = words else {
        return Err("a list has a name, and a comment for what has none".into());
    };
    let index = tables.lists.len();
    if tables.list_names.insert(name, index).is_some() {
        return Err(format!("{name} is there already"));
    }
    tables.lists.push(List {
        unknown: if *unknown == "-" { "" } else { unknown },
        text: names.to_vec(),
        read: OnceLock::new(),
    });
    Ok(Open::List(index))
}

/// Reads what the file says of the names of a list.
pub fn names_of(text: &[&'static str]) -> Result<Vec<(Box<str>, i64)>, String> {
    let words = text
        .iter()
        .flat_map(|line| said(line).split_ascii_whitespace());
    let names = words.map(|word| {
        let (name, number) = word
            .split_once('=')
            .ok_or_else(|| format!("{word} has no number"))?;
        let name = match name.contains('~') {
            true => name.replace('~', " ").into(),
            false => name.into(),
        };
        Ok((name, self::number(number)?))
    });
    names.collect()
}

fn number(text: &str) -> Result<i64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16)
            .map(|number| number as i64)
            .ok(),
        None => text.parse().ok(),
    };
    parsed.ok_or_else(|| format!("{text} is no number"))
}

#[cfg(test)]
mod tests;
