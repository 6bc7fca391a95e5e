//! What each row of a page of the browser says. Used by `screen`.

use heap::answers::groups::Group;
use heap::answers::paths::Via;
use report::figures::{grouped, plural, size};
use report::heap::{suspects, words};

use super::page::{Item, Node, Page};
use super::view::{View, totals};

/// A row as it is painted: what it retains, its own bytes, how many objects, and what it is.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// The figures of its columns: bytes retained, bytes of its own, number of objects. A figure of
    /// 0 is an empty text.
    pub figures: [String; 3],
    /// What the row is called.
    pub name: String,
}

impl View<'_> {
    /// What a row says.
    pub fn row(&self, page: &Page, item: Item) -> Row {
        let answers = self.answers;
        let snapshot = answers.analysis.snapshot();
        let named = |name: String| Row {
            name,
            ..Row::default()
        };
        match item {
            Item::Heading(heading) => named(heading.into()),
            Item::Suspect(number) => {
                let suspect = &answers.suspects[number];
                let name = suspects::suspect(answers, suspect);
                figures([suspect.retained, 0, 0], name)
            }
            Item::Type(number) => group(&answers.types[number], |name| self.text(*name)),
            Item::Line(number) => group(&answers.sites[number], |site| self.site(*site)),
            Item::Garbage(number) => {
                let one = &answers.garbage.types[number];
                let name = format!(
                    "{}, {} in cycles, {} with a finalizer",
                    self.text(one.name),
                    grouped(one.in_cycles),
                    grouped(one.finalizers)
                );
                figures([0, one.bytes, one.objects], name)
            }
            Item::Holder(number) => {
                let holder = &self.holders()[number];
                let name = words::holder(answers, holder);
                figures([holder.retained, 0, holder.objects], name)
            }
            Item::NewType(number) => match self.diff.as_ref() {
                Some(diff) => {
                    let one = &diff.types[number];
                    let totals = [one.retained, one.new.bytes, one.new.objects];
                    figures(totals, self.text(one.name))
                }
                None => Row::default(),
            },
            Item::NewLine(number) => match self.diff.as_ref() {
                Some(diff) => group(&diff.sites[number], |site| self.site(*site)),
                None => Row::default(),
            },
            Item::Object(object) => self.row_of(object, self.addressed(object)),
            Item::Held(via, object) => {
                let name = format!("{} {}", words::via(snapshot, via), self.addressed(object));
                self.row_of(object, name)
            }
            Item::Root(name) => named(words::via(snapshot, Via::Root(name))),
            Item::Node(number) => self.row_of_node(&page.nodes[number]),
            Item::More(count) => named(format!(
                "… {} more {}",
                grouped(count),
                plural(count, "row", "rows")
            )),
        }
    }

    fn row_of(&self, object: u32, name: String) -> Row {
        let analysis = self.answers.analysis;
        let bytes = analysis.snapshot().bytes(object);
        figures([analysis.retained(object), bytes, 0], name)
    }

    fn row_of_node(&self, node: &Node) -> Row {
        let name = match node.objects[..] {
            [object] => self.addressed(object),
            _ => format!(
                "{} × {}",
                grouped(node.objects.len() as u64),
                self.text(node.name)
            ),
        };
        let sign = match (node.has_below, node.is_open) {
            (false, _) => ' ',
            (true, false) => '▸',
            (true, true) => '▾',
        };
        let indent = " ".repeat(usize::from(node.depth.min(20)) * 2);
        let totals = [node.retained, node.bytes, node.objects.len() as u64];
        figures(totals, format!("{indent}{sign} {name}"))
    }

    /// What is said of the chosen row besides.
    pub fn detail(&self, page: &Page, item: Item) -> String {
        let answers = self.answers;
        let snapshot = answers.analysis.snapshot();
        let path = |object| words::path(snapshot, &answers.paths.to(object));
        match item {
            Item::Suspect(number) => {
                let suspect = &answers.suspects[number];
                let held = suspects::held(answers, suspect);
                let held = held.map(|held| format!("; {held}"));
                suspects::suspect(answers, suspect) + &held.unwrap_or_default()
            }
            Item::Holder(number) => {
                let holder = &self.holders()[number];
                let sentence = words::holder(answers, holder);
                format!("{sentence}; path of one: {}", path(holder.example))
            }
            Item::Object(object) | Item::Held(_, object) => self.told(object),
            Item::Node(number) => match page.nodes[number].objects[..] {
                [object] => self.told(object),
                _ => self.row(page, item).name.trim_start().to_owned(),
            },
            Item::NewType(number) => self.diff.as_ref().map_or_else(String::new, |diff| {
                let one = &diff.types[number];
                format!(
                    "{}: {} before, {} now, {} new",
                    self.text(one.name),
                    grouped(one.before.objects),
                    grouped(one.now.objects),
                    grouped(one.new.objects)
                )
            }),
            item => self.row(page, item).name,
        }
    }

    /// An object in one sentence.
    fn told(&self, object: u32) -> String {
        let snapshot = self.answers.analysis.snapshot();
        let made = snapshot.site(object);
        let made = made.map(|site| format!(", made at {}", words::site(snapshot, site)));
        let steps = self.answers.paths.to(object);
        let path = match steps.is_empty() {
            true => "; no path leads there: it is garbage".into(),
            false => format!("; path: {}", words::path(snapshot, &steps)),
        };
        self.addressed(object) + &made.unwrap_or_default() + &path
    }
}

fn group<K>(group: &Group<K>, name: impl Fn(&K) -> String) -> Row {
    figures(totals(group), name(&group.key))
}

/// A row with figures: a figure that is 0 says nothing.
fn figures([retained, bytes, objects]: [u64; 3], name: String) -> Row {
    let some = |number: u64, text: fn(u64) -> String| match number {
        0 => String::new(),
        number => text(number),
    };
    Row {
        figures: [
            some(retained, size),
            some(bytes, size),
            some(objects, grouped),
        ],
        name,
    }
}
