//! What the agent does inside the VM of each language: a folder a language, and one table of them. The rest of the agent asks the
//! table, and names none. A language whose VM is never called (Perl) has no entry: it is read from outside. Used by
//! `jobs`.

mod entry;
mod functions;
mod php;
mod python;
mod ruby;

use entry::Entry;

static ALL: [Entry; 3] = [ruby::ENTRY, python::ENTRY, php::ENTRY];

/// What the agent does in the VM of the language with this number (`vm::Language::number`); `None` = in such a VM it does nothing.
pub fn of(number: u64) -> Option<&'static Entry> {
    ALL.iter().find(|entry| entry.language.number() == number)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The command opens a door by the language's number. Without an entry the agent would do nothing there, and the command would wait
    /// until its time is over.
    #[test]
    fn every_language_with_a_door_has_an_entry() {
        for door in vm::Door::ALL {
            let language = door.language();
            assert!(of(language.number()).is_some(), "{door:?}: {language}");
        }
    }
}
