//! How much of what objects have mapped is in memory: of `mmap.mmap`, whose size says what may be used and not what is.
//! Used by `snapshot`.

use process::pagemap::{Page, Pagemap};
use std::cell::Cell;
use std::ops::Range;

/// Bytes of a page.
const PAGE: u64 = 4096;
/// Pages that are asked for at once.
const AT_ONCE: u64 = 4096;
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
        let (mut at, mut resident) = (range.start / PAGE * PAGE, 0);
        while at < range.end {
            let wanted = (range.end - at).div_ceil(PAGE).min(AT_ONCE);
            let wanted = wanted.min(self.left.get());
            let told = self.pages.pages(&(at..at.saturating_add(wanted * PAGE)));
            if told.is_empty() {
                break;
            }
            let count = told.len() as u64;
            self.left.set(self.left.get() - count);
            let is_here = |page: &&Page| matches!(page, Page::Own | Page::File);
            resident += told.iter().filter(is_here).count() as u64 * PAGE;
            at = at.saturating_add(count * PAGE);
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
