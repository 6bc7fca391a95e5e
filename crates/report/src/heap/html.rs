//! One HTML page with everything in it (`page`). Used by `heap`.
//!
//! It holds the largest rows of each list and pages of the objects that retain most. However long the names of
//! a heap are, paths and pages of objects take 8 MB at most: those that have no room are left out, and their number is said.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, Write};

use heap::answers::Answers;
use heap::answers::groups::Group;
use heap::answers::paths::Step;
use heap::answers::tree::{Limits, Node, nodes};
use heap::{Dominator, Edge, EdgeName};
use serde::Serialize;

use super::format::{Format, Options};
use super::{allocated, suspects, table, words};
use crate::Writes;
use crate::page;
use crate::text::{printable, shortened};

/// For a browser, a ticket, or whoever has no lancet.
pub static FORMAT: Format = Format {
    writes: Writes::text("html", "One HTML page, for a browser without network"),
    rows: 300,
    most_objects: u64::MAX,
    shows_memory: true,
    write,
};

/// So many objects have pages.
const OBJECTS: usize = 1000;
/// So many references of each are shown, in either direction.
const REFERENCES: usize = 25;
/// Rows of a list, whatever `--top` says.
const ROWS: usize = 1000;
/// Texts are shortened to so many characters.
const LONGEST: usize = 200;
/// Steps of a path.
const STEPS: usize = 30;

/// Bytes that paths and pages of objects may take.
const ROOM: usize = 8 << 20;

/// By what, type, address, retained bytes.
type Held = (String, String, String, u64);

/// A reference to an object: its name, and from whom it comes.
type Back = (EdgeName, u32);

#[derive(Serialize)]
struct Page {
    who: String,
    sums: String,
    bytes: u64,
    notes: Vec<String>,
    findings: Vec<String>,
    /// Of resident memory: in memory, by its part, in swap, what for.
    memory: Vec<(u64, u64, u64, String)>,
    /// What was allocated beside slots: a sentence, and rows.
    allocated: (String, Vec<allocated::Row>),
    suspects: Vec<Suspect>,
    born: Option<Fresh>,
    tree: Vec<Branch>,
    types: Rows,
    kinds: Rows,
    sites: Rows,
    owners: Rows,
    /// Garbage: objects, bytes, how many are in cycles and have finalizers, type.
    garbage: Vec<(u64, u64, u64, u64, String)>,
    /// Stacks: retained bytes, thread or object, its address.
    stacks: Vec<(u64, String, String)>,
    texts: Vec<Text>,
    /// Classes of one name: how many, retained bytes, name.
    classes: Vec<(u64, u64, String)>,
    sparse: Vec<Sparse>,
    objects: BTreeMap<String, Object>,
}

/// Equal texts: bytes that all but one of them take, how many, how many of these are frozen, length, what they say, address of one.
type Text = (u64, u64, u64, u64, String, String);

/// Arrays and hashes of one type with room to spare: bytes of that room, how many, entries, entries that there is room for, type.
type Sparse = (u64, u64, u64, u64, String);

#[derive(Serialize)]
struct Suspect {
    text: String,
    path: Vec<Held>,
}

/// What was made while births were watched: how much, and who holds it.
#[derive(Serialize)]
struct Fresh {
    text: String,
    holders: Vec<Suspect>,
}

/// A node of the tree: type, objects, retained and own bytes, address of the largest, what is below.
#[derive(Serialize)]
struct Branch {
    t: String,
    n: u64,
    r: u64,
    o: u64,
    a: String,
    b: Vec<Branch>,
}

/// Rows of objects, bytes, retained bytes and a name; and what was left out: rows, objects, bytes.
#[derive(Serialize)]
struct Rows {
    rows: Vec<(u64, u64, u64, String)>,
    rest: Option<(u64, u64, u64)>,
}

/// An object's page: type, bytes, retained, site, contents, dominator, path, references from and to it, and how many of
/// these were left out.
#[derive(Serialize)]
struct Object {
    t: String,
    b: u64,
    r: u64,
    s: Option<String>,
    c: Option<String>,
    d: Option<(String, String)>,
    p: Vec<Held>,
    f: Vec<Held>,
    fm: u64,
    k: Vec<Held>,
    km: u64,
}

fn write(out: &mut dyn Write, answers: &Answers, options: &Options) -> io::Result<()> {
    page::write(out, &page(answers, options), include_str!("page/heap.js"))
}

/// A text as the page shows it.
fn shown(text: &str) -> String {
    shortened(&printable(text), LONGEST).into_owned()
}

fn page(answers: &Answers, options: &Options) -> Page {
    let (analysis, snapshot) = (answers.analysis, answers.analysis.snapshot());
    let top = options.top.min(ROWS);
    let show = Show {
        answers,
        options,
        room: Cell::new(ROOM),
    };
    let all = analysis.living().bytes;
    let limits = Limits {
        least: (all / 1000).max(1),
        levels: 30,
    };
    let site = |line: Option<heap::Site>| {
        line.map_or("(line unknown)".to_owned(), |line| {
            words::site(snapshot, line)
        })
    };
    let memory = &snapshot.about().memory;
    let (suspects, born) = (show.suspects(top), show.born(top));
    let (objects, without) = show.objects();
    let missing = (without > 0).then(|| {
        format!("{without} objects that would have a page here have none, because names of this heap are so long that there is no room")
    });
    let notes = words::first(answers)
        .into_iter()
        .chain(missing)
        .chain(words::losses(snapshot))
        .chain(snapshot.about().notes.iter().cloned());
    Page {
        who: shown(&table::who(answers)),
        sums: shown(&table::sums(answers)),
        bytes: all,
        notes: notes.take(top).map(|note| shown(&note)).collect(),
        findings: memory.findings.iter().map(|text| shown(text)).collect(),
        memory: memory
            .rows
            .iter()
            .map(|row| (row.rss, row.pss, row.swap, shown(&row.text)))
            .collect(),
        allocated: allocated::page(snapshot.about(), top),
        suspects,
        born,
        tree: nodes(analysis, limits)
            .iter()
            .map(|node| show.branch(node))
            .collect(),
        types: rows(&answers.types, top, |name| words::text(snapshot, *name)),
        kinds: rows(&answers.kinds, top, |name| words::text(snapshot, *name)),
        sites: rows(&answers.sites, top, |line| site(*line)),
        owners: rows(&answers.owners, top, |owner| {
            owner.clone().unwrap_or_else(|| site(None))
        }),
        garbage: show.garbage(top),
        stacks: show.stacks(top),
        texts: show.texts(top),
        classes: show.classes(top),
        sparse: show.sparse(top),
        objects,
    }
}

fn rows<K>(groups: &[Group<K>], top: usize, name: impl Fn(&K) -> String) -> Rows {
    let rows = groups.iter().take(top);
    let rows = rows.map(|group| {
        (
            group.objects,
            group.bytes,
            group.retained,
            shown(&name(&group.key)),
        )
    });
    let rest = groups.get(top..).unwrap_or_default();
    Rows {
        rows: rows.collect(),
        rest: (!rest.is_empty()).then(|| {
            let objects = rest.iter().map(|group| group.objects).sum();
            (
                rest.len() as u64,
                objects,
                rest.iter().map(|group| group.bytes).sum(),
            )
        }),
    }
}

struct Show<'a> {
    answers: &'a Answers<'a>,
    options: &'a Options,
    /// Bytes that are left of [`ROOM`].
    room: Cell<usize>,
}

impl Show<'_> {
    /// Counts a text of a path or page against the room for these.
    fn counted(&self, text: String) -> String {
        // `<` and quotes are escaped.
        let escaped = text.matches(['<', '"', '\\']).count() * 5;
        let taken = text.len() + escaped;
        self.room.set(self.room.get().saturating_sub(taken));
        text
    }

    fn has_room(&self) -> bool {
        self.room.get() > 0
    }

    fn address(&self, object: u32) -> String {
        format!("{:#x}", self.answers.analysis.snapshot().address(object))
    }

    fn object(&self, object: u32) -> String {
        shown(&words::object(self.answers.analysis.snapshot(), object))
    }

    fn held(&self, by: &str, object: u32) -> Held {
        let retained = self.answers.analysis.retained(object);
        // Beside the texts: punctuation, an address and a number.
        self.room.set(self.room.get().saturating_sub(48));
        (
            self.counted(shown(by)),
            self.counted(self.object(object)),
            self.address(object),
            retained,
        )
    }

    /// The path to an object; of a long one the end, and nothing where there is no room left.
    fn path(&self, object: u32) -> Vec<Held> {
        if !self.has_room() {
            return Vec::new();
        }
        self.held_by(&self.answers.paths.to(object))
    }

    /// The last steps of a path, from one object to the next.
    fn held_by(&self, steps: &[Step]) -> Vec<Held> {
        let snapshot = self.answers.analysis.snapshot();
        let end = &steps[steps.len().saturating_sub(STEPS)..];
        let held = end
            .iter()
            .map(|step| self.held(&words::via(snapshot, step.via), step.object));
        held.collect()
    }

    fn suspects(&self, top: usize) -> Vec<Suspect> {
        let suspects = self.answers.suspects.iter().take(top);
        let shown = suspects.map(|suspect| {
            let steps = suspects::steps(self.answers, suspect);
            let shown_steps = if self.has_room() { &steps[..] } else { &[] };
            Suspect {
                text: shown(&suspects::suspect(self.answers, suspect)),
                path: self.held_by(shown_steps),
            }
        });
        shown.collect()
    }

    fn born(&self, top: usize) -> Option<Fresh> {
        let born = self.answers.born.as_ref()?;
        let holders = born.holders.iter().take(top);
        let holders = holders.map(|holder| Suspect {
            text: shown(&words::holder(self.answers, holder)),
            path: self.path(holder.example),
        });
        Some(Fresh {
            text: shown(&words::born(self.answers, born)),
            holders: holders.collect(),
        })
    }

    fn garbage(&self, top: usize) -> Vec<(u64, u64, u64, u64, String)> {
        let snapshot = self.answers.analysis.snapshot();
        let types = self.answers.garbage.types.iter().take(top);
        let rows = types.map(|one| {
            let name = shown(&words::text(snapshot, one.name));
            (one.objects, one.bytes, one.in_cycles, one.finalizers, name)
        });
        rows.collect()
    }

    fn stacks(&self, top: usize) -> Vec<(u64, String, String)> {
        let stacks = self.answers.stacks.iter().take(top);
        let rows = stacks.map(|stack| match stack.object {
            Some(object) => (stack.retained, self.object(object), self.address(object)),
            None => {
                let name = format!("stack of thread {}", stack.thread);
                (stack.retained, name, String::new())
            }
        });
        rows.collect()
    }

    fn texts(&self, top: usize) -> Vec<Text> {
        let snapshot = self.answers.analysis.snapshot();
        let texts = self.answers.texts.iter().take(top);
        let rows = texts.map(|one| {
            let length = snapshot.length(one.object).unwrap_or(0);
            let contents = words::contents(snapshot, one.object, self.options.contents);
            let made = one
                .site
                .map(|(line, _)| format!(", made at {}", words::site(snapshot, line)));
            let text = words::object(snapshot, one.object) + &contents + &made.unwrap_or_default();
            let address = self.address(one.object);
            (
                one.wasted,
                one.objects,
                one.frozen,
                length,
                shown(&text),
                address,
            )
        });
        rows.collect()
    }

    fn classes(&self, top: usize) -> Vec<(u64, u64, String)> {
        let snapshot = self.answers.analysis.snapshot();
        let classes = self.answers.classes.iter().take(top);
        let rows = classes.map(|one| {
            let name = shown(&words::text(snapshot, one.name));
            (one.classes, one.retained, name)
        });
        rows.collect()
    }

    fn sparse(&self, top: usize) -> Vec<Sparse> {
        let snapshot = self.answers.analysis.snapshot();
        let sparse = self.answers.sparse.iter().take(top);
        let rows = sparse.map(|one| {
            let name = shown(&words::text(snapshot, one.name));
            (one.wasted, one.objects, one.length, one.capacity, name)
        });
        rows.collect()
    }

    fn branch(&self, node: &Node) -> Branch {
        let snapshot = self.answers.analysis.snapshot();
        Branch {
            t: match node.objects {
                1 => shown(&words::placed(self.answers, node.largest)),
                _ => shown(&words::text(snapshot, node.name)),
            },
            n: node.objects,
            r: node.retained,
            o: node.own,
            a: self.address(node.largest),
            b: node.below.iter().map(|node| self.branch(node)).collect(),
        }
    }

    /// The objects that have pages, those that retain most and those on the paths to suspects; and how many of these found no room.
    fn objects(&self) -> (BTreeMap<String, Object>, usize) {
        let chosen = self.chosen();
        let (analysis, snapshot) = (self.answers.analysis, self.answers.analysis.snapshot());
        let mut back: HashMap<u32, (Vec<Back>, u64)> = HashMap::new();
        for from in (0..snapshot.len() as u32).filter(|object| analysis.is_living(*object)) {
            for edge in snapshot
                .edges(from)
                .filter(|edge| chosen.contains(&edge.target))
            {
                let (list, left) = back.entry(edge.target).or_default();
                match list.len() < REFERENCES {
                    true => list.push((edge.name, from)),
                    false => *left += 1,
                }
            }
        }
        let mut order: Vec<u32> = chosen.into_iter().collect();
        order.sort_by_key(|object| (std::cmp::Reverse(analysis.retained(*object)), *object));
        let mut pages = BTreeMap::new();
        for object in &order {
            if !self.has_room() {
                break;
            }
            let from = back.remove(object).unwrap_or_default();
            pages.insert(self.address(*object), self.page(*object, from));
        }
        let without = order.len() - pages.len();
        (pages, without)
    }

    fn chosen(&self) -> BTreeSet<u32> {
        let (analysis, snapshot) = (self.answers.analysis, self.answers.analysis.snapshot());
        let living = (0..snapshot.len() as u32).filter(|object| analysis.is_living(*object));
        let mut largest: Vec<u32> = living.collect();
        let key = |object: &u32| (std::cmp::Reverse(analysis.retained(*object)), *object);
        if largest.len() > OBJECTS {
            largest.select_nth_unstable_by_key(OBJECTS, key);
            largest.truncate(OBJECTS);
        }
        let mut chosen: BTreeSet<u32> = largest.into_iter().collect();
        let suspects = self.answers.suspects.iter().filter_map(suspects::example);
        let born = self.answers.born.iter().flat_map(|born| &born.holders);
        let born = born
            .take(self.options.top.min(ROWS))
            .map(|holder| holder.example);
        for object in suspects.chain(born) {
            let steps = self.answers.paths.to(object);
            chosen.extend(steps.iter().rev().take(STEPS).map(|step| step.object));
        }
        chosen
    }

    fn page(&self, object: u32, (from, km): (Vec<Back>, u64)) -> Object {
        let (analysis, snapshot) = (self.answers.analysis, self.answers.analysis.snapshot());
        let mut edges: Vec<Edge> = snapshot.edges(object).collect();
        let left = edges.len().saturating_sub(REFERENCES);
        edges.sort_by_key(|edge| std::cmp::Reverse(analysis.retained(edge.target)));
        let shown_edges = edges.iter().take(REFERENCES);
        let contents = snapshot.contents(object).filter(|_| self.options.contents);
        Object {
            t: self.counted(self.object(object)),
            b: snapshot.bytes(object),
            r: analysis.retained(object),
            s: snapshot
                .site(object)
                .map(|site| self.counted(shown(&words::site(snapshot, site)))),
            c: contents.map(|id| self.counted(shown(&words::text(snapshot, id)))),
            d: match analysis.dominator(object) {
                Dominator::Object(by) => Some((self.counted(self.object(by)), self.address(by))),
                _ => None,
            },
            p: self.path(object),
            f: shown_edges
                .map(|edge| self.held(&words::edge(snapshot, edge.name), edge.target))
                .collect(),
            fm: left as u64,
            k: from
                .iter()
                .map(|(name, from)| self.held(&words::edge(snapshot, *name), *from))
                .collect(),
            km,
        }
    }
}
