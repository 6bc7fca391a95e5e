//! Ranked frames for programs: a `file` for each file and a `frame` for each row.

use std::io::{self, Write};

use frames::How;
use frames::ranking::Ranking;
use serde_json::json;

use crate::json::line;

/// Writes the records.
///
/// # Errors
///
/// Returns the errors of `out`.
pub fn write(out: &mut dyn Write, ranking: &Ranking) -> io::Result<()> {
    for scan in &ranking.scans {
        let frames = scan.frames();
        let record = json!({
            "record": "file",
            "file": scan.image().path().to_string_lossy(),
            "functions": frames.len(),
            "dynamic": frames.iter().filter(|frame| frame.dynamic).count(),
            "dispatchers": frames.iter().filter(|frame| frame.dispatcher).count(),
            "damaged": scan.damaged(),
        });
        line(out, &record)?;
    }
    for (number, frame) in &ranking.rows {
        let scan = &ranking.scans[*number];
        let hints = scan.hints(frame);
        let variable = scan.variable(frame).map(|variable| {
            json!({
                "name": variable.name,
                "type": variable.kind,
                "bytes": variable.bytes,
                "file": variable.file,
                "line": variable.line,
            })
        });
        let record = json!({
            "record": "frame",
            "file": scan.image().path().to_string_lossy(),
            "address": frame.range.start,
            "end": frame.range.end,
            "name": scan.name(frame),
            "symbol": scan.symbol(frame),
            "bytes": frame.bytes,
            "deepest_at": frame.deepest_at,
            "padding": frame.padding,
            "dynamic": frame.dynamic,
            "frame_pointer": frame.frame_pointer,
            "by": match frame.how {
                How::Cfi => "cfi",
                How::Code => "code",
            },
            "otherwise": frame.otherwise,
            "unclear": frame.unclear,
            "parts": frame.parts.iter().map(|part| [part.start, part.end]).collect::<Vec<_>>(),
            "calls": hints.calls,
            "texts": hints.texts,
            "caller": hints.caller,
            "variable": variable,
        });
        line(out, &record)?;
    }
    Ok(())
}
