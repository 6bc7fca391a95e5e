//! Stacks that were seen again and again, as a flame graph and as what makes one.
//!
//! | form | reads like |
//! |---|---|
//! | collapsed | `main;run;write 31`: Brendan Gregg's `flamegraph.pl`, speedscope, many others |
//! | speedscope | <https://www.speedscope.app/file-format-schema.json>, a `sampled` profile |
//! | svg | a picture that stands for itself: no script, titles on hovering |
//!
//! ```text
//!  svg        ┌──────────────┐┌───────┐
//!             │ write        ││ read  │      innermost
//!             ├──────────────┴┴───────┴──┐
//!             │ run                      │
//!             ├──────────────────────────┴──┐
//!             │ all                         │   width = how often
//!             └─────────────────────────────┘
//! ```

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::json;

use crate::text::printable;

/// Width of the picture and height of a frame in it, in pixels.
const WIDTH: f64 = 1200.0;
const HEIGHT: f64 = 17.0;
/// Narrower frames are left out: nobody sees them, and their title cannot be reached.
const NARROWEST: f64 = 0.3;
/// A letter's width at the font's size, roughly.
const LETTER: f64 = 7.0;

/// How often each stack was seen; frames from the outermost to the innermost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stacks {
    counts: BTreeMap<Vec<String>, u64>,
}

impl Stacks {
    /// Adds one sighting, outermost frame first.
    pub fn add(&mut self, stack: Vec<String>) {
        *self.counts.entry(stack).or_default() += 1;
    }

    /// All sightings.
    pub fn total(&self) -> u64 {
        self.counts.values().sum()
    }

    /// One stack a line.
    pub fn collapsed(&self, out: &mut dyn Write) -> io::Result<()> {
        for (stack, count) in &self.counts {
            let frames: Vec<String> = stack
                .iter()
                .map(|frame| printable(frame).replace(';', ":"))
                .collect();
            writeln!(out, "{} {count}", frames.join(";"))?;
        }
        Ok(())
    }

    /// A file for speedscope.
    pub fn speedscope(&self, out: &mut dyn Write, name: &str) -> io::Result<()> {
        let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
        let mut frames = Vec::new();
        let mut samples = Vec::new();
        for stack in self.counts.keys() {
            let sample: Vec<usize> = stack
                .iter()
                .map(|frame| {
                    *numbers.entry(frame).or_insert_with(|| {
                        frames.push(json!({ "name": frame }));
                        frames.len() - 1
                    })
                })
                .collect();
            samples.push(sample);
        }
        let weights: Vec<u64> = self.counts.values().copied().collect();
        let file = json!({
            "$schema": "https://www.speedscope.app/file-format-schema.json",
            "name": name,
            "exporter": "lancet",
            "shared": { "frames": frames },
            "profiles": [{
                "type": "sampled",
                "name": name,
                "unit": "none",
                "startValue": 0,
                "endValue": self.total(),
                "samples": samples,
                "weights": weights,
            }],
        });
        writeln!(out, "{file}")
    }

    /// A picture.
    pub fn svg(&self, out: &mut dyn Write, title: &str) -> io::Result<()> {
        let tree = Tree::of(self);
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
            for frame in stack {
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
    use super::*;

    fn seen() -> Stacks {
        let mut stacks = Stacks::default();
        for stack in [
            vec!["main", "run", "a<b>"],
            vec!["main", "run", "a<b>"],
            vec!["main", "x;y"],
        ] {
            stacks.add(stack.into_iter().map(str::to_owned).collect());
        }
        stacks
    }

    fn written(write: impl Fn(&mut dyn Write) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        write(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn collapsed() {
        assert_eq!(
            written(|out| seen().collapsed(out)),
            "main;run;a<b> 2\nmain;x:y 1\n"
        );
    }

    #[test]
    fn speedscope() {
        let file: serde_json::Value =
            serde_json::from_str(&written(|out| seen().speedscope(out, "p"))).unwrap();
        assert_eq!(file["profiles"][0]["weights"], json!([2, 1]));
        assert_eq!(file["profiles"][0]["samples"], json!([[0, 1, 2], [0, 3]]));
        assert_eq!(file["shared"]["frames"][2]["name"], "a<b>");
        assert_eq!(file["profiles"][0]["endValue"], 3);
    }

    #[test]
    fn svg() {
        let picture = written(|out| seen().svg(out, "t & u"));
        assert!(
            picture.contains("t &amp; u") && picture.contains("a&lt;b&gt;: 2 (66.7%)"),
            "{picture}"
        );
        assert_eq!(picture.matches("<rect x=").count(), 5);
        // As wide as it was often seen.
        assert!(
            picture.contains("width=\"800.0\"") && picture.contains("width=\"400.0\""),
            "{picture}"
        );
    }

    #[test]
    fn a_stack_deeper_than_our_own_is_drawn() {
        let mut stacks = Stacks::default();
        stacks.add((0..100_000).map(|depth| format!("f{depth}")).collect());
        assert!(written(|out| stacks.svg(out, "deep")).contains("f99999"));
    }
}
