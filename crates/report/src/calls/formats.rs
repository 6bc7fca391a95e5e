//! The formats of `lancet calls` by name: the one list that help, completions and the command follow. Used by crate
//! `lancet`.

use super::format::Format;
use super::{Json, Lines, stacks, summary_json, summary_ltrace, summary_table};
use crate::Writes;

/// The formats, in the order in which help lists them. The first is the default.
pub static FORMATS: &[&Format] = &[&LINES, &LTRACE, &JSON, &STACKS];

/// Lines for people ([`Lines`]), and the table of `-c`.
pub static LINES: Format = Format {
    writes: Writes::text(
        "lines",
        "A line a call, with the script's line; -c: a table",
    ),
    like_ltrace: false,
    events: Some(|layout, signatures, out| Box::new(Lines::new(layout, signatures, out))),
    counts: summary_table::print,
};

/// Objects for programs ([`Json`]), one a line.
pub static JSON: Format = Format {
    writes: Writes::Tables,
    like_ltrace: false,
    events: Some(|layout, signatures, out| Box::new(Json::new(layout, signatures, out))),
    counts: summary_json::print,
};

/// Lines and table of ltrace 0.7.91.
pub static LTRACE: Format = Format {
    writes: Writes::text("ltrace", "As ltrace prints it, without the script's line"),
    like_ltrace: true,
    events: Some(|layout, signatures, out| Box::new(Lines::new(layout, signatures, out))),
    counts: summary_ltrace::print,
};

/// What was counted, for all forms that show stacks.
pub static STACKS: Format = Format {
    writes: Writes::Stacks,
    like_ltrace: false,
    events: None,
    counts: stacks::print,
};
