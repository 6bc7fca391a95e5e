//! A guest's memory as the command reads it: control page with notices, lists of areas and hooks, rings, the pool's header, and
//! the books of `mem`, alive and after the end. Whatever stands there, reading ends soon and takes little memory.
//!
//! The input is patches of an image that an agent could have written: how many come before the first look, then each as
//! offset (24 bits), length, bytes. The patches that are left are written between two looks.
#![no_main]

use births::{ledger, postmortem};
use hooks::image;
use inject::resident::Resident;
use languages::snapshot::Told;
use libfuzzer_sys::fuzz_target;
use process::memory::GuestMemory;
use std::alloc::{GlobalAlloc, Layout, System};
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use vm::ruby::Facts;
use wire::calls::{self, Area, Calls, Hook, Ring, area, kind};
use wire::ledger::{FRAMES, KINDS, SITES, STACKS, TEXT};
use wire::{ControlPage, Counts, Ledger, Segments};

/// What reading may take of memory at a time, and of time.
const MEMORY: usize = 512 << 20;
const TIME: Duration = Duration::from_secs(10);

const SIZE: usize = 1 << 20;
const CONTROL_PAGE: u64 = 0x1000;
const CALLS: u64 = 0x2000;
const LEDGER: u64 = 0x20000;
const RINGS: u64 = 0x40000;
const HOOKS: u64 = 0x60000;
const BOOKS: u64 = 0x70000;
const COUNT: usize = 4;
const WORDS: u64 = 512;

/// Memory that is given out, and the most that was.
struct Counted;
static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

fn given(bytes: usize) {
    let now = NOW.fetch_add(bytes, Ordering::Relaxed) + bytes;
    MOST.fetch_max(now, Ordering::Relaxed);
}

// SAFETY: all is handed on to the system's allocator.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        given(layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        given(layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counted = Counted;

/// The image; an address is an offset.
struct Image(Vec<u8>);

impl Image {
    fn set(&mut self, at: u64, words: &[u64]) {
        for (at, word) in (at as usize..).step_by(8).zip(words) {
            self.0[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
    }

    /// As an agent leaves it that has booked some births and recorded some calls.
    fn new() -> Self {
        let mut image = Image(vec![0; SIZE]);
        image.rings();
        image.areas();
        image.books();
        let notices = CONTROL_PAGE + offset_of!(ControlPage, notices) as u64;
        image.set(notices, &[1 | 2 << 32, 7 | 7 << 32, 0, 0]);
        let pool = |offset: usize| CALLS + (offset_of!(Calls, pool) + offset) as u64;
        image.set(pool(offset_of!(calls::Pool, at)), &[RINGS]);
        image.set(pool(offset_of!(calls::Pool, slot)), &[calls::slot(1 << 20)]);
        image.set(pool(offset_of!(calls::Pool, slots)), &[2]);
        image
    }

    fn rings(&mut self) {
        self.set(CALLS + offset_of!(Calls, made) as u64, &[1]);
        for number in 0..COUNT as u64 {
            let header = RINGS + number * wire::PAGE as u64;
            let records = RINGS + COUNT as u64 * wire::PAGE as u64 + number * WORDS * 8;
            let field = |offset: usize| header + offset as u64;
            let listed = CALLS + offset_of!(Calls, rings) as u64 + number * 8;
            self.set(listed, &[header]);
            self.set(field(offset_of!(Ring, records)), &[records]);
            self.set(field(offset_of!(Ring, size)), &[WORDS * 8]);
            self.set(field(offset_of!(Ring, counts)), &[BOOKS]);
            let session = field(offset_of!(Ring, session)) as usize;
            self.0[session] = 1;
            let mut at = 0;
            for (words, what) in [
                (2, kind::THREAD),
                (4, kind::PLACE),
                (6, kind::ENTRY),
                (3, kind::RETURNED),
                (5, kind::ENTRY),
                (2, kind::ROOM),
                (6, kind::RETURN),
                (3, kind::FORK),
            ] {
                let record = [calls::header(words, what, at), 1, 1 | 1 << 32, 0x6261];
                self.set(
                    records + at * 8,
                    &record[..record.len().min(words as usize)],
                );
                at += words;
            }
        }
    }

    fn areas(&mut self) {
        let used = 2 * size_of::<Hook>() as u64;
        let Area {
            at,
            size,
            used,
            holds,
        } = Area {
            at: HOOKS,
            size: 0x1000,
            used,
            holds: area::HOOKS,
        };
        let list = CALLS + offset_of!(Calls, areas) as u64;
        self.set(list, &[at, size, used, holds]);
    }

    fn books(&mut self) {
        for (number, (offset, piece)) in (0..).zip([
            (offset_of!(Ledger, sites), SITES),
            (offset_of!(Ledger, frames), FRAMES),
            (offset_of!(Ledger, kinds), KINDS),
            (offset_of!(Ledger, stacks), STACKS),
            (offset_of!(Ledger, text), TEXT),
        ]) {
            let (at, first) = (LEDGER + offset as u64, BOOKS + number * 0x1000);
            self.set(at + offset_of!(Segments, length) as u64, &[8]);
            self.set(at + offset_of!(Segments, piece) as u64, &[piece]);
            self.set(at + offset_of!(Segments, pieces) as u64, &[first]);
            // Small numbers lead somewhere.
            self.set(first, &[1 | 1 << 32, 2, 1, 1 | 2 << 32, 3, 1]);
        }
        let counts = BOOKS + 0x8000;
        for (at, count) in [
            (
                offset_of!(Ledger, site_counts),
                offset_of!(Ledger, site_count),
            ),
            (
                offset_of!(Ledger, kind_counts),
                offset_of!(Ledger, kind_count),
            ),
        ] {
            self.set(LEDGER + at as u64, &[counts]);
            self.set(LEDGER + count as u64, &[8]);
        }
        self.set(counts, &[1; 8 * size_of::<Counts>() / 8]);
        let entries = LEDGER + offset_of!(Ledger, entries) as u64;
        self.set(entries, &[BOOKS + 0x9000]);
        let count = LEDGER + offset_of!(Ledger, entry_count) as u64;
        self.set(count, &[4]);
    }
}

/// The next patch of the input.
fn patch<'b>(bytes: &mut &'b [u8]) -> Option<(u64, &'b [u8])> {
    let (head, rest) = bytes.split_first_chunk::<4>()?;
    let length = usize::from(head[3]).min(rest.len());
    let offset = u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize % SIZE;
    let (patch, rest) = rest.split_at(length.min(SIZE - offset));
    *bytes = rest;
    Some((offset as u64, patch))
}

fn facts(bytes: &[u8]) -> Facts {
    let words = bytes.as_chunks::<8>().0.iter();
    let mut words = words.map(|word| u64::from_le_bytes(*word));
    Facts::from_words([(); Facts::WORDS].map(|()| words.next().unwrap_or(0)))
}

fuzz_target!(|bytes: &[u8]| {
    let (first, mut bytes) = bytes.split_first().unwrap_or((&0, &[]));
    let mut image = Image::new();
    for _ in 0..*first {
        let Some((at, patch)) = patch(&mut bytes) else {
            break;
        };
        image.0[at as usize..at as usize + patch.len()].copy_from_slice(patch);
    }
    let (file, _) = lancet_fuzz::holding(&image.0);
    drop(image);
    // More that can be read, as zeros: a process maps what it likes.
    file.set_len(1 << 40).expect("a sparse file");
    let memory = Arc::new(GuestMemory::image(file.try_clone().expect("a descriptor")));
    let mut resident = Resident::nowhere();
    (resident.header.control_page, resident.header.calls) = (CONTROL_PAGE, CALLS);
    (resident.base, resident.header.ledger) = (0x1000, LEDGER);

    let (began, before) = (Instant::now(), NOW.load(Ordering::Relaxed));
    MOST.store(before, Ordering::Relaxed);
    let facts = facts(bytes);
    image::read(&memory, &resident, || {
        if let Some((at, patch)) = patch(&mut bytes) {
            file.write_all_at(patch, at).expect("written");
        }
    });
    for paths in [false, true] {
        let mut reader = ledger::Reader::new(LEDGER, paths);
        for _ in 0..2 {
            let _ = reader.tally(&memory);
        }
        let seen = facts
            .objects(&memory)
            .and_then(|heap| postmortem::count(&memory, &*heap, LEDGER));
        if let Ok(seen) = seen {
            let _ = reader.with_rows(&memory, seen.tally, &seen.sites, &[]);
        }
    }
    let most = MOST.load(Ordering::Relaxed).saturating_sub(before);
    assert!(most < MEMORY, "{most} bytes");
    assert!(began.elapsed() < TIME, "{:?}", began.elapsed());
});
