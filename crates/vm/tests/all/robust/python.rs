//! The reader of Python.

use proptest::prelude::*;
use std::ops::ControlFlow;
use vm::Memory;
use vm::python::{
    Beside, Convention, Facts, Kind, Layout, Limits, Point, Python, Sort, Text, Version,
};

use super::memory::{Bytes, Constant, Maze, Nothing, Short};

/// Flags of types, states of strings, and small sizes.
const CODES: [u64; 8] = [
    1 << 24,
    1 << 25,
    1 << 26,
    1 << 28,
    1 << 29,
    1 << 31 | 1 << 9,
    0xe4,
    0x0002_0303,
];

/// The cookie of `_Py_DebugOffsets`, and offsets as 3.13 and 3.14 would tell them, then the rest.
struct Telling<'a> {
    runtime: u64,
    version: Version,
    /// 1 for a build without the GIL.
    free_threaded: u64,
    rest: &'a dyn Memory,
}

impl Memory for Telling<'_> {
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), vm::Fault> {
        // The whole structure is asked for at once.
        if at == self.runtime && into.len() > 8 {
            for (number, word) in into.chunks_exact_mut(8).enumerate() {
                let at = at.wrapping_add(number as u64 * 8);
                word.copy_from_slice(&self.u64(at)?.to_le_bytes());
            }
            return Ok(());
        }
        self.rest.read(at, into)
    }

    fn u64(&self, at: u64) -> Result<u64, vm::Fault> {
        match at.wrapping_sub(self.runtime) {
            0 => Ok(u64::from_le_bytes(*b"xdebugpy")),
            8 => Ok(self.version.packed()),
            16 => Ok(self.free_threaded),
            offset @ 24..888 => Ok(offset / 8 % 16 * 8),
            _ => self.rest.u64(at),
        }
    }
}

fn ask_everything(memory: &dyn Memory, version: Version, words: [u64; Facts::WORDS - 2], at: u64) {
    for free_threaded in [0, 1] {
        ask_everything_of(memory, version, free_threaded, words, at);
    }
}

fn ask_everything_of(
    memory: &dyn Memory,
    version: Version,
    free_threaded: u64,
    words: [u64; Facts::WORDS - 2],
    at: u64,
) {
    // The mark of a free-threaded build is beside the version.
    let mut facts = [version.packed() | free_threaded << 32; Facts::WORDS];
    // The last word says that there is no table.
    facts[1..Facts::WORDS - 1].copy_from_slice(&words);
    facts[Facts::WORDS - 1] = 0;
    // One type for all memories: the readers are compiled once.
    let told: &dyn Memory = &Telling {
        runtime: words[0],
        version,
        free_threaded,
        rest: memory,
    };
    let (told, memory) = (&told, &memory);
    let python = Python::new(told, Facts::from_words(facts)).expect("a known version");
    ask(&python, at);
    let _ = Python::new(memory, Facts::from_words(facts)).map(|python| ask(&python, at));
    let _ = Facts::find(told, &|name| {
        Some(if name == "_PyRuntime" { words[0] } else { at })
    });
    let _ = Facts::for_frames(told, &|name| {
        Some(if name == "_PyRuntime" { words[0] } else { at })
    });
    let _ = Facts::find(memory, &|_| Some(at));
    let _ = Facts::by_debug_offsets(told, &|name| {
        Some(if name == "_PyRuntime" { words[0] } else { at })
    });
}

fn ask<M: Memory>(python: &Python<'_, M>, at: u64) {
    let out = &mut Short(1 << 12);
    let limits = Limits::default();
    let _ = python.point(at);
    let _ = python.each_held(at, &mut |_| ());
    let _ = python.parked_on(at);
    let _ = python.each_thread_name(&mut |_, _| ());
    for frame in python.frames(at).take(100).flatten() {
        let _ = python.line(frame.point);
        let _ = python.file(frame.point.code);
    }
    for lasti in [-1, 0, 2, 1 << 20, i32::MAX] {
        let _ = python.line(Point { code: at, lasti });
    }
    for text in [python.file(at), python.function_name(at), python.text(at)]
        .into_iter()
        .flatten()
    {
        let _ = python.write_text(text, 5000, out);
        let _ = python.copy(text, &mut [0; 100]);
    }
    for width in [1, 2, 4] {
        let text = Text {
            address: at,
            len: u64::MAX,
            width,
        };
        let _ = python.copy(text, &mut [0; 100]);
    }
    let _ = python.first_line(at);
    python.all_threads().take(50).for_each(drop);
    let _ = python.thread_state(at);
    let _ = python.is_thread(at, at);
    let _ = python.write_class_name(at, out);
    let _ = python.write_object(at, &limits, out);
    for convention in [
        Convention::Tuple,
        Convention::TupleKeywords,
        Convention::Fast,
        Convention::FastKeywords,
        Convention::Method,
        Convention::None,
        Convention::One,
        Convention::Slot,
    ] {
        let _ = python.write_arguments(convention, [at; 5], &limits, out);
    }
    if let Ok(entries) = python.entries(at) {
        entries.take(1000).for_each(drop);
    }
    ask_of_heap(python, at);
    let _ = python.function_at(at);
    let _ = python.function("a.b");
    let _ = python.greenlet(at, at);
    if let Ok(Some(generator)) = python.generator(at) {
        python.generator_frame(&generator).take(100).for_each(drop);
    }
    let _ = python.each_module(&mut |_, _| ControlFlow::Continue(()));
    let _ = python.each_attribute(at, &mut |_, _| ControlFlow::Continue(()));
    let _ = python.each_greenlet(&mut |greenlet| {
        python.greenlet_frames(&greenlet).take(100).for_each(drop);
        Ok(())
    });
}

fn ask_of_heap<M: Memory>(python: &Python<'_, M>, at: u64) {
    let _ = python.is_collecting();
    let _ = python.is_tracked(at);
    let _ = python.reference_count(at);
    let _ = python.frame_holds(at, at, &mut |_| ());
    let mut roots = 0;
    let _ = python.each_root(&mut |_| {
        roots += 1;
        roots < 1000
    });
    let _ = python.each_member(at, &mut |_, _| ());
    if let Ok(Some((closure, code))) = python.closure(at) {
        let _ = python.each_element(closure, &mut |_| ());
        let _ = python.each_variable(code, &mut |_, _| ());
    }
    let Ok(kind) = python.kind(at) else {
        return;
    };
    for sort in SORTS {
        let mut kind: Kind = kind;
        kind.sort = sort;
        let _ = python.references(at, &kind, 1000, &mut |_, _| ());
        let _ = python.each_untold(at, &kind, &mut |_| ());
        let _ = python.size(at, &kind);
    }
    for beside in BESIDE {
        let mut kind: Kind = kind;
        kind.beside = beside;
        let _ = python.bytes_beside(at, &kind);
        let _ = python.mapping_of(at, &kind);
        let _ = python.parts(at, &kind, &mut |_, _| ());
        let _ = python.objects_of_array(at, &kind, 1000, &mut |_| ());
    }
    let _ = python.function_of_method(at);
    let mut callbacks = 0;
    let _ = python.each_at_exit(at, &mut |_| callbacks += 1);
    let _ = python.visits_keys(at);
    let _ = python.is_collected(at, at);
    let _ = python.module_name(at);
    let _ = python.own_dict(at, at);
}

const BESIDE: [Beside; 10] = [
    Beside::Nothing,
    Beside::Blocks,
    Beside::Items,
    Beside::Nodes,
    Beside::Elements,
    Beside::Children,
    Beside::Bytes,
    Beside::Characters,
    Beside::Block,
    Beside::Mapping,
];

const SORTS: [Sort; 15] = [
    Sort::Int,
    Sort::Str,
    Sort::Bytes,
    Sort::ByteArray,
    Sort::List,
    Sort::Tuple,
    Sort::Dict,
    Sort::Set,
    Sort::Type,
    Sort::Module,
    Sort::Function,
    Sort::Code,
    Sort::Cell,
    Sort::Frame,
    Sort::Generator,
];

fn versions() -> impl Iterator<Item = Version> {
    Layout::all()
        .iter()
        .map(|layout| Version::new(layout.version.0, layout.version.1, 9))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn mazes(seed: u64, faults in prop_oneof![Just(0_u64), 2..200_u64], words: [u64; Facts::WORDS - 2], slot in 0..64_u64) {
        for version in versions() {
            let maze = Maze { seed, faults, codes: CODES };
            ask_everything(&maze, version, words, 0x10_0000 + slot * 8);
            ask_everything(&maze, version, [0x10_0000 + slot * 8; Facts::WORDS - 2], 0x10_0000);
        }
    }

    #[test]
    fn any_address(seed: u64, at: u64, words: [u64; Facts::WORDS - 2]) {
        for version in versions() {
            ask_everything(&Maze { seed, faults: 0, codes: CODES }, version, words, at & !7);
        }
    }
}

#[test]
fn constants() {
    for word in CODES
        .into_iter()
        .chain([0, 1, 8, 0x10_0000, 1 << 40, u64::MAX, u64::MAX - 7])
    {
        for version in versions() {
            ask_everything(
                &Constant(word),
                version,
                [word; Facts::WORDS - 2],
                word & !7,
            );
        }
    }
}

#[test]
fn nothing_is_readable() {
    for version in versions() {
        ask_everything(&Nothing, version, [8; Facts::WORDS - 2], 0x1000);
    }
}

#[test]
fn an_older_layout_is_refused_by_name() {
    let none = |name: &str| {
        (name != "Py_Version" && name != "Py_NewRef" && name != "PyFrame_GetCode").then_some(8)
    };
    let why = Facts::find(&Constant(0), &none).expect_err("too old");
    assert_eq!(
        why.to_string(),
        "this Python is older than the oldest Python known here (3.9)"
    );
    let memory = Constant(0x0310_00f0_0310_00f0);
    let why = Facts::find(&memory, &|_| Some(8)).expect_err("too new");
    assert_eq!(
        why.to_string(),
        "Python 3.16.0 is newer than the newest Python known here (3.15)"
    );
}

#[test]
fn a_free_threaded_python_is_refused_by_name() {
    let runtime = 0x1000;
    let mut words = [0x030d_05f0; 128];
    (words[0], words[2]) = (u64::from_le_bytes(*b"xdebugpy"), 1);
    // The others are offsets.
    words[4..].fill(8);
    let memory = Bytes::words(runtime, &words);
    let why = Facts::find(&memory, &|name| {
        Some(if name == "Py_Version" {
            runtime + 24
        } else {
            runtime
        })
    })
    .expect_err("refused");
    assert_eq!(
        why.to_string(),
        "Python 3.13.5 is a free-threaded build (python3.13t), of which only stacks and script lines are read (lancet stack, profile, calls)"
    );
}
