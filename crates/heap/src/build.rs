//! Makes a snapshot of what a walk over a heap finds: objects, references and roots, one after the other. Used by
//! `snapshot`, and by the crates `languages` and `dump`.
//!
//! Objects come in any order, each followed by its references, which name their targets by address, because the walk has
//! not seen all of them yet. [`Builder::finish`] puts the objects in the order of their addresses and turns addresses
//! into numbers: an edge takes 8 bytes until then ([`Targets`]).

use foldhash::HashMap;

use crate::about::{About, Budget, Losses};
use crate::by_address::Pages;
use crate::column::Column;
use crate::file::LONGEST_TEXT;
use crate::names::{EdgeName, Flags, KindId, MOST_TEXTS, Role, RootName};
use crate::rising::Rising;
use crate::snapshot::{Fingerprints, Kind, Root, Site, Snapshot};
use crate::text::{Interner, NO_ROOM, TextId};
use addresses::Addresses;
use edges::Given;
use targets::Targets;

/// One object, as whoever walks the heap sees it. [`Object::new`] fills in that nothing is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object {
    /// Address of the object in the process.
    pub address: u64,
    /// What it is: see [`Builder::kind`].
    pub kind: KindId,
    /// The name of its class; of a hidden object none.
    pub class: Option<TextId>,
    /// What would be free without it alone: its slot and what the VM has allocated for it, in bytes.
    pub bytes: u64,
    /// The file and line that made it, where somebody has watched (`lancet mem`, `trace_object_allocations`).
    pub site: Option<(TextId, u32)>,
    /// When it was made at the earliest, in nanoseconds since 1970: it is new to a snapshot that was taken before. 0 = unknown.
    pub birth: u64,
    /// Bytes of a text, elements of a list, entries of a map.
    pub length: Option<u64>,
    /// For how many elements or entries (or bytes) room is allocated, where that may be more than `length`.
    pub capacity: Option<u64>,
    /// A hash of the contents of a text: equal texts have equal ones. A 64-bit hash with a random key, so that a file
    /// does not give away what a text is to whoever tries likely ones.
    pub fingerprint: Option<u64>,
    /// Facts of one bit.
    pub flags: Flags,
    /// Its name, if it is a class, module, method, function, code, thread or fiber; of a map that has the globals of a module,
    /// whose they are: `of module app`.
    pub label: Option<TextId>,
    /// The beginning of its contents. Kept only where [`About::contents`] is set.
    pub contents: Option<TextId>,
}

impl Object {
    /// An object of which nothing else is known.
    #[must_use]
    pub fn new(address: u64, kind: KindId) -> Self {
        Self {
            address,
            kind,
            class: None,
            bytes: 0,
            site: None,
            birth: 0,
            length: None,
            capacity: None,
            fingerprint: None,
            flags: Flags::default(),
            label: None,
            contents: None,
        }
    }
}

/// Takes objects, edges and roots, and makes a [`Snapshot`] of them.
///
/// Nothing it is given makes it fail. What cannot be kept is counted in [`Losses`], which every report shows.
#[derive(Debug)]
pub struct Builder {
    about: About,
    budget: Budget,
    /// How many bytes of the budget are left.
    left: u64,
    /// For how many numbers of more than 32 bits that has been counted.
    wide: u64,
    losses: Losses,
    texts: Interner,
    kinds: Vec<Kind>,
    kind_numbers: HashMap<Box<[u8]>, KindId>,
    sites: Vec<Site>,
    site_numbers: HashMap<Site, u32>,
    /// The addresses of the objects. Those of `columns` are made of them when they are in their order.
    addresses: Addresses,
    columns: Columns,
    /// Where the edges of each object but the last one end.
    edge_ends: Rising,
    edge_targets: Targets,
    edge_names: Vec<u32>,
    roots: Vec<(u64, RootName)>,
    /// The object given last was left out.
    left_out: bool,
}

/// What is known of objects, by their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Columns {
    pub addresses: Rising,
    pub kinds: Vec<u16>,
    pub flags: Vec<u8>,
    pub bytes: Column,
    pub classes: Column,
    pub sites: Column,
    pub births: Column,
    pub lengths: Column,
    pub capacities: Column,
    pub labels: Column,
    pub contents: Column,
    pub fingerprints: Fingerprints,
}

impl Builder {
    /// Begins a snapshot that may hold as much as 32-bit numbers bear.
    #[must_use]
    pub fn new(about: About) -> Self {
        Self::within(about, Budget::default())
    }

    /// Begins a snapshot that may hold so much.
    #[must_use]
    pub fn within(about: About, budget: Budget) -> Self {
        let most = Budget::default();
        Self {
            about,
            budget: Budget {
                objects: budget.objects.min(most.objects),
                edges: budget.edges.min(most.edges),
                roots: budget.roots.min(most.roots),
                text: budget.text.min(most.text),
                bytes: budget.bytes,
            },
            left: budget.bytes,
            wide: 0,
            losses: Losses::default(),
            texts: Interner::default(),
            kinds: Vec::new(),
            kind_numbers: HashMap::default(),
            sites: Vec::new(),
            site_numbers: HashMap::default(),
            addresses: Addresses::default(),
            columns: Columns::default(),
            edge_ends: Rising::default(),
            edge_targets: Targets::default(),
            edge_names: Vec::new(),
            roots: Vec::new(),
            left_out: true,
        }
    }

    /// What is known of the process.
    #[must_use]
    pub fn about(&self) -> &About {
        &self.about
    }

    /// What is known of the process, to add what only the walk finds out.
    pub fn about_mut(&mut self) -> &mut About {
        &mut self.about
    }

    /// The number of a text. The same text has the same number, so whoever has many equal ones keeps it.
    /// Texts are cut to 65,536 bytes.
    pub fn text(&mut self, text: &[u8]) -> TextId {
        let text = &text[..text.len().min(LONGEST_TEXT)];
        let (before, letters) = (self.texts.texts.len(), self.texts.texts.bytes.len() as u64);
        let most = letters.saturating_add(self.left.saturating_sub(Budget::TEXT) / 2);
        let most = most.min(self.budget.text);
        if let Some(id) = self.texts.intern(text, most, MOST_TEXTS - 1) {
            if self.texts.texts.len() > before {
                self.left -= Budget::TEXT.min(self.left);
                self.left -= (text.len() as u64 * 2).min(self.left);
            }
            return id;
        }
        self.losses.texts += 1;
        let always = self.texts.intern(NO_ROOM, u64::MAX, MOST_TEXTS);
        always.expect("one number is kept for it")
    }

    /// The number of a kind of objects: its name as the VM has it (`STRING`, `IMEMO:env`, `dict`), and what it is to us.
    /// The first role given for a name stays. There are at most 65,536 kinds; those beyond have the last one's number.
    pub fn kind(&mut self, name: &[u8], role: Role) -> KindId {
        if let Some(id) = self.kind_numbers.get(name) {
            return *id;
        }
        let name_id = self.text(name);
        let Ok(number) = u16::try_from(self.kinds.len()) else {
            self.losses.texts += 1;
            return KindId(u16::MAX);
        };
        let id = KindId(number);
        self.kinds.push(Kind {
            name: name_id,
            role,
        });
        self.kind_numbers.insert(name.into(), id);
        id
    }

    /// The name of a kind of this builder's.
    #[must_use]
    pub fn kind_name(&self, kind: KindId) -> &[u8] {
        let known = self.kinds.get(usize::from(kind.0));
        known
            .and_then(|kind| self.texts.texts.get(kind.name))
            .unwrap_or_default()
    }

    /// Takes an object. The edges that follow are its own.
    ///
    /// # Panics
    ///
    /// If the kind, or a text, is of another builder.
    pub fn object(&mut self, object: Object) {
        let is_full = self.addresses.len() as u64 >= self.budget.objects;
        self.left_out = is_full || !self.afford(Budget::OBJECT);
        let columns = &mut self.columns;
        if self.left_out {
            self.losses.objects += 1;
            return;
        }
        assert!(
            usize::from(object.kind.0) < self.kinds.len(),
            "the kind is of another builder"
        );
        let number = self.addresses.len() as u32;
        let text = |text: Option<TextId>| {
            let known = text.is_none_or(|text| (text.0 as usize) < self.texts.texts.len());
            assert!(known, "the text is of another builder");
            text.map(|text| u64::from(text.0))
        };
        self.addresses.push(object.address);
        columns.kinds.push(object.kind.0);
        columns.flags.push(object.flags.pack());
        columns.bytes.set(number, Some(object.bytes));
        columns.classes.set(number, text(object.class));
        let born = (object.birth != 0).then_some(object.birth);
        if let Some(born) = born {
            columns.births.begin(born);
        }
        columns.births.set(number, born);
        columns.lengths.set(number, object.length);
        columns.capacities.set(number, object.capacity);
        columns.labels.set(number, text(object.label));
        let contents = object.contents.filter(|_| self.about.contents);
        columns.contents.set(number, text(contents));
        let wide = columns.wide() as u64;
        self.left -= ((wide - self.wide) * Budget::WIDE).min(self.left);
        self.wide = wide;
        if let Some((file, line)) = object.site {
            let site = Site { file, line };
            text(Some(file));
            let next = self.sites.len() as u32;
            let known = *self.site_numbers.entry(site).or_insert(next);
            if known == next {
                self.sites.push(site);
            }
            columns.sites.set(number, Some(known.into()));
        }
        if let Some(fingerprint) = object.fingerprint {
            columns.fingerprints.push(number, fingerprint);
        }
        if number > 0 {
            self.edge_ends.push(self.edge_targets.len() as u64);
        }
    }

    /// Takes a reference of the object given last to the object at an address. Weak references, which keep nothing alive,
    /// are not given. Several references from one object to another are kept, each with its name.
    pub fn edge(&mut self, to: u64, name: EdgeName) {
        let is_full = self.edge_targets.len() as u64 >= self.budget.edges;
        if self.left_out || is_full || !self.afford(Budget::EDGE) {
            self.losses.edges += 1;
            return;
        }
        self.edge_targets.push(to);
        self.edge_names.push(name.pack());
    }

    /// Takes a reference that no object holds: what it leads to lives whatever else does.
    pub fn root(&mut self, to: u64, name: RootName) {
        if self.roots.len() as u64 >= self.budget.roots || !self.afford(Budget::ROOT) {
            self.losses.roots += 1;
            return;
        }
        self.roots.push((to, name));
    }

    /// Takes so many bytes of the budget; false: there are not so many left.
    fn afford(&mut self, bytes: u64) -> bool {
        let left = self.left.checked_sub(bytes);
        self.left = left.unwrap_or(self.left);
        left.is_some()
    }

    /// What it may hold at most.
    #[must_use]
    pub fn budget(&self) -> Budget {
        self.budget
    }

    /// Notes that so many objects and edges were not told, because the process has not the memory for them.
    pub fn leave_out(&mut self, [objects, edges]: [u64; 2]) {
        self.losses.objects = self.losses.objects.saturating_add(objects);
        self.losses.edges = self.losses.edges.saturating_add(edges);
    }

    /// Notes that so many roots, or more, were not told: what they lead to may look like garbage.
    pub fn lose_roots(&mut self, count: u64) {
        self.losses.roots = self.losses.roots.saturating_add(count);
    }

    /// How many objects were taken.
    #[must_use]
    pub fn len(&self) -> usize {
        self.addresses.len()
    }

    /// Whether none was taken.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Puts the objects in the order of their addresses, finds the targets of edges and roots among them, and returns the snapshot.
    #[must_use]
    pub fn finish(mut self) -> Snapshot {
        let given = self.addresses.len();
        if given > 0 {
            self.edge_ends.push(self.edge_targets.len() as u64);
        }
        let (addresses, order) = std::mem::take(&mut self.addresses).in_order();
        if let Some(order) = &order {
            self.columns = std::mem::take(&mut self.columns).reordered(order);
        }
        let pages = Pages::of(&addresses);
        let edges = Given {
            ends: std::mem::take(&mut self.edge_ends),
            targets: std::mem::take(&mut self.edge_targets).found(&pages),
            names: std::mem::take(&mut self.edge_names),
        };
        let mut losses = self.losses;
        losses.repeated_objects += (given - addresses.len()) as u64;
        let mut roots = Vec::with_capacity(self.roots.len());
        for (to, name) in &self.roots {
            match pages.find(*to) {
                Some(target) => roots.push(Root {
                    target,
                    name: *name,
                }),
                None => losses.dangling_roots += 1,
            }
        }
        drop(pages);
        self.columns.addresses = addresses;
        let edges = edges.in_order(order.as_deref(), &mut losses);
        Snapshot {
            about: self.about,
            losses,
            texts: self.texts.texts,
            kinds: self.kinds,
            sites: self.sites,
            columns: self.columns,
            ends: edges.ends,
            targets: edges.targets,
            names: edges.names,
            roots,
        }
    }
}

impl Columns {
    /// How many numbers need more than 32 bits.
    pub fn wide(&self) -> usize {
        let columns = [
            &self.bytes,
            &self.classes,
            &self.sites,
            &self.births,
            &self.lengths,
            &self.capacities,
            &self.labels,
            &self.contents,
        ];
        columns.iter().map(|column| column.wide()).sum()
    }

    /// The same objects in another order, but their addresses: `order` has the old number of each. One column after the other is there twice.
    fn reordered(self, order: &[u32]) -> Self {
        Self {
            addresses: Rising::default(),
            kinds: picked(&self.kinds, order),
            flags: picked(&self.flags, order),
            bytes: self.bytes.reordered(order),
            classes: self.classes.reordered(order),
            sites: self.sites.reordered(order),
            births: self.births.reordered(order),
            lengths: self.lengths.reordered(order),
            capacities: self.capacities.reordered(order),
            labels: self.labels.reordered(order),
            contents: self.contents.reordered(order),
            fingerprints: self.fingerprints.reordered(order),
        }
    }
}

/// Of all, those with these numbers.
fn picked<T: Copy>(all: &[T], order: &[u32]) -> Vec<T> {
    order.iter().map(|old| all[*old as usize]).collect()
}

mod addresses;
mod edges;
mod targets;

#[cfg(test)]
mod tests;
