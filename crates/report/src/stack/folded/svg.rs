//! A flame graph that stands for itself: no script in it, and titles on hovering.
//!
//! ```text
//!             ┌──────────────┐┌───────┐
//!             │ write        ││ read  │      innermost
//!             ├──────────────┴┴───────┴──┐
//!             │ run                      │
//!             ├──────────────────────────┴──┐
//!             │ all                         │   width = how often
//!             └─────────────────────────────┘
//! ```

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::format::Format;
use super::stacks::Stacks;
use crate::text::printable;

/// A flame graph for a browser.
pub static FORMAT: Format = Format {
    name: "svg",
    about: "A flame graph",
    has_records: false,
    write,
};

/// Width of the picture and height of a frame in it, in pixels.
const WIDTH: f64 = 1200.0;
const HEIGHT: f64 = 17.0;
/// Narrower frames (in pixels) are left out with all above them: nobody sees them, and their title cannot be reached.
const NARROWEST: f64 = 0.3;
/// Roughly the width of a letter at the font's size, in pixels.
const LETTER: f64 = 7.0;

/// Writes the picture as one SVG document, with `title` above it.
pub fn write(stacks: &Stacks, out: &mut dyn Write, title: &str) -> io::Result<()> {
    let tree = Tree::of(stacks);
    let depth = tree.depth() as f64;
    let height = (depth + 2.0) * HEIGHT;
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"monospace\" font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"4\" y=\"13\" fill=\"#000\">{}</text>",
        escaped(title)
    )?;
    tree.draw(out, height - HEIGHT)?;
    writeln!(out, "</svg>")
}

/// The frames as a tree. In one list, by number: a chain of boxes would be dropped by recursion, and a stack may be
/// deeper than our own.
#[derive(Debug)]
struct Tree {
    nodes: Vec<Node>,
}

/// A frame in the tree, with those it called.
#[derive(Debug, Default)]
struct Node {
    name: String,
    count: u64,
    level: usize,
    callees: BTreeMap<String, usize>,
}

impl Tree {
    fn of(stacks: &Stacks) -> Tree {
        let root = Node {
            name: "all".to_owned(),
            count: stacks.total(),
            ..Node::default()
        };
        let mut nodes = vec![root];
        for (stack, count) in &stacks.counts {
            let mut at = 0;
            for frame in stack.iter() {
                let known = nodes[at].callees.get(frame).copied();
                let next = known.unwrap_or_else(|| {
                    nodes.push(Node {
                        name: frame.clone(),
                        level: nodes[at].level + 1,
                        ..Node::default()
                    });
                    let number = nodes.len() - 1;
                    nodes[at].callees.insert(frame.clone(), number);
                    number
                });
                nodes[next].count += count;
                at = next;
            }
        }
        Tree { nodes }
    }

    fn depth(&self) -> usize {
        self.nodes
            .iter()
            .map(|node| node.level + 1)
            .max()
            .unwrap_or(1)
    }

    /// Draws all, the root's lower edge at `y`.
    fn draw(&self, out: &mut dyn Write, y: f64) -> io::Result<()> {
        let total = self.nodes[0].count.max(1) as f64;
        let mut todo = vec![(&self.nodes[0], 0.0)];
        while let Some((node, x)) = todo.pop() {
            let width = node.count as f64 / total * WIDTH;
            if width < NARROWEST {
                continue;
            }
            let percent = node.count as f64 / total * 100.0;
            let name = escaped(&node.name);
            let room = (width / LETTER) as usize;
            let label: String = match node.name.chars().count() {
                _ if room < 3 => String::new(),
                count if count <= room => name.clone(),
                _ => escaped(
                    &node
                        .name
                        .chars()
                        .take(room - 1)
                        .chain(['…'])
                        .collect::<String>(),
                ),
            };
            let y = y - node.level as f64 * HEIGHT;
            writeln!(
                out,
                "<g><title>{name}: {} ({percent:.1}%)</title><rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{:.1}\" \
                 fill=\"{}\" stroke=\"#fff\" stroke-width=\"0.5\"/><text x=\"{:.1}\" y=\"{:.1}\">{label}</text></g>",
                node.count,
                HEIGHT - 1.0,
                color(&node.name),
                x + 2.0,
                y + 12.0
            )?;
            let mut left = x;
            for callee in node.callees.values().map(|&callee| &self.nodes[callee]) {
                todo.push((callee, left));
                left += callee.count as f64 / total * WIDTH;
            }
        }
        Ok(())
    }
}

/// A warm colour that is the same for a name in every picture (FNV-1a).
fn color(name: &str) -> String {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    format!(
        "rgb({},{},{})",
        205 + hash % 50,
        90 + (hash >> 8) % 120,
        40 + (hash >> 16) % 50
    )
}

fn escaped(text: &str) -> String {
    let text = printable(text);
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::super::stacks::tests::{seen, written};
    use super::*;

    #[test]
    fn a_picture_escapes_names_and_is_as_wide_as_often_seen() {
        let picture = written(|out| write(&seen(), out, "t & u"));
        assert!(
            picture.contains("t &amp; u") && picture.contains("a&lt;b&gt;: 2 (66.7%)"),
            "{picture}"
        );
        assert_eq!(picture.matches("<rect x=").count(), 5);
        assert!(
            picture.contains("width=\"800.0\"") && picture.contains("width=\"400.0\""),
            "{picture}"
        );
    }

    #[test]
    fn a_stack_deeper_than_our_own_is_drawn() {
        let mut stacks = Stacks::default();
        stacks.add((0..100_000).map(|depth| format!("f{depth}")).collect(), 1);
        assert!(written(|out| write(&stacks, out, "deep")).contains("f99999"));
    }
}
