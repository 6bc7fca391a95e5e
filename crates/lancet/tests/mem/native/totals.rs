//! `mem --native` against glibc's own records, as `heap --rss` reads them.

use serde_json::Value;

use super::{built, guest, native, round, rows};
use crate::support::{LIMIT, TempDir, Watch, lancet, run};

/// The most that glibc keeps for a block beyond what was asked for: its size word, and what it rounds up to.
const MOST_BESIDE: i64 = 32;
/// What glibc and the loader take for themselves, without a call of `malloc` that can be seen.
const OTHER: i64 = 16 << 10;

/// The bytes that the program has, by glibc's records of its arenas and of the chunks with mappings of their own.
fn used(pid: i32) -> i64 {
    let mut command = lancet();
    command.args(["heap", "-p", &pid.to_string(), "--rss", "--json"]);
    let output = run(&mut command, LIMIT);
    assert_eq!(output.code(), 0, "{}", output.stderr);
    let records = output.stdout.lines().map(|line| {
        let record: Value = serde_json::from_str(line).expect("JSON");
        match record["record"].as_str() {
            Some("arena") => record["used"].as_i64().expect("a number"),
            Some("malloc") => record["mapped_bytes"].as_i64().expect("a number"),
            _ => 0,
        }
    });
    let used = records.sum();
    assert!(used > 0, "{}", output.stdout);
    used
}

/// What lives by lancet's count is what glibc has more in use.
#[test]
fn what_lives_is_what_glibc_has_in_use() {
    let folder = TempDir::new("native-totals");
    let Some(program) = built(&folder, "g++", &[]) else {
        return;
    };
    let mut guest = guest(&program, &[]);
    let watch = Watch::open(native(guest.pid));
    let before = used(guest.pid);
    for _ in 0..3 {
        round(&mut guest);
    }
    let more = used(guest.pid) - before;
    let output = watch.interrupt();
    assert_eq!(output.code(), 0, "{}", output.stderr);
    let rows = rows(&output.stdout);
    let sum = |at: usize| rows.values().map(|counts| counts[at]).sum::<i64>();
    let (live, bytes) = (sum(1), sum(2));
    assert!(
        (bytes..=bytes + MOST_BESIDE * live + OTHER).contains(&more),
        "{live} blocks of {bytes} bytes live, and glibc has {more} more in use: {}",
        output.stdout
    );
    guest.tell("");
    guest.ends_with("answer 42");
}
