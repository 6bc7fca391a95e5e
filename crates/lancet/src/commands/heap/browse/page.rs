//! One page of the browser: what it lists, in which order, and which row is chosen. It holds numbers only; what a row says is
//! [`View`](super::view::View)'s to know, for the rows that are on the screen. Used by `view`, `rows`, `screen` and
//! others.

use heap::answers::paths::Via;
use heap::{RootName, TextId};

/// What a row stands for. Numbers without a word are places in the lists of `Answers`, or of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// A heading between rows.
    Heading(&'static str),
    /// A suspect, of `Answers::suspects`.
    Suspect(usize),
    /// Objects of one type.
    Type(usize),
    /// Objects that one line has made.
    Line(usize),
    /// Garbage of one type.
    Garbage(usize),
    /// Who holds what is new.
    Holder(usize),
    /// New objects of one type.
    NewType(usize),
    /// New objects that one line has made.
    NewLine(usize),
    /// An object, by its number in the snapshot.
    Object(u32),
    /// A reference from or to the object of the page, or a step of its path, with the object at the other end.
    Held(Via, u32),
    /// A root that leads to the object of the page.
    Root(RootName),
    /// A node of the tree of dominators, by its place in [`Page::nodes`].
    Node(usize),
    /// So many rows were left out.
    More(u64),
}

/// A node of the tree of dominators: objects of one type that are dominated by the objects of another.
#[derive(Clone, Debug)]
pub struct Node {
    /// The type of its objects.
    pub name: TextId,
    /// Its objects, by their numbers in the snapshot.
    pub objects: Vec<u32>,
    /// The bytes that its objects retain together.
    pub retained: u64,
    /// The bytes they take themselves.
    pub bytes: u64,
    /// Whether these objects dominate others, so that the node can be opened.
    pub has_below: bool,
    /// How far below the root of the page.
    pub depth: u16,
    /// What is below it is shown.
    pub is_open: bool,
}

/// What decides which row is on top.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// Bytes that are retained.
    Retained,
    /// Bytes of the objects themselves.
    Bytes,
    /// The number of objects.
    Objects,
    /// Names; of objects their addresses.
    Name,
}

/// What a page lists, which decides how it can be sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sorted {
    /// Groups: all orders make sense.
    Groups,
    /// Objects: their number is one.
    Objects,
    /// It has an order of its own.
    Itself,
}

/// A list, its order, and which of its rows is chosen.
#[derive(Clone, Debug)]
pub struct Page {
    /// What it is called.
    pub title: String,
    /// Sentences above its rows.
    pub head: Vec<String>,
    /// What its rows stand for, from top to bottom.
    pub items: Vec<Item>,
    /// What its rows of [`Item::Node`] stand for.
    pub nodes: Vec<Node>,
    /// Whether the user may sort it.
    pub sorted: Sorted,
    /// How it is sorted.
    pub sort: Sort,
    /// The chosen row, as its place in `items`.
    pub chosen: usize,
    /// The first row on the screen.
    pub first: usize,
    /// The object that it is about; `None` for a list.
    pub object: Option<u32>,
}

impl Page {
    /// A page with these rows.
    pub fn new(title: impl Into<String>, items: Vec<Item>, sorted: Sorted) -> Self {
        let mut page = Page {
            title: title.into(),
            head: Vec::new(),
            items,
            nodes: Vec::new(),
            sorted,
            sort: Sort::Retained,
            chosen: 0,
            first: 0,
            object: None,
        };
        page.choose(0);
        page
    }

    /// The chosen row, if there is one.
    pub fn item(&self) -> Option<Item> {
        self.items.get(self.chosen).copied()
    }

    /// Chooses a row, or the next one that is no heading.
    pub fn choose(&mut self, row: usize) {
        let last = self.items.len().saturating_sub(1);
        let is_row = |row: &usize| !matches!(self.items.get(*row), Some(Item::Heading(_)));
        let row = row.min(last);
        let down = (row..=last).find(is_row);
        self.chosen = down
            .or_else(|| (0..row).rev().find(is_row))
            .unwrap_or_default();
    }

    /// Goes up or down by so many rows.
    pub fn go(&mut self, rows: isize) {
        let to = self.chosen.saturating_add_signed(rows);
        self.choose(to);
        let is_stuck = rows < 0 && self.chosen > to;
        if is_stuck && let Some(above) = to.checked_sub(1) {
            let is_row = |row: &usize| !matches!(self.items[*row], Item::Heading(_));
            self.chosen = (0..=above).rev().find(is_row).unwrap_or(self.chosen);
        }
        if self.chosen == 0 || rows < 0 && self.items[..self.chosen].iter().all(is_heading) {
            self.first = 0;
        }
    }

    /// Scrolls so that the chosen row is among `room` rows, and returns the first of these.
    pub fn scroll(&mut self, room: usize) -> usize {
        let room = room.max(1);
        let most = self.items.len().saturating_sub(room);
        self.first = self.first.min(most).min(self.chosen);
        self.first = self.first.max((self.chosen + 1).saturating_sub(room));
        self.first
    }

    /// The next order that makes sense here.
    pub fn next_sort(&self) -> Option<Sort> {
        match (self.sorted, self.sort) {
            (Sorted::Itself, _) => None,
            (_, Sort::Retained) => Some(Sort::Bytes),
            (Sorted::Groups, Sort::Bytes) => Some(Sort::Objects),
            (_, Sort::Bytes | Sort::Objects) => Some(Sort::Name),
            (_, Sort::Name) => Some(Sort::Retained),
        }
    }
}

fn is_heading(item: &Item) -> bool {
    matches!(item, Item::Heading(_))
}
