//! The language of the files in `conf/`.
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

mod attributes;
mod names;
mod types;

pub use names::LONGEST_TEXT;
use names::find_list;
pub use types::ty;

use super::types::{
    After, Diagnosis, How, Length, List, Member, Row, Struct, Tables, Text, Ty, When,
};
use std::sync::OnceLock;

/// What is being read.
enum Open {
    Nothing,
    List(usize),
    Struct(usize, bool),
    Attributes(usize),
}

/// Reads a file into the tables.
///
/// The names of a list are taken as they stand there, because there are thousands and a program needs few ([`names_of`]).
pub fn read(tables: &mut Tables, text: &'static str) -> Result<(), String> {
    let mut open = Open::Nothing;
    let mut words: Vec<&'static str> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let said = line.split('#').next().unwrap_or("");
        if let Open::List(index) = open
            && line.starts_with(' ')
        {
            tables.lists[index].text.push(said);
            continue;
        }
        words.clear();
        words.extend(said.split_ascii_whitespace());
        if words.is_empty() {
            continue;
        }
        let read = match line.starts_with(' ') {
            true => member(tables, &mut open, &words),
            false => begin(tables, &words).map(|of| open = of),
        };
        read.map_err(|wrong| format!("line {}: {wrong}", number + 1))?;
    }
    Ok(())
}

fn begin(tables: &mut Tables, words: &[&'static str]) -> Result<Open, String> {
    match *words {
        ["list", name, unknown, ref names @ ..] => begin_list(tables, name, unknown, names),
        ["struct", name, ref rest @ ..] => begin_struct(tables, name, rest),
        ["number", name, number] => {
            let number = self::number(number)? as u32;
            tables.commands.entry(number).or_default().push(name);
            tables.numbers.insert(name, number);
            Ok(Open::Nothing)
        }
        ["ioctl", name, ref how @ ..] => {
            let number = command_number(tables, name)?;
            let how = self::how(tables, how)?;
            tables.arguments.insert(number, how);
            Ok(Open::Nothing)
        }
        ["opens", place, ref commands @ ..] => {
            let place = match place {
                "result" => None,
                offset => Some(self::number(offset)? as u32),
            };
            for command in commands {
                tables
                    .opened
                    .insert(command_number(tables, command)?, place);
            }
            Ok(Open::Nothing)
        }
        [what @ ("call" | "copy"), names, index, ref rest @ ..] => {
            let row = row(tables, index, rest)?;
            let of = match what {
                "call" => &mut tables.calls,
                _ => &mut tables.copies,
            };
            for name in names.split(',') {
                of.entry(name.into()).or_default().push(row.clone());
            }
            Ok(Open::Nothing)
        }
        ["message", kinds, text, attributes] => {
            message(tables, kinds, text, attributes)?;
            Ok(Open::Nothing)
        }
        ["requests", asks, ref names @ ..] => {
            let rows = names.iter().map(|name| ((*name).into(), asks.into()));
            tables.requests.extend(rows);
            Ok(Open::Nothing)
        }
        ["result", name, text] => {
            let of = ty(tables, text)?;
            tables.results.insert(name.into(), of);
            Ok(Open::Nothing)
        }
        ["address", family, least, text] => {
            attributes::address(tables, family, least, text)?;
            Ok(Open::Nothing)
        }
        ["families", name, ref rows @ ..] => {
            attributes::families(tables, name, rows)?;
            Ok(Open::Nothing)
        }
        ["diagnosis", families, what, ref rest @ ..] => {
            let what = match what {
                "request" => Diagnosis::Request,
                "older" => Diagnosis::OlderRequest,
                "answer" => Diagnosis::Answer,
                what => return Err(format!("{what} is no message")),
            };
            attributes::diagnosis(tables, families, what, rest)?;
            Ok(Open::Nothing)
        }
        ["attributes", name, ref list @ ..] => {
            let list = list.first().copied().unwrap_or(name);
            let list = find_list(tables, list)?;
            let index = attributes::attributes(tables, name);
            tables.attributes[index].list = list;
            Ok(Open::Attributes(index))
        }
        _ => Err(format!("{} is not understood", words.join(" "))),
    }
}

/// The number of a command of `ioctl`, which is named or given.
fn command_number(tables: &Tables, word: &str) -> Result<u32, String> {
    match tables.numbers.get(word) {
        Some(number) => Ok(*number),
        None => Ok(number(word)? as u32),
    }
}

/// `list NAME UNKNOWN NAMES…`: names of numbers; UNKNOWN is the comment behind a number that has none, `-` for no comment.
fn begin_list(
    tables: &mut Tables,
    name: &str,
    unknown: &str,
    names: &[&'static str],
) -> Result<Open, String> {
    let index = tables.lists.len();
    if tables.list_names.insert(name.into(), index).is_some() {
        return Err(format!("{name} is there already"));
    }
    let unknown = if unknown == "-" { "" } else { unknown };
    tables.lists.push(List {
        unknown: unknown.into(),
        text: names.to_vec(),
        read: OnceLock::new(),
    });
    Ok(Open::List(index))
}

/// `struct NAME [SIZE] [parts] [zeros] [room=argN] [sized=argN…]`: its members follow, a line each.
fn begin_struct(tables: &mut Tables, name: &str, words: &[&str]) -> Result<Open, String> {
    let mut of = Struct {
        align: 1,
        ..Struct::default()
    };
    for word in words {
        if *word == "parts" {
            of.parts = true;
        } else if *word == "zeros" {
            of.zeros = true;
        } else if let Some(index) = word.strip_prefix("room=arg") {
            let index = index.parse();
            of.room = Some(index.map_err(|_| format!("{word} is no argument"))?);
        } else if let Some(text) = word.strip_prefix("sized=arg") {
            of.sized = Some(sized(text)?);
        } else {
            of.size = word.parse().map_err(|_| format!("{word} is no size"))?;
        }
    }
    let fixed = of.size > 0;
    tables.structs.push(of);
    let index = tables.structs.len() - 1;
    if tables.struct_names.insert(name.into(), index).is_some() {
        return Err(format!("{name} is there already"));
    }
    Ok(Open::Struct(index, fixed))
}

/// `message KINDS TYPE ATTRIBUTES`: what a message of routing netlink begins with, and which attributes follow.
fn message(tables: &mut Tables, kinds: &str, text: &str, attributes: &str) -> Result<(), String> {
    let of = ty(tables, text)?;
    let attributes = attributes::attributes(tables, attributes);
    let list = find_list(tables, "nl_route_types")?;
    for kind in kinds.split(',') {
        let names = tables.lists[list].names();
        let found = names.iter().find(|(known, _)| **known == *kind);
        let (_, number) = found.ok_or_else(|| format!("{kind} is not in the list"))?;
        let number = *number as u16;
        tables.messages.insert(number, (of.clone(), attributes));
    }
    Ok(())
}

fn member(tables: &mut Tables, open: &mut Open, words: &[&str]) -> Result<(), String> {
    match open {
        Open::Nothing => Err("nothing is open".into()),
        Open::List(_) => Err("a list has names alone".into()),
        Open::Struct(index, fixed) => {
            let member = self::struct_member(tables, *index, words)?;
            let (size, align) = member.ty.layout(tables);
            let of = &mut tables.structs[*index];
            of.align = of.align.max(align);
            if !*fixed {
                let end = member.offset + size;
                of.size = of.size.max(end.next_multiple_of(of.align));
            }
            of.members.push(member);
            Ok(())
        }
        Open::Attributes(index) => {
            let [names, what @ ..] = words else {
                return Err("a name, then what it holds".into());
            };
            let what = attributes::attribute(tables, what)?;
            for name in names.split(',') {
                let of = &tables.attributes[*index];
                if name == "*" {
                    tables.attributes[*index].rest = Some(what.clone());
                    continue;
                }
                let names = tables.lists[of.list].names();
                let found = names.iter().find(|(known, _)| **known == *name);
                let (_, number) = found.ok_or_else(|| format!("{name} is not in the list"))?;
                let number = *number as u64;
                tables.attributes[*index].types.insert(number, what.clone());
            }
            Ok(())
        }
    }
}

fn how(tables: &Tables, words: &[&str]) -> Result<How, String> {
    Ok(match *words {
        ["none"] => How::Nothing,
        ["address"] => How::Address,
        ["answered", first, then] => How::Answered(ty(tables, first)?, ty(tables, then)?),
        ["value", of] => How::Value(ty(tables, of)?),
        ["after", of] => How::After(ty(tables, of)?),
        ["in", of] => How::In(ty(tables, of)?),
        ["out", of] => How::Out(ty(tables, of)?),
        ["more", first, then] => How::More(ty(tables, first)?, ty(tables, then)?, After::Success),
        ["more!", first, then] => How::More(ty(tables, first)?, ty(tables, then)?, After::Always),
        ["both", first, then] => How::Both(ty(tables, first)?, ty(tables, then)?, After::Success),
        ["both@", first, then] => How::Both(ty(tables, first)?, ty(tables, then)?, After::Address),
        ["both!", first, then] => How::Both(ty(tables, first)?, ty(tables, then)?, After::Always),
        ["filled", of] => How::Filled(ty(tables, of)?),
        ["changed", first, member] => {
            let Ty::Struct(index, _) = ty(tables, first)? else {
                return Err(format!("{first} is no struct"));
            };
            let member = tables.structs[index]
                .member(member)
                .ok_or_else(|| format!("{member} is no member"))?;
            How::Changed(ty(tables, first)?, member.ty.clone(), member.offset)
        }
        _ => return Err(format!("{} is no argument", words.join(" "))),
    })
}

/// Reads what the file says of the names of a list.
pub fn names_of(text: &[&str]) -> Result<Vec<(Box<str>, i64)>, String> {
    let words = text.iter().flat_map(|line| line.split_ascii_whitespace());
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

fn struct_member(tables: &Tables, index: usize, words: &[&str]) -> Result<Member, String> {
    let members = &tables.structs[index].members;
    if let ["--" | "..."] = words {
        let end = members
            .last()
            .map_or(0, |last| last.offset + last.ty.layout(tables).0);
        return Ok(Member {
            name: words[0].into(),
            offset: end,
            ty: Ty::Text(Text::Bytes, Length::of(0)),
            when: Vec::new(),
            verbose: true,
        });
    }
    let [name, text, rest @ ..] = words else {
        return Err("a member is a name and a type".into());
    };
    let ty = ty(tables, text)?;
    let end = members
        .last()
        .map_or(0, |last| last.offset + last.ty.layout(tables).0);
    let mut offset = end.next_multiple_of(ty.layout(tables).1.max(1));
    let mut when = Vec::new();
    let mut since = None;
    for word in rest {
        if *word == "?" {
            when.push(When::Filled);
        } else if let Some(length) = word.strip_prefix("short=") {
            let length = length.parse().map_err(|_| format!("{word} is no length"))?;
            when.push(When::Fewer(length));
        } else if let Some(length) = word.strip_prefix("long=") {
            let length = length.parse().map_err(|_| format!("{word} is no length"))?;
            when.push(When::There(length));
        } else if *word == "brief" {
            when.push(When::Brief);
        } else if *word == "altered" {
            when.push(When::Altered);
        } else if *word == "since" || word.starts_with("since=") {
            since = Some(word.strip_prefix("since="));
        } else if *word == "verbose" {
            when.push(When::Verbose(None));
        } else if let Some(name) = word.strip_prefix("verbose=") {
            when.push(When::Verbose(Some(name.into())));
        } else if *word == "done" {
            when.push(When::Done);
        } else if *word == "failed" {
            when.push(When::Failed);
        } else if let Some(at) = word.strip_prefix('@') {
            offset = at.parse().map_err(|_| format!("{word} is no offset"))?;
        } else if let Some(condition) = word.strip_prefix("when=") {
            when.push(self::condition(condition)?);
        } else {
            return Err(format!("{word} is not understood"));
        }
    }
    if let Some(of) = since {
        let room = tables.structs[index].room;
        let room = room.ok_or("since needs room=")?;
        let from = match of {
            None => offset,
            Some(of) => {
                let member = members.iter().find(|member| &*member.name == of);
                member.ok_or_else(|| format!("{of} is no member"))?.offset
            }
        };
        when.insert(0, When::Longer(room, from));
    }
    Ok(Member {
        name: (*name).into(),
        offset,
        ty,
        when,
        verbose: false,
    })
}

/// `3,24`: an argument, and a number.
fn sized(text: &str) -> Result<(usize, u32), String> {
    let parsed = text.split_once(',').and_then(|(argument, least)| {
        let argument: usize = argument.parse().ok()?;
        Some((argument, least.parse().ok()?))
    });
    parsed.ok_or_else(|| format!("{text} is no size"))
}

/// What an argument is, and by which others: `2 arg1=15 in f_owner_ex`.
fn row(tables: &Tables, index: &str, mut rest: &[&str]) -> Result<Row, String> {
    let index = self::number(index)? as usize;
    let mut when = Vec::new();
    while let [condition, behind @ ..] = rest
        && condition.starts_with("arg")
    {
        when.push(argument(tables, condition)?);
        rest = behind;
    }
    let how = match rest {
        ["left-out"] => None,
        rest => Some(self::how(tables, rest)?),
    };
    Ok(Row { index, when, how })
}

/// `arg0=3`, `arg0=3,4`, `arg0>>8=3`; a number may be a name of a list: `arg0=fcntl_commands.F_GETLK`.
fn argument(tables: &Tables, text: &str) -> Result<(usize, u32, Vec<u32>), String> {
    let wrong = || format!("{text} is no condition");
    let (of, is) = text[3..].split_once('=').ok_or_else(wrong)?;
    let (index, shift) = of.split_once(">>").unwrap_or((of, "0"));
    let parsed = index.parse().ok().zip(shift.parse().ok());
    let (index, shift) = parsed.ok_or_else(wrong)?;
    let numbers: Result<Vec<u32>, String> = match is.split_once('.') {
        Some((list, names)) => {
            let list = tables.lists[find_list(tables, list)?].names();
            let number = |name: &str| {
                let found = list.iter().find(|(known, _)| **known == *name);
                found.map(|(_, number)| *number as u32)
            };
            let names = names.split(',');
            names
                .map(|name| number(name).ok_or_else(|| format!("{name} is not in the list")))
                .collect()
        }
        None => is.split(',').map(|is| Ok(number(is)? as u32)).collect(),
    };
    Ok((index, shift, numbers?))
}

fn condition(text: &str) -> Result<When, String> {
    let at = text
        .find([':', '!', '&', '^'])
        .ok_or_else(|| format!("{text} is no condition"))?;
    let (name, numbers) = (text[..at].into(), &text[at + 1..]);
    let numbers: Result<Vec<u64>, String> = numbers
        .split(',')
        .map(|text| number(text).map(|number| number as u64))
        .collect();
    let numbers = numbers?;
    Ok(match &text[at..=at] {
        ":" => When::Is(name, numbers),
        "!" => When::IsNot(name, numbers),
        "&" => When::Has(name, numbers[0]),
        _ => When::Lacks(name, numbers[0]),
    })
}

#[cfg(test)]
mod tests;
