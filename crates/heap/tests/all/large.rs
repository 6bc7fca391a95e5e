//! Time and memory on heaps as large as programs have them. The figures mean something in a release build alone:
//!
//! ```text
//! cargo test --release -p lancet-heap --test large -- --nocapture
//! ```
//!
//! `LANCET_SOAK=1`: 20 million objects besides. A budget that is exceeded fails only in a release build with `LANCET_BUDGET=1`,
//! because the time on a machine that others use says nothing.

#[path = "../../examples/large.rs"]
pub mod made;

use std::time::Duration;

use heap::Analysis;
use heap::answers::Answers;
use made::make;

/// Cases with the numbers of the issue: objects, edges for 100 objects, and what they may take.
const CASES: [(usize, usize, Duration, u64, bool); 2] = [
    (
        3_300_000,
        201,
        Duration::from_millis(1500),
        600 << 20,
        false,
    ),
    (
        20_000_000,
        200,
        Duration::from_secs(60),
        20_000_000 * 60,
        true,
    ),
];

/// For how long this thread has been on a processor (Documentation/scheduler/sched-stats.rst).
fn busy() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("schedstat");
    let nanos = stat.split_whitespace().next().expect("a number");
    Duration::from_nanos(nanos.parse().expect("a number"))
}

/// Resident memory of this process now, and the most it has had since the last `clear_refs`, in bytes.
fn resident() -> (u64, u64) {
    let status = std::fs::read_to_string("/proc/self/status").expect("status");
    let of = |name: &str| {
        let line = status
            .lines()
            .find(|line| line.starts_with(name))
            .expect("a line");
        let number = line.split_whitespace().nth(1).expect("a number");
        number.parse::<u64>().expect("a number") * 1024
    };
    (of("VmRSS:"), of("VmHWM:"))
}

#[test]
fn dominators_and_retained_sizes_of_large_heaps() {
    let is_set = |name: &str| std::env::var_os(name).is_some();
    for (objects, edges, time, memory, soak) in CASES {
        if soak && !is_set("LANCET_SOAK") {
            println!("SKIPPED: {objects} objects take minutes: set LANCET_SOAK");
            continue;
        }
        let objects = if cfg!(debug_assertions) {
            objects / 20
        } else {
            objects
        };
        let snapshot = make(objects, edges);
        let (before, _) = resident();
        // The highest resident memory begins anew (proc(5)).
        std::fs::write("/proc/self/clear_refs", "5").expect("our own process");
        let begin = busy();
        let analysis = Analysis::of(&snapshot);
        let took = busy() - begin;
        let (_, most) = resident();
        let answers = Answers::of(&analysis, |_| String::new());
        let answered = busy() - begin;
        let (_, whole) = resident();
        let each = |bytes: u64| bytes as f64 / objects as f64;
        println!(
            "{objects} objects, {} edges: {took:?} of CPU, {answered:?} with all answers; snapshot {} MB, {:.1} bytes an object; \
             {:.1} at most while it is analysed, {:.1} while it is answered from; {} living, {} suspects",
            snapshot.edge_count(),
            before >> 20,
            each(before),
            each(most),
            each(whole),
            analysis.living().objects,
            answers.suspects.len(),
        );
        assert!(analysis.living().objects * 3 > objects as u64 * 2);
        if is_set("LANCET_BUDGET") {
            assert!(took < time, "{took:?}");
            assert!(whole < memory, "{whole} bytes");
        }
    }
}
