//! The cost of stacks for programs: a `scan` for each stack, then `collections` for each kind that was timed.

use std::io::{self, Write};
use std::time::Duration;

use serde_json::json;

use super::{Collections, Scanned};
use crate::json::line;
use crate::stack::Subject;
use crate::stack::names::{parked, tid};

/// Writes what was predicted and, where collections were timed, what they took.
///
/// # Errors
///
/// Returns the errors of `out`.
pub fn write(
    out: &mut dyn Write,
    subject: &Subject<'_>,
    scanned: &[Scanned<'_>],
    timed: Option<&Collections>,
) -> io::Result<()> {
    for Scanned {
        stack,
        cost,
        uncached,
    } in scanned
    {
        let record = json!({
            "record": "scan",
            "pid": subject.pid,
            "tid": tid(stack),
            "parked": parked(stack),
            "bytes": stack.scanned(),
            "objects": stack.references(),
            "predicted_us": microseconds(*cost),
            "predicted_uncached_us": microseconds(*uncached),
        });
        line(out, &record)?;
    }
    for timed in timed.into_iter().flat_map(Collections::kinds) {
        let record = json!({
            "record": "collections",
            "pid": subject.pid,
            "kind": timed.kind,
            "count": timed.count,
            "least_us": microseconds(timed.least),
            "median_us": microseconds(timed.median),
            "most_us": microseconds(timed.most),
        });
        line(out, &record)?;
    }
    Ok(())
}

fn microseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
