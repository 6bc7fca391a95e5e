//! Control frames: which Ruby code is running. Used by `script` and `locals`, and by the crates `agent` and
//! `languages`.
//!
//! The VM stack of an execution context (`rb_execution_context_t`, short ec) grows from both ends.
//! Values grow up; frames (`rb_control_frame_t`, short cfp) grow down from its end, so the caller of
//! a frame is the next frame *above* it:
//!
//! ```text
//!   vm_stack                                         vm_stack + vm_stack_size words
//!   │ values, environments ▶ …    … ◀ frames           │
//!   ├──────────────────────────┬───────┬───────┬───────┤
//!   │                          │ cfp   │ caller│ dummy │
//!   └──────────────────────────┴───────┴───────┴───────┘
//! ```
//!
//! A frame is a Ruby-level frame unless bit 7 (`VM_FRAME_FLAG_CFRAME`) of the word at its `ep` is
//! set. The rule for "where was this object born" is `rb_vm_get_ruby_level_next_cfp` (`vm.c`): the
//! nearest Ruby-level frame at or outside the given one.
//!
//! # `pc` while a NEWOBJ hook runs
//!
//! The line of a `pc` is looked up at the word *before* it, because `pc` of a running frame has
//! already passed its instruction. Instructions that the compiler marked *leaf* move `pc` only when
//! they are done, so up to Ruby 3.2 `gc_event_hook_body` adds one word to `ec->cfp->pc` for the
//! duration of the hook if `ec->cfp` is a Ruby-level frame, and takes it back afterwards. Since 3.3
//! it does not. Either way the `pc` found in the frame *while the hook runs*, given to
//! [`Ruby::line`], is the line `rb_tracearg_lineno` would give: read it in the hook, never later, and
//! do not correct it. [`Layout::hook_advances_pc`](super::Layout::hook_advances_pc) tells which rule a
//! version follows.
//!
//! Offsets below: `vm_core.h`, the same from v2_7_4 to v4.0.5.

use super::Ruby;
use crate::{Fault, Memory};

/// `vm_stack`, `vm_stack_size` (in words) and `cfp` of `rb_execution_context_t`.
const EC_STACK: u64 = 0;
const EC_STACK_SIZE: u64 = 8;
const EC_CFP: u64 = 16;

/// Bytes of an `rb_execution_context_t` that are read here.
const EC_COPIED: u64 = 64;

/// `pc`, `iseq` and `ep` of `rb_control_frame_t`.
pub(super) const PC: u64 = 0;
pub(super) const ISEQ: u64 = 16;
pub(super) const EP: u64 = 32;

/// In the word at `ep`: `VM_FRAME_FLAG_CFRAME`, the frame is not one of Ruby code.
pub(super) const C_FRAME: u64 = 0x80;

/// `VM_FRAME_FLAG_FINISH`: when this frame returns, so does the `vm_exec` that runs it.
const FINISH: u64 = 0x20;

/// Offset of `sp` in `rb_control_frame_t`: the top of the frame's values.
const SP: u64 = 8;

/// `VM_ENV_FLAG_LOCAL`: the environment is a method's, not a block's. In the word before, a block has the address of
/// the environment around it with two bits of flags (`VM_ENV_DATA_INDEX_SPECVAL`); in the word before that, a method
/// has its entry (`VM_ENV_DATA_INDEX_ME_CREF`), or special variables of which it is the second word (`vm_svar`).
const LOCAL: u64 = 2;
const SPECIAL: u64 = 8;
pub(super) const ENTRY: u64 = 16;
const ENTRY_IN_SPECIAL_VARIABLES: u64 = 8;

/// Blocks within blocks that are followed, at most.
const DEEPEST_BLOCK: u32 = 1 << 10;

/// Frames of one VM stack, at most: the default 1 MiB stack ends below 20,000.
const MOST_FRAMES: u32 = 1 << 20;

/// `rb_trace_arg_t` (`vm_core.h` `struct rb_trace_arg_struct`), the argument of a raw event hook.
pub mod trace_arg {
    /// Offset of `ec`, the execution context in which the event happens.
    pub const EC: u64 = 8;
    /// Offset of `cfp`, the frame in which the event happens.
    pub const CFP: u64 = 16;
    /// Offset of `data`: at NEWOBJ, the new object.
    pub const DATA: u64 = 56;
}

/// A frame of Ruby code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Address of its `rb_control_frame_t`.
    pub cfp: u64,
    /// Address of its code, an object of type imemo.
    pub iseq: u64,
    /// Address of the instruction that it has reached; for [`Ruby::line`]. 0 in a frame that has not begun, which
    /// backtraces leave out.
    pub pc: u64,
}

/// The frames of Ruby code from one outward; made by [`Ruby::frames`].
pub struct Frames<'r, M> {
    memory: &'r M,
    frame_size: u64,
    cfp: u64,
    end: u64,
    left: u32,
}

/// Returns the frame at `cfp`, if it is one of Ruby code.
#[inline]
fn frame_at<M: Memory>(memory: &M, cfp: u64) -> Result<Option<Frame>, Fault> {
    let ep = memory.u64(cfp.wrapping_add(EP))?;
    if memory.u64(ep)? & C_FRAME != 0 {
        return Ok(None);
    }
    Ok(Some(Frame {
        cfp,
        iseq: memory.u64(cfp.wrapping_add(ISEQ))?,
        pc: memory.u64(cfp.wrapping_add(PC))?,
    }))
}

impl<M: Memory> Frames<'_, M> {
    /// Returns how many frames, those of C among them, lie further out than where it is.
    pub fn further(&self) -> u64 {
        self.end.saturating_sub(self.cfp) / self.frame_size
    }

    #[inline]
    fn advance(&mut self) -> Result<Option<Frame>, Fault> {
        while self.cfp < self.end && self.left > 0 {
            let cfp = self.cfp;
            self.cfp = cfp.saturating_add(self.frame_size);
            self.left -= 1;
            if let Some(frame) = frame_at(self.memory, cfp)? {
                return Ok(Some(frame));
            }
        }
        Ok(None)
    }
}

impl<M: Memory> Iterator for Frames<'_, M> {
    type Item = Result<Frame, Fault>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let next = self.advance().transpose();
        if matches!(next, Some(Err(_))) {
            self.left = 0;
        }
        next
    }
}

impl<M: Memory> Ruby<'_, M> {
    /// Returns the innermost frame of an execution context; 0 if it has no VM stack.
    #[inline]
    pub fn current_cfp(&self, ec: u64) -> Result<u64, Fault> {
        self.memory.u64(ec.wrapping_add(EC_CFP))
    }

    /// Returns the nearest frame of Ruby code at or outside `cfp`.
    ///
    /// This runs at each object birth: with a [`Memory`] of plain loads it is two loads for each frame looked at and
    /// two for the one found. The end of the stack is read only if the innermost frame is not one of Ruby code; the
    /// outermost never is.
    #[inline]
    pub fn ruby_frame(&self, ec: u64, cfp: u64) -> Result<Option<Frame>, Fault> {
        if cfp == 0 {
            return Ok(None);
        }
        if let Some(frame) = frame_at(self.memory, cfp)? {
            return Ok(Some(frame));
        }
        let end = self.end(ec)?;
        let mut outer = cfp;
        for _ in 0..MOST_FRAMES {
            outer = outer.wrapping_add(self.layout.frame_size);
            if outer >= end {
                break;
            }
            if let Some(frame) = frame_at(self.memory, outer)? {
                return Ok(Some(frame));
            }
        }
        Ok(None)
    }

    /// Returns the frames of Ruby code from `cfp` outward, without the outermost frame of the stack, which every thread
    /// begins with and backtraces leave out (`rb_ec_partial_backtrace_object`, `vm_backtrace.c`). A `rescue` or
    /// `ensure` clause has a frame of its own, inside that of its method; 3.4's backtraces leave out the outer of the
    /// two. A walk that meets an unreadable address ends there.
    #[inline]
    pub fn frames(&self, ec: u64, cfp: u64) -> Result<Frames<'_, M>, Fault> {
        Ok(self.frames_below(cfp, self.end(ec)?.saturating_sub(self.layout.frame_size)))
    }

    /// Returns whether the innermost frame of an execution context lies in its VM stack, so many frames from the end, or it has none. It does
    /// not where the context was changed while it was copied.
    pub fn lies_in_stack(&self, ec: u64, cfp: u64) -> Result<bool, Fault> {
        let stack = self.memory.u64(ec.wrapping_add(EC_STACK))?;
        if cfp == 0 || stack == 0 {
            return Ok(true);
        }
        let end = self.end(ec)?;
        let is_frame = end.wrapping_sub(cfp).is_multiple_of(self.layout.frame_size);
        Ok(is_frame && (stack..=end).contains(&cfp))
    }

    /// Returns where the environment of a frame ends: `ep`.
    pub(super) fn environment(&self, frame: Frame) -> Result<u64, Fault> {
        self.memory.u64(frame.cfp.wrapping_add(EP))
    }

    /// Returns whether the native function that runs this frame (`vm_exec`) returns together with it. The frames from
    /// one such outward to the next are run by one call of that function.
    pub fn ends_run(&self, frame: Frame) -> Result<bool, Fault> {
        let ep = self.memory.u64(frame.cfp.wrapping_add(EP))?;
        Ok(self.memory.u64(ep)? & FINISH != 0)
    }

    /// Returns whether the innermost frame of an execution context is that of a function of C.
    pub fn runs_c(&self, cfp: u64) -> Result<bool, Fault> {
        let ep = self.memory.u64(cfp.wrapping_add(EP))?;
        Ok(self.memory.u64(ep)? & C_FRAME != 0)
    }

    /// Returns the entry of the method that a frame runs, or that the block which it runs was written in
    /// (`rb_vm_frame_method_entry`, `vm_insnhelper.c`); `None` for a frame of a file or a class body.
    pub(super) fn method_entry(&self, cfp: u64) -> Result<Option<u64>, Fault> {
        let mut ep = self.memory.u64(cfp.wrapping_add(EP))?;
        for _ in 0..DEEPEST_BLOCK {
            let entry = self.memory.u64(ep.wrapping_sub(ENTRY))?;
            if self.is_method_entry(entry)? {
                return Ok(Some(entry));
            }
            if self.memory.u64(ep)? & LOCAL != 0 {
                if !self.is_special_variables(entry)? {
                    return Ok(None);
                }
                let entry = self
                    .memory
                    .u64(entry.wrapping_add(ENTRY_IN_SPECIAL_VARIABLES))?;
                return Ok(self.is_method_entry(entry)?.then_some(entry));
            }
            ep = self.memory.u64(ep.wrapping_sub(SPECIAL))? & !3;
        }
        Ok(None)
    }

    /// Returns the memory of an execution context that must be copied so that its frames can be read when it has gone
    /// on: the context itself, the values and the frames of its VM stack. Ranges are empty where there is none.
    pub fn frame_memory(&self, ec: u64) -> Result<[core::ops::Range<u64>; 3], Fault> {
        // All fields are read at once, because the process stands still meanwhile.
        let mut fields = [0; 24];
        self.memory.read(ec.wrapping_add(EC_STACK), &mut fields)?;
        let field = |at: u64| {
            let bytes = fields
                .get(at as usize..)
                .and_then(|rest| rest.first_chunk());
            bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
        };
        let (stack, cfp) = (field(EC_STACK), field(EC_CFP));
        let end = stack.wrapping_add(field(EC_STACK_SIZE).wrapping_mul(8));
        let values = self.memory.u64(cfp.wrapping_add(SP))?;
        let within = |at: u64| (stack..end).contains(&at);
        let context = ec..ec.wrapping_add(EC_COPIED);
        Ok(if within(cfp) && within(values) {
            [context, stack..values, cfp..end]
        } else {
            [context, 0..0, 0..0]
        })
    }

    /// Returns the size of the VM stack of an execution context in bytes. It is room, of which most threads use little.
    pub(super) fn vm_stack_bytes(&self, ec: u64) -> Result<u64, Fault> {
        let words = self.memory.u64(ec.wrapping_add(EC_STACK_SIZE))?;
        Ok(words.wrapping_mul(8))
    }

    /// Returns where the VM stack ends.
    #[inline]
    fn end(&self, ec: u64) -> Result<u64, Fault> {
        let stack = self.memory.u64(ec.wrapping_add(EC_STACK))?;
        Ok(stack.wrapping_add(self.vm_stack_bytes(ec)?))
    }

    #[inline]
    fn frames_below(&self, cfp: u64, end: u64) -> Frames<'_, M> {
        Frames {
            memory: self.memory,
            frame_size: self.layout.frame_size,
            cfp,
            end,
            left: if cfp == 0 { 0 } else { MOST_FRAMES },
        }
    }
}
