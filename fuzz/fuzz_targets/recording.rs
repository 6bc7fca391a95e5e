//! `lancet calls FILE`: bytes as a file, and as segments of definitions, events and the index whose checksums are right. What
//! is read can be written and reads the same again, what the index leads to is what the merger finds; calls are shown by the
//! prototypes that came with them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use prototypes::capture::{Registers, Returned};
use prototypes::show::{CallValues, Prepared, Show};
use prototypes::Library;
use recording::{
    Call, CallEdge, CallRecord, Copies, Decoder, Definition, Event, EventKind, Function, Guest,
    Head, Kind, Line, Merge, Module, Place, Recording, ReturnRecord, Scan, Segment, Site, Step,
    VERSION, Wanted, Writer,
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
    let file = file_of(rest);
    count(&file);
    let once = read(file);
    if let Some(written) = once.written {
        assert_eq!(read(written).events, once.events);
    }
});

/// What the control byte of a chunk says.
mod control {
    pub const KIND: u8 = 3;
    pub const INDEX: u8 = 2;
    pub const PACKED: u8 = 3;
    /// The stream of a segment of events.
    pub const STREAM: u8 = 3 << 2;
    pub const FORKS: u8 = 1 << 4;
    /// Three bytes of times follow, as distance from each other; in a segment of the index and of definitions the first
    /// byte says by how much the chain is wrong.
    pub const TIMES: u8 = 1 << 5;
    /// The file is finished behind this segment.
    pub const LAST: u8 = 1 << 6;
}

/// A file of chunks: control byte, length, times if they are said to follow, bytes. Each becomes a segment whose
/// checksums are right, behind some definitions that are there always. The bytes of a segment of the index stand behind the
/// heads of the segments of events that it lists, as what occurs in each; four bytes are one entry, of which the last two
/// make head and offset wrong.
fn file_of(mut bytes: &[u8]) -> Vec<u8> {
    let mut made = Made {
        file: begun(),
        last: [0, BEGIN],
        listed: Vec::new(),
    };
    while let [first, length, rest @ ..] = bytes {
        let times = if first & control::TIMES == 0 { 0 } else { 3 };
        if rest.len() < times {
            break;
        }
        let (times, rest) = rest.split_at(times);
        let (chunk, rest) = rest.split_at(rest.len().min(usize::from(*length)));
        made.add(*first, times, chunk);
        bytes = rest;
        if first & control::LAST != 0 {
            made.finish();
            break;
        }
    }
    made.file
}

/// Where the first segment of every file is.
const BEGIN: u64 = 12;

struct Made {
    file: Vec<u8>,
    /// The last segment of the index, and of definitions.
    last: [u64; 2],
    /// Segments of events since the last of the index.
    listed: Vec<Segment>,
}

impl Made {
    fn add(&mut self, control: u8, times: &[u8], chunk: &[u8]) {
        let kind = control & control::KIND;
        let entries = if kind == control::INDEX {
            self.entries(chunk)
        } else {
            chunk.to_vec()
        };
        if entries.is_empty() {
            return;
        }
        let time = |at: usize| u64::from(times.get(at).copied().unwrap_or(0));
        let offset = self.file.len() as u64;
        let mut segment = Segment {
            offset,
            whole: entries.len() as u32,
            stream: u32::from((control & control::STREAM) >> 2),
            ring: u32::from((control & control::STREAM) >> 2),
            forks: control & control::FORKS != 0,
            sites: entries.len() as u32,
            first: time(0) * 50,
            earliest: time(0) * 50 + time(1),
            latest: time(0) * 50 + time(1) + time(2),
            ..Segment::default()
        };
        let mut here = entries.clone();
        match kind {
            0 => {
                (segment.kind, segment.first) = (Kind::Definitions, self.last[1] ^ time(0));
                self.last[1] = offset;
            }
            control::INDEX => {
                (segment.kind, segment.first) = (Kind::Index, self.last[0] ^ time(0));
                segment.events = self.listed.len() as u32;
                self.last[0] = offset;
                self.listed.clear();
            }
            kind => {
                segment.kind = Kind::Events;
                if kind == control::PACKED {
                    here = lz4_flex::block::compress(&entries);
                    segment.packed = true;
                }
            }
        }
        (segment.here, segment.sum) = (here.len() as u32, crc32fast::hash(&here));
        self.file.extend(segment.encode());
        self.file.extend(here);
        if segment.kind == Kind::Events {
            self.listed.push(segment);
        }
    }

    fn entries(&self, chunk: &[u8]) -> Vec<u8> {
        let mut entries = Vec::new();
        let mut rest = chunk.chunks(4);
        for segment in &self.listed {
            let (mut segment, wrong) = (*segment, rest.next().unwrap_or_default());
            let byte = |at: usize| wrong.get(at).copied().unwrap_or(0);
            segment.offset ^= u64::from(byte(2));
            segment.here ^= u32::from(byte(3) & 0xf);
            segment.stream ^= u32::from(byte(3) >> 4);
            entries.extend(segment.encode());
            entries.extend(segment.offset.to_le_bytes());
            // How many call edges and lines are listed, and the first of each.
            for count in [byte(0), byte(1)] {
                entries.push(count & 3);
                entries.extend((1..count & 3).map(|_| count >> 2));
            }
        }
        entries
    }

    fn finish(&mut self) {
        let mut trailer = Vec::new();
        for last in self.last {
            trailer.extend(last.to_le_bytes());
        }
        let sum = crc32fast::hash(&trailer);
        self.file.extend(trailer);
        self.file.extend(sum.to_le_bytes());
        self.file.extend(0x5844_4e49_u32.to_le_bytes());
    }
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
    // Whoever changes the layout looks here, too: the segments above are made by hand.
    const { assert!(VERSION == 5) };
    std::mem::take(writer.out_mut())
}

/// Reads the segments that may hold what is asked for, as `-c` does; what is found so is what the merger finds.
fn count(file: &[u8]) {
    let wanted = Wanted {
        edges: vec![true, false, true],
        lines: Some(vec![true, false]),
        since: 20,
        until: 40_000,
        ..Wanted::ALL
    };
    let Ok(recording) = Recording::open(file.to_vec()) else {
        return;
    };
    let (mut scan, mut decoder) = (Scan::new(wanted.clone()), Decoder::default());
    let mut scanned = 0;
    while let Ok(Some(segment)) = scan.next(&recording) {
        if recording.read(&segment, &mut decoder).is_err() {
            return;
        }
        loop {
            match decoder.step() {
                Ok(Step::Over) => break,
                Ok(Step::Other) => scanned += u32::from(wanted.time(decoder.began())),
                Ok(step) if wanted.site(&decoder.site()) => {
                    scanned += u32::from(wanted.time(decoder.began()));
                    scanned += u32::from(step == Step::Both && wanted.time(decoder.ended()));
                }
                Ok(_) => {}
                Err(_) => return,
            }
        }
    }
    let (mut merge, mut merged) = (Merge::new(wanted), 0);
    loop {
        match merge.next(&recording) {
            Ok(Some(_)) => merged += 1,
            Ok(None) => break assert_eq!(merged, scanned),
            Err(_) => return,
        }
    }
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
    let mut merge = Merge::new(Wanted::ALL);
    let of = recording.take_definitions();
    let mut writer = Writer::new(Vec::new(), Head::default()).expect("memory");
    let mut define = |definition| drop(writer.define(definition));
    let prototypes = of.functions.iter().map(|function| {
        let (library, _) = Library::parse("recorded", &function.prototype, &mut |_| None);
        library
            .prototypes()
            .next()
            .map(|(_, one)| Prepared::new(one.clone()))
    });
    let prototypes: Vec<Option<Prepared>> = prototypes.collect();
    let edges: Vec<usize> = of.edges.iter().map(|edge| edge.function as usize).collect();
    of.guests
        .into_iter()
        .map(Definition::Guest)
        .for_each(&mut define);
    of.modules
        .into_iter()
        .map(Definition::Module)
        .for_each(&mut define);
    of.functions
        .into_iter()
        .map(Definition::Function)
        .for_each(&mut define);
    of.edges
        .into_iter()
        .map(Definition::CallEdge)
        .for_each(&mut define);
    of.lines
        .into_iter()
        .map(Definition::Line)
        .for_each(&mut define);
    of.callers
        .into_iter()
        .map(Definition::Caller)
        .for_each(&mut define);
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
        read.events
            .push(format!("{:?} {:?}", event.at.frame, event.kind));
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

fn show(prepared: Option<&Prepared>, call: &Call) {
    let Some(prepared) = prepared else { return };
    let Registers { gp, sse, .. } = &call.registers;
    let returned = Returned {
        rax: gp[0],
        rdx: gp[1],
        sse: [sse[0], sse[1]],
        ..Returned::default()
    };
    let values = CallValues {
        prepared,
        registers: &call.registers,
        returned: Some(&returned),
    };
    let text = Show::default().line("f", values, &call.captures);
    assert!(text.chars().all(|c| !c.is_control()), "{text:?}");
}
