//! Local variables of methods and blocks that run, on the VM stack of a thread or fiber. Used by `references`.
//!
//! ```text
//!   ep - (local_table_size + 2) words                          ep
//!   │ locals, in the order of local_table │ method entry │ block │ flags │      VM_ENV_DATA_SIZE is 3 (vm_core.h)
//! ```
//!
//! An environment that a block has taken along is an object of its own (`imemo:env`), and `ep` leads into that. Sources: `vm_core.h`
//! (`struct rb_iseq_constant_body`, `rb_control_frame_t`), `vm_insnhelper.c` (`vm_push_frame`).

use super::frames::Frame;
use super::object::is_object;
use super::references::LOCALS;
use super::{Error, Ruby};
use crate::Memory;

/// Words of an environment from the first one behind its locals to `ep`.
const BEHIND: u64 = 2;
/// Local variables of one method, at most; where more are told, the code is none.
const MOST: u64 = 1 << 12;
/// Frames that are looked at.
const FRAMES: usize = 1 << 14;

impl<M: Memory> Ruby<'_, M> {
    /// Calls `each` with the objects that local variables refer to, the frame of each, and the ID of the variable. A frame that cannot
    /// be read is left out.
    pub fn frame_locals(
        &self,
        ec: u64,
        each: &mut dyn FnMut(u64, Frame, u64),
    ) -> Result<(), Error> {
        let cfp = self.current_cfp(ec)?;
        if cfp == 0 {
            return Ok(());
        }
        for frame in self.frames(ec, cfp)?.take(FRAMES) {
            let frame = frame?;
            let _ = self.locals_of(frame, each);
        }
        Ok(())
    }

    fn locals_of(&self, frame: Frame, each: &mut dyn FnMut(u64, Frame, u64)) -> Result<(), Error> {
        let table = self.body(frame.iseq)?;
        let table = table.wrapping_add(self.layout.iseq.insns_info + LOCALS);
        let names = self.memory.u64(table)?;
        let count = table.wrapping_add(self.layout.iseq.local_count);
        let count = u64::from(self.memory.u32(count)?);
        if count > MOST {
            return Err(Error::garbled("iseq", frame.iseq));
        }
        let first = self.environment(frame)?;
        let first = first.wrapping_sub((count + BEHIND) * 8);
        self.named_words(first, names, count, &mut |value, id| each(value, frame, id))
    }

    /// Calls `each` with those of so many words that are objects, and the ID at the same place of the names.
    pub(super) fn named_words(
        &self,
        values: u64,
        names: u64,
        count: u64,
        each: &mut dyn FnMut(u64, u64),
    ) -> Result<(), Error> {
        for index in 0..count {
            let value = self.memory.u64(values.wrapping_add(index * 8))?;
            if is_object(value) {
                each(value, self.memory.u64(names.wrapping_add(index * 8))?);
            }
        }
        Ok(())
    }

    /// Returns the execution context of the fiber that a Thread object runs, or that a Fiber object is; `None` if it is no such object.
    pub fn context_of_object(&self, object: u64) -> Option<u64> {
        let data = self.structure(object).ok()?;
        let vm = self.vm().ok()?;
        let of_thread = self.ec_if_thread(vm, data);
        of_thread.or_else(|| self.ec_if_fiber(vm, data))
    }
}
