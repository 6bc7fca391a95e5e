//! What the report shows of births, as records of the ledger: texts, lines and call paths, which never change once they are written;
//! kinds, and sites, each a place and a kind, which are its rows. [`Books`] adds them, for each new key of a birth.
//! Used by `languages::ruby::births::census`, `owners`, `living` and others.

use super::records::{
    frame_at, kind_at, kind_hash, same_kind, set_kind, set_site, site_at, stack_words, text_bytes,
};
use super::{Books, CUT_HERE, DEEPEST, Desk};
use crate::births::texts::{self, Texts};
use crate::memory::store::{self, mix};
use wire::ledger::{ANONYMOUS, INTERNAL};
use wire::{Frame, Kind, Ledger, Site};

impl Books {
    pub(super) fn place(
        &mut self,
        desk: &mut Desk<impl Texts>,
        frames: &[(u64, u64)],
        paths: bool,
    ) -> Option<u32> {
        if !paths {
            return match frames.first() {
                Some((code, pc)) => self.frame(desk, *code, *pc),
                None => Some(0),
            };
        }
        let count = frames.len().min(DEEPEST);
        for (at, (code, pc)) in frames[..count].iter().enumerate() {
            self.path[at] = self.frame(desk, *code, *pc)?;
        }
        self.stack(desk.ledger, count)
    }

    fn frame(&mut self, desk: &mut Desk<impl Texts>, code: u64, pc: u64) -> Option<u32> {
        let (line, path, method);
        if (code, pc) == CUT_HERE {
            line = 0;
            path = self.text(desk.ledger, b"")?;
            method = self.text(desk.ledger, wire::ledger::CUT.as_bytes())?;
        } else {
            line = desk.names.line(code, pc);
            path = {
                let text = desk.names.path(code);
                self.text(desk.ledger, text)?
            };
            method = {
                let text = desk.names.method(code);
                self.text(desk.ledger, text)?
            };
        }
        let frame = Frame {
            path,
            method,
            line,
            reserved: 0,
        };
        let hash = |frame: &Frame| {
            mix(
                mix(u64::from(frame.path), u64::from(frame.line)),
                u64::from(frame.method),
            )
        };
        let frames = &mut desk.ledger.frames;
        if let Some(found) = self
            .by_frame
            .find(hash(&frame), |number| frame_at(frames, number) == frame)
        {
            return Some(found);
        }
        let number = store::append(frames, frame)?;
        self.by_frame
            .insert(number, |number| hash(&frame_at(frames, number)))?;
        Some(number)
    }

    /// Returns the number of the path in `self.path[..count]`, which is added if it is new.
    fn stack(&mut self, ledger: &mut Ledger, count: usize) -> Option<u32> {
        let hash = |words: &[u32]| {
            words
                .iter()
                .fold(1, |hash, word| mix(hash, u64::from(*word)))
        };
        let stacks = &mut ledger.stacks;
        let path = &self.path[..count];
        if let Some(found) = self
            .by_stack
            .find(hash(path), |number| stack_words(stacks, number) == path)
        {
            return Some(found);
        }
        let number = store::reserve::<u32>(stacks, count as u64 + 1)?;
        let at = store::record::<u32>(stacks, number);
        // SAFETY: `reserve` has mapped room for the length and `count` words behind each other at
        // `at`, and no record names it yet.
        unsafe {
            at.write(count as u32);
            core::ptr::copy_nonoverlapping(path.as_ptr(), at.add(1), count);
        }
        let number = u32::try_from(number).ok()?;
        self.by_stack
            .insert(number, |number| hash(stack_words(stacks, number)))?;
        Some(number)
    }

    pub(super) fn text(&mut self, ledger: &mut Ledger, bytes: &[u8]) -> Option<u32> {
        let segments = &mut ledger.text;
        if let Some(found) = self.by_text.find(store::hash_bytes(bytes), |number| {
            text_bytes(segments, number) == bytes
        }) {
            return Some(found - 1);
        }
        let number = store::reserve::<u8>(segments, bytes.len() as u64 + 4)?;
        let at = store::record::<u8>(segments, number);
        // SAFETY: `reserve` has mapped room for four bytes of length and the text behind each other at
        // `at`, and no record names it yet.
        unsafe {
            at.cast::<u32>().write_unaligned(bytes.len() as u32);
            core::ptr::copy_nonoverlapping(bytes.as_ptr(), at.add(4), bytes.len());
        }
        // The index cannot hold 0, hence the offset plus one.
        let number = u32::try_from(number).ok()?.checked_add(1)?;
        self.by_text.insert(number, |number| {
            store::hash_bytes(text_bytes(segments, number))
        })?;
        Some(number - 1)
    }

    /// Returns the kind of objects with this class (or number of a type without class).
    #[inline]
    pub fn kind_of(&mut self, desk: &mut Desk<impl Texts>, class: u64) -> Option<u32> {
        match self.owner(class) {
            // SAFETY: `owner` returns numbers of `owners` only; the word is copied.
            Some(owner) => Some(unsafe { (*self.owners.get(owner)).kind }),
            None => self.new_kind(desk, class),
        }
    }

    #[cold]
    fn new_kind(&mut self, desk: &mut Desk<impl Texts>, class: u64) -> Option<u32> {
        let kind = match desk.names.class(class) {
            texts::Class::Named { name, internal } => {
                let name = self.text(desk.ledger, name)?;
                Kind {
                    name,
                    flags: if internal { INTERNAL } else { 0 },
                    first_site: 0,
                    threads: 0,
                    address: 0,
                }
            }
            texts::Class::Anonymous { address } => Kind {
                name: 0,
                flags: ANONYMOUS,
                first_site: 0,
                threads: 0,
                address,
            },
        };
        let number = self.kind(desk.ledger, kind)?;
        self.new_owner(class, number)?;
        Some(number)
    }

    fn kind(&mut self, ledger: &mut Ledger, kind: Kind) -> Option<u32> {
        let kinds = &mut ledger.kinds;
        if let Some(found) = self.by_kind.find(kind_hash(&kind), |number| {
            same_kind(&kind_at(kinds, number), &kind)
        }) {
            return Some(found);
        }
        let number = store::append(kinds, kind)?;
        self.by_kind
            .insert(number, |number| kind_hash(&kind_at(kinds, number)))?;
        Some(number)
    }

    /// Looks up the name of a class that had none when its kind was made.
    pub fn rename(&mut self, desk: &mut Desk<impl Texts>, class: u64) -> Option<()> {
        let Some(owner) = self.owner(class) else {
            return Some(());
        };
        // SAFETY: `owner` returns numbers of `owners` only; the word is copied.
        let number = unsafe { (*self.owners.get(owner)).kind };
        let mut kind = kind_at(&desk.ledger.kinds, number);
        if kind.flags & ANONYMOUS == 0 {
            return Some(());
        }
        if let texts::Class::Named { name, .. } = desk.names.class(class) {
            let name = self.text(desk.ledger, name)?;
            let kinds = &mut desk.ledger.kinds;
            self.by_kind.remove(number, kind_hash(&kind));
            kind.name = name;
            kind.flags &= !ANONYMOUS;
            kind.address = 0;
            set_kind(kinds, number, kind);
            // If the name is taken, two kinds have the same text, and the report adds them up.
            if self
                .by_kind
                .find(kind_hash(&kind), |other| {
                    same_kind(&kind_at(kinds, other), &kind)
                })
                .is_none()
            {
                self.by_kind
                    .insert(number, |number| kind_hash(&kind_at(kinds, number)))?;
            }
        }
        Some(())
    }

    /// Returns the site of this place and kind, which is added if it is new.
    pub fn site(&mut self, ledger: &mut Ledger, place: u32, kind: u32) -> Option<u32> {
        let sites = &mut ledger.sites;
        let hash = |place: u32, kind: u32| mix(u64::from(place) << 32, u64::from(kind));
        if let Some(found) = self.by_site.find(hash(place, kind), |number| {
            let site = site_at(sites, number);
            site.place == place && site.kind == kind
        }) {
            return Some(found);
        }
        let mut owner = kind_at(&ledger.kinds, kind);
        let fresh = Site {
            place,
            kind,
            born: 0,
            next_of_kind: owner.first_site,
            measured: 0,
            measured_bytes: 0,
        };
        let number = match self.free_site {
            0 => store::append(sites, fresh)?,
            free => {
                self.free_site = site_at(sites, free).next_of_kind;
                set_site(sites, free, fresh);
                free
            }
        };
        owner.first_site = number;
        set_kind(&mut ledger.kinds, kind, owner);
        self.by_site.insert(number, |number| {
            let site = site_at(sites, number);
            hash(site.place, site.kind)
        })?;
        Some(number)
    }

    /// Books the birth of an object of `site` at the site of the same place and of `kind` instead,
    /// because it turned out to be of that kind (it was born hidden and is shown now). Returns the
    /// new site.
    pub fn rebook(&mut self, ledger: &mut Ledger, site: u32, kind: u32) -> Option<u32> {
        let mut old = site_at(&ledger.sites, site);
        let number = self.site(ledger, old.place, kind)?;
        // Most of the births of `old` may still be counted in its entries; only the sum of both
        // counts.
        old.born = old.born.wrapping_sub(1);
        old.next_of_kind = site_at(&ledger.sites, site).next_of_kind;
        set_site(&mut ledger.sites, site, old);
        let mut new = site_at(&ledger.sites, number);
        new.born = new.born.wrapping_add(1);
        set_site(&mut ledger.sites, number, new);
        Some(number)
    }

    /// Takes back a birth that was counted at `site`: there was no memory to note it.
    #[cold]
    pub fn unborn(&self, ledger: &mut Ledger, site: u32) {
        let mut of = site_at(&ledger.sites, site);
        of.born = of.born.wrapping_sub(1);
        set_site(&mut ledger.sites, site, of);
    }

    /// Notes that an object which was born at `site` uses `bytes` bytes.
    pub fn measured(&mut self, ledger: &mut Ledger, site: u32, bytes: u64) {
        let mut of = site_at(&ledger.sites, site);
        if of.measured != u32::MAX {
            of.measured += 1;
            of.measured_bytes = of.measured_bytes.saturating_add(bytes);
            set_site(&mut ledger.sites, site, of);
        }
    }

    /// Notes that objects of a kind are threads.
    pub fn note_threads(&self, ledger: &mut Ledger, kind: u32) {
        let mut of = kind_at(&ledger.kinds, kind);
        if of.threads == 0 {
            of.threads = 1;
            set_kind(&mut ledger.kinds, kind, of);
        }
    }

    /// Forgets which kinds are threads, at the beginning of a census, which finds it out anew: threads may have ended.
    pub fn forget_threads(&self, ledger: &mut Ledger) {
        for number in 0..ledger.kinds.length as u32 {
            let mut of = kind_at(&ledger.kinds, number);
            if of.threads != 0 {
                of.threads = 0;
                set_kind(&mut ledger.kinds, number, of);
            }
        }
    }

    /// Joins the rows of a class without a name, which is gone with all its instances, into one row,
    /// so that a program that makes classes all the time does not fill the books.
    pub(super) fn forget_anonymous(&mut self, ledger: &mut Ledger, kind: u32) -> Option<()> {
        let name = self.text(ledger, texts::DROPPED_CLASSES)?;
        let dropped = self.kind(
            ledger,
            Kind {
                name,
                flags: 0,
                first_site: 0,
                threads: 0,
                address: 0,
            },
        )?;
        let mut at = kind_at(&ledger.kinds, kind).first_site;
        while at != 0 {
            let site = site_at(&ledger.sites, at);
            let number = self.site(ledger, site.place, dropped)?;
            let mut joined = site_at(&ledger.sites, number);
            joined.born = joined.born.wrapping_add(site.born);
            joined.measured = joined.measured.saturating_add(site.measured);
            joined.measured_bytes = joined.measured_bytes.saturating_add(site.measured_bytes);
            set_site(&mut ledger.sites, number, joined);
            self.by_site
                .remove(at, mix(u64::from(site.place) << 32, u64::from(site.kind)));
            // The record keeps its place and kind, because the command may still be reading the last
            // census.
            set_site(
                &mut ledger.sites,
                at,
                Site {
                    born: 0,
                    next_of_kind: self.freed_sites,
                    ..site
                },
            );
            self.freed_sites = at;
            at = site.next_of_kind;
        }
        let mut empty = kind_at(&ledger.kinds, kind);
        empty.first_site = 0;
        set_kind(&mut ledger.kinds, kind, empty);
        Some(())
    }

    /// Follows a class that was moved: without a name, its row is known by its address.
    pub fn class_moved(&mut self, ledger: &mut Ledger, from: u64, to: u64) -> Option<()> {
        let owner = self.owner(from)?;
        // SAFETY: `owner` returns numbers of `owners` only; the word is copied.
        let number = unsafe { (*self.owners.get(owner)).kind };
        let mut kind = kind_at(&ledger.kinds, number);
        if kind.flags & ANONYMOUS != 0 && kind.address == from {
            self.by_kind.remove(number, kind_hash(&kind));
            kind.address = to;
            set_kind(&mut ledger.kinds, number, kind);
            let kinds = &ledger.kinds;
            self.by_kind
                .insert(number, |number| kind_hash(&kind_at(kinds, number)))?;
        }
        Some(())
    }

    /// Makes freed sites usable again at the beginning of a census, when the last one is no longer
    /// read.
    pub fn reuse_freed(&mut self, ledger: &mut Ledger) {
        while self.freed_sites != 0 {
            let at = self.freed_sites;
            let mut site = site_at(&ledger.sites, at);
            self.freed_sites = site.next_of_kind;
            site.next_of_kind = self.free_site;
            set_site(&mut ledger.sites, at, site);
            self.free_site = at;
        }
    }
}
