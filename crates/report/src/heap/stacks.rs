//! A heap as stacks: who holds whom from the roots down, with objects and bytes. Used by `heap`.
//!
//! ```text
//! Hash;Order;made at app/order.rb:31 384000
//! Hash 1000
//! ```
//!
//! The last frame is the line that made the objects, where births were watched. Any other frame is all objects of one type that those of the
//! frame before it dominate. One object alone has the reference that holds it behind its type.

use std::io;
use std::time::Duration;

use answer::place::Place;
use heap::Total;
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

/// What is counted of objects, as Go's heap profiles call it.
const KINDS: &[Kind] = &[
    Kind {
        name: "inuse_objects",
        unit: Unit::Count,
    },
    Kind {
        name: "inuse_space",
        unit: Unit::Bytes,
    },
];
/// The number of `inuse_space`.
const BYTES: usize = 1;
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
        let what = "who holds the living objects";
        let all = format!("{process} (PID {}): {what}", about.pid);
        stacks::About {
            process: stacks::Process::new(about.pid, &about.command_line),
            times: stacks::Times {
                began: Some(about.taken_at).filter(|at| *at != 0),
                took: Some(Duration::ZERO),
                period: None,
            },
            comment: Some(all.clone()),
            ..stacks::About::titled(format!("{all}, in bytes"), KINDS, BYTES)
        }
    }

    fn each(&self, take: &mut Take<'_>) -> io::Result<()> {
        let Held(answers) = self;
        let all = answers.analysis.living();
        let limits = Limits {
            least: (all.bytes / PARTS).max(1),
            levels: LEVELS,
        };
        let mut way = Way {
            answers,
            frames: Vec::new(),
            left: all,
            take,
        };
        for node in &nodes(answers.analysis, limits) {
            way.below(node)?;
        }
        match way.left {
            Total {
                objects: 0,
                bytes: 0,
            } => Ok(()),
            rest => way.hand_on(Frame::named("(smaller)"), rest),
        }
    }
}

/// The way from a root to where we are.
struct Way<'a> {
    answers: &'a Answers<'a>,
    frames: Vec<Frame<'static>>,
    /// What was in no stack yet.
    left: Total,
    take: &'a mut Take<'a>,
}

impl Way<'_> {
    /// Hands on the stack of this way and one frame more.
    fn hand_on(&mut self, innermost: Frame<'static>, sum: Total) -> io::Result<()> {
        self.frames.push(innermost);
        let taken = self.hand_on_way(sum);
        self.frames.pop();
        taken
    }

    /// Hands on the stack of this way.
    fn hand_on_way(&mut self, sum: Total) -> io::Result<()> {
        self.left.objects = self.left.objects.saturating_sub(sum.objects);
        self.left.bytes = self.left.bytes.saturating_sub(sum.bytes);
        let stack = Stack {
            frames: std::mem::take(&mut self.frames),
            weights: vec![sum.objects, sum.bytes],
            ..Stack::default()
        };
        let taken = (self.take)(&stack);
        self.frames = stack.frames;
        taken
    }

    /// Hands on the stacks of a node and those below it. The bytes of nodes that are too small are with the node that holds them; as objects of
    /// another type they are not counted there, but where all is that has no frame.
    fn below(&mut self, node: &Node) -> io::Result<()> {
        let snapshot = self.answers.analysis.snapshot();
        self.frames.push(Frame::named(self.name(node)));
        let mut own = Total {
            objects: node.objects,
            bytes: node.own,
        };
        for (line, sum) in &node.made {
            let text = format!("made at {}", words::site(snapshot, *line));
            let made = Frame {
                place: Place::new(words::text(snapshot, line.file), line.line, text.clone()),
                text: text.into(),
            };
            self.hand_on(made, *sum)?;
            own.objects = own.objects.saturating_sub(sum.objects);
            own.bytes = own.bytes.saturating_sub(sum.bytes);
        }
        self.hand_on_way(own)?;
        for node in &node.below {
            self.below(node)?;
        }
        self.frames.pop();
        Ok(())
    }

    /// What the objects of a node are.
    fn name(&self, node: &Node) -> String {
        let snapshot = self.answers.analysis.snapshot();
        if node.objects != 1 {
            return words::text(snapshot, node.name);
        }
        let held = self.answers.paths.holder(node.largest);
        let held = held.map(|(via, _)| words::via(snapshot, via));
        format!(
            "{} ({})",
            words::object(snapshot, node.largest),
            held.unwrap_or_default()
        )
    }
}
