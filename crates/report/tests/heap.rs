//! The answers of `lancet heap` on a made-up shop.

#[path = "../../heap/examples/shop.rs"]
mod shop;

use heap::answers::Answers;
use heap::{About, Analysis, Builder, Object, Role, RootKind, RootName, Snapshot};
use report::Style;
use report::heap::{FORMATS, Format, Options, json, owner, path, table};
use serde_json::Value;

const OPTIONS: Options = Options {
    top: 4,
    contents: true,
    style: Style {
        color: false,
        width: None,
    },
};

fn written(snapshot: &Snapshot, write: impl Fn(&mut Vec<u8>, &Answers)) -> String {
    let analysis = Analysis::of(snapshot);
    let mut out = Vec::new();
    write(&mut out, &Answers::of(&analysis, owner));
    String::from_utf8(out).expect("UTF-8")
}

fn formatted(snapshot: &Snapshot, format: &Format) -> String {
    written(snapshot, |out, answers| {
        format.write(out, answers, &OPTIONS).expect("memory");
    })
}

#[test]
fn the_table_begins_with_the_suspects_and_its_rows_add_up() {
    let text = formatted(&shop::planted(), &table::FORMAT);
    let expected = "\
process 4242 (ruby 3.1.2) bin/shop
9,114 living objects, 816.5 KiB, 13,410 references; 100 objects of garbage, 9.4 KiB, which the next collection frees; resident memory 5.0 MiB
note: 1 roots lead to addresses at which no object was found

Hash @global $cache retains 376.0 KiB (46 %): 4,000 × Order, most made at app/order.rb:31
  0x20000, path: global $cache Hash
";
    assert!(text.starts_with(expected), "{text}");
    let list = "
objects      bytes   retained  made at
  5,014  432.1 KiB  807.1 KiB  (line unknown)
  4,090  383.4 KiB  383.4 KiB  app/order.rb:31
     10      960 B      960 B  app/order.rb:7
";
    assert!(text.contains(list), "{text}");
    assert!(
        text.contains("\n  5,004  429.9 KiB          -  (5 more rows)\n"),
        "{text}"
    );
}

#[test]
fn a_path_is_told_step_by_step_and_ways_are_merged() {
    let snapshot = shop::planted();
    let order = snapshot.at(shop::ORDERS).expect("an order");
    let text = written(&snapshot, |out, answers| {
        path::object(out, answers, order, &table::FORMAT, &OPTIONS).expect("memory");
    });
    assert_eq!(
        text,
        "Order 0x1000000: 96 B itself, retains 96 B
made at app/order.rb:7
it dies with Hash 0x20000, which retains 376.0 KiB
root: global $cache Hash 0x20000, retains 376.0 KiB
   → […] Order 0x1000000, retains 96 B
"
    );
    let text = written(&snapshot, |out, answers| {
        let all = 0..snapshot.len() as u32;
        let orders = all.filter(|one| snapshot.text(snapshot.type_name(*one)) == b"Order");
        let ways = answers.paths.merged(orders);
        path::class(out, answers, &ways, &table::FORMAT, &OPTIONS).expect("memory");
    });
    assert_eq!(
        text,
        "4,000 objects, 375.0 KiB, held so:
  global $cache Hash → […] Order
100 objects, 9.4 KiB, held so:
  the VM Array → […] Order
"
    );
}

/// All names of fields in a value.
fn fields(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                found.push(name.clone());
                fields(value, found);
            }
        }
        Value::Array(list) => list.iter().for_each(|value| fields(value, found)),
        _ => {}
    }
}

#[test]
fn every_field_of_json_is_in_its_page() {
    let schema = include_str!("../../../docs/heap-json.md");
    let snapshot = shop::planted();
    let mut text = formatted(&snapshot, &json::FORMAT);
    text += &written(&snapshot, |out, answers| {
        let ways = answers.paths.merged(0..snapshot.len() as u32);
        path::class(out, answers, &ways, &json::FORMAT, &OPTIONS).expect("memory");
        path::object(out, answers, 0, &json::FORMAT, &OPTIONS).expect("memory");
    });
    let (mut found, mut records) = (Vec::new(), Vec::new());
    for line in text.lines() {
        let value: Value = serde_json::from_str(line).expect("JSON");
        records.push(value["record"].as_str().expect("a record").to_owned());
        fields(&value, &mut found);
    }
    records.sort();
    records.dedup();
    let all = [
        "equal_texts",
        "group",
        "note",
        "path",
        "rest",
        "same_name",
        "snapshot",
        "sparse",
        "stack",
        "suspect",
        "way",
    ];
    assert_eq!(records, all);
    for name in records.iter().chain(&found) {
        assert!(
            schema.contains(&format!("`{name}`")),
            "`{name}` is not in docs/heap-json.md"
        );
    }
}

#[test]
fn what_a_guest_says_does_not_act_on_a_terminal() {
    let mut builder = Builder::new(About {
        command_line: "a\x1b[2J\nb".into(),
        ..About::default()
    });
    let kind = builder.kind(b"K\x1b]0;x\x07", Role::Instance);
    let name = builder.text(b"$\x1b[31m\xff");
    builder.object(Object {
        bytes: 100,
        class: Some(name),
        label: Some(name),
        ..Object::new(16, kind)
    });
    builder.root(16, RootName::named(RootKind::Frame, name));
    let snapshot = builder.finish();
    for format in FORMATS {
        let text = formatted(&snapshot, format);
        assert!(
            !text.contains(|c: char| c.is_control() && c != '\n'),
            "{text:?}"
        );
        assert!(!text.contains("\nb"), "{text}");
    }
}
