//! Hooks that count blocks of native allocators in the process (`wire::calls::blocks`). Used by `tracing`, and by crate `births`.

use crate::rings::{BlockCounts, Events, RingEvent, ShortCall};
use crate::tracing::Tracing;
use crate::wanted::{Refused, Wanted};
use process::error::Result;
use process::functions::Function;
use std::mem::offset_of;
use wire::calls::blocks::{Blocks, Effect};
use wire::calls::{Calls, FORGET_BLOCKS, want};

/// Words of a ring that are read at once; of hooks that count, rings have nothing but the names of threads.
const MOST: u64 = 1 << 16;

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
    /// Counts the blocks of these functions ([`Wanted::blocks`]) from now on; two of them begin at least 2 to the power of `grain` bytes apart.
    /// Returns those that cannot be hooked, with the reason.
    pub fn count_blocks(&mut self, grain: u64, wanted: Vec<Wanted>) -> Result<Vec<Refused>> {
        let offset = offset_of!(Calls, blocks) + offset_of!(Blocks, grain);
        self.target.set_calls_field(offset, grain)?;
        self.set(wanted)
    }

    /// Returns the blocks that were counted so far.
    pub fn blocks(&mut self) -> Result<BlockCounts> {
        self.rings.for_each_of_ring(MOST, &mut Nothing)?;
        self.rings.blocks()
    }

    /// Gives the memory of what was counted back, when no hook is set any more.
    pub(crate) fn forget_blocks(&self) -> Result<()> {
        let target = &self.target;
        let book = offset_of!(Calls, blocks) + offset_of!(Blocks, book);
        if target.memory.word(target.calls_field(book))? == 0 {
            return Ok(());
        }
        target.stopped(|_, remote| {
            remote.call(target.resident.header.open_calls, FORGET_BLOCKS)?;
            Ok(())
        })
    }
}

/// Takes no event.
struct Nothing;

impl Events for Nothing {
    fn event(&mut self, _: RingEvent, _: &[u64]) {}

    fn short(&mut self, _: &ShortCall) -> bool {
        true
    }
}
