//! The table of `-c` as JSON: one object a row. The schema is docs/calls-json.md.

use super::{Key, Row};
use serde::Serialize;
use std::collections::HashMap;
use std::io::{self, Write};
use wire::calls::{BUCKETS, bucket_start};

#[derive(Serialize)]
#[serde(tag = "record", rename_all = "lowercase")]
enum Record<'a> {
    Row {
        function: &'a str,
        line: Option<&'a str>,
        calls: u64,
        total_ns: u64,
        mean_ns: u64,
        p50_ns: u64,
        p95_ns: u64,
        p99_ns: u64,
        max_ns: u64,
        buckets: Vec<[u64; 3]>,
    },
    Total {
        calls: u64,
        total_ns: u64,
    },
}

/// Writes the rows, most time first; what they count has `unit` nanoseconds.
pub fn print(out: &mut dyn Write, rows: &HashMap<Key, Row>, unit: f64) -> io::Result<()> {
    let nanos = |ticks: u64| (ticks as f64 * unit).round() as u64;
    let mut sorted: Vec<(&Key, &Row)> = rows.iter().collect();
    sorted.sort_by_key(|(name, row)| (std::cmp::Reverse(row.total), *name));
    for ((function, line), row) in sorted {
        let filled = row.buckets.iter().enumerate();
        let filled = filled.filter(|(_, count)| **count != 0);
        let record = Record::Row {
            function,
            line: (!line.is_empty()).then_some(line),
            calls: row.calls,
            total_ns: nanos(row.total),
            mean_ns: nanos(row.total / row.calls.max(1)),
            p50_ns: nanos(row.quantile(50)),
            p95_ns: nanos(row.quantile(95)),
            p99_ns: nanos(row.quantile(99)),
            max_ns: nanos(row.longest),
            buckets: filled
                .map(|(bucket, count)| {
                    let end = bucket_start((bucket + 1).min(BUCKETS - 1));
                    [nanos(bucket_start(bucket)), nanos(end), *count]
                })
                .collect(),
        };
        serde_json::to_writer(&mut *out, &record)?;
        writeln!(out)?;
    }
    let total = Record::Total {
        calls: rows.values().map(|row| row.calls).sum(),
        total_ns: nanos(rows.values().map(|row| row.total).sum()),
    };
    serde_json::to_writer(&mut *out, &total)?;
    writeln!(out)
}
