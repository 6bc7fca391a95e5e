//! Time and memory on heaps as large as programs have them. The figures mean something in a release build alone:
//!
//! ```text
//! cargo test --release -p lancet-heap --test large -- --nocapture
//! ```
//!
//! `LANCET_SOAK=1`: 20 million objects besides. A budget that is exceeded fails only in a release build with `LANCET_BUDGET=1`,
//! because the time on a machine that others use says nothing.

mod generate;

use std::time::Duration;

use generate::Random;
use heap::{About, Analysis, Builder, EdgeName, Object, Role, RootKind, RootName, Snapshot};

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

/// Objects one after the other in memory: each is held by one born shortly before it, refers to its class, and now and
/// then to any other.
fn make(objects: usize, edges: usize) -> Snapshot {
    let mut builder = Builder::new(About::default());
    let kind = builder.kind(b"OBJECT", Role::Instance);
    let names = ["@a", "@b", "@c"]
        .map(|name| EdgeName::InstanceVariable(Some(builder.text(name.as_bytes()))));
    let address = |number: usize| 0x7f00_0000_0000 + 40 * number as u64;
    let (mut random, mut given) = (Random(99), 0);
    for number in 0..objects {
        builder.object(Object {
            bytes: 40 + number as u64 % 3 * 8,
            ..Object::new(address(number), kind)
        });
        while given < number * edges / 100 {
            let (target, name) = match random.below(16) {
                0 => (random.below(500), EdgeName::ClassOf),
                1 => (random.below(objects), names[0]),
                2..9 => ((number + 1).min(objects - 1), names[1]),
                _ => (
                    (number + 1 + random.below(300)).min(objects - 1),
                    names[given % 3],
                ),
            };
            builder.edge(address(target), name);
            given += 1;
        }
    }
    for number in 0..1000 {
        builder.root(
            address(number * (objects / 1000)),
            RootName::new(RootKind::Vm),
        );
    }
    builder.finish()
}

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
        let extra = most - before;
        // What it works on are the edges and their bytes; the other columns are not touched.
        let graph = (objects * 8 + snapshot.edge_count() * 4) as u64;
        println!(
            "{objects} objects, {} edges: {took:?} of CPU, {} MB more than the snapshot, {:.1} bytes an object with the graph; \
             snapshot {} MB; {} living",
            snapshot.edge_count(),
            extra >> 20,
            (extra + graph) as f64 / objects as f64,
            before >> 20,
            analysis.living().objects,
        );
        assert!(analysis.living().objects * 3 > objects as u64 * 2);
        if is_set("LANCET_BUDGET") {
            assert!(took < time, "{took:?}");
            assert!(extra + graph < memory, "{} bytes", extra + graph);
        }
    }
}
