//! Values as people read them, with their units. Used by `table`.

use std::time::Duration;

use answer::unit::{Unit, unit};

use super::super::record::Value;
use super::text::{code, prose};
use crate::figures::{grouped, pause, size};
use crate::text::shortened;

/// Items of a list.
const MOST_ITEMS: usize = 10;
/// Characters of a text that is neither a sentence nor a command.
const WIDEST: usize = 80;
/// Fields that are sentences.
const SENTENCES: &[&str] = &["mends", "risks", "says", "text", "then"];
/// Fields that are shown without their name where they are part of an object.
const NAMELESS: &[&str] = &[
    "by", "from", "kind", "name", "place", "text", "type", "value",
];

/// What a field is called.
pub fn head(name: &str) -> String {
    let name = name.strip_suffix("_ns").unwrap_or(name);
    name.replace(['_', '.'], " ")
}

/// The value of a field of a record, as a cell of a table.
pub fn shown(record: &str, name: &str, value: &Value) -> String {
    match value {
        Value::Bool(yes) => if *yes { "yes" } else { "no" }.to_owned(),
        Value::Number(number) => figure(record, name, *number),
        Value::Text(text) if SENTENCES.contains(&name) => prose(text),
        value => code(&words(record, name, value).unwrap_or_default()),
    }
}

/// Whether a value says something to people.
pub fn says_something(value: &Value) -> bool {
    !is_nothing(value) && words("", "", value).is_some()
}

/// Whether a value says by itself that there is nothing. An item of a list that is 0 is shown all the same.
fn is_nothing(value: &Value) -> bool {
    matches!(value, Value::Null | Value::Bool(false) | Value::Number(0))
}

/// A value in words: `app.rb:3 in show, samples 5`; `None`: it says nothing to people.
fn words(record: &str, name: &str, value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::Bool(yes) => yes.then(|| head(name)),
        Value::Number(number) => Some(figure(record, name, *number)),
        // Addresses are for programs.
        Value::Text(text) if text.is_empty() || text.starts_with("0x") => None,
        Value::Text(text) => Some(cut(name, text)),
        Value::List(all) => list(record, name, all),
        Value::Object(fields) => match value.place() {
            Some(place) if place.is_empty() => None,
            Some(place) => Some(shortened(&place, WIDEST).into_owned()),
            None => object(record, fields),
        },
    }
}

fn object(record: &str, fields: &[(String, Value)]) -> Option<String> {
    let mut text = String::new();
    let mut before = "";
    for (name, value) in fields.iter().filter(|(_, value)| !is_nothing(value)) {
        let Some(words) = words(record, name, value) else {
            continue;
        };
        if !text.is_empty() {
            // What holds an object and what that is, where something was read and what, are one thing.
            text += match (before, name.as_str()) {
                ("by", "type") => " ",
                ("from", "value") => " = ",
                _ => ", ",
            };
        }
        let is_named = matches!(value, Value::Bool(_)) || NAMELESS.contains(&name.as_str());
        text += &match is_named {
            true => words,
            false => format!("{} {words}", head(name)),
        };
        before = name;
    }
    (!text.is_empty()).then_some(text)
}

fn list(record: &str, name: &str, all: &[Value]) -> Option<String> {
    let is_nested = |one: &Value| matches!(one, Value::List(_));
    if all.iter().any(is_nested) {
        return None;
    }
    let is_way = matches!(name, "path" | "steps");
    let between = match all.first() {
        _ if is_way => " → ",
        Some(Value::Object(_)) => "; ",
        _ => ", ",
    };
    let items: Vec<String> = all
        .iter()
        .filter_map(|one| words(record, name, one))
        .collect();
    let more = items.len().saturating_sub(MOST_ITEMS);
    let left_out = format!("… {more} more");
    let mut items: Vec<&str> = items.iter().map(String::as_str).collect();
    if more > 0 {
        // Of a way both ends say most.
        let at = if is_way { MOST_ITEMS / 2 } else { MOST_ITEMS };
        items.splice(at..at + more, [left_out.as_str()]);
    }
    (!items.is_empty()).then(|| items.join(between))
}

/// Of a path the end says more than the beginning, of another text the beginning. Sentences and commands are not cut.
fn cut(name: &str, text: &str) -> String {
    if matches!(name, "commands" | "command") || SENTENCES.contains(&name) {
        return text.to_owned();
    }
    if text.chars().count() <= WIDEST {
        return text.to_owned();
    }
    match text.contains(' ') {
        true => text.chars().take(WIDEST - 1).chain(['…']).collect(),
        false => shortened(text, WIDEST).into_owned(),
    }
}

fn figure(record: &str, name: &str, number: i128) -> String {
    let sign = if number < 0 { "-" } else { "" };
    let number = u64::try_from(number.unsigned_abs()).unwrap_or(u64::MAX);
    let text = match unit(record, name) {
        Unit::Id => number.to_string(),
        Unit::Count => grouped(number),
        Unit::Size => size(number),
        Unit::Time => pause(Duration::from_nanos(number)),
    };
    format!("{sign}{text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(record: &str, name: &str, json: &str) -> String {
        shown(record, name, &serde_json::from_str(json).expect("JSON"))
    }

    #[test]
    fn objects_are_told_in_words() {
        let state = r#"{"running":false,"call":"futex","on":["pipe, descriptor 5"],"asleep_ns":1500000,"lock":{"kind":"mutex","owner":4243,"readers":false},"futex":"0x7f"}"#;
        assert_eq!(
            cell("thread", "state", state),
            "`call futex, on pipe, descriptor 5, asleep 1.5 ms, lock mutex, owner 4243`"
        );
        assert_eq!(
            cell("place", "on", r#"{"mutex of 4243":1200}"#),
            "`mutex of 4243 1,200`"
        );
        let path = r#"[{"by":"global $a","type":"Hash","address":"0x1","retained":2048},{"by":"[0]","type":"String","address":"0x2","retained":40}]"#;
        assert_eq!(
            cell("path", "path", path),
            "`global $a Hash, retained 2.0 KiB → [0] String, retained 40 B`"
        );
        let evidence = r#"[{"from":"/proc/sys/vm/swappiness","value":"60"}]"#;
        assert_eq!(
            cell("check", "evidence", evidence),
            "`/proc/sys/vm/swappiness = 60`"
        );
        let callers = r#"[{"place":{"path":"a.rb","line":3,"function":"f"},"samples":5}]"#;
        assert_eq!(
            cell("function", "callers", callers),
            "`a.rb:3 in f, samples 5`"
        );
        let main = r#"{"path":null,"line":null,"function":"{main}"}"#;
        assert_eq!(cell("row", "place", main), "`{main}`");
        let steps: Vec<_> = (0..12)
            .map(|at| format!("{{\"by\":\"s{at}\",\"type\":\"A\"}}"))
            .collect();
        let way = cell("way", "steps", &format!("[{}]", steps.join(",")));
        assert!(way.contains("s4 A → … 2 more → s7 A"), "{way}");
        assert!(way.ends_with("s11 A`"), "{way}");
    }

    #[test]
    fn the_end_of_a_place_is_kept_and_sentences_are_whole() {
        let path = format!("/{}/app.rb", "d".repeat(100));
        let place = format!("{{\"path\":\"{path}\",\"line\":12,\"function\":null}}");
        assert!(cell("row", "place", &place).ends_with("d/app.rb:12`"));
        assert!(cell("call", "module", &format!("\"{path}\"")).ends_with("d/app.rb`"));
        let says = "many words ".repeat(20) + "last";
        assert_eq!(cell("check", "says", &format!("\"{says}\"")), says);
        let commands = cell("check", "commands", &format!("[\"{says}\"]"));
        assert_eq!(commands, format!("`{says}`"));
    }

    #[test]
    fn figures_have_the_units_of_their_records() {
        assert_eq!(cell("row", "allocated", "19200064"), "18.3 MiB");
        assert_eq!(cell("allocations", "allocated", "1200"), "1,200");
        assert_eq!(cell("fork", "child", "4243"), "4243");
        assert_eq!(cell("growth", "live", "-1200"), "-1,200");
    }
}
