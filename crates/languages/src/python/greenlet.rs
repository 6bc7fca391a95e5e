//! Finds the address at which the native code of a parked greenlet goes on. Used by `frames`.
//!
//! `slp_switch` (`platform/switch_amd64_unix.h`, greenlet 0.4.17 to 3.3.2) stores its rsp as `stack_start`, copies the
//! other stack's bytes away, moves rsp and rbp over to the next greenlet's and copies that one's bytes back:
//!
//! ```text
//!   add %rax,%rsp             48 01 c4      by what the next one's `stack_start` is away from here
//!   add %rax,%rbp             48 01 c5
//!   call slp_restore_state
//!   xor %rax,%rax             ◄─ here each goes on
//!   mov 0x10(%rsp),%rbx
//!   mov 0x8(%rsp),%rbp        its rbp at that time
//! ```
//!
//! No other code adds to both. The function has no symbol, so its code is searched for.

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Register};
use vm::Memory;

use crate::frames::Module;

/// A part of the file name of every version of the module.
const NAME: &str = "greenlet";
/// `add %rax,%rsp`, `add %rax,%rbp`.
const MOVES: [u8; 6] = [0x48, 0x01, 0xc4, 0x48, 0x01, 0xc5];
/// How many bytes behind these instructions are read.
const AFTER: usize = 64;

/// The address at which a greenlet goes on, and the distance above rsp at which its rbp is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resumed {
    pub ip: u64,
    pub bp_at: u64,
}

/// Searches the files of the module for the code of a switch.
pub fn find(modules: &[&dyn Module], memory: &dyn Memory) -> Option<Resumed> {
    let loaded = modules.iter().filter(|loaded| loaded.name().contains(NAME));
    let mut found = None;
    for loaded in loaded {
        loaded.each_code(memory, &mut |address, bytes| {
            found = found.or_else(|| search(address, bytes));
        });
    }
    found
}

/// Searches code that lies at this address.
fn search(address: u64, bytes: &[u8]) -> Option<Resumed> {
    let moves = bytes.windows(MOVES.len()).position(|six| six == MOVES)?;
    let at = moves + MOVES.len();
    let rest = &bytes[at..bytes.len().min(at + AFTER)];
    read(rest, address.wrapping_add(at as u64))
}

/// Reads the instructions that follow the two.
fn read(code: &[u8], address: u64) -> Option<Resumed> {
    let mut instructions = Decoder::with_ip(64, code, address, DecoderOptions::NONE).into_iter();
    let call = instructions.next()?;
    if call.flow_control() != FlowControl::Call {
        return None;
    }
    let restores = instructions.find(|instruction| {
        instruction.code() == Code::Mov_r64_rm64
            && instruction.op0_register() == Register::RBP
            && instruction.memory_base() == Register::RSP
            && instruction.memory_index() == Register::None
    })?;
    Some(Resumed {
        ip: call.next_ip(),
        bp_at: restores.memory_displacement64(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_debians_greenlet() {
        let code = b"\xe8\xa4\xfd\xff\xff\x48\x31\xc0\x48\x8b\x5c\x24\x10\x48\x8b\x6c\x24\x08\x0f\xae\x54\x24\x04";
        let ip = 0xd9cc;
        let found = read(code, 0xd9c7);
        assert_eq!(found, Some(Resumed { ip, bp_at: 8 }));
        assert_eq!(read(&code[5..], 0xd9cc), None);
        assert_eq!(read(&code[..10], 0xd9c7), None);
    }
}
