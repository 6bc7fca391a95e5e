//! Bytes of the living blocks of each workload, against the rise of `memory_get_usage()`.

use serde_json::Value;

use super::{guest, phps};
use crate::support::{Snapshot, Watch, mem};

/// With how many blocks each keeps that have mappings of their own: the allocator has an entry for each, which is in no block of the script's.
const WORKLOADS: [(&str, u64); 7] = [
    ("strings", 0),
    ("objects", 0),
    ("closures", 0),
    ("generators", 0),
    ("documents", 0),
    ("large", 6),
    ("evaluated", 0),
];

#[test]
fn bytes_are_those_by_which_memory_get_usage_rises() {
    for php in phps("truth") {
        for (workload, large) in WORKLOADS {
            let what = format!("{php}, {workload}");
            let mut guest = guest(&php, "truth", &[workload]);
            let before = Snapshot::take(guest.pid);
            let watch = Watch::open(mem(guest.pid));
            guest.tell("");
            let said = guest.find("risen ");
            let (risen, entry) = said.split_once(' ').expect("two numbers");
            let [risen, entry]: [u64; 2] = [risen, entry].map(|one| one.parse().expect("a number"));
            let output = watch.interrupt();
            assert_eq!(output.code(), 0, "{what}: {}", output.stderr);
            before.holds(guest.pid, &what);
            let mut bytes = 0;
            for line in output.stdout.lines() {
                let record: Value = serde_json::from_str(line).expect("JSON");
                let path = record["place"]["path"].as_str().unwrap_or_default();
                if record["record"] == "row" && path.contains("/workloads.php") {
                    bytes += record["bytes"].as_u64().unwrap_or(0);
                }
            }
            assert!(bytes > 50_000, "{what}: {}", output.stdout);
            assert_eq!(bytes + large * entry, risen, "{what}: {}", output.stdout);
            guest.tell("");
            guest.ends_with("answer 0");
        }
    }
}
