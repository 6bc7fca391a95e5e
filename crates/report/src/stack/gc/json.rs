//! The cost of stacks for programs: a `scan` for each stack, then `collections` for each kind that was timed. Used by
//! `lancet::commands::stack::live`.

use std::io::{self, Write};

use answer::stack::Record;
use answer::time::nanos;

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
        let record = Record::Scan {
            pid: subject.pid,
            tid: tid(stack),
            parked: parked(stack),
            bytes: stack.scanned(),
            objects: stack.references(),
            predicted_ns: nanos(*cost),
            predicted_uncached_ns: nanos(*uncached),
        };
        line(out, &record)?;
    }
    for timed in timed.into_iter().flat_map(Collections::kinds) {
        let record = Record::Collections {
            pid: subject.pid,
            kind: timed.kind,
            count: timed.count,
            least_ns: nanos(timed.least),
            median_ns: nanos(timed.median),
            most_ns: nanos(timed.most),
        };
        line(out, &record)?;
    }
    Ok(())
}
