//! How functions of a script are replaced: by a text in the script's own language, which its VM evaluates, so that the VM's caches, its
//! compiled code and its hooks on definitions take part. The list of patches is an object of the program. Used by
//! `python::patch`, `ruby::patch` and others here, and by crate `patch`.

use crate::literal::literal;

/// What is to be done.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// `apply`, `check`, `undo` or `list`.
    pub what: &'static str,
    /// The function as its language names it; empty where none is named.
    pub target: &'a str,
    /// The path of the file with the new function, as it is shown, and its text.
    pub path: &'a str,
    /// See `path`.
    pub text: &'a str,
    /// The number of a patch, which is put back.
    pub id: u64,
}

impl Job<'_> {
    /// Its texts as literals; `beyond` writes the characters above U+FFFF.
    pub(crate) fn literals(&self, beyond: fn(u32) -> String) -> [String; 4] {
        [self.what, self.target, self.path, self.text].map(|word| literal(word, beyond))
    }
}

/// How the VM of one language does that.
#[derive(Clone, Copy, Debug)]
pub struct Patching {
    /// A request on the command line, for messages.
    pub example: &'static str,
    /// The program that does it, in the language; every expression holds it.
    pub program: &'static str,
    /// A job as one expression, which evaluates to its answer.
    pub expression: fn(&Job) -> String,
}
