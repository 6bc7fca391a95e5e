//! A flame graph that stands for itself: no script in it, and titles on hovering. Used by `stacks`.
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

use super::form::{StackForm, Stacks, Unit};
use crate::text::printable;

/// A flame graph for a browser.
pub(super) static FORM: StackForm = StackForm {
    name: "svg",
    about: "A flame graph",
    is_text: true,
    repeats: false,
    write,
};

/// Width of the picture and height of a frame in it, in pixels.
const WIDTH: f64 = 1200.0;
const HEIGHT: f64 = 17.0;
/// Narrower frames (in pixels) are left out with all above them: nobody sees them, and their title cannot be reached.
const NARROWEST: f64 = 0.3;
/// Roughly the width of a letter at the font's size, in pixels.
const LETTER: f64 = 7.0;

/// Writes the picture as one SVG document, with what was looked at above it.
fn write(stacks: &dyn Stacks, out: &mut dyn Write) -> io::Result<()> {
    let about = stacks.about();
    let tree = Tree::of(stacks, about.one)?;
    let unit = match about.kinds[about.one].unit {
        Unit::Count => "",
        Unit::Bytes => " bytes",
        Unit::Nanoseconds => " ns",
    };
    let depth = tree.depth() as f64;
    let height = (depth + 2.0) * HEIGHT;
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"monospace\" font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"4\" y=\"13\" fill=\"#000\">{}</text>",
        escaped(&about.title)
    )?;
    tree.draw(out, height - HEIGHT, unit)?;
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
    weight: u64,
    level: usize,
    callees: BTreeMap<String, usize>,
}

impl Tree {
    /// The frames with one of their weights.
    fn of(stacks: &dyn Stacks, one: usize) -> io::Result<Tree> {
        let mut nodes = vec![Node {
            name: "all".to_owned(),
            ..Node::default()
        }];
        stacks.each(&mut |stack| {
            let weight = stack.weights[one];
            if weight == 0 {
                // The picture would be as high as what is not in it.
                return Ok(());
            }
            let mut at = 0;
            nodes[at].weight = nodes[at].weight.saturating_add(weight);
            for frame in stack.texts() {
                let known = nodes[at].callees.get(frame).copied();
                let next = known.unwrap_or_else(|| {
                    nodes.push(Node {
                        name: frame.to_owned(),
                        level: nodes[at].level + 1,
                        ..Node::default()
                    });
                    let number = nodes.len() - 1;
                    nodes[at].callees.insert(frame.to_owned(), number);
                    number
                });
                nodes[next].weight = nodes[next].weight.saturating_add(weight);
                at = next;
            }
            Ok(())
        })?;
        Ok(Tree { nodes })
    }

    fn depth(&self) -> usize {
        self.nodes
            .iter()
            .map(|node| node.level + 1)
            .max()
            .unwrap_or(1)
    }

    /// Draws all, the root's lower edge at `y`; a weight is followed by its unit.
    fn draw(&self, out: &mut dyn Write, y: f64, unit: &str) -> io::Result<()> {
        let total = self.nodes[0].weight.max(1) as f64;
        let mut todo = vec![(&self.nodes[0], 0.0)];
        while let Some((node, x)) = todo.pop() {
            let width = node.weight as f64 / total * WIDTH;
            if width < NARROWEST {
                continue;
            }
            let percent = node.weight as f64 / total * 100.0;
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
                "<g><title>{name}: {}{unit} ({percent:.1}%)</title><rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{:.1}\" \
                 fill=\"{}\" stroke=\"#fff\" stroke-width=\"0.5\"/><text x=\"{:.1}\" y=\"{:.1}\">{label}</text></g>",
                node.weight,
                HEIGHT - 1.0,
                color(&node.name),
                x + 2.0,
                y + 12.0
            )?;
            let mut left = x;
            for callee in node.callees.values().map(|&callee| &self.nodes[callee]) {
                todo.push((callee, left));
                left += callee.weight as f64 / total * WIDTH;
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
    use super::super::form::SAMPLES;
    use super::super::form::tests::{BYTES, Seen, seen, shown, stack};
    use super::super::form::{Frame, Stack};
    use super::*;

    #[test]
    fn a_picture_escapes_names_and_is_as_wide_as_often_seen() {
        let picture = shown(&FORM, &seen());
        assert!(
            picture.contains("t &amp; u") && picture.contains("a&lt;b&gt;: 2 (66.7%)"),
            "{picture}"
        );
        assert_eq!(picture.matches("<rect x=").count(), 5);
        assert!(
            picture.contains("width=\"800.0\"") && picture.contains("width=\"400.0\""),
            "{picture}"
        );
        let held = Seen::new(BYTES, vec![stack("a", &[8])]);
        let picture = shown(&FORM, &held);
        assert!(picture.contains("a: 8 bytes (100.0%)"), "{picture}");
    }

    #[test]
    fn a_picture_is_as_high_as_what_is_in_it() {
        let seen = vec![stack("a b", &[1]), stack("a b c d e f", &[0])];
        let seen = shown(&FORM, &Seen::new(SAMPLES, seen));
        let alone = shown(&FORM, &Seen::new(SAMPLES, vec![stack("a b", &[1])]));
        assert_eq!(seen, alone);
    }

    #[test]
    fn a_stack_deeper_than_our_own_is_drawn() {
        let frames = (0..100_000).map(|depth| Frame::named(format!("f{depth}")));
        let deep = Stack {
            frames: frames.collect(),
            weights: vec![1],
            ..Stack::default()
        };
        let deep = Seen::new(SAMPLES, vec![deep]);
        assert!(shown(&FORM, &deep).contains("f99999"));
    }
}
