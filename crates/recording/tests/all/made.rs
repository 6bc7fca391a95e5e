//! Recordings of as many calls as are asked for, without a process: of four threads, a call each 100 ns.
//!
//! Every thread makes a hundred calls of `work` from one of ten lines of `/srv/app.rb`, then the next thread does. One
//! call in each file is of `rare`, from `/srv/rare.rb:7`.

use prototypes::capture::{Registers, Returned};
use prototypes::show::Captures;
use recording::{
    CallEdge, CallRecord, Copies, Definition, Function, Guest, Head, Line, Module, Place,
    ReturnRecord, Site, Writer,
};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

pub const THREADS: u64 = 4;
/// Nanoseconds since 1970 of the first call, and from each call to the next.
pub const BEGAN: u64 = 1_700_000_000_000_000_000;
pub const APART: u64 = 100;

const LINES: u64 = 10;

/// The call that is of `rare`.
pub fn rare(calls: u64) -> u64 {
    calls / 3
}

pub fn begin<W: Write>(out: W) -> Writer<W> {
    let mut writer = Writer::new(
        out,
        Head {
            began: BEGAN,
            ..Head::default()
        },
    )
    .unwrap();
    let mut define = |definition| {
        writer.define(definition).unwrap();
    };
    define(Definition::Guest(Guest {
        pid: 7,
        command: vec!["made".into()],
        since: BEGAN,
        ..Guest::default()
    }));
    define(Definition::Module(Module {
        path: "/lib/libwork.so".into(),
        name: "libwork.so".into(),
        ..Module::default()
    }));
    for (number, name) in (0..).zip(["work", "rare"]) {
        define(Definition::Function(Function {
            names: vec![name.into()],
            prototype: format!("long {name}(long, string, long);"),
            ..Function::default()
        }));
        define(Definition::CallEdge(CallEdge {
            function: number,
            ..CallEdge::default()
        }));
    }
    let line = |path: &str, line| Line {
        path: path.into(),
        line,
        name: "run".into(),
    };
    for number in 0..LINES {
        define(Definition::Line(line("/srv/app.rb", number as u32 + 1)));
    }
    define(Definition::Line(line("/srv/rare.rb", 7)));
    for ring in 0..THREADS {
        writer.stream(0, ring as u32);
    }
    writer
}

/// How calls are written.
#[derive(Clone, Copy, Default)]
pub struct How {
    /// Each with a text of 40 characters.
    pub text: bool,
    /// After so many calls what waits is written, so that there are more segments; 0 = when they are full.
    pub flush: u64,
}

/// Writes so many calls and returns the bytes that they take.
pub fn write(path: &Path, calls: u64, how: How) -> io::Result<u64> {
    let mut writer = begin(BufWriter::new(File::create(path)?));
    let mut captures = Captures::new();
    for number in 0..calls {
        let thread = number / 100 % THREADS;
        let place = Place {
            guest: 0,
            tid: 100 + thread as u32,
            stack: thread << 20,
        };
        let time = BEGAN + number * APART;
        let is_rare = number == rare(calls);
        let site = Site {
            edge: 1 + u32::from(is_rare),
            caller: 0x1234,
            line: 1 + if is_rare {
                LINES
            } else {
                number / 1000 % LINES
            } as u32,
            library: 0,
        };
        if how.text {
            captures = Captures::new();
            let text = format!("SELECT name FROM users WHERE id={number:08}\0");
            captures.add(0x7f00_0000_0000, text.as_bytes());
        }
        let call = CallRecord {
            site,
            place,
            frame: (thread << 20) + 4096,
            time,
            registers: &Registers {
                gp: [number, 0x7f00_0000_0000, number ^ 0x55, 1, 2, 3],
                ..Registers::default()
            },
            copies: Copies::Captures(&captures),
            callers: &[],
        };
        writer.call(thread as u32, &call)?;
        let back = ReturnRecord {
            place,
            frame: call.frame,
            time: time + 30 + number % 7,
            returned: &Returned {
                rax: number * 3,
                ..Returned::default()
            },
            copies: Copies::Words(&[]),
        };
        writer.back(thread as u32, &back)?;
        if how.flush != 0 && number % how.flush == how.flush - 1 {
            writer.flush()?;
        }
    }
    writer.finish()?;
    Ok(path.metadata()?.len())
}
