//! Where a request begins and ends: two words in records of the VM's modules lead to ours, which call what they led to before
//! ([`vm::php::Requests`]).

use crate::languages::functions::function;
use crate::memory::follow::kept;
use core::sync::atomic::{AtomicU64, Ordering};
use vm::php::api::{FIRST, LAST};

/// One of the two.
pub struct Word {
    /// Where the table of the command has its address.
    place: usize,
    /// What it led to. It stays when ours is out, because another tool may have put its function in front of ours.
    before: AtomicU64,
    ours: AtomicU64,
}

impl Word {
    const fn at(place: usize) -> Self {
        Word {
            place,
            before: AtomicU64::new(0),
            ours: AtomicU64::new(0),
        }
    }

    /// What it led to before us.
    pub fn before(&self) -> u64 {
        self.before.load(Ordering::Relaxed)
    }

    fn word(&self) -> Option<&'static AtomicU64> {
        // SAFETY: the table is written by the command alone; this is an address, taken as a number.
        let at = unsafe { function::<u64>(self.place) };
        // SAFETY: the command has found the word in a record of a module that the VM has registered, which lives as long as the process and
        // may be written. The VM's one thread reads it, and is here.
        (at != 0).then(|| unsafe { &*kept::<AtomicU64>(at) })
    }
}

/// What a request begins with, and what it ends with.
pub static BOTH: [Word; 2] = [Word::at(FIRST), Word::at(LAST)];

/// Has both words lead to ours.
pub fn take(ours: [u64; 2]) {
    for (one, ours) in BOTH.iter().zip(ours) {
        one.ours.store(ours, Ordering::Relaxed);
        let Some(word) = one.word() else { continue };
        let found = word.load(Ordering::Relaxed);
        if found != ours {
            one.before.store(found, Ordering::Relaxed);
            word.store(ours, Ordering::Relaxed);
        }
    }
}

/// Puts back what was there, where ours are.
pub fn put_back() {
    for one in &BOTH {
        let ours = one.ours.load(Ordering::Relaxed);
        if let Some(word) = one.word()
            && ours != 0
            && word.load(Ordering::Relaxed) == ours
        {
            word.store(one.before(), Ordering::Relaxed);
        }
    }
}
