//! Hooks that count blocks of native allocators in the process (`wire::calls::blocks`). Used by `tracing`, and by crate `births`.

use crate::rings::{BlockCounts, Events, RingEvent, ShortCall};
use crate::tracing::Tracing;
use crate::wanted::Wanted;
use inject::seccomp;
use process::error::{Error, Result};
use process::functions::Function;
use process::status_file::StatusFile;
use process::{control_group, limits, proc_file};
use std::mem::offset_of;
use std::ops::Range;
use wire::calls::blocks::{
    Blocks, Book, Effect, FORGOTTEN, NO_CALLER, TALLY_BYTES, WRAPPERS, table_bytes,
};
use wire::calls::{Calls, FORGET_BLOCKS, want};

/// Words of a ring that are read at once; hooks that count blocks write nothing there but lines of scripts.
const MOST: u64 = 1 << 16;
/// What is noted may take one in so many of the bytes that are left.
const SHARE: u64 = 4;
/// What it takes at most where the limit of the process's control group is not to be seen from here.
const HIDDEN: u64 = 64 << 20;
/// The least with which anything can be counted: the sites' pages.
const LEAST: u64 = 2 << 20;
/// Most calls of the agent by which all is forgotten: each does one part of a book at least, of which it has these at most.
const MOST_CALLS: usize = 3 * (1 + 2 * 4096);

/// Code of a function that takes blocks for its caller, like `operator new`, whose own calls return into it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrapper {
    /// The addresses that its calls return to.
    pub returns: Range<u64>,
    /// How far above the place of such an address on the stack its own return address is.
    pub depth: u64,
}

impl Wanted {
    /// A function of an allocator, whose blocks are counted.
    pub fn blocks(function: Function, effect: Effect) -> Self {
        Wanted {
            want: want::BLOCKS,
            blocks: effect,
            entry_only: !effect.is_taking(),
            ..Wanted::of(function)
        }
    }
}

impl Tracing {
    /// Prepares the process for hooks that count blocks ([`Wanted::blocks`]), of which two begin at least 2 to the power of `grain` bytes apart.
    ///
    /// # Errors
    /// There is no room for what is noted, the process locks its memory, or a filter of it does not allow what hooks need.
    pub fn prepare_blocks(&self, grain: u64) -> Result<()> {
        let pid = self.pid();
        let refused = |reason| Err(Error::NotAGuest { pid, reason });
        if StatusFile::of(pid).is_ok_and(|status| status.bytes("VmLck").unwrap_or(0) != 0) {
            return refused(
                "it has locked its memory (mlock, mlockall), and all that is noted of its blocks would be locked too",
            );
        }
        seccomp::check_all_threads(pid, &seccomp::OF_BLOCKS)?;
        self.set_block_field(offset_of!(Blocks, grain), grain)?;
        let [most, mapped] = self.bound_blocks()?;
        if most < LEAST {
            return refused(
                "less than 8 MiB of memory are left to it (its control group, or the machine), too little for what is noted of its blocks",
            );
        }
        if mapped < size_of::<Book>() as u64 + table_bytes(grain) + TALLY_BYTES {
            return refused(
                "its limit of address space (RLIMIT_AS, RLIMIT_DATA, or overcommit_memory=2) leaves too little for what is noted of its blocks",
            );
        }
        Ok(())
    }

    /// Blocks that these functions take are their callers', as far as none of their calls was seen yet. Of those behind the first
    /// [`WRAPPERS`] that is not so. `None` = it was unloaded: a block that code at its addresses takes has no site.
    ///
    /// # Errors
    /// The process cannot be written to.
    pub fn pass_on(&self, wrappers: &[Option<Wrapper>]) -> Result<()> {
        for number in 0..WRAPPERS {
            let begin = offset_of!(Blocks, wrappers) + number * size_of::<[u64; 2]>();
            let depth = offset_of!(Blocks, depths) + number * size_of::<u64>();
            let wrapper = wrappers.get(number).and_then(Option::as_ref);
            let (Range { start, end }, above) = match wrapper {
                Some(wrapper) => (wrapper.returns.clone(), wrapper.depth.saturating_sub(8)),
                None => (0..0, NO_CALLER),
            };
            // Threads go on meanwhile, so a range that changes is empty until all of it is there.
            let end_at = begin + size_of::<u64>();
            if self.target.memory.word(self.block_field(begin))? != start {
                self.set_block_field(end_at, 0)?;
            }
            self.set_block_field(depth, above)?;
            self.set_block_field(begin, start)?;
            self.set_block_field(end_at, end)?;
        }
        Ok(())
    }

    /// Bounds what is noted of blocks by what is left to the process now: pages that are touched, and addresses that are mapped. Returns both.
    pub fn bound_blocks(&self) -> Result<[u64; 2]> {
        let pid = self.pid();
        let of = |offset| self.target.memory.word(self.block_field(offset));
        let [taken, there] = [
            of(offset_of!(Blocks, taken))?,
            of(offset_of!(Blocks, mapped))?,
        ];
        let room = control_group::room_of(pid);
        let left = control_group::memory_within(pid, &room);
        let most = taken.saturating_add(left) / SHARE;
        let most = if room.is_hidden {
            most.min(HIDDEN)
        } else {
            most
        };
        let to_map = [limits::left_to_map_of(pid), left_to_commit()];
        let to_map = to_map.into_iter().flatten().min();
        let mapped = to_map.map_or(u64::MAX, |left| there.saturating_add(left) / SHARE);
        self.set_block_field(offset_of!(Blocks, most), most)?;
        self.set_block_field(offset_of!(Blocks, most_mapped), mapped)?;
        Ok([most, mapped])
    }

    fn block_field(&self, offset: usize) -> u64 {
        self.target.calls_field(offset_of!(Calls, blocks) + offset)
    }

    fn set_block_field(&self, offset: usize, value: u64) -> Result<()> {
        let offset = offset_of!(Calls, blocks) + offset;
        self.target.set_calls_field(offset, value)
    }

    /// Returns the blocks that were counted so far.
    pub fn blocks(&mut self) -> Result<BlockCounts> {
        let rows = self.rings.block_rows()?;
        // After the rows, because a thread tells a line before it counts there.
        self.take_lines()?;
        Ok(rows.map_or_else(BlockCounts::default, |rows| self.rings.by_place(rows)))
    }

    /// Reads the lines of scripts that threads have told since, before there is no more room for others.
    pub fn take_lines(&mut self) -> Result<()> {
        self.rings.look()?;
        // Nothing else is in the rings of hooks that count blocks.
        self.rings.for_each_of_ring(MOST, &mut Nothing)?;
        Ok(())
    }

    /// Gives the memory of what was counted back, when no hook counts. The main thread stands still for each part of it.
    pub(crate) fn forget_blocks(&self) -> Result<()> {
        let target = &self.target;
        let of = |offset| target.memory.word(self.block_field(offset));
        self.set_block_field(offset_of!(Blocks, most), u64::MAX)?;
        if of(offset_of!(Blocks, book))? == 0 {
            return Ok(());
        }
        self.set_block_field(offset_of!(Blocks, forgotten), 0)?;
        for _ in 0..MOST_CALLS {
            let call = target.resident.header.open_calls;
            target.main_stopped(|remote| remote.call(call, FORGET_BLOCKS))?;
            if of(offset_of!(Blocks, forgotten))? == FORGOTTEN {
                break;
            }
        }
        Ok(())
    }
}

/// Bytes that can still be promised where the kernel promises no more than it has (`vm.overcommit_memory` = 2, `MAP_NORESERVE` is ignored
/// then); `None` = it promises more.
fn left_to_commit() -> Option<u64> {
    let mode = proc_file::text("/proc/sys/vm/overcommit_memory").ok()?;
    if mode.trim() != "2" {
        return None;
    }
    let text = proc_file::text("/proc/meminfo").ok()?;
    committable(&text)
}

fn committable(meminfo: &str) -> Option<u64> {
    let bytes = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
        let number: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
        number.checked_mul(1024)
    };
    Some(bytes("CommitLimit:")?.saturating_sub(bytes("Committed_AS:")?))
}

/// Takes no event.
struct Nothing;

impl Events for Nothing {
    fn event(&mut self, _: RingEvent, _: &[u64]) {}

    fn short(&mut self, _: &ShortCall) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::committable;

    #[test]
    fn what_can_be_promised_is_the_limit_without_what_was() {
        let text = "MemTotal: 9 kB\nCommitLimit:     100 kB\nCommitted_AS:     40 kB\n";
        assert_eq!(committable(text), Some(60 << 10));
        assert_eq!(
            committable("CommitLimit: 1 kB\nCommitted_AS: 2 kB\n"),
            Some(0)
        );
        assert_eq!(committable("MemTotal: 9 kB\n"), None);
    }
}
