//! What a PHP can be asked for: its row of the table. Used by `languages`.

use super::counted;
use crate::languages::entry::{Count, Entry};
use vm::Language;

/// What a PHP can be asked for.
pub(crate) const ENTRY: Entry = Entry {
    language: Language::Php,
    evaluate: None,
    count: Some(Count {
        open: counted::open,
        at_script: counted::open_at_script,
        accounts: false,
    }),
    copy: None,
    time: None,
};
