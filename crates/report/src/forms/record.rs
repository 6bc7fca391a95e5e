//! A record that was read again, its fields in the order in which they were written. Used by `csv`, `markdown`,
//! `markdown::table` and others.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// A value of JSON.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Null,
    Bool(bool),
    /// A whole number: no record has another.
    Number(i128),
    Text(String),
    List(Vec<Value>),
    Object(Vec<(String, Value)>),
}

/// One record.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Record {
    /// What it is: `process`, `row`.
    pub kind: String,
    /// All else, in its order.
    pub fields: Vec<(String, Value)>,
}

/// What a record is to who reads the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The process that what follows is of.
    Process,
    /// Facts on the answer as a whole: a head, a sum.
    Facts,
    /// One of the rows that the answer consists of.
    Row,
    /// The rows that were cut off.
    Rest,
    /// What was lost; ends the answer.
    Losses,
}

/// The kinds of records that are neither rows nor about processes and losses.
const FACTS: &[&str] = &[
    "allocations",
    "born",
    "descriptors",
    "diff",
    "difference",
    "end",
    "file",
    "fork",
    "growth_total",
    "kernel",
    "ledger",
    "look",
    "looks",
    "loss",
    "malloc",
    "note",
    "own",
    "profile",
    "profile_difference",
    "resident",
    "signal",
    "snapshot",
    "stop",
    "sum",
    "summary",
    "total",
    "used",
    "verdict",
];

impl Record {
    /// Takes a line apart; `None` where it is no record.
    pub fn of(line: &[u8]) -> Option<Self> {
        let Ok(Value::Object(mut fields)) = serde_json::from_slice(line) else {
            return None;
        };
        let at = fields.iter().position(|(name, _)| name == "record")?;
        match fields.remove(at).1 {
            Value::Text(kind) => Some(Record { kind, fields }),
            _ => None,
        }
    }

    /// The value of a field; null where there is none.
    pub fn get(&self, name: &str) -> &Value {
        self.find(name).unwrap_or(&Value::Null)
    }

    /// The value of a field that is there, null too.
    pub fn find(&self, name: &str) -> Option<&Value> {
        let mut fields = self.fields.iter();
        Some(&fields.find(|(field, _)| field == name)?.1)
    }

    /// The value at a path, as [`Value::item`] has each part of it.
    pub fn at(&self, path: &str) -> &Value {
        let (first, rest) = path.split_once('.').unwrap_or((path, ""));
        let parts = rest.split('.').filter(|part| !part.is_empty());
        parts.fold(self.get(first), Value::item)
    }

    /// All its fields as a text, which is the same for the same record.
    pub fn json(&self) -> String {
        Value::Object(self.fields.clone()).json()
    }

    /// The text of a field.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.get(name) {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// What it is to who reads the answer.
    pub fn role(&self) -> Role {
        match self.kind.as_str() {
            "process" => Role::Process,
            "losses" => Role::Losses,
            "rest" => Role::Rest,
            kind if FACTS.contains(&kind) => Role::Facts,
            _ => Role::Row,
        }
    }
}

impl Value {
    /// The value in one cell: a place as `app.rb:12 in show`, a list or another object as JSON; empty for null.
    pub fn cell(&self) -> String {
        match self {
            Value::Null => String::new(),
            Value::Bool(yes) => yes.to_string(),
            Value::Number(number) => number.to_string(),
            Value::Text(text) => text.clone(),
            Value::Object(_) => self.place().unwrap_or_else(|| self.json()),
            Value::List(_) => self.json(),
        }
    }

    /// A place ([`answer::place::Place`]) as text; `None` where the value is none.
    pub fn place(&self) -> Option<String> {
        match self {
            Value::Object(fields) => place(fields),
            _ => None,
        }
    }

    /// What an object has under this name; of a list `0` is the first, and `most` the first of those with most `own`. Null: there is none.
    pub fn item(&self, name: &str) -> &Value {
        let own = |value: &Value| match value.item("own") {
            Value::Number(own) => *own,
            _ => 0,
        };
        let found = match (self, name) {
            (Value::Object(fields), _) => fields
                .iter()
                .find(|(field, _)| field == name)
                .map(|(_, value)| value),
            (Value::List(all), "0") => all.first(),
            (Value::List(all), "most") => all.iter().rev().max_by_key(|one| own(one)),
            _ => None,
        };
        found.unwrap_or(&Value::Null)
    }

    /// What a list has; of all else nothing.
    pub fn items(&self) -> &[Value] {
        match self {
            Value::List(all) => all,
            _ => &[],
        }
    }

    fn json(&self) -> String {
        match self {
            Value::List(all) => {
                let all: Vec<String> = all.iter().map(Value::json).collect();
                format!("[{}]", all.join(","))
            }
            Value::Object(fields) => {
                let fields = fields.iter();
                let fields: Vec<String> = fields
                    .map(|(name, value)| format!("{}:{}", quoted(name), value.json()))
                    .collect();
                format!("{{{}}}", fields.join(","))
            }
            Value::Null => "null".to_owned(),
            Value::Text(text) => quoted(text),
            Value::Bool(_) | Value::Number(_) => self.cell(),
        }
    }
}

fn quoted(text: &str) -> String {
    let mut out = Vec::new();
    crate::json::string(&mut out, text.as_bytes());
    String::from_utf8_lossy(&out).into_owned()
}

fn place(fields: &[(String, Value)]) -> Option<String> {
    let is_place = fields
        .iter()
        .all(|(name, _)| matches!(name.as_str(), "path" | "line" | "function" | "qualified"));
    let get = |of: &str| {
        fields
            .iter()
            .find(|(name, _)| name == of)
            .map(|(_, value)| value)
    };
    let (Some(path), Some(line), Some(function)) = (get("path"), get("line"), get("function"))
    else {
        return None;
    };
    if !is_place {
        return None;
    }
    let mut text = path.cell();
    if *line != Value::Null {
        text += &format!(":{}", line.cell());
    }
    match get("qualified").unwrap_or(function).cell() {
        name if name.is_empty() => {}
        name if text.is_empty() => text = name,
        name => text += &format!(" in {name}"),
    }
    Some(text)
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Reader)
    }
}

/// Reads any value.
struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON without fractions")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, yes: bool) -> Result<Value, E> {
        Ok(Value::Bool(yes))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Value, E> {
        Ok(Value::Number(number.into()))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Number(number.into()))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        while let Some(one) = items.next_element()? {
            all.push(one);
        }
        Ok(Value::List(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        while let Some(one) = fields.next_entry()? {
            all.push(one);
        }
        Ok(Value::Object(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page lists what CSV leaves out, and each of them is a record that there is.
    #[test]
    fn what_is_no_row_is_on_the_page_and_in_the_schema() {
        let page = include_str!("../../../../docs/output.md");
        let listed: Vec<String> = FACTS.iter().map(|kind| format!("`{kind}`")).collect();
        let sentence = format!("and these: {}. ", listed.join(", "));
        assert!(page.contains(&sentence), "{sentence}");
        let schema = include_str!("../../../../docs/json-schema.json");
        for kind in FACTS {
            assert!(schema.contains(&format!("\"const\": \"{kind}\"")), "{kind}");
        }
    }
}
