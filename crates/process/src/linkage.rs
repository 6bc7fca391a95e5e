//! Finds the name by which a function was called. If one function has several names (`fgetwc` and `getwc`), the slot
//! of the calling module through which the call went shows which of them the source has. Used by `calls::live::lookup`.
//!
//! ```text
//!   call plt      ─►  plt: [endbr64] [bnd] jmp *slot(%rip)      psABI x86-64 5.2, and .plt.sec
//!   call *slot(%rip)                                            -fno-plt
//!   ▲ the instruction before the return address
//! ```

use crate::functions::ModuleSymbols;
use crate::memory::GuestMemory;
use crate::symbols::Slot;

/// Returns the name in the call that returns to `caller`, an address in `place`; `None` if it went through no slot of
/// that module.
pub fn called_as(place: &ModuleSymbols, memory: &GuestMemory, caller: u64) -> Option<String> {
    let mut before = [0; 6];
    memory
        .read_bytes(caller.checked_sub(6)?, &mut before)
        .ok()?;
    let by_slot = (before[..2] == [0xff, 0x15]).then(|| relative(&before[2..], caller));
    let by_table = || {
        let entry = (before[1] == 0xe8).then(|| relative(&before[2..], caller))??;
        jump_through(memory, entry)
    };
    let slots = place.symbols.slots();
    let named = |at: u64| {
        let slot = slots.iter().find(|(slot, _)| *slot == at)?;
        match &slot.1 {
            Slot::Named(name) => Some(name.clone().into_owned()),
            Slot::Picked(_) => None,
        }
    };
    by_slot
        .flatten()
        .and_then(named)
        .or_else(|| named(by_table()?))
}

/// Returns the address of the slot that an entry of a linkage table jumps through.
fn jump_through(memory: &GuestMemory, entry: u64) -> Option<u64> {
    const LANDING: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
    const BOUND: u8 = 0xf2;
    let mut code = [0; 11];
    memory.read_bytes(entry, &mut code).ok()?;
    let mut at = if code.starts_with(&LANDING) {
        LANDING.len()
    } else {
        0
    };
    at += usize::from(code[at] == BOUND);
    let jump = code.get(at..at + 6)?;
    (jump[..2] == [0xff, 0x25])
        .then(|| relative(&jump[2..], entry + at as u64 + 6))
        .flatten()
}

fn relative(distance: &[u8], from: u64) -> Option<u64> {
    let distance = i32::from_le_bytes(distance.try_into().ok()?);
    from.checked_add_signed(i64::from(distance))
}
