//! A heap as stacks: who holds whom from the roots down, with bytes.
//!
//! ```text
//! Hash;Order;made at app/order.rb:31 384000
//! Hash 1000
//! ```
//!
//! The last frame is the line that made the objects, where births were watched. Any other frame is all objects of one type that those of the
//! frame before it dominate. One object alone has the reference that holds it behind its type.

use std::io;

use answer::place::Place;
use heap::answers::Answers;
use heap::answers::tree::{Limits, Node, nodes};

use super::format::Format;
use super::words;
use crate::Writes;
use crate::forms::stacks::{self, Frame, Kind, Stack, Stacks, Unit};

/// For all forms that show stacks.
pub static FORMAT: Format = Format {
    writes: Writes::Stacks,
    rows: usize::MAX,
    most_objects: u64::MAX,
    shows_memory: false,
    write: |out, answers, options| options.stacks.write(&Held(answers), out),
};

/// What is counted of objects.
const KINDS: &[Kind] = &[Kind {
    name: "inuse_space",
    unit: Unit::Bytes,
}];
/// Frames that retain less than one in so many parts of all bytes are left to the frame before them.
const PARTS: u64 = 10_000;
/// No flame graph is higher.
const LEVELS: u32 = 100;

/// What is held in a heap.
struct Held<'a>(&'a Answers<'a>);

/// What takes stacks.
type Take<'a> = dyn FnMut(&Stack<'_>) -> io::Result<()> + 'a;

impl Stacks for Held<'_> {
    fn about(&self) -> stacks::About<'_> {
        let about = self.0.analysis.snapshot().about();
        let process = about.command_line.join(" ");
        let what = "who holds the living objects, in bytes";
        let title = format!("{process} (PID {}): {what}", about.pid);
        stacks::About::titled(title, KINDS, 0)
    }

    fn each(&self, take: &mut Take<'_>) -> io::Result<()> {
        let Held(answers) = self;
        let all = answers.analysis.living().bytes;
        let limits = Limits {
            least: (all / PARTS).max(1),
            levels: LEVELS,
        };
        let nodes = nodes(answers.analysis, limits);
        let mut frames = Vec::new();
        for node in &nodes {
            below(answers, node, &mut frames, take)?;
        }
        let shown: u64 = nodes.iter().map(|node| node.retained).sum();
        match all.saturating_sub(shown) {
            0 => Ok(()),
            rest => hand_on(&mut vec![Frame::named("(smaller)")], rest, take),
        }
    }
}

/// Hands on a stack of these frames.
fn hand_on(frames: &mut Vec<Frame<'static>>, bytes: u64, take: &mut Take<'_>) -> io::Result<()> {
    let stack = Stack {
        frames: std::mem::take(frames),
        weights: vec![bytes],
        ..Stack::default()
    };
    let taken = take(&stack);
    *frames = stack.frames;
    taken
}

/// Hands on the stacks of a node and those below it; `frames` is the way to it.
fn below(
    answers: &Answers,
    node: &Node,
    frames: &mut Vec<Frame<'static>>,
    take: &mut Take<'_>,
) -> io::Result<()> {
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
    frames.push(Frame::named(name));
    let mut own = node.own;
    for (line, bytes) in &node.made {
        let text = format!("made at {}", words::site(snapshot, *line));
        frames.push(Frame {
            place: Place::new(words::text(snapshot, line.file), line.line, text.clone()),
            text: text.into(),
        });
        hand_on(frames, *bytes, take)?;
        frames.pop();
        own = own.saturating_sub(*bytes);
    }
    hand_on(frames, own, take)?;
    for node in &node.below {
        below(answers, node, frames, take)?;
    }
    frames.pop();
    Ok(())
}
