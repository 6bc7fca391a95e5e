//! The values of a column in a group of rows become pages. Used by `file`.
//!
//! A page has how much of the path to each value is there (definition), for a list before that whether it begins a row's list (repetition), and
//! the values that are there: as numbers of a dictionary where values repeat, else plain.
//!
//! ```text
//! null → 0     [] → 1     [null] → 2     ["a"] → 3      frames: [{line: null}] → 3, [{line: 7}] → 4
//! ```

use std::collections::HashMap;

use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use super::cells::{Cell, Frame};
use super::thrift::{Struct, Type, of_bytes, of_number, varint};

/// Rows of a page.
const PAGE: usize = 10_000;
/// A longer text is no bound of a page: it would stand in the metadata, which is read for each query.
const LONGEST_BOUND: usize = 256;
/// The numbers by which the format knows its encodings.
const PLAIN: i32 = 0;
const LEVELS: i32 = 3;
const DICTIONARY: i32 = 8;

/// A value that is there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Value<'a> {
    Flag(bool),
    Integer(i64),
    Text(&'a str),
}

/// What of a cell is a column of its own in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// All of it.
    Own,
    /// The elements of a list of texts.
    Element,
    /// Of each frame of a list the function, the file, the line.
    Function,
    File,
    Line,
}

/// A column of a group.
pub(super) struct Chunk {
    /// The pages, the dictionary first.
    pub bytes: Vec<u8>,
    /// Where the first page with values begins.
    pub first: usize,
    /// How many levels it has.
    pub levels: usize,
    /// The bytes before they were compressed.
    pub plain: usize,
    /// The encodings in it.
    pub encodings: Vec<i32>,
    /// How many are null.
    nulls: i64,
    /// The least and the greatest.
    bounds: Option<[Vec<u8>; 2]>,
    /// Where pages lie; the places are from the chunk's beginning, and are moved by who knows where that is.
    pub pages: Vec<Location>,
    /// What each page can have.
    pub index: Option<Vec<u8>>,
}

/// Where a page lies.
pub(super) struct Location {
    pub at: usize,
    pub length: usize,
    pub first_row: usize,
}

/// The levels and values of some rows.
#[derive(Default)]
struct Values<'a> {
    repeated: Vec<u32>,
    defined: Vec<u32>,
    all: Vec<Value<'a>>,
}

impl Part {
    /// The definition of a value that is there.
    pub fn whole(self) -> u32 {
        match self {
            Part::Own => 1,
            Part::Element => 3,
            Part::Function | Part::File | Part::Line => 4,
        }
    }

    fn of_frame(self, frame: &Frame) -> Option<Value<'_>> {
        match self {
            Part::Function => frame.function.as_deref().map(Value::Text),
            Part::File => frame.file.as_deref().map(Value::Text),
            _ => frame.line.map(Value::Integer),
        }
    }

    /// Adds what a cell has of it.
    fn add<'a>(self, cell: &'a Cell, values: &mut Values<'a>) {
        let whole = self.whole();
        match (self, cell) {
            (Part::Own, Cell::Flag(yes)) => values.push(0, whole, Some(Value::Flag(*yes))),
            (Part::Own, Cell::Integer(number)) => {
                values.push(0, whole, Some(Value::Integer(*number)))
            }
            (Part::Own, Cell::Text(text)) => values.push(0, whole, Some(Value::Text(text))),
            (Part::Element, Cell::Texts(all)) if !all.is_empty() => {
                for (at, text) in all.iter().enumerate() {
                    values.push(u32::from(at != 0), whole, Some(Value::Text(text)));
                }
            }
            (Part::Function | Part::File | Part::Line, Cell::Frames(all)) if !all.is_empty() => {
                for (at, frame) in all.iter().enumerate() {
                    values.push(u32::from(at != 0), whole, self.of_frame(frame));
                }
            }
            (_, Cell::Texts(_) | Cell::Frames(_)) => values.push(0, 2, None),
            _ => values.push(0, 1, None),
        }
    }
}

impl<'a> Values<'a> {
    /// A value whose definition is `whole` where it is there, and one less where it is not.
    fn push(&mut self, repeated: u32, whole: u32, value: Option<Value<'a>>) {
        self.repeated.push(repeated);
        self.defined
            .push(if value.is_some() { whole } else { whole - 1 });
        self.all.extend(value);
    }
}

/// The column of a group of rows.
pub(super) fn chunk(part: Part, rows: &[&Cell]) -> Chunk {
    let pages: Vec<Values<'_>> = rows
        .chunks(PAGE)
        .map(|rows| {
            let mut values = Values::default();
            rows.iter().for_each(|cell| part.add(cell, &mut values));
            values
        })
        .collect();
    let all: Vec<Value<'_>> = pages
        .iter()
        .flat_map(|page| page.all.iter().copied())
        .collect();
    let mut chunk = Chunk {
        bytes: Vec::new(),
        first: 0,
        levels: pages.iter().map(|page| page.defined.len()).sum(),
        plain: 0,
        encodings: vec![LEVELS],
        nulls: pages.iter().map(nulls).sum(),
        bounds: bounds(&all),
        pages: Vec::new(),
        index: index(&pages),
    };
    let dictionary = dictionary(&pages);
    let encoding = if dictionary.is_some() {
        DICTIONARY
    } else {
        PLAIN
    };
    chunk.encodings.push(encoding);
    if let Some((values, _)) = &dictionary {
        chunk.encodings.push(PLAIN);
        let head = Struct::default()
            .integer(1, values.len() as i32)
            .integer(2, PLAIN);
        chunk.page(2, &plain(values), 7, head);
    }
    chunk.first = chunk.bytes.len();
    for (number, page) in pages.iter().enumerate() {
        let mut bytes = Vec::new();
        if part != Part::Own {
            levels(&mut bytes, &page.repeated, 1);
        }
        levels(&mut bytes, &page.defined, part.whole());
        match &dictionary {
            Some((values, numbers)) => {
                let width = bits(values.len() as u32 - 1);
                let numbers: Vec<u32> = page.all.iter().map(|value| numbers[value]).collect();
                bytes.push(width as u8);
                runs(&mut bytes, &numbers, width);
            }
            None => bytes.extend(plain(&page.all)),
        }
        let head = Struct::default()
            .integer(1, page.defined.len() as i32)
            .integer(2, encoding)
            .integer(3, LEVELS)
            .integer(4, LEVELS);
        let at = chunk.bytes.len();
        chunk.page(0, &bytes, 5, head);
        chunk.pages.push(Location {
            at,
            length: chunk.bytes.len() - at,
            first_row: number * PAGE,
        });
    }
    chunk
}

impl Chunk {
    /// What the metadata says of its values.
    pub fn statistics(&self) -> Struct {
        let known = Struct::default().long(3, self.nulls);
        match &self.bounds {
            Some([least, most]) => known.bytes(5, most).bytes(6, least),
            None => known,
        }
    }

    /// Adds a page of this kind, whose own head is this field.
    fn page(&mut self, kind: i32, bytes: &[u8], field: u8, own: Struct) {
        // Below 2 GiB, because the rows of an answer have 1 GiB at most (`rows`): no length is cut here.
        let packed = compress_to_vec(bytes, CompressionLevel::Fastest);
        let head = Struct::default()
            .integer(1, kind)
            .integer(2, bytes.len() as i32)
            .integer(3, packed.len() as i32)
            .inner(field, own)
            .end();
        self.plain += head.len() + bytes.len();
        self.bytes.extend(head);
        self.bytes.extend(packed);
    }
}

/// The values of a group in the order in which they come, with the number of each; `None`: most come once.
fn dictionary<'a>(pages: &[Values<'a>]) -> Option<(Vec<Value<'a>>, HashMap<Value<'a>, u32>)> {
    let (mut all, mut numbers) = (Vec::new(), HashMap::new());
    let values = || pages.iter().flat_map(|page| &page.all);
    for value in values() {
        numbers.entry(*value).or_insert_with(|| {
            all.push(*value);
            all.len() as u32 - 1
        });
    }
    let is_flag = matches!(all.first(), None | Some(Value::Flag(_)));
    (!is_flag && 2 * all.len() <= values().count()).then_some((all, numbers))
}

fn plain(values: &[Value<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(Value::Flag(_)) = values.first() {
        for eight in values.chunks(8) {
            let bit =
                |(at, value): (usize, &Value<'_>)| u8::from(*value == Value::Flag(true)) << at;
            bytes.push(eight.iter().enumerate().map(bit).sum());
        }
        return bytes;
    }
    for value in values {
        match value {
            Value::Flag(_) => {}
            Value::Integer(number) => bytes.extend(number.to_le_bytes()),
            Value::Text(text) => {
                bytes.extend((text.len() as u32).to_le_bytes());
                bytes.extend(text.as_bytes());
            }
        }
    }
    bytes
}

/// How many bits a number up to `most` takes, at least one.
fn bits(most: u32) -> u32 {
    (32 - most.leading_zeros()).max(1)
}

/// Levels up to `most`, behind their length.
fn levels(bytes: &mut Vec<u8>, all: &[u32], most: u32) {
    let mut packed = Vec::new();
    runs(&mut packed, all, bits(most));
    bytes.extend((packed.len() as u32).to_le_bytes());
    bytes.extend(packed);
}

/// Numbers of so many bits: eight and more that are equal as one and their count, others eight by eight, bit by bit.
fn runs(bytes: &mut Vec<u8>, all: &[u32], width: u32) {
    let run = |at: usize| all[at..].iter().take_while(|one| **one == all[at]).count();
    let mut at = 0;
    while at < all.len() {
        let length = run(at);
        if length >= 8 {
            varint(bytes, (length as u64) << 1);
            bytes.extend(&all[at].to_le_bytes()[..width.div_ceil(8) as usize]);
            at += length;
            continue;
        }
        let begin = at;
        while at < all.len() && run(at) < 8 {
            at = all.len().min(at + 8);
        }
        let groups = (at - begin).div_ceil(8);
        varint(bytes, (groups as u64) << 1 | 1);
        let from = bytes.len();
        bytes.resize(from + groups * width as usize, 0);
        for (number, one) in all[begin..at].iter().enumerate() {
            for bit in (0..width).filter(|bit| one >> bit & 1 == 1) {
                let place = number * width as usize + bit as usize;
                bytes[from + place / 8] |= 1 << (place % 8);
            }
        }
    }
}

/// The least and the greatest, as the metadata has them; `None`: there is none, or it is too long.
fn bounds(values: &[Value<'_>]) -> Option<[Vec<u8>; 2]> {
    let bytes = |value: &Value<'_>| match value {
        Value::Flag(yes) => Some(vec![u8::from(*yes)]),
        Value::Integer(number) => Some(number.to_le_bytes().to_vec()),
        Value::Text(text) => (text.len() <= LONGEST_BOUND).then(|| text.as_bytes().to_vec()),
    };
    Some([bytes(values.iter().min()?)?, bytes(values.iter().max()?)?])
}

fn nulls(page: &Values<'_>) -> i64 {
    (page.defined.len() - page.all.len()) as i64
}

/// What each page can have; `None`: it cannot be said of one.
fn index(pages: &[Values<'_>]) -> Option<Vec<u8>> {
    let (mut empty, mut least, mut most) = (Vec::new(), Vec::new(), Vec::new());
    for page in pages {
        let known = match page.all.is_empty() {
            true => Default::default(),
            false => bounds(&page.all)?,
        };
        empty.push(page.all.is_empty());
        least.push(of_bytes(&known[0]));
        most.push(of_bytes(&known[1]));
    }
    let nulls: Vec<Vec<u8>> = pages.iter().map(|page| of_number(nulls(page))).collect();
    let index = Struct::default()
        .flags(1, &empty)
        .list(2, Type::Bytes, &least)
        .list(3, Type::Bytes, &most)
        .integer(4, 0)
        .list(5, Type::Long, &nulls);
    Some(index.end())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the format's specification, and a run.
    #[test]
    fn numbers_are_packed_as_the_format_has_them() {
        let packed = |all: &[u32], width| {
            let mut bytes = Vec::new();
            runs(&mut bytes, all, width);
            bytes
        };
        assert_eq!(packed(&[0, 1, 2, 3, 4, 5, 6, 7], 3), [3, 0x88, 0xc6, 0xfa]);
        assert_eq!(packed(&[4; 10], 3), [20, 4]);
        assert_eq!(packed(&[300; 8], 9), [16, 0x2c, 1]);
        assert_eq!(packed(&[1], 1), [3, 1]);
        assert!(packed(&[], 1).is_empty());
        // A run that begins behind nine others is a run behind sixteen.
        let all = [[0, 1, 0, 1, 0, 1, 0, 1, 0].as_slice(), &[1; 20]].concat();
        assert_eq!(packed(&all, 1), [5, 0xaa, 0xfe, 26, 1]);
    }

    #[test]
    fn a_text_that_is_too_long_is_no_bound() {
        let long = "x".repeat(LONGEST_BOUND + 1);
        assert!(bounds(&[Value::Text("a"), Value::Text(&long)]).is_none());
        assert_eq!(
            bounds(&[Value::Integer(3), Value::Integer(-1)]),
            Some([
                (-1_i64).to_le_bytes().to_vec(),
                3_i64.to_le_bytes().to_vec()
            ])
        );
    }
}
