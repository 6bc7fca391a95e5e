//! Which pages are in memory, as runs of pages that are at the same kind of place. Used by `resident_memory`, and by
//! crate `rss`.

#![forbid(unsafe_code)]

use std::io;

use crate::maps::PAGE;
use crate::pagemap::{Page, Pagemap};
use crate::smaps::Area;

/// Words that are read at once: those of 128 MiB.
const AT_ONCE: u64 = 1 << 15;
/// The most pages that are asked for: 1 TiB of addresses. Mappings of which little is in memory can be as large as they like.
const MOST: u64 = 1 << 28;

/// Where a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In memory, and the process's own.
    Own,
    /// In memory, and a file's or shared.
    File,
    /// In swap and not in memory.
    Swap,
}

/// Pages in a row that are at the same kind of place, within one mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// First address of the first page.
    pub start: u64,
    /// One past the last address.
    pub end: u64,
    /// Where its pages are.
    pub place: Place,
}

/// Returns the runs of all mappings, by rising address, and where the mappings start that were left out because they have too many pages.
///
/// # Errors
/// Those of the file.
pub fn runs(pid: i32, areas: &[Area]) -> io::Result<(Vec<Run>, Vec<u64>)> {
    let pagemap = Pagemap::open(pid)?;
    let (mut runs, mut left_out) = (Vec::new(), Vec::new());
    let mut left = MOST;
    for area in areas {
        // The kernel's own page at the top of the address space is in no page table of the process's.
        if area.rss == 0 && area.swap == 0 {
            continue;
        }
        let pages = area.mapping.size() / PAGE;
        match left.checked_sub(pages) {
            Some(rest) => left = rest,
            None => {
                left_out.push(area.mapping.start);
                continue;
            }
        }
        of(&pagemap, area, &mut runs)?;
    }
    Ok((runs, left_out))
}

/// Appends the runs of one mapping.
fn of(pagemap: &Pagemap, area: &Area, runs: &mut Vec<Run>) -> io::Result<()> {
    let first = runs.len();
    let (mut at, end) = (area.mapping.start, area.mapping.end);
    let mut words = vec![[0; 8]; AT_ONCE.min((end - at) / PAGE) as usize];
    while at < end {
        let wanted = AT_ONCE.min((end - at) / PAGE) as usize;
        let found = pagemap.read(at, &mut words[..wanted])?;
        if found == 0 {
            break;
        }
        for word in &words[..found] {
            if let Some(place) = place(Page::of(u64::from_le_bytes(*word))) {
                match runs[first..].last_mut() {
                    Some(last) if last.end == at && last.place == place => last.end += PAGE,
                    _ => runs.push(Run {
                        start: at,
                        end: at + PAGE,
                        place,
                    }),
                }
            }
            at += PAGE;
        }
    }
    Ok(())
}

fn place(page: Page) -> Option<Place> {
    match page {
        Page::Own => Some(Place::Own),
        Page::File => Some(Place::File),
        Page::Swap => Some(Place::Swap),
        Page::Nowhere | Page::Guard => None,
    }
}

/// Returns the runs that touch a range.
pub fn within(runs: &[Run], start: u64, end: u64) -> &[Run] {
    let first = runs.partition_point(|run| run.end <= start);
    let last = runs.partition_point(|run| run.start < end);
    runs.get(first..last).unwrap_or(&[])
}
