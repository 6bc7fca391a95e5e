//! Answers become rows that say what the answers said. What is made of these, others read in a live test.

use std::io::{self, Cursor};

use super::any::ANY;
use super::cells::Cell;
use super::export::each;
use super::rows::Rows;
use super::schema::{CAPTURE, STACK, TABLES, Table};
use super::*;

const RUN: &str = r#""run":{"host":"web-3","boot_id":"b","lancet":"0.1.0","began_ns":1796083000000000000,"ended_ns":1796083020000000000}"#;

/// An answer of `mem` about one process, in which two rows are cut off.
fn mem(pid: u32, losses: &str) -> String {
    format!(
        r#"{{"record":"process","schema":2,"pid":{pid},"command":["/usr/bin/ruby3.1","app.rb","--key=secret"],"languages":[{{"name":"Ruby","version":"3.1.2"}}]}}
{{"record":"look","pid":{pid},"watched_ns":20000000000,"interval_ns":null,"by":"line","collection_pause_ns":1,"walk_pause_ns":2,"looks":4,"paused_ns":3,"garbage_included":false}}
{{"record":"verdict","pid":{pid},"verdict":"leak","text":"leak: app.rb:12","collector_off":false,"followed":true}}
{{"record":"leak","pid":{pid},"place":{{"path":"app.rb","line":12,"function":null}},"type":"String","before":false,"grows":"number","born":9,"live":9,"dead":0,"bytes":360,"allocated":400,"grown":0,"growing":0}}
{{"record":"row","pid":{pid},"place":{{"path":"lib.rb","line":3,"function":null}},"type":"Hash","born":5,"live":1,"dead":4,"bytes":40,"allocated":200,"stack":[{{"path":"lib.rb","line":3,"function":"put"}},{{"path":null,"line":null,"function":null}}]}}
{{"record":"row","pid":{pid},"place":{{"path":"app.rb","line":12,"function":null}},"type":"String","born":9,"live":9,"dead":0,"bytes":360,"allocated":400}}
{{"record":"row","pid":{pid},"place":null,"type":"String","born":18446744073709551615,"live":1,"dead":0,"bytes":1,"allocated":1}}
{{"record":"total","pid":{pid},"born":1,"live":1,"dead":1,"bytes":1,"allocated":1,"rest":{{"rows":2,"born":1,"live":1,"dead":1,"bytes":1,"allocated":1}},"before":{{"live":1,"bytes":1}},"hidden":{{"born":1,"live":1,"dead":1,"bytes":1,"allocated":1}}}}
{{"record":"losses","losses":[{losses}],"more":0,{RUN}}}
"#
    )
}

/// The files of what stands in a file, each with its rows, and what is wrong with it.
fn files(text: &str, given: &Given) -> (Vec<(String, Rows)>, Option<Flaw>) {
    let mut all = Vec::new();
    let flaw = each(&mut Cursor::new(text), given, &mut |path, rows| {
        all.push((path, rows));
        Ok(())
    });
    (all, flaw.expect("memory"))
}

/// The values of these columns, row by row.
fn read((_, rows): &(String, Rows), names: &[&str]) -> Vec<String> {
    let places = names.iter().map(|name| rows.table.position(name));
    let places: Vec<usize> = places.map(|at| at.expect("a column")).collect();
    let row = |row: &Vec<Cell>| {
        let cells = places.iter().map(|at| match &row[*at] {
            Cell::Null => "null".to_owned(),
            Cell::Integer(number) => number.to_string(),
            Cell::Flag(yes) => yes.to_string(),
            Cell::Text(text) => format!("{text:?}"),
            Cell::Texts(texts) => format!("{texts:?}"),
            Cell::Frames(frames) => {
                let text = |text: &Option<String>| text.clone().unwrap_or_default();
                let frames = frames.iter();
                let frames = frames.map(|one| {
                    format!("{}@{}:{:?}", text(&one.function), text(&one.file), one.line)
                });
                frames.collect::<Vec<_>>().join(", ")
            }
        });
        cells.collect::<Vec<_>>().join(" ")
    };
    rows.rows.iter().map(row).collect()
}

#[test]
fn an_answer_is_a_file_a_table() {
    let (files, flaw) = files(&mem(7, ""), &Given::default());
    assert_eq!(flaw, None);
    let paths: Vec<&str> = files.iter().map(|(path, _)| path.as_str()).collect();
    let id = paths[0].split(['-', '.']).rev().nth(1).expect("an id");
    assert_eq!(
        paths,
        [
            format!("alloc_agg/dt=2026-11-30/web-3-{id}.parquet"),
            format!("capture/dt=2026-11-30/web-3-{id}.parquet"),
            format!("stack/dt=2026-11-30/web-3-{id}.parquet"),
        ]
    );
    let columns = [
        "record",
        "file",
        "line",
        "type",
        "born",
        "live",
        "grows",
        "grouped_by",
    ];
    assert_eq!(
        read(&files[0], &columns),
        [
            r#""leak" "app.rb" 12 "String" 9 9 "number" "line""#,
            r#""row" "lib.rb" 3 "Hash" 5 1 null "line""#,
            r#""row" "app.rb" 12 "String" 9 9 null "line""#,
            r#""row" null null "String" 9223372036854775807 1 null "line""#,
        ]
    );
    let common = [
        "host", "boot_id", "pid", "service", "runtime", "version", "lost", "left_out",
    ];
    assert_eq!(
        read(&files[0], &common)[3],
        r#""web-3" "b" 7 "ruby3.1" "Ruby" "3.1.2" 0 2"#
    );
    let own = ["answer", "schema", "rows_count", "verdicts", "losses"];
    assert_eq!(
        read(&files[1], &own),
        [r#""alloc_agg" 1 4 ["leak: app.rb:12"] []"#]
    );
    assert_eq!(read(&files[2], &["frames"]), ["put@lib.rb:Some(3), @:None"]);
    assert!(
        !format!("{files:?}").contains("secret"),
        "a command line may have secrets"
    );
}

#[test]
fn what_is_given_stands_in_the_place_of_what_is_said() {
    let given = Given {
        host: Some("db-1".into()),
        service: Some("shop".into()),
        release: Some("B".into()),
    };
    let (files, _) = files(&mem(7, ""), &given);
    assert_eq!(
        read(&files[0], &["host", "service", "release"])[0],
        r#""db-1" "shop" "B""#
    );
    assert!(files[0].0.contains("/db-1-"), "{}", files[0].0);
}

/// Sums of several processes would count twice.
#[test]
fn each_process_has_its_own_rows() {
    let sum = r#"{"record":"process","schema":2,"pid":null,"command":["2 processes"],"languages":[]}
{"record":"look","pid":null,"watched_ns":1,"interval_ns":null,"by":"line","walk_pause_ns":2}
{"record":"row","pid":null,"place":null,"type":"Sum","born":1,"live":1,"dead":0,"bytes":1,"allocated":1}
{"record":"total","pid":null,"born":1,"rest":{"rows":5}}
"#;
    let without_end = |text: String| {
        text.lines()
            .take(8)
            .map(|line| format!("{line}\n"))
            .collect::<String>()
    };
    let (files, flaw) = files(
        &format!("{sum}{}{}", without_end(mem(7, "")), mem(8, "")),
        &Given::default(),
    );
    assert_eq!(flaw, None);
    let rows = read(&files[0], &["pid", "type", "left_out"]);
    assert_eq!(rows.len(), 8);
    assert!(
        !rows
            .iter()
            .any(|row| row.contains("Sum") || row.ends_with('5')),
        "{rows:?}"
    );
    let captures = read(&files[1], &["pid", "rows_count", "left_out"]);
    assert_eq!(captures, ["7 4 2", "8 4 2"]);
}

#[test]
fn what_was_lost_is_a_column() {
    let loss = r#"{"pid":7,"what":"births","count":40,"text":"40 births were lost"}"#;
    let (whole, _) = files(&mem(7, loss), &Given::default());
    assert_eq!(read(&whole[0], &["lost"])[0], "1");
    assert_eq!(read(&whole[1], &["losses"]), [r#"["40 births were lost"]"#]);
    // In the middle of a line, and between two.
    let text = mem(7, loss);
    let end = text.find(r#"{"record":"losses""#).expect("an end");
    for end in [end, end - 20] {
        let (cut, flaw) = files(&text[..end], &Given::default());
        assert!(flaw.expect("a flaw").starts_with("it was cut off"));
        assert_eq!(read(&cut[0], &["lost", "host"])[0], "null null");
    }
}

#[test]
fn what_is_no_answer_is_named() {
    for (text, flaw) in [
        ("", "it is empty"),
        ("\x7fELF\n", "line 1 is no record"),
        ("{\"a\":1}\n", "line 1 is no record"),
        (
            "{\"record\":\"losses\",\"losses\":[],\"more\":0}\n",
            "an answer has no rows",
        ),
        (
            "{\"record\":\"call\",\"pid\":7}\n{\"record\":\"losses\",\"losses\":[],\"more\":0}\n",
            "there is no table for records `call`",
        ),
    ] {
        let (files, said) = files(text, &Given::default());
        assert!(
            said.as_deref().is_some_and(|said| said.starts_with(flaw)),
            "{text}: {said:?}"
        );
        assert!(files.is_empty());
    }
    // One that is whole stands before it.
    let (all, flaw) = files(&format!("{}rubbish\n", mem(7, "")), &Given::default());
    assert_eq!(all.len(), 3);
    assert!(flaw.is_some_and(|flaw| flaw.starts_with("line 10 is no record")));
}

/// What stands behind an answer without a table, and around a line that is no record, is exported.
#[test]
fn one_flaw_hides_nothing() {
    let odd = "{\"record\":\"call\",\"pid\":7}\n{\"record\":\"losses\",\"losses\":[],\"more\":0}\n";
    let (all, flaw) = files(
        &format!("{}{odd}{}", mem(7, ""), mem(8, "")),
        &Given::default(),
    );
    assert_eq!(all.len(), 6);
    assert!(flaw.is_some_and(|flaw| flaw.starts_with("there is no table for records `call`")));
    let text = mem(7, "");
    let (first, rest) = text.split_at(text.find(r#"{"record":"leak""#).expect("a row"));
    let (all, flaw) = files(&format!("{first}a message\n{rest}"), &Given::default());
    assert_eq!(read(&all[0], &["lost"]), ["1"; 4]);
    assert!(flaw.is_some_and(|flaw| flaw.starts_with("line 4 is no record")));
}

/// Of two processes each has its own stacks, also where they are the same, and rows without a process count where they are left out.
#[test]
fn stacks_are_of_their_process() {
    let text = mem(7, "");
    let (first, _) = text.split_at(text.find(r#"{"record":"losses""#).expect("an end"));
    let (all, _) = files(&format!("{first}{}", mem(8, "")), &Given::default());
    assert_eq!(read(&all[2], &["pid"]), ["7", "8"]);
    let ids = |file: &(String, Rows)| read(file, &["capture_id", "stack_id"]);
    let of_rows = ids(&all[0]);
    assert!(ids(&all[2]).iter().all(|id| of_rows.contains(id)));
}

#[test]
fn texts_are_cut() {
    let long = format!("\"type\":\"{}\"", "é".repeat(40_000));
    let text = mem(7, "").replace("\"type\":\"Hash\"", &long);
    let (all, flaw) = files(&text, &Given::default());
    assert_eq!(flaw, None);
    // With its quotation marks.
    let lengths = read(&all[0], &["type"]);
    assert!(lengths.iter().any(|text| text.len() == 2 + (1 << 16)));
}

/// Whatever stands in a file of answers: no panic.
#[test]
fn mutated_answers_are_refused_or_written() {
    let text = mem(7, "");
    let mut random = 1_u64;
    let mut next = |below: usize| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (random >> 33) as usize % below
    };
    for _ in 0..400 {
        let mut bytes = text.clone().into_bytes();
        for _ in 0..=next(4) {
            let at = next(bytes.len());
            match next(3) {
                0 => bytes[at] = b"0\"{}[],:n9-"[next(11)],
                1 => drop(bytes.remove(at)),
                _ => bytes.truncate(at.max(1)),
            }
        }
        let mut all = Vec::new();
        let done: io::Result<_> =
            answers(&mut Cursor::new(&bytes), &Given::default(), &mut |file| {
                all.push(file);
                Ok(())
            });
        done.expect("memory");
        for file in all {
            assert!(file.bytes.starts_with(b"PAR1") && file.bytes.ends_with(b"PAR1"));
        }
    }
}

/// The form writes what an export has in the table of the answer.
#[test]
fn the_form_is_the_first_table() {
    let text = mem(7, "");
    let lines: Vec<&str> = text.lines().collect();
    let shown = crate::forms::form::tests::bytes(&FORM, &lines);
    let mut first = None;
    let done = answers(&mut Cursor::new(text), &Given::default(), &mut |file| {
        first.get_or_insert(file.bytes);
        Ok(())
    });
    assert_eq!(done.expect("memory"), None);
    assert_eq!(Some(shown), first);
}

/// Shares of functions are of the samples that ran: what else is added up must be told apart.
#[test]
fn samples_say_what_they_are() {
    let text = format!(
        r#"{{"record":"process","schema":2,"pid":7,"command":["ruby"],"languages":[]}}
{{"record":"profile","by":"function","mode":"wall","looks":9,"samples":5}}
{{"record":"function","place":{{"path":"app.rb","line":null,"function":"pay"}},"native":false,"waits":false,"own":2,"total":5,"lines":[]}}
{{"record":"function","place":{{"path":null,"line":null,"function":"waits for a mutex"}},"native":false,"waits":true,"own":3,"total":3,"lines":[]}}
{{"record":"wait","place":{{"path":"app.rb","line":3,"function":"pay"}},"doing":"waits for a mutex","idle":false,"samples":3,"on":[]}}
{{"record":"losses","losses":[],"more":0,{RUN}}}
"#
    );
    let (files, flaw) = files(&text, &Given::default());
    assert_eq!(flaw, None);
    assert_eq!(
        read(
            &files[0],
            &["function", "grouped_by", "mode", "waits", "own", "samples"]
        ),
        [
            r#""pay" "function" "wall" false 2 5"#,
            r#""waits for a mutex" "function" "wall" true 3 5"#,
        ]
    );
}

fn every() -> impl Iterator<Item = &'static Table> {
    [&CAPTURE, &STACK, &*ANY].into_iter().chain(TABLES)
}

/// Files are read by the names of their columns: a name stands for one kind of value, whatever table it is in.
#[test]
fn a_name_has_one_kind() {
    for column in TABLES.iter().flat_map(|table| table.columns) {
        let position = ANY.position(column.name).expect("every column is in it");
        let known = ANY.all().nth(position).map(|any| any.kind);
        assert_eq!(known, Some(column.kind), "{}", column.name);
    }
}

/// An answer that has only losses, and one of a table that has no rows. One that was cut off before it had a row is no file: nobody could tell it
/// from these.
#[test]
fn an_answer_without_rows_is_an_empty_file() {
    let losses = format!(r#"{{"record":"losses","losses":[],"more":0,{RUN}}}"#);
    let counted = r#"{"record":"total","calls":0,"left":0,"total_ns":0}"#;
    let any = super::file::bytes(Rows::none(&ANY));
    let calls = TABLES.iter().find(|table| table.name == "call_agg");
    let calls = super::file::bytes(Rows::none(calls.expect("a table")));
    for (lines, file) in [
        (vec![losses.as_str()], &any),
        (vec![counted, losses.as_str()], &calls),
    ] {
        let shown = crate::forms::form::tests::bytes(&FORM, &lines);
        assert!(shown == *file, "{lines:?}");
        assert!(shown.starts_with(b"PAR1") && shown.ends_with(b"PAR1"));
    }
    for lines in [vec![], vec![counted]] {
        let shown = crate::forms::form::tests::bytes(&FORM, &lines);
        assert!(shown.is_empty(), "{lines:?}");
    }
}

#[test]
fn lists_stand_last_and_names_once() {
    for table in every() {
        let lists: Vec<bool> = table.all().map(|column| column.kind.is_list()).collect();
        assert!(
            lists.is_sorted(),
            "{}: sorted columns are counted as leaves",
            table.name
        );
        for column in table.all() {
            let of_name = table.all().filter(|other| other.name == column.name);
            assert_eq!(of_name.count(), 1, "{}.{}", table.name, column.name);
        }
    }
}

/// A field that no record has would be a column without a value.
#[test]
fn fields_are_those_of_the_records() {
    let schema = include_str!("../../../../../docs/json-schema.json");
    for column in TABLES.iter().flat_map(|table| table.columns) {
        for path in column.from {
            for part in path.trim_start_matches('@').split('.') {
                let is_known =
                    matches!(part, "0" | "most") || schema.contains(&format!("\"{part}\": {{"));
                assert!(is_known, "{path} of {}", column.name);
            }
        }
    }
}
