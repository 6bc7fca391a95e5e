//! `lancet calls FILE`: bytes as a file, and as definitions and events of segments whose checksums are right. What is read
//! can be written and reads the same again; calls are shown by the prototypes that came with them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use prototypes::capture::{Registers, Returned};
use prototypes::{CallValues, Library, Prototype, Show};
use recording::{
    Call, CallEdge, CallRecord, Copies, Definition, Event, EventKind, Function, Guest, Head, Kind,
    Line, Merge, Module, Place, Recording, ReturnRecord, Segment, Site, VERSION, Wanted, Writer,
};

/// More than that is not kept of one input, to stay quick.
const MOST: usize = 4096;

fuzz_target!(|bytes: &[u8]| {
    let Some((&first, rest)) = bytes.split_first() else {
        return;
    };
    if first % 2 == 0 {
        read(rest.to_vec());
        return;
    }
    let once = read(file_of(rest));
    if let Some(written) = once.written {
        assert_eq!(read(written).events, once.events);
    }
});

/// A recording of these bytes: the first says how many of them are definitions, beside some that are there always, and
/// where a second segment of events begins.
fn file_of(bytes: &[u8]) -> Vec<u8> {
    let (&first, rest) = bytes.split_first().unwrap_or((&0, bytes));
    let (defined, events) = rest.split_at(rest.len().min(first as usize & 0x3f));
    let (one, other) = events.split_at(events.len().min(first as usize));
    let mut file = begun();
    for (kind, stream, bytes) in [
        (Kind::Definitions, 0, defined),
        (Kind::Events, 0, one),
        (Kind::Events, u32::from(first & 1), other),
    ] {
        if bytes.is_empty() {
            continue;
        }
        let segment = Segment {
            sum: crc32fast::hash(bytes),
            here: bytes.len() as u32,
            whole: bytes.len() as u32,
            kind,
            stream,
            sites: bytes.len() as u32,
            ..Segment::default()
        };
        file.extend(segment.encode());
        file.extend(bytes);
    }
    file
}

/// A file with one definition of each kind, without its end.
fn begun() -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), Head::default()).expect("memory");
    let function = Function {
        names: vec!["f".into()],
        prototype: "int f(string, array(int, arg3)*, int);".into(),
        ..Function::default()
    };
    for definition in [
        Definition::Guest(Guest::default()),
        Definition::Module(Module::default()),
        Definition::Function(function),
        Definition::CallEdge(CallEdge::default()),
        Definition::Line(Line::default()),
    ] {
        writer.define(definition).expect("memory");
    }
    writer.flush().expect("memory");
    assert_eq!(VERSION, 3);
    std::mem::take(writer.out_mut())
}

#[derive(Default)]
struct Read {
    events: Vec<String>,
    /// The same as a file of our own; `None` if there was too much.
    written: Option<Vec<u8>>,
}

fn read(file: Vec<u8>) -> Read {
    let mut read = Read::default();
    let Ok(mut recording) = Recording::open(file) else {
        return read;
    };
    let wanted = Wanted {
        edges: Vec::new(),
        since: 0,
        until: u64::MAX,
    };
    let mut merge = Merge::new(&recording, wanted);
    let of = recording.take_definitions();
    let mut writer = Writer::new(Vec::new(), Head::default()).expect("memory");
    let mut define = |definition| drop(writer.define(definition));
    let prototypes = of.functions.iter().map(|function| {
        let (library, _) = Library::parse("recorded", &function.prototype, &mut |_| None);
        library.prototypes().next().map(|(_, one)| one.clone())
    });
    let prototypes: Vec<Option<Prototype>> = prototypes.collect();
    let edges: Vec<usize> = of.edges.iter().map(|edge| edge.function as usize).collect();
    of.guests.into_iter().map(Definition::Guest).for_each(&mut define);
    of.modules.into_iter().map(Definition::Module).for_each(&mut define);
    of.functions.into_iter().map(Definition::Function).for_each(&mut define);
    of.edges.into_iter().map(Definition::CallEdge).for_each(&mut define);
    of.lines.into_iter().map(Definition::Line).for_each(&mut define);
    of.callers.into_iter().map(Definition::Caller).for_each(&mut define);
    let stream = writer.stream(0, 0);
    loop {
        let event = match merge.next(&recording) {
            Ok(Some(event)) => event,
            Ok(None) => break,
            Err(_) => return read,
        };
        if read.events.len() >= MOST {
            return read;
        }
        if let EventKind::Call(call) = &event.kind {
            show(prototypes[edges[call.edge as usize]].as_ref(), call);
        }
        write(&mut writer, stream, &event);
        // The order in time is the merger's; times that go back are told as they are.
        read.events.push(format!("{:?} {:?}", event.at.frame, event.kind));
    }
    read.written = writer.finish().ok();
    read
}

fn write(writer: &mut Writer<Vec<u8>>, stream: u32, event: &Event) {
    let at = &event.at;
    let place = Place {
        guest: at.process,
        tid: at.tid,
        stack: at.stack,
    };
    let written = match &event.kind {
        EventKind::Call(call) => {
            let site = Site {
                edge: call.edge + 1,
                caller: call.caller,
                line: call.line.map_or(0, |line| line + 1),
                library: call.library.map_or(0, |line| line + 1),
            };
            let record = CallRecord {
                site,
                place,
                frame: at.frame,
                time: at.nanos(),
                registers: &call.registers,
                copies: Copies::Captures(&call.captures),
                callers: &call.callers,
            };
            writer.call(stream, &record)
        }
        EventKind::Return(back) => {
            let record = ReturnRecord {
                place,
                frame: at.frame,
                time: at.nanos(),
                returned: &back.returned,
                copies: Copies::Captures(&back.captures),
            };
            writer.back(stream, &record)
        }
        kind => writer.other(stream, place, at.nanos(), kind),
    };
    written.expect("memory");
}

fn show(prototype: Option<&Prototype>, call: &Call) {
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
