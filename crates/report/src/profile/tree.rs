//! Who calls whom, with the share of the samples in each, the dear ways first. Used by `profile`.
//!
//! ```text
//! 100.0%  <main> (app.rb:2)
//!  60.0%    show (orders.rb:12)
//!  60.0%      total (cart.rb:31)
//! ```

use std::io::{self, Write};

use frames::profile::Profile;

use super::calls::Calls;
use super::format::{Format, Head};
use super::words::{called, share, summary};
use crate::Writes;

/// A tree of calls.
pub(super) static FORMAT: Format = Format {
    writes: Writes::text(
        "tree",
        "Who calls whom, from the outermost function inwards",
    ),
    write,
};

/// Ways with a smaller share are left out, and what they have together is said.
const SMALLEST: f64 = 1.0;

fn write(profile: &Profile, out: &mut dyn Write, head: &Head) -> io::Result<()> {
    writeln!(out, "{}\n", summary(profile, head))?;
    let calls = Calls::of(profile);
    let mut left = 0;
    // What is still to be written, with how deep it is; the next one is the last.
    let mut open = vec![(0, 0)];
    while let Some((at, depth)) = open.pop() {
        let node = &calls.nodes[at];
        if let Some(function) = node.function {
            let name = called(function, Some(node.line));
            let (part, indent) = (share(node.count, profile), 2 * (depth - 1));
            writeln!(out, "{part:>6.1}%  {:indent$}{name}", "")?;
        }
        for callee in node.callees.iter().rev() {
            let count = calls.nodes[*callee].count;
            match share(count, profile) < SMALLEST {
                true => left += count,
                false => open.push((*callee, depth + 1)),
            }
        }
    }
    if left != 0 {
        let part = share(left, profile);
        writeln!(out, "{part:>6.1}%  in calls of less than {SMALLEST} % each")?;
    }
    Ok(())
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
