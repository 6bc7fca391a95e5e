//! The floating-point control words: rounding, precision and masked exceptions.
//!
//! The ABI makes `mxcsr`'s control bits and the x87 control word the callee's to preserve, yet
//! almost no program changes them, and saving and loading them costs more than the rest of the
//! switch. So they travel on request ([`crate::Builder::keep_fp`]): each side saves its own in its
//! own frame around the switch. A new coroutine starts with those of its first resumer.
//!
//! The other bits of `mxcsr` are flags: which exceptions there were. The ABI preserves them over no call, and they stay the
//! thread's here. In nearly every program they are other ones on both sides, because one has computed something inexact
//! and the other has not. To load them would make the next `stmxcsr` wait: 49 ns on an Intel Xeon. So `mxcsr` is loaded only
//! where control bits differ, and with the thread's flags.

use core::arch::asm;
use core::mem::MaybeUninit;

/// The bits of `mxcsr` that are flags.
pub const FLAGS: u32 = 0x3f;

/// Room for both control words. They are read one by one where they lie: a copy would load eight bytes that two smaller
/// stores have just written, and wait for both stores.
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

    /// Puts the stored control words in force again where they differ from those in force now. The flags stay as they are.
    ///
    /// # Safety
    ///
    /// [`ControlWords::save`] must have been called.
    #[inline(always)]
    pub unsafe fn restore(&self) {
        let mut now = ControlWords::unset();
        now.save();
        // SAFETY: both were stored by `save`.
        let (kept, mxcsr, x87) = unsafe {
            let kept = (self.mxcsr.assume_init(), self.x87.assume_init());
            (kept, now.mxcsr.assume_init(), now.x87.assume_init())
        };
        let (kept_mxcsr, kept_x87) = kept;
        if (kept_mxcsr ^ mxcsr) & !FLAGS != 0 {
            let word = kept_mxcsr & !FLAGS | mxcsr & FLAGS;
            // SAFETY: the word has the control bits of `save`, which were this side's own before the switch.
            unsafe {
                asm!("ldmxcsr [{}]", in(reg) &raw const word, options(nostack, readonly, preserves_flags));
            }
        }
        if kept_x87 != x87 {
            // SAFETY: as above.
            unsafe {
                asm!("fldcw [{}]", in(reg) self.x87.as_ptr(), options(nostack, readonly, preserves_flags));
            }
        }
    }
}
