//! `lancet stack`, run to its end, and what it wrote.

use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;

use crate::support::lancet;

/// Runs `lancet stack`.
pub fn stack(args: &[&str]) -> Output {
    lancet()
        .arg("stack")
        .args(args)
        .output()
        .expect("lancet runs")
}

/// What it wrote to standard output; it must have succeeded.
pub fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).expect("text")
}

/// The records of one kind that it wrote with `--json`.
pub fn records(output: &Output, kind: &str) -> Vec<Value> {
    let lines = text(output);
    let all = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    all.filter(|line| line["record"] == kind).collect()
}

/// A folder below the build's, kept after the test.
pub fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}
