//! `lancet heap --rss` of a process whose heap has become fragmented, as that of every server that has run for long.

use serde_json::Value;

use crate::support::{Guest, LIMIT, chosen, lancet, run};

#[test]
fn the_state_of_malloc_is_found_in_a_fragmented_heap() {
    for python in chosen("python", "fragmented") {
        let guest = Guest::script(&python, "heap/fragmented.py", &[]);
        guest.expect("ready");
        let mut command = lancet();
        command.args(["heap", "-p", &guest.pid.to_string(), "--rss", "--json"]);
        let output = run(&mut command, LIMIT);
        assert_eq!(output.code(), 0, "{python}: {output:?}");
        let records: Vec<Value> = output
            .stdout
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        let kinds = ["malloc-used", "malloc-free", "malloc-free-pages"];
        let bytes = kinds.map(|kind| {
            let rows = records
                .iter()
                .filter(|row| row["record"] == "row" && row["kind"] == kind);
            rows.filter_map(|row| row["rss"].as_u64()).sum::<u64>()
        });
        assert!(bytes[0] > 1 << 20, "{python}: {bytes:?} of {output:?}");
        assert!(
            bytes[1] + bytes[2] > 1 << 20,
            "{python}: {bytes:?} of {output:?}"
        );
    }
}
