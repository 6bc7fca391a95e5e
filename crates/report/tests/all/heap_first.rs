//! What `lancet heap` says before all else, because the rest means little without it.

use heap::answers::Answers;
use heap::{
    About, Analysis, Builder, Collector, EdgeName, Flags, Object, Role, RootKind, RootName,
    Snapshot,
};
use report::Style;
use report::heap::suspects::suspect;
use report::heap::{Options, json, owner, table};
use serde_json::Value;

const OPTIONS: Options = Options {
    top: 4,
    contents: false,
    style: Style {
        color: false,
        width: None,
    },
    stacks: &report::forms::stacks::FOLDED,
};

const COLLECTOR: &str = "the program has switched its collector off (GC.disable): nothing frees 1 object of garbage, 1.0 MiB";
const LITTLE: &str = "all objects together are 1.0 % of the 100.0 MiB that are resident: lancet heap --rss says what the other 99.0 MiB are";
const SUMS: &str = "0 living objects, 0 B, 0 references; 1 objects of garbage, 1.0 MiB, which nothing frees while the collector is switched off; resident memory 100.0 MiB";

/// A process of 100 MiB with one object of garbage, whose collector is off.
fn switched_off() -> Snapshot {
    let mut builder = Builder::new(About {
        language: "ruby".into(),
        collector: Collector::Off,
        rss: 100 << 20,
        ..About::default()
    });
    let kind = builder.kind(b"STRING", Role::Instance);
    builder.object(Object {
        bytes: 1 << 20,
        ..Object::new(16, kind)
    });
    builder.finish()
}

fn formatted(format: &report::heap::Format) -> String {
    let snapshot = switched_off();
    let analysis = Analysis::of(&snapshot);
    let mut out = Vec::new();
    format
        .write(&mut out, &Answers::of(&analysis, owner), &OPTIONS)
        .expect("memory");
    String::from_utf8(out).expect("text")
}

#[test]
fn it_stands_before_the_sums() {
    let text = formatted(&table::FORMAT);
    let said: Vec<&str> = text.lines().skip(1).take(3).collect();
    assert_eq!(said, [COLLECTOR, LITTLE, SUMS]);
}

#[test]
fn it_stands_in_json() {
    let text = formatted(&json::FORMAT);
    let records: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(records[1]["collector_off"], true);
    for (record, text) in records[2..].iter().zip([COLLECTOR, LITTLE]) {
        assert_eq!(
            (&record["record"], &record["text"]),
            (&Value::from("note"), &Value::from(text))
        );
    }
}

/// A thread is no suspect, because much hangs on each; but it is named where it is the one on which a group hangs.
#[test]
fn who_holds_a_group_is_said() {
    let said = |on_roots: u64| {
        let mut builder = Builder::new(About {
            language: "ruby".into(),
            rss: 100 << 20,
            ..About::default()
        });
        let (thread, hash) = (
            builder.kind(b"THREAD", Role::Thread),
            builder.kind(b"HASH", Role::Instance),
        );
        let label = Some(builder.text(b"pool-1"));
        builder.object(Object {
            bytes: 1 << 10,
            label,
            ..Object::new(16, thread)
        });
        let root = RootName::named(RootKind::Vm, builder.text(b"threads"));
        for number in 0..200 {
            let at = 1024 + number * 16;
            let key = builder.text(format!("trace_{number}").as_bytes());
            if number >= on_roots {
                builder.edge(at, EdgeName::ThreadLocal(Some(key)));
            }
        }
        builder.root(16, root);
        for number in 0..200 {
            let at = 1024 + number * 16;
            builder.object(Object {
                bytes: 4096,
                ..Object::new(at, hash)
            });
            if number < on_roots {
                builder.root(at, root);
            }
        }
        let snapshot = builder.finish();
        let analysis = Analysis::of(&snapshot);
        let answers = Answers::of(&analysis, owner);
        suspect(&answers, answers.suspects.first().expect("a suspect"))
    };
    assert_eq!(
        said(0),
        "200 × HASH: they retain 800.0 KiB (100 %), and all hang on THREAD pool-1"
    );
    assert_eq!(
        said(20),
        "200 × HASH: they retain 800.0 KiB (100 %), and 180 hang on THREAD pool-1"
    );
    assert_eq!(
        said(150),
        "200 × HASH: they retain 800.0 KiB (100 %), and no single object holds them: 150 are held by the VM threads"
    );
}

/// Where the objects are little of the resident memory, those that C libraries have memory for are named, and who holds them.
#[test]
fn objects_with_memory_of_c_libraries_are_named() {
    let said = |rss: u64, documents: u64| {
        let mut builder = Builder::new(About {
            language: "ruby".into(),
            rss,
            ..About::default()
        });
        let (list, data) = (
            builder.kind(b"ARRAY", Role::List),
            builder.kind(b"DATA", Role::Native),
        );
        let class = Some(builder.text(b"XML::Document"));
        builder.object(Object {
            bytes: 1 << 10,
            ..Object::new(16, list)
        });
        for number in 0..documents {
            builder.edge(1024 + number * 16, EdgeName::Index(number as u32));
        }
        for number in 0..documents {
            builder.object(Object {
                bytes: 40,
                class,
                flags: Flags {
                    unsized_by_c: true,
                    ..Flags::default()
                },
                ..Object::new(1024 + number * 16, data)
            });
        }
        let name = builder.text(b"TITLES");
        builder.root(16, RootName::named(RootKind::Constant, name));
        let snapshot = builder.finish();
        let analysis = Analysis::of(&snapshot);
        let mut out = Vec::new();
        table::FORMAT
            .write(&mut out, &Answers::of(&analysis, owner), &OPTIONS)
            .expect("memory");
        let text = String::from_utf8(out).expect("text");
        let line = text.lines().find(|line| line.starts_with("C libraries "));
        line.map(str::to_owned)
    };
    assert_eq!(
        said(100 << 20, 645).as_deref(),
        Some(
            "C libraries have memory for objects of these types that is in no figure below: 645 × XML::Document (all hang on ARRAY @constant TITLES)"
        )
    );
    // Few of them, or nothing that is to be explained.
    assert_eq!((said(100 << 20, 99), said(1 << 20, 645)), (None, None));
}
