//! What one thread's calls were about, by line, and when they were made: the rows and the timeline of a page. Used by `counters`.

use std::cmp::Reverse;
use std::collections::HashMap;

use serde::Serialize;

use super::sums::Stretch;
use super::texts::Texts;

/// So many rows are told, those that took longest, and so many pieces of the timeline.
const ROWS: usize = 300;
const PIECES: usize = 400;
/// The pieces of the timeline that follow one another more closely are one, where they are about the same: nanoseconds.
const GAP: u64 = 2_000;

/// Calls of one group that are about the same and were made by the same line.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// The group of functions.
    pub group: &'static str,
    /// The statement without its values, or what was waited for; null: nothing is told of it.
    pub about: Option<String>,
    /// The line of the application; null: none.
    pub path: Option<String>,
    /// Its number.
    pub line: Option<u32>,
    /// How many calls.
    pub calls: u64,
    /// How long they took, in nanoseconds.
    pub time_ns: u64,
    /// How much of that lies in no call of another group; what SQLite waits for is not of its own.
    pub outer_ns: u64,
    /// The longest.
    pub longest_ns: u64,
    /// Bytes that they have moved, or got.
    pub bytes: u64,
}

/// A piece of the timeline: a call, or several close together.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Piece {
    /// The number of its row.
    pub row: usize,
    /// When it began, in nanoseconds from the first mark on.
    pub at_ns: u64,
    /// How long it took.
    pub time_ns: u64,
}

/// All that is told of a thread's calls.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Details {
    /// The rows, those that took longest first.
    pub rows: Vec<Row>,
    /// The timeline, in its order.
    pub pieces: Vec<Piece>,
    /// How many rows and pieces have no room.
    pub left_out: usize,
    /// How much of the time between the first and the last mark is of the thread's stretches, in nanoseconds.
    pub within_ns: u64,
}

impl Details {
    /// Tells stretches that were counted; `from` is the time of the first mark.
    pub fn of(stretches: &[Stretch], from: u64, within_ns: u64, texts: &Texts) -> Details {
        let mut numbers: HashMap<(&str, u32, u32), usize> = HashMap::new();
        let mut rows: Vec<Row> = Vec::new();
        let mut pieces: Vec<Piece> = Vec::new();
        for stretch in stretches {
            let key = (stretch.group, stretch.about, stretch.line);
            let row = *numbers.entry(key).or_insert_with(|| {
                rows.push(row(stretch, texts));
                rows.len() - 1
            });
            add(&mut rows[row], stretch);
            if stretch.outer != 0 {
                let piece = Piece {
                    row,
                    at_ns: (stretch.end - stretch.outer).saturating_sub(from),
                    time_ns: stretch.outer,
                };
                join(&mut pieces, piece);
            }
        }
        let left_out = rows.len().saturating_sub(ROWS) + pieces.len().saturating_sub(PIECES);
        let pieces = longest(pieces);
        let (rows, pieces) = in_order(rows, pieces);
        Details {
            rows,
            pieces,
            left_out,
            within_ns,
        }
    }
}

fn row(stretch: &Stretch, texts: &Texts) -> Row {
    let place = texts.place(stretch.line);
    Row {
        group: stretch.group,
        about: texts.text(stretch.about).map(str::to_owned),
        path: place.and_then(|place| place.path.clone()),
        line: place.and_then(|place| place.line),
        calls: 0,
        time_ns: 0,
        outer_ns: 0,
        longest_ns: 0,
        bytes: 0,
    }
}

fn add(row: &mut Row, stretch: &Stretch) {
    row.calls += stretch.calls;
    row.time_ns += stretch.time;
    row.outer_ns += stretch.outer.saturating_sub(stretch.waited);
    row.longest_ns = row.longest_ns.max(stretch.time);
    row.bytes = row.bytes.saturating_add(stretch.bytes);
}

fn join(pieces: &mut Vec<Piece>, piece: Piece) {
    if let Some(last) = pieces.last_mut() {
        let end = last.at_ns + last.time_ns;
        if last.row == piece.row && piece.at_ns <= end.saturating_add(GAP) {
            last.time_ns = (piece.at_ns + piece.time_ns).saturating_sub(last.at_ns);
            return;
        }
    }
    pieces.push(piece);
}

/// The longest pieces, in the order of time.
fn longest(mut pieces: Vec<Piece>) -> Vec<Piece> {
    pieces.sort_by_key(|piece| Reverse(piece.time_ns));
    pieces.truncate(PIECES);
    pieces.sort_by_key(|piece| piece.at_ns);
    pieces
}

/// The rows that took longest first, and the pieces of those that are told.
fn in_order(rows: Vec<Row>, pieces: Vec<Piece>) -> (Vec<Row>, Vec<Piece>) {
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by_key(|number| (Reverse(rows[*number].time_ns), *number));
    let mut numbers = vec![usize::MAX; rows.len()];
    for (place, number) in order.iter().enumerate().take(ROWS) {
        numbers[*number] = place;
    }
    let mut rows: Vec<(usize, Row)> = numbers.iter().copied().zip(rows).collect();
    rows.retain(|(place, _)| *place != usize::MAX);
    rows.sort_by_key(|(place, _)| *place);
    let pieces = pieces.into_iter().filter_map(|piece| {
        let row = numbers[piece.row];
        (row != usize::MAX).then_some(Piece { row, ..piece })
    });
    (
        rows.into_iter().map(|(_, row)| row).collect(),
        pieces.collect(),
    )
}
