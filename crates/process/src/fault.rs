//! Panics on demand, for the tests of what a panic of the command does to the processes that it has opened.
//!
//! `LANCET_FAULT=reading,leaving` makes the named places panic, each once, when they are reached. The program for tests
//! has these places, because this crate has debug assertions there (`profile.tests`); the one that is shipped has none.

/// Panics if the variable names this place.
#[cfg(debug_assertions)]
pub fn point(name: &str) {
    use std::sync::{Mutex, OnceLock, PoisonError};
    static WANTED: OnceLock<Mutex<Vec<String>>> = OnceLock::new();
    let wanted = WANTED.get_or_init(|| {
        let names = std::env::var("LANCET_FAULT").unwrap_or_default();
        let names = names.split(',').filter(|name| !name.is_empty());
        Mutex::new(names.map(str::to_owned).collect())
    });
    let mut wanted = wanted.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(at) = wanted.iter().position(|wanted| wanted == name) {
        wanted.remove(at);
        drop(wanted);
        panic!("a test asked for a panic here: {name}");
    }
}

/// Does nothing in a release build.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn point(_: &str) {}
