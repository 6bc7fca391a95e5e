//! Whatever the program says, a run stays within its limits.

use capture::{CopyLimits, Ended, Op, Registers, Returned, Source, What, Width, run};
use proptest::prelude::*;

fn sources() -> impl Strategy<Value = Source> {
    prop_oneof![
        (0..6_u8).prop_map(Source::Gp),
        (0..8_u8).prop_map(Source::Sse),
        any::<u16>().prop_map(Source::Stack),
        any::<u16>().prop_map(Source::StackAddress),
        Just(Source::Callers),
        Just(Source::Rax),
        Just(Source::Rdx),
    ]
}

fn widths() -> impl Strategy<Value = Width> {
    let bytes = prop::sample::select(vec![1, 2, 4, 8]);
    (bytes, any::<bool>(), 0..8_u8).prop_map(|(bytes, signed, skip)| Width {
        bytes,
        signed,
        skip,
    })
}

fn units() -> impl Strategy<Value = u8> {
    prop::sample::select(vec![1, 2, 4, 8])
}

fn ops() -> impl Strategy<Value = Op> {
    let numbers = || prop_oneof![4 => 0..64_u32, 1 => any::<u32>()];
    let skips = || prop_oneof![8 => 0..6_u16, 1 => any::<u16>()];
    prop_oneof![
        sources().prop_map(Op::Value),
        numbers().prop_map(Op::Member),
        numbers().prop_map(Op::At),
        numbers().prop_map(Op::Bytes),
        numbers().prop_map(Op::Array),
        (units(), numbers()).prop_map(|(unit, max)| Op::Text { unit, max }),
        (units(), numbers()).prop_map(|(unit, max)| Op::CountedText { unit, max }),
        (sources(), widths()).prop_map(|(source, width)| Op::Count(source, width)),
        (numbers(), widths()).prop_map(|(offset, width)| Op::CountMember(offset, width)),
        numbers().prop_map(Op::Constant),
        numbers().prop_map(Op::AtMost),
        numbers().prop_map(Op::Within),
        numbers().prop_map(Op::ZeroEnded),
        skips().prop_map(|skip| Op::Open { skip }),
        (numbers(), skips()).prop_map(|(stride, skip)| Op::Each { stride, skip }),
        Just(Op::Close),
        (0..6_u8, 0..32_u8, skips(), numbers()).prop_map(|(argument, shift, skip, is)| {
            Op::OnlyIf {
                argument,
                shift,
                skip,
                is,
            }
        }),
        (skips(), numbers()).prop_map(|(skip, is)| Op::OnlyNumber { skip, is }),
        (any::<u8>(), any::<u16>(), any::<u32>()).prop_map(|(what, items, text)| Op::Describe {
            what: What(what),
            items,
            text,
        }),
        (0..7_u8, 0..9_u8, any::<u16>(), units(), any::<u16>()).prop_map(
            |(gp, sse, stack, unit, max)| Op::Format {
                gp,
                sse,
                stack,
                unit,
                max
            }
        ),
    ]
}

fn words() -> impl Strategy<Value = Vec<u64>> {
    let word = prop_oneof![9 => ops().prop_map(Op::encode), 1 => any::<u64>()];
    prop::collection::vec(word, 0..40)
}

/// Runs and holds the bounds; memory is what `byte` says, and every third page is not there.
fn hold(
    words: &[u64],
    registers: &Registers,
    limits: CopyLimits,
    byte: impl Fn(u64) -> u8,
) -> Ended {
    let (mut reads, mut bytes) = (0_u32, 0_u32);
    run(
        words,
        registers,
        Some(&Returned {
            rax: 0x10_0000,
            ..Returned::default()
        }),
        limits,
        &mut (
            |at: u64, into: &mut [u8]| {
                reads += 1;
                assert!(reads <= limits.steps, "more reads than steps");
                assert!(!into.is_empty() && into.len() <= CopyLimits::CHUNK);
                assert_eq!(
                    at / 4096,
                    (at + into.len() as u64 - 1) / 4096,
                    "across a page"
                );
                assert!(at >= 4096, "at an address that is none");
                if at / 4096 % 3 == 2 {
                    return false;
                }
                (0..)
                    .zip(into)
                    .for_each(|(offset, slot)| *slot = byte(at + offset));
                true
            },
            |at: u64, chunk: &[u8]| {
                assert!(at / 4096 % 3 != 2, "what was not read");
                assert!(
                    (0..)
                        .zip(chunk)
                        .all(|(offset, slot)| *slot == byte(at + offset))
                );
                bytes += chunk.len() as u32;
                assert!(bytes <= limits.bytes, "more bytes than allowed");
                true
            },
        ),
    )
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_run_stays_within_its_limits(
        words in words(),
        gp in any::<[u16; 6]>(),
        (bytes, steps) in (0..5000_u32, 0..5000_u32),
        seed in any::<u8>(),
    ) {
        let registers = Registers {
            gp: gp.map(|low| 0x10_0000 + u64::from(low)),
            sse: [u64::MAX; 8],
            stack: 0x20_0ff0,
        };
        let byte = |at: u64| (at as u8).wrapping_mul(31).wrapping_add(seed) & 0x3f;
        hold(&words, &registers, CopyLimits { bytes, steps }, byte);
        // Formats are full of conversions here.
        hold(&words, &registers, CopyLimits { bytes, steps }, |at| b"%s%d%f%*s"[(at % 9) as usize]);
        // Addresses near the end of all.
        let registers = Registers { gp: [u64::MAX - 7; 6], stack: u64::MAX - 100, ..registers };
        hold(&words, &registers, CopyLimits { bytes, steps }, byte);
    }

    #[test]
    fn an_operation_is_one_word(op in ops()) {
        prop_assert_eq!(Op::decode(op.encode()), Some(op));
    }

    #[test]
    fn any_word_is_an_operation_or_none(word in any::<u64>()) {
        if let Some(op) = Op::decode(word) {
            prop_assert_eq!(Op::decode(op.encode()), Some(op));
        }
    }
}

#[test]
fn output_may_end_a_run() {
    let words = [Op::Value(Source::Gp(0)).encode(), Op::Bytes(1000).encode()];
    let registers = Registers {
        gp: [0x10_0000; 6],
        ..Registers::default()
    };
    let mut chunks = 0;
    let ended = run(
        &words,
        &registers,
        None,
        CopyLimits::default(),
        &mut (
            |_: u64, _: &mut [u8]| true,
            |_: u64, _: &[u8]| {
                chunks += 1;
                chunks < 2
            },
        ),
    );
    assert_eq!((ended, chunks), (Ended::Full, 2));
}

#[test]
fn loops_end_at_the_limit() {
    // For each of four billion elements, nothing.
    let words = [
        Op::Value(Source::Gp(0)),
        Op::Constant(u32::MAX),
        Op::Each { stride: 0, skip: 1 },
        Op::Close,
    ];
    let registers = Registers {
        gp: [0x10_0000; 6],
        ..Registers::default()
    };
    assert_eq!(
        hold(
            &words.map(Op::encode),
            &registers,
            CopyLimits::default(),
            |_| 0
        ),
        Ended::Limit
    );
}

#[test]
fn what_does_not_close_is_malformed() {
    let registers = Registers {
        gp: [0x10_0000; 6],
        ..Registers::default()
    };
    let open = [Op::Value(Source::Gp(0)), Op::Open { skip: 0 }];
    assert_eq!(
        hold(
            &open.map(Op::encode),
            &registers,
            CopyLimits::default(),
            |_| 0
        ),
        Ended::Malformed
    );
    assert_eq!(
        hold(
            &[Op::Close.encode()],
            &registers,
            CopyLimits::default(),
            |_| 0
        ),
        Ended::Malformed
    );
    assert_eq!(
        hold(&[0], &registers, CopyLimits::default(), |_| 0),
        Ended::Malformed
    );
    assert_eq!(
        hold(&[], &registers, CopyLimits::default(), |_| 0),
        Ended::Done
    );
}
