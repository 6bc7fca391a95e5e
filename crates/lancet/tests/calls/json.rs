//! `--json`: every object is of docs/calls-json.md, with all its fields and no other, and says what the lines say.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::machine::{program, start};
use crate::support::{LIMIT, TempDir, fixtures, lancet, run};
use crate::watch::{calls, hooked, left};

/// The fields that the page lists, by record.
fn documented() -> BTreeMap<String, BTreeSet<String>> {
    let page = fixtures().join("../docs/calls-json.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut records: Vec<String> = Vec::new();
    let names = |text: &str| -> Vec<String> {
        text.split('`')
            .skip(1)
            .step_by(2)
            .map(str::to_owned)
            .collect()
    };
    for line in page.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            records = names(heading);
        } else if let Some(row) = line.strip_prefix("| `") {
            let first = format!("`{}", row.split(" | ").next().unwrap_or_default());
            for record in &records {
                all.entry(record.clone()).or_default().extend(names(&first));
            }
        }
    }
    all
}

fn objects(text: &str) -> Vec<Value> {
    let documented = documented();
    let objects: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    for object in &objects {
        let fields = object.as_object().expect("an object");
        let record = fields["record"].as_str().expect("its kind");
        let known = documented.get(record);
        let known = known.unwrap_or_else(|| panic!("{record} is not on the page"));
        for field in fields.keys().filter(|field| *field != "record") {
            assert!(known.contains(field), "{record}.{field} is not on the page");
        }
        // Each of these pages' rows is of one record only.
        if ["guest", "call", "loss"].contains(&record) {
            for field in known {
                assert!(fields.contains_key(field), "{record} has no {field}");
            }
        }
    }
    objects
}

fn of<'a>(objects: &'a [Value], record: &str) -> Vec<&'a Value> {
    let all = objects.iter();
    all.filter(|object| object["record"] == record).collect()
}

#[test]
fn objects_are_as_the_page_says() {
    let Some(path) = program("asked.cpp") else {
        return;
    };
    let folder = TempDir::new("json");
    let (conf, file, out) = (
        folder.join("conf"),
        folder.join("calls"),
        folder.join("out"),
    );
    let text = "long h_ask(string, int, ulong, double);\nvoid h_wait(int, bool(char));\n";
    std::fs::write(&conf, text).expect("a .conf");
    let [conf, file_name, out_name] = [&conf, &file, &out].map(|path| path.display().to_string());
    let mut guest = start(&path, "");
    let what = [
        "--json", "-x", "h_ask", "-x", "h_wait", "-F", &conf, "--record", &file_name, "-o",
        &out_name,
    ];
    let watch = hooked(calls(guest.pid, &what));
    guest.tell("2");
    guest.find("answer ");
    left(watch, "json");
    let live = std::fs::read_to_string(&out).expect("what was told");
    let replay = |arguments: &[&str]| {
        let output = run(lancet().arg("calls").args(arguments).arg(&file), LIMIT);
        assert_eq!(output.code(), 0, "{output:?}");
        output.stdout
    };
    assert_eq!(replay(&["--json"]), live, "the recording says the same");
    let objects = objects(&live);
    assert_eq!(of(&objects, "guest").len(), 1);
    assert_eq!(of(&objects, "guest")[0]["pid"], guest.pid);
    let told = of(&objects, "call");
    let asked: Vec<_> = told
        .iter()
        .filter(|call| call["function"] == "h_ask")
        .collect();
    assert_eq!(asked.len(), 16);
    let first = asked[0];
    assert_eq!(
        first["arguments"],
        serde_json::json!(["\"SELECT 1\"", "-1", "18446744073709551615", "0.000000"])
    );
    assert_eq!(
        (&first["result"], &first["ended"]),
        (&"-1".into(), &"returned".into())
    );
    assert_eq!(first["registers"][2], "0xffffffffffffffff");
    assert_eq!(first["rax"], "0xffffffffffffffff");
    assert!(
        first["duration_ns"].is_u64() && first["line"].is_null(),
        "{first}"
    );
    let left = told
        .iter()
        .filter(|call| call["ended"] == "left" || call["ended"] == "open");
    let left: Vec<_> = left.collect();
    assert_eq!(left.len(), 5, "left by exceptions: {live}");
    assert!(left.iter().all(|call| call["result"].is_null()), "{left:?}");

    let rows = replay(&["--json", "-c", "-x", "h_ask"]);
    let rows = self::objects(&rows);
    let row = of(&rows, "row")[0];
    assert_eq!(
        (&row["function"], &row["calls"]),
        (&"h_ask".into(), &16.into())
    );
    let buckets = row["buckets"].as_array().expect("buckets");
    let sum: u64 = buckets.iter().filter_map(|bucket| bucket[2].as_u64()).sum();
    assert_eq!(sum, 16);
    assert_eq!(of(&rows, "total")[0]["calls"], 16);
}
