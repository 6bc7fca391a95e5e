//! Signals by name.

use std::ffi::CStr;

/// `SIGUSR1`; real-time signals are counted from the first.
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

/// `User defined signal 1`, as libc says it.
pub fn signal_text(signal: i32) -> String {
    // SAFETY: libc answers with a text of its own for any number; nobody else asks at the same time.
    let text = unsafe { CStr::from_ptr(libc::strsignal(signal)) };
    text.to_string_lossy().into_owned()
}

/// The greatest number of a signal.
pub const SIGNALS: i32 = 64;

/// A signal by its number or its name, with `SIG` or without it.
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
