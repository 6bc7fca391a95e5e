//! Finds out whether frames of our routine may still be on a stack when all hooks are out: of calls that block, of fibers that are not
//! running, of stacks that were copied to the heap.
//!
//! A return into such a frame needs only the agent's memory, which stays mapped. An exception that passes through one also needs the
//! hook on the unwinder. So that hook stays while there may be such frames; the next attach that finds none takes it out.

use inject::resident::Resident;
use process::maps::Maps;
use process::memory::GuestMemory;
use std::ops::Range;

/// Limit of memory that is searched, in bytes; searching it takes about half a second.
const MOST: u64 = 1 << 30;
/// Bytes that one system call reads.
const PIECE: u64 = 1 << 20;

/// Whether a word in the process's private writable memory is an address within the agent's routine, as the return
/// address of a frame of ours is. `true` also where there is more than [`MOST`] to search, and where such a word is
/// left over from a frame that a jump or an exception has left; a frame that returns clears its own
/// (`routine::code::call_through`). Not searched are the ranges in `ours`, and the part of a thread's stack below
/// its stack pointer in `stacks`.
pub fn may_be(
    memory: &GuestMemory,
    resident: &Resident,
    ours: &[Range<u64>],
    stacks: &[u64],
) -> bool {
    let [routine, end, ..] = resident.header.routines;
    let routine = routine..end;
    leads_into(memory, std::slice::from_ref(&routine), ours, stacks)
}

/// Like `may_be` for any code: whether a word in the process's private writable memory is an address within `code`.
pub fn leads_into(
    memory: &GuestMemory,
    code: &[Range<u64>],
    ours: &[Range<u64>],
    stacks: &[u64],
) -> bool {
    let Ok(maps) = Maps::read(memory.pid()) else {
        // If the maps cannot be read, a frame must be assumed.
        return true;
    };
    let own = maps.iter().filter(|mapping| {
        let p = mapping.permissions;
        p.read && p.write && !p.shared && !mapping.is_file()
    });
    let parts: Vec<Range<u64>> = own
        .flat_map(|mapping| {
            let here = stacks.iter().filter(|pointer| mapping.contains(**pointer));
            let start = here.min().copied().unwrap_or(mapping.start) & !7;
            without(start..mapping.end, ours)
        })
        .collect();
    let all: u64 = parts.iter().map(|part| part.end - part.start).sum();
    all > MOST || parts.into_iter().any(|part| holds(memory, part, code))
}

/// Returns the parts of a range that are not `ours`. A mapping may have both, because the kernel joins neighbouring mappings.
fn without(range: Range<u64>, ours: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut parts = vec![range];
    for cut in ours {
        parts = parts
            .into_iter()
            .flat_map(|part| {
                [
                    part.start..part.end.min(cut.start),
                    part.start.max(cut.end)..part.end,
                ]
            })
            .filter(|part| part.start < part.end)
            .collect();
    }
    parts
}

fn holds(memory: &GuestMemory, part: Range<u64>, code: &[Range<u64>]) -> bool {
    let mut bytes = vec![0; PIECE as usize];
    let mut at = part.start;
    while at < part.end {
        let piece = &mut bytes[..PIECE.min(part.end - at) as usize];
        let read = memory.read_up_to(at, piece);
        if leads(&piece[..read], code) {
            return true;
        }
        at += read as u64;
        if read < piece.len() {
            // This page is a guard within the mapping (`MADV_GUARD_INSTALL`) or was unmapped meanwhile; the pages behind it are
            // searched.
            at = (at + 1).next_multiple_of(wire::PAGE as u64);
        }
    }
    false
}

/// Whether a word among these bytes is an address within `code`.
fn leads(bytes: &[u8], code: &[Range<u64>]) -> bool {
    let words = bytes.as_chunks::<8>().0.iter();
    let mut words = words.map(|word| u64::from_le_bytes(*word));
    words.any(|word| code.iter().any(|code| code.contains(&word)))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::{holds, without};
    use process::memory::GuestMemory;

    /// The address of 16 new pages, of which this one cannot be read.
    pub(crate) fn pages_but(unreadable: usize) -> u64 {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping; the page is within it.
        unsafe {
            let at = libc::mmap(
                std::ptr::null_mut(),
                16 * wire::PAGE,
                access,
                private,
                -1,
                0,
            );
            assert_ne!(at, libc::MAP_FAILED);
            let page = at.byte_add(unreadable * wire::PAGE);
            assert_eq!(libc::mprotect(page, wire::PAGE, libc::PROT_NONE), 0);
            at as u64
        }
    }

    /// A page that cannot be read hides nothing of what lies around it.
    #[test]
    fn a_guard_within_a_mapping_hides_no_frame() {
        const PAGE: usize = wire::PAGE;
        let at = pages_but(2);
        // SAFETY: the address lies in the tenth of the 16 pages that this test has mapped, which is writable and used by this test
        // alone.
        unsafe { ((at as usize + 9 * PAGE + 80) as *mut u64).write(0x1234_5678) };
        let memory = GuestMemory::open(std::process::id() as i32).expect("ours");
        let part = || at..at + 16 * PAGE as u64;
        let holds = |code| holds(&memory, part(), std::slice::from_ref(&code));
        assert!(holds(0x1234_5000..0x1234_6000));
        assert!(!holds(0x1234_6000..0x1234_7000));
    }

    #[test]
    fn what_is_ours_is_cut_out() {
        let bounds = |ours: &[(u64, u64)]| {
            let ours: Vec<_> = ours.iter().map(|(from, to)| *from..*to).collect();
            let left = without(10..20, &ours).into_iter();
            left.map(|part| (part.start, part.end)).collect::<Vec<_>>()
        };
        assert_eq!(bounds(&[]), [(10, 20)]);
        assert_eq!(bounds(&[(12, 14), (18, 30)]), [(10, 12), (14, 18)]);
        assert_eq!(bounds(&[(0, 40)]), []);
    }
}
