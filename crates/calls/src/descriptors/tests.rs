//! Descriptors by events that are made here.

use super::effect::ON_EXEC;
use super::*;
use crate::event::CallEdge;
use process::functions::Function;
use prototypes::capture::{Registers, Returned};
use prototypes::show::Captures;
use std::sync::Arc;

/// A process of one thread that makes system calls one after the other, a second each.
#[derive(Default)]
struct Guest {
    descriptors: Descriptors,
    second: u64,
}

impl Guest {
    fn call(&mut self, name: &str, arguments: [u64; 3], result: i64) {
        let function = Function {
            name: name.into(),
            module: process::functions::SYSTEM.into(),
            ..Function::default()
        };
        let [first, second, third] = arguments;
        let call = Call {
            edge: Arc::new(CallEdge {
                function: Arc::new(function),
                ..CallEdge::default()
            }),
            caller: 0,
            registers: Registers {
                gp: [first, second, third, 0, 0, 0],
                ..Registers::default()
            },
            captures: Captures::new(),
            line: None,
            library: None,
            callers: Vec::new(),
        };
        self.second += 1;
        let at = At {
            process: 7,
            time: Duration::from_secs(self.second),
            ..At::default()
        };
        if let Some(opening) = self.descriptors.enter(at, &call) {
            let back = Return {
                returned: Returned {
                    rax: result as u64,
                    ..Returned::default()
                },
                captures: Captures::new(),
            };
            let key = (name.to_owned(), Site::default());
            self.descriptors.leave(at, opening, &back, key);
        }
    }

    /// What is still open by call: how many of how many, and whether it leaks.
    fn rows(self, held: Held) -> (StillOpen, Vec<(String, u64, u64, bool)>) {
        let all = self.descriptors.finish(&[(7, held)]);
        let rows = all.rows.iter();
        let rows = rows.map(|row| (row.call.clone(), row.open, row.opened, row.leaks));
        let rows = rows.collect();
        (all, rows)
    }
}

fn row(call: &str, open: u64, opened: u64, leaks: bool) -> (String, u64, u64, bool) {
    (call.to_owned(), open, opened, leaks)
}

#[test]
fn what_is_closed_is_open_no_more() {
    let mut guest = Guest::default();
    guest.call("openat", [0; 3], 5);
    guest.call("close", [5, 0, 0], 0);
    guest.call("openat", [0; 3], 5);
    guest.call("openat", [0; 3], -2);
    guest.call("socket", [0; 3], 6);
    guest.call("fcntl", [6, libc::F_DUPFD_CLOEXEC as u64, 0], 7);
    guest.call("fcntl", [6, libc::F_GETFL as u64, 0], 2);
    // Over an open one, over itself, and over one from before.
    guest.call("dup2", [6, 5, 0], 5);
    guest.call("dup2", [6, 6, 0], 6);
    guest.call("dup3", [6, 1, 0], 1);
    guest.call("close_range", [6, u64::from(u32::MAX), ON_EXEC], 0);
    guest.call("close_range", [6, 6, 0], 0);
    guest.call("close", [2, 0, 0], 0);
    let held = Held {
        before: [0, 1, 2, 9].into(),
        ..Held::default()
    };
    let (all, rows) = guest.rows(held);
    let expected = [
        row("fcntl", 1, 1, false),
        row("dup2", 1, 1, false),
        row("dup3", 1, 1, false),
    ];
    let sorted = |mut rows: Vec<(String, u64, u64, bool)>| {
        rows.sort();
        rows
    };
    assert_eq!(sorted(rows), sorted(expected.to_vec()));
    assert_eq!((all.opened, all.open), (6, 3));
    assert_eq!((all.before, all.before_closed), (4, 2));
}

#[test]
fn what_stays_of_each_quarter_leaks_and_a_pool_does_not() {
    let mut guest = Guest::default();
    for fd in 0..5 {
        guest.call("socket", [0; 3], 100 + fd);
    }
    for fd in 0..20 {
        guest.call("openat", [0; 3], 200 + fd);
        guest.call("accept4", [0; 3], 50);
        guest.call("close", [50, 0, 0], 0);
    }
    guest.call("accept4", [0; 3], 50);
    let (_, rows) = guest.rows(Held::default());
    let expected = [
        row("openat", 20, 20, true),
        row("socket", 5, 5, false),
        row("accept4", 1, 21, false),
    ];
    assert_eq!(rows, expected);
}

#[test]
fn the_kernels_own_list_has_the_last_word() {
    let mut guest = Guest::default();
    guest.call("openat", [0; 3], 5);
    guest.call("openat", [0; 3], 6);
    let held = Held {
        before: [0].into(),
        leaving: [0, 6, 8].into(),
        after: Some(
            [
                (0, String::new()),
                (6, "/srv/a".into()),
                (8, String::new()),
                (9, String::new()),
            ]
            .into(),
        ),
        limit: Some(1024),
    };
    let (all, rows) = guest.rows(held);
    assert_eq!(rows, [row("openat", 1, 2, false)]);
    assert_eq!(all.rows[0].example, "/srv/a");
    assert_eq!((all.closed_unseen, all.came_unseen), (1, 1));
}

/// Whether the result is a descriptor is said by the command of `bpf` and the flags of `landlock_create_ruleset`.
#[test]
fn what_a_command_opens_is_still_open() {
    let mut guest = Guest::default();
    // BPF_MAP_CREATE, BPF_MAP_LOOKUP_ELEM; a rule set, its version.
    guest.call("bpf", [0, 0, 0], 5);
    guest.call("bpf", [1, 0, 0], 0);
    guest.call("landlock_create_ruleset", [0x1000, 8, 0], 6);
    guest.call("landlock_create_ruleset", [0, 0, 1], 4);
    guest.call("fsopen", [0x1000, 0, 0], 7);
    guest.call("close", [7, 0, 0], 0);
    let (all, rows) = guest.rows(Held::default());
    assert_eq!((all.opened, all.open), (3, 2));
    let names: Vec<&str> = rows.iter().map(|(name, ..)| name.as_str()).collect();
    assert_eq!(names, ["bpf", "landlock_create_ruleset"]);
}
