//! How much of what objects have mapped is in memory: of `mmap.mmap`, whose size says what may be used and not what is.

use process::pagemap::{Page, Pagemap};
use std::cell::Cell;
use std::ops::Range;

/// Bytes of a page.
const PAGE: u64 = 4096;
/// Pages that are asked for at once.
const AT_ONCE: usize = 4096;
/// Pages that are asked for in all: the sizes of mappings are what the process says.
const MOST: u64 = 1 << 24;

/// The pages of a process.
#[derive(Debug)]
pub struct Mapped {
    pages: Pagemap,
    left: Cell<u64>,
}

impl Mapped {
    /// Opens those of a process; `None` where they cannot be read, and mappings count nothing.
    pub fn of(pid: i32) -> Option<Self> {
        let pages = Pagemap::open(pid).ok()?;
        Some(Mapped {
            pages,
            left: Cell::new(MOST),
        })
    }

    /// Returns how many bytes of a range are in memory.
    pub fn resident(&self, range: &Range<u64>) -> u64 {
        let mut words = vec![[0; 8]; AT_ONCE];
        let (mut at, mut resident) = (range.start / PAGE * PAGE, 0);
        while at < range.end {
            let wanted = (range.end - at).div_ceil(PAGE).min(AT_ONCE as u64);
            let wanted = wanted.min(self.left.get());
            let told = match self.pages.read(at, &mut words[..wanted as usize]) {
                Ok(told) if told != 0 => told,
                _ => break,
            };
            self.left.set(self.left.get() - told as u64);
            let is_here = |word: &&[u8; 8]| {
                matches!(Page::of(u64::from_le_bytes(**word)), Page::Own | Page::File)
            };
            resident += words[..told].iter().filter(is_here).count() as u64 * PAGE;
            at += told as u64 * PAGE;
        }
        resident
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_that_nobody_has_is_bounded() {
        let mapped = Mapped::of(std::process::id() as i32).expect("our own pages");
        assert_eq!(mapped.resident(&(0..PAGE)), 0);
        mapped.resident(&(0..1 << 46));
        assert_eq!(mapped.left.get(), 0, "it ends when all were asked for");
        let here = [1_u8; 64];
        let at = here.as_ptr() as u64;
        assert_eq!(mapped.resident(&(at..at + 1)), 0, "none is left");
        let mapped = Mapped::of(std::process::id() as i32).expect("our own pages");
        assert_eq!(mapped.resident(&(at..at + 1)), PAGE);
    }
}
