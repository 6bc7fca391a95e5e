//! Answers written down: one file per format.
//!
//! | module | for | reads like |
//! |---|---|---|
//! | [`table`] | people | aligned columns, a head and a foot |
//! | [`memprof`] | scripts and eyes used to memprof | `150001 app.rb:12:String` |
//! | [`json`] | programs | one object a line, schema in `docs/mem-json.md` |
//! | [`stacks`] | flame graphs of stacks, and what draws them | collapsed, speedscope, SVG |
//! | [`folded`] | flame graphs | `main (app.rb:1);load (app.rb:9);String 7` |
//!
//! Each writes to any [`std::io::Write`] and decides nothing: what is shown, in which order and
//! what is cut was settled when the [`analysis::Report`] was made. The text formats pass every
//! string of the guest's through [`text::printable`], because a file name may hold a terminal
//! escape or a newline, and neither may reach the reader's terminal or split a line.

#![forbid(unsafe_code)]

pub mod figures;
pub mod folded;
pub mod json;
pub mod memprof;
pub mod stacks;
pub mod table;
pub mod text;
