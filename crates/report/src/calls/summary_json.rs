//! The table of `-c` as JSON: one object a row. Used by `formats`.

use super::format::Counted;
use super::json::site;
use answer::calls::Record;
use calls::summary::{Row, bucket_bounds};
use std::io::{self, Write};

/// Writes the rows and their sum.
pub(super) fn print(out: &mut dyn Write, counted: &Counted<'_>) -> io::Result<()> {
    let Counted { rows, unit, .. } = *counted;
    counted.processes.write(out)?;
    if let Some(still_open) = counted.still_open {
        super::still_open::print_json(out, still_open)?;
    }
    if let Some(not_freed) = counted.not_freed {
        super::not_freed::print_json(out, not_freed)?;
    }
    let nanos = |ticks: u64| (ticks as f64 * unit).round() as u64;
    for ((function, at), row) in rows {
        let filled = row.buckets.iter().enumerate();
        let filled = filled.filter(|(_, count)| **count != 0 && row.is_timed());
        let time = |ticks: u64| row.is_timed().then(|| nanos(ticks));
        let row = answer::calls::Row {
            function,
            site: site(at),
            calls: row.calls,
            left: row.left,
            failed: row.failed,
            bytes: row.bytes,
            rows: row.rows,
            total_ns: time(row.total),
            mean_ns: time(row.mean()),
            p50_ns: time(row.quantile(50)),
            p95_ns: time(row.quantile(95)),
            p99_ns: time(row.quantile(99)),
            max_ns: time(row.longest),
            buckets: filled
                .map(|(bucket, count)| {
                    let [start, end] = bucket_bounds(bucket).map(nanos);
                    [start, end, *count]
                })
                .collect(),
        };
        crate::json::line(out, &Record::Row(Box::new(row)))?;
    }
    let sum = |of: fn(&Row) -> u64| super::format::sum(rows.iter().map(|(_, row)| of(row)));
    let total = Record::Total {
        calls: sum(|row| row.calls),
        left: sum(|row| row.left),
        total_ns: nanos(sum(|row| row.total)),
    };
    crate::json::line(out, &total)
}
