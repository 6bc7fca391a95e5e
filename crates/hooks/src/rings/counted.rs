//! Of a table of counts the rows that are marked are read, and no others.
//!
//! The guest is this process: mappings of the test hold what the agent would have written.

use super::Rings;
use super::figures::Rows;
use process::memory::GuestMemory;
use std::mem::offset_of;
use std::ptr::NonNull;
use std::sync::Arc;
use wire::calls::further::TABLES;
use wire::calls::{self, COUNTS, Calls, Ring, row_key};

const SESSION: u32 = 7;
const WORDS: usize = 64;

/// Zeros of whole pages, of which a part may be unmapped; they stay for as long as the test's process.
fn zeros(bytes: usize) -> NonNull<u64> {
    // SAFETY: a new mapping at an address of the kernel's choice.
    let mapped = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    assert_ne!(mapped, libc::MAP_FAILED);
    NonNull::new(mapped.cast()).expect("no mapping is at 0")
}

/// An image of what the agent keeps: [`Calls`], then headers of rings a page apart, whose tables of counts are where the test says.
struct Image(NonNull<u64>);

impl Image {
    fn new(tables: &[u64]) -> Self {
        let calls = size_of::<Calls>().next_multiple_of(wire::PAGE);
        let image = Image(zeros(calls + (tables.len() + 1) * wire::PAGE));
        image.set(offset_of!(Calls, made), tables.len() as u64);
        let records = image.address() + (calls + tables.len() * wire::PAGE) as u64;
        for (number, table) in tables.iter().enumerate() {
            let ring = calls + number * wire::PAGE;
            let address = image.address() + ring as u64;
            image.set(offset_of!(Calls, rings) + number * 8, address);
            image.set(ring + offset_of!(Ring, records), records);
            image.set(ring + offset_of!(Ring, size), WORDS as u64 * 8);
            image.set(ring + offset_of!(Ring, counts), *table);
            // Beside it lies the thread's id.
            const _: () = assert!(offset_of!(Ring, session) == offset_of!(Ring, tid) + 4);
            image.set(ring + offset_of!(Ring, tid), u64::from(SESSION) << 32);
        }
        image
    }

    fn address(&self) -> u64 {
        self.0.as_ptr() as u64
    }

    fn set(&self, offset: usize, value: u64) {
        // SAFETY: the callers' offsets are multiples of 8 inside the mapping that this value owns.
        unsafe { self.0.as_ptr().add(offset / 8).write_volatile(value) };
    }

    fn mark(&self, ring: usize, word: usize, rows: u64) {
        let calls = size_of::<Calls>().next_multiple_of(wire::PAGE);
        let rings = calls + ring * wire::PAGE + offset_of!(Ring, rows);
        self.set(rings + word * 8, rows);
    }

    /// Sets a word of what is behind the first table of the first ring.
    fn further(&self, word: usize, value: u64) {
        let calls = size_of::<Calls>().next_multiple_of(wire::PAGE);
        self.set(calls + offset_of!(Ring, further) + word * 8, value);
    }

    fn rings(&self) -> Rings {
        let memory = GuestMemory::open(std::process::id() as i32).expect("our own memory");
        Rings::open(Arc::new(memory), None, self.address(), SESSION).expect("an image")
    }
}

/// Writes a row, as if that many calls of a hook had begun and returned.
fn count(table: NonNull<u64>, row: usize, hook: u32, calls: u64) {
    let size = size_of::<calls::Count>() / 8;
    // SAFETY: the callers' tables have more than `row` rows, and no other thread uses them during the test.
    unsafe {
        let at = table.as_ptr().add(row * size).cast::<calls::Count>();
        (*at).key = row_key(hook, 0);
        (*at).begun = calls;
        (*at).returned = calls;
    }
}

/// Most of the table is not even there, so that reading it fails.
#[test]
fn rows_that_are_not_marked_are_not_read() {
    let bytes = COUNTS * size_of::<calls::Count>();
    let table = zeros(bytes);
    let rows = [0, 1, 63, 64, 4000, COUNTS - 1];
    let image = Image::new(&[table.as_ptr() as u64]);
    let mut marks = [0_u64; COUNTS / 64];
    for (row, hook) in rows.into_iter().zip(1..) {
        count(table, row, hook, 10 + u64::from(hook));
        marks[row / 64] |= 1 << (row % 64);
    }
    for (word, rows) in marks.iter().enumerate() {
        image.mark(0, word, *rows);
    }
    let hole = 200 * size_of::<calls::Count>()..3900 * size_of::<calls::Count>();
    let hole = hole.start.next_multiple_of(wire::PAGE)..hole.end / wire::PAGE * wire::PAGE;
    // SAFETY: whole pages of the table's mapping, of which nothing is used any more.
    let unmapped = unsafe {
        let at = table.cast::<u8>().add(hole.start);
        libc::munmap(at.as_ptr().cast(), hole.len())
    };
    assert_eq!(unmapped, 0);
    let mut rings = image.rings();
    let mut counted = rings.counted().expect("what is marked can be read").0;
    counted.sort_by_key(|row| row.hook);
    let counted = counted.iter().map(|row| (row.hook, row.returned));
    let counted: Vec<(u32, u64)> = counted.collect();
    assert_eq!(
        counted,
        [(1, 11), (2, 12), (3, 13), (4, 14), (5, 15), (6, 16)]
    );
    // It is marked and free.
    image.mark(0, 1, 0b11);
    assert_eq!(rings.counted().expect("it can be read").0.len(), 6);
}

/// Rows behind the first table are read as far as they are in use, of each table once, and no more than may be.
#[test]
fn rows_behind_the_first_table_are_read() {
    let first = zeros(COUNTS * size_of::<calls::Count>());
    let image = Image::new(&[first.as_ptr() as u64]);
    let tables = [0, 1].map(|_| zeros(COUNTS * size_of::<calls::Count>()));
    for (number, table) in tables.iter().enumerate() {
        (0..COUNTS).for_each(|row| count(*table, row, (number * COUNTS + row) as u32, 2));
        image.further(number, table.as_ptr() as u64);
    }
    image.further(TABLES + 1, COUNTS as u64 + 100);
    let mut rings = image.rings();
    let counted = rings.counted().expect("it can be read").0;
    assert_eq!(counted.len(), COUNTS + 100);
    assert_eq!(rings.losses().expect("losses").uncounted, 0);
    // A process that names one table twice, an end far away, and no table.
    image.further(1, tables[0].as_ptr() as u64);
    image.further(TABLES + 1, u64::MAX);
    assert_eq!(rings.counted().expect("it can be read").0.len(), COUNTS);
    image.further(0, 0);
    assert_eq!(rings.counted().expect("it can be read").0.len(), 0);
}

/// A guest marks every row of its table, which is more than may be read.
#[test]
fn marks_are_believed_within_a_bound() {
    let table = zeros(COUNTS * size_of::<calls::Count>());
    (0..COUNTS).for_each(|row| count(table, row, row as u32, 1));
    let image = Image::new(&[table.as_ptr() as u64]);
    (0..COUNTS / 64).for_each(|word| image.mark(0, word, u64::MAX));
    let rings = image.rings();
    let mut left = 1000;
    for expected in [1000, 0] {
        let mut all = Rows::default();
        let ring = rings.known[0].address;
        let read = rings.table(ring, table.as_ptr() as u64, &mut left, &mut all);
        assert_eq!(read.expect("it is there").len(), expected);
        assert_eq!((left, all.lost), (0, (COUNTS - expected) as u64));
    }
}
