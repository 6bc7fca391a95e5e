//! One HTML page with everything in it (`page`): a flame graph that can be searched, turned over and gone into, and the functions with
//! who calls them and what they call. What threads waited for is in it where the reader asks for it. Used by `profile`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

use frames::profile::{Function, Kind, Mode, Profile, Row};
use serde::Serialize;
use vm::library::within;

use super::calls::Calls;
use super::format::{Format, Head};
use super::table::verdict;
use super::words::{shown as shown_as, summary};
use crate::Writes;
use crate::figures::grouped;
use crate::page;
use crate::text::{printable, shortened};

/// For a browser, a ticket, or whoever has no lancet.
pub(super) static FORMAT: Format = Format {
    writes: Writes::text(
        "html",
        "One HTML page, for a browser without network: a flame graph to go into, functions, callers",
    ),
    write: |profile, out, head| {
        page::write(out, &page(profile, head), include_str!("page/profile.js"))
    },
};

/// So many nodes of the tree are in the page, those with most samples.
const NODES: usize = 100_000;

/// So many functions have their figures in the page, those with most samples.
const ROWS: usize = 2_000;

/// Texts are shortened to so many characters.
const LONGEST: usize = 300;

/// Bytes that names and paths of functions may take.
const ROOM: usize = 4 << 20;

/// What has no room here, as a function.
const LEFT_OUT: &str = "(calls that have no room in this page)";

/// A function: its name, the last part of its file, all of that, whether it is the program's (0), a library's (1), native code (2) or what was
/// waited for (3).
type Named = (String, String, String, u8);

/// A row of the table: function, samples in which it was innermost, and in which it was anywhere, the line at which it was innermost most often
/// (0: none is known), its lines with the samples in which it was innermost at each.
type Figures = (usize, u64, u64, u32, Vec<(u32, u64)>);

/// A node of the tree: number of its caller's node, function, the line that has most samples, samples in which it was innermost.
type Called = (usize, usize, u32, u64);

#[derive(Serialize)]
struct Page {
    who: String,
    sums: String,
    verdict: String,
    notes: Vec<String>,
    functions: Vec<Named>,
    #[serde(flatten)]
    shown: Shown,
    /// The same with what threads waited for, where they did.
    wall: Option<Shown>,
}

/// The samples.
#[derive(Serialize)]
struct Shown {
    samples: u64,
    rows: Vec<Figures>,
    /// The number of the function that stands for calls without room, if there are such.
    left_out: Option<usize>,
    /// Functions that are in no row, and the samples in which these were innermost.
    left: (usize, u64),
    /// The number of a node is its place here, from 1; its caller stands before it, and of those that it calls the ones with more samples
    /// stand before the others. 0 is the root.
    nodes: Vec<Called>,
}

fn page(profile: &Profile, head: &Head) -> Page {
    let has_waits = profile.mode() == Mode::Cpu && profile.waits.counts() != (0, 0);
    let wall = has_waits.then(|| shown_as(profile.clone(), Mode::Wall));
    let left_out = Function {
        name: LEFT_OUT.to_owned(),
        file: String::new(),
        kind: Kind::Native,
    };
    let mut notes: Vec<String> = head
        .about
        .missed
        .iter()
        .map(|missed| printable(&missed.text).into_owned())
        .collect();
    let mut functions = Functions::default();
    let mut shown = |profile| {
        let (shown, missing) = functions.shown(profile, &left_out);
        notes.extend(missing);
        shown
    };
    let (shown, wall) = (shown(profile), wall.as_ref().map(shown));
    Page {
        who: printable(&head.about.who).into_owned(),
        sums: format!(
            "{}; {}",
            summary(profile, head),
            printable(&head.about.cost)
        ),
        verdict: verdict(profile),
        notes,
        functions: functions.named(),
        shown,
        wall,
    }
}

fn kind(row: &Row) -> u8 {
    match (row.function.kind, row.library) {
        (Kind::Wait, _) => 3,
        (Kind::Native, _) => 2,
        (Kind::Script, true) => 1,
        (Kind::Script, false) => 0,
    }
}

/// The functions that rows and nodes name by number, in the order in which they were first named.
#[derive(Default)]
struct Functions<'a> {
    numbers: HashMap<&'a Function, usize>,
    all: Vec<&'a Function>,
    kinds: HashMap<&'a Function, u8>,
}

impl<'a> Functions<'a> {
    fn number(&mut self, function: &'a Function) -> usize {
        *self.numbers.entry(function).or_insert_with(|| {
            self.all.push(function);
            self.all.len() - 1
        })
    }

    fn row(&mut self, row: &Row<'a>) -> Figures {
        let lines = row.lines.iter().map(|(line, own)| (*line, *own));
        let line = row.line().unwrap_or(0);
        (
            self.number(row.function),
            row.own,
            row.total,
            line,
            lines.collect(),
        )
    }

    /// Returns the samples of a profile, and what is to be said of what has no room.
    fn shown(&mut self, profile: &'a Profile, left_out: &'a Function) -> (Shown, Option<String>) {
        let mut rows = profile.functions();
        rows.sort_by_key(|row| Reverse(row.total));
        let rest = rows.get(ROWS..).unwrap_or_default();
        let left = (rest.len(), rest.iter().map(|row| row.own).sum());
        let kinds = rows.iter().map(|row| (row.function, kind(row)));
        self.kinds.extend(kinds);
        rows.truncate(ROWS);
        rows.sort_by_key(|row| (Reverse((row.own, row.total)), row.function));
        let rows = rows.iter().map(|row| self.row(row)).collect();
        let calls = Calls::of(profile);
        let (nodes, missing) = nodes(&calls, left_out, self);
        let shown = Shown {
            samples: profile.samples,
            rows,
            left_out: missing.is_some().then(|| self.number(left_out)),
            left,
            nodes,
        };
        (shown, missing)
    }

    fn named(&self) -> Vec<Named> {
        let mut room = ROOM;
        let mut text = |text: &str| {
            let text = shortened(&printable(text), LONGEST).into_owned();
            match room.checked_sub(text.len()) {
                Some(left) => {
                    room = left;
                    text
                }
                None => "…".to_owned(),
            }
        };
        let named = self.all.iter().map(|function| {
            let kind = self.kinds.get(function).copied().unwrap_or(2);
            let file = within(&function.file);
            (text(&function.name), text(file), text(&function.file), kind)
        });
        named.collect()
    }
}

/// Returns the nodes with most samples, callers first. What a node calls and has no room here is one node below it, and is said.
fn nodes<'a>(
    calls: &Calls<'a>,
    left_out: &'a Function,
    functions: &mut Functions<'a>,
) -> (Vec<Called>, Option<String>) {
    let mut nodes: Vec<Called> = Vec::new();
    // By samples; of equal ones those that came first, so that the same profile has the same page.
    let mut waiting = BinaryHeap::new();
    let add = |waiting: &mut BinaryHeap<_>, at: usize, number: usize| {
        for callee in &calls.nodes[at].callees {
            waiting.push((calls.nodes[*callee].count, Reverse((number, *callee))));
        }
    };
    add(&mut waiting, 0, 0);
    while nodes.len() < NODES
        && let Some((_, Reverse((caller, at)))) = waiting.pop()
    {
        let node = &calls.nodes[at];
        let function = functions.number(node.function.unwrap_or(left_out));
        nodes.push((caller, function, node.line, node.own));
        add(&mut waiting, at, nodes.len());
    }
    let mut left: BTreeMap<usize, u64> = BTreeMap::new();
    let missing = waiting.len() as u64;
    for (count, Reverse((caller, _))) in waiting {
        *left.entry(caller).or_default() += count;
    }
    let samples: u64 = left.values().sum();
    for (caller, count) in left {
        nodes.push((caller, functions.number(left_out), 0, count));
    }
    let says = (missing != 0).then(|| {
        format!(
            "{} calls, in {} samples, have no room in the graph and the tree of this page, with what is below them: those with the fewest samples",
            grouped(missing),
            grouped(samples)
        )
    });
    (nodes, says)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::super::words::tests::{profile, waiting, written};
    use super::*;

    fn data(profile: &Profile) -> Value {
        let page = written(&FORMAT, profile);
        let (_, data) = page.split_once("id=\"data\">").unwrap();
        serde_json::from_str(data.split_once("</script>").unwrap().0).unwrap()
    }

    #[test]
    fn every_sample_is_in_the_tree_and_in_the_table_once() {
        let data = data(&profile());
        assert_eq!(data["samples"], 10);
        let sum = |rows: &Value, at: usize| -> u64 {
            let rows = rows.as_array().unwrap().iter();
            rows.map(|row| row[at].as_u64().unwrap()).sum()
        };
        assert_eq!(sum(&data["nodes"], 3), 10);
        assert_eq!(sum(&data["rows"], 1), 10);
        // `<main>` calls `show` and `list`, and `total` is called by both.
        let name = |node: &Value| {
            let function = node[1].as_u64().unwrap() as usize;
            data["functions"][function][0].as_str().unwrap().to_owned()
        };
        let nodes = data["nodes"].as_array().unwrap();
        for (number, node) in nodes.iter().enumerate() {
            let caller = node[0].as_u64().unwrap() as usize;
            assert!(caller <= number);
            let caller = caller.checked_sub(1).map(|caller| name(&nodes[caller]));
            let expected: &[Option<&str>] = match name(node).as_str() {
                "<main>" => &[None],
                "show" | "list" => &[Some("<main>")],
                "total" => &[Some("show"), Some("list")],
                "rb_pack" => &[Some("total")],
                other => panic!("{other}"),
            };
            assert!(expected.contains(&caller.as_deref()), "{node}");
        }
    }

    #[test]
    fn a_page_holds_what_a_hostile_name_says_as_text() {
        let mut profile = Profile::default();
        let mut frame = super::super::words::tests::frame("</script><script>alert(1)", 1);
        frame.function.file = "\u{1b}[31m.rb".to_owned();
        profile.add(vec![frame]);
        let page = written(&FORMAT, &profile);
        assert!(!page.contains("<script>alert"), "{page}");
        assert!(!page.contains('\u{1b}'));
        let data = data(&profile);
        assert_eq!(data["functions"][0][0], "</script><script>alert(1)");
    }

    #[test]
    fn what_waits_is_apart() {
        let data = data(&waiting());
        assert_eq!(
            (&data["samples"], &data["wall"]["samples"]),
            (&10.into(), &20.into())
        );
        let kinds = |part: &Value| -> Vec<u64> {
            let nodes = part["nodes"].as_array().unwrap().iter();
            let function = nodes.map(|node| node[1].as_u64().unwrap() as usize);
            function
                .map(|at| data["functions"][at][3].as_u64().unwrap())
                .collect()
        };
        assert!(!kinds(&data).contains(&3) && kinds(&data["wall"]).contains(&3));
    }

    #[test]
    fn the_same_profile_is_the_same_page() {
        assert_eq!(written(&FORMAT, &profile()), written(&FORMAT, &profile()));
    }
}
