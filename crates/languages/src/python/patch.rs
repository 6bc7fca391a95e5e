//! How functions of Python are replaced: `patch.py`. The list of patches is `sys.__lancet_patches__`; it exists while there are patches, and
//! any later lancet reads it. Used by `python`.

use crate::literal::literal;
use crate::patch::{Job, Patching};

const PROGRAM: &str = include_str!("patch.py");

/// How functions are replaced.
pub const PATCHING: Patching = Patching {
    example: "python:module.function=FILE.py",
    program: PROGRAM,
    expression,
};

fn expression(job: &Job) -> String {
    let beyond = |code| format!("\\U{code:08x}");
    let [what, target, path, text] = job.literals(beyond);
    let (program, id) = (literal(PROGRAM, beyond), job.id);
    format!(
        "(lambda space: (exec(compile({program}, \"<lancet>\", \"exec\"), space), space[\"answer\"])[1])\
         ({{\"__name__\": \"lancet\", \"job\": ({what}, {target}, {path}, {text}, {id})}})"
    )
}
