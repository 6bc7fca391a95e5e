//! Where a request begins and ends: words in records of the VM lead to ours, which call what they led to before ([`vm::php::Requests`]).
//! Used by `counting` and `handlers`.

use crate::languages::functions::function;
use crate::memory::follow::kept;
use crate::memory::sys;
use core::sync::atomic::{AtomicU64, Ordering};
use vm::php::api::{CLOSE, FIRST, LAST};

fn address(word: &AtomicU64) -> u64 {
    (&raw const *word).addr() as u64
}

/// One of them.
pub struct Word {
    /// Where the table of the command has its address.
    place: usize,
    /// What it led to, which may be null. It stays when ours is out, because another tool may have put its function in front of ours.
    before: AtomicU64,
    ours: AtomicU64,
    /// The address of the word that has led to ours; 0 = none has. A module that is loaded again has another.
    taken: AtomicU64,
}

impl Word {
    const fn at(place: usize) -> Self {
        Word {
            place,
            before: AtomicU64::new(0),
            ours: AtomicU64::new(0),
            taken: AtomicU64::new(0),
        }
    }

    /// What it led to before us.
    pub fn before(&self) -> u64 {
        self.before.load(Ordering::Relaxed)
    }

    /// The word, if it is there: a module's record is unmapped with the module when the VM ends.
    fn word(&self) -> Option<&'static AtomicU64> {
        // SAFETY: the table is written by the command alone; this is an address, taken as a number.
        let at = unsafe { function::<u64>(self.place) };
        // SAFETY: the command has found the word in a record that the VM has registered, which may be written. It can be read at this moment, and
        // the VM's one thread, which alone unmaps it, is here.
        sys::is_readable(at).then(|| unsafe { &*kept::<AtomicU64>(at) })
    }

    /// Whether `word` may lead to ours. If it has done so and leads to neither ours nor what it led to before, another tool has put its function in
    /// front of ours, which it calls: ours in front of that would call each other for ever.
    fn is_free(&self, word: &AtomicU64, ours: u64) -> bool {
        let found = word.load(Ordering::Relaxed);
        let was_taken = self.taken.load(Ordering::Relaxed) == address(word);
        !was_taken || found == ours || found == self.before()
    }

    /// Has it lead to ours.
    fn take(&self, word: &AtomicU64, ours: u64) {
        self.ours.store(ours, Ordering::Relaxed);
        let found = word.load(Ordering::Relaxed);
        if found != ours {
            self.before.store(found, Ordering::Relaxed);
            self.taken.store(address(word), Ordering::Relaxed);
            word.store(ours, Ordering::Relaxed);
        }
    }

    /// Puts back what was there, if it leads to ours.
    fn put_back(&self, word: &AtomicU64) {
        let ours = self.ours.load(Ordering::Relaxed);
        if ours != 0 && word.load(Ordering::Relaxed) == ours {
            word.store(self.before(), Ordering::Relaxed);
        }
    }
}

/// What a request begins with, what it ends with, and what is called when all of it but its memory is freed.
pub static ALL: [Word; 3] = [Word::at(FIRST), Word::at(LAST), Word::at(CLOSE)];

/// Has all words lead to ours. `None`: none of them does, because one is not there or leads to another tool that leads to ours.
pub fn take(ours: [u64; 3]) -> Option<()> {
    let mut words = [None; 3];
    for ((place, one), ours) in words.iter_mut().zip(&ALL).zip(ours) {
        let word = one.word()?;
        *place = one.is_free(word, ours).then_some(word);
    }
    let [Some(first), Some(last), Some(close)] = words else {
        return None;
    };
    for ((one, word), ours) in ALL.iter().zip([first, last, close]).zip(ours) {
        one.take(word, ours);
    }
    Some(())
}

/// Puts back what was there, where ours are.
pub fn put_back() {
    for one in &ALL {
        if let Some(word) = one.word() {
            one.put_back(word);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: u64 = 0x1000;
    const OWN: u64 = 0x2000;
    const OTHER: u64 = 0x3000;

    /// Another tool has put its function in front of ours and stayed when we left: it still calls ours, so ours must not come in front of it.
    #[test]
    fn a_word_that_leads_to_ours_through_another_tool_is_not_taken() {
        let (one, word) = (Word::at(0), AtomicU64::new(OWN));
        let is_free = || one.is_free(&word, OURS);
        assert!(is_free());
        one.take(&word, OURS);
        assert!(is_free(), "ours are there");
        word.store(OTHER, Ordering::Relaxed);
        one.put_back(&word);
        assert_eq!(
            word.load(Ordering::Relaxed),
            OTHER,
            "it is not ours to put back"
        );
        assert!(!is_free(), "it leads to ours");
        word.store(OURS, Ordering::Relaxed);
        one.put_back(&word);
        assert_eq!(word.load(Ordering::Relaxed), OWN);
        assert!(is_free());
    }

    /// A module that was loaded again, as at a graceful restart of its server, has its record at another address, which has never led to ours.
    #[test]
    fn a_word_at_another_address_is_taken_anew() {
        let (one, word) = (Word::at(0), AtomicU64::new(OWN));
        one.take(&word, OURS);
        one.put_back(&word);
        let again = AtomicU64::new(OTHER);
        assert!(one.is_free(&again, OURS));
        one.take(&again, OURS);
        one.put_back(&again);
        assert_eq!(again.load(Ordering::Relaxed), OTHER);
        again.store(OWN, Ordering::Relaxed);
        assert!(
            !one.is_free(&again, OURS),
            "what led to ours before is known"
        );
    }

    /// A word that was null leads to null again.
    #[test]
    fn a_word_that_was_null_is_null_again() {
        let (one, word) = (Word::at(0), AtomicU64::new(0));
        one.take(&word, OURS);
        one.take(&word, OURS);
        assert_eq!((one.before(), word.load(Ordering::Relaxed)), (0, OURS));
        one.put_back(&word);
        assert_eq!(word.load(Ordering::Relaxed), 0);
        assert!(one.is_free(&word, OURS));
    }
}
