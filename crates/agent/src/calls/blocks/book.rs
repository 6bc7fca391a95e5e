//! The book that all threads share: sites, and the words of blocks. It is made, and grows, without a lock: who comes second uses what the
//! first has made. Used by `blocks`.

use crate::calls::session::calls;
use crate::memory::follow::ours;
use crate::memory::sys;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU64, Ordering};
use wire::calls::blocks::{
    Book, FOUND, GRAINS, LEAST_GRAIN, LISTED, REGION_SHIFT, REGIONS, SITES, TALLY_BYTES,
    first_place, table_bytes,
};
use wire::calls::{MOVED, Ring};

/// Places that are looked at on the short way.
const AT_ONCE: usize = 4;
/// How far a site's number is below the address in its place.
const ADDRESS_AT: u32 = 16;

/// The book of this session; `None` = nothing was counted yet.
#[inline(always)]
pub fn now() -> Option<&'static Book> {
    let book = calls().blocks.book.load(Ordering::Acquire);
    // SAFETY: a book is never unmapped.
    (book != 0).then(|| unsafe { &*ours::<Book>(book) })
}

#[inline(always)]
fn grain() -> u64 {
    calls().blocks.grain & 7
}

/// Where the word of the block at `at` is; `None` = there is no table for it.
#[inline(always)]
pub fn place(book: &Book, at: u64) -> Option<*mut u64> {
    let table = book.tables.get((at >> REGION_SHIFT) as usize)?;
    let table = table.load(Ordering::Acquire);
    let within = at & ((1 << REGION_SHIFT) - 1);
    (table != 0).then(|| ours::<u64>(table).wrapping_add((within >> grain()) as usize))
}

/// Takes the word of a block away, and returns it; 0 = it has none.
#[inline(always)]
pub fn take(book: &Book, at: u64) -> u64 {
    let Some(place) = place(book, at) else {
        return 0;
    };
    // SAFETY: it leads into a table, which is never unmapped. The thread gives the block back, so only this thread writes its word.
    unsafe {
        let known = *place;
        if known != 0 {
            *place = 0;
        }
        known
    }
}

/// The number of a site, if it is found at once.
#[inline(always)]
pub fn site_at_once(book: &Book, address: u64) -> Option<u64> {
    let first = first_place(address);
    for step in 0..AT_ONCE {
        let found = book.found[(first + step) % FOUND].load(Ordering::Relaxed);
        if found >> ADDRESS_AT == address {
            return Some(found % SITES as u64);
        }
    }
    None
}

/// The same, and the site gets a number if it has none. `None` = there are no numbers left.
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

fn new_number(book: &Book, address: u64) -> Option<u64> {
    if book.sites.load(Ordering::Relaxed) >= SITES as u64 - 1 {
        return None;
    }
    let number = book.sites.fetch_add(1, Ordering::Relaxed) + 1;
    let place = book.addresses.get(number as usize)?;
    place.store(address, Ordering::Release);
    Some(number)
}

/// Where the word of the block at `at` is, with a table made for it if there is none. `None` = there is no memory for that.
pub fn room(book: &Book, at: u64) -> Option<*mut u64> {
    if let Some(place) = place(book, at) {
        return Some(place);
    }
    let region = (at >> REGION_SHIFT) as usize;
    if region >= REGIONS || book.listed.load(Ordering::Relaxed) >= LISTED as u64 {
        return None;
    }
    let made = shared(&book.tables[region], table_bytes(grain()))?;
    if let Some(table) = made {
        let number = book.listed.fetch_add(1, Ordering::Relaxed);
        if let Some(place) = book.list.get(number as usize) {
            place.store(table, Ordering::Release);
        }
    }
    place(book, at)
}

/// Maps memory whose address a word has, unless it has one. Returns the address if this thread was the first; `None` = there is no memory.
fn shared(word: &AtomicU64, bytes: u64) -> Option<Option<u64>> {
    if word.load(Ordering::Acquire) != 0 {
        return Some(None);
    }
    let made = sys::map(bytes)?;
    let order = Ordering::AcqRel;
    if word
        .compare_exchange(0, made, order, Ordering::Relaxed)
        .is_ok()
    {
        return Some(Some(made));
    }
    // SAFETY: it was mapped just now, and nobody else knows it.
    unsafe { sys::unmap(made, bytes) };
    Some(None)
}

/// Makes what a thread needs for counting, as far as it is missing. `None` = there is no memory for it.
pub fn make(ring: &Ring) -> Option<()> {
    let blocks = &calls().blocks;
    let kept = blocks
        .books
        .get(grain().checked_sub(LEAST_GRAIN)? as usize)?;
    shared(kept, size_of::<Book>() as u64)?;
    let book = kept.load(Ordering::Acquire);
    blocks.book.store(book, Ordering::Release);
    shared(&ring.tally, TALLY_BYTES)?;
    Some(())
}

/// Gives the pages of all that was counted back. All threads stand still, and the gate is closed; one that stands in a hook may write one word
/// more when it goes on, so the memory stays mapped.
pub fn forget() {
    let blocks = &calls().blocks;
    blocks.book.store(0, Ordering::Release);
    for number in 0..GRAINS {
        let book = blocks.books[number].load(Ordering::Acquire);
        if book == 0 {
            continue;
        }
        let of_session = offset_of!(Book, found) as u64;
        // SAFETY: it is a whole book, which is never unmapped; what is from that offset on is of one session.
        let (book, bytes) = unsafe { (&*ours::<Book>(book), size_of::<Book>() as u64) };
        empty(
            core::ptr::from_ref(book).addr() as u64 + of_session,
            bytes - of_session,
        );
        book.sites.store(0, Ordering::Relaxed);
        let listed = book.listed.load(Ordering::Relaxed) as usize;
        for table in book.list.iter().take(listed) {
            empty(
                table.load(Ordering::Acquire),
                table_bytes(number as u64 + LEAST_GRAIN),
            );
        }
    }
    for ring in &calls().rings {
        let ring = ring.load(Ordering::Acquire);
        if ring > MOVED {
            // SAFETY: rings are never unmapped.
            let ring = unsafe { &*ours::<Ring>(ring) };
            ring.taking.store(0, Ordering::Relaxed);
            empty(ring.tally.load(Ordering::Relaxed), TALLY_BYTES);
        }
    }
}

/// Makes a mapping of ours zeros again, which take no memory.
fn empty(at: u64, bytes: u64) {
    // SAFETY: callers pass whole pages of ours, or 0, whose words are numbers alone.
    unsafe {
        if at != 0 && !sys::give_pages_back(at, bytes) {
            // The program has locked its memory (`mlockall`).
            ours::<u8>(at).write_bytes(0, bytes as usize);
        }
    }
}
