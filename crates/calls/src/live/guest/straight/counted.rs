//! A fixed image of a ring through the reader of rings into a recording: all that `--record` does with a call but waiting for
//! it. `benches/counted.py` counts its instructions; here it is seen that every call arrives.
//!
//! `LANCET_COUNTED=CALLS` says how many, and `LANCET_COUNTED_FILE` where the recording goes.

use super::*;
use crate::event::{At, CallEdge, Event, EventKind, Module, Opened};
use crate::recorder::Destination;
use crate::signatures::Signatures;
use hooks::rings::Rings;
use process::functions::Function;
use process::memory::GuestMemory;
use recording::{Merge, Wanted};
use std::cell::RefCell;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::mem::offset_of;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use wire::calls::{self, Calls, kind, record};

const HOOK: u32 = 7;
const CALLER: u64 = 0x5555_1000;
/// Words of the ring, and calls that are in it at once.
const WORDS: usize = 1 << 17;
const AT_ONCE: usize = 4096;
/// Words of a call of two integers and its return.
const EACH: usize = 7;

/// The file of the recording; there is room for everything.
struct Out(BufWriter<File>);

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Destination for Out {
    fn has_room(&mut self) -> bool {
        true
    }

    fn dropped(&mut self) {
        panic!("there is room");
    }
}

/// What an agent in this process would have: [`Calls`], the header of one ring, its records.
struct Image(Vec<u64>);

impl Image {
    const HEADER: usize = size_of::<Calls>().div_ceil(8);
    const RECORDS: usize = Self::HEADER + wire::PAGE / 8;

    fn new() -> Self {
        let mut words = vec![0; Self::RECORDS + WORDS];
        let at = words.as_ptr() as u64;
        words[offset_of!(Calls, made) / 8] = 1;
        words[offset_of!(Calls, rings) / 8] = at + Self::HEADER as u64 * 8;
        let mut header = |field, word| words[Self::HEADER + field / 8] = word;
        header(
            offset_of!(calls::Ring, records),
            at + Self::RECORDS as u64 * 8,
        );
        header(offset_of!(calls::Ring, size), WORDS as u64 * 8);
        Image(words)
    }

    /// Writes one word of the ring.
    fn word(&mut self, position: u64, word: u64) {
        self.0[Self::RECORDS + position as usize % WORDS] = word;
    }

    /// Writes call number `number` of two integers, with its return behind it, as the agent does; where the next is.
    fn call(&mut self, position: u64, number: u64, ticks: u64) -> u64 {
        let left = WORDS as u64 - position % WORDS as u64;
        if left < EACH as u64 {
            self.word(position, calls::header(left, kind::GAP, position));
            return self.call(position + left, number, ticks);
        }
        let wanted = record::RecordedRegisters {
            integers: 2,
            narrow: true,
            narrow_result: true,
            ..record::RecordedRegisters::default()
        };
        let shape = wanted.shape(true, true);
        let stack = 0x7fff_0000_0010;
        let [time, stack, caller] = record::call(HOOK.into(), 0, ticks, stack, CALLER);
        let header = calls::header(5, kind::ENTRY, position) | shape.entry_bits();
        let arguments = number & 0xffff | 3 << 32;
        for (at, word) in (position..).zip([header, time, stack, caller, arguments]) {
            self.word(at, word);
        }
        let behind = position + 5;
        let header = calls::header(2, kind::RETURNED, behind) | shape.return_bits();
        self.word(behind, header);
        self.word(behind + 1, (40 + number % 7) | (number & 0xff) << 32);
        behind + 2
    }
}

/// The recording, in which calls of the one function there is are known.
fn recording(path: &PathBuf) -> (Recording, Straight) {
    let signatures = Signatures::read(&[], false).expect("no files");
    let out = Out(BufWriter::new(File::create(path).expect("a file")));
    let store = Store::create(path, Box::new(out), Vec::new(), Rc::new(signatures));
    let mut store = store.expect("a recording");
    let at = At {
        process: pid(),
        ..At::default()
    };
    let kind = EventKind::Opened(Opened::default());
    store.take(&Event { at, kind }).expect("a guest");
    let function = Function {
        name: "counted".into(),
        module: "libcounted.so".into(),
        ..Function::default()
    };
    let edge = Arc::new(CallEdge {
        names: [function.name.clone()].into(),
        module: Arc::new(Module {
            path: function.module.to_string(),
            name: function.module.clone(),
            ..Module::default()
        }),
        function: Arc::new(function),
        ..CallEdge::default()
    });
    let site = store.site(&edge, CALLER, [None; 2]).expect("a site");
    let recording = Rc::new(RefCell::new(store));
    let mut straight = Straight::new(recording.clone());
    straight.learn((HOOK, CALLER, 0, 0), Some(site));
    (recording, straight)
}

fn pid() -> i32 {
    std::process::id() as i32
}

#[test]
fn a_ring_becomes_a_recording_call_by_call() {
    let asked = |name: &str| std::env::var(name).ok();
    let count = asked("LANCET_COUNTED").map_or(20_000, |text| text.parse().expect("a number"));
    let temporary = std::env::temp_dir().join(format!("lancet-counted-{}", pid()));
    let path = asked("LANCET_COUNTED_FILE").map_or(temporary.clone(), PathBuf::from);
    let memory = Arc::new(GuestMemory::open(pid()).expect("our own memory"));
    let mut image = Image::new();
    let address = image.0.as_ptr() as u64;
    let mut rings = Rings::open(memory, None, address, 1).expect("an image");
    let (recording, mut straight) = recording(&path);
    let (mut known, vforks, clock) = (Known::default(), Vforks::new(false), Clock::start());
    let mut budget = Budget::new(pid(), 100);
    let (began, mut position, mut number) = (clock::now(), 0, 0);
    while number < count {
        for _ in 0..AT_ONCE.min(count - number) {
            position = image.call(position, number as u64, began + number as u64 * 100);
            number += 1;
        }
        let reserved = offset_of!(calls::Ring, written.reserved) / 8;
        image.0[Image::HEADER + reserved] = std::hint::black_box(position);
        let mut store = recording.borrow_mut();
        let mut taking = Taking::new(&mut straight, &mut store, &mut budget, || {
            Look::new(pid(), &mut known, &vforks, &clock)
        });
        let any = rings.for_each_of_ring(u64::MAX, &mut taking);
        assert!(matches!((any, taking.written), (Ok(true), Ok(()))));
    }
    let end = crate::consumer::SourceEnd::default();
    recording.borrow_mut().finish(&end).expect("a recording");
    assert_eq!(straight.aside().count(), 0, "all of them are known");
    if asked("LANCET_COUNTED").is_none() {
        all_are_told(&path, count as u64);
        std::fs::remove_file(&temporary).expect("it was there");
    }
}

/// The calls of a recording are those that were in the ring, in their order.
fn all_are_told(path: &PathBuf, count: u64) {
    let bytes = std::fs::read(path).expect("a recording");
    let file = recording::Recording::open(bytes).expect("a recording");
    let mut merge = Merge::new(Wanted::ALL);
    let mut told = 0;
    while let Some(event) = merge.next(&file).expect("a recording") {
        let number = told / 2;
        told += 1;
        match event.kind {
            recording::EventKind::Call(call) => {
                assert_eq!(call.registers.gp, [number & 0xffff, 3, 0, 0, 0, 0]);
            }
            recording::EventKind::Return(back) => {
                assert_eq!(back.returned.rax, number & 0xff);
            }
            other => panic!("nothing else was written: {other:?}"),
        }
    }
    assert_eq!(told, count * 2);
}
