//! One thread at a time does what the command requests of a VM. Used by `languages::php::jobs`,
//! `languages::python::jobs`, `languages::php::births::counting` and others.

use crate::shared::CONTROL_PAGE;
use core::sync::atomic::Ordering;
use wire::{Reply, State};

/// Begins the work on the request that waits, and returns its number; `None` if there is none, or if a thread is at work already, for
/// this command or for one that is gone. The caller holds the VM's lock.
///
/// A command that claims the agent answers what waits and then waits until nobody is at work, before it writes a request of its own. So
/// the request is read after the thread has said that it is at work: what it reads then is not written meanwhile.
pub fn begin() -> Option<u32> {
    let at_work = &CONTROL_PAGE.at_work;
    if CONTROL_PAGE.state.load(Ordering::Acquire) != State::Open as u32
        || at_work
            .compare_exchange(0, u32::MAX, Ordering::SeqCst, Ordering::Relaxed)
            .is_err()
    {
        return None;
    }
    let asked = CONTROL_PAGE.asked.load(Ordering::SeqCst);
    let waits = asked != CONTROL_PAGE.answered.load(Ordering::SeqCst);
    at_work.store(if waits { asked } else { 0 }, Ordering::Release);
    waits.then_some(asked)
}

/// Ends the work on a request without a reply: it is begun again when the command has a thread enter again.
pub fn put_off() {
    CONTROL_PAGE.at_work.store(0, Ordering::Release);
}

/// Ends the work on a request, with this reply, unless another command has claimed the agent meanwhile.
pub fn end(asked: u32, reply: Reply) {
    if CONTROL_PAGE.asked.load(Ordering::Acquire) == asked {
        CONTROL_PAGE.reply.store(reply as u32, Ordering::Relaxed);
        CONTROL_PAGE.answered.store(asked, Ordering::Release);
    }
    put_off();
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::sync::Mutex;

    /// The control page and the configuration are one for all tests.
    pub static PAGE: Mutex<()> = Mutex::new(());

    /// A command was killed while a thread carried out what it had asked for. The next one has claimed the agent: what it asks for waits
    /// until the work is done, and the answer to the old request is no answer to the new one.
    #[test]
    fn one_request_at_a_time() {
        let _one = PAGE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let ask = |number: u32| {
            CONTROL_PAGE.asked.store(number, Ordering::Relaxed);
        };
        let answered = || CONTROL_PAGE.answered.load(Ordering::Relaxed);
        CONTROL_PAGE
            .state
            .store(State::Open as u32, Ordering::Relaxed);
        CONTROL_PAGE.answered.store(40, Ordering::Relaxed);
        ask(40);
        assert_eq!(begin(), None, "nothing waits");
        assert_eq!(CONTROL_PAGE.at_work.load(Ordering::Relaxed), 0);
        ask(41);
        assert_eq!(begin(), Some(41));
        assert_eq!(CONTROL_PAGE.at_work.load(Ordering::Relaxed), 41);
        assert_eq!(begin(), None, "a second call while the first one works");
        // The claim of the next command, and its request.
        CONTROL_PAGE.answered.store(41, Ordering::Relaxed);
        ask(42);
        assert_eq!(begin(), None, "in the middle of the work");
        end(41, Reply::Done);
        assert_eq!(answered(), 41, "the new request is not answered");
        assert_eq!(begin(), Some(42));
        put_off();
        assert_eq!(begin(), Some(42), "what was put off is begun again");
        end(42, Reply::Done);
        assert_eq!(answered(), 42);
        ask(43);
        CONTROL_PAGE
            .state
            .store(State::Quiet as u32, Ordering::Relaxed);
        assert_eq!(begin(), None, "the command has left");
    }
}
