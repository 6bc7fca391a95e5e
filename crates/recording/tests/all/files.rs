//! What is written is read, each stream in its order; what is cut or damaged is said to be so, and nothing is made up.

use proptest::collection::vec;
use proptest::prelude::*;
use prototypes::capture::{Registers, Returned};
use prototypes::show::Captures;
use recording::{
    CallEdge, CallRecord, Caller, Copies, Definition, Error, Event, EventKind, Function, Guest,
    Head, Line, Losses, Merge, Module, Place, Recording, ReturnRecord, ShortRecord, Signal, Site,
    Wanted, Writer,
};

const GUESTS: u32 = 2;
const EDGES: u32 = 5;
const CALLERS: u32 = 200;
const STREAMS: u32 = 3;

fn definitions() -> Vec<Definition> {
    let mut all = vec![Definition::Head(Head {
        lancet: "1".into(),
        command: vec!["calls".into(), String::new()],
        began: u64::MAX,
    })];
    for number in 0..GUESTS {
        all.push(Definition::Guest(Guest {
            pid: 7 + number as i32,
            command: vec!["ruby".into(), "ünï.rb".into()],
            vm: "Ruby 3.1".into(),
            since: u64::from(number),
        }));
        all.push(Definition::Module(Module {
            path: "/lib/libc.so.6".into(),
            name: "libc.so.6".into(),
            main: number == 1,
            bias: 0x5555_5555_4000,
        }));
    }
    for number in 0..3 {
        all.push(Definition::Function(Function {
            module: number % GUESTS,
            names: vec![format!("f{number}"); number as usize + 1],
            address: u64::MAX - 5,
            size: 3,
            prototype: "int f0(string);".into(),
        }));
    }
    for number in 0..EDGES {
        all.push(Definition::CallEdge(CallEdge {
            function: number % 3,
            from: number.checked_sub(3),
            slots: u64::MAX,
            inside: "swapcontext".into(),
        }));
    }
    all.push(Definition::Line(Line {
        path: "a.rb".into(),
        line: u32::MAX,
        name: "show".into(),
    }));
    for number in 0..CALLERS {
        all.push(Definition::Caller(Caller {
            address: u64::MAX - u64::from(number),
            path: if number == 0 { "" } else { "/lib/libruby.so" }.into(),
            name: if number < 2 { "" } else { "rb_yield" }.into(),
            offset: number.into(),
            in_file: u64::from(number) << 40,
        }));
    }
    all
}

fn begin() -> Writer<Vec<u8>> {
    let mut writer = Writer::new(Vec::new(), Head::default()).unwrap();
    for definition in definitions() {
        writer.define(definition).unwrap();
    }
    for stream in 0..STREAMS {
        assert_eq!(writer.stream(stream % GUESTS, stream), stream);
    }
    writer
}

/// An event to be written.
#[derive(Clone, Debug)]
struct Parts {
    what: u8,
    stream: u32,
    place: (u32, u64),
    frame: u64,
    /// Since the event before.
    later: u64,
    words: [u64; 14],
    site: (u32, u64, u32, u32),
    copies: Vec<(usize, u64, Vec<u8>)>,
    callers: Vec<u32>,
    x87: bool,
    flush: bool,
}

fn word() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        Just(u64::MAX),
        0..100_u64,
        any::<u64>(),
        any::<f64>().prop_map(f64::to_bits)
    ]
}

fn parts() -> impl Strategy<Value = Parts> {
    let of_item = (
        0..12_u8,
        0..STREAMS,
        (0..3_u32, 0..3_u64),
        0..4_u64,
        0..900_u64,
    );
    let of_call = (
        proptest::array::uniform14(word()),
        (1..=EDGES, word(), 0..2_u32, 0..2_u32),
        vec((0..8_usize, word(), vec(any::<u8>(), 1..20)), 0..3),
        vec(0..CALLERS, 0..3),
    );
    (of_item, of_call, any::<bool>(), 0..9_u8).prop_map(|(item, call, x87, flush)| {
        let (what, stream, place, frame, later) = item;
        let (words, site, copies, callers) = call;
        Parts {
            what,
            stream,
            place,
            frame,
            later,
            words,
            site,
            copies,
            callers,
            x87,
            flush: flush == 0,
        }
    })
}

fn captures(parts: &Parts) -> Captures {
    let (mut captures, mut behind) = (Captures::new(), 0_u64);
    for (of, at, bytes) in &parts.copies {
        let at = match of {
            0..6 => parts.words[*of],
            6 => behind,
            _ => *at,
        };
        behind = at.wrapping_add(bytes.len() as u64);
        captures.add(at, bytes);
    }
    captures
}

/// Copies as the words of a record.
fn words_of(captures: &Captures) -> Vec<u64> {
    let mut words = Vec::new();
    for (at, bytes) in captures.iter() {
        words.extend([at, bytes.len() as u64]);
        for piece in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..piece.len()].copy_from_slice(piece);
            words.push(u64::from_le_bytes(word));
        }
    }
    words
}

fn place(parts: &Parts) -> Place {
    Place {
        guest: parts.stream % GUESTS,
        tid: parts.place.0,
        stack: parts.place.1,
    }
}

/// Writes an event; as text what is to be read of it: its stream, its time, and what it was.
fn write(writer: &mut Writer<Vec<u8>>, parts: &Parts, time: u64) -> (u32, String) {
    let place = place(parts);
    let (captures, words) = (captures(parts), &parts.words);
    let raw = words_of(&captures);
    let copies = if parts.x87 {
        Copies::Words(&raw)
    } else {
        Copies::Captures(&captures)
    };
    let (edge, caller, line, library) = parts.site;
    let said = match parts.what {
        0..5 => {
            let registers = Registers {
                gp: words[..6].try_into().unwrap(),
                sse: words[6..].try_into().unwrap(),
                stack: parts.frame,
            };
            let call = CallRecord {
                site: Site {
                    edge,
                    caller,
                    line,
                    library,
                },
                place,
                frame: parts.frame,
                time,
                registers: &registers,
                copies,
                callers: &parts.callers,
            };
            writer.call(parts.stream, &call).unwrap();
            format!(
                "{place:?} {} {:?}",
                parts.frame,
                EventKind::Call(recording::Call {
                    edge: edge - 1,
                    caller,
                    line: line.checked_sub(1),
                    library: library.checked_sub(1),
                    registers,
                    captures,
                    callers: parts.callers.clone(),
                })
            )
        }
        5..8 => {
            let returned = Returned {
                rax: words[0],
                rdx: words[1],
                sse: words[2..4].try_into().unwrap(),
                x87: if parts.x87 {
                    [[1; 10], [2; 10]]
                } else {
                    Default::default()
                },
            };
            let back = ReturnRecord {
                place,
                frame: parts.frame,
                time,
                returned: &returned,
                copies,
            };
            writer.back(parts.stream, &back).unwrap();
            let back = recording::Return { returned, captures };
            format!(
                "{place:?} {} {:?}",
                parts.frame,
                EventKind::<recording::Call>::Return(back)
            )
        }
        _ => {
            let kind: EventKind = EventKind::Signal(Signal {
                number: words[0] as i32,
                information: words[0].to_le_bytes()[..(words[0] % 9) as usize].to_vec(),
                instruction: None,
            });
            writer.other(parts.stream, place, time, &kind).unwrap();
            format!("{place:?} 0 {kind:?}")
        }
    };
    (parts.stream, format!("{time} {said}"))
}

/// Writes a call with its return, which takes as long as it came after the event before; as text both that are to be read.
fn write_short(writer: &mut Writer<Vec<u8>>, parts: &Parts, time: u64) -> [(u32, String); 2] {
    let (edge, caller, line, library) = parts.site;
    let (gp, frame) = (parts.words[..6].try_into().unwrap(), parts.frame);
    let [rax, rdx] = parts.words[6..8].try_into().unwrap();
    let place = place(parts);
    let short = ShortRecord {
        site: Site {
            edge,
            caller,
            line,
            library,
        },
        place,
        frame,
        times: [time, time + parts.later],
        arguments: gp,
        results: [rax, rdx],
    };
    writer.short(parts.stream, &short).unwrap();
    let mut call = recording::Call {
        edge: edge - 1,
        caller,
        line: line.checked_sub(1),
        library: library.checked_sub(1),
        ..recording::Call::default()
    };
    (call.registers.gp, call.registers.stack) = (gp, frame);
    let mut back = recording::Return::default();
    (back.returned.rax, back.returned.rdx) = (rax, rdx);
    let kinds: [EventKind; 2] = [EventKind::Call(call), EventKind::Return(back)];
    let said = |(time, kind): (u64, &EventKind)| format!("{time} {place:?} {frame} {kind:?}");
    [0, 1].map(|at| (parts.stream, said((short.times[at], &kinds[at]))))
}

fn told(event: &Event) -> (u32, String) {
    let at = &event.at;
    let place = Place {
        guest: at.process,
        tid: at.tid,
        stack: at.stack,
    };
    let text = format!("{} {place:?} {} {:?}", at.nanos(), at.frame, event.kind);
    (at.ring, text)
}

type Told = Vec<(u32, String)>;

fn file(all: &[Parts]) -> (Vec<u8>, Told) {
    let (mut writer, mut said) = (begin(), Vec::new());
    let mut time = 1_700_000_000_000_000_000;
    for parts in all {
        time += parts.later;
        if parts.what < 9 {
            said.push(write(&mut writer, parts, time));
        } else {
            said.extend(write_short(&mut writer, parts, time));
            time += parts.later;
        }
        if parts.flush {
            writer.flush().unwrap();
        }
    }
    writer
        .define(Definition::Losses(Losses {
            guest: 1,
            records: 5,
            without_ring: u64::MAX,
        }))
        .unwrap();
    (writer.finish().unwrap(), said)
}

/// All events of a file in the order of time, and why there are no more.
fn read(file: Vec<u8>) -> (Told, Option<Error>) {
    read_some(file, Wanted::ALL)
}

fn read_some(file: Vec<u8>, wanted: Wanted) -> (Told, Option<Error>) {
    let mut all = Vec::new();
    let mut recording = match Recording::open(file) {
        Ok(recording) => recording,
        Err(error) => return (all, Some(error)),
    };
    let mut merge = Merge::new(wanted);
    loop {
        match merge.next(&recording) {
            Ok(Some(event)) => all.push(told(&event)),
            Ok(None) => return (all, recording.flaw()),
            Err(error) => return (all, Some(error)),
        }
    }
}

fn of_stream(all: &Told, stream: u32) -> Vec<&str> {
    let of = all.iter().filter(|(of, _)| *of == stream);
    of.map(|(_, text)| &**text).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_written_is_read(all in vec(parts(), 0..60)) {
        let (bytes, said) = file(&all);
        let (read, error) = read(bytes);
        prop_assert!(error.is_none(), "{error:?}");
        for stream in 0..STREAMS {
            prop_assert_eq!(of_stream(&read, stream), of_stream(&said, stream));
        }
        let times = read.iter().map(|(_, text)| text.split(' ').next().unwrap().to_owned());
        prop_assert!(times.is_sorted());
    }

    #[test]
    fn of_a_cut_file_the_beginning_is_read(all in vec(parts(), 0..40), cut in any::<prop::sample::Index>()) {
        let (mut bytes, said) = file(&all);
        bytes.truncate(cut.index(bytes.len()));
        let (read, error) = read(bytes);
        prop_assert!(matches!(error, Some(Error::Cut(_) | Error::NotOne)), "{error:?}");
        for stream in 0..STREAMS {
            let (read, said) = (of_stream(&read, stream), of_stream(&said, stream));
            prop_assert!(said.starts_with(&read), "{read:?} {said:?}");
        }
    }

    #[test]
    fn a_damaged_file_is_said_to_be_damaged(all in vec(parts(), 1..40), at in any::<prop::sample::Index>(), flip in 1..=255_u8) {
        let (mut bytes, said) = file(&all);
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        let (read, error) = read(bytes);
        // The head of a segment stands in the index too.
        prop_assert!(error.is_some() || read.len() == said.len());
        for stream in 0..STREAMS {
            let (read, said) = (of_stream(&read, stream), of_stream(&said, stream));
            prop_assert!(said.starts_with(&read), "{read:?} {said:?}");
        }
    }

    /// What the index leaves out is what would be left out anyway.
    #[test]
    fn some_edges_of_some_time_are_read(all in vec(parts(), 0..60), edges in proptest::array::uniform5(any::<bool>()), window in (0..9000_u64, 0..9000_u64)) {
        const BEGAN: u64 = 1_700_000_000_000_000_000;
        let wanted = Wanted {
            edges: edges.to_vec(),
            since: BEGAN + window.0,
            until: BEGAN + window.1,
            ..Wanted::ALL
        };
        let (bytes, _) = file(&all);
        let mut cut = bytes.clone();
        cut.truncate(bytes.len() - 1);
        let by_index = read_some(bytes, wanted.clone());
        prop_assert!(by_index.1.is_none());
        // Without its index everything is looked through.
        prop_assert_eq!(by_index.0, read_some(cut, wanted).0);
    }

    #[test]
    fn no_bytes_break_the_reader(bytes in vec(any::<u8>(), 0..400)) {
        read(bytes.clone());
        let mut begun = b"\x89lancet\n\x05\0\0\0".to_vec();
        begun.extend(bytes);
        read(begun);
    }
}

#[test]
fn definitions_are_read_as_they_were_written() {
    let mut recording = Recording::open(file(&[]).0).unwrap();
    let of = recording.take_definitions();
    let mut all = vec![Definition::Head(of.head)];
    let modules = of.modules.into_iter().map(Definition::Module);
    for (guest, module) in of.guests.into_iter().zip(modules) {
        all.extend([Definition::Guest(guest), module]);
    }
    all.extend(of.functions.into_iter().map(Definition::Function));
    all.extend(of.edges.into_iter().map(Definition::CallEdge));
    all.extend(of.lines.into_iter().map(Definition::Line));
    all.extend(of.callers.into_iter().map(Definition::Caller));
    assert_eq!(all, definitions());
    assert_eq!(of.losses.len(), 1);
}

#[test]
fn refusals_say_what_is_wrong() {
    let refusal = |bytes: &[u8]| read(bytes.to_vec()).1.unwrap().to_string();
    assert_eq!(refusal(b"#!/bin/sh\nls"), "it is no recording of lancet's");
    assert_eq!(refusal(b""), "it is no recording of lancet's");
    assert_eq!(
        refusal(b"\x89lancet\n\x02\0\0\0"),
        "it is of version 2 and this lancet reads version 6: record again, or read it with the lancet that wrote it"
    );
    let (mut bytes, _) = file(&[]);
    bytes.pop();
    assert!(refusal(&bytes).contains("without its end"));
    bytes[20] ^= 1;
    assert_eq!(
        refusal(&bytes),
        "it is damaged at byte 12: what was recorded from there on cannot be read"
    );
}

/// A room of which more is asked than there is: nothing of it is taken.
#[test]
fn lengths_that_lie_take_no_room() {
    let mut bytes = b"\x89lancet\n".to_vec();
    bytes.extend(recording::VERSION.to_le_bytes());
    bytes.extend([0xff; 64]);
    let (_, error) = read(bytes);
    assert!(matches!(error, Some(Error::Damaged(12))), "{error:?}");
}

/// A definition that is longer than a segment, and a command line of megabytes, are cut and not refused.
#[test]
fn long_texts_are_cut() {
    let mut writer = begin();
    writer
        .define(Definition::Guest(Guest {
            command: vec!["x".repeat(1000); 3000],
            vm: "ü".repeat(3 << 20),
            ..Guest::default()
        }))
        .unwrap();
    let mut recording = Recording::open(writer.finish().unwrap()).unwrap();
    assert!(recording.flaw().is_none());
    let guest = recording.take_definitions().guests.pop().unwrap();
    assert!(
        (60..70).contains(&guest.command.len()),
        "{}",
        guest.command.len()
    );
    assert!(guest.vm.starts_with("üü") && guest.vm.len() <= 64 << 10);
}
