//! Frames of our routine that are still on a stack when all hooks are out: of calls that block, of fibers that are not
//! running, of stacks that were copied to the heap.
//!
//! A return into one needs only the agent's memory, which stays mapped. An exception that passes through one also needs
//! the hook on the unwinder. So that hook stays as long as there may be such frames; the next attach that finds none
//! takes it out.

use inject::resident::Resident;
use process::maps::Maps;
use process::memory::GuestMemory;
use std::ops::Range;

/// The most memory that is searched, in bytes: it takes about half a second.
const MOST: u64 = 1 << 30;
/// How much is read by one system call, in bytes.
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

/// The same for any code: whether a word in the process's private writable memory is an address within `code`.
pub fn leads_into(
    memory: &GuestMemory,
    code: &[Range<u64>],
    ours: &[Range<u64>],
    stacks: &[u64],
) -> bool {
    let Ok(maps) = Maps::read(memory.pid()) else {
        return false;
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

/// The parts of a range that are not `ours`. A mapping may have both, because the kernel joins neighbouring mappings.
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
    for at in (part.start..part.end).step_by(PIECE as usize) {
        let length = PIECE.min(part.end - at) as usize;
        // Unmapped meanwhile.
        if memory.read_bytes(at, &mut bytes[..length]).is_err() {
            continue;
        }
        let words = bytes[..length].as_chunks::<8>().0;
        let leads = |word: &[u8; 8]| {
            let word = u64::from_le_bytes(*word);
            code.iter().any(|code| code.contains(&word))
        };
        if words.iter().any(leads) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::without;

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
