//! The page `docs/json.md` and the JSON Schema `docs/json-schema.json`, made of the types. The tests fail where the files are
//! not what the types say; `LANCET_WRITE_DOCS=1 cargo test -p lancet-answer` writes them.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value};

use crate::{calls, heap, mem, patch, profile, rss, stack, syscalls, tune};

/// What the page says before all commands.
const HEAD: &str = "\
# JSON for programs

`--format json` (and `--json`, its short form) writes one JSON object a line, in UTF-8. Every object has a field `record` that
says what it is. This page is made of the types that are written (`crates/answer`), and so is the
[JSON Schema](json-schema.json); it is schema 2. Records and fields may be added; none goes away or changes its meaning
without the number in `process.schema` rising.
";

/// What the page says of each command: the title, the module whose text says which records come when, and the schema.
struct Command {
    name: &'static str,
    title: &'static str,
    source: &'static str,
    schema: Value,
}

fn command<T: JsonSchema>(
    name: &'static str,
    title: &'static str,
    source: &'static str,
) -> Command {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let schema = SchemaGenerator::new(settings).into_root_schema_for::<T>();
    Command {
        name,
        title,
        source,
        schema: schema.to_value(),
    }
}

fn commands() -> Vec<Command> {
    vec![
        command::<mem::Record>("mem", "`lancet mem`", include_str!("mem.rs")),
        command::<heap::Record>("heap", "`lancet heap`", include_str!("heap.rs")),
        command::<rss::Record>("rss", "`lancet heap --rss`", include_str!("rss.rs")),
        command::<calls::Record>("calls", "`lancet calls`", include_str!("calls.rs")),
        command::<syscalls::Record>("syscalls", "`lancet syscalls`", include_str!("syscalls.rs")),
        command::<stack::Record>("stack", "`lancet stack`", include_str!("stack.rs")),
        command::<profile::Record>("profile", "`lancet profile`", include_str!("profile.rs")),
        command::<patch::Record>("patch", "`lancet patch`", include_str!("patch.rs")),
        command::<tune::Record<Value>>("tune", "`lancet tune`", include_str!("tune.rs")),
    ]
}

/// The text that a module begins with.
fn module_text(source: &str) -> String {
    let lines = source.lines().map_while(|line| line.strip_prefix("//!"));
    let lines = lines.map(|line| line.strip_prefix(' ').unwrap_or(line));
    lines.collect::<Vec<_>>().join("\n")
}

/// A field of an object.
struct Field {
    name: String,
    kind: String,
    text: String,
    is_optional: bool,
}

/// The fields of an object with those of what it refers to, in their order; not `record`.
fn fields(schema: &Value, defs: &Map<String, Value>) -> Vec<Field> {
    let mut all = Vec::new();
    if let Some(name) = reference(schema) {
        all.extend(fields(&defs[name], defs));
    }
    for part in schema["allOf"].as_array().into_iter().flatten() {
        all.extend(fields(part, defs));
    }
    let required = schema["required"].as_array();
    let is_required = |name: &str| required.is_some_and(|all| all.iter().any(|one| one == name));
    for (name, value) in schema["properties"].as_object().into_iter().flatten() {
        if name != "record" {
            all.push(Field {
                name: name.clone(),
                kind: kind(value),
                text: text(value),
                is_optional: !is_required(name),
            });
        }
    }
    all
}

fn reference(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str()?.strip_prefix("#/$defs/")
}

/// A description as one line.
fn text(schema: &Value) -> String {
    let text = schema["description"].as_str().unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What values a schema allows, in words.
fn kind(schema: &Value) -> String {
    if let Some(name) = reference(schema) {
        return linked(name);
    }
    if let Some(all) = schema["anyOf"].as_array() {
        let all: Vec<String> = all.iter().map(kind).collect();
        return all.join(" or ");
    }
    match &schema["type"] {
        Value::Array(all) => {
            let one = |name: &Value| {
                let mut one = schema.clone();
                one["type"] = name.clone();
                kind(&one)
            };
            all.iter().map(one).collect::<Vec<_>>().join(" or ")
        }
        Value::String(name) => match name.as_str() {
            "array" => format!("list of {}", kind(&schema["items"])),
            "object" => match schema["additionalProperties"].is_object() {
                true => format!("object of {}", kind(&schema["additionalProperties"])),
                false => "object".into(),
            },
            "integer" | "number" => "number".into(),
            "string" => "text".into(),
            other => other.into(),
        },
        _ => "object".into(),
    }
}

/// An object's name as a link to where it is described; of a word that is one of several, what it is.
fn linked(name: &str) -> String {
    if name == "What" {
        return "text".into();
    }
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit());
    format!("[{plain}](#{})", plain.to_lowercase())
}

fn table(page: &mut String, fields: &[Field]) {
    page.push_str("| field | type | meaning |\n|---|---|---|\n");
    for Field {
        name,
        kind,
        text,
        is_optional,
    } in fields
    {
        let left_out = if *is_optional { ", or left out" } else { "" };
        writeln!(page, "| `{name}` | {kind}{left_out} | {text} |").expect("memory");
    }
}

/// Names of objects that several commands have; they stand once, at the beginning.
const COMMON: &[&str] = &["Language", "Place", "Address", "Loss"];

/// Names of records that several commands have; likewise.
const EVERYWHERE: &[&str] = &["process", "losses"];

fn page() -> String {
    let mut page = HEAD.to_owned();
    let library = module_text(include_str!("lib.rs"));
    let rules = library.split("\n\n").nth(2).expect("the table of shapes");
    let rules: Vec<&str> = rules.lines().filter(|line| line.starts_with('|')).collect();
    let rules = rules.join("\n").replace("[`common::Process`]", "`process`");
    let rules = rules.replace("[`common::Place`]", "[Place](#place)");
    let rules = rules.replace("[`common::Address`]", "[Address](#address)");
    let rules = rules.replace("[`losses::Loss`]", "[Loss](#loss)");
    write!(page, "\n{rules}\n").expect("memory");
    let commands = commands();
    let known = |name: &str| {
        let mut all = commands.iter();
        all.find_map(|command| command.schema["$defs"].get(name))
            .unwrap_or_else(|| panic!("no command has {name}"))
    };
    let none = Map::new();
    page.push_str("\n## In several commands\n\nMost records have `pid`, the process that they are of, and those of a thread `tid`.\n");
    for name in COMMON {
        object(&mut page, name, known(name), &none);
    }
    let mem = &commands[0];
    for name in EVERYWHERE {
        record(&mut page, variant(mem, name), &mem.schema);
    }
    for command in &commands {
        one(&mut page, command);
    }
    page
}

/// The record of this kind.
fn variant<'c>(command: &'c Command, name: &str) -> &'c Value {
    let mut all = command.schema["oneOf"].as_array().expect("an enum").iter();
    all.find(|one| one["properties"]["record"]["const"] == name)
        .unwrap_or_else(|| panic!("no record {name}"))
}

/// One kind of record: what it is, and a row for each field that it does not share with the others.
fn record(page: &mut String, variant: &Value, schema: &Value) {
    let none = Map::new();
    let defs = schema["$defs"].as_object().unwrap_or(&none);
    let name = &variant["properties"]["record"]["const"];
    let name = name.as_str().expect("the name of a record");
    write!(page, "\n### `{name}`\n\n{}\n", text(variant)).expect("memory");
    let mut fields = fields(variant, defs);
    let is_everywhere = |field: &Field| match field.name.as_str() {
        "pid" => field.text.starts_with("The process") && name != "process",
        "tid" => field.text == "The thread.",
        _ => false,
    };
    fields.retain(|field| !is_everywhere(field));
    if !fields.is_empty() {
        page.push('\n');
        table(page, &fields);
    }
}

/// An object that records have in them.
fn object(page: &mut String, name: &str, schema: &Value, defs: &Map<String, Value>) {
    write!(page, "\n### {name}\n\n{}\n", text(schema)).expect("memory");
    let fields = fields(schema, defs);
    if !fields.is_empty() {
        page.push('\n');
        table(page, &fields);
    }
}

fn one(page: &mut String, command: &Command) {
    write!(
        page,
        "\n## {}\n\n{}\n",
        command.title,
        module_text(command.source)
    )
    .expect("memory");
    let none = Map::new();
    let defs = command.schema["$defs"].as_object().unwrap_or(&none);
    let variants = command.schema["oneOf"].as_array().expect("an enum");
    let mut refers = BTreeSet::new();
    for variant in variants {
        let name = &variant["properties"]["record"]["const"];
        if !EVERYWHERE.iter().any(|known| name == known) {
            record(page, variant, &command.schema);
        }
        refers.insert(reference(variant).unwrap_or_default());
    }
    for (name, schema) in defs {
        let is_common = COMMON.contains(&name.as_str()) || name == "What";
        if !is_common && !refers.contains(name.as_str()) && is_object(schema) {
            object(page, name, schema, defs);
        }
    }
}

fn is_object(schema: &Value) -> bool {
    schema["properties"].is_object()
}

fn schema() -> String {
    let all = commands().into_iter();
    let all: Map<String, Value> = all
        .map(|command| (command.name.into(), command.schema))
        .collect();
    serde_json::to_string_pretty(&all).expect("JSON") + "\n"
}

/// Compares a file of `docs/` with what it must be, or writes it.
fn is_what_the_types_say(name: &str, must: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs")
        .join(name);
    if std::env::var_os("LANCET_WRITE_DOCS").is_some() {
        std::fs::write(&path, must).expect("the file can be written");
        return;
    }
    let is = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = is
        .lines()
        .zip(must.lines())
        .position(|(is, must)| is != must);
    let at = differs.unwrap_or_else(|| is.lines().count().min(must.lines().count()));
    assert!(
        is == must,
        "docs/{name} is not what the types say, from line {} on: LANCET_WRITE_DOCS=1 cargo test -p lancet-answer",
        at + 1
    );
}

#[test]
fn the_page_is_what_the_types_say() {
    is_what_the_types_say("json.md", &page());
}

#[test]
fn the_schema_is_what_the_types_say() {
    is_what_the_types_say("json-schema.json", &schema());
}

/// One vocabulary: what a field's name ends in says its unit, and nothing is told in another.
#[test]
fn no_field_has_a_unit_of_its_own() {
    for command in commands() {
        let text = command.schema.to_string();
        for unit in ["_us", "_ms", "_s", "seconds", "nanos"] {
            let ends = format!("{unit}\":{{");
            assert!(
                !text.contains(&ends),
                "{}: a field ends in {unit}",
                command.name
            );
        }
    }
}

/// A field without a meaning would be a row of the page that says nothing.
#[test]
fn every_record_and_field_has_its_meaning() {
    for line in page().lines().filter(|line| line.starts_with("| `")) {
        assert!(!line.ends_with("|  |"), "{line}");
    }
}
