//! Reports as `--format json` writes them.

use std::collections::BTreeMap;

use serde_json::Value;

/// What was counted at one row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub born: u64,
    pub live: u64,
}

/// Every row of one look, of each guest: `path:line:Type`.
#[derive(Debug, Default)]
pub struct Report {
    /// By guest; 0 = all of several guests together.
    pub guests: BTreeMap<i64, BTreeMap<String, Counts>>,
    /// Sentences about what was lost.
    pub losses: Vec<String>,
}

impl Report {
    /// Reads it. With several looks the last one of each guest counts.
    pub fn parse(text: &str) -> Self {
        let mut report = Report::default();
        for line in text.lines() {
            let record: Value =
                serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
            let number = |key: &str| record[key].as_u64().unwrap_or(0);
            let pid = record["pid"].as_i64().unwrap_or(0);
            match record["record"].as_str() {
                Some("process") => {
                    report.guests.insert(pid, BTreeMap::new());
                }
                Some("row") => {
                    let place = match record["place"]["path"].as_str() {
                        Some(path) => format!("{path}:{}", record["place"]["line"]),
                        None => "-".into(),
                    };
                    let kind = plain(record["type"].as_str().unwrap_or("?"));
                    let rows = report.guests.entry(pid).or_default();
                    let counts = rows.entry(format!("{place}:{kind}")).or_default();
                    counts.born += number("born");
                    counts.live += number("live");
                }
                Some("loss") => report
                    .losses
                    .push(record["text"].as_str().unwrap_or("?").into()),
                _ => {}
            }
        }
        assert!(!report.guests.is_empty(), "no report in {text:?}");
        report
    }

    /// The rows of a guest.
    pub fn of(&self, pid: i32) -> &BTreeMap<String, Counts> {
        self.guests
            .get(&i64::from(pid))
            .unwrap_or_else(|| panic!("nothing of {pid}: {:?}", self.guests.keys()))
    }
}

/// What the last record of a JSON output says was lost, and how much of it. Lines of other kinds may follow.
pub fn losses(text: &str) -> Vec<(String, Option<u64>)> {
    let records = text.lines().rev();
    let mut records = records.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let last = records
        .next()
        .unwrap_or_else(|| panic!("no record in {text:?}"));
    assert_eq!(last["record"], "losses", "{text}");
    let losses = last["losses"].as_array().expect("a list");
    let what = |loss: &Value| loss["what"].as_str().expect("a word").to_owned();
    let losses = losses.iter();
    losses
        .map(|loss| (what(loss), loss["count"].as_u64()))
        .collect()
}

/// Anonymous classes have no name that comes again, also those whose address was used again.
fn plain(kind: &str) -> String {
    let mut text = String::new();
    let mut rest = kind;
    while let Some((before, after)) = rest.split_once("#<Class:0x") {
        text.push_str(before);
        text.push_str("#<Class>");
        rest = after.split_once('>').map_or("", |(_, rest)| rest);
    }
    (text + rest).replace("#<Class> (gone)", "#<Class>")
}

/// Births at the rows that end so.
pub fn born(rows: &BTreeMap<String, Counts>, ending: &str) -> u64 {
    sum(rows, ending, |counts| counts.born)
}

/// The living at the rows that end so.
pub fn live(rows: &BTreeMap<String, Counts>, ending: &str) -> u64 {
    sum(rows, ending, |counts| counts.live)
}

fn sum(rows: &BTreeMap<String, Counts>, ending: &str, of: impl Fn(&Counts) -> u64) -> u64 {
    rows.iter()
        .filter(|(row, _)| row.ends_with(ending))
        .map(|(_, counts)| of(counts))
        .sum()
}
