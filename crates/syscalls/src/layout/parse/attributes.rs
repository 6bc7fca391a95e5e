//! Attributes of netlink, and which of them a family has. Used by `later`.
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
//! | `address`, `hardware`, `via`, `options`, `conditions`, `command` | forms of their own (`Attribute`) |

use super::names::find_list;
use super::types::ty;
use super::words;
use crate::layout::types::{Attribute, Attributes, Diagnosis, Generic, Netlink, Tables};
use foldhash::HashMap;

/// Understands what is said of netlink, and of addresses of sockets.
pub fn netlink(tables: &Tables, lines: &[&'static str]) -> Result<Netlink, String> {
    let mut reader = Reader {
        tables,
        all: Netlink::default(),
    };
    let mut open = None;
    for line in lines {
        let words = words(line);
        let read = match line.starts_with(' ') {
            true => reader.member(open, &words),
            false => reader.begin(&words).map(|of| open = of),
        };
        read.map_err(|wrong| format!("{line}: {wrong}"))?;
    }
    Ok(reader.all)
}

/// Reads the lines of netlink one after the other.
struct Reader<'t> {
    tables: &'t Tables,
    all: Netlink,
}

impl Reader<'_> {
    /// Returns the attributes whose members follow, if any do.
    fn begin(&mut self, words: &[&'static str]) -> Result<Option<usize>, String> {
        match *words {
            ["message", kinds, text, attributes] => self.message(kinds, text, attributes)?,
            ["requests", asks, ref names @ ..] => {
                let rows = names.iter().map(|name| (*name, asks));
                self.all.requests.extend(rows);
            }
            ["address", family, least, text] => self.address(family, least, text)?,
            ["families", name, ref rows @ ..] => self.families(name, rows)?,
            ["generic", name, sent, received, ref rest @ ..] => {
                let attributes = rest.first().map(|name| self.attributes(name));
                self.all.generic.push(Generic {
                    name,
                    commands: [
                        find_list(self.tables, sent)?,
                        find_list(self.tables, received)?,
                    ],
                    attributes,
                    own: HashMap::default(),
                });
            }
            ["commands", attributes, ref names @ ..] => self.commands(attributes, names)?,
            ["diagnosis", families, what, ref rest @ ..] => {
                let what = match what {
                    "request" => Diagnosis::Request,
                    "older" => Diagnosis::OlderRequest,
                    "answer" => Diagnosis::Answer,
                    what => return Err(format!("{what} is no message")),
                };
                self.diagnosis(families, what, rest)?;
            }
            ["attributes", name, ref list @ ..] => {
                let list = list.first().copied().unwrap_or(name);
                let list = find_list(self.tables, list)?;
                let index = self.attributes(name);
                self.all.attributes[index].list = list;
                return Ok(Some(index));
            }
            _ => return Err("not understood".into()),
        }
        Ok(None)
    }

    /// One of the attributes in a line: names, and what they hold.
    fn member(&mut self, open: Option<usize>, words: &[&'static str]) -> Result<(), String> {
        let (Some(index), [names, what @ ..]) = (open, words) else {
            return match words {
                [] => Ok(()),
                _ => Err("a name, then what it holds".into()),
            };
        };
        let what = self.attribute(what)?;
        for name in names.split(',') {
            let of = &mut self.all.attributes[index];
            if name == "*" {
                of.rest = Some(what.clone());
                continue;
            }
            let names = self.tables.lists[of.list].names();
            let found = names.iter().find(|(known, _)| **known == *name);
            let (_, number) = found.ok_or_else(|| format!("{name} is not in the list"))?;
            of.types.insert(*number as u64, what.clone());
        }
        Ok(())
    }

    /// What a message of routing netlink begins with, and which attributes follow.
    fn message(&mut self, kinds: &str, text: &str, attributes: &'static str) -> Result<(), String> {
        let of = ty(self.tables, text)?;
        let attributes = self.attributes(attributes);
        let list = find_list(self.tables, "nl_route_types")?;
        for kind in kinds.split(',') {
            let names = self.tables.lists[list].names();
            let found = names.iter().find(|(known, _)| **known == *kind);
            let (_, number) = found.ok_or_else(|| format!("{kind} is not in the list"))?;
            let message = (of.clone(), attributes);
            self.all.messages.insert(*number as u16, message);
        }
        Ok(())
    }

    /// The place of the attributes of this name, which may be described later.
    fn attributes(&mut self, name: &'static str) -> usize {
        if let Some(index) = self.all.attribute_names.get(name) {
            return *index;
        }
        self.all.attributes.push(Attributes::default());
        let index = self.all.attributes.len() - 1;
        self.all.attribute_names.insert(name, index);
        index
    }

    /// `commands ethtool_rings ETHTOOL_MSG_RINGS_GET …`: the attributes of commands of the family named last.
    fn commands(&mut self, attributes: &'static str, names: &[&'static str]) -> Result<(), String> {
        let attributes = self.attributes(attributes);
        let of = self
            .all
            .generic
            .last_mut()
            .ok_or("no family is named before")?;
        for name in names {
            let mut lists = of.commands.iter().map(|list| &self.tables.lists[*list]);
            if !lists.any(|list| list.names().iter().any(|(known, _)| **known == **name)) {
                return Err(format!("{name} is no command"));
            }
            of.own.insert(name, attributes);
        }
        Ok(())
    }

    fn attribute(&mut self, words: &[&'static str]) -> Result<Attribute, String> {
        let tables = self.tables;
        Ok(match *words {
            ["str"] => Attribute::String,
            ["text"] => Attribute::Text,
            ["typed"] => Attribute::Typed,
            ["address"] => Attribute::Address,
            ["hardware"] => Attribute::Hardware,
            ["with", text, name] => Attribute::With(ty(tables, text)?, self.attributes(name)),
            ["nest", name] => Attribute::Nest(self.attributes(name)),
            ["options"] => Attribute::Options,
            ["via"] => Attribute::Via,
            ["command"] => Attribute::Command,
            ["conditions"] => Attribute::Conditions,
            ["many", text] => Attribute::Many(ty(tables, text)?, None),
            ["many", text, list] => {
                Attribute::Many(ty(tables, text)?, Some(find_list(tables, list)?))
            }
            ["hops", text, name] => Attribute::Hops(ty(tables, text)?, self.attributes(name)),
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
                    let words: Vec<&'static str> = kind.split(':').collect();
                    let (name, what) = words.split_first().ok_or("a kind has a name")?;
                    known.push(((*name).into(), self.attribute(what)?));
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
    fn families(&mut self, name: &'static str, rows: &[&'static str]) -> Result<(), String> {
        let index = self.attributes(name);
        for row in rows {
            let (family, of) = row
                .split_once('=')
                .ok_or_else(|| format!("{row} is no row"))?;
            let family = match family {
                "*" => None,
                family => Some(family_number(self.tables, family)?),
            };
            let of = self.attributes(of);
            self.all.attributes[index].families.push((family, of));
        }
        Ok(())
    }

    /// `AF_INET,AF_INET6 request inet_diag_req_v2 inet_diag_req`
    fn diagnosis(
        &mut self,
        families: &str,
        what: Diagnosis,
        rest: &[&'static str],
    ) -> Result<(), String> {
        let [text, rest @ ..] = rest else {
            return Err("a struct, then attributes".into());
        };
        let of = ty(self.tables, text)?;
        let attributes = rest.first().map(|name| self.attributes(name));
        for family in families.split(',') {
            let family = family_number(self.tables, family)?;
            let row = (of.clone(), attributes);
            self.all.diagnoses.insert((family, what), row);
        }
        Ok(())
    }

    /// `AF_INET 16 sockaddr_in`, `AF_BLUETOOTH=4,6 4 sockaddr_hci`: an address of a socket, with the lengths that it has.
    fn address(&mut self, family: &str, least: &str, text: &str) -> Result<(), String> {
        let number = |text: &str| {
            text.parse::<u64>()
                .map_err(|_| format!("{text} is no length"))
        };
        let (name, lengths) = family.split_once('=').unwrap_or((family, ""));
        let lengths = lengths.split(',').filter(|length| !length.is_empty());
        let lengths: Result<Vec<u64>, String> = lengths.map(number).collect();
        let family = family_number(self.tables, name)?;
        let of = ty(self.tables, text)?;
        self.all
            .addresses
            .push((family.into(), lengths?, number(least)?, of));
        Ok(())
    }
}

fn family_number(tables: &Tables, name: &str) -> Result<u8, String> {
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
