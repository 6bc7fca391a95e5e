//! Who calls whom, as a tree of functions from the outermost inwards.

use std::collections::BTreeMap;

use frames::profile::{Frame, Function, Profile};

/// A function as it was called by those above it.
#[derive(Default)]
pub(super) struct Node<'a> {
    /// Samples in which it was here.
    pub count: u64,
    /// Samples in which it was here and innermost.
    pub own: u64,
    /// The lines of it that ran, or that called what is below, and their samples.
    pub lines: BTreeMap<u32, u64>,
    pub callees: BTreeMap<&'a Function, Node<'a>>,
}

impl<'a> Node<'a> {
    /// Returns the tree of a profile's stacks. Its root is no function; it has all samples.
    pub fn of(profile: &'a Profile) -> Self {
        let mut root = Node::default();
        for (frames, count) in profile.stacks() {
            root.add(&frames, count);
        }
        root
    }

    fn add(&mut self, frames: &[&'a Frame], count: u64) {
        let mut node = self;
        node.count += count;
        for frame in frames {
            node = node.callees.entry(&frame.function).or_default();
            node.count += count;
            *node.lines.entry(frame.line).or_default() += count;
        }
        node.own += count;
    }

    /// Returns the line that has most of its samples.
    pub fn line(&self) -> Option<u32> {
        let line = self.lines.iter().max_by_key(|(_, count)| **count);
        line.map(|(line, _)| *line)
    }
}
