//! Who calls whom, with the share of the samples in each, the dear ways first.
//!
//! ```text
//! 100.0%  <main> (app.rb:2)
//!  60.0%    show (orders.rb:12)
//!  60.0%      total (cart.rb:31)
//! ```

use std::io::{self, Write};

use frames::profile::{Function, Profile};

use super::calls::Node;
use super::format::{Format, Head};
use super::words::{called, share, summary};

/// A tree of calls.
pub(super) static FORMAT: Format = Format {
    name: "tree",
    about: "Who calls whom, from the outermost function inwards",
    is_json: false,
    is_text: true,
    write,
};

/// Ways with a smaller share are left out, and what they have together is said.
const SMALLEST: f64 = 1.0;

/// A line of the tree that is still to be written.
struct Open<'n, 'a> {
    function: &'a Function,
    node: &'n Node<'a>,
    depth: usize,
}

fn write(profile: &Profile, out: &mut dyn Write, head: &Head) -> io::Result<()> {
    writeln!(out, "{}\n", summary(profile, head))?;
    let root = Node::of(profile);
    let mut left = 0;
    let mut open = Vec::new();
    add_callees(&root, 0, profile, &mut open, &mut left);
    while let Some(Open {
        function,
        node,
        depth,
    }) = open.pop()
    {
        let name = called(function, node.line());
        let (part, indent) = (share(node.count, profile), 2 * depth);
        writeln!(out, "{part:>6.1}%  {:indent$}{name}", "")?;
        add_callees(node, depth + 1, profile, &mut open, &mut left);
    }
    if left != 0 {
        let part = share(left, profile);
        writeln!(out, "{part:>6.1}%  in calls of less than {SMALLEST} % each")?;
    }
    Ok(())
}

/// Adds what a node calls, so that the dearest comes first when it is taken from the end; what is too small is added to `left`.
fn add_callees<'n, 'a>(
    node: &'n Node<'a>,
    depth: usize,
    profile: &Profile,
    open: &mut Vec<Open<'n, 'a>>,
    left: &mut u64,
) {
    let mut callees: Vec<Open> = node
        .callees
        .iter()
        .map(|(function, node)| Open {
            function,
            node,
            depth,
        })
        .collect();
    callees.sort_by_key(|callee| callee.node.count);
    let is_small = |callee: &Open| share(callee.node.count, profile) < SMALLEST;
    let small = callees.iter().filter(|callee| is_small(callee));
    *left += small.map(|callee| callee.node.count).sum::<u64>();
    callees.retain(|callee| !is_small(callee));
    open.extend(callees);
}

#[cfg(test)]
mod tests {
    use super::super::words::tests::{frame, profile, written};
    use super::*;

    #[test]
    fn dear_ways_come_first_and_small_ones_are_summed() {
        let mut profile = profile();
        for _ in 0..30 {
            for _ in 0..30 {
                profile.add(vec![frame("<main>", 1), frame("wide", 8)]);
            }
        }
        profile.add(vec![frame("<main>", 1), frame("seldom", 8)]);
        assert_eq!(
            written(&FORMAT, &profile),
            "10 looks in 0.1 s: 91.1 threads ran, 0.0 waited for a processor and 1.0 slept, on average\n\n \
             100.0%  <main> (/srv/app/cart.rb:1)\n  \
             98.8%    wide (/srv/app/cart.rb:8)\n   \
             1.1%  in calls of less than 1 % each\n"
        );
    }
}
