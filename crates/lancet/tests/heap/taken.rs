//! A snapshot taken by the command and read again.

use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use heap::Snapshot;

use crate::support::{LIMIT, Output, lancet, run};

/// The most memory that a snapshot of these tests may take.
const MEMORY: u64 = 1 << 30;

/// Runs `lancet heap -p PID --save FILE`.
pub fn save(pid: i32, file: &Path) -> Output {
    let mut command = lancet();
    command.args(["heap", "-p", &pid.to_string(), "--save"]);
    run(command.arg(file), LIMIT)
}

/// The same although the memory limit of the process may not bear it.
pub fn save_despite_limit(pid: i32, file: &Path) -> Output {
    let mut command = lancet();
    command.args(["heap", "--despite-limit", "-p", &pid.to_string(), "--save"]);
    run(command.arg(file), LIMIT)
}

/// The same as [`save`], which must succeed; the snapshot and what lancet said.
pub fn taken(pid: i32, file: &Path) -> (Snapshot, String) {
    let output = save(pid, file);
    assert_eq!(output.code(), 0, "{output:?}");
    let mode = file.metadata().expect("it was written").permissions();
    assert_eq!(mode.mode() & 0o777, 0o600, "others may not read it");
    let snapshot = read(file);
    assert!(snapshot.losses().is_empty(), "{:?}", snapshot.losses());
    (snapshot, output.stderr)
}

/// Reads a snapshot.
pub fn read(file: &Path) -> Snapshot {
    let mut file = File::open(file).expect("it was written");
    Snapshot::read(&mut file, MEMORY).expect("a snapshot")
}
