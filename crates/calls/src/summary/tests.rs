//! Rows by events that are made here.

use super::*;
use crate::event::{At, Call, CallEdge, Return};
use prototypes::capture::{Registers, Returned};
use prototypes::show::Captures;

#[test]
fn quantiles_lie_within_their_bucket() {
    let mut row = Row {
        calls: 100,
        left: 0,
        total: 0,
        longest: 5000,
        ..Row::default()
    };
    row.buckets[wire::calls::bucket(100)] = 95;
    row.buckets[wire::calls::bucket(5000)] = 5;
    assert!((100..=128).contains(&row.quantile(50)));
    assert!((100..=128).contains(&row.quantile(95)));
    assert_eq!(row.quantile(99), 5000);
}

/// A process of one thread that makes calls one after the other, a microsecond each.
struct Guest {
    rows: Rows,
    time: Duration,
}

impl Guest {
    fn new(presets: &[Preset]) -> Self {
        Guest {
            rows: Rows::new(presets, 32, false),
            time: Duration::ZERO,
        }
    }

    fn tell(&mut self, frame: u64, kind: EventKind) {
        self.time += Duration::from_micros(1);
        let at = At {
            process: 7,
            time: self.time,
            frame,
            ..At::default()
        };
        self.rows.take(Event { at, kind });
    }

    /// A call with a number and a text, and its return.
    fn call(&mut self, name: &str, number: u64, text: &str) {
        self.begin(0, name, number, text);
        self.end(0);
    }

    /// The return of the call with that stack pointer.
    fn end(&mut self, frame: u64) {
        let back = Return {
            returned: Returned::default(),
            captures: Captures::new(),
        };
        self.tell(frame, EventKind::Return(back));
    }

    /// A call that has not returned.
    fn begin(&mut self, frame: u64, name: &str, number: u64, text: &str) {
        const TEXT: u64 = 0x1000;
        let function = Function {
            name: name.into(),
            ..Function::default()
        };
        let mut captures = Captures::new();
        captures.add(TEXT, format!("{text}\0").as_bytes());
        let call = Call {
            edge: Arc::new(CallEdge {
                function: Arc::new(function),
                ..CallEdge::default()
            }),
            caller: 0,
            registers: Registers {
                gp: [number, TEXT, 0, 0, 0, 0],
                ..Registers::default()
            },
            captures,
            line: None,
            library: None,
            callers: Vec::new(),
        };
        self.tell(frame, EventKind::Call(call));
    }
}

/// `acquire` of a VM waits in `wait` of the C library, in its own way or in that of another function which no preset has.
#[test]
fn a_wait_within_a_wait_is_a_part_of_it() {
    let text = "acquire whole\nwait whole\ncallback\nquery text arg2";
    let locks = Preset::parse("locks", text).unwrap();
    let other = Preset::parse("other", "waits_too whole").unwrap();
    let mut guest = Guest::new(&[locks, other]);
    guest.begin(900, "acquire", 0, "");
    guest.begin(800, "another", 0, "");
    for _ in 0..3 {
        guest.begin(700, "wait", 0, "");
        guest.end(700);
    }
    // Left by an exception, as is `another`.
    guest.begin(700, "wait", 0, "");
    guest.end(900);
    // Of another preset, so not a part of it.
    guest.begin(900, "acquire", 0, "");
    guest.begin(800, "waits_too", 0, "");
    guest.end(800);
    guest.end(900);
    // By itself, and within a statement, which a lock is no part of.
    guest.begin(900, "wait", 0, "");
    guest.end(900);
    guest.begin(900, "query", 0, "SELECT 1");
    guest.begin(800, "wait", 0, "");
    guest.end(800);
    guest.end(900);
    // Of a function that calls what it was given: that is no part of it, and what that waits in is one wait.
    guest.begin(900, "callback", 0, "");
    guest.begin(800, "acquire", 0, "");
    guest.begin(700, "wait", 0, "");
    for frame in [700, 800, 900] {
        guest.end(frame);
    }
    guest.rows.finish(&SourceEnd::default());
    let rows = guest.rows.sorted(Order::Name);
    let rows: Vec<_> = rows
        .iter()
        .map(|(key, row)| (key.0.as_str(), row.calls, row.left))
        .collect();
    assert_eq!(
        rows,
        [
            ("acquire", 3, 0),
            ("another", 1, 1),
            ("callback", 1, 0),
            ("query \"SELECT 1\"", 1, 0),
            ("wait", 2, 0),
            ("waits_too", 1, 0)
        ]
    );
}

#[test]
fn rows_without_end_are_one_row() {
    let mut guest = Guest::new(&[]);
    let all = MOST as u64 + 500;
    for number in 0..all {
        guest.call(&format!("function_{number}"), 0, "");
    }
    guest.rows.finish(&SourceEnd::default());
    let sorted = guest.rows.sorted(Order::Calls);
    assert_eq!(sorted.len(), MOST + 1);
    assert_eq!(sorted[0].0.0, OTHERS);
    assert_eq!(sorted[0].1.calls, 500);
    let calls: u64 = sorted.iter().map(|(_, row)| row.calls).sum();
    assert_eq!(calls, all);
    assert_eq!(guest.rows.forgotten().rows, 500);
}

/// As when the database hangs: that is when somebody looks.
#[test]
fn statements_without_a_result_are_counted() {
    let preset = Preset::parse("test", "send text arg2 until result arg1").unwrap();
    let mut guest = Guest::new(&[preset]);
    for connection in 0..5 {
        guest.call("send", connection, "SELECT 1");
    }
    for connection in 0..2 {
        guest.call("result", connection, "");
    }
    guest.rows.finish(&SourceEnd::default());
    let sorted = guest.rows.sorted(Order::Calls);
    let [(key, row)] = sorted[..] else {
        panic!("{sorted:?}");
    };
    assert_eq!(key.0, "send \"SELECT 1\"");
    assert_eq!((row.calls, row.left), (5, 3));
    assert_eq!(row.total, 2 * 11_000, "the time until the result");
}

/// What there is no room for any more is in its row, and is said.
#[test]
fn statements_without_end_are_counted() {
    let preset = Preset::parse("test", "send text arg2 until result arg1").unwrap();
    let mut guest = Guest::new(&[preset]);
    let all = (1 << 16) + 10;
    for connection in 0..all {
        guest.call("send", connection, "SELECT 1");
    }
    guest.rows.finish(&SourceEnd::default());
    let calls: u64 = guest
        .rows
        .sorted(Order::Calls)
        .iter()
        .map(|(_, row)| row.calls)
        .sum();
    assert_eq!(calls, all);
    assert_eq!(guest.rows.forgotten().statements, 1 << 16);
}

/// As a process can have written them.
#[test]
fn figures_that_fit_no_sum_are_borne() {
    let mut row = Row {
        calls: u64::MAX,
        left: 0,
        longest: 7,
        ..Row::default()
    };
    row.buckets = vec![u64::MAX; BUCKETS];
    assert_eq!((row.mean(), row.quantile(99)), (0, 1));
    let row = Row {
        calls: 1,
        left: 2,
        ..Row::default()
    };
    assert_eq!((row.mean(), row.quantile(50)), (0, 0));
}
