//! Collapsed stacks of retained bytes: who holds whom from the roots down, then a number of bytes. Flame graph scripts,
//! speedscope and others read it.
//!
//! ```text
//! Hash;Order;made at app/order.rb:31 384000
//! Hash 1000
//! ```
//!
//! The last frame is the line that made the objects, where births were watched. Any other frame is all objects of one type that those of the frame before it dominate. One object alone has the reference that
//! holds it behind its type. Frames are separated by `;`, which becomes `:` in names.

use std::io::{self, Write};

use heap::answers::Answers;
use heap::answers::tree::{Limits, Node, nodes};

use super::format::{Format, Options};
use super::words;
use crate::text::printable;

/// For programs that draw flame graphs.
pub static FORMAT: Format = Format {
    name: "folded",
    about: "Collapsed stacks of retained bytes, for flame graphs",
    has_records: false,
    rows: usize::MAX,
    most_objects: u64::MAX,
    shows_memory: false,
    write,
};

/// Frames that retain less than one in so many parts of all bytes are left to the frame before them.
const PARTS: u64 = 10_000;
/// No flame graph is higher.
const LEVELS: u32 = 100;

fn write(out: &mut dyn Write, answers: &Answers, _: &Options) -> io::Result<()> {
    let all = answers.analysis.living().bytes;
    let limits = Limits {
        least: (all / PARTS).max(1),
        levels: LEVELS,
    };
    let nodes = nodes(answers.analysis, limits);
    for node in &nodes {
        stacks(out, answers, node, "")?;
    }
    let shown: u64 = nodes.iter().map(|node| node.retained).sum();
    match all.saturating_sub(shown) {
        0 => Ok(()),
        rest => writeln!(out, "(smaller) {rest}"),
    }
}

fn stacks(out: &mut dyn Write, answers: &Answers, node: &Node, above: &str) -> io::Result<()> {
    let snapshot = answers.analysis.snapshot();
    let mut name = words::text(snapshot, node.name);
    if node.objects == 1 {
        let held = answers.paths.holder(node.largest);
        let held = held.map(|(via, _)| words::via(snapshot, via));
        name = format!(
            "{} ({})",
            words::object(snapshot, node.largest),
            held.unwrap_or_default()
        );
    }
    let stack = format!("{above}{}", printable(&name.replace(';', ":")));
    let mut own = node.own;
    for (line, bytes) in &node.made {
        let made = format!("made at {}", words::site(snapshot, *line));
        writeln!(
            out,
            "{stack};{} {bytes}",
            printable(&made.replace(';', ":"))
        )?;
        own = own.saturating_sub(*bytes);
    }
    if own > 0 {
        writeln!(out, "{stack} {own}")?;
    }
    let above = stack + ";";
    node.below
        .iter()
        .try_for_each(|node| stacks(out, answers, node, &above))
}
