//! Where the bytes of a value are: the registers and the stack of the System V ABI for x86-64, section 3.2.3. Used by
//! `length`, `prepared`, `varargs` and others.

use capture::{Registers, Returned};

use crate::location::{Half, Location};

/// Where a value's bytes are.
#[derive(Clone, Copy)]
pub(super) enum Storage {
    /// In the guest's memory, from this address on.
    Memory(u64),
    /// In registers, which held these bytes; a `long double _Complex` is the longest with 32.
    Registers([u8; 32]),
}

/// The bytes of two registers, in the order in which memory would hold them.
fn pair(first: u64, second: u64) -> Storage {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&first.to_le_bytes());
    bytes[8..16].copy_from_slice(&second.to_le_bytes());
    Storage::Registers(bytes)
}

/// Where an argument's bytes are, given the registers at the function's entry.
pub(super) fn argument_at(location: Location, registers: &Registers) -> Storage {
    let half = |half| match half {
        Half::Gp(n) => registers.gp.get(usize::from(n)).copied().unwrap_or(0),
        Half::Sse(n) => registers.sse.get(usize::from(n)).copied().unwrap_or(0),
    };
    match location {
        Location::Gp(n) => pair(half(Half::Gp(n)), 0),
        Location::Sse(n) => pair(half(Half::Sse(n)), 0),
        Location::Split(a, b) => pair(half(a), half(b)),
        Location::Stack(offset) => Storage::Memory(registers.stack.wrapping_add(offset.into())),
        Location::Nowhere | Location::X87 | Location::ComplexX87 => pair(0, 0),
    }
}

/// Where the returned value's bytes are: `rax`, `rdx`, `xmm0`, `xmm1`, the x87 registers, or memory that `rax` points
/// to.
pub(super) fn returned_at(location: Location, returned: &Returned) -> Storage {
    let half = |half| match half {
        Half::Gp(0) => returned.rax,
        Half::Gp(_) => returned.rdx,
        Half::Sse(0) => returned.sse[0],
        Half::Sse(_) => returned.sse[1],
    };
    match location {
        Location::Gp(n) => pair(half(Half::Gp(n)), 0),
        Location::Sse(n) => pair(half(Half::Sse(n)), 0),
        Location::Split(a, b) => pair(half(a), half(b)),
        Location::Stack(_) => Storage::Memory(returned.rax),
        Location::X87 | Location::ComplexX87 => {
            let mut bytes = [0; 32];
            bytes[..10].copy_from_slice(&returned.x87[0]);
            bytes[16..26].copy_from_slice(&returned.x87[1]);
            Storage::Registers(bytes)
        }
        Location::Nowhere => pair(0, 0),
    }
}
