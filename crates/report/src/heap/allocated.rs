//! What the VM has allocated for objects beside their slots, by kind, and what is left of malloc's memory in use: that is nobody's of these.
//! Used by `html`, `rss::saved`, `json` and others.

use std::io::{self, Write};

use heap::{About, Allocated};

use crate::Style;
use crate::columns::{Line, Tone, aligned, written};
use crate::figures::{grouped, size};
use crate::text::printable;

/// What is left when what objects have is taken away.
const REST: &str =
    "of none of these objects: C libraries and extensions, tables and code of the VM's";

/// What of malloc's memory in use objects do not have; `None`: nobody knows.
fn rest(about: &About) -> Option<u64> {
    let taken = about.allocated.iter().map(|one| one.in_malloc);
    let taken = taken.fold(0, u64::saturating_add);
    Some(about.memory.malloc?.saturating_sub(taken))
}

/// The sentence above the rows.
fn title(about: &About) -> String {
    match about.memory.malloc {
        Some(bytes) => format!(
            "of the {} that it has from malloc, its objects have beside their slots",
            size(bytes)
        ),
        None => "allocated for objects beside their slots".into(),
    }
}

/// A row of a page: of malloc's, asked for, objects, and whose it is.
pub(super) type Row = (u64, Option<u64>, Option<u64>, String);

/// The title of a page and its rows; empty where nothing is known.
pub(super) fn page(about: &About, top: usize) -> (String, Vec<Row>) {
    if about.allocated.is_empty() {
        return (String::new(), Vec::new());
    }
    let (shown, more) = cut(&about.allocated, top);
    let rows = shown.iter().chain(&more);
    let rows = rows.map(|one| {
        (
            one.in_malloc,
            Some(one.bytes),
            Some(one.objects),
            printable(&one.kind).into_owned(),
        )
    });
    let rest = rest(about).map(|bytes| (bytes, None, None, REST.to_owned()));
    (title(about), rows.chain(rest).collect())
}

/// The rows that are shown, and the sum of the others.
fn cut(all: &[Allocated], top: usize) -> (&[Allocated], Option<Allocated>) {
    let (shown, others) = all.split_at(top.min(all.len()));
    let more = (!others.is_empty()).then(|| Allocated {
        kind: format!("{} more kinds", grouped(others.len() as u64)),
        objects: others.iter().map(|one| one.objects).sum(),
        bytes: others.iter().map(|one| one.bytes).sum(),
        in_malloc: others.iter().map(|one| one.in_malloc).sum(),
    });
    (shown, more)
}

/// Writes them as a table, with an empty line before; nothing where nothing is known.
pub(crate) fn table(
    out: &mut dyn Write,
    about: &About,
    top: usize,
    style: &Style,
) -> io::Result<()> {
    let (title, rows) = page(about, top);
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    written(out, &title, Tone::Head, style)?;
    let heads = ["malloc's", "asked for", "objects"].map(str::to_owned);
    let mut lines = vec![Line::words(heads.into(), "kind", Tone::Head)];
    for (in_malloc, bytes, objects, whose) in rows {
        let cells = vec![
            size(in_malloc),
            bytes.map_or_else(String::new, size),
            objects.map_or_else(String::new, grouped),
        ];
        lines.push(Line::row(cells, whose, Tone::Plain, Vec::new()));
    }
    aligned(out, &lines, style)
}

/// A row for each kind, and one for the rest, for programs.
pub(crate) fn rows(about: &About) -> Vec<answer::heap::Allocated<'_>> {
    let kinds = about.allocated.iter().map(|one| answer::heap::Allocated {
        kind: Some(&one.kind),
        objects: Some(one.objects),
        bytes: Some(one.bytes),
        in_malloc: one.in_malloc,
    });
    let rest = rest(about).filter(|_| !about.allocated.is_empty());
    let rest = rest.map(|in_malloc| answer::heap::Allocated {
        kind: None,
        objects: None,
        bytes: None,
        in_malloc,
    });
    kinds.chain(rest).collect()
}
