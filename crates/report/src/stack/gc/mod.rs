//! What the stacks of a process cost each garbage collection, and which frames are to blame. Used by
//! `lancet::commands::stack::live` and `lancet::commands::stack::measure`.
//!
//! A conservative collector looks at every word of every stack, whatever the frame it lies in is for. A word that looks
//! like a reference costs about seven times as much as another, and keeps alive what it points to.

pub mod json;
pub mod text;

use std::time::Duration;

use frames::live::stack::Stack;

use super::Subject;

/// How long collections of a process took to mark, each list the quickest first.
#[derive(Debug, Default)]
pub struct Collections {
    /// Those of young objects alone.
    pub minor: Vec<Duration>,
    /// Those of all objects.
    pub full: Vec<Duration>,
}

impl Collections {
    /// The two kinds with their names, without those of which none came.
    fn kinds(&self) -> impl Iterator<Item = Timed> {
        [("minor", &self.minor), ("full", &self.full)]
            .into_iter()
            .filter_map(|(kind, took)| {
                Some(Timed {
                    kind,
                    count: took.len(),
                    least: *took.first()?,
                    median: *took.get(took.len() / 2)?,
                    most: *took.last()?,
                })
            })
    }
}

/// The collections of one kind, summed up.
struct Timed {
    kind: &'static str,
    count: usize,
    least: Duration,
    median: Duration,
    most: Duration,
}

/// What one stack is predicted to cost.
pub struct Scanned<'a> {
    stack: &'a Stack,
    /// While what is marked with it is in the processor's cache, as when one collection follows another.
    cost: Duration,
    /// If none of it is.
    uncached: Duration,
}

/// Returns the stacks that a collector scans, with their costs, in the order in which they were read; none where no
/// collector that lancet knows scans any.
pub fn scanned<'a>(subject: &Subject<'a>) -> Vec<Scanned<'a>> {
    let stacks = subject.look.stacks.iter();
    stacks
        .filter_map(|stack| {
            let [cost, uncached] = stack.cost()?;
            Some(Scanned {
                stack,
                cost,
                uncached,
            })
        })
        .collect()
}

/// Returns what all of them are predicted to cost, with what is marked with them in the processor's cache, and without.
fn total(scanned: &[Scanned<'_>]) -> [Duration; 2] {
    let sum = |of: fn(&Scanned<'_>) -> Duration| scanned.iter().map(of).sum();
    [sum(|one| one.cost), sum(|one| one.uncached)]
}
