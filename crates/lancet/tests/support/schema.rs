//! Holds records against `docs/json-schema.json`, which a test of the crate `answer` holds against the types.

use std::sync::OnceLock;

use serde_json::Value;

use super::fixtures;

/// The schema; below `$defs` are those of the commands and of the objects in their records.
fn schemas() -> &'static Value {
    static READ: OnceLock<Value> = OnceLock::new();
    READ.get_or_init(|| {
        let path = fixtures().join("../docs/json-schema.json");
        let text = std::fs::read_to_string(path).expect("the schema");
        serde_json::from_str(&text).expect("JSON")
    })
}

/// The records of an output of these commands, each as the schema says.
pub fn records(commands: &[&str], text: &str) -> Vec<Value> {
    let read = |line: &str| {
        let record = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        hold(commands, &record);
        record
    };
    text.lines().map(read).collect()
}

/// Where a row of a table comes from, as a table has it: `app.rb:12 in 'show'`, or the native frames around; empty: nowhere.
pub fn site(row: &Value) -> String {
    let place = |place: &Value| {
        let path = place["path"].as_str()?;
        let line = place["line"].as_u64().map(|line| format!(":{line}"));
        let function = place["function"]
            .as_str()
            .map(|name| format!(" in '{name}'"));
        Some(format!(
            "{path}{}{}",
            line.unwrap_or_default(),
            function.unwrap_or_default()
        ))
    };
    let callers = row["callers"].as_array().into_iter().flatten();
    let callers: Vec<&str> = callers.filter_map(Value::as_str).collect();
    let line = place(&row["place"]).or_else(|| place(&row["library"]));
    line.unwrap_or_else(|| callers.join(" ← "))
}

/// The first record of this kind.
pub fn first<'r>(records: &'r [Value], kind: &str) -> &'r Value {
    let found = records.iter().find(|record| record["record"] == kind);
    found.unwrap_or_else(|| panic!("there is no {kind}: {records:#?}"))
}

/// A record must be one of a command's: `mem`, `heap`, `rss`, `calls`, `syscalls`, `stack`, `profile`, `patch`, `tune`.
pub fn hold(commands: &[&str], record: &Value) {
    let kind = record["record"].as_str().expect("a record has a kind");
    let mut found = false;
    for command in commands {
        let schema = schemas();
        let all = schema["$defs"][*command]["oneOf"]
            .as_array()
            .expect("records")
            .iter();
        for one in all.filter(|one| one["properties"]["record"]["const"] == kind) {
            found = true;
            if let Err(error) = fits(record, one, schema) {
                panic!("{command}: {kind}{error}: {record}");
            }
        }
    }
    assert!(found, "{commands:?} have no record {kind}: {record}");
}

/// The properties of an object's schema and the names of those that must be there, with those of what it refers to.
fn properties<'s>(
    one: &'s Value,
    whole: &'s Value,
) -> (Vec<(&'s String, &'s Value)>, Vec<&'s Value>) {
    let (mut all, mut required) = match referred(one, whole) {
        Some(other) => properties(other, whole),
        None => Default::default(),
    };
    for part in one["allOf"].as_array().into_iter().flatten() {
        let (more, must) = properties(part, whole);
        all.extend(more);
        required.extend(must);
    }
    all.extend(one["properties"].as_object().into_iter().flatten());
    required.extend(one["required"].as_array().into_iter().flatten());
    (all, required)
}

fn referred<'s>(one: &Value, whole: &'s Value) -> Option<&'s Value> {
    let name = one["$ref"].as_str()?.strip_prefix("#/$defs/")?;
    Some(&whole["$defs"][name])
}

/// Whether a value is as a schema says; else where it is not, and why.
fn fits(value: &Value, one: &Value, whole: &Value) -> Result<(), String> {
    for word in ["anyOf", "oneOf"] {
        if let Some(all) = one[word].as_array() {
            let tried: Vec<_> = all.iter().map(|one| fits(value, one, whole)).collect();
            return match tried.iter().any(Result::is_ok) {
                true => Ok(()),
                false => Err(format!(": none of {}: {tried:?}", all.len())),
            };
        }
    }
    if one.get("const").is_some_and(|only| only != value) {
        return Err(format!(": {value} is not {}", one["const"]));
    }
    let (all, required) = properties(one, whole);
    if let (Value::Object(fields), false) = (value, all.is_empty()) {
        for name in required {
            if !fields.contains_key(name.as_str().expect("a name")) {
                return Err(format!(": there is no {name}"));
            }
        }
        for (name, value) in fields {
            let Some((_, schema)) = all.iter().find(|(known, _)| *known == name) else {
                return Err(format!(".{name} is not in the schema"));
            };
            fits(value, schema, whole).map_err(|error| format!(".{name}{error}"))?;
        }
        return Ok(());
    }
    if let Some(other) = referred(one, whole) {
        return fits(value, other, whole);
    }
    let types: Vec<&str> = match &one["type"] {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => return Ok(()),
    };
    let is_one = types.iter().any(|name| match *name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    });
    if !is_one {
        return Err(format!(": {value} is none of {types:?}"));
    }
    for (number, item) in value.as_array().into_iter().flatten().enumerate() {
        fits(item, &one["items"], whole).map_err(|error| format!("[{number}]{error}"))?;
    }
    Ok(())
}
