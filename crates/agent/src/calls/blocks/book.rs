//! The book that all threads share: sites, the words of blocks, and where each thread's rows are. It is made, and grows, without a lock: who comes
//! second uses what the first has made. Used by `blocks`.

use super::memory::{PAGE_BYTES, charge, empty, give_back, is_half_free, map, shared, unmap};
use crate::calls::session::calls;
use crate::memory::follow::ours;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use routine::room::place;
use wire::calls::blocks::{
    Beside, Book, FIRST_WRAPPER, FORGOTTEN, FOUND, GRAINS, IN_VAIN, LEAST_GRAIN, LINED_SITES,
    LISTED, MARKS, NEAR_PLACES, PAGE_SHIFT, REGION_SHIFT, Row, SITES, TALLY_BYTES, first_place,
    is_of, lined, of_lined, table_bytes,
};
use wire::calls::{RINGS, Ring};

/// Places in which a ring's is looked for, at each call.
const MOST_STEPS: usize = 64;
/// How far a site's number is below the address in its place.
const ADDRESS_AT: u32 = 16;
/// Numbers of sites whose rows are in one page.
pub(super) const ROWS: u64 = PAGE_BYTES / size_of::<Row>() as u64;
/// What of a book may be touched in a session beside tables: sites.
const OF_SITES: u64 = (size_of::<Book>() - offset_of!(Book, found)) as u64;

/// The book of this session; `None` = nothing was counted yet.
#[inline(always)]
pub fn now() -> Option<&'static Book> {
    let book = calls().blocks.book.load(Ordering::Acquire);
    // SAFETY: a book is never unmapped.
    (book != 0).then(|| unsafe { &*ours::<Book>(book) })
}

/// The table in which the word of the block at `at` is, and which word of it; `None` = there is no such table.
#[inline(always)]
fn find(book: &Book, at: u64) -> Option<(u64, usize)> {
    let table = book.tables.get((at >> REGION_SHIFT) as usize)?;
    let table = table.load(Ordering::Acquire);
    let within = at & ((1 << REGION_SHIFT) - 1);
    let grain = book.grain.load(Ordering::Relaxed) as u32;
    (table != 0).then(|| (table, within.wrapping_shr(grain) as usize))
}

#[inline(always)]
fn word_at((table, index): (u64, usize)) -> &'static AtomicU64 {
    // SAFETY: `find` has both from one book, whose tables all have as many words as its grain says, and none is ever unmapped.
    unsafe { &*ours::<AtomicU64>(table + MARKS).wrapping_add(index) }
}

/// Not 0 if the page of a word was counted as taken.
#[inline(always)]
fn mark_of((table, index): (u64, usize)) -> &'static AtomicU8 {
    // SAFETY: as in `word_at`; a table has a byte for each page of words before them.
    unsafe { &*ours::<AtomicU8>(table).wrapping_add(index >> PAGE_SHIFT) }
}

/// The word of the block at `at`, if its page was counted as taken.
#[inline(always)]
pub fn word_at_once(book: &Book, at: u64) -> Option<&'static AtomicU64> {
    let found = find(book, at)?;
    (mark_of(found).load(Ordering::Relaxed) != 0).then(|| word_at(found))
}

/// Takes the word of a block away, and returns it; 0 = it has none of this session.
#[inline(always)]
pub fn take(book: &Book, at: u64) -> u64 {
    let Some(found) = find(book, at) else {
        return 0;
    };
    let word = word_at(found);
    let known = word.load(Ordering::Relaxed);
    if known == 0 {
        return 0;
    }
    word.store(0, Ordering::Relaxed);
    match is_of(known, book.era.load(Ordering::Relaxed)) {
        true => known,
        false => 0,
    }
}

/// The word of the block at `at`, with a table made for it if there is none. `None` = there is no memory for that.
pub fn word_for(book: &Book, at: u64) -> Option<&'static AtomicU64> {
    let found = match find(book, at) {
        Some(found) => found,
        None => {
            make_table(book, (at >> REGION_SHIFT) as usize)?;
            find(book, at)?
        }
    };
    let mark = mark_of(found);
    if mark.load(Ordering::Relaxed) == 0 {
        charge(PAGE_BYTES)?;
        if mark.swap(1, Ordering::Relaxed) != 0 {
            give_back(PAGE_BYTES);
        }
    }
    Some(word_at(found))
}

/// Makes the table of a region, unless another thread does.
fn make_table(book: &Book, region: usize) -> Option<()> {
    let table = book.tables.get(region)?;
    if book.listed.load(Ordering::Relaxed) >= LISTED as u64 {
        return None;
    }
    let bytes = table_bytes(book.grain.load(Ordering::Relaxed));
    let made = map(bytes)?;
    // It is listed before anybody can use it, so that no word stays in a table that `forget` does not know.
    let entry = book.listed.fetch_add(1, Ordering::Relaxed) as usize;
    let Some(entry) = book.list.get(entry) else {
        unmap(made, bytes);
        return None;
    };
    entry.store(made, Ordering::Release);
    // Where another thread was first, this one stays unused: `forget` may be about to empty it, so it is not unmapped.
    let order = Ordering::AcqRel;
    let _ = table.compare_exchange(0, made, order, Ordering::Relaxed);
    Some(())
}

/// The number of a site, or of a wrapper, if it is found at once.
#[inline(always)]
pub fn site_at_once(book: &Book, address: u64) -> Option<u64> {
    let mut place = first_place(address);
    loop {
        let found = book.found[place % FOUND].load(Ordering::Relaxed);
        if found >> ADDRESS_AT == address {
            return Some(found % SITES as u64);
        }
        place += 1;
        if place.is_multiple_of(NEAR_PLACES) {
            return None;
        }
    }
}

/// The same, and the site gets a number if it has none. `None` = there are no numbers left, or no memory for its rows.
pub fn site(book: &Book, address: u64) -> Option<u64> {
    if address >> (64 - ADDRESS_AT) != 0 {
        return None;
    }
    let first = first_place(address);
    let mut number = 0;
    for step in 0..FOUND {
        let place = &book.found[(first + step) % FOUND];
        let mut found = place.load(Ordering::Acquire);
        if found == 0 {
            if number == 0 {
                number = new_number(book, address)?;
            }
            let mine = (address << ADDRESS_AT) | number;
            let order = Ordering::AcqRel;
            match place.compare_exchange(0, mine, order, Ordering::Acquire) {
                Ok(_) => return Some(number),
                Err(other) => found = other,
            }
        }
        // Another thread, or a handler that has interrupted this one, may have been first; then `number` is no site's.
        if found >> ADDRESS_AT == address {
            return Some(found % SITES as u64);
        }
    }
    None
}

/// The number of a site with the lines of a script that this ring has numbered. If there is none left for that, it is the site's own, and that
/// is counted.
pub fn site_with_lines(book: &Book, site: u64, ring: &Ring, lines: u32) -> u64 {
    let teller = teller(book, core::ptr::from_ref(ring).addr() as u64);
    let known = teller.and_then(|teller| self::site(book, lined(site, teller as u64, lines)));
    known.unwrap_or_else(|| {
        book.unlined.fetch_add(1, Ordering::Relaxed);
        site
    })
}

/// The place of a ring in [`Book::tellers`], which it gets if it has none; `None` = there are so many that its search would be long.
fn teller(book: &Book, ring: u64) -> Option<usize> {
    let first = place(ring);
    (0..MOST_STEPS)
        .map(|step| (first + step) % RINGS)
        .find(|at| {
            let entry = &book.tellers[*at];
            let order = Ordering::Relaxed;
            let known = entry.load(order);
            known == ring || known == 0 && entry.compare_exchange(0, ring, order, order).is_ok()
        })
}

fn new_number(book: &Book, address: u64) -> Option<u64> {
    let is_in = |[from, to]: &[AtomicU64; 2]| {
        (from.load(Ordering::Relaxed)..to.load(Ordering::Relaxed)).contains(&address)
    };
    if let Some(number) = calls().blocks.wrappers.iter().position(is_in) {
        return Some((FIRST_WRAPPER + number) as u64);
    }
    let sites = book.sites.load(Ordering::Relaxed);
    // Functions are told apart, and threads have rows for them, when lines are not told any more.
    let most = match of_lined(address) {
        None => FIRST_WRAPPER as u64 - 1,
        Some(_) if !is_half_free() => return None,
        Some(_) => LINED_SITES,
    };
    if sites >= most {
        return None;
    }
    if (sites + 1).is_multiple_of(ROWS) {
        charge(PAGE_BYTES * book.tallied.load(Ordering::Relaxed))?;
    }
    let number = book.sites.fetch_add(1, Ordering::Relaxed) + 1;
    let place = book.addresses.get(number as usize)?;
    place.store(address, Ordering::Release);
    Some(number)
}

/// Where the tally of a thread is that was introduced in this session, if it is found at once.
#[inline(always)]
pub fn tally_at_once(book: &Book, thread: u64, session: u32) -> Option<u64> {
    let mut place = place(thread);
    loop {
        let tally = book.tallies[place % RINGS].load(Ordering::Acquire);
        if tally <= IN_VAIN {
            return None;
        }
        let beside = beside(tally);
        if beside.thread.load(Ordering::Relaxed) == thread
            && beside.session.load(Ordering::Relaxed) == session.into()
        {
            return Some(tally);
        }
        place += 1;
        if place.is_multiple_of(NEAR_PLACES) {
            return None;
        }
    }
}

/// Where a thread's tally is; `None` = it has none. One that was not introduced is found by the place of the thread's ring, which is in memory
/// of this process alone.
pub fn tally(book: &Book, ring: &Ring, thread: u64, session: u32) -> Option<u64> {
    tally_at_once(book, thread, session).or_else(|| {
        let tally = book.tallies[place_of(ring, thread)?].load(Ordering::Acquire);
        (tally > IN_VAIN).then_some(tally)
    })
}

fn place_of(ring: &Ring, thread: u64) -> Option<usize> {
    let at = core::ptr::from_ref(ring).addr() as u64;
    let first = place(thread);
    for step in 0..RINGS {
        let here = (first + step) % RINGS;
        if calls().rings[here].load(Ordering::Relaxed) == at {
            return Some(here);
        }
    }
    None
}

/// What a thread counts beside sites.
#[inline(always)]
pub fn beside(tally: u64) -> &'static Beside {
    // SAFETY: tallies are never unmapped.
    unsafe { &*ours::<Beside>(tally) }
}

/// A thread's row of a site.
#[inline(always)]
pub fn row(tally: u64, site: u64) -> *mut Row {
    let rows = ours::<Row>(tally + size_of::<Beside>() as u64);
    rows.wrapping_add(site as usize % SITES)
}

/// Makes what a thread needs for counting, as far as it is missing, and introduces it. `None` = there is no memory for it.
pub fn make(ring: &Ring, thread: u64, session: u32) -> Option<(&'static Book, u64)> {
    let book = match now() {
        Some(book) => book,
        None => begin()?,
    };
    if let Some(tally) = tally_at_once(book, thread, session) {
        return Some((book, tally));
    }
    let entry = &book.tallies[place_of(ring, thread)?];
    if entry.load(Ordering::Acquire) == IN_VAIN {
        return None;
    }
    let made = match entry.load(Ordering::Acquire) {
        // It is asked for once, because asking is a system call.
        0 => make_tally(book, entry).or_else(|| {
            let order = Ordering::Relaxed;
            let _ = entry.compare_exchange(0, IN_VAIN, order, order);
            None
        }),
        _ => Some(()),
    };
    made?;
    let tally = entry.load(Ordering::Acquire);
    if tally <= IN_VAIN {
        return None;
    }
    let beside = beside(tally);
    beside.thread.store(thread, Ordering::Relaxed);
    beside.session.store(session.into(), Ordering::Relaxed);
    Some((book, tally))
}

/// The tally of a place is this thread's no more, which is dead. What it has counted stays.
pub fn forget_thread(book: &Book, place: usize, thread: u64) {
    let tally = book.tallies[place % RINGS].load(Ordering::Acquire);
    if tally > IN_VAIN && beside(tally).thread.load(Ordering::Relaxed) == thread {
        beside(tally).session.store(0, Ordering::Relaxed);
    }
}

fn make_tally(book: &Book, entry: &AtomicU64) -> Option<()> {
    let pages = book.sites.load(Ordering::Relaxed) / ROWS + 1;
    charge(pages * PAGE_BYTES)?;
    book.tallied.fetch_add(1, Ordering::Relaxed);
    shared(entry, TALLY_BYTES)
}

/// Has the session begin to count.
fn begin() -> Option<&'static Book> {
    let blocks = &calls().blocks;
    let grain = blocks.grain;
    let kept = grain.checked_sub(LEAST_GRAIN)? as usize;
    let kept = blocks.books.get(kept)?;
    if kept.load(Ordering::Acquire) == 0 {
        shared(kept, size_of::<Book>() as u64)?;
    }
    let book = kept.load(Ordering::Acquire);
    // SAFETY: a book is never unmapped.
    let known = unsafe { &*ours::<Book>(book) };
    // The same in each session, because each grain has a book of its own; a child of fork finds zeros.
    known.grain.store(grain, Ordering::Release);
    charge(OF_SITES)?;
    // A thread that was about to do this for a session before may come first: then its book is everybody's, with its own grain.
    let order = Ordering::AcqRel;
    let now = &blocks.book;
    if now
        .compare_exchange(0, book, order, Ordering::Acquire)
        .is_err()
    {
        give_back(OF_SITES);
    }
    self::now()
}

/// Parts of a book that are forgotten one after the other: what is of its session, its tables, and its tallies. A part of what is forgotten
/// of all books has a number.
pub(super) const PARTS: usize = 1 + LISTED + RINGS;
/// Bytes of addresses whose pages are given back at once: a thread of the program stands for so long.
const PART: u64 = 64 << 20;

/// Gives back the pages of a part of what was counted; [`Blocks::forgotten`](wire::calls::blocks::Blocks::forgotten) says how far it has come.
/// The gate is closed. A thread that stands in a hook may write one word more when it goes on, so the memory stays mapped; by its era such a
/// word is known to be none.
pub fn forget() {
    let blocks = &calls().blocks;
    let mut part = blocks.forgotten.load(Ordering::Relaxed) as usize;
    if part == 0 {
        blocks.book.store(0, Ordering::Release);
        blocks.taken.store(0, Ordering::Relaxed);
    }
    let mut bytes = 0;
    while part < GRAINS * PARTS && bytes < PART {
        let book = blocks.books[part / PARTS].load(Ordering::Acquire);
        if book == 0 {
            part = (part / PARTS + 1) * PARTS;
            continue;
        }
        // SAFETY: a book is never unmapped.
        bytes += forget_part(unsafe { &*ours::<Book>(book) }, part % PARTS);
        part += 1;
    }
    let all = part >= GRAINS * PARTS;
    let part = if all { FORGOTTEN } else { part as u64 };
    blocks.forgotten.store(part, Ordering::Release);
}

/// Returns how many bytes it was.
pub(super) fn forget_part(book: &Book, part: usize) -> u64 {
    if part == 0 {
        book.era.fetch_add(1, Ordering::Relaxed);
        book.sites.store(0, Ordering::Relaxed);
        book.tallied.store(0, Ordering::Relaxed);
        book.unlined.store(0, Ordering::Relaxed);
        let at = core::ptr::from_ref(book).addr() + offset_of!(Book, found);
        return empty(at as u64, OF_SITES);
    }
    if let Some(table) = book.list.get(part - 1) {
        let bytes = table_bytes(book.grain.load(Ordering::Relaxed));
        return empty(table.load(Ordering::Acquire), bytes);
    }
    let entry = &book.tallies[part - 1 - LISTED];
    match entry.load(Ordering::Acquire) {
        IN_VAIN => {
            entry.store(0, Ordering::Relaxed);
            0
        }
        tally => empty(tally, TALLY_BYTES),
    }
}
