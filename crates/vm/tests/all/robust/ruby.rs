//! The reader of Ruby.

use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use vm::reader::{FACTS, OwnThread};
use vm::ruby::{
    Convention, Facts, Fiber, IdTable, Layout, Limits, Page, Ruby, StTable, Text, Version,
};
use vm::{Fault, Language, Memory, Reader};

use super::memory::{Bytes, Constant, Maze, Nothing, Short};

/// Flags with the types that lead somewhere.
const CODES: [u64; 8] = [2, 3, 5, 7, 0x1c, 0x701a, 0x1002, 0x2002];

fn ask_everything(memory: &dyn Memory, version: Version, words: [u64; Facts::WORDS - 1], at: u64) {
    // One type for all memories: the readers are compiled once.
    let memory = &memory;
    let mut facts = [version.packed(); Facts::WORDS];
    facts[1..].copy_from_slice(&words);
    // It is read by the table of its own version; all other words may be anything.
    facts[Facts::WORDS - 1] = 0;
    let ruby = Ruby::new(memory, Facts::from_words(facts)).expect("a known version");
    let out = &mut Short(1 << 12);

    let _ = ruby.current_cfp(at);
    let _ = ruby.ruby_frame(at, at);
    if let Ok(frames) = ruby.frames(at, at) {
        for frame in frames.take(1000).flatten() {
            let _ = ruby.line(frame.iseq, frame.pc);
        }
    }
    let _ = ruby.line(at, 0);
    let _ = ruby.line(at, at + 8);
    let _ = ruby.line_at_position(at, at as u32);
    let _ = ruby.first_line(at);
    let _ = ruby.code_size(at);
    for text in [
        ruby.path(at),
        ruby.label(at),
        ruby.base_label(at),
        ruby.text(at),
    ]
    .into_iter()
    .flatten()
    {
        let _ = ruby.write_text(text, 5000, out);
        let _ = ruby.copy(text, &mut [0; 100]);
    }
    let _ = ruby.write_text(
        Text {
            address: at,
            len: u64::MAX,
        },
        5000,
        out,
    );
    let _ = ruby.may_be_globals(at);
    let _ = ruby.are_globals(at);
    let _ = ruby.globals(at, &mut |_, _| {});
    let _ = ruby.references(at, 1000, &mut |_, _| {});
    let _ = ruby.thread_locals(at, &mut |_, _| {});
    let _ = ruby.frame_locals(at, &mut |_, _, _| {});
    let _ = ruby.context_of_object(at);
    let _ = ruby.capacity(at, 1 << 20);
    let _ = ruby.data_type(at);
    let _ = ruby.is_internal(at);
    let _ = ruby.moved_to(at);
    let _ = ruby.class_of(at);
    let _ = ruby.class_path(at);
    let _ = ruby.write_type(at, out);
    let _ = ruby.write_class_name(at, out);
    if let Ok(constants) = ruby.constants(at) {
        constants.take(1000).for_each(drop);
    }
    if let Ok(page) = ruby.page_of(at) {
        let _ = ruby.awaits_sweep(&page);
        let _ = ruby.is_marked(&page, at);
    }
    let _ = ruby.page_of(at).map(|page| ruby.slots(page).for_each(drop));
    ruby.slots(Page {
        start: at,
        slot_size: 0,
        total_slots: 1000,
        described_at: at,
    })
    .for_each(drop);
    if let Ok(pages) = ruby.pages() {
        for page in pages.take(100).flatten() {
            ruby.slots(page).for_each(drop);
        }
    }
    if let Ok(methods) = ruby.methods(at) {
        methods.take(1000).for_each(drop);
    }
    for name in ["A::B#m", "A.m", "m", "::A#m", "", "#", "A::"] {
        let _ = ruby.function(name);
        let _ = ruby.constant(name);
    }
    for value in [at, at | 1, at | 2, at << 8 | 0xc] {
        let _ = ruby.write_value(value, &Limits::default(), out);
        let _ = ruby.id_text(value);
    }
    for convention in [
        Convention::Fixed(3),
        Convention::Fixed(15),
        Convention::Arguments,
        Convention::Array,
    ] {
        let _ = ruby.write_arguments(convention, [at; 6], &Limits::default(), out);
    }
    let _ = ruby.write_id(at, 40, out);
    let _ = ruby.singleton(at);
    let _ = ruby.is_module(at);
    let _ = ruby.each_constant(at, &mut |_, _| ControlFlow::Continue(()));
    let _ = ruby.each_function(at, &mut |_, _| ControlFlow::Continue(()));
    let _ = ruby.vm();
    let _ = ruby.ractor_count(at);
    let _ = ruby.main_ec(at);
    let _ = ruby.thread_ec(at);
    let fiber = Fiber {
        address: at,
        ec: at.wrapping_sub(8),
        thread: at,
    };
    if let Some(context) = ruby.context_of(&fiber) {
        let _ = ruby.parked(&fiber, context);
    }
    let _ = ruby.fiber(at, at, at.wrapping_add(16));
    let _ = Facts::find(memory, &|_| Some(at));
    let _ = Facts::by_newest_layout(memory, &|_| Some(at));
}

fn versions() -> impl Iterator<Item = Version> {
    Layout::all()
        .iter()
        .map(|layout| Version::new(layout.version.0, layout.version.1, 9))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn mazes(seed: u64, faults in prop_oneof![Just(0_u64), 2..200_u64], words: [u64; Facts::WORDS - 1], slot in 0..64_u64) {
        for version in versions() {
            ask_everything(&Maze { seed, faults, codes: CODES }, version, words, 0x10_0000 + slot * 8);
            ask_everything(&Maze { seed, faults, codes: CODES }, version, [0x10_0000 + slot * 8; Facts::WORDS - 1], 0x10_0000);
        }
    }

    #[test]
    fn any_address(seed: u64, at: u64, words: [u64; Facts::WORDS - 1]) {
        for version in versions() {
            ask_everything(&Maze { seed, faults: 0, codes: CODES }, version, words, at & !7 & (u64::MAX >> 1));
        }
    }
}

#[test]
fn constants() {
    let types = (0..32).map(|code| code | 0x1_0000);
    for word in types.chain([
        0,
        1,
        8,
        0x2002,
        0x1002,
        0x701a,
        0x10_0000,
        1 << 40,
        u64::MAX,
        u64::MAX - 7,
    ]) {
        for version in versions() {
            ask_everything(
                &Constant(word),
                version,
                [word; Facts::WORDS - 1],
                word & !7 & (u64::MAX >> 1),
            );
        }
    }
}

#[test]
fn nothing_is_readable() {
    for version in versions() {
        ask_everything(&Nothing, version, [8; Facts::WORDS - 1], 0x1000);
    }
}

#[test]
fn an_id_table_skips_its_empty_places() {
    let table = 0x1000;
    // Capacity 4, two items in use.
    let memory = Bytes::words(
        table,
        &[2 << 32 | 4, 2, table + 24, 193, 0xa, 0, 0, 7, 0xb, 0, 0],
    );
    let items: Result<Vec<_>, _> = IdTable::new(&memory, table).expect("a table").collect();
    assert_eq!(items, Ok(vec![(193, 0xa), (7, 0xb)]));
    let facts = [Version::new(3, 1, 2).packed(); Facts::WORDS];
    let ruby = Ruby::new(&memory, Facts::from_words(facts)).expect("3.1");
    assert_eq!(ruby.serial(193 << 4 | 1), 193);
    assert_eq!(ruby.serial(43), 43);
}

#[test]
fn an_st_table_skips_what_is_deleted() {
    let (table, deleted) = (0x1000, u64::MAX);
    let memory = Bytes::words(
        table,
        &[
            0,
            0,
            1,
            0,
            1,
            4,
            table + 56,
            9,
            9,
            9,
            5,
            10,
            11,
            deleted,
            12,
            13,
            6,
            14,
            15,
        ],
    );
    let entries: Result<Vec<_>, _> = StTable::new(&memory, table).expect("a table").collect();
    assert_eq!(entries, Ok(vec![(10, 11), (14, 15)]));
}

#[test]
fn strings_embedded_and_not() {
    let at = 0x1000;
    let text = |version: Version, words: &[u64]| {
        let memory = Bytes::words(at, words);
        let facts = [version.packed(); Facts::WORDS];
        let ruby = Ruby::new(&memory, Facts::from_words(facts)).expect("a known version");
        let mut out = String::new();
        ruby.write_text(ruby.text(at).expect("a String"), 100, &mut out)
            .expect("its bytes");
        out
    };
    let bytes = u64::from_le_bytes(*b"h\xc3\xa9llo\xff!");
    let (old, new) = (Version::new(3, 1, 2), Version::new(3, 3, 8));
    assert_eq!(text(old, &[5 | 6 << 14, 0, bytes, 0]), "héllo");
    assert_eq!(text(old, &[5 | 8 << 14, 0, bytes, 0]), "héllo\u{fffd}!");
    assert_eq!(text(new, &[5, 0, 6, bytes]), "héllo");
    for version in [old, new] {
        assert_eq!(text(version, &[5 | 1 << 13, 0, 6, at + 32, bytes]), "héllo");
    }
}

#[test]
fn long_text_is_cut_between_pieces_not_within_characters() {
    let at = 0x1000;
    let long = "é€𝄞x".repeat(200);
    let memory = Bytes(at, long.clone().into_bytes());
    let facts = [Version::new(3, 4, 5).packed(); Facts::WORDS];
    let ruby = Ruby::new(&memory, Facts::from_words(facts)).expect("3.4");
    let mut out = String::new();
    let text = Text {
        address: at,
        len: long.len() as u64,
    };
    ruby.write_text(text, u64::MAX, &mut out)
        .expect("its bytes");
    assert_eq!(out, long);
    let mut buffer = [0; 10];
    let copied = ruby.copy(text, &mut buffer).expect("its bytes");
    assert!(copied.truncated && copied.len == 10 && buffer == long.as_bytes()[..10]);
}

#[test]
fn a_name_that_is_none_is_refused_by_name() {
    let facts = [Version::new(3, 3, 8).packed(); Facts::WORDS];
    let ruby = Ruby::new(&Nothing, Facts::from_words(facts)).expect("3.3");
    for name in ["", "#", "A#", "#m", ".", "A.", "A::B"] {
        let why = ruby.function(name).expect_err("no name of a method");
        assert_eq!(
            why.to_string(),
            "a method is named as Class#method or Module.method"
        );
    }
}

/// Words at addresses; what is not among them reads as 0.
struct Words(BTreeMap<u64, u64>);

impl Memory for Words {
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Fault> {
        for (offset, byte) in into.iter_mut().enumerate() {
            let at = at + offset as u64;
            let word = self.0.get(&(at & !7)).copied().unwrap_or(0);
            *byte = word.to_le_bytes()[(at % 8) as usize];
        }
        Ok(())
    }
}

/// From 3.3 on, an idle native thread may point to the `rb_thread_t` of a thread that has ended: freed, overwritten, or
/// made another's. No line is read through it.
#[test]
fn a_thread_that_is_gone_has_no_line() {
    const VM: u64 = 0x10_0000;
    const THREAD: u64 = 0x20_0000;
    const CONTEXT: u64 = 0x30_0000;
    const FRAME: u64 = 0x40_0000;
    const ISEQ: u64 = 0x50_0000;
    let own = OwnThread {
        pointer: 0x1000,
        state: 0x20,
    };
    for layout in Layout::all() {
        let (major, minor) = layout.version;
        let mut facts = [0; FACTS];
        // Of 3.2 the first ones are refused.
        facts[0] = Version::new(major, minor, 9).packed();
        facts[4] = VM;
        let sound = BTreeMap::from([
            (own.pointer + own.state, THREAD),
            (THREAD + layout.thread_vm, VM),
            (THREAD + layout.thread_ec, CONTEXT),
            (CONTEXT + layout.ec_thread, THREAD),
            // The stack: its address, its words, its innermost frame.
            (CONTEXT, FRAME),
            (CONTEXT + 8, 512),
            (CONTEXT + 16, FRAME),
            // The frame: pc, iseq, ep.
            (FRAME, 0x77),
            (FRAME + 16, ISEQ),
            (FRAME + 32, FRAME + 512),
        ]);
        let nearest = |words: &BTreeMap<u64, u64>| {
            let memory = Words(words.clone());
            let reader = Reader::open(Language::Ruby, &memory, &facts).expect("a known version");
            let mut outward = 0;
            reader.outward(own, |_, _| {
                outward += 1;
                outward < 100
            });
            (reader.nearest(own), outward)
        };
        let (point, _) = nearest(&sound);
        let point = point.expect("a line");
        assert_eq!((point.code, point.point), (ISEQ, 0x77), "{major}.{minor}");
        // As glibc's MALLOC_PERTURB_ fills what is freed; another VM's; another thread's context.
        let perturbed = 0x5a5a_5a5a_5a5a_5a5a;
        for (at, word) in [
            (own.pointer + own.state, 0),
            (THREAD + layout.thread_vm, perturbed),
            (THREAD + layout.thread_vm, VM + 8),
            (THREAD + layout.thread_ec, perturbed),
            (CONTEXT + layout.ec_thread, THREAD + 0x1000),
        ] {
            let mut stale = sound.clone();
            stale.insert(at, word);
            assert_eq!(nearest(&stale), (None, 0), "{major}.{minor}: {at:#x}");
        }
    }
}

/// A release of the future and a preview of one that is known are refused in a line that says which it is.
#[test]
fn a_ruby_without_a_table_is_refused_by_name() {
    let says = |version| Layout::of(version).expect_err("no table").to_string();
    assert_eq!(
        says(Version::new(4, 1, 0)),
        "Ruby 4.1.0 is newer than the newest Ruby known here (4.0)"
    );
    assert_eq!(
        says(Version::new(3, 5, 0)),
        "Ruby 3.5.0 is a preview of a later Ruby; releases are known here, up to 4.0"
    );
}
