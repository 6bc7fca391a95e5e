//! `lancet calls FILE`: bytes as a file, and as the items of a segment whose checksum is right. What is read can be written and
//! reads the same again; calls are shown by the prototypes that came with them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use prototypes::capture::{Registers, Returned};
use prototypes::{CallValues, Library, Prototype, Show};
use recording::{Event, EventKind, Head, Item, Reader, VERSION, Writer};

/// More than that is not kept of one input, to stay quick.
const MOST: usize = 4096;

fuzz_target!(|bytes: &[u8]| {
    let Some((&first, rest)) = bytes.split_first() else {
        return;
    };
    if first % 2 == 0 {
        let _ = read(rest);
        return;
    }
    let once = read(&file_of(rest));
    let Some(written) = once.written else {
        return;
    };
    assert_eq!(read(&written).items, once.items);
});

/// A recording of these items. The first byte says where a second segment begins, if one does.
fn file_of(bytes: &[u8]) -> Vec<u8> {
    let mut file = b"\x89lancet\n".to_vec();
    file.extend(VERSION.to_le_bytes());
    let (first, items) = bytes.split_first().unwrap_or((&0, bytes));
    let (one, other) = items.split_at(items.len().min(*first as usize));
    for items in [one, other].into_iter().filter(|items| !items.is_empty()) {
        let packed = lz4_flex::block::compress(items);
        for word in [
            packed.len() as u32,
            items.len() as u32,
            crc32fast::hash(&packed),
        ] {
            file.extend(word.to_le_bytes());
        }
        file.extend(packed);
    }
    file
}

#[derive(Default)]
struct Read {
    items: Vec<String>,
    /// The same as a file of our own; `None` if there was too much.
    written: Option<Vec<u8>>,
}

fn read(file: &[u8]) -> Read {
    let mut read = Read::default();
    let Ok(mut reader) = Reader::new(file) else {
        return read;
    };
    let mut writer = Writer::new(Vec::new(), Head::default()).expect("memory");
    let (mut functions, mut edges): (Vec<Option<Prototype>>, Vec<usize>) = Default::default();
    let whole = loop {
        let item = match reader.next() {
            Ok(Some(item)) => item,
            Ok(None) => break true,
            Err(_) => break false,
        };
        if read.items.len() >= MOST {
            break false;
        }
        if !matches!(item, Item::Head(_)) {
            read.items.push(format!("{item:?}"));
        }
        match item {
            Item::Head(_) | Item::End => {}
            Item::Guest(guest) => drop(writer.guest(guest)),
            Item::Module(module) => drop(writer.module(module)),
            Item::Function(function) => {
                let (library, _) = Library::parse("recorded", &function.prototype, &mut |_| None);
                let prototype = library.prototypes().next().map(|(_, one)| one.clone());
                functions.push(prototype);
                drop(writer.function(function));
            }
            Item::CallEdge(edge) => {
                edges.push(edge.function as usize);
                drop(writer.edge(edge));
            }
            Item::Line(line) => drop(writer.line(line)),
            Item::Caller(caller) => drop(writer.caller(caller)),
            Item::Event(Event { at, kind }) => match &kind {
                EventKind::Call(call) => {
                    show(functions[edges[call.edge as usize]].as_ref(), call);
                    writer.call(&at, call.numbers(), call).expect("memory");
                }
                EventKind::Return(back) => writer.back(&at, back).expect("memory"),
                kind => writer.event(&at, kind).expect("memory"),
            },
            Item::Losses(losses) => writer.losses(losses).expect("memory"),
        }
    };
    if whole {
        read.written = writer.finish().ok();
    }
    read
}

fn show(prototype: Option<&Prototype>, call: &recording::Call) {
    let Some(prototype) = prototype else { return };
    let Registers { gp, sse, .. } = &call.registers;
    let returned = Returned {
        rax: gp[0],
        rdx: gp[1],
        sse: [sse[0], sse[1]],
        ..Returned::default()
    };
    let values = CallValues {
        prototype,
        registers: &call.registers,
        returned: Some(&returned),
    };
    let text = Show::default().line("f", values, &call.captures);
    assert!(text.chars().all(|c| !c.is_control()), "{text:?}");
}
