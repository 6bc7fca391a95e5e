//! Whether the collector of cycles is switched on (`gc_disable()`, `zend.enable_gc`). Used by
//! `languages::php::snapshot`.
//!
//! Its state, `gc_globals`, is static in `Zend/zend_gc.c`. The exported function `gc_enabled` returns one byte of it, so that byte's address is
//! in its first instruction, relative to the next one:
//!
//! ```text
//!   [f3 0f 1e fa]  0f b6 05 dd dd dd dd   movzbl d(%rip), %eax
//!   c3                                    ret
//! ```

use crate::Memory;

/// The exported function.
pub const IS_ENABLED: &str = "gc_enabled";

const LANDING: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
const LENGTH: u64 = 7;

/// Returns whether the collector is on; `is_enabled` is the address of [`IS_ENABLED`]. `None` if that is not known.
pub fn is_on(memory: &impl Memory, is_enabled: u64) -> Option<bool> {
    let mut code = [0; 16];
    memory.read(is_enabled, &mut code).ok()?;
    let (code, at) = match code.strip_prefix(&LANDING) {
        Some(rest) => (rest, is_enabled.wrapping_add(LANDING.len() as u64)),
        None => (&code[..], is_enabled),
    };
    let [0x0f, 0xb6, 0x05, a, b, c, d, 0xc3, ..] = code else {
        return None;
    };
    let distance = i32::from_le_bytes([*a, *b, *c, *d]);
    let state = at.wrapping_add(LENGTH).wrapping_add_signed(distance.into());
    match memory.u8(state).ok()? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}
