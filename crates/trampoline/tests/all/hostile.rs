//! Bytes that no compiler made: plans may be refused, never wrong in their own terms, and nothing panics.

use iced_x86::{Decoder, DecoderOptions, Mnemonic, OpKind};
use proptest::prelude::*;
use trampoline::probe::{self, Spot};
use trampoline::{Destination, Function, Inline, Kind, Options, Pads, Recorded, Targets, plan};

/// Random bytes, and bytes of which many are whole instructions.
fn code() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        proptest::collection::vec(any::<u8>(), 1..8),
        prop_oneof![
            Just(vec![0x90]),
            Just(vec![0xc3]),
            Just(vec![0xcc]),
            Just(vec![0x55]),
            Just(vec![0x48, 0x89, 0xe5]),
            Just(vec![0xf3, 0x0f, 0x1e, 0xfa]),
            Just(vec![0x66, 0x0f, 0x1f, 0x44, 0, 0]),
            Just(vec![0x48, 0x8b, 0x05, 0x10, 0x20, 0, 0]),
            Just(vec![0xff, 0xd0]),
            Just(vec![0xff, 0x54, 0x24, 0x08]),
        ],
        (any::<i8>(), 0x70..0x7fu8).prop_map(|(to, code)| vec![code, to as u8]),
        (any::<i8>(), 0xe0..0xe4u8).prop_map(|(to, code)| vec![code, to as u8]),
        (-600..600i32, 0xe8..0xeau8).prop_map(|(to, code)| {
            let mut call = vec![code];
            call.extend_from_slice(&to.to_le_bytes());
            call
        }),
    ];
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn plans_keep_their_word(code in code(), at in 0x10_0000..0x10_2000u64, start in 0..40usize, size in 0..64usize, shadow_stack: bool) {
        let start = start.min(code.len());
        let entry = at + start as u64;
        let read = |_: u64, into: &mut [u8]| { into.fill(0x10); true };
        let targets = Targets::of(&code, at, &[entry], Some(&read));
        let mut pads = Pads::of(&code, at, &[entry, entry + size as u64], &targets);
        let function = Function { entry, code: &code[start..], size };
        let all = wire::calls::record::RecordedRegisters { second_result: true, ..wire::calls::record::RecordedRegisters::UNKNOWN };
        let recorded = Recorded { number: (1 << 21) - 1, shape: all.shape(true, true) };
        for (spot, recorded) in [(Spot::Nop, None), (Spot::Before, None), (Spot::From, None), (Spot::Before, Some(recorded)), (Spot::From, Some(recorded))] {
            let Ok(plan) = probe::plan(&function, entry + 5, spot, &targets, &mut pads, Options { shadow_stack }) else { continue };
            let behind = spot == Spot::From;
            let inline = Inline { number: 7, instruction: entry + 5, behind, recorded, calls: 1 << 41, gate: (1 << 41) + 4096 };
            for inline in [None, Some(inline)] {
                let made = plan.stub(at + (1 << 20), Destination { routine: 1 << 40, descriptor: 0 }, inline);
                let most = plan.most(inline.is_some());
                prop_assert!(made.is_err() || made.is_ok_and(|stub| stub.bytes.len() <= most));
            }
        }
        let Ok(plan) = plan(&function, &targets, &mut pads, Options { shadow_stack }) else { return Ok(()) };
        let stub = at + (1 << 20);
        let patches = plan.patches(stub).expect("in reach");
        // What is overwritten stands there now, and lies between the entry and the end of what was given.
        for patch in &patches {
            let offset = (patch.at - at) as usize;
            prop_assert_eq!(&code[offset..offset + patch.old.len()], &patch.old[..]);
            prop_assert_eq!(patch.old.len(), patch.new.len());
            prop_assert_eq!(patch.at / 4096, (patch.at + patch.new.len() as u64 - 1) / 4096);
        }
        let last = patches.last().expect("one at least");
        prop_assert_eq!(last.at, plan.patch_at);
        prop_assert!(plan.patch_at == entry || plan.patch_at == entry + 4);
        // Nobody but the stolen code jumps into the patch.
        let stolen = plan.patch_at..plan.patch_at + plan.stolen as u64;
        for branch in targets.within(last.at + 1..last.at + last.new.len() as u64) {
            prop_assert!(stolen.contains(&branch.source), "{branch:?}");
        }
        // The jumps lead to the stub.
        let mut decoder = Decoder::with_ip(64, &patches[0].new, patches[0].at, DecoderOptions::NONE);
        prop_assert_eq!(decoder.decode().near_branch_target(), stub);
        if let Kind::Short { pad } = plan.kind {
            let mut decoder = Decoder::with_ip(64, &last.new, last.at, DecoderOptions::NONE);
            prop_assert_eq!(decoder.decode().near_branch_target(), pad);
        }
        // Where threads stand in the patch, the stub has the same instruction: none but calls become others.
        let Ok(made) = plan.stub(stub, Destination { routine: 1 << 40, descriptor: 1 << 41 }) else { return Ok(()) };
        prop_assert!(made.bytes.len() <= plan.most());
        for &(from, to) in made.moves.iter().filter(|(from, _)| stolen.contains(from)) {
            let old = Decoder::with_ip(64, &code[(from - at) as usize..], from, DecoderOptions::NONE).decode();
            let new = Decoder::with_ip(64, &made.bytes[(to - stub) as usize..], to, DecoderOptions::NONE).decode();
            // A branch is preceded by a nop.
            let changed = old.mnemonic() == Mnemonic::Call || old.op0_kind() == OpKind::NearBranch64;
            prop_assert!(changed || old.mnemonic() == new.mnemonic(), "{:?} became {:?}", old.code(), new.code());
        }
    }
}
