//! Calls as lines, as ltrace's lines and as JSON: every form that a line can have, made of events.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use calls::consumer::{Consumer, SourceEnd};
use calls::event::{
    At, Call, CallEdge, Caller, End, Event, EventKind, Made, Module, Opened, Return, Shown, Signal,
};
use calls::signatures::Signatures;
use calls::{Function, Line};
use prototypes::capture::{Registers, Returned};
use prototypes::show::Captures;
use report::calls::{Json, Layout, Lines};

use super::Output;

/// Prototypes of what is called here.
const PROTOTYPES: &str = "
int say(string, int, double);
int fill(+string[retval], ulong);
int open(string, flags[int](O_RDONLY=0, O_CREAT=64, O_EXCL=128), octal);
void stop(int);
";

/// A thread that tells of its calls: each event is a microsecond after the one before.
struct Thread<'c> {
    to: &'c mut dyn Consumer,
    at: At,
}

impl Thread<'_> {
    fn tell(&mut self, frame: u64, kind: EventKind) {
        self.at.frame = frame;
        self.at.time += Duration::from_nanos(1_234);
        let at = self.at;
        self.to.take(Event { at, kind }).expect("memory is written");
    }

    fn call(&mut self, frame: u64, edge: &Arc<CallEdge>, gp: [u64; 4], told: Told) {
        let [a, b, c, d] = gp;
        let mut captures = Captures::new();
        for (at, bytes) in told.copied {
            captures.add(*at, bytes);
        }
        let call = Call {
            edge: edge.clone(),
            caller: 0x40_1234,
            registers: Registers {
                gp: [a, b, c, d, 0, 0],
                sse: [1.5_f64.to_bits(), 0, 0, 0, 0, 0, 0, 0],
                stack: frame,
            },
            captures,
            line: told.line.cloned(),
            library: told.library.cloned(),
            callers: told.callers.to_vec(),
        };
        self.tell(frame, EventKind::Call(call));
    }

    fn back(&mut self, frame: u64, rax: u64, copied: &[(u64, &[u8])]) {
        let mut captures = Captures::new();
        for (at, bytes) in copied {
            captures.add(*at, bytes);
        }
        let returned = Returned {
            rax,
            ..Returned::default()
        };
        self.tell(frame, EventKind::Return(Return { returned, captures }));
    }
}

/// What a call has besides its numbers.
#[derive(Default)]
struct Told<'t> {
    copied: &'t [(u64, &'t [u8])],
    line: Option<&'t Arc<Line>>,
    library: Option<&'t Arc<Line>>,
    callers: &'t [Arc<Caller>],
}

fn edge(module: &str, name: &str) -> Arc<CallEdge> {
    let function = Function {
        name: name.into(),
        module: module.into(),
        address: 0x7f00_1000,
        size: 16,
        picks: false,
    };
    let module = |path: &str, name: &str| Module {
        path: path.into(),
        name: name.into(),
        ..Module::default()
    };
    Arc::new(CallEdge {
        names: [name.to_owned()].into(),
        module: Arc::new(module(
            &format!("/lib/{}", function.module),
            &function.module,
        )),
        from: Some(Arc::new(module("/usr/bin/shop \"1\"", "shop"))),
        function: Arc::new(function),
        slots: 0,
        inside: None,
        shown: Some(Shown {
            made: Some(Made {
                by: "shop".into(),
                name: name.into(),
            }),
            entered: None,
        }),
    })
}

fn line(path: &str, line: u32, name: &str) -> Arc<Line> {
    Arc::new(Line {
        path: path.into(),
        line,
        name: name.into(),
    })
}

/// Two threads of one process: calls of every kind.
fn story(to: &mut dyn Consumer) {
    let [work, say, fill] = ["work", "say", "fill"].map(|name| edge("libwork.so", name));
    let [open, close] = ["open", "close"].map(|name| edge("SYS", name));
    let (app, gem) = (
        line("app.rb", 12, "show\u{202e}"),
        line(
            "/var/lib/gems/3.1.0/gems/mysql2-0.5/lib/mysql2/client.rb",
            151,
            "query",
        ),
    );
    let caller = Arc::new(Caller {
        address: 0x7f00_2000,
        path: Some("/lib/libwork.so".into()),
        function: Some(("outer".into(), 31)),
        in_file: 0x2000,
    });
    let at = At {
        process: 71,
        tid: 71,
        ring: 0,
        stack: 0x7ffc_0000,
        frame: 0,
        time: Duration::new(1_700_000_000, 999_998_000),
    };
    let opened = Opened {
        command: ["shop", "\u{9b}2J\n"].map(str::to_owned).into(),
        vm: "Ruby 3.1.2".into(),
    };
    let mut main = Thread { to, at };
    main.tell(0, EventKind::Opened(opened));
    // Words, small and large; without and with a script line.
    main.call(0x900, &work, [0x0665_84a1, 0, 1, 341], Told::default());
    main.back(0x900, 0x0665_84a2, &[]);
    main.call(
        0x900,
        &work,
        [u64::MAX, 10_001, 7, 0],
        Told {
            line: Some(&app),
            library: Some(&gem),
            callers: std::slice::from_ref(&caller),
            ..Told::default()
        },
    );
    main.back(0x900, -2_i64 as u64, &[]);
    // Text, in one piece, in two, cut, and unreadable; and a call within it, so that its line is taken up again.
    let text = b"hello\n\"w\xc3\xb6rld\" \\\0";
    main.call(
        0x900,
        &say,
        [0x5000, 5, 0, 0],
        Told {
            copied: &[(0x5000, text)],
            ..Told::default()
        },
    );
    main.call(
        0x800,
        &say,
        [0x5000, 6, 0, 0],
        Told {
            copied: &[(0x5000, b"in two "), (0x5007, b"pieces\0")],
            ..Told::default()
        },
    );
    main.back(0x800, 7, &[]);
    main.call(
        0x800,
        &say,
        [0x5000, 6, 0, 0],
        Told {
            copied: &[(0x5000, &[b'x'; 33])],
            ..Told::default()
        },
    );
    main.back(0x800, 7, &[]);
    main.call(
        0x800,
        &say,
        [0x6000, -1_i32 as u32 as u64, 0, 0],
        Told::default(),
    );
    main.back(0x800, 0, &[]);
    main.back(0x900, 6, &[]);
    // What is known only when it has returned.
    main.call(0x900, &fill, [0x5000, 64, 0, 0], Told::default());
    main.back(0x900, 4, &[(0x5000, b"late")]);
    // A call that is left by the next one, which stands above it.
    main.call(
        0x800,
        &work,
        [1, 2, 3, 4],
        Told {
            line: Some(&app),
            ..Told::default()
        },
    );
    main.call(
        0x900,
        &open,
        [0x5000, 64 | 128 | 8, 0o644, 0],
        Told {
            copied: &[(0x5000, b"/tmp/x\0")],
            ..Told::default()
        },
    );
    main.back(0x900, -2_i64 as u64, &[]);
    main.call(0x900, &close, [3, 0, 0, 0], Told::default());
    main.tell(
        0,
        EventKind::Signal(Signal {
            number: 10,
            ..Signal::default()
        }),
    );
    // Another thread: from here on each line says whose it is.
    let mut other = Thread {
        at: At {
            tid: 72,
            ring: 1,
            stack: 0x7ffd_0000,
            ..main.at
        },
        to: main.to,
    };
    other.call(0x900, &work, [0, 0, 0, 0], Told::default());
    let mut main = Thread {
        at: At {
            time: other.at.time,
            ..main.at
        },
        to: other.to,
    };
    main.back(0x900, 0, &[]);
    main.tell(0, EventKind::Forked(73));
    main.tell(0, EventKind::Ended(End::Exited(3)));
    to.finish(SourceEnd::default()).expect("memory is written");
}

/// Those of the prototypes above, which stand in a file of this test's own for a moment.
fn signatures(test: &str) -> Signatures {
    let name = format!("lancet-{test}-{}.conf", std::process::id());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, PROTOTYPES).expect("the prototypes are written");
    let signatures = Signatures::read(std::slice::from_ref(&path), false).expect("prototypes");
    std::fs::remove_file(path).expect("the prototypes are removed");
    signatures
}

fn layout() -> Layout {
    Layout {
        strings: 32,
        array: 4,
        processes: 1,
        align: 30,
        ..Layout::default()
    }
}

fn written<'a, C: Consumer + 'a>(
    signatures: &'a Signatures,
    layout: Layout,
    make: impl FnOnce(Layout, &'a Signatures, Box<dyn Write>) -> C,
) -> String {
    let output = Output::default();
    story(&mut make(layout, signatures, Box::new(output.clone())));
    output.text()
}

#[test]
fn lines() {
    let signatures = signatures("lines");
    insta::assert_snapshot!(written(&signatures, layout(), Lines::new), @r##"
    work(0x66584a1, 0, 1, 341)   = 0x66584a2
    work(-1, 0x2711, 7, 0)       = -2 ← app.rb:12 in 'show\u{202e}' (mysql2/client.rb:151)
    say("hello\n"w\303\266rld" \\", 5, 1.500000 <unfinished ...>
    say("in two pieces", 6, 1.500000) = 7
    say("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"..., 6, 1.500000) = 7
    say(0x6000, -1, 1.500000)    = 0
    <... say resumed> )          = 6
    fill("late", 64)             = 4
    work(1, 2, 3, 4) <left by an exception or a jump> ← app.rb:12 in 'show\u{202e}'
    open@SYS("/tmp/x", O_CREAT|O_EXCL|8, 0644) = -1 ENOENT
    close@SYS(3 <unfinished ...>
    --- SIGUSR1 (User defined signal 1) ---
    [pid 72] work(0, 0, 0, 0 <unfinished ...>
    [pid 71] <... close@SYS resumed> ) = 0
    [pid 71] +++ exited (status 3) +++
    "##);
}

#[test]
fn lines_with_all_that_they_can_say() {
    let layout = Layout {
        frames: 1,
        times: 3,
        relative: true,
        durations: true,
        instruction: true,
        indent: 2,
        ..layout()
    };
    let signatures = signatures("lines-all");
    insta::assert_snapshot!(written(&signatures, layout, Lines::new), @r##"
      0.000000 1700000001.000000 [0x401234] work(0x66584a1, 0, 1, 341) = 0x66584a2 <0.000001234>
      0.000002 1700000001.000002 [0x401234] work(-1, 0x2711, 7, 0) = -2 <0.000001234> ← app.rb:12 in 'show\u{202e}' (mysql2/client.rb:151)
     > /lib/libwork.so(outer+0x1f) [0x7f002000]

      0.000002 1700000001.000005 [0x401234] say("hello\n"w\303\266rld" \\", 5, 1.500000 <unfinished ...>
      0.000001 1700000001.000006 [0x401234]   say("in two pieces", 6, 1.500000) = 7 <0.000001234>
      0.000002 1700000001.000009 [0x401234]   say("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"..., 6, 1.500000) = 7 <0.000001234>
      0.000002 1700000001.000011 [0x401234]   say(0x6000, -1, 1.500000) = 0 <0.000001234>
      0.000002 1700000001.000014 [0x401234] <... say resumed> ) = 6 <0.000008638>
      0.000001 1700000001.000015 [0x401234] fill("late", 64) = 4 <0.000001234>
      0.000002 1700000001.000017 [0x401234] work(1, 2, 3, 4) <left by an exception or a jump> ← app.rb:12 in 'show\u{202e}'
      0.000001 1700000001.000018 [0x401234] open@SYS("/tmp/x", O_CREAT|O_EXCL|8, 0644) = -1 ENOENT <0.000001234>
      0.000002 1700000001.000021 [0x401234] close@SYS(3 <unfinished ...>
      0.000001 1700000001.000022 --- SIGUSR1 (User defined signal 1) ---
    [pid 72]   0.000001 1700000001.000023 [0x401234] work(0, 0, 0, 0 <unfinished ...>
    [pid 71]   0.000001 1700000001.000025 [0x401234] <... close@SYS resumed> ) = 0 <0.000003702>
    [pid 71]   0.000002 1700000001.000027 +++ exited (status 3) +++
    "##);
}

#[test]
fn lines_of_ltrace() {
    let layout = Layout {
        ltrace: true,
        callers: true,
        durations: true,
        ..layout()
    };
    let signatures = signatures("lines-ltrace");
    insta::assert_snapshot!(written(&signatures, layout, Lines::new), @r##"
    shop->work(0x66584a1, 0, 1, 341) = 0x66584a2 <0.000001>
    shop->work(-1, 0x2711, 7, 0) = -2 <0.000001> ← app.rb:12 in 'show\u{202e}' (mysql2/client.rb:151)
    shop->say("hello\n"w\303\266rld" \\", 5, 1.500000 <unfinished ...>
    shop->say("in two pieces", 6, 1.500000) = 7 <0.000001>
    shop->say("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"..., 6, 1.500000) = 7 <0.000001>
    shop->say(0x6000, -1, 1.500000) = 0 <0.000001>
    <... say resumed> )          = 6 <0.000008>
    shop->fill("late", 64)       = 4 <0.000001>
    shop->work(1, 2, 3, 4 <unfinished ...>
    shop->open("/tmp/x", O_CREAT|O_EXCL|8, 0644) = -2 <0.000001>
    shop->close(3 <unfinished ...>
    --- SIGUSR1 (User defined signal 1) ---
    shop->work(0, 0, 0, 0 <unfinished ...>
    <... close resumed> )        = 0 <0.000003>
    +++ exited (status 3) +++
    "##);
}

#[test]
fn json() {
    let layout = Layout {
        frames: 1,
        ..layout()
    };
    let signatures = signatures("lines-json");
    // A field a line, of the records that differ.
    let written = written(&signatures, layout, Json::new);
    let records: Vec<&str> = written.lines().collect();
    let shown = [0, 2, records.len() - 1].map(|at| records[at].replace(",\"", ",\n  \""));
    insta::assert_snapshot!(shown.join("\n"), @r##"
    {"record":"process",
      "schema":2,
      "pid":71,
      "command":["shop",
      "\u009b2J\n"],
      "languages":[{"name":"Ruby",
      "version":"3.1.2"}]}
    {"record":"call",
      "pid":71,
      "tid":71,
      "time_ns":1700000001000002936,
      "duration_ns":1234,
      "ended":"returned",
      "depth":0,
      "function":"work",
      "module":"/lib/libwork.so",
      "address":"0x7f001000",
      "from":"/usr/bin/shop \"1\"",
      "caller":"0x401234",
      "arguments":["-1",
      "0x2711",
      "7",
      "0"],
      "registers":["0xffffffffffffffff",
      "0x2711",
      "0x7"],
      "xmm":["0x3ff8000000000000"],
      "result":"-2",
      "rax":"0xfffffffffffffffe",
      "xmm0":"0x0",
      "place":{"path":"app.rb",
      "line":12,
      "function":"show\u202e"},
      "library":{"path":"/var/lib/gems/3.1.0/gems/mysql2-0.5/lib/mysql2/client.rb",
      "line":151,
      "function":"query"},
      "callers":["/lib/libwork.so(outer+0x1f) [0x7f002000]"]}
    {"record":"call",
      "pid":71,
      "tid":72,
      "time_ns":1700000001000023914,
      "duration_ns":null,
      "ended":"open",
      "depth":0,
      "function":"work",
      "module":"/lib/libwork.so",
      "address":"0x7f001000",
      "from":"/usr/bin/shop \"1\"",
      "caller":"0x401234",
      "arguments":["0",
      "0",
      "0",
      "0"],
      "registers":[],
      "xmm":["0x3ff8000000000000"],
      "result":null,
      "rax":null,
      "xmm0":null,
      "place":null,
      "library":null,
      "callers":[]}
    "##);
}
