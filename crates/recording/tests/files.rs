//! What is written is read; what is cut or damaged is said to be so, and nothing is made up.

use proptest::collection::vec;
use proptest::prelude::*;
use recording::{
    At, Call, Caller, Error, Event, Function, Guest, Happened, Head, Item, Line, Losses, Module,
    Reader, Return, Way, Writer,
};

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
const WAYS: u32 = 5;
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
    for number in 0..WAYS {
        let way = Way {
            function: number % FUNCTIONS,
            from: number.checked_sub(3),
            slots: u64::MAX,
        };
        said.push(format!("{:?}", Item::Way(way)));
        assert_eq!(writer.way(way).unwrap(), number);
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
        (0..WAYS, any::<bool>()),
        vec((0..8_usize, word(), vec(any::<u8>(), 0..9)), 0..3),
    )
}

fn write(writer: &mut Writer<Vec<u8>>, said: &mut Vec<String>, parts: &Parts) {
    let (is_call, (guest, tid, stack, frame, time), words, (way, line), pieces) = parts;
    let at = At {
        guest: *guest,
        tid: *tid,
        lane: tid / 2,
        stack: *stack,
        frame: *frame,
        time: *time,
    };
    let mut behind = 0_u64;
    let pieces = pieces.iter().map(|(of, at, bytes)| {
        let at = match of {
            0..6 => words[*of],
            6 => behind,
            _ => *at,
        };
        behind = at.wrapping_add(bytes.len() as u64);
        (at, &bytes[..])
    });
    let pieces = pieces.collect();
    if *is_call {
        let call = Call {
            at,
            way: *way,
            caller: words[0] ^ words[1],
            line: line.then_some(0),
            library: (words[2] % 3 == 0).then_some(0),
            gp: words[..6].try_into().unwrap(),
            sse: words[6..].try_into().unwrap(),
            pieces,
            callers: (0..words[3] % 4)
                .map(|further| ((words[4] ^ further) % u64::from(CALLERS)) as u32)
                .collect(),
        };
        writer.call(&call).unwrap();
        said.push(format!("{:?}", Item::Call(call)));
    } else {
        let back = Return {
            at,
            gp: words[..2].try_into().unwrap(),
            sse: words[2..4].try_into().unwrap(),
            x87: line.then_some([[1; 10], [2; 10]]),
            pieces,
        };
        writer.back(&back).unwrap();
        said.push(format!("{:?}", Item::Return(back)));
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
        unlaned: u64::MAX,
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
        guest: 0,
        tid: 8,
        lane: 1,
        stack: 8192,
        frame: 9000,
        time: 10,
    };
    let call = Call {
        at,
        way: 0,
        caller: 5000,
        line: Some(0),
        library: Some(0),
        gp: [1, 2, 3, 4, 5, 6],
        pieces: vec![(1, b"x\0")],
        ..Call::default()
    };
    let back = Return {
        at,
        gp: [1, 2],
        sse: [3, 4],
        x87: Some([[1; 10], [2; 10]]),
        ..Return::default()
    };
    let event = Event {
        guest: 0,
        tid: 8,
        time: 11,
        what: Happened::Exited(3),
    };
    let last = [Item::Call(call), Item::Return(back), Item::Event(event)];
    let last = last.map(|item| format!("{item:?}"));
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
        writer.call(&call).unwrap();
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
            guest: 0,
            tid: 1,
            lane: 0,
            stack: 4096,
            frame: 0x7ffd_0000_1000,
            time: 1_700_000_000_000_000_000 + number * 1000,
        };
        let call = Call {
            at,
            caller: 0x5555_5555_1234,
            gp: [1, 0x7f00_0000_0000 + number % 3 * 64, 9, 1, 2, 3],
            pieces: vec![(0x7f00_0000_0000 + number % 3 * 64, text.as_bytes())],
            line: Some(0),
            ..Call::default()
        };
        writer.call(&call).unwrap();
        let back = Return {
            at: At {
                time: at.time + 200 + number % 50,
                ..at
            },
            gp: [9, 0],
            ..Return::default()
        };
        writer.back(&back).unwrap();
    }
    let bytes = writer.finish().unwrap().len() as f64 / calls as f64;
    assert!(bytes < 40.0, "{bytes:.1} bytes");
    println!("{bytes:.1} bytes");
}
