//! What the reader says is what the readers say that look at everything, in each version.

use super::*;
use crate::Fault;
use crate::python::{Current, Facts, Layout, Version};
extern crate std;
use std::collections::BTreeMap;
use std::vec::Vec;

const ID: u64 = 0x7f00_0000_0740;
const OTHER_ID: u64 = 0x7f00_1000_0740;
const RUNTIME: u64 = 0x50_0000;
const MAIN: u64 = 0x60_0000;
const STATE: u64 = 0x70_0000;
const OTHER_STATE: u64 = 0x71_0000;
/// The frames of a state, and its `_PyCFrame`.
const CFRAME: u64 = 0x80_0000;
const FRAMES: [u64; 2] = [0x81_0000, 0x82_0000];
const CODES: [u64; 2] = [0x90_0000, 0x91_0000];
/// Where a thread has what leads to its state to 3.11, and the block of values for the keys below 32.
const SPECIFIC: u64 = 0x510;
const FIRST: u64 = 0x310;
/// `_Py_tss_tstate`, at a distance that wraps.
const VARIABLE: u64 = (-0x58i64).cast_unsigned();

/// Aligned words by their addresses; all others are zero below the end of the address space.
#[derive(Clone, Default)]
struct Words(BTreeMap<u64, u64>);

impl Words {
    fn set(&mut self, at: u64, word: u64) {
        self.0.insert(at, word);
    }

    fn set_bytes(&mut self, at: u64, bytes: &[u8]) {
        for (byte, at) in bytes.iter().zip(at..) {
            let shift = (at & 7) * 8;
            let word = self.0.entry(at & !7).or_default();
            *word = *word & !(0xff << shift) | u64::from(*byte) << shift;
        }
    }
}

impl Memory for Words {
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Fault> {
        for (byte, at) in into.iter_mut().zip(at..) {
            let word = self.0.get(&(at & !7)).copied().unwrap_or(0);
            *byte = word.to_le_bytes()[at as usize & 7];
        }
        Ok(())
    }
}

/// A process with this layout in which the running thread may have the lock, and the facts about it.
fn process(layout: &Layout) -> (Words, Facts, bool) {
    let version = Version::new(layout.version.0, layout.version.1, 0);
    let is_shared = version < CURRENT_IS_THREADS;
    let mut words = [0; Facts::WORDS];
    words[..5].copy_from_slice(&[
        version.packed(),
        RUNTIME,
        SPECIFIC,
        1,
        match (is_shared, layout.runtime.tss) {
            (true, Some(tss)) => RUNTIME + tss - 16,
            _ => VARIABLE,
        },
    ]);
    let mut memory = Words::default();
    memory.set(RUNTIME + layout.runtime.interpreters + 8, MAIN);
    memory.set(ID + SPECIFIC, ID + FIRST);
    // The thread has the lock.
    memory.set(STATE + layout.thread.id, ID);
    memory.set(STATE + layout.thread.interpreter, MAIN);
    if let (true, Some(tss)) = (is_shared, layout.runtime.tss) {
        memory.set(RUNTIME + tss - 16, STATE);
        memory.set(RUNTIME + tss, 5 << 32 | 1);
        memory.set(ID + FIRST + 5 * KEY_DATA + 8, STATE);
    } else {
        memory.set(ID.wrapping_add(VARIABLE), STATE);
    }
    (memory, Facts::from_words(words), is_shared)
}

fn python<'a>(memory: &'a Words, layout: &Layout, facts: Facts) -> Python<'a, Words> {
    Python {
        memory,
        layout: layout.clone(),
        facts,
    }
}

/// Each with each: the words by which it is seen that a thread has the lock.
fn cases() -> impl Iterator<Item = [u64; 5]> {
    let states = [0, STATE, OTHER_STATE];
    let keys = [0, 1, 5 << 32 | 1, 31 << 32 | 1, 32 << 32 | 1, 40 << 32];
    states.into_iter().flat_map(move |current| {
        states.into_iter().flat_map(move |own| {
            keys.into_iter().flat_map(move |key| {
                [ID, OTHER_ID].into_iter().flat_map(move |thread| {
                    let mains = [MAIN, MAIN + 64].into_iter();
                    mains.map(move |main| [current, own, key, thread, main])
                })
            })
        })
    })
}

#[test]
fn who_has_the_lock_is_who_is_said_to_have_it() {
    let mut told = 0;
    for layout in Layout::all() {
        let (begun, facts, is_shared) = process(layout);
        for [current, own, key, thread, interpreter] in cases() {
            let mut memory = begun.clone();
            memory.set(STATE + layout.thread.id, thread);
            memory.set(STATE + layout.thread.interpreter, interpreter);
            if is_shared {
                let tss = layout.runtime.tss.expect("to 3.14");
                memory.set(RUNTIME + tss - 16, current);
                memory.set(RUNTIME + tss, key);
                // The second block is elsewhere.
                memory.set(ID + SPECIFIC + 8, 0x40_0000);
                let (block, index) = (key >> 32 >> 5, key >> 32 & 31);
                let values = [ID + FIRST, 0x40_0000][block as usize];
                memory.set(values + index * KEY_DATA + 8, own);
            } else {
                memory.set(ID.wrapping_add(VARIABLE), current);
            }
            let python = python(&memory, layout, facts);
            let Some(running) = python.running(ID) else {
                assert!(is_shared && (key as u32 == 0 || key >> 32 >= KEYS_PER_BLOCK));
                continue;
            };
            let said = python.current_state(ID, current, |_| false);
            let said = said.expect("all can be read").filter(|_| {
                is_shared || python.interpreter_of(current) == python.main_interpreter()
            });
            let found = running.both(&memory, ID).map(|(state, _)| state);
            let wanted = said.map(|Current { state, is_own }| {
                assert!(is_own);
                state
            });
            assert_eq!(found, wanted, "{:?} {current:x} {key:x}", layout.version);
            told += u32::from(found.is_some());
            // In the child of a fork the key is made anew.
            if let (true, Some(tss)) = (is_shared, layout.runtime.tss) {
                memory.set(RUNTIME + tss, 7 << 32 | 1);
                assert_eq!(running.both(&memory, ID), None);
            }
        }
    }
    assert!(told > 20, "{told}");
}

/// A state with two frames: the inner one at `lasti`, lying in what `owner` says; the first traceable instruction is the fourth.
fn frames(layout: &Layout, memory: &mut Words, lasti: i32, owner: u8) {
    let frame = &layout.frame;
    let leading = match frame.kind {
        Kind::Marked { current, .. }
        | Kind::Shims {
            current: Some(current),
            ..
        } => {
            memory.set(STATE + layout.thread.frame, CFRAME);
            CFRAME + current
        }
        _ => STATE + layout.thread.frame,
    };
    memory.set(leading, FRAMES[0]);
    memory.set(FRAMES[0] + frame.previous, FRAMES[1]);
    for (number, (at, code)) in FRAMES.into_iter().zip(CODES).enumerate() {
        // A tag is set in some references.
        let tag = u64::from(layout.version >= (3, 14));
        memory.set(at + frame.code, code | tag);
        let lasti = if number == 0 { lasti } else { 40 };
        match frame.kind {
            Kind::Objects(unit) => {
                let counted = (lasti / unit).to_le_bytes();
                memory.set_bytes(at + frame.instruction, &counted);
            }
            _ => {
                let begin = code + layout.code.instructions;
                memory.set_bytes(begin - 16, &4i32.to_le_bytes());
                let instruction = begin.wrapping_add_signed(lasti.into());
                memory.set(at + frame.instruction, instruction);
            }
        }
    }
    match frame.kind {
        Kind::Objects(_) => {}
        Kind::Marked { entry, .. } => memory.set_bytes(FRAMES[0] + entry, &[0, owner]),
        Kind::Shims { owner: at, .. } => memory.set_bytes(FRAMES[0] + at, &[owner]),
    }
}

#[test]
fn a_traceable_point_is_that_of_the_innermost_frame() {
    for layout in Layout::all() {
        let (begun, facts, _) = process(layout);
        let running = python(&begun, layout, facts).running(ID);
        let running = running.expect("it is made");
        assert_eq!(running.both(&begun, ID), Some((STATE, None)), "no frame");
        let mut kinds = Vec::new();
        for (lasti, owner) in [-2, 0, 6, 8, 20]
            .into_iter()
            .flat_map(|lasti| [(lasti, 0), (lasti, 1)])
        {
            let mut memory = begun.clone();
            frames(layout, &mut memory, lasti, owner);
            let python = python(&memory, layout, facts);
            let reached = python.reached(STATE).expect("readable").expect("a frame");
            let point = reached.point;
            let found = running
                .both(&memory, ID)
                .and_then(|(_, innermost)| innermost);
            let found = found.expect("a frame");
            let is_traceable = reached.is_traceable;
            let is_inner = point.code == CODES[0];
            if is_inner && is_traceable {
                assert_eq!(found, (point.code, u64::from(point.lasti as u32)));
            } else if !is_inner {
                // The frame is hidden, so its point is one that is not traceable.
                assert_eq!(found.0, CODES[0]);
                let lasti = found.1 as i32;
                let code = found.0;
                assert!(i64::from(lasti) < python.first_traceable(code).expect("readable"));
            }
            kinds.push((is_inner, is_traceable));
        }
        kinds.sort_unstable();
        kinds.dedup();
        let all = match layout.frame.kind {
            Kind::Objects(_) => [(true, true)].as_slice(),
            // Hidden, of a generator before its first traceable instruction, and all others.
            _ => &[(false, true), (true, false), (true, true)],
        };
        assert_eq!(kinds, all, "{:?}", layout.version);
    }
}
