//! Ranked frames for programs: a `file` for each file and a `function` for each row. Used by
//! `lancet::commands::stack::run`.

use std::io::{self, Write};

use answer::place::Address;
use answer::stack::{Function, Record, Variable};
use frames::ranking::Ranking;
use frames::{Frame, How, Scan};

use crate::json::line;

/// Writes the records.
///
/// # Errors
///
/// Returns the errors of `out`.
pub fn write(out: &mut dyn Write, ranking: &Ranking) -> io::Result<()> {
    for scan in &ranking.scans {
        let frames = scan.frames();
        let record = Record::File {
            file: scan.image().path().to_string_lossy().into_owned(),
            functions: frames.len(),
            dynamic: frames.iter().filter(|frame| frame.dynamic).count(),
            dispatchers: frames.iter().filter(|frame| frame.dispatcher).count(),
            damaged: scan.damaged(),
        };
        line(out, &record)?;
    }
    for (number, frame) in &ranking.rows {
        let record = function(&ranking.scans[*number], frame);
        line(out, &Record::Function(Box::new(record)))?;
    }
    Ok(())
}

fn function(scan: &Scan, frame: &Frame) -> Function {
    let hints = scan.hints(frame);
    let variable = scan.variable(frame).map(|variable| Variable {
        name: variable.name,
        r#type: variable.kind,
        bytes: variable.bytes,
        file: variable.file,
        line: variable.line,
    });
    let parts = frame.parts.iter();
    Function {
        file: scan.image().path().to_string_lossy().into_owned(),
        address: Address(frame.range.start),
        end: Address(frame.range.end),
        name: scan.name(frame),
        symbol: scan.symbol(frame),
        bytes: frame.bytes,
        deepest_at: Address(frame.deepest_at),
        padding: frame.padding,
        dynamic: frame.dynamic,
        frame_pointer: frame.frame_pointer,
        by: match frame.how {
            How::Cfi => "cfi",
            How::Code => "code",
        },
        otherwise: frame.otherwise,
        unclear: frame.unclear,
        parts: parts
            .map(|part| [Address(part.start), Address(part.end)])
            .collect(),
        calls: hints.calls,
        texts: hints.texts,
        caller: hints.caller,
        variable,
    }
}
