//! The page `docs/json.md` and the JSON Schema `docs/json-schema.json`, made of the types. The tests fail where the files are
//! not what the types say; `LANCET_WRITE_DOCS=1 cargo test -p lancet-answer` writes them.

mod wrapped;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::{agent, calls, heap, mem, patch, profile, rss, stack, syscalls, tune};
use wrapped::wrapped;

/// What the page says before all commands.
const HEAD: &str = "\
# JSON for programs

`--format json` (and `--json`, its short form) writes one JSON object a line, in UTF-8. Every object has a field `record` that
says what it is. This page is made of the types that are written (`crates/answer`), and so is the
[JSON Schema](json-schema.json), which has the records of each command below `$defs`. Records and fields may be added; none goes away or changes its meaning
without the number in `process.schema` rising.
";

/// What the page says of each command: the title, the module whose text says which records come when, and its records.
struct Command {
    name: &'static str,
    title: &'static str,
    source: &'static str,
    variants: Vec<Value>,
}

/// All commands, and the objects that their records refer to.
struct All {
    commands: Vec<Command>,
    defs: Map<String, Value>,
}

fn variants<T: JsonSchema>(generator: &mut SchemaGenerator) -> Vec<Value> {
    let mut schema = T::json_schema(generator).to_value();
    let all = schema["oneOf"].as_array_mut().expect("an enum");
    std::mem::take(all)
}

fn all() -> All {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let made = &mut SchemaGenerator::new(settings);
    let command = |name, title, source, variants| Command {
        name,
        title,
        source,
        variants,
    };
    let of_calls = variants::<calls::Record>(made);
    // `lancet syscalls` writes all of these but the calls.
    let mut of_syscalls = variants::<syscalls::Record>(made);
    let is_call = |one: &&Value| kind_of(one) == "call";
    of_syscalls.extend(of_calls.iter().filter(|one| !is_call(one)).cloned());
    let mut commands = vec![
        command(
            "mem",
            "`lancet mem`",
            include_str!("mem.rs"),
            variants::<mem::Record>(made),
        ),
        command(
            "heap",
            "`lancet heap`",
            include_str!("heap.rs"),
            variants::<heap::Record>(made),
        ),
        command(
            "rss",
            "`lancet heap --rss`",
            include_str!("rss.rs"),
            variants::<rss::Record>(made),
        ),
        command(
            "calls",
            "`lancet calls`",
            include_str!("calls.rs"),
            of_calls,
        ),
        command(
            "syscalls",
            "`lancet syscalls`",
            include_str!("syscalls.rs"),
            of_syscalls,
        ),
        command(
            "stack",
            "`lancet stack`",
            include_str!("stack.rs"),
            variants::<stack::Record>(made),
        ),
        command(
            "profile",
            "`lancet profile`",
            include_str!("profile.rs"),
            variants::<profile::Record>(made),
        ),
        command(
            "patch",
            "`lancet patch`",
            include_str!("patch.rs"),
            variants::<patch::Record>(made),
        ),
        command(
            "tune",
            "`lancet tune`",
            include_str!("tune.rs"),
            variants::<tune::Record>(made),
        ),
        command(
            "agent",
            "`lancet agent`",
            include_str!("agent.rs"),
            variants::<agent::Record>(made),
        ),
    ];
    let mut defs = made.take_definitions(true);
    let objects = defs
        .values_mut()
        .chain(commands.iter_mut().flat_map(|one| &mut one.variants));
    objects.for_each(without_null);
    All { commands, defs }
}

/// A field that may be left out is left out where it would be null.
fn without_null(object: &mut Value) {
    let required = object["required"].clone();
    let Some(fields) = object.get_mut("properties").and_then(Value::as_object_mut) else {
        return;
    };
    for (name, field) in fields {
        let is_required = required
            .as_array()
            .is_some_and(|all| all.iter().any(|one| one == name));
        if is_required {
            continue;
        }
        for list in ["type", "anyOf"] {
            let Some(all) = field.get_mut(list).and_then(Value::as_array_mut) else {
                continue;
            };
            all.retain(|one| one != "null" && one["type"] != "null");
            if list == "type" && all.len() == 1 {
                field[list] = all[0].clone();
            }
        }
    }
}

/// The kind of a record.
fn kind_of(variant: &Value) -> &str {
    let name = &variant["properties"]["record"]["const"];
    name.as_str().expect("the name of a record")
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
    // In the order in which they are written: that of `required`, and behind these what may be left out.
    let required = schema["required"].as_array();
    let place = |name: &str| required?.iter().position(|one| one == name);
    let mut own: Vec<_> = schema["properties"]
        .as_object()
        .into_iter()
        .flatten()
        .collect();
    own.retain(|(name, _)| *name != "record");
    own.sort_by_key(|(name, _)| place(name).unwrap_or(usize::MAX));
    all.extend(own.into_iter().map(|(name, value)| Field {
        name: name.clone(),
        kind: kind(value),
        text: text(value),
        is_optional: place(name).is_none(),
    }));
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
    match name {
        "What" => "text".into(),
        name => format!("[{name}](#{})", name.to_lowercase()),
    }
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
const COMMON: &[&str] = &["Language", "Place", "Address", "Loss", "Origin"];

/// Names of records that several commands have; likewise.
const EVERYWHERE: &[&str] = &["process", "losses"];

fn page() -> String {
    let mut page = HEAD.to_owned();
    let library = module_text(include_str!("lib.rs"));
    let rules = library.split("\n\n").nth(2).expect("the table of shapes");
    let rules: Vec<&str> = rules.lines().filter(|line| line.starts_with('|')).collect();
    let rules = rules
        .join("\n")
        .replace("[`process::Process`]", "`process`");
    let rules = rules.replace("[`place::Place`]", "[Place](#place)");
    let rules = rules.replace("[`place::Address`]", "[Address](#address)");
    let rules = rules.replace("[`losses::Loss`]", "[Loss](#loss)");
    write!(page, "\n{rules}\n").expect("memory");
    let All { commands, defs } = &all();
    page.push_str("\n## In several commands\n\nRecords of one process have `pid`, and those of a thread `tid`; these are not in the tables below.\n");
    let mut shown = BTreeSet::new();
    for name in COMMON {
        object(&mut page, name, defs);
        shown.insert(*name);
    }
    for name in EVERYWHERE {
        let of_mem = commands[0]
            .variants
            .iter()
            .find(|one| kind_of(one) == *name);
        record(
            &mut page,
            &format!("`{name}`"),
            of_mem.expect("mem has it"),
            defs,
        );
    }
    for command in commands {
        one(&mut page, command, defs, &mut shown);
    }
    wrapped(&page)
}

/// One kind of record: what it is, and a row for each field that it does not share with the others.
fn record(page: &mut String, title: &str, variant: &Value, defs: &Map<String, Value>) {
    write!(page, "\n### {title}\n\n{}\n", text(variant)).expect("memory");
    let mut fields = fields(variant, defs);
    let is_everywhere = |field: &Field| match field.name.as_str() {
        "pid" => field
            .text
            .starts_with("The id of the process that the record is of"),
        "tid" => field.text == "The id of the thread that the record is of.",
        _ => false,
    };
    fields.retain(|field| !is_everywhere(field));
    if !fields.is_empty() {
        page.push('\n');
        table(page, &fields);
    }
}

/// An object that records have in them.
fn object(page: &mut String, name: &str, defs: &Map<String, Value>) {
    let schema = &defs[name];
    write!(page, "\n### {name}\n\n{}\n", text(schema)).expect("memory");
    let fields = fields(schema, defs);
    if !fields.is_empty() {
        page.push('\n');
        table(page, &fields);
    }
}

/// A command: its records but those that several have, and behind them the objects in them that were not shown before.
fn one<'d>(
    page: &mut String,
    command: &Command,
    defs: &'d Map<String, Value>,
    shown: &mut BTreeSet<&'d str>,
) {
    let about = module_text(command.source);
    write!(page, "\n## {}\n\n{about}\n", command.title).expect("memory");
    let mut found = Vec::new();
    for variant in &command.variants {
        let name = kind_of(variant);
        let is_of_calls = command.name == "syscalls" && !command.source.contains(&heading(name));
        if EVERYWHERE.contains(&name) || is_of_calls {
            continue;
        }
        // A link leads to the right one of several with this name.
        record(
            page,
            &format!("`{name}` of {}", command.name),
            variant,
            defs,
        );
        match reference(variant) {
            Some(own) => objects(&defs[own], defs, &mut found),
            None => objects(variant, defs, &mut found),
        }
    }
    for name in found {
        if shown.insert(name) && is_object(&defs[name]) {
            object(page, name, defs);
        }
    }
}

/// How the source of a record of this kind begins: `Syscall(`, `Count {`.
fn heading(kind: &str) -> String {
    let mut name = kind.to_owned();
    name[..1].make_ascii_uppercase();
    format!("    {name}")
}

/// The objects that a schema refers to, and those that these refer to.
fn objects<'d>(schema: &Value, defs: &'d Map<String, Value>, found: &mut Vec<&'d str>) {
    match schema {
        Value::Object(fields) => {
            if let Some((name, own)) = reference(schema).and_then(|name| defs.get_key_value(name))
                && !found.contains(&name.as_str())
            {
                found.push(name);
                objects(own, defs, found);
            }
            fields
                .values()
                .for_each(|value| objects(value, defs, found));
        }
        Value::Array(all) => all.iter().for_each(|value| objects(value, defs, found)),
        _ => {}
    }
}

fn is_object(schema: &Value) -> bool {
    schema["properties"].is_object()
}

/// The JSON Schema of a record of any command; `#/$defs/mem` and so on are those of one.
fn schema() -> Value {
    let All { commands, mut defs } = all();
    let any: Vec<Value> = commands
        .iter()
        .map(|command| json!({ "$ref": format!("#/$defs/{}", command.name) }))
        .collect();
    for command in commands {
        defs.insert(command.name.into(), json!({ "oneOf": command.variants }));
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A record of lancet's JSON",
        "description": "One line of the output of any command; #/$defs/mem, heap, rss (lancet heap --rss), calls, syscalls, stack, profile, patch, tune and agent are the records of one.",
        "anyOf": any,
        "$defs": defs,
    })
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
    let text = serde_json::to_string_pretty(&schema()).expect("JSON");
    is_what_the_types_say("json-schema.json", &(text + "\n"));
}

/// One vocabulary: what a field's name ends in says its unit, and nothing is told in another.
#[test]
fn no_field_has_a_unit_of_its_own() {
    let text = schema().to_string();
    for unit in ["_us", "_ms", "_s", "seconds", "nanos"] {
        assert!(
            !text.contains(&format!("{unit}\":{{")),
            "a field ends in {unit}"
        );
    }
}

/// A link that leads to another object, or to none, would be worse than none.
#[test]
fn every_link_of_the_page_leads_to_one_heading() {
    let page = page();
    let headings = page.lines().filter_map(|line| line.strip_prefix("### "));
    let anchor = |heading: &str| heading.to_lowercase().replace('`', "").replace(' ', "-");
    let anchors: Vec<String> = headings.map(anchor).collect();
    for link in page.split("](#").skip(1) {
        let link = link.split(')').next().expect("a link ends");
        let count = anchors.iter().filter(|anchor| *anchor == link).count();
        assert_eq!(count, 1, "#{link}");
    }
    let once: BTreeSet<&String> = anchors.iter().collect();
    assert_eq!(once.len(), anchors.len(), "two headings of one name");
}

/// A field without a meaning would be a row of the page that says nothing.
#[test]
fn every_record_and_field_has_its_meaning() {
    for line in page().lines().filter(|line| line.starts_with("| `")) {
        assert!(!line.ends_with("|  |"), "{line}");
    }
}
