//! Structs: their members, where these lie, and when they are written. Used by `later`.

use super::types::ty;
use super::{number, words};
use crate::layout::types::{Length, Member, Struct, Tables, Text, Ty, When};

/// Understands a struct: `struct NAME [SIZE] [parts] [zeros] [room=argN] [sized=argN…]`, and its members, a line each.
pub fn structure(tables: &Tables, lines: &[&'static str]) -> Result<Struct, String> {
    let mut of = Struct {
        align: 1,
        ..Struct::default()
    };
    let Some((first, rest)) = lines.split_first() else {
        return Ok(of);
    };
    begins(&mut of, words(first).get(2..).unwrap_or_default())?;
    let fixed = of.size > 0;
    for line in rest {
        let words = words(line);
        if words.is_empty() {
            continue;
        }
        let member = member(tables, &of, &words);
        let member = member.map_err(|wrong| format!("{}: {wrong}", line.trim()))?;
        let (size, align) = member.ty.layout(tables);
        of.align = of.align.max(align);
        if !fixed {
            let end = member.offset + size;
            of.size = of.size.max(end.next_multiple_of(of.align));
        }
        of.members.push(member);
    }
    Ok(of)
}

/// What stands behind the name of a struct.
fn begins(of: &mut Struct, words: &[&str]) -> Result<(), String> {
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
    Ok(())
}

fn member(tables: &Tables, of: &Struct, words: &[&str]) -> Result<Member, String> {
    let members = &of.members;
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
    if let Some(from) = since {
        let room = of.room.ok_or("since needs room=")?;
        let from = match from {
            None => offset,
            Some(name) => {
                let member = of.member(name);
                member.ok_or_else(|| format!("{name} is no member"))?.offset
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
