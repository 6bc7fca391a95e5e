//! Finds out whether frames of our routine may still be on a stack when all hooks are out: of calls that block, of fibers that are not
//! running, of stacks that were copied to the heap. Used by `tracing`, `lifting` and others here, and by crate `patch`.
//!
//! A return into such a frame needs only the agent's memory, which stays mapped. An exception that passes through one also needs the
//! hook on the unwinder. So that hook stays while there may be such frames; the next attach that finds none takes it out.
//!
//! What a frame is: a word that is the address behind one of the routine's call instructions, and above it a [`Frame`],
//! which names a hook of this agent. Other words that happen to lie within the routine's addresses are no frames: memory that the
//! program had unmapped before lancet came may be where the agent is now, and pointers into it may stay in the program's memory for good.

use crate::areas::Areas;
use crate::layers::Layers;
use crate::lifting;
use inject::remote_call::RemoteThread;
use inject::resident::Resident;
use process::error::Result;
use process::maps::Maps;
use process::memory::GuestMemory;
use process::pagemap::{Pagemap, touched};
use process::ptrace::Registers;
use process::stop::Stop;
use process::tries::{PAUSE, TRIES};
use routine::Frame;
use routine::frame::MOST_COPIED;
use routine::room::WORK_STACKS;
use std::collections::HashMap;
use std::mem::offset_of;
use std::ops::Range;
use std::thread::sleep;
use trampoline::{Return, returns};
use wire::calls::Hook;

/// Limit of memory that is searched, in bytes; searching it takes about two seconds.
const MOST: u64 = 4 << 30;
/// Limit of the mappings, in bytes, of which is asked what of them was ever touched.
const MOST_MAPPED: u64 = 64 << 30;
/// Bytes that one system call reads.
const PIECE: u64 = 1 << 20;
/// Limit of the routine's size in bytes. It has some 3 KiB; an agent of another build says its own size.
const MOST_CODE: u64 = 64 << 10;
/// The most bytes between a return address of ours and the end of its frame: the frame, the vector registers, the results, a copy of
/// stack arguments, and what they are aligned by.
const REACH: usize = size_of::<Frame>() + 1024 + MOST_COPIED as usize;

/// Why the hook on the unwinder stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stays {
    /// A call is still to return through our frame.
    Frame {
        /// The address of the return address.
        at: u64,
        /// The address of the hooked function.
        place: u64,
    },
    /// A thread runs in a hook, though it was waited for.
    Inside,
    /// The process has more memory than is searched, or it cannot be read.
    NotSearched,
}

/// Where the threads of a process were when its hooks were taken out.
#[derive(Debug)]
pub(crate) struct Standing {
    /// The stack pointer of each thread.
    pub stacks: Vec<u64>,
    /// Whether a thread is in a hook, so that it may make a frame after the memory was searched.
    pub inside: bool,
}

impl Standing {
    /// Reads where the threads of a process are that stands still.
    pub fn read(
        stop: &Stop,
        remote: &RemoteThread,
        layers: &Layers,
        agent: (&Resident, &[Range<u64>]),
    ) -> Result<Self> {
        let ((resident, stubs), memory) = (agent, layers.memory());
        let others = stop.threads().filter(|tid| *tid != remote.pid());
        let others = others.filter_map(|tid| process::ptrace::registers_kept(tid).ok());
        let all: Vec<Registers> = others.chain([*remote.registers()]).collect();
        let image = resident.base..resident.base.saturating_add(resident.header.size);
        let runs_ours = |at: u64| image.contains(&at) || stubs.iter().any(|one| one.contains(&at));
        let mut works = vec![0; WORK_STACKS];
        memory.read_words(resident.header.works, &mut works)?;
        let inside =
            all.iter().any(|thread| runs_ours(thread.rip)) || works.iter().any(|user| *user != 0);
        Ok(Standing {
            stacks: lifting::stack_pointers(all.iter().map(|thread| thread.rsp), layers),
            inside,
        })
    }
}

/// Waits until no frame of an agent's routine is on any stack, for [`TRIES`] pauses at most, and returns what is there even then.
/// `again` stops the process and reads where its threads are. A call that sleeps is not waited for longer, because nobody knows how
/// long that is.
pub(crate) fn wait_for_frames(
    memory: &GuestMemory,
    resident: &Resident,
    ours: &[Range<u64>],
    mut standing: Standing,
    mut again: impl FnMut() -> Result<Standing>,
) -> Result<Option<Stays>> {
    let frames = Frames::of(memory, resident)?;
    let mut tries = TRIES;
    loop {
        let found = if standing.inside {
            Some(Stays::Inside)
        } else {
            frames.find(memory, ours, &standing.stacks)
        };
        let passes = match found {
            None | Some(Stays::NotSearched) => false,
            Some(Stays::Inside) => {
                sleep(PAUSE);
                tries -= 1;
                tries != 0
            }
            Some(Stays::Frame { at, .. }) => {
                let there = memory.word(at).ok();
                while tries != 0 && memory.word(at).ok() == there {
                    sleep(PAUSE);
                    tries -= 1;
                }
                tries != 0
            }
        };
        if !passes {
            return Ok(found);
        }
        standing = again()?;
    }
}

/// What a frame of one agent's routine looks like.
struct Frames {
    /// In ascending order.
    returns: Vec<Return>,
    /// The hooked function by the address of the hook's record, which the frame holds.
    hooks: HashMap<u64, u64>,
    /// Where the originals are that the routine calls.
    stubs: Vec<Range<u64>>,
}

impl Frames {
    fn of(memory: &GuestMemory, resident: &Resident) -> Result<Self> {
        let [routine, end, ..] = resident.header.routines;
        let mut code = vec![0; end.saturating_sub(routine).min(MOST_CODE) as usize];
        memory.read_bytes(routine, &mut code)?;
        let areas = Areas::read(memory, resident.header.calls)?;
        let hooks = areas.hooks(memory)?.into_iter();
        Ok(Frames {
            returns: returns(&code, routine),
            hooks: hooks
                .map(|(at, hook): (u64, Hook)| (at, hook.place))
                .collect(),
            stubs: areas.stubs(),
        })
    }

    /// Searches the process's private writable memory, but not the ranges in `ours`, nor the part of a thread's stack below its
    /// stack pointer in `stacks`. A frame that was left by a jump or an exception, and lies above a stack pointer, is found too; one
    /// that returns clears its own return address (`routine::code::call_through`).
    fn find(&self, memory: &GuestMemory, ours: &[Range<u64>], stacks: &[u64]) -> Option<Stays> {
        let Some(parts) = parts(memory, ours, stacks) else {
            return Some(Stays::NotSearched);
        };
        let (first, last) = (self.returns.first()?.address, self.returns.last()?.address);
        let mut found = None;
        for part in parts {
            let at = search(memory, part, |at, word| {
                if !(first..=last).contains(&word) {
                    return false;
                }
                let known = self.returns.iter().find(|one| one.address == word);
                found = known.and_then(|known| self.frame_above(memory, at, known));
                found.is_some()
            });
            if at {
                break;
            }
        }
        found.map(|(at, place)| Stays::Frame { at, place })
    }

    /// Returns the address of a frame's return address, and the function of its hook, if there is a frame above that address.
    fn frame_above(&self, memory: &GuestMemory, at: u64, of: &Return) -> Option<(u64, u64)> {
        const DESCRIPTOR: usize = offset_of!(Frame, descriptor) / 8;
        const ORIGINAL: usize = offset_of!(Frame, original) / 8;
        const RETURN: usize = offset_of!(Frame, return_address) / 8;
        let mut bytes = [0; REACH];
        let read = memory.read_up_to(at + 8, &mut bytes);
        let words = bytes[..read].as_chunks::<8>().0.iter();
        let words: Vec<u64> = words.map(|word| u64::from_le_bytes(*word)).collect();
        words.windows(RETURN + 1).find_map(|frame| {
            let place = self.hooks.get(&frame[DESCRIPTOR])?;
            let is_ours = |at: &u64| self.stubs.iter().any(|stubs| stubs.contains(at));
            let calls = !of.indirect || is_ours(&frame[ORIGINAL]);
            (calls && frame[RETURN] != 0).then_some((at, *place))
        })
    }
}

/// Whether a word in the process's private writable memory is an address within `code`. `true` also where there is more than
/// 4 GiB to search. Not searched are the ranges in `ours`, and the part of a thread's stack below its stack pointer in `stacks`.
pub fn leads_into(
    memory: &GuestMemory,
    code: &[Range<u64>],
    ours: &[Range<u64>],
    stacks: &[u64],
) -> bool {
    let leads = |_, word| code.iter().any(|code| code.contains(&word));
    let parts = parts(memory, ours, stacks);
    parts.is_none_or(|parts| parts.into_iter().any(|part| search(memory, part, leads)))
}

/// Returns what is to be searched; `None` = it is too much, or the mappings cannot be read. Pages that were never touched hold no frame, and
/// are not read: that would map a page of zeros in place of each.
fn parts(memory: &GuestMemory, ours: &[Range<u64>], stacks: &[u64]) -> Option<Vec<Range<u64>>> {
    let maps = Maps::read(memory.pid()).ok()?;
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
    let size = |parts: &[Range<u64>]| -> u64 {
        let sizes = parts.iter().map(|part| part.end - part.start);
        sizes.fold(0, u64::saturating_add)
    };
    if size(&parts) > MOST_MAPPED {
        return None;
    }
    let pagemap = Pagemap::open(memory.pid()).ok();
    let parts = parts.into_iter();
    let touched = parts.flat_map(|part| touched(pagemap.as_ref(), &maps, part));
    let touched: Vec<Range<u64>> = touched.collect();
    (size(&touched) <= MOST).then_some(touched)
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

/// Whether `is_one` is true of the address and value of a word in this part of the memory.
fn search(
    memory: &GuestMemory,
    part: Range<u64>,
    mut is_one: impl FnMut(u64, u64) -> bool,
) -> bool {
    let mut bytes = vec![0; PIECE as usize];
    let mut at = part.start;
    while at < part.end {
        let piece = &mut bytes[..PIECE.min(part.end - at) as usize];
        let read = memory.read_up_to(at, piece);
        let words = piece[..read].as_chunks::<8>().0.iter();
        let mut words = (at..).step_by(8).zip(words);
        if words.any(|(at, word)| is_one(at, u64::from_le_bytes(*word))) {
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

#[cfg(test)]
pub(crate) mod tests {
    use super::{search, without};
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
        let holds = |wanted| search(&memory, part(), |_, word| word == wanted);
        assert!(holds(0x1234_5678));
        assert!(!holds(0x1234_5679));
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
