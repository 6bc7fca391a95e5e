//! Where threads run: the answers of `lancet profile`.
//!
//! | module | what it writes |
//! |---|---|
//! | `table` | the verdict, and functions with their own and total shares |
//! | [`difference`] | of which functions the share has changed since an earlier profile |
//! | `tree` | who calls whom, the dear ways first |
//! | `json` | functions and their callers, for programs |
//! | `html` | a page with a flame graph to go into, functions, and who calls them |
//! | `pprof` | for `pprof` and what reads its format |
//! | `drawn` | what the folded formats of `stack --for` draw: collapsed stacks, speedscope, a flame graph |

mod calls;
pub mod difference;
mod drawn;
mod format;
mod html;
mod json;
mod pprof;
mod table;
mod tree;
mod words;

pub use format::{Format, Head};

/// The formats, in the order in which help lists them.
pub static FORMATS: &[&Format] = &[
    &table::FORMAT,
    &tree::FORMAT,
    &drawn::COLLAPSED,
    &drawn::SPEEDSCOPE,
    &drawn::SVG,
    &html::FORMAT,
    &pprof::FORMAT,
    &json::FORMAT,
];
