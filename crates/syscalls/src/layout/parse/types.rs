//! Types: `u32`, `e32.LIST`, `T[4:used]`, `*T`, `NAME(a,b)`. Used by `arguments`, `attributes`, `structs` and others.

use super::names::{LONGEST_TEXT, find_list};
use crate::layout::types::{Form, Length, Tables, Text, Ty};

/// Parses a type of the language; an error says in words what is wrong with the text.
pub fn ty(tables: &Tables, text: &str) -> Result<Ty, String> {
    if let Some(of) = text.strip_prefix('~') {
        return Ok(Ty::Changing(Box::new(ty(tables, of)?)));
    }
    if let Some(of) = text.strip_prefix('*') {
        return Ok(Ty::Pointer(Box::new(ty(tables, of)?)));
    }
    if let Some(rest) = text.strip_suffix(']') {
        let at = rest
            .rfind('[')
            .ok_or_else(|| format!("{text} does not open"))?;
        let (of, length) = (&rest[..at], &rest[at + 1..]);
        let (places, used) = match length.split_once(':') {
            Some((places, used)) => (places, Some(used.into())),
            None => (length, None),
        };
        let (places, names) = match places.split_once('@') {
            Some((places, list)) => (places, Some(find_list(tables, list)?)),
            None => (places, None),
        };
        let (places, open) = match places.strip_suffix('+') {
            Some(places) => (places, true),
            None => (places, false),
        };
        let places = match places {
            "" => 0,
            places => places
                .parse()
                .map_err(|_| format!("{places} is no number"))?,
        };
        let length = Length {
            places,
            used,
            names,
            open,
        };
        return Ok(match of {
            "str" => Ty::Text(Text::String, length),
            "brief" => Ty::Text(Text::Brief, length),
            "label" => Ty::Text(Text::Label, length),
            "hex" => Ty::Text(Text::Hex, length),
            "bytes" => Ty::Text(Text::Bytes, length),
            of => Ty::Array(Box::new(ty(tables, of)?), length),
        });
    }
    if let "text" | "path" = text {
        let kind = match text {
            "text" => Text::String,
            _ => Text::Label,
        };
        return Ok(Ty::Text(kind, Length::of(LONGEST_TEXT)));
    }
    let (name, list) = match text.split_once('.') {
        _ if text.contains('(') => (text, None),
        Some((name, list)) => (name, Some(find_list(tables, list)?)),
        None => (text, None),
    };
    if let Some(found) = scalar(name, list) {
        return Ok(found);
    }
    let mut customs = tables.customs.iter();
    if let Some(custom) = customs.find(|custom| custom.name == name) {
        return Ok(Ty::Custom(custom, list));
    }
    let (name, only): (&str, Option<Box<[Box<str>]>>) =
        match name.strip_suffix(')').and_then(|rest| rest.split_once('(')) {
            Some((name, only)) => (name, Some(only.split(',').map(Into::into).collect())),
            None => (name, None),
        };
    let index = tables.struct_names.get(name).copied();
    let index = index.ok_or_else(|| format!("{text} is no type"))?;
    if let Some(only) = &only {
        let of = tables.structure(index);
        if let Some(name) = only
            .iter()
            .find(|name| !matches!(&***name, "--" | "...") && of.member(name).is_none())
        {
            return Err(format!("{text}: there is no member {name}"));
        }
    }
    Ok(Ty::Struct(index, only))
}

fn scalar(name: &str, list: Option<usize>) -> Option<Ty> {
    let size = match name.get(1..)? {
        "8" => 1,
        "16" => 2,
        "32" => 4,
        "64" => 8,
        _ => return None,
    };
    let form = match (&name[..1], list) {
        ("u", None) => Form::Unsigned,
        ("s", None) => Form::Signed,
        ("x", None) => Form::Hex,
        ("o", None) => Form::Octal,
        ("n", None) => Form::Network,
        ("p", None) => Form::Address,
        ("t", None) => Form::Ticks,
        ("z", None) => Form::Padded,
        ("y", None) => Form::NetworkHex,
        ("e", Some(list)) => Form::Name(list),
        ("c", Some(list)) => Form::CountedName(list),
        ("d", Some(list)) => Form::SignedName(list),
        ("f", Some(list)) => Form::Flags(list),
        ("v", Some(list)) => Form::ToldFlags(list),
        ("w", Some(list)) => Form::ToldName(list),
        _ => return None,
    };
    Some(Ty::Number(size, form))
}
