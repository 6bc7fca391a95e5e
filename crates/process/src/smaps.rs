//! Reads the kernel's figures for each mapping (`/proc/PID/smaps`). Used by `rss`, `resident_memory` and others here,
//! and by crate `rss`.
//!
//! The lines of a mapping are those of `__show_smap` (`fs/proc/task_mmu.c`): first the line of `maps`, then `Name:   12 kB`.
//! What a process has in memory is the sum of `Rss`, which `smaps_rollup` shows. The kernel hands the file out in pieces, as it
//! does `maps`: between two of them a running process may change.

use crate::descriptors::open_briefly;
use std::io::{self, BufRead, BufReader};

use crate::maps::{Mapping, Maps};

/// Limit of mappings that are read: twice what the most generous distributions allow a process (`vm.max_map_count`).
const MOST: usize = 1 << 21;

/// One mapping, and how much of it is where. All figures are bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Area {
    /// Its line of `/proc/PID/maps`.
    pub mapping: Mapping,
    /// Bytes in memory that count as the process's own.
    pub rss: u64,
    /// As `rss`, but a page that several processes have mapped counts as its bytes divided by their number.
    pub pss: u64,
    /// Bytes that are in swap and not in memory.
    pub swap: u64,
    /// The size of its pages: 4096, or more in a mapping of reserved huge pages (hugetlbfs), which are in no `Rss`.
    pub page: u64,
    /// Bytes in memory in reserved huge pages.
    pub hugetlb: u64,
}

/// Reads the mappings of a process with their figures, by rising address.
///
/// # Errors
/// The file cannot be read (only who may trace the process may read it), or there are too many mappings.
pub fn areas(pid: i32) -> io::Result<Vec<Area>> {
    let file = open_briefly(crate::proc_file::path(pid, "smaps"))?;
    parse(&mut BufReader::with_capacity(1 << 16, file), MOST)
}

/// Returns how many bytes are in memory, by `smaps_rollup`.
///
/// # Errors
/// The file cannot be read.
pub fn rollup(pid: i32) -> io::Result<u64> {
    let text = crate::proc_file::bytes(crate::proc_file::path(pid, "smaps_rollup"))?;
    let mut lines = text.split(|byte| *byte == b'\n');
    Ok(lines.find_map(|line| bytes(line, "Rss:")).unwrap_or(0))
}

/// Parses the text of a `smaps` with at most `most` mappings. Lines that are not in the kernel's form are skipped, and so is a mapping
/// that overlaps the one before it, because the process has changed it between two pieces of the file.
///
/// # Errors
/// The text cannot be read, or it has more mappings: a part of them must not be taken for all.
pub fn parse(text: &mut dyn BufRead, most: usize) -> io::Result<Vec<Area>> {
    let mut areas: Vec<Area> = Vec::new();
    let mut line = Vec::new();
    loop {
        line.clear();
        if text.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        let line = line.strip_suffix(b"\n").unwrap_or(&line);
        let begins = line.first().copied().unwrap_or(b' ');
        // Names of fields begin with a capital letter; addresses have no capital letters.
        if begins.is_ascii_hexdigit() && !begins.is_ascii_uppercase() {
            if areas.len() == most {
                let reason = format!("the process has more than {most} mappings");
                return Err(io::Error::other(reason));
            }
            let mapping = Maps::parse(line).iter().next().cloned();
            areas.extend(mapping.map(|mapping| Area {
                mapping,
                rss: 0,
                pss: 0,
                swap: 0,
                page: crate::maps::PAGE,
                hugetlb: 0,
            }));
            continue;
        }
        let Some(area) = areas.last_mut() else {
            continue;
        };
        let fields = [
            ("Rss:", &mut area.rss),
            ("Pss:", &mut area.pss),
            ("Swap:", &mut area.swap),
            ("KernelPageSize:", &mut area.page),
            ("Private_Hugetlb:", &mut area.hugetlb),
        ];
        for (name, into) in fields {
            if let Some(value) = bytes(line, name) {
                *into = value;
            }
        }
        area.hugetlb += bytes(line, "Shared_Hugetlb:").unwrap_or(0);
    }
    let mut end = 0;
    areas.retain(|area| {
        let is_next = area.mapping.start >= end;
        end = area.mapping.end.max(end);
        is_next
    });
    Ok(areas)
}

/// The bytes of a line `Rss:   12 kB`.
fn bytes(line: &[u8], name: &str) -> Option<u64> {
    let line = std::str::from_utf8(line.strip_prefix(name.as_bytes())?).ok()?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
7f0000-7f4000 rw-p 00000000 00:00 0 
Size:                 16 kB
KernelPageSize:        4 kB
Rss:                   8 kB
Pss:                   6 kB
Pss_Dirty:             4 kB
Swap:                  4 kB
SwapPss:               4 kB
THPeligible:    0
VmFlags: rd wr mr mw me ac
e00000-1000000 rw-s 00000000 00:01 3 /anon_hugepage (deleted)
KernelPageSize:     2048 kB
Rss:                   0 kB
Shared_Hugetlb:        0 kB
Private_Hugetlb:    2048 kB
Rss: 18446744073709551615 kB
";

    #[test]
    fn more_mappings_than_are_looked_at_are_an_error_and_not_a_part() {
        let error = parse(&mut SMAPS.as_bytes(), 1).expect_err("two mappings");
        assert_eq!(error.to_string(), "the process has more than 1 mappings");
    }

    #[test]
    fn each_mapping_has_its_figures() {
        let areas = parse(&mut SMAPS.as_bytes(), 2).expect("text");
        let figures = |area: &Area| [area.rss, area.pss, area.swap, area.page, area.hugetlb];
        assert_eq!(figures(&areas[0]), [8192, 6144, 4096, 4096, 0]);
        // A number that is no number of bytes is passed over.
        assert_eq!(figures(&areas[1]), [0, 0, 0, 2 << 20, 2 << 20]);
        assert_eq!(areas.len(), 2);
    }

    #[test]
    fn mappings_that_overlap_are_one() {
        let text = b"1000-3000 rw-p 0 00:00 0 \n2000-4000 rw-p 0 00:00 0 \n1000-2000 rw-p 0 00:00 0 \n4000-5000 rw-p 0 00:00 0 \n";
        let areas = parse(&mut &text[..], 9).expect("text");
        let starts = areas.into_iter().map(|area| area.mapping.start);
        assert_eq!(starts.collect::<Vec<_>>(), [0x1000, 0x4000]);
    }

    #[test]
    fn the_sum_is_what_the_kernel_says() {
        let pid = std::process::id() as i32;
        let sum: u64 = areas(pid)
            .expect("our own")
            .iter()
            .map(|area| area.rss)
            .sum();
        let whole = rollup(pid).expect("our own");
        assert!(sum.abs_diff(whole) <= whole / 10, "{sum} {whole}");
    }
}
