//! Frames of ours that are still to be returned into when all hooks are out: of calls that block, of fibers that are
//! parked, of stacks that were copied into the heap.
//!
//! They need nothing of us but the memory that stays. Only an exception that passes through one needs the unwinder's
//! hook, so that one is left in as long as there may be such frames, and taken out at the next attach that finds none.

use crate::maps::Maps;
use crate::memory::GuestMemory;
use crate::resident::Resident;
use std::ops::Range;

/// Bytes looked through at most: about half a second.
const MOST: u64 = 1 << 30;
/// Bytes read at once.
const PIECE: u64 = 1 << 20;

/// Whether a word anywhere in the guest's own memory is an address within the agent's routine. `true` also where there is too
/// much to look through, and where a stack that nobody uses any more still holds what stood there. Left out are `ours`,
/// and of a stack that a thread stands on what lies below its pointer in `stacks`: that is over.
pub fn may_be(
    memory: &GuestMemory,
    resident: &Resident,
    ours: &[Range<u64>],
    stacks: &[u64],
) -> bool {
    let [routine, end, _] = resident.header.routines;
    let routine = routine..end;
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
    all > MOST || parts.into_iter().any(|part| holds(memory, part, &routine))
}

/// What is left of a range: the kernel joins mappings of ours to their neighbours.
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

fn holds(memory: &GuestMemory, part: Range<u64>, routine: &Range<u64>) -> bool {
    let mut bytes = vec![0; PIECE as usize];
    for at in (part.start..part.end).step_by(PIECE as usize) {
        let length = PIECE.min(part.end - at) as usize;
        // What is gone holds none.
        if memory.read_bytes(at, &mut bytes[..length]).is_err() {
            continue;
        }
        let words = bytes[..length].as_chunks::<8>().0;
        if words
            .iter()
            .any(|word| routine.contains(&u64::from_le_bytes(*word)))
        {
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
