//! The answers of `lancet heap` on a made-up shop.

#[path = "../../../heap/examples/shop.rs"]
mod shop;

use heap::answers::Answers;
use heap::answers::diff::Diff;
use heap::{
    About, Allocated, Analysis, Builder, Memory, Object, Role, RootKind, RootName, Snapshot,
};
use report::Style;
use report::heap::{
    FORMATS, Format, Options, diff, dump_all, heapsnapshot, html, json, owner, path, stacks, table,
};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Command;

const OPTIONS: Options = Options {
    top: 4,
    contents: true,
    style: Style {
        color: false,
        width: None,
    },
    stacks: &report::forms::stacks::FOLDED,
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
note: roots that lead to addresses at which no object was found: 1

Hash @global $cache retains 376.0 KiB (46 %): 4,000 × Order, most made at app/order.rb:31
  0x20000, path: global $cache Hash
";
    assert!(text.starts_with(expected), "{text}");
    let born = "
made in the 20.0 s before the snapshot, and alive: 4,100 objects, 384.4 KiB
Hash @global $cache holds 4,000 new objects, 375.0 KiB, most of it Order, most made at app/order.rb:31
  path of one: global $cache Hash → [";
    assert!(text.contains(born), "{text}");
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
        let ways = answers.paths.merged(orders, OPTIONS.top);
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

/// A snapshot that says what was allocated beside slots, and how much of that malloc has in use.
fn with_allocated() -> Snapshot {
    let one = |kind: &str, objects, bytes, in_malloc| Allocated {
        kind: kind.into(),
        objects,
        bytes,
        in_malloc,
    };
    Builder::new(About {
        allocated: vec![
            one("STRING", 4000, 3 << 20, 4 << 20),
            one("HASH", 20, 1 << 20, 1 << 20),
            one("DATA:par\u{1b}ser", 3, 900, 1024),
            one("ARRAY", 1, 8, 32),
        ],
        memory: Memory {
            malloc: Some(7 << 20),
            ..Memory::default()
        },
        ..About::default()
    })
    .finish()
}

#[test]
fn what_no_object_has_of_malloc_is_what_is_left() {
    let snapshot = with_allocated();
    let table = |options: &Options| {
        written(&snapshot, |out, answers| {
            table::FORMAT.write(out, answers, options).expect("memory");
        })
    };
    let text = table(&Options { top: 2, ..OPTIONS });
    let wanted = "
of the 7.0 MiB that it has from malloc, its objects have beside their slots
malloc's  asked for  objects  kind
 4.0 MiB    3.0 MiB    4,000  STRING
 1.0 MiB    1.0 MiB       20  HASH
 1.0 KiB      908 B        4  2 more kinds
 2.0 MiB                      of none of these objects: C libraries and extensions, tables and code of the VM's
";
    assert!(text.contains(wanted), "{text}");
    assert!(
        !table(&OPTIONS).contains('\u{1b}'),
        "it would reach the terminal"
    );
    let json = formatted(&snapshot, &json::FORMAT);
    let last = json.lines().rfind(|line| line.contains("allocated"));
    assert_eq!(
        last,
        Some(
            r#"{"record":"allocated","kind":null,"objects":null,"bytes":null,"in_malloc":2096096}"#
        )
    );
    let page = formatted(&snapshot, &html::FORMAT);
    assert!(
        page.contains(r#"[4194304,3145728,4000,"STRING"]"#),
        "{page}"
    );
}

#[test]
fn json_has_all_kinds_of_records() {
    let snapshot = shop::planted();
    let mut text = formatted(&snapshot, &json::FORMAT);
    text += &formatted(&with_allocated(), &json::FORMAT);
    text += &written(&snapshot, |out, answers| {
        let ways = answers.paths.merged(0..snapshot.len() as u32, OPTIONS.top);
        path::class(out, answers, &ways, &json::FORMAT, &OPTIONS).expect("memory");
        path::object(out, answers, 0, &json::FORMAT, &OPTIONS).expect("memory");
    });
    text += &written(&snapshot, |out, answers| {
        let earlier = Builder::new(About::default()).finish();
        let diff = Diff::of(&Analysis::of(&earlier), answers.analysis);
        diff::write(out, answers, &diff, &json::FORMAT, &OPTIONS).expect("memory");
    });
    let mut records = Vec::new();
    for line in text.lines() {
        let value: Value = serde_json::from_str(line).expect("JSON");
        records.push(value["record"].as_str().expect("a record").to_owned());
    }
    records.sort();
    records.dedup();
    let all = [
        "allocated",
        "born",
        "change",
        "diff",
        "equal_texts",
        "garbage",
        "group",
        "holder",
        "new_at",
        "note",
        "path",
        "process",
        "rest",
        "same_name",
        "snapshot",
        "sparse",
        "stack",
        "suspect",
        "way",
    ];
    assert_eq!(records, all);
}

#[test]
fn what_a_guest_says_does_not_act_on_a_terminal() {
    let mut builder = Builder::new(About {
        command_line: vec!["a\x1b[2J\nb".into()],
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
        assert!(!text.contains("2J\nb"), "{text}");
    }
}

#[test]
fn what_is_new_is_told_with_its_holder() {
    let later = shop::planted();
    let earlier = Builder::new(About::default()).finish();
    let text = written(&later, |out, answers| {
        let diff = Diff::of(&Analysis::of(&earlier), answers.analysis);
        diff::write(out, answers, &diff, &table::FORMAT, &OPTIONS).expect("memory");
    });
    for line in [
        "\nnew and living: 9,114 objects, 816.5 KiB; gone: 0 objects, 0 B\n",
        "\nnote: not all births between the two snapshots were seen, so an address",
        "\nno single object holds ",
        "\n  4,100  +4,100  4,100  384.4 KiB   384.4 KiB  Order\n",
        "app/order.rb:31\n",
    ] {
        assert!(text.contains(line), "{line:?} is not in {text}");
    }
}

#[test]
fn collapsed_stacks_add_up_to_all_that_lives() {
    let snapshot = shop::planted();
    let text = formatted(&snapshot, &stacks::FORMAT);
    assert!(
        text.contains(
            "Hash (global $cache) 1000\nHash (global $cache);Order;made at app/order.rb:31 383040\n"
        ),
        "{text}"
    );
    let numbers = text
        .lines()
        .map(|line| line.rsplit_once(' ').expect("a number").1);
    let sum: u64 = numbers
        .map(|number| number.parse::<u64>().expect("a number"))
        .sum();
    assert_eq!(sum, Analysis::of(&snapshot).living().bytes);
}

/// Runs a program on text; `None` if there is no such program.
fn run(program: &str, args: &[&str], text: &str) -> Option<String> {
    use std::io::Write;
    let mut child = Command::new(program)
        .args(args)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .ok()?;
    let mut input = child.stdin.take().expect("piped");
    let text = text.to_owned();
    // Both directions at once: the program may answer before it has read everything.
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = child.wait_with_output().expect("it ran");
    writer.join().expect("no panic").expect("it has read all");
    assert!(output.status.success(), "{output:?}");
    Some(String::from_utf8(output.stdout).expect("UTF-8"))
}

#[test]
fn lines_of_dump_all_have_the_keys_and_types_that_ruby_writes() {
    let script = "require 'objspace'; require 'json'; class Order; def initialize; @a = [1.5e300, {a: 'x'}]; end; end
        ObjectSpace.trace_object_allocations_start; $x = Order.new
        lines = ObjectSpace.dump_all(output: :string).lines.map { |line| JSON.parse(line) }
        keys = lines.group_by { |line| line['type'] }.map { |type, all| [type, all.flat_map(&:keys).uniq] }
        flags = lines.flat_map { |line| (line['flags'] || {}).keys }.uniq
        puts JSON.generate([keys.to_h, flags, lines.filter_map { |line| line['imemo_type'] }.uniq])
        $stdin.read";
    let Some(real) = run("ruby", &["-e", script], "") else {
        println!("SKIPPED: there is no ruby to compare with");
        return;
    };
    let real: Value = serde_json::from_str(&real).expect("JSON");
    let text = formatted(&shop::planted(), &dump_all::FORMAT);
    let mut objects = 0;
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).expect("JSON");
        let kind = line["type"].as_str().expect("a type");
        // The kernel of Ruby keeps threads and blocks in objects of type DATA.
        let theirs = &real[0][if matches!(kind, "THREAD" | "PROC") {
            "DATA"
        } else {
            kind
        }];
        let theirs: Vec<&str> = theirs
            .as_array()
            .unwrap_or_else(|| panic!("no {kind} in {real}"))
            .iter()
            .filter_map(Value::as_str)
            .collect();
        for (key, value) in line.as_object().expect("an object") {
            // Only those that `trace_object_allocations` has seen have lines, so not each type has them there.
            let ours = matches!(key.as_str(), "file" | "line" | "generation");
            assert!(ours || theirs.contains(&key.as_str()), "{kind}: {key}");
            if key == "flags" {
                assert_eq!(value.as_object().map(|flags| flags.len()), Some(0));
            }
        }
        objects += u64::from(kind != "ROOT");
    }
    assert_eq!(objects, 9214);
    // sheap reads the text itself: it splits lists at a comma and a space, and wants a key behind the bytes.
    let mut roots = text.lines().filter(|line| line.contains("\"ROOT\""));
    let global = "{\"type\":\"ROOT\", \"root\":\"global_tbl\", \"references\":[";
    let globals = roots.find_map(|line| line.strip_prefix(global)?.strip_suffix("]}"));
    let globals: Vec<&str> = globals.expect("global variables").split(", ").collect();
    assert!(globals.contains(&"\"0x20000\""), "{globals:?}");
    let has_bytes = |line: &&str| line.contains(", \"memsize\":") && line.contains(", \"flags\":{");
    assert_eq!(text.lines().filter(has_bytes).count() as u64, objects);
}

#[test]
fn a_heapsnapshot_is_consistent_and_devtools_retains_what_we_say() {
    let snapshot = shop::planted();
    let text = formatted(&snapshot, &heapsnapshot::FORMAT);
    let value: Value = serde_json::from_str(&text).expect("JSON");
    let list = |name: &str| value[name].as_array().expect("a list").clone();
    let (nodes, edges, strings) = (list("nodes"), list("edges"), list("strings"));
    let meta = &value["snapshot"];
    assert_eq!(meta["node_count"], nodes.len() / 7);
    assert_eq!(meta["edge_count"], edges.len() / 3);
    let counts: u64 = nodes
        .chunks(7)
        .map(|node| node[4].as_u64().expect("a number"))
        .sum();
    assert_eq!(meta["edge_count"], counts);
    for edge in edges.chunks(3) {
        let to = edge[2].as_u64().expect("a number") as usize;
        assert!(to.is_multiple_of(7) && to < nodes.len() && to > 0);
        assert!(edge[0] == 1 || edge[1].as_u64().expect("a number") < strings.len() as u64);
    }
    // DevTools refuses a root that has two edges to one object.
    let roots = nodes[4].as_u64().expect("a number") as usize;
    let mut targets: Vec<_> = edges
        .chunks(3)
        .take(roots)
        .map(|edge| edge[2].as_u64())
        .collect();
    targets.sort();
    targets.dedup();
    assert_eq!((targets.len(), roots), (7, 7));
    assert!(snapshot.roots().len() > roots);
    // The worker of DevTools itself: see fixtures/devtools/README.md.
    let folder = std::env::var("LANCET_DEVTOOLS").unwrap_or_default();
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fixtures/devtools/load.mjs"
    );
    let said = match folder.as_str() {
        "" => None,
        folder => run("node", &[script, folder], &text),
    };
    let Some(said) = said else {
        println!(
            "SKIPPED: LANCET_DEVTOOLS names no folder with the npm packages chrome-devtools-frontend and esbuild, or there is no node"
        );
        return;
    };
    let said: Value = serde_json::from_str(&said).expect("JSON");
    let analysis = Analysis::of(&snapshot);
    assert_eq!(
        said["nodes"],
        snapshot.len() as u64 - analysis.garbage().objects + 1
    );
    assert_eq!(said["total"], analysis.living().bytes);
    let cache = snapshot.at(shop::CACHE).expect("an object");
    assert_eq!(said["Hash"]["retained"], analysis.retained(cache));
    assert_eq!(said["Order"]["count"], 4100);
}

/// A real Chromium has nothing to complain of, and does by keyboard what the page promises: see fixtures/devtools/README.md.
#[test]
fn the_page_and_the_panel_of_a_real_browser() {
    let folder = std::env::var("LANCET_DEVTOOLS").unwrap_or_default();
    if !Path::new(&folder)
        .join("node_modules/puppeteer-core")
        .is_dir()
    {
        println!("SKIPPED: LANCET_DEVTOOLS names no folder with the npm package puppeteer-core");
        return;
    }
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fixtures/devtools/browser.mjs"
    );
    let written = |name: &str, format: &Format| {
        let file = std::env::temp_dir().join(format!("lancet-{}-{name}", std::process::id()));
        fs::write(&file, formatted(&shop::planted(), format)).expect("written");
        file
    };
    let found = |mode: &str, file: &Path| {
        let file = file.to_str().expect("plain text");
        let said = run("node", &[script, &folder, mode, file], "").expect("node");
        fs::remove_file(file).expect("it was there");
        serde_json::from_str::<Value>(&said).expect("JSON")
    };
    let page = found("page", &written("page.html", &html::FORMAT));
    assert_eq!(page["complaints"], json!([]), "{page}");
    assert_eq!(page["wide"], json!([]), "{page}");
    assert_ne!(page["colours"][0], page["colours"][1], "{page}");
    let did = [
        "chosen", "filtered", "typed", "whole", "sorted", "inside", "back",
    ];
    let did = did.map(|what| page[what].clone());
    let done = json!(["#objects", true, "string/", true, "descending", 2, true]);
    assert_eq!(json!(did), done, "{page}");
    let panel = found(
        "panel",
        &written("shop.heapsnapshot", &heapsnapshot::FORMAT),
    );
    assert_eq!(panel["complaints"], json!([]), "{panel}");
    let rows = panel["rows"].as_array().expect("a list");
    assert!(rows.contains(&json!("×4,100")), "orders: {panel}");
}
