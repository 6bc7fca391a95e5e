//! What the browser knows of a snapshot: which pages there are, and what each row of them says. Used by `rows`,
//! `browse` and `state`.

use std::cmp::Reverse;

use heap::answers::Answers;
use heap::answers::diff::Diff;
use heap::answers::groups::Group;
use heap::answers::holders::Holder;
use heap::answers::paths::Via;
use heap::answers::suspects::Suspected;
use heap::answers::tree::level;
use heap::{Dominator, Site, TextId};
use report::figures::{grouped, plural, size};
use report::heap::{suspects, words};

use super::page::{Item, Node, Page, Sort, Sorted};

/// References of an object that are listed, in either direction.
const REFERENCES: usize = 1000;
/// Steps of a path that are listed: the last ones.
const STEPS: usize = 100;

/// The answers about a snapshot, from which pages are made.
#[derive(Debug)]
pub struct View<'a> {
    /// The snapshot and what follows from it.
    pub answers: &'a Answers<'a>,
    /// What is new since an earlier one.
    pub diff: Option<Diff>,
    /// Whether the beginning of texts is shown, where the snapshot has it.
    pub contents: bool,
}

impl<'a> View<'a> {
    /// The pages that Tab goes through.
    pub fn tops(&self) -> Vec<Page> {
        let numbers = |count: usize, item: fn(usize) -> Item| (0..count).map(item).collect();
        let answers = self.answers;
        let mut suspects = Page::new(
            "Suspects",
            numbers(answers.suspects.len(), Item::Suspect),
            Sorted::Itself,
        );
        if suspects.items.is_empty() {
            suspects.head.push(suspects::no_suspect(answers));
        }
        let mut tops = vec![suspects, self.types(&|_| true)];
        if !answers.sites.is_empty() {
            let items = numbers(answers.sites.len(), Item::Line);
            tops.push(Page::new("Lines", items, Sorted::Groups));
        }
        tops.push(self.tree(None));
        let garbage = &answers.garbage;
        if !garbage.types.is_empty() {
            let items = numbers(garbage.types.len(), Item::Garbage);
            let mut page = Page::new("Garbage", items, Sorted::Itself);
            let cycles = plural(garbage.cycles, "cycle", "cycles");
            let head = format!(
                "what no root leads to, {} {cycles}",
                grouped(garbage.cycles)
            );
            page.head.push(head);
            tops.push(page);
        }
        tops.extend(self.fresh());
        tops
    }

    /// Those types whose name is wanted.
    pub fn types(&self, is_wanted: &dyn Fn(&str) -> bool) -> Page {
        let types = self.answers.types.iter().enumerate();
        let wanted = types.filter(|(_, group)| is_wanted(&self.text(group.key)));
        let items = wanted.map(|(number, _)| Item::Type(number)).collect();
        Page::new("Types", items, Sorted::Groups)
    }

    /// What is new: since an earlier snapshot, or since births were watched.
    fn fresh(&self) -> Option<Page> {
        let holders = self.holders();
        let mut items = Vec::new();
        let mut part = |heading, count: usize, item: fn(usize) -> Item| {
            if count > 0 {
                items.push(Item::Heading(heading));
                items.extend((0..count).map(item));
            }
        };
        part("who holds what is new", holders.len(), Item::Holder);
        let head = match (&self.diff, &self.answers.born) {
            (Some(diff), _) => {
                part("new, by type", diff.types.len(), Item::NewType);
                part(
                    "new, by the line that made it",
                    diff.sites.len(),
                    Item::NewLine,
                );
                words::changed(diff)
            }
            (None, Some(born)) => words::born(self.answers, born),
            (None, None) => return None,
        };
        let mut page = Page::new("New", items, Sorted::Itself);
        page.head.push(head);
        Some(page)
    }

    pub(super) fn holders(&self) -> &[Holder] {
        match (&self.diff, &self.answers.born) {
            (Some(diff), _) => &diff.holders,
            (None, Some(born)) => &born.holders,
            (None, None) => &[],
        }
    }

    /// The tree of dominators below an object, or below the roots.
    pub fn tree(&self, object: Option<u32>) -> Page {
        let title = match object {
            None => "Dominators".into(),
            Some(object) => format!("Dominated by {}", self.object(object)),
        };
        let mut page = Page::new(title, Vec::new(), Sorted::Itself);
        self.add_level(&mut page, &[object], 0, 0);
        page
    }

    /// Puts the nodes that these objects dominate below a row.
    fn add_level(&self, page: &mut Page, holders: &[Option<u32>], row: usize, depth: u16) {
        let from = page.nodes.len();
        let analysis = self.answers.analysis;
        let bytes = |object: &u32| analysis.snapshot().bytes(*object);
        let has_below = |object: &u32| !analysis.dominated(Some(*object)).is_empty();
        let level = level(analysis, holders).into_iter();
        let nodes = level.map(|(name, retained, objects)| Node {
            name,
            retained,
            bytes: objects.iter().map(bytes).fold(0, u64::saturating_add),
            has_below: objects.iter().any(has_below),
            objects,
            depth,
            is_open: false,
        });
        page.nodes.extend(nodes);
        let added = (from..page.nodes.len()).map(Item::Node);
        page.items.splice(row..row, added);
    }

    /// Opens the chosen node of a tree, if there is something below it.
    pub fn open_node(&self, page: &mut Page) {
        let Some(Item::Node(number)) = page.item() else {
            return;
        };
        let node = &mut page.nodes[number];
        if std::mem::replace(&mut node.is_open, true) {
            return;
        }
        let holders: Vec<Option<u32>> = node.objects.iter().copied().map(Some).collect();
        let depth = node.depth.saturating_add(1);
        self.add_level(page, &holders, page.chosen + 1, depth);
    }

    /// Closes the chosen node of a tree; of a closed one the node above it is chosen.
    pub fn close_node(&self, page: &mut Page) {
        let Some(Item::Node(number)) = page.item() else {
            return;
        };
        let depth = page.nodes[number].depth;
        let depth_of = |item: &Item| match item {
            Item::Node(number) => page.nodes[*number].depth,
            _ => 0,
        };
        if page.nodes[number].is_open {
            let below = page.items[page.chosen + 1..].iter();
            let count = below.take_while(|item| depth_of(item) > depth).count();
            page.items.drain(page.chosen + 1..=page.chosen + count);
            page.nodes[number].is_open = false;
        } else {
            let above = page.items[..page.chosen].iter();
            let holder = above.into_iter().rposition(|item| depth_of(item) < depth);
            page.choose(holder.unwrap_or(page.chosen));
        }
    }

    /// The page that a row leads to.
    pub fn behind(&self, page: &Page, item: Item) -> Option<Page> {
        let answers = self.answers;
        match item {
            Item::Heading(_) | Item::More(_) | Item::Root(_) => None,
            Item::Object(object) | Item::Held(_, object) => Some(self.page_of(object)),
            Item::Suspect(number) => match answers.suspects[number].what {
                Suspected::Object(object) | Suspected::Names(object) => Some(self.page_of(object)),
                Suspected::Type(name) => Some(self.objects_of(name)),
                Suspected::Site(site) => Some(self.made_at(Some(site))),
                Suspected::Garbage => {
                    suspects::example(&answers.suspects[number]).map(|object| self.page_of(object))
                }
            },
            Item::Type(number) => Some(self.objects_of(answers.types[number].key)),
            Item::Line(number) => Some(self.made_at(answers.sites[number].key)),
            Item::Garbage(number) => {
                let name = answers.garbage.types[number].name;
                let title = format!("garbage: {}", self.text(name));
                let snapshot = answers.analysis.snapshot();
                let all = 0..snapshot.len() as u32;
                let is_of = |object: &u32| {
                    snapshot.type_name(*object) == name && !answers.analysis.is_living(*object)
                };
                Some(self.list(title, all.filter(is_of)))
            }
            Item::Holder(number) => self.holders()[number].object.map(|one| self.page_of(one)),
            Item::NewType(number) => {
                let change = self.diff.as_ref()?.types.get(number)?;
                Some(self.objects_of(change.name))
            }
            Item::NewLine(number) => Some(self.made_at(self.diff.as_ref()?.sites[number].key)),
            Item::Node(number) => {
                let node = &page.nodes[number];
                match node.objects[..] {
                    [object] => Some(self.page_of(object)),
                    _ => Some(self.list(self.text(node.name), node.objects.iter().copied())),
                }
            }
        }
    }

    fn objects_of(&self, name: TextId) -> Page {
        let snapshot = self.answers.analysis.snapshot();
        let is_of = |object: &u32| snapshot.type_name(*object) == name;
        self.list(self.text(name), self.living().filter(is_of))
    }

    fn made_at(&self, site: Option<Site>) -> Page {
        let snapshot = self.answers.analysis.snapshot();
        let is_of = |object: &u32| snapshot.site(*object) == site;
        let title = format!("made at {}", self.site(site));
        self.list(title, self.living().filter(is_of))
    }

    fn living(&self) -> impl Iterator<Item = u32> + 'a {
        let analysis = self.answers.analysis;
        let all = 0..analysis.snapshot().len() as u32;
        all.filter(|object| analysis.is_living(*object))
    }

    fn list(&self, title: String, objects: impl Iterator<Item = u32>) -> Page {
        let items = objects.map(Item::Object).collect();
        let mut page = Page::new(title, items, Sorted::Objects);
        self.sort(&mut page);
        page
    }

    /// Puts the rows of a page in its order.
    pub fn sort(&self, page: &mut Page) {
        let answers = self.answers;
        let (analysis, snapshot) = (answers.analysis, answers.analysis.snapshot());
        let group = |item: &Item| match item {
            Item::Type(number) => totals(&answers.types[*number]),
            Item::Line(number) => totals(&answers.sites[*number]),
            _ => [0; 3],
        };
        match page.sorted {
            Sorted::Itself => {}
            Sorted::Groups => match page.sort {
                Sort::Name => page
                    .items
                    .sort_by_cached_key(|item| self.name_of_group(*item)),
                by => page
                    .items
                    .sort_by_key(|item| Reverse(group(item)[column(by)])),
            },
            Sorted::Objects => page.items.sort_by_key(|item| {
                let Item::Object(object) = item else {
                    return (Reverse(0), 0);
                };
                let key = match page.sort {
                    Sort::Retained => analysis.retained(*object),
                    Sort::Bytes => snapshot.bytes(*object),
                    Sort::Objects | Sort::Name => 0,
                };
                (Reverse(key), *object)
            }),
        }
        page.first = 0;
        page.choose(0);
    }

    fn name_of_group(&self, item: Item) -> String {
        match item {
            Item::Type(number) => self.text(self.answers.types[number].key),
            Item::Line(number) => self.site(self.answers.sites[number].key),
            _ => String::new(),
        }
    }

    /// The page of one object: its path, who refers to it, to whom it refers.
    pub fn page_of(&self, object: u32) -> Page {
        let (analysis, snapshot) = (self.answers.analysis, self.answers.analysis.snapshot());
        let mut items = Vec::new();
        let steps = self.answers.paths.to(object);
        // The last step is the object itself, which its own row of the path names too.
        if !steps.is_empty() {
            items.push(Item::Heading("path from a root"));
            let left = steps.len().saturating_sub(STEPS);
            items.extend((left > 0).then_some(Item::More(left as u64)));
            let shown = steps[left..].iter();
            items.extend(shown.map(|step| Item::Held(step.via, step.object)));
        }
        let (holders, count) = snapshot.referrers(object, REFERENCES);
        let roots = snapshot.roots().iter().filter(|root| root.target == object);
        let mut roots: Vec<Item> = roots.map(|root| Item::Root(root.name)).collect();
        let more = count - holders.len() as u64 + roots.len().saturating_sub(REFERENCES) as u64;
        roots.truncate(REFERENCES);
        if !roots.is_empty() || count > 0 {
            items.push(Item::Heading("held by"));
            items.extend(roots);
            let held = holders.iter();
            items.extend(held.map(|edge| Item::Held(Via::Edge(edge.name), edge.target)));
            items.extend((more > 0).then_some(Item::More(more)));
        }
        let mut edges: Vec<_> = snapshot.edges(object).collect();
        edges.sort_by_key(|edge| Reverse(analysis.retained(edge.target)));
        if !edges.is_empty() {
            items.push(Item::Heading("refers to"));
            let shown = edges.iter().take(REFERENCES);
            items.extend(shown.map(|edge| Item::Held(Via::Edge(edge.name), edge.target)));
            let more = edges.len().saturating_sub(REFERENCES);
            items.extend((more > 0).then_some(Item::More(more as u64)));
        }
        let mut page = Page::new(self.object(object), items, Sorted::Itself);
        page.object = Some(object);
        page.head = self.head_of(object);
        page
    }

    fn head_of(&self, object: u32) -> Vec<String> {
        let (analysis, snapshot) = (self.answers.analysis, self.answers.analysis.snapshot());
        let mut head = vec![format!(
            "{}: {} itself, retains {} ({} %)",
            self.addressed(object),
            size(snapshot.bytes(object)),
            size(analysis.retained(object)),
            words::percent(self.answers, analysis.retained(object))
        )];
        if let Some(site) = snapshot.site(object) {
            head.push(format!("made at {}", words::site(snapshot, site)));
        }
        head.push(match analysis.dominator(object) {
            Dominator::Garbage => {
                let end = words::end_of_garbage(snapshot);
                format!("nothing holds it: it is garbage, {end}")
            }
            Dominator::Roots => "no single object keeps it alive".into(),
            Dominator::Object(by) => format!(
                "it dies with {}, which retains {}",
                self.addressed(by),
                size(analysis.retained(by))
            ),
        });
        head
    }

    pub(super) fn text(&self, id: TextId) -> String {
        words::text(self.answers.analysis.snapshot(), id)
    }

    pub(super) fn site(&self, site: Option<Site>) -> String {
        let snapshot = self.answers.analysis.snapshot();
        site.map_or_else(
            || "(line unknown)".into(),
            |site| words::site(snapshot, site),
        )
    }

    pub(super) fn object(&self, object: u32) -> String {
        words::object(self.answers.analysis.snapshot(), object)
    }

    pub(super) fn addressed(&self, object: u32) -> String {
        let snapshot = self.answers.analysis.snapshot();
        let contents = words::contents(snapshot, object, self.contents);
        let address = snapshot.address(object);
        format!("{} {address:#x}{contents}", self.object(object))
    }
}

/// Returns the figures of a group: bytes retained, bytes of its own, number of objects.
pub(super) fn totals<K>(group: &Group<K>) -> [u64; 3] {
    [group.retained, group.bytes, group.objects]
}

/// Which of the totals decides.
fn column(sort: Sort) -> usize {
    match sort {
        Sort::Retained | Sort::Name => 0,
        Sort::Bytes => 1,
        Sort::Objects => 2,
    }
}
