//! What a Python can be asked for: its row of the table. Used by `languages`.

use super::{Python, counted, snapshot};
use crate::languages::entry::{Copy, Count, Entry};
use vm::Language;

/// What a Python can be asked for.
pub(crate) const ENTRY: Entry = Entry {
    language: Language::Python,
    evaluate: Some(|pid, image| Ok(Box::new(Python::open(pid, image)?))),
    count: Some(Count {
        open: counted::open,
        at_script: counted::open_at_script,
        accounts: false,
    }),
    copy: Some(Copy {
        open: snapshot::open,
        births: false,
    }),
    time: None,
};
