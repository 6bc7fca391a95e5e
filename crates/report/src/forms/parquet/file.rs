//! Rows become a Parquet file (<https://parquet.apache.org/docs/file-format/>). Used by `export` and `form`.
//!
//! ```text
//! PAR1, columns of each group of rows, what each page can have, where it lies, metadata, its length, PAR1
//! ```
//!
//! The file has statistics of each column and page, so that a query skips what cannot have a row for it; for that the rows are sorted by file and
//! line. The crate `parquet` was tried: it brings 14 crates, with zstd's C library, and three quarters of a minute of a core to each clean build; of all it does
//! this is one way to write. A test has DuckDB read it.

use super::cells::Cell;
use super::pages::{Chunk, Part, chunk};
use super::rows::Rows;
use super::schema::{Column, Kind, SCHEMA, Table};
use super::thrift::{Struct, Type, of_bytes, of_number};

/// Rows of a group: what a reader skips or reads as a whole.
const GROUP: usize = 100_000;

/// The numbers by which the format knows types, repetitions and what a text and a list is.
const OPTIONAL: i32 = 1;
const REPEATED: i32 = 2;
const TEXT: i32 = 0;
const LIST: i32 = 3;
/// zstd.
const CODEC: i32 = 6;

/// A column in the file: one of the table, or a part of its lists.
struct Leaf {
    column: usize,
    part: Part,
    path: Vec<&'static str>,
    kind: i32,
}

/// A chunk that is in the file, where it begins, and where what is said of its pages is.
struct Written {
    chunk: Chunk,
    at: usize,
    index: Option<(usize, usize)>,
    pages: (usize, usize),
}

/// The rows sorted, as the bytes of a file.
pub(super) fn bytes(mut all: Rows) -> Vec<u8> {
    let table = all.table;
    let order: Vec<usize> = sorted_by(table).collect();
    let key = |row: &Vec<Cell>| order.iter().map(|at| row[*at].clone()).collect::<Vec<_>>();
    all.rows.sort_by_cached_key(key);
    let leaves = leaves(table);
    let mut bytes = b"PAR1".to_vec();
    let mut groups: Vec<(usize, Vec<Written>)> = Vec::new();
    for rows in all.rows.chunks(GROUP) {
        let written = leaves.iter().map(|leaf| {
            let cells: Vec<&Cell> = rows.iter().map(|row| &row[leaf.column]).collect();
            let chunk = chunk(leaf.part, &cells);
            let at = bytes.len();
            bytes.extend(&chunk.bytes);
            Written {
                chunk,
                at,
                index: None,
                pages: (0, 0),
            }
        });
        groups.push((rows.len(), written.collect()));
    }
    for one in groups.iter_mut().flat_map(|(_, all)| all) {
        if let Some(index) = one.chunk.index.take() {
            one.index = Some((bytes.len(), index.len()));
            bytes.extend(index);
        }
        let pages = pages(one);
        one.pages = (bytes.len(), pages.len());
        bytes.extend(pages);
    }
    let footer = footer(table, &leaves, &groups);
    bytes.extend(&footer);
    bytes.extend((footer.len() as u32).to_le_bytes());
    bytes.extend(b"PAR1");
    bytes
}

/// The columns by which rows are sorted.
fn sorted_by(table: &Table) -> impl Iterator<Item = usize> {
    ["file", "line"]
        .into_iter()
        .filter_map(|name| table.position(name))
}

/// The columns of the file, in the order of the schema.
fn leaves(table: &Table) -> Vec<Leaf> {
    let mut all = Vec::new();
    for (at, Column { name, kind, .. }) in table.all().enumerate() {
        const BYTES: i32 = 6;
        const LONG: i32 = 2;
        const FLAG: i32 = 0;
        let list = |last: &'static str| vec![*name, "list", "element", last];
        let parts = match kind {
            Kind::Text | Kind::Stack => vec![(Part::Own, vec![*name], BYTES)],
            Kind::Integer => vec![(Part::Own, vec![*name], LONG)],
            Kind::Flag => vec![(Part::Own, vec![*name], FLAG)],
            Kind::Texts => vec![(Part::Element, vec![*name, "list", "element"], BYTES)],
            Kind::Frames => vec![
                (Part::Function, list("function"), BYTES),
                (Part::File, list("file"), BYTES),
                (Part::Line, list("line"), LONG),
            ],
        };
        all.extend(parts.into_iter().map(|(part, path, kind)| Leaf {
            column: at,
            part,
            path,
            kind,
        }));
    }
    all
}

/// Where the pages of a chunk lie.
fn pages(of: &Written) -> Vec<u8> {
    let all = of.chunk.pages.iter().map(|page| {
        let place = Struct::default()
            .size(1, of.at + page.at)
            .integer(2, page.length as i32)
            .size(3, page.first_row);
        place.end()
    });
    let all: Vec<Vec<u8>> = all.collect();
    Struct::default().list(1, Type::Struct, &all).end()
}

/// The metadata.
fn footer(table: &Table, leaves: &[Leaf], groups: &[(usize, Vec<Written>)]) -> Vec<u8> {
    let known = |key: &str, value: &str| {
        let pair = Struct::default()
            .bytes(1, key.as_bytes())
            .bytes(2, value.as_bytes());
        pair.end()
    };
    let about = [
        known("lancet.schema", &SCHEMA.to_string()),
        known("lancet.table", table.name),
    ];
    // Bounds are in the order of the type.
    let orders: Vec<Vec<u8>> = leaves
        .iter()
        .map(|_| Struct::default().inner(1, Struct::default()).end())
        .collect();
    let rows: usize = groups.iter().map(|(rows, _)| rows).sum();
    let all: Vec<Vec<u8>> = groups
        .iter()
        .map(|(rows, written)| group(table, leaves, *rows, written))
        .collect();
    let made_by = format!("lancet version {} (build 0)", env!("CARGO_PKG_VERSION"));
    Struct::default()
        .integer(1, 1)
        .list(2, Type::Struct, &schema(table))
        .size(3, rows)
        .list(4, Type::Struct, &all)
        .list(5, Type::Struct, &about)
        .bytes(6, made_by.as_bytes())
        .list(7, Type::Struct, &orders)
        .end()
}

fn group(table: &Table, leaves: &[Leaf], rows: usize, written: &[Written]) -> Vec<u8> {
    let columns = leaves
        .iter()
        .zip(written)
        .map(|(leaf, one)| column(leaf, one));
    let columns: Vec<Vec<u8>> = columns.collect();
    let sorting = sorted_by(table).map(|at| {
        let by = Struct::default()
            .integer(1, at as i32)
            .flag(2, false)
            .flag(3, true);
        by.end()
    });
    let sorting: Vec<Vec<u8>> = sorting.collect();
    Struct::default()
        .list(1, Type::Struct, &columns)
        .size(2, written.iter().map(|one| one.chunk.plain).sum())
        .size(3, rows)
        .list(4, Type::Struct, &sorting)
        .end()
}

fn column(leaf: &Leaf, one: &Written) -> Vec<u8> {
    let numbers =
        |all: &[i32]| -> Vec<Vec<u8>> { all.iter().map(|one| of_number((*one).into())).collect() };
    let path: Vec<Vec<u8>> = leaf
        .path
        .iter()
        .map(|part| of_bytes(part.as_bytes()))
        .collect();
    let chunk = &one.chunk;
    let mut about = Struct::default()
        .integer(1, leaf.kind)
        .list(2, Type::Integer, &numbers(&chunk.encodings))
        .list(3, Type::Bytes, &path)
        .integer(4, CODEC)
        .size(5, chunk.levels)
        .size(6, chunk.plain)
        .size(7, chunk.bytes.len())
        .size(9, one.at + chunk.first);
    if chunk.first > 0 {
        about = about.size(11, one.at);
    }
    let about = about.inner(12, chunk.statistics());
    let mut column = Struct::default().size(2, 0).inner(3, about);
    column = column.size(4, one.pages.0).integer(5, one.pages.1 as i32);
    if let Some((at, length)) = one.index {
        column = column.size(6, at).integer(7, length as i32);
    }
    column.end()
}

/// The tree of columns, from its root on, each before its children.
fn schema(table: &Table) -> Vec<Vec<u8>> {
    let root = |children: usize| {
        Struct::default()
            .bytes(4, table.name.as_bytes())
            .integer(5, children as i32)
    };
    let mut all = vec![root(table.all().count()).end()];
    for Column { name, kind, .. } in table.all() {
        match kind {
            Kind::Text | Kind::Stack => all.push(text(name)),
            Kind::Integer => all.push(plain(2, name)),
            Kind::Flag => all.push(plain(0, name)),
            Kind::Texts => {
                list(&mut all, name);
                all.push(text("element"));
            }
            Kind::Frames => {
                list(&mut all, name);
                all.push(inner(OPTIONAL, "element", 3).end());
                all.extend([text("function"), text("file"), plain(2, "line")]);
            }
        }
    }
    all
}

fn plain(kind: i32, name: &str) -> Vec<u8> {
    let element = Struct::default().integer(1, kind).integer(3, OPTIONAL);
    element.bytes(4, name.as_bytes()).end()
}

fn text(name: &str) -> Vec<u8> {
    let element = Struct::default().integer(1, 6).integer(3, OPTIONAL);
    let is_text = Struct::default().inner(1, Struct::default());
    let element = element.bytes(4, name.as_bytes()).integer(6, TEXT);
    element.inner(10, is_text).end()
}

fn inner(repetition: i32, name: &str, children: i32) -> Struct {
    let element = Struct::default().integer(3, repetition);
    element.bytes(4, name.as_bytes()).integer(5, children)
}

/// A list, but for its elements.
fn list(all: &mut Vec<Vec<u8>>, name: &str) {
    let is_list = Struct::default().inner(3, Struct::default());
    all.push(
        inner(OPTIONAL, name, 1)
            .integer(6, LIST)
            .inner(10, is_list)
            .end(),
    );
    all.push(inner(REPEATED, "list", 1).end());
}
