//! Writes the snapshot of a made-up shop, to try `lancet heap` on: a cache in a global, an array that a block has caught, and
//! a thread's local.
//!
//! ```text
//! cargo run -p lancet-heap --example shop -- /tmp/shop.heap
//! ```

#![allow(
    dead_code,
    missing_docs,
    reason = "tests take it as a module, each a part of it"
)]

use std::io::Write;

use heap::{About, Builder, EdgeName, Object, Role, RootKind, RootName, Snapshot};

/// Since when births were watched, in nanoseconds since 1970.
const WATCHED: u64 = 1_000_000_000;

fn main() {
    let path = std::env::args_os().nth(1).expect("a path to write to");
    let mut file = std::io::BufWriter::new(std::fs::File::create(path).expect("a new file"));
    planted().write(&mut file).expect("written");
    file.flush().expect("written");
}

// Where the objects are that tests ask for.

pub const VM: u64 = 0x1_0000;
pub const OBJECT_CLASS: u64 = 0x1_1000;
pub const ORDER_CLASS: u64 = 0x1_2000;
pub const THREAD: u64 = 0x1_3000;
pub const CACHE: u64 = 0x2_0000;
pub const CALLBACKS: u64 = 0x3_0000;
pub const PROC: u64 = 0x3_1000;
pub const ENV: u64 = 0x3_2000;
pub const CAUGHT: u64 = 0x3_3000;
pub const SESSION: u64 = 0x4_0000;
pub const LOOSE: u64 = 0x5_0000;
pub const ORDERS: u64 = 0x100_0000;
pub const TEXTS: u64 = 0x200_0000;
pub const LOGS: u64 = 0x300_0000;

/// A heap with three holders: a hash in `$cache` of 4,000 orders, an array that a block in a list of callbacks has caught,
/// with 3,000 strings, and an array in a thread's local of 2,000 logs; 100 orders more are held by two objects each.
pub fn planted() -> Snapshot {
    let mut builder = Builder::new(About {
        language: "ruby".into(),
        version: "3.1.2".into(),
        pid: 4242,
        command_line: vec!["bin/shop".into()],
        host: "web1".into(),
        rss: 5 << 20,
        taken_at: WATCHED + 20_000_000_000,
        ..About::default()
    });
    let kinds = [
        (&b"OBJECT"[..], Role::Instance),
        (b"CLASS", Role::Class),
        (b"HASH", Role::Map),
        (b"ARRAY", Role::List),
        (b"STRING", Role::Text),
        (b"THREAD", Role::Thread),
        (b"PROC", Role::Function),
        (b"IMEMO:env", Role::Internal),
    ]
    .map(|(name, role)| builder.kind(name, role));
    let [object, class, hash, array, string, thread, proc, env] = kinds;
    let mut text = |text: &str| builder.text(text.as_bytes());
    let names = [
        "Order",
        "Log",
        "Hash",
        "Array",
        "String",
        "Class",
        "$cache",
        "app/order.rb",
        "rows",
        "CALLBACKS",
        ":key",
        "Proc",
    ]
    .map(&mut text);
    let [
        order,
        log,
        hash_name,
        array_name,
        string_name,
        class_name,
        cache,
        file,
        rows,
        callbacks,
        key,
        proc_name,
    ] = names;

    builder.object(Object {
        bytes: 100,
        class: Some(class_name),
        label: Some(string_name),
        ..Object::new(OBJECT_CLASS, class)
    });
    builder.edge(ORDER_CLASS, EdgeName::Constant(Some(order)));
    builder.edge(CALLBACKS, EdgeName::Constant(Some(callbacks)));
    for at in [ORDER_CLASS, ORDER_CLASS + 8, ORDER_CLASS + 16] {
        builder.object(Object {
            bytes: 100,
            class: Some(class_name),
            label: Some(order),
            ..Object::new(at, class)
        });
        builder.edge(OBJECT_CLASS, EdgeName::Superclass);
    }
    builder.object(Object {
        bytes: 100,
        ..Object::new(THREAD, thread)
    });
    builder.edge(SESSION, EdgeName::ThreadLocal(Some(rows)));
    builder.object(Object {
        bytes: 1000,
        class: Some(hash_name),
        length: Some(4000),
        capacity: Some(4096),
        ..Object::new(CACHE, hash)
    });
    for number in 0..4000 {
        builder.edge(ORDERS + number * 40, EdgeName::Value(None));
    }
    builder.object(Object {
        bytes: 40,
        class: Some(array_name),
        length: Some(1),
        capacity: Some(64),
        ..Object::new(CALLBACKS, array)
    });
    builder.edge(PROC, EdgeName::Index(0));
    builder.object(Object {
        bytes: 40,
        class: Some(proc_name),
        ..Object::new(PROC, proc)
    });
    builder.edge(ENV, EdgeName::Closure);
    builder.object(Object {
        bytes: 40,
        ..Object::new(ENV, env)
    });
    builder.edge(CAUGHT, EdgeName::Local(Some(rows)));
    builder.object(Object {
        bytes: 400,
        class: Some(array_name),
        ..Object::new(CAUGHT, array)
    });
    for number in 0..3000 {
        builder.edge(TEXTS + number * 40, EdgeName::Index(number as u32));
    }
    builder.object(Object {
        bytes: 400,
        class: Some(array_name),
        ..Object::new(SESSION, array)
    });
    for number in 0..2000 {
        builder.edge(LOGS + number * 40, EdgeName::Index(number as u32));
    }
    for at in [LOOSE, LOOSE + 40] {
        builder.object(Object {
            bytes: 40,
            class: Some(array_name),
            ..Object::new(at, array)
        });
        for number in 4000..4100 {
            builder.edge(ORDERS + number * 40, EdgeName::Index(number as u32));
        }
    }
    for number in 0..4200 {
        builder.object(Object {
            bytes: 96,
            class: Some(order),
            site: Some((file, if number < 10 { 7 } else { 31 })),
            birth: WATCHED,
            ..Object::new(ORDERS + number * 40, object)
        });
        builder.edge(ORDER_CLASS, EdgeName::ClassOf);
    }
    for number in 0..3000 {
        builder.object(Object {
            bytes: 80,
            class: Some(string_name),
            fingerprint: Some(number / 3),
            length: Some(3),
            ..Object::new(TEXTS + number * 40, string)
        });
    }
    for number in 0..2000 {
        builder.object(Object {
            bytes: 100,
            class: Some(log),
            ..Object::new(LOGS + number * 40, object)
        });
    }
    let vm = RootName::new(RootKind::Vm);
    builder.object(Object {
        bytes: 10,
        ..Object::new(VM, env)
    });
    builder.edge(OBJECT_CLASS, EdgeName::Internal);
    for at in [
        VM,
        THREAD,
        LOOSE,
        LOOSE + 40,
        CACHE,
        ORDER_CLASS + 8,
        ORDER_CLASS + 16,
    ] {
        builder.root(at, vm);
    }
    builder.root(CACHE, RootName::named(RootKind::Global, cache));
    builder.root(SESSION - 8, RootName::named(RootKind::Global, key));
    builder.finish()
}
