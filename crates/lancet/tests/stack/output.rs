//! `lancet stack`, run to its end, and what it wrote.

use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;

use crate::support::{lancet, schema};

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
    let all = schema::records(&["stack"], &text(output)).into_iter();
    all.filter(|line| line["record"] == kind).collect()
}

/// An address as records have it.
pub fn address(value: &Value) -> Option<u64> {
    u64::from_str_radix(value.as_str()?.strip_prefix("0x")?, 16).ok()
}

/// A folder below the build's, kept after the test.
pub fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}
