//! Memory for the agent's books: growing lists, hash indexes over them, and the pieces that the command reads. Used by
//! `births::books`, `births::books::rows`, `births::books::records` and others.
//!
//! All of it comes from `mmap`, within a bound ([`bound`]), and is unmapped when the agent leaves; the guest's allocator is never used.
//! Every function that needs memory returns an `Option`: a birth that cannot be booked is counted as lost, and nothing waits.

use crate::memory::bound;
use crate::memory::follow::ours;
use core::marker::PhantomData;
use core::{ptr, slice};
use wire::Segments;
pub use wire::mix;

const PAGE: u64 = wire::PAGE as u64;

fn pages(bytes: u64) -> u64 {
    bytes.next_multiple_of(PAGE)
}

/// A list in one mapping, which is moved as a whole when it grows. `T` is plain data, valid when zero.
pub struct List<T> {
    at: u64,
    length: u32,
    capacity: u32,
    element: PhantomData<T>,
}

impl<T: Copy> List<T> {
    /// An empty list, for which nothing is mapped.
    pub const fn new() -> Self {
        List {
            at: 0,
            length: 0,
            capacity: 0,
            element: PhantomData,
        }
    }

    /// The number of elements, not of bytes.
    #[inline]
    pub fn len(&self) -> u32 {
        self.length
    }

    /// Returns its address, for the command.
    pub fn address(&self) -> u64 {
        self.at
    }

    /// Bytes mapped for it.
    pub fn mapped(&self) -> u64 {
        pages(u64::from(self.capacity) * size_of::<T>() as u64)
    }

    /// A pointer to element `index`.
    ///
    /// # Safety
    /// `index` is less than [`len`](Self::len), and no other reference to the element is alive.
    #[inline]
    pub unsafe fn get(&self, index: u32) -> *mut T {
        ours::<T>(self.at).wrapping_add(index as usize)
    }

    /// Appends an element and returns its index.
    pub fn push(&mut self, element: T) -> Option<u32> {
        if self.length == self.capacity {
            self.grow(self.capacity.checked_mul(2)?.max(512))?;
        }
        let index = self.length;
        // SAFETY: `index` is less than the capacity, which is mapped, and no reference to the unused element exists.
        unsafe { self.get(index).write(element) };
        self.length += 1;
        Some(index)
    }

    /// Appends all of `elements`; `None` = there is no memory, and none was appended.
    pub fn extend(&mut self, elements: &[T]) -> Option<()> {
        let length = self
            .length
            .checked_add(u32::try_from(elements.len()).ok()?)?;
        if length > self.capacity {
            self.grow(length.checked_mul(2)?.max(512))?;
        }
        // SAFETY: the capacity has room for `elements.len()` more elements, and `elements` lies outside of the mapping.
        unsafe {
            ptr::copy_nonoverlapping(elements.as_ptr(), self.get(self.length), elements.len());
        }
        self.length = length;
        Some(())
    }

    pub fn all(&self) -> &[T] {
        match self.at {
            0 => &[],
            // SAFETY: `length` elements are mapped and either written or zero, which is valid; the slice borrows the list.
            at => unsafe { slice::from_raw_parts(ours::<T>(at), self.length as usize) },
        }
    }

    /// Returns all elements for changing.
    pub fn all_mut(&mut self) -> &mut [T] {
        match self.at {
            0 => &mut [],
            // SAFETY: `length` elements are mapped and either written or zero, which is valid; the slice borrows the list mutably.
            at => unsafe { slice::from_raw_parts_mut(ours::<T>(at), self.length as usize) },
        }
    }

    /// Forgets all elements from `length` on.
    pub fn clear_to(&mut self, length: u32) {
        self.length = self.length.min(length);
    }

    /// Makes the list `length` elements long; new ones are zero or have their earlier values.
    pub fn resize(&mut self, length: u32) -> Option<()> {
        if length > self.capacity {
            self.grow(length)?;
        }
        self.length = length;
        Some(())
    }

    fn grow(&mut self, capacity: u32) -> Option<()> {
        let bytes = pages(u64::from(capacity) * size_of::<T>() as u64);
        self.at = if self.at == 0 {
            bound::map(bytes)?
        } else {
            // SAFETY: the mapping is this list's own, and `&mut self` excludes references into it; its address is replaced below.
            unsafe { bound::remap(self.at, self.mapped(), bytes)? }
        };
        self.capacity = capacity;
        Some(())
    }

    /// Unmaps its memory.
    pub fn free(&mut self) {
        if self.at != 0 {
            // SAFETY: the mapping is this list's own, `&mut self` excludes references into it, and it is forgotten below.
            unsafe { bound::unmap(self.at, self.mapped()) };
        }
        *self = Self::new();
    }
}

/// Numbers found by the hash of what they stand for: open addressing, linear probing, at most half full. 0 is a place that was never
/// used, [`DELETED`] one that was used.
pub struct Index {
    table: List<u32>,
    used: u32,
}

const DELETED: u32 = u32::MAX;
const LEAST_PLACES: u32 = 1024;

impl Index {
    /// An empty index, for which nothing is mapped.
    pub const fn new() -> Self {
        Index {
            table: List::new(),
            used: 0,
        }
    }

    #[inline]
    fn place(&self, at: u64) -> u32 {
        // SAFETY: the length is a power of two, so the masked index is less than it; the word is copied.
        unsafe { *self.table.get(at as u32 & (self.table.len() - 1)) }
    }

    /// Returns the number with hash `hash` for which `same` returns true. Neither 0 nor `u32::MAX` is ever passed to `same`.
    #[inline]
    pub fn find(&self, hash: u64, mut same: impl FnMut(u32) -> bool) -> Option<u32> {
        if self.table.len() == 0 {
            return None;
        }
        let mut at = hash;
        loop {
            match self.place(at) {
                0 => return None,
                number if number != DELETED && same(number) => return Some(number),
                _ => at = at.wrapping_add(1),
            }
        }
    }

    /// Adds a number that is not in it; `hash_of` returns the hash of any number in it.
    pub fn insert(&mut self, number: u32, hash_of: impl Fn(u32) -> u64) -> Option<()> {
        if (self.used + 1) * 2 > self.table.len() {
            self.rebuild(&hash_of)?;
        }
        self.put(number, hash_of(number));
        Some(())
    }

    fn put(&mut self, number: u32, hash: u64) {
        let mut at = hash;
        loop {
            match self.place(at) {
                0 => self.used += 1,
                DELETED => {}
                _ => {
                    at = at.wrapping_add(1);
                    continue;
                }
            }
            // SAFETY: the length is a power of two, so the masked index is less than it; `&mut self` excludes other references.
            unsafe { *self.table.get(at as u32 & (self.table.len() - 1)) = number };
            return;
        }
    }

    /// Removes the number `number`, whose hash is `hash`.
    pub fn remove(&mut self, number: u32, hash: u64) {
        let mut at = hash;
        while self.table.len() != 0 {
            match self.place(at) {
                0 => return,
                found if found == number => {
                    // SAFETY: the length is a power of two, so the masked index is less than it; `&mut self` excludes other
                    // references.
                    unsafe { *self.table.get(at as u32 & (self.table.len() - 1)) = DELETED };
                    return;
                }
                _ => at = at.wrapping_add(1),
            }
        }
    }

    /// Makes room: builds a table without deleted places, twice as long if this one is half full otherwise.
    fn rebuild(&mut self, hash_of: impl Fn(u32) -> u64) -> Option<()> {
        let mut alive = 0u32;
        self.each(|_| alive += 1);
        let places = ((alive + 1) * 4).next_power_of_two().max(LEAST_PLACES);
        let mut fresh = Index::new();
        fresh.table.resize(places)?;
        self.each(|number| fresh.put(number, hash_of(number)));
        self.table.free();
        *self = fresh;
        Some(())
    }

    fn each(&self, mut of: impl FnMut(u32)) {
        for at in 0..self.table.len() {
            match self.place(u64::from(at)) {
                0 | DELETED => {}
                number => of(number),
            }
        }
    }

    /// Empties it and keeps its memory for the next use.
    pub fn clear(&mut self) {
        self.table.all_mut().fill(0);
        self.used = 0;
    }

    /// Empties it and unmaps its memory.
    pub fn free(&mut self) {
        self.table.free();
        *self = Self::new();
    }

    /// Bytes mapped for it.
    pub fn mapped(&self) -> u64 {
        self.table.mapped()
    }
}

/// Returns the hash of a text.
pub fn hash_bytes(bytes: &[u8]) -> u64 {
    let mut hash = bytes.len() as u64;
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        hash = mix(hash, u64::from_be_bytes(*word));
    }
    if !rest.is_empty() {
        let word = rest
            .iter()
            .fold(0, |word, byte| word << 8 | u64::from(*byte));
        hash = mix(hash, word);
    }
    hash
}

/// Returns the bytes of one piece of `segments` with records of type `T`.
fn piece_bytes<T>(segments: &Segments) -> u64 {
    pages(segments.piece * size_of::<T>() as u64)
}

/// Returns the address of record `index`. Callers pass an index that was reserved, so its piece is mapped.
pub fn record<T>(segments: &Segments, index: u64) -> *mut T {
    let piece = segments.pieces[(index / segments.piece) as usize % wire::ledger::PIECES];
    ours::<T>(piece).wrapping_add((index % segments.piece) as usize)
}

/// Reserves `count` adjacent records within one piece and returns the index of the first. They are zero, and count as used as soon as
/// this returns.
pub fn reserve<T>(segments: &mut Segments, count: u64) -> Option<u64> {
    let left = segments.piece - segments.length % segments.piece;
    let first = if count > left {
        segments.length + left
    } else {
        segments.length
    };
    let piece = (first / segments.piece) as usize;
    let place = segments.pieces.get_mut(piece)?;
    if count > segments.piece {
        return None;
    }
    if *place == 0 {
        *place = bound::map(pages(segments.piece * size_of::<T>() as u64))?;
    }
    segments.length = first + count;
    Some(first)
}

/// Appends a record and returns its index, which is less than 2³².
pub fn append<T>(segments: &mut Segments, value: T) -> Option<u32> {
    let index = reserve::<T>(segments, 1)?;
    let at = record::<T>(segments, index);
    // SAFETY: `reserve` has mapped the record's piece, and the new record is not referenced yet.
    unsafe { ptr::write(at, value) };
    u32::try_from(index).ok()
}

/// Unmaps all pieces.
pub fn free<T>(segments: &mut Segments) {
    let bytes = piece_bytes::<T>(segments);
    for piece in &mut segments.pieces {
        if *piece != 0 {
            // SAFETY: the piece was mapped by `reserve` with that many bytes, and is forgotten below.
            unsafe { bound::unmap(*piece, bytes) };
            *piece = 0;
        }
    }
    segments.length = 0;
}

/// Bytes mapped for all pieces.
pub fn mapped<T>(segments: &Segments) -> u64 {
    let pieces = segments.pieces.iter().filter(|piece| **piece != 0).count();
    pieces as u64 * piece_bytes::<T>(segments)
}

#[cfg(test)]
mod tests;
