//! Answers as Parquet: in files of their own, exported together, and asked by an engine of others.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::support::{LIMIT, TempDir, fixtures, lancet, rival, run};
use super::{answer, scenario};

/// The answers that have tables.
const ANSWERS: &[(&str, &str)] = &[
    ("lancet mem -p PID --for 300ms", "alloc_agg"),
    ("lancet heap -p PID", "heap_class"),
    ("lancet calls -p PID -x malloc --for 300ms", "call_agg"),
    // Nothing calls it: a file without rows.
    ("lancet calls -p PID -x abort --for 100ms", "no_call"),
    ("lancet syscalls -p PID --for 300ms", "syscall_agg"),
    ("lancet profile -p PID --for 300ms", "sample"),
];

/// A folder in which `python3` is one that has DuckDB, and no `duckdb` is.
pub fn engine() -> Option<PathBuf> {
    let program = rival("parquet", "duckdb")?;
    Some(program.parent()?.parent()?.join("duckdb/bin"))
}

/// What a Python says to a script of one line.
fn said(python: &Path, script: &str) -> String {
    let output = run(Command::new(python).args(["-c", script]), LIMIT);
    assert_eq!(output.code(), 0, "{script}: {output:?}");
    output.stdout.trim().to_owned()
}

#[test]
fn each_answer_with_a_table_is_a_file_that_others_read() {
    let Some(guest) = scenario("leak.rb", &[]) else {
        return;
    };
    let (folder, engine) = (TempDir::new("parquet"), engine());
    for (line, table) in ANSWERS {
        let path = folder.join(table);
        let line = format!("{line} --format parquet -o {}", path.display());
        let output = answer(&guest, &line);
        assert!(matches!(output.code(), 0 | 4), "{line}: {output:?}");
        let bytes = std::fs::read(&path).expect("a file");
        assert!(
            bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"),
            "{line}"
        );
        let Some(engine) = &engine else {
            continue;
        };
        let script = format!(
            "import duckdb; print(duckdb.sql(\"select count(*) >= 0, count(*) = count(host), count(*) = count(lost), min(pid), max(pid) from read_parquet('{}')\").fetchall()[0])",
            path.display()
        );
        let said = said(&engine.join("python3"), &script);
        let pid = guest.pid;
        let expected = [
            format!("(True, True, True, {pid}, {pid})"),
            // Nothing was seen.
            "(True, True, True, None, None)".to_owned(),
        ];
        assert!(expected.contains(&said), "{line}: {said}");
    }
    assert!(guest.ends_well());
}

#[test]
fn saved_answers_are_asked_together() {
    let Some(guest) = scenario("leak.rb", &[]) else {
        return;
    };
    let folder = TempDir::new("fleet");
    let [json, saved, bad, fleet] =
        ["mem.json", "cpu", "bad.json", "fleet"].map(|name| folder.join(name));
    let output = answer(
        &guest,
        &format!("lancet mem -p PID --for 300ms --json -o {}", json.display()),
    );
    assert_eq!(output.code(), 0, "{output:?}");
    let output = answer(
        &guest,
        &format!(
            "lancet profile -p PID --for 300ms --save {}",
            saved.display()
        ),
    );
    assert!(matches!(output.code(), 0 | 4), "{output:?}");
    assert!(guest.ends_well());
    // As a longer look would say.
    let text = std::fs::read_to_string(&json).expect("an answer");
    let row = text
        .lines()
        .find(|line| line.contains("\"record\":\"row\"") && line.contains("leak.rb"));
    let row = row.expect("a row of the script");
    let leak = row.replacen(
        "\"record\":\"row\"",
        "\"record\":\"leak\",\"grows\":\"number\"",
        1,
    );
    std::fs::write(&json, text.replacen(row, &format!("{leak}\n{row}"), 1))
        .expect("it can be written");
    std::fs::write(&bad, "\x7fELF").expect("it can be written");
    let mut export = lancet();
    export
        .args(["export", "--service", "shop", "--release", "B", "-o"])
        .arg(&fleet);
    let output = run(export.args([&bad, &json, &saved]), LIMIT);
    assert_eq!(output.code(), 4, "{output:?}");
    assert!(
        output
            .stderr
            .contains("bad.json: line 1 is no record of lancet"),
        "{output:?}"
    );
    for table in ["alloc_agg", "sample", "capture"] {
        assert!(fleet.join(table).is_dir(), "{table}: {output:?}");
    }
    let asked = |path: &Path| {
        let mut ask = lancet();
        ask.args(["fleet", "leaks", "--from"])
            .arg(&fleet)
            .env("PATH", path);
        run(&mut ask, LIMIT)
    };
    let nothing = asked(&fixtures());
    assert_eq!(nothing.code(), 1, "{nothing:?}");
    assert!(nothing.stderr.contains("pip install duckdb"), "{nothing:?}");
    let Some(engine) = engine() else {
        return;
    };
    // A command that cannot do it hides no module.
    let old = folder.join("old");
    std::fs::create_dir(&old).expect("a folder");
    let script = "#!/bin/sh\necho unknown option >&2\nexit 1\n";
    std::fs::write(old.join("duckdb"), script).expect("it can be written");
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(old.join("duckdb"), mode).expect("a mode");
    let both = format!("{}:{}", old.display(), engine.display());
    for path in [&engine, &PathBuf::from(both)] {
        let output = asked(path);
        assert_eq!(output.code(), 0, "{output:?}");
        let first = output.stdout.lines().next().unwrap_or_default();
        assert!(
            first.contains("leak.rb:")
                && first.ends_with("of shop leaks on 1 of 1 hosts, first seen in release B"),
            "{output:?}"
        );
    }
    let output = asked(&old);
    assert_eq!(output.code(), 1, "{output:?}");
    assert!(output.stderr.contains("unknown option"), "{output:?}");
}
