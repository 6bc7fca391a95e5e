//! Values of records as rows have them. Used by `rows`, `file` and `pages`.

use twox_hash::XxHash3_128;

use super::schema::Kind;
use crate::forms::record::{Record, Value};

/// Bytes of a text; more are cut off. What all rows of a process say of it is in each of them.
const LONGEST: usize = 1 << 16;
pub(super) const LONGEST_COMMON: usize = 1 << 10;

/// What a cell, a text of a list and a frame take beside their bytes.
const BESIDE: usize = 32;

/// A value in a row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cell {
    Null,
    Integer(i64),
    Flag(bool),
    Text(String),
    Texts(Vec<String>),
    Frames(Vec<Frame>),
}

/// A frame of a stack.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Frame {
    pub function: Option<String>,
    pub file: Option<String>,
    pub line: Option<i64>,
}

impl Cell {
    /// What it takes in memory, about.
    pub fn bytes(&self) -> usize {
        BESIDE
            + match self {
                Cell::Text(text) => text.len(),
                Cell::Texts(texts) => texts.iter().map(|text| BESIDE + text.len()).sum(),
                _ => 0,
            }
    }
}

impl Frame {
    /// The same.
    pub fn bytes(&self) -> usize {
        let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        2 * BESIDE + length(&self.function) + length(&self.file)
    }
}

/// A value as a column of this kind has it; stacks and frames are others.
pub(super) fn cell(kind: Kind, name: &str, record: &Record, value: &Value) -> Cell {
    let cell = match kind {
        _ if name == "record" => Some(Cell::Text(record.kind.clone())),
        Kind::Text => text(value).map(Cell::Text),
        Kind::Integer => integer(value).map(Cell::Integer),
        Kind::Flag => match value {
            Value::Bool(yes) => Some(Cell::Flag(*yes)),
            _ => None,
        },
        Kind::Texts => match value {
            Value::List(all) => {
                let texts = all.iter().map(|one| cut(&in_short(one), LONGEST));
                Some(Cell::Texts(texts.collect()))
            }
            _ => None,
        },
        Kind::Stack | Kind::Frames => None,
    };
    cell.unwrap_or(Cell::Null)
}

/// The number of a stack, made of its frames alone, so that it is the same wherever the stack is seen.
pub(super) fn stack_id(frames: &[Frame]) -> String {
    let mut bytes = Vec::new();
    for frame in frames {
        for text in [&frame.function, &frame.file] {
            // A text and none differ, and no byte of UTF-8 is 0xff.
            bytes.extend_from_slice(text.as_deref().unwrap_or("").as_bytes());
            bytes.push(if text.is_some() { 0xff } else { 0xfe });
        }
        bytes.extend_from_slice(&frame.line.unwrap_or(0).to_le_bytes());
    }
    format!("{:032x}", XxHash3_128::oneshot(&bytes))
}

/// A frame that is a place, or a text.
pub(super) fn frame(value: &Value) -> Frame {
    match value {
        Value::Text(text) => Frame {
            function: Some(cut(text, LONGEST)),
            ..Frame::default()
        },
        place => Frame {
            function: text(place.item("qualified")).or_else(|| text(place.item("function"))),
            file: text(place.item("path")),
            line: integer(place.item("line")),
        },
    }
}

/// An entry of a list in short: the values of its fields but the address, `hash of Hash`.
fn in_short(value: &Value) -> String {
    let said = |name: &str| text(value.item(name));
    match (said("by"), said("type"), said("from"), said("value")) {
        (Some(by), Some(kind), _, _) => format!("{by} → {kind}"),
        (_, _, Some(from), Some(value)) => format!("{from}: {value}"),
        _ => value.cell(),
    }
}

/// The name of the program, without its arguments, which may have secrets.
pub(super) fn program(command: &Value) -> Option<String> {
    let words: Vec<String> = command.items().iter().map(Value::cell).collect();
    Some(crate::text::program(&words).to_owned()).filter(|name| !name.is_empty())
}

pub(super) fn text(value: &Value) -> Option<String> {
    match value {
        Value::Text(text) => Some(cut(text, LONGEST)),
        _ => None,
    }
}

/// The beginning of a text.
pub(super) fn cut(text: &str, longest: usize) -> String {
    let mut end = longest.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

/// A number; one that is larger than a column can have is as large as that can be.
pub(super) fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => Some(i64::try_from(*number).unwrap_or(i64::MAX)),
        _ => None,
    }
}

pub(super) fn count(value: &Value) -> i64 {
    integer(value).unwrap_or(0)
}
