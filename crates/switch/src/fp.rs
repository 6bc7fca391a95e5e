//! The floating-point control words: rounding, precision and masked exceptions.
//!
//! The ABI makes `mxcsr`'s control bits and the x87 control word the callee's to preserve, yet
//! almost no program changes them, and saving and loading them costs more than the rest of the
//! switch. So they travel on request ([`crate::Builder::keep_fp`]): each side saves its own in its
//! own frame around the switch. A new coroutine starts with those of its first resumer.

use core::arch::asm;
use core::mem::MaybeUninit;

/// Room for both control words. They are stored to and loaded from where they lie: a copy in between would load eight
/// bytes that two smaller stores have just written, and wait for both stores.
#[repr(C)]
pub struct ControlWords {
    /// SSE: rounding, flushing, exceptions.
    pub(crate) mxcsr: MaybeUninit<u32>,
    /// x87: rounding, precision, exceptions.
    pub(crate) x87: MaybeUninit<u16>,
}

impl ControlWords {
    /// Room that nothing was stored in yet.
    #[inline(always)]
    pub const fn unset() -> Self {
        ControlWords {
            mxcsr: MaybeUninit::uninit(),
            x87: MaybeUninit::uninit(),
        }
    }

    /// Stores the control words in force now.
    #[inline(always)]
    pub fn save(&mut self) {
        // SAFETY: both instructions only store, to a field of that size each.
        unsafe {
            asm!(
                "stmxcsr [{m}]",
                "fnstcw [{x}]",
                m = in(reg) self.mxcsr.as_mut_ptr(),
                x = in(reg) self.x87.as_mut_ptr(),
                options(nostack, preserves_flags),
            );
        }
    }

    /// Puts the stored control words in force again.
    ///
    /// # Safety
    ///
    /// [`ControlWords::save`] must have been called.
    #[inline(always)]
    pub unsafe fn restore(&self) {
        // SAFETY: the words come from `save`, so they are valid, and they were this side's own
        // environment before the switch.
        unsafe {
            asm!(
                "ldmxcsr [{m}]",
                "fldcw [{x}]",
                m = in(reg) self.mxcsr.as_ptr(),
                x = in(reg) self.x87.as_ptr(),
                options(nostack, readonly, preserves_flags),
            );
        }
    }
}
