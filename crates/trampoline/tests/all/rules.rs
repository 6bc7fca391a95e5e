//! The routine's unwinding rules, written by hand, are right at each of its instructions.
//!
//! The routine is walked instruction by instruction, along every branch, with an account of where the stack pointer is and
//! where the caller's frame pointer was put; gimli says what the rules claim.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU32;

use gimli::{
    BaseAddresses, CfaRule, EhFrame, NativeEndian, Register, RegisterRule, UnwindContext,
    UnwindSection, X86_64,
};
use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Mnemonic, OpKind};
use trampoline::{Frame, ProbeFrame, Results, Rooms};

routine::routines! { enter = enter, leave = leave, quick_enter = enter, quick_leave = leave, probe = probe, quick_probe = enter, gate = GATE, offset = 0, rooms = ROOMS, blocks = routine::blocks::NONE }
static ROOMS: Rooms = Rooms::anywhere();
static GATE: AtomicU32 = AtomicU32::new(0);
unsafe extern "C" fn enter(_: *mut Frame) -> u64 {
    0
}
unsafe extern "C" fn leave(_: *mut Frame, _: *mut Results) {}
unsafe extern "C" fn probe(_: *mut ProbeFrame) {}

/// Where things are at an instruction.
#[derive(Clone, Copy, Debug, PartialEq)]
struct State {
    /// What the CFA is counted from, and how far it is.
    cfa: (Register, i64),
    /// The caller's rbp has been pushed.
    pushed: bool,
}

#[test]
fn the_rules_hold_at_every_instruction() {
    let start = trampoline_call_through as *const () as u64;
    let fde = (&raw const trampoline_fde).addr() as u64;
    // The CIE stands before the FDE; both are small.
    let (from, length) = (fde - 64, 256);
    // SAFETY: read-only data of this program on both sides.
    let bytes = unsafe { std::slice::from_raw_parts(from as *const u8, length) };
    let section = EhFrame::new(bytes, NativeEndian);
    let bases = BaseAddresses::default().set_eh_frame(from).set_text(0);
    let offset = gimli::EhFrameOffset((fde - from) as usize);
    let entry = section
        .fde_from_offset(&bases, offset, EhFrame::cie_from_offset)
        .expect("a well-formed FDE");
    assert_eq!(entry.initial_address(), start);
    assert_eq!(entry.cie().return_address_register(), X86_64::RA);
    assert!(entry.personality().is_none() && entry.lsda().is_none());
    let size = entry.len() as usize;

    // SAFETY: the routine's text.
    let code = unsafe { std::slice::from_raw_parts(start as *const u8, size) };
    let at_entry = State {
        cfa: (X86_64::RSP, 8),
        pushed: false,
    };
    let mut states: BTreeMap<u64, State> = BTreeMap::new();
    let mut open = vec![(start, at_entry)];
    let mut context = UnwindContext::new();
    while let Some((ip, state)) = open.pop() {
        if let Some(known) = states.insert(ip, state) {
            assert_eq!(
                known,
                state,
                "two ways lead to {:#x} with different stacks",
                ip - start
            );
            continue;
        }
        assert!(
            (start..start + size as u64).contains(&ip),
            "walked out of the rules"
        );
        let row = entry
            .unwind_info_for_address(&section, &bases, &mut context, ip)
            .expect("a row for every instruction");
        let (register, distance) = state.cfa;
        assert_eq!(
            *row.cfa(),
            CfaRule::RegisterAndOffset {
                register,
                offset: distance
            },
            "at {:#x}",
            ip - start
        );
        let expected = if state.pushed {
            Some(RegisterRule::Offset(-16))
        } else {
            None
        };
        let found = row.register(X86_64::RBP);
        assert!(
            found == expected || expected.is_none() && found == Some(RegisterRule::SameValue),
            "at {:#x}: {found:?}",
            ip - start
        );
        assert_eq!(row.register(X86_64::RA), Some(RegisterRule::Offset(-8)));

        let piece = &code[(ip - start) as usize..];
        let instruction = Decoder::with_ip(64, piece, ip, DecoderOptions::NONE).decode();
        let mut after = state;
        match instruction.code() {
            Code::Push_r64 if !state.pushed => {
                after = State {
                    cfa: (X86_64::RSP, 16),
                    pushed: true,
                }
            }
            Code::Mov_r64_rm64 | Code::Mov_rm64_r64
                if instruction.op0_register() == iced_x86::Register::RBP
                    && instruction.op1_kind() == OpKind::Register =>
            {
                after.cfa = (X86_64::RBP, 16);
            }
            Code::Leaveq => after = at_entry,
            // No other instruction may touch what the CFA is counted from.
            _ if state.cfa.0 == X86_64::RSP => {
                let stack = instruction.stack_pointer_increment();
                let writes = instruction.op0_register() == iced_x86::Register::RSP;
                let ends = instruction.flow_control() == FlowControl::Return;
                assert!((stack == 0 && !writes) || ends, "{instruction:?}");
            }
            _ => assert_ne!(
                instruction.op0_register(),
                iced_x86::Register::RBP,
                "{instruction:?}"
            ),
        }
        match instruction.flow_control() {
            FlowControl::Return | FlowControl::IndirectBranch => {
                assert_eq!(after, at_entry, "leaves as it came")
            }
            FlowControl::UnconditionalBranch => {
                open.push((instruction.near_branch_target(), after))
            }
            FlowControl::ConditionalBranch => {
                open.push((instruction.near_branch_target(), after));
                open.push((instruction.next_ip(), after));
            }
            FlowControl::Next | FlowControl::Call | FlowControl::IndirectCall => {
                open.push((instruction.next_ip(), after))
            }
            other => panic!("{other:?} at {:#x}", ip - start),
        }
    }
    // All of it was walked: no byte is without an account, but padding.
    assert!(states.len() > 120, "{} instructions", states.len());
    let mut ip = start;
    for instruction in Decoder::with_ip(64, code, start, DecoderOptions::NONE) {
        assert!(
            states.contains_key(&ip) || instruction.mnemonic() == Mnemonic::Nop,
            "{:#x} is never reached",
            ip - start
        );
        ip = instruction.next_ip();
    }
}
