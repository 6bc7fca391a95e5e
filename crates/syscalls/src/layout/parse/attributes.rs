//! Attributes of netlink, and which of them a family has.
//!
//! | Attribute | |
//! |---|---|
//! | `T`, `wide T`, `short T` | a value; a number of as many bytes as there are; a value in eight bytes at most |
//! | `str`, `text`, `typed` | text that ends with NUL; as far as its NUL; as the member `type` of the struct has it |
//! | `many T`, `many T LIST` | as many values as there is room for, with their names |
//! | `rest T`, `cut T 8`, `legible T` | bytes behind a value; a struct as far as it goes, 8 bytes at least; text where there is no room for the value |
//! | `exact T T` | the value whose size is that of the attribute |
//! | `said NAME gre:nest:gre_data` | by the text in the attribute `NAME` before it |
//! | `nest NAME`, `with T NAME`, `hops T NAME` | attributes; behind a value; behind each of structs that begin with their length |
//! | `address`, `hardware`, `via`, `options`, `conditions` | forms of their own (`Attribute`) |

use super::names::find_list;
use super::types::ty;
use crate::layout::types::{Attribute, Attributes, Diagnosis, Tables};

pub fn attributes(tables: &mut Tables, name: &str) -> usize {
    if let Some(index) = tables.attribute_names.get(name) {
        return *index;
    }
    tables.attributes.push(Attributes::default());
    let index = tables.attributes.len() - 1;
    tables.attribute_names.insert(name.into(), index);
    index
}

pub fn attribute(tables: &mut Tables, words: &[&str]) -> Result<Attribute, String> {
    Ok(match *words {
        ["str"] => Attribute::String,
        ["text"] => Attribute::Text,
        ["typed"] => Attribute::Typed,
        ["address"] => Attribute::Address,
        ["hardware"] => Attribute::Hardware,
        ["with", text, name] => Attribute::With(ty(tables, text)?, attributes(tables, name)),
        ["nest", name] => Attribute::Nest(attributes(tables, name)),
        ["options"] => Attribute::Options,
        ["via"] => Attribute::Via,
        ["conditions"] => Attribute::Conditions,
        ["many", text] => Attribute::Many(ty(tables, text)?, None),
        ["many", text, list] => Attribute::Many(ty(tables, text)?, Some(find_list(tables, list)?)),
        ["hops", text, name] => Attribute::Hops(ty(tables, text)?, attributes(tables, name)),
        ["rest", text] => Attribute::Rest(ty(tables, text)?),
        ["legible", text] => Attribute::Legible(ty(tables, text)?),
        ["cut", text, least] => {
            let least = least.parse().map_err(|_| format!("{least} is no size"))?;
            Attribute::Cut(ty(tables, text)?, least)
        }
        ["exact", ref types @ ..] => {
            let types: Result<_, String> = types.iter().map(|of| ty(tables, of)).collect();
            Attribute::Exact(types?)
        }
        ["said", name, ref kinds @ ..] => {
            let mut known = Vec::new();
            for kind in kinds {
                let words: Vec<&str> = kind.split(':').collect();
                let (name, what) = words.split_first().ok_or("a kind has a name")?;
                known.push(((*name).into(), attribute(tables, what)?));
            }
            Attribute::Said(name.into(), known)
        }
        ["short", text] => Attribute::Short(ty(tables, text)?),
        ["wide", text] => Attribute::Wide(ty(tables, text)?),
        [text] => Attribute::Value(ty(tables, text)?),
        _ => return Err(format!("{} is no attribute", words.join(" "))),
    })
}

/// `AF_BRIDGE=ifla_bridge *=ifla_af`: attributes that the family of the message chooses.
pub fn families(tables: &mut Tables, name: &str, rows: &[&str]) -> Result<(), String> {
    let index = attributes(tables, name);
    for row in rows {
        let (family, of) = row
            .split_once('=')
            .ok_or_else(|| format!("{row} is no row"))?;
        let family = match family {
            "*" => None,
            family => Some(self::family(tables, family)?),
        };
        let of = attributes(tables, of);
        tables.attributes[index].families.push((family, of));
    }
    Ok(())
}

/// `AF_INET,AF_INET6 request inet_diag_req_v2 inet_diag_req`
pub fn diagnosis(
    tables: &mut Tables,
    families: &str,
    what: Diagnosis,
    rest: &[&str],
) -> Result<(), String> {
    let [text, rest @ ..] = rest else {
        return Err("a struct, then attributes".into());
    };
    let of = ty(tables, text)?;
    let attributes = rest.first().map(|name| attributes(tables, name));
    for family in families.split(',') {
        let family = self::family(tables, family)?;
        let row = (of.clone(), attributes);
        tables.diagnoses.insert((family, what), row);
    }
    Ok(())
}

fn family(tables: &Tables, name: &str) -> Result<u8, String> {
    for list in ["address_families", "rtnl_families"] {
        let Ok(list) = find_list(tables, list) else {
            continue;
        };
        let names = tables.lists[list].names();
        if let Some((_, number)) = names.iter().find(|(known, _)| **known == *name) {
            return Ok(*number as u8);
        }
    }
    Err(format!("{name} is no family"))
}

/// `AF_INET 16 sockaddr_in`, `AF_BLUETOOTH=4,6 4 sockaddr_hci`: an address of a socket, with the lengths that it has.
pub fn address(tables: &mut Tables, family: &str, least: &str, text: &str) -> Result<(), String> {
    let number = |text: &str| {
        text.parse::<u64>()
            .map_err(|_| format!("{text} is no length"))
    };
    let (name, lengths) = family.split_once('=').unwrap_or((family, ""));
    let lengths = lengths.split(',').filter(|length| !length.is_empty());
    let lengths: Result<Vec<u64>, String> = lengths.map(number).collect();
    let family = self::family(tables, name)?;
    let of = ty(tables, text)?;
    tables
        .addresses
        .push((family.into(), lengths?, number(least)?, of));
    Ok(())
}
