//! What a Ruby can be asked for: its row of the table. Used by `languages`.

use super::{collections, counted, evaluation, snapshot};
use crate::languages::entry::{Copy, Count, Entry};
use vm::Language;

/// What a Ruby can be asked for.
pub(crate) const ENTRY: Entry = Entry {
    language: Language::Ruby,
    evaluate: Some(evaluation::open),
    count: Some(Count {
        open: counted::open,
        at_script: counted::open_at_script,
        accounts: true,
    }),
    copy: Some(Copy {
        open: snapshot::open,
        births: true,
    }),
    time: Some(collections::open),
};
