//! What is written is read; what is cut or damaged is said to be so, and nothing is made up.

use proptest::collection::vec;
use proptest::prelude::*;
use prototypes::Captures;
use prototypes::capture::{Registers, Returned};
use recording::{
    At, Call, CallEdge, Caller, End, Error, Event, EventKind, Function, Guest, Head, Item, Line,
    Losses, Module, Reader, Return, Writer,
};
use std::time::Duration;

/// An item as text, to be compared and kept.
fn all(file: &[u8]) -> (Vec<String>, Option<Error>) {
    let mut items = Vec::new();
    let mut reader = match Reader::new(file) {
        Ok(reader) => reader,
        Err(error) => return (items, Some(error)),
    };
    loop {
        match reader.next() {
            Ok(Some(item)) => items.push(format!("{item:?}")),
            Ok(None) => return (items, None),
            Err(error) => return (items, Some(error)),
        }
    }
}

const GUESTS: u32 = 2;
const FUNCTIONS: u32 = 3;
const EDGES: u32 = 5;
const CALLERS: u32 = 200;

fn begin() -> (Writer<Vec<u8>>, Vec<String>) {
    let head = Head {
        lancet: "1".into(),
        command: vec!["calls".into(), String::new()],
        began: u64::MAX,
    };
    let mut writer = Writer::new(Vec::new(), head.clone()).unwrap();
    let mut said = vec![format!("{:?}", Item::Head(head))];
    for number in 0..GUESTS {
        let guest = Guest {
            pid: 7 + number as i32,
            command: vec!["ruby".into(), "ünï.rb".into()],
            vm: "Ruby 3.1".into(),
        };
        said.push(format!("{:?}", Item::Guest(guest.clone())));
        assert_eq!(writer.guest(guest).unwrap(), number);
        let module = Module {
            path: "/lib/libc.so.6".into(),
            name: "libc.so.6".into(),
            main: number == 1,
            bias: 0x5555_5555_4000,
        };
        said.push(format!("{:?}", Item::Module(module.clone())));
        assert_eq!(writer.module(module).unwrap(), number);
    }
    for number in 0..FUNCTIONS {
        let function = Function {
            module: number % GUESTS,
            names: vec![format!("f{number}"); number as usize + 1],
            address: u64::MAX - 5,
            size: 3,
            prototype: "int f0(string);".into(),
        };
        said.push(format!("{:?}", Item::Function(function.clone())));
        assert_eq!(writer.function(function).unwrap(), number);
    }
    for number in 0..EDGES {
        let edge = CallEdge {
            function: number % FUNCTIONS,
            from: number.checked_sub(3),
            slots: u64::MAX,
        };
        said.push(format!("{:?}", Item::CallEdge(edge)));
        assert_eq!(writer.edge(edge).unwrap(), number);
    }
    let line = Line {
        path: "a.rb".into(),
        line: u32::MAX,
        name: "show".into(),
    };
    said.push(format!("{:?}", Item::Line(line.clone())));
    assert_eq!(writer.line(line).unwrap(), 0);
    for number in 0..CALLERS {
        let caller = Caller {
            address: u64::MAX - u64::from(number),
            path: if number == 0 { "" } else { "/lib/libruby.so" }.into(),
            name: if number < 2 { "" } else { "rb_yield" }.into(),
            offset: number.into(),
        };
        said.push(format!("{:?}", Item::Caller(caller.clone())));
        assert_eq!(writer.caller(caller).unwrap(), number);
    }
    (writer, said)
}

/// What a call or a return may be made of.
type Parts = (
    bool,
    (u32, u32, u64, u64, u64),
    [u64; 14],
    (u32, bool),
    Vec<(usize, u64, Vec<u8>)>,
);

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
    (
        any::<bool>(),
        (0..GUESTS, 0..4_u32, 0..3_u64, word(), word()),
        proptest::array::uniform14(word()),
        (0..EDGES, any::<bool>()),
        vec((0..8_usize, word(), vec(any::<u8>(), 0..9)), 0..3),
    )
}

fn captures(all: &[(u64, &[u8])]) -> Captures {
    let mut captures = Captures::new();
    for (at, bytes) in all {
        captures.add(*at, bytes);
    }
    captures
}

fn write(writer: &mut Writer<Vec<u8>>, said: &mut Vec<String>, parts: &Parts) {
    let (is_call, (guest, tid, stack, frame, time), words, (edge, line), copies) = parts;
    let at = At {
        process: *guest,
        tid: *tid,
        ring: tid / 2,
        stack: *stack,
        frame: *frame,
        time: Duration::from_nanos(*time),
    };
    let mut behind = 0_u64;
    let copies = copies.iter().map(|(of, at, bytes)| {
        let at = match of {
            0..6 => words[*of],
            6 => behind,
            _ => *at,
        };
        behind = at.wrapping_add(bytes.len() as u64);
        (at, &bytes[..])
    });
    let copies: Vec<_> = copies.collect();
    let captures = captures(&copies);
    if *is_call {
        let call = Call {
            edge: *edge,
            caller: words[0] ^ words[1],
            line: line.then_some(0),
            library: (words[2] % 3 == 0).then_some(0),
            registers: Registers {
                gp: words[..6].try_into().unwrap(),
                sse: words[6..].try_into().unwrap(),
                stack: *frame,
            },
            captures,
            callers: (0..words[3] % 4)
                .map(|further| ((words[4] ^ further) % u64::from(CALLERS)) as u32)
                .collect(),
        };
        writer.call(&at, call.numbers(), &call).unwrap();
        let kind = EventKind::Call(call);
        said.push(format!("{:?}", Item::Event(Event { at, kind })));
    } else {
        let x87 = line.then_some([[1; 10], [2; 10]]);
        let back = Return {
            returned: Returned {
                rax: words[0],
                rdx: words[1],
                sse: words[2..4].try_into().unwrap(),
                x87: x87.unwrap_or_default(),
            },
            captures,
        };
        writer.back(&at, &back).unwrap();
        let kind = EventKind::Return(back);
        said.push(format!("{:?}", Item::Event(Event { at, kind })));
    }
}

fn file(calls: &[(Parts, bool)]) -> (Vec<u8>, Vec<String>) {
    let (mut writer, mut said) = begin();
    for (parts, flush) in calls {
        write(&mut writer, &mut said, parts);
        if *flush {
            writer.flush().unwrap();
        }
    }
    let losses = Losses {
        guest: 1,
        records: 5,
        without_ring: u64::MAX,
    };
    writer.losses(losses).unwrap();
    said.push(format!("{:?}", Item::Losses(losses)));
    said.push(format!("{:?}", Item::End));
    (writer.finish().unwrap(), said)
}

proptest! {
    #[test]
    fn what_is_written_is_read(calls in vec((parts(), any::<bool>()), 0..40)) {
        let (bytes, said) = file(&calls);
        let (read, error) = all(&bytes);
        prop_assert!(error.is_none(), "{error:?}");
        prop_assert_eq!(read, said);
    }

    #[test]
    fn of_a_cut_file_the_beginning_is_read(calls in vec((parts(), any::<bool>()), 0..20), cut in any::<prop::sample::Index>()) {
        let (bytes, said) = file(&calls);
        let cut = cut.index(bytes.len());
        let (read, error) = all(&bytes[..cut]);
        prop_assert!(matches!(error, Some(Error::Cut(_) | Error::NotOne)), "{error:?}");
        prop_assert!(said.starts_with(&read));
    }

    #[test]
    fn a_damaged_file_is_said_to_be_damaged(calls in vec((parts(), any::<bool>()), 0..20), at in any::<prop::sample::Index>(), flip in 1..=255_u8) {
        let (mut bytes, said) = file(&calls);
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        let (read, error) = all(&bytes);
        // The unpacked length is held against what is unpacked, all else against the checksum.
        prop_assert!(error.is_some());
        prop_assert!(said.starts_with(&read));
    }

    /// Segments that are whole and right by their checksum, and hold anything.
    #[test]
    fn no_items_break_the_reader(items in vec(any::<u8>(), 1..400)) {
        let (mut writer, _) = begin();
        writer.flush().unwrap();
        let mut bytes = writer.finish().unwrap();
        // The last segment holds the end.
        let end = 12 + lz4_flex::block::compress(&[10]).len();
        bytes.truncate(bytes.len() - end);
        let packed = lz4_flex::block::compress(&items);
        for word in [packed.len() as u32, items.len() as u32, crc32fast::hash(&packed)] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(packed);
        all(&bytes);
    }

    #[test]
    fn no_bytes_break_the_reader(bytes in vec(any::<u8>(), 0..400)) {
        all(&bytes);
        let mut begun = b"\x89lancet\n\x01\0\0\0".to_vec();
        begun.extend(bytes);
        all(&begun);
    }
}

#[test]
fn refusals_say_what_is_wrong() {
    let refusal = |bytes: &[u8]| all(bytes).1.unwrap().to_string();
    assert_eq!(refusal(b"#!/bin/sh\nls"), "it is no recording of lancet's");
    assert_eq!(refusal(b""), "it is no recording of lancet's");
    assert_eq!(
        refusal(b"\x89lancet\n\x03\0\0\0"),
        "it is of version 3 and this lancet reads versions 1 to 2"
    );
    let (mut bytes, _) = file(&[]);
    bytes.pop();
    assert!(refusal(&bytes).contains("without its end"));
    let last = bytes.len() - 1;
    bytes[20] ^= 1;
    assert_eq!(
        refusal(&bytes[..last]),
        "it is damaged at byte 12: what was recorded from there on cannot be read"
    );
}

/// What the first version wrote is read as it was meant.
#[test]
fn a_file_of_version_1_is_read() {
    // Written by the code of then: one of everything that it had.
    const FILE: &str = "896c616e6365740a010000000c0000000b0000008893b5efb0010131010563616c6c73018a0000009900000020da6079f462\
        0207010472756279085275627920332e3103062f6c69622f6d016d01802004000101668120030e696e74206628737472696e\
        67293b0b0001010504612e7262090473686f77060008018040a70014000100904e3f020406080a0cd08c0101010278005800\
        000f02048080808080808080030900250401010015020100b00c00080b0206090001020a";
    let digits: Vec<u32> = FILE
        .chars()
        .map(|digit| digit.to_digit(16).unwrap())
        .collect();
    let pairs = digits.as_chunks::<2>().0;
    let file: Vec<u8> = pairs
        .iter()
        .map(|[high, low]| (high << 4 | low) as u8)
        .collect();
    let (read, error) = all(&file);
    assert!(error.is_none(), "{error:?}");
    let at = At {
        process: 0,
        tid: 8,
        ring: 1,
        stack: 8192,
        frame: 9000,
        time: Duration::from_nanos(10),
    };
    let call = Call {
        edge: 0,
        caller: 5000,
        line: Some(0),
        library: Some(0),
        registers: Registers {
            gp: [1, 2, 3, 4, 5, 6],
            stack: at.frame,
            ..Registers::default()
        },
        captures: captures(&[(1, b"x\0")]),
        ..Call::default()
    };
    let returned = Returned {
        rax: 1,
        rdx: 2,
        sse: [3, 4],
        x87: [[1; 10], [2; 10]],
    };
    let back = Return {
        returned,
        ..Return::default()
    };
    let end = At {
        process: 0,
        tid: 8,
        time: Duration::from_nanos(11),
        ..At::default()
    };
    let last = [
        (at, EventKind::Call(call)),
        (at, EventKind::Return(back)),
        (end, EventKind::Ended(End::Exited(3))),
    ];
    let last = last.map(|(at, kind)| format!("{:?}", Item::Event(Event { at, kind })));
    assert_eq!(read.len(), 11);
    assert_eq!(read[6..9], last);
}

/// A caller that was not defined, and more of them than there are bytes.
#[test]
fn callers_that_are_not_there_are_refused() {
    for callers in [vec![CALLERS], vec![0, u32::MAX]] {
        let (mut writer, said) = begin();
        writer.flush().unwrap();
        let call = Call {
            callers,
            ..Call::default()
        };
        writer.call(&At::default(), call.numbers(), &call).unwrap();
        let (read, error) = all(&writer.finish().unwrap());
        assert!(matches!(error, Some(Error::Damaged(_))), "{error:?}");
        assert_eq!(read, said);
    }
}

/// A room of which more is asked than there is: nothing of it is taken.
#[test]
fn lengths_that_lie_take_no_room() {
    let mut bytes = b"\x89lancet\n\x01\0\0\0".to_vec();
    bytes.extend([0xff; 12]);
    let (_, error) = all(&bytes);
    assert!(matches!(error, Some(Error::Damaged(12))), "{error:?}");
}

/// The figure that matters for a guest at full speed: bytes of a call with its return.
#[test]
fn a_call_like_the_one_before_takes_few_bytes() {
    let calls = 100_000;
    let (mut writer, _) = begin();
    for number in 0..calls {
        let text = format!("hello {number}\n\0");
        let at = At {
            process: 0,
            tid: 1,
            ring: 0,
            stack: 4096,
            frame: 0x7ffd_0000_1000,
            time: Duration::from_nanos(1_700_000_000_000_000_000 + number * 1000),
        };
        let call = Call {
            caller: 0x5555_5555_1234,
            registers: Registers {
                gp: [1, 0x7f00_0000_0000 + number % 3 * 64, 9, 1, 2, 3],
                ..Registers::default()
            },
            captures: captures(&[(0x7f00_0000_0000 + number % 3 * 64, text.as_bytes())]),
            line: Some(0),
            ..Call::default()
        };
        writer.call(&at, call.numbers(), &call).unwrap();
        let later = At {
            time: at.time + Duration::from_nanos(200 + number % 50),
            ..at
        };
        let returned = Returned {
            rax: 9,
            ..Returned::default()
        };
        let back = Return {
            returned,
            ..Return::default()
        };
        writer.back(&later, &back).unwrap();
    }
    let bytes = writer.finish().unwrap().len() as f64 / calls as f64;
    assert!(bytes < 40.0, "{bytes:.1} bytes");
    println!("{bytes:.1} bytes");
}
