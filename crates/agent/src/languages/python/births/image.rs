//! Whether functions are the VM's own: whether they lie in the code of the file that one of its functions is in.

use crate::memory::direct::Direct;
use crate::memory::sys;
use vm::Memory;
use wire::PAGE;

/// Pages before the function that are looked at for the beginning of the file: 256 MiB.
const MOST_PAGES: usize = 1 << 16;
/// `Elf64_Ehdr`: magic number, class, byte order and version; `e_phoff`, and the half words `e_phentsize` and `e_phnum`.
const MAGIC: u64 = 0x0001_0102_464c_457f;
const HEADERS: u64 = 32;
const SIZE_AND_COUNT: u64 = 54;
/// `Elf64_Phdr`: `p_type` and `p_flags`, `p_vaddr`, `p_memsz`.
const HEADER: u64 = 56;
const ADDRESS: u64 = 16;
const LENGTH: u64 = 40;
const LOAD: u32 = 1;
const EXECUTABLE: u32 = 1;

/// Whether all of these lie in the same segment of code as `known`, which is a function of a file that is mapped as a whole.
pub fn are_in_file_of(known: u64, functions: &[u64]) -> bool {
    let first = known & !(PAGE as u64 - 1);
    let pages = (0..MOST_PAGES as u64).map_while(|page| first.checked_sub(page * PAGE as u64));
    // Between the segments of a file there may be nothing.
    let mut readable = pages.filter(|at| sys::is_readable(*at));
    let Some(begin) = readable.find(|at| is_begin(*at)) else {
        return false;
    };
    code_of(begin, known).is_some_and(|(from, length)| {
        functions
            .iter()
            .all(|function| function.wrapping_sub(from) < length)
    })
}

/// Whether a file begins at this page, which can be read. The byte behind these is the ABI.
fn is_begin(at: u64) -> bool {
    Direct
        .u64(at)
        .is_ok_and(|word| word & 0x00ff_ffff_ffff_ffff == MAGIC)
}

/// The segment of code that `known` is in: begin and length.
fn code_of(begin: u64, known: u64) -> Option<(u64, u64)> {
    let headers = begin.wrapping_add(Direct.u64(begin + HEADERS).ok()?);
    let both = Direct.u32(begin + SIZE_AND_COUNT).ok()?;
    let (size, count) = (u64::from(both & 0xffff), u64::from(both >> 16));
    let is_first_page = headers.wrapping_add(size * count).wrapping_sub(begin) <= PAGE as u64;
    if size != HEADER || !is_first_page {
        return None;
    }
    let all = (0..count).map(|number| headers + number * HEADER);
    let mut loaded = all.filter(|header| Direct.u32(*header) == Ok(LOAD));
    // The first one is where the file begins.
    let bias = begin.wrapping_sub(Direct.u64(loaded.clone().next()? + ADDRESS).ok()?);
    loaded.find_map(|header| {
        let from = bias.wrapping_add(Direct.u64(header + ADDRESS).ok()?);
        let length = Direct.u64(header + LENGTH).ok()?;
        let is_code = Direct.u32(header + 4).ok()? & EXECUTABLE != 0;
        (is_code && known.wrapping_sub(from) < length).then_some((from, length))
    })
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    fn here(number: u64) -> u64 {
        number * 3
    }

    #[test]
    fn functions_of_one_file_are_told_from_those_of_others() {
        let known = are_in_file_of as *const () as u64;
        let here = here as *const () as u64;
        assert!(are_in_file_of(known, &[here, known]));
        let data = (&raw const crate::shared::CONTROL_PAGE).addr() as u64;
        assert!(!are_in_file_of(known, &[here, data]));
        let heap = std::boxed::Box::new(1u64);
        assert!(!are_in_file_of(known, &[(&raw const *heap).addr() as u64]));
        assert!(!are_in_file_of(known, &[0]));
    }
}
