//! Who calls whom, as a tree of functions from the outermost inwards: what `tree` and `html` show. Used by `html` and
//! `tree`.

use std::collections::HashMap;

use frames::profile::{Frame, Function, Profile};

/// A tree in one list, by number: a stack may be deeper than a recursion over it could be, and boxes would take a multiple of the memory.
pub(super) struct Calls<'a> {
    /// The root is the first; it is no function, and has all samples. Who calls stands before whom it calls.
    pub nodes: Vec<Node<'a>>,
}

/// A function as it was called by those above it.
#[derive(Default)]
pub(super) struct Node<'a> {
    /// `None` for the root.
    pub function: Option<&'a Function>,
    /// Samples in which it was here.
    pub count: u64,
    /// Samples in which it was here and innermost.
    pub own: u64,
    /// The line of it that most of these samples have.
    pub line: u32,
    /// Those that it calls, most samples first.
    pub callees: Vec<usize>,
}

impl<'a> Calls<'a> {
    /// Returns the tree of a profile's stacks.
    pub fn of(profile: &'a Profile) -> Self {
        let mut nodes = vec![Node::default()];
        let mut numbers: HashMap<(usize, &Function), usize> = HashMap::new();
        let mut lines: HashMap<(usize, u32), u64> = HashMap::new();
        for (frames, count) in profile.stacks() {
            let mut at = 0;
            nodes[at].count += count;
            for Frame { function, line, .. } in frames {
                let next = *numbers.entry((at, function)).or_insert_with(|| {
                    nodes.push(Node {
                        function: Some(function),
                        ..Node::default()
                    });
                    nodes.len() - 1
                });
                if next + 1 == nodes.len() && nodes[next].count == 0 {
                    nodes[at].callees.push(next);
                }
                at = next;
                nodes[at].count += count;
                *lines.entry((at, *line)).or_default() += count;
            }
            nodes[at].own += count;
        }
        // Of two lines with as many samples the later one, as in the table of functions.
        let mut lines: Vec<_> = lines.into_iter().collect();
        lines.sort_by_key(|((_, line), count)| (*count, *line));
        for ((at, line), _) in lines {
            nodes[at].line = line;
        }
        for at in 0..nodes.len() {
            let mut callees = std::mem::take(&mut nodes[at].callees);
            callees.sort_by_key(|callee| {
                (
                    std::cmp::Reverse(nodes[*callee].count),
                    nodes[*callee].function,
                )
            });
            nodes[at].callees = callees;
        }
        Self { nodes }
    }
}
