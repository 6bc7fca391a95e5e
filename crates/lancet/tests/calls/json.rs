//! `--json`: every object is of docs/json-schema.json, with all its fields and no other, and says what the lines say.

use serde_json::Value;

use crate::machine::{program, start};
use crate::support::{LIMIT, TempDir, lancet, run, schema};
use crate::watch::{calls, hooked, left};

fn objects(text: &str) -> Vec<Value> {
    schema::records(&["calls", "syscalls"], text)
}

fn of<'a>(objects: &'a [Value], record: &str) -> Vec<&'a Value> {
    let all = objects.iter();
    all.filter(|object| object["record"] == record).collect()
}

/// Without the run of the last record, where and when lancet looked: an answer from a file has none.
fn without_run(live: &str) -> String {
    let (before, run) = live.split_once(",\"run\":").expect("a run");
    let (_, after) = run.split_once('}').expect("its end");
    format!("{before}{after}")
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
    let told_again = replay(&["--json"]);
    assert_eq!(
        told_again,
        without_run(&live),
        "the recording says the same"
    );
    let objects = objects(&live);
    assert_eq!(of(&objects, "process").len(), 1);
    assert_eq!(of(&objects, "process")[0]["pid"], guest.pid);
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
        first["duration_ns"].is_u64() && first["place"].is_null(),
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

/// `lancet syscalls --json`: the same calls as the lines, with numbers, errors and names of descriptors.
#[test]
fn system_calls_are_objects() {
    let folder = TempDir::new("json-syscalls");
    let file = folder.join("file");
    std::fs::write(&file, "text").expect("written");
    let path = file.to_str().expect("plain");
    let script = format!(
        "open(F, '<', '{path}'); <F>; close(F); open(F, '<', '{path}.none'); kill 'CONT', $$"
    );
    let (objects_at, lines_at) = (folder.join("objects"), folder.join("lines"));
    for (option, out) in [("--json", &objects_at), ("--strace", &lines_at)] {
        let mut command = lancet();
        let set = "trace=openat,close,kill";
        command.args([
            "syscalls",
            option,
            "-y",
            "-e",
            set,
            "--max-wait",
            "30s",
            "-o",
        ]);
        command
            .arg(out)
            .args(["--", "/usr/bin/perl", "-e", &script]);
        let output = run(&mut command, LIMIT);
        assert!(output.status.success(), "{output:?}");
    }
    let read = |path| std::fs::read_to_string(path).expect("written");
    let objects = objects(&read(&objects_at));
    let calls = of(&objects, "syscall");
    let lines = read(&lines_at);
    let lines: Vec<&str> = lines.lines().filter(|line| line.contains(") ")).collect();
    assert!(calls.len() > 5);
    assert_eq!(calls.len(), lines.len());
    let ids = regex::Regex::new(r"\d{3,}|0x[0-9a-f]+").expect("a literal");
    for (call, line) in calls.iter().zip(lines) {
        let text = |name: &str| call[name].as_str().unwrap_or_default().to_owned();
        let arguments: Vec<_> = call["arguments"].as_array().expect("a list").to_vec();
        let arguments: Vec<_> = arguments.iter().filter_map(Value::as_str).collect();
        let whole = format!("{}({})", text("name"), arguments.join(", "));
        let (before, result) = line.rsplit_once(" = ").expect("a result");
        let same = |a: &str, b: &str| {
            assert_eq!(ids.replace_all(a, "N"), ids.replace_all(b, "N"));
        };
        same(before.trim_end(), &whole);
        same(result, &text("result"));
    }
    let failed = calls.iter().find(|call| {
        call["errno"] == "ENOENT" && call["arguments"][1] == format!("\"{path}.none\"")
    });
    let failed = failed.expect("a file that is not there");
    assert_eq!(failed["number"], 257);
    assert_eq!(failed["place"]["line"], 1);
    assert_eq!(failed["injected"], false);
    assert!(
        failed["function"]
            .as_str()
            .is_some_and(|name| name.contains("open")),
        "{failed}"
    );
    let opened = calls.iter().any(|call| {
        let result = call["result"].as_str().unwrap_or_default();
        result.ends_with(&format!("<{path}>"))
    });
    assert!(opened, "{calls:#?}");
    assert_eq!(of(&objects, "signal").len(), 1);
    assert_eq!(of(&objects, "end")[0]["code"], 0);
}
