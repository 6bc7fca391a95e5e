//! The formats of `lancet calls` by name: the one list that help, completions and the command follow.

use super::format::Format;
use super::{Json, Lines, summary_json, summary_ltrace, summary_table};

/// The formats, in the order in which help lists them. The first is the default.
pub static FORMATS: &[&Format] = &[&LINES, &LTRACE, &JSON];

/// Lines for people ([`Lines`]), and the table of `-c`.
pub static LINES: Format = Format {
    name: "lines",
    about: "A line a call, with the script's line; -c: a table",
    like_ltrace: false,
    has_records: false,
    events: |layout, signatures, out| Box::new(Lines::new(layout, signatures, out)),
    counts: summary_table::print,
};

/// Objects for programs ([`Json`]), one a line.
pub static JSON: Format = Format {
    name: "records",
    about: "Records",
    like_ltrace: false,
    has_records: true,
    events: |layout, signatures, out| Box::new(Json::new(layout, signatures, out)),
    counts: summary_json::print,
};

/// Lines and table of ltrace 0.7.91.
pub static LTRACE: Format = Format {
    name: "ltrace",
    about: "As ltrace prints it, without the script's line",
    like_ltrace: true,
    has_records: false,
    events: |layout, signatures, out| Box::new(Lines::new(layout, signatures, out)),
    counts: summary_ltrace::print,
};
