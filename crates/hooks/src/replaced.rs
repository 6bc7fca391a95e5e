//! The plan of a jump at a function's entry behind which there is no hook: the function is replaced (crate `patch`).
//!
//! It is decided by the same decoding as a hook, with the difference that no padding near by is used for a second jump: the patch is one
//! jump of five bytes, so that one write sets it and one takes it out.

use crate::table::HookTable;
use crate::text::Texts;
use process::functions::{Function, Functions};
use process::memory::GuestMemory;
use trampoline::{Kind, Plan};

/// The bytes of a function as they are now, up to the next function that is known, and the plan of the jump at its entry.
///
/// # Errors
/// Why it cannot be replaced, in words.
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
