//! Ranked frames for people. Used by `lancet::commands::stack::run`.
//!
//! ```text
//! rubyeventmachine.so: 464 functions, 458 by call frame information, 6 by their code; none dynamic
//!
//!   bytes  function
//!  32,976  evma_send_file_data_to_connection: calls open, fstat, read
//!   9,136+ vfprintf: work_buffer, wchar_t [1000] at vfprintf.c:1423
//! ```

use std::io::{self, Write};

use frames::ranking::Ranking;
use frames::{Frame, How, Scan};

use crate::figures::grouped;
use crate::stack::names::file_name;
use crate::text::printable;

/// A variable of this many bytes and more is named, because it explains the frame.
const BIG: u64 = 64;

/// Writes a line on each file, then the rows.
///
/// # Errors
///
/// Returns the errors of `out`.
pub fn write(out: &mut dyn Write, ranking: &Ranking) -> io::Result<()> {
    let several = ranking.scans.len() > 1;
    for scan in &ranking.scans {
        writeln!(out, "{}", head(scan))?;
    }
    let bytes = |frame: &Frame| {
        format!(
            "{}{}",
            grouped(frame.bytes),
            if frame.dynamic { "+" } else { " " }
        )
    };
    let widest = ranking
        .rows
        .iter()
        .map(|(_, frame)| bytes(frame).len())
        .max()
        .unwrap_or(0)
        .max("bytes ".len());
    writeln!(
        out,
        "\n{:>widest$} {}function",
        "bytes ",
        if several { "file: " } else { "" }
    )?;
    for (number, frame) in &ranking.rows {
        let scan = &ranking.scans[*number];
        write!(out, "{:>widest$} ", bytes(frame))?;
        if several {
            write!(out, "{}: ", file_name(scan))?;
        }
        writeln!(out, "{}", printable(&function(scan, frame)))?;
    }
    if ranking.more > 0 {
        writeln!(
            out,
            "{:>widest$} … and {} more",
            "",
            grouped(ranking.more as u64)
        )?;
    }
    if let Some((count, largest)) = ranking.dispatchers {
        writeln!(
            out,
            "\n{} functions of Go for each size of a frame, to {} bytes (runtime.callN, debugCallN), are in every program of Go and no rows",
            grouped(count as u64),
            grouped(largest)
        )?;
    }
    if ranking.rows.iter().any(|(_, frame)| frame.dynamic) {
        writeln!(
            out,
            "\n+ and more, by an amount decided at run time (alloca, a variable-length array)"
        )?;
    }
    Ok(())
}

fn head(scan: &Scan) -> String {
    let frames = scan.frames();
    let count = |which: &dyn Fn(&Frame) -> bool| {
        grouped(frames.iter().filter(|frame| which(frame)).count() as u64)
    };
    let damaged = match scan.damaged() {
        0 => String::new(),
        1 => "; 1 damaged entry of the call frame information left out".to_owned(),
        damaged => format!("; {damaged} damaged entries of the call frame information left out"),
    };
    format!(
        "{}: {} functions, {} by call frame information, {} by their code; {} dynamic{damaged}",
        printable(&scan.image().path().display().to_string()),
        grouped(frames.len() as u64),
        count(&|frame| frame.how == How::Cfi),
        count(&|frame| frame.how == How::Code),
        count(&|frame| frame.dynamic),
    )
}

/// The name or the address, and what is known of what the frame is for.
fn function(scan: &Scan, frame: &Frame) -> String {
    let name = scan.name(frame);
    let mut remarks = Vec::new();
    if let Some(variable) = scan
        .variable(frame)
        .filter(|variable| variable.bytes >= BIG)
    {
        let place = match (&variable.file, variable.line) {
            (Some(file), Some(line)) => format!(" at {file}:{line}"),
            _ => String::new(),
        };
        remarks.push(format!(
            "{}, {}, {} bytes{place}",
            variable.name,
            variable.kind,
            grouped(variable.bytes)
        ));
    }
    if name.is_none() {
        let hints = scan.hints(frame);
        if !hints.calls.is_empty() {
            remarks.push(format!("calls {}", hints.calls.join(", ")));
        }
        if !hints.texts.is_empty() {
            let texts: Vec<String> = hints
                .texts
                .iter()
                .map(|text| format!("\"{text}\""))
                .collect();
            remarks.push(format!("says {}", texts.join(", ")));
        }
        if let Some(caller) = &hints.caller {
            remarks.push(format!("called by {caller}"));
        }
    }
    if frame.padding > 0 {
        remarks.push(format!("up to {} of it to align the rest", frame.padding));
    }
    if let Some(other) = frame.otherwise.filter(|other| *other != frame.bytes) {
        let (this, that) = match frame.how {
            How::Cfi => ("call frame information", "the code"),
            How::Code => ("the code", "call frame information"),
        };
        remarks.push(format!("{this} says so, {that} says {}", grouped(other)));
    }
    if frame.unclear {
        remarks.push("not all of its code could be followed".to_owned());
    }
    let name = name.unwrap_or_else(|| format!("{:#x}", frame.range.start));
    if remarks.is_empty() {
        name
    } else {
        format!("{name}: {}", remarks.join("; "))
    }
}
