//! Plans a jump at a function's entry that leads to a replacement and not to a hook (crate `patch`). Used by
//! `patch::planned`.
//!
//! The decoding is the same as for a hook. The difference is that no padding is used for a second jump: the patch is one jump of five
//! bytes, so that one write sets it and one takes it out.

use crate::table::HookTable;
use crate::text::Texts;
use process::functions::{Function, Functions};
use process::memory::GuestMemory;
use trampoline::{Kind, Plan};

/// Returns the bytes of a function as they are now, up to the next known function, and the plan of the jump at its entry.
///
/// # Errors
/// Returns in words why it cannot be replaced.
pub fn plan_replacement(
    functions: &Functions,
    memory: &GuestMemory,
    function: &Function,
) -> Result<(Vec<u8>, Plan), crate::Reason> {
    let mut texts = Texts::default();
    let (code, plan) = texts.entry(functions, memory, &HookTable::default(), function)?;
    if let Kind::Short { .. } = plan.kind {
        return Err("it is too short for a jump of five bytes".into());
    }
    Ok((code, plan))
}
