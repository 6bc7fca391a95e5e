//! How methods of Ruby are replaced: `patch.rb`. The list of patches is `$lancet_patches`; it exists while there are patches, and any later
//! lancet reads it. Used by `ruby`.

use crate::patch::{Job, Patching};

const PROGRAM: &str = include_str!("patch.rb");

/// How methods are replaced.
pub const PATCHING: Patching = Patching {
    example: "ruby:Class#method=FILE.rb",
    program: PROGRAM,
    expression,
};

fn expression(job: &Job) -> String {
    let [what, target, path, text] = job.literals(|code| format!("\\u{{{code:x}}}"));
    let id = job.id;
    format!("({PROGRAM}).call({what}, {target}, {path}, {text}, {id})")
}
