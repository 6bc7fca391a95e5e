//! Arguments of system calls, and of the commands of `ioctl`. Used by `later`.

use super::names::find_list;
use super::types::ty;
use super::{number, words};
use crate::layout::types::{After, How, Ioctls, Row, Tables, Ty};

/// Understands rows of a call: `call NAMES INDEX [argN=…] HOW`.
pub fn rows(tables: &Tables, lines: &[&'static str]) -> Result<Vec<Row>, String> {
    let rows = lines.iter().map(|line| {
        let row = match words(line)[..] {
            [_, _, index, ref rest @ ..] => row(tables, index, rest),
            _ => Err("a row has a name, and says which argument".into()),
        };
        row.map_err(|wrong| format!("{line}: {wrong}"))
    });
    rows.collect()
}

/// Understands what is said of commands of `ioctl`.
pub fn ioctls(tables: &Tables, lines: &[&'static str]) -> Result<Ioctls, String> {
    let mut all = Ioctls::default();
    for line in lines {
        ioctl(tables, &mut all, &words(line)).map_err(|wrong| format!("{line}: {wrong}"))?;
    }
    Ok(all)
}

fn ioctl(tables: &Tables, all: &mut Ioctls, words: &[&'static str]) -> Result<(), String> {
    match *words {
        ["number", name, number] => {
            let number = self::number(number)? as u32;
            all.commands.entry(number).or_default().push(name);
            all.numbers.insert(name, number);
        }
        ["ioctl", name, ref how @ ..] => {
            let how = self::how(tables, how)?;
            all.arguments.insert(command_number(all, name)?, how);
        }
        ["opens", place, ref commands @ ..] => {
            let place = match place {
                "result" => None,
                offset => Some(number(offset)? as u32),
            };
            for command in commands {
                all.opened.insert(command_number(all, command)?, place);
            }
        }
        _ => return Err("not understood".into()),
    }
    Ok(())
}

/// The number of a command of `ioctl`, which is named or given.
fn command_number(all: &Ioctls, word: &str) -> Result<u32, String> {
    match all.numbers.get(word) {
        Some(number) => Ok(*number),
        None => Ok(number(word)? as u32),
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
            let member = tables
                .structure(index)
                .member(member)
                .ok_or_else(|| format!("{member} is no member"))?;
            How::Changed(ty(tables, first)?, member.ty.clone(), member.offset)
        }
        _ => return Err(format!("{} is no argument", words.join(" "))),
    })
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
