//! Signals by name: from a number to its name and back. Used by `message::wording`, and by the crates `lancet` and
//! `report`.

use std::ffi::CStr;

/// Returns the name, such as `SIGUSR1`; real-time signals are counted from the first.
pub fn signal_name(signal: i32) -> String {
    if let Ok(known) = nix::sys::signal::Signal::try_from(signal) {
        return known.as_str().into();
    }
    match signal - libc::SIGRTMIN() {
        0 => "SIGRTMIN".into(),
        above @ 1.. => format!("SIGRTMIN+{above}"),
        _ => format!("SIG{signal}"),
    }
}

/// Returns libc's description, such as `User defined signal 1`.
pub fn signal_text(signal: i32) -> String {
    // SAFETY: strsignal(3) takes any number and returns a string that is valid until its next call;
    // lancet calls it only from this function, whose callers are on one thread.
    let text = unsafe { CStr::from_ptr(libc::strsignal(signal)) };
    text.to_string_lossy().into_owned()
}

/// The greatest number of a signal.
pub const SIGNALS: i32 = 64;

/// Returns a signal by its number or its name, with `SIG` or without it.
#[must_use]
pub fn signal_of(word: &str) -> Option<i32> {
    if let Ok(number) = word.parse() {
        return (1..=SIGNALS).contains(&number).then_some(number);
    }
    let word = word.to_ascii_uppercase();
    let word = word.strip_prefix("SIG").unwrap_or(&word);
    let is = |number: &i32| signal_name(*number).strip_prefix("SIG") == Some(word);
    (1..=SIGNALS).find(is)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_the_names_that_people_know() {
        assert_eq!(signal_name(libc::SIGUSR1), "SIGUSR1");
        assert_eq!(signal_name(libc::SIGRTMIN() + 2), "SIGRTMIN+2");
        assert_eq!(signal_of("usr1"), Some(libc::SIGUSR1));
        assert_eq!(signal_of("SIGRTMIN+2"), Some(libc::SIGRTMIN() + 2));
        assert_eq!(signal_of("0"), None);
        assert_eq!(signal_text(libc::SIGUSR1), "User defined signal 1");
    }
}
