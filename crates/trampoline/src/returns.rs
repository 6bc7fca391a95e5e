//! Where calls in a piece of machine code return to. Used by `hooks::parked`.

use alloc::vec::Vec;
use iced_x86::{Decoder, DecoderOptions};

/// An address behind a call instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Return {
    /// The address that the call puts on the stack.
    pub address: u64,
    /// Whether the call reads its destination from memory, as the routine's call of an original does.
    pub indirect: bool,
}

/// Returns the addresses behind all call instructions of `code`, which lies at `at`, in ascending order. The code must
/// have no data in it: it is decoded from its first byte to its last.
pub fn returns(code: &[u8], at: u64) -> Vec<Return> {
    let decoder = Decoder::with_ip(64, code, at, DecoderOptions::NONE);
    let calls = decoder
        .into_iter()
        .filter(|one| one.is_call_near() || one.is_call_near_indirect());
    calls
        .map(|call| Return {
            address: call.next_ip(),
            indirect: call.is_call_near_indirect(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_and_nothing_else() {
        // nop; call +0; mov eax, [rsp]; call [rbp - 16]; ret; syscall
        let code = [
            0x90, 0xe8, 0, 0, 0, 0, 0x8b, 0x04, 0x24, 0xff, 0x55, 0xf0, 0xc3, 0x0f, 0x05,
        ];
        let found = returns(&code, 0x1000);
        let found: Vec<_> = found
            .iter()
            .map(|one| (one.address, one.indirect))
            .collect();
        assert_eq!(found, [(0x1006, false), (0x100c, true)]);
    }
}
