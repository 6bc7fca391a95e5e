//! Frames that differ, for programs: a `difference` and a `change` for each row. Used by
//! `lancet::commands::stack::run`.

use std::io::{self, Write};

use answer::stack::Record;
use frames::difference::Difference;

use super::{kind, largest, sizes};
use crate::json::line;

/// Writes a line of JSON on both files, then one for each frame that differs.
///
/// # Errors
///
/// Returns the errors of `out`.
pub fn write(out: &mut dyn Write, difference: &Difference) -> io::Result<()> {
    let counts = &difference.counts;
    let (before, after) = largest(difference);
    let path = |scan: &frames::Scan| scan.image().path().to_string_lossy().into_owned();
    let record = Record::Difference {
        old: path(&difference.old),
        new: path(&difference.new),
        grew: counts.grew,
        came: counts.came,
        shrank: counts.shrank,
        gone: counts.gone,
        same: counts.same,
        unnamed: counts.unnamed.into(),
        largest: [before, after],
        larger: difference.larger,
    };
    line(out, &record)?;
    for change in &difference.changes {
        let (before, after) = sizes(change);
        let dynamic = |frame: &Option<frames::Frame>| frame.as_ref().map(|frame| frame.dynamic);
        let record = Record::Change {
            name: &change.name,
            kind: kind(change),
            before,
            after,
            bytes: change.growth(),
            dynamic: [dynamic(&change.old), dynamic(&change.new)],
        };
        line(out, &record)?;
    }
    Ok(())
}
