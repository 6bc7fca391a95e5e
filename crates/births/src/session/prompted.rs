//! The wait for a collection that a guest was brought to run by itself ([`super::Session::prompt`]).

use enter::Awaited;
use std::time::{Duration, Instant};

/// How long is waited until the collection begins, and until it ends; and the time between two looks.
const BEGINS: Duration = Duration::from_millis(500);
const ENDS: Duration = Duration::from_secs(10);
pub(crate) const LOOK: Duration = Duration::from_millis(1);

/// What a guest was brought to do.
#[derive(Debug, Default)]
pub(super) struct Prompted {
    /// Since when its collection is waited for.
    pub(super) since: Option<Instant>,
    /// Whether one did not end in time: none is wanted of this guest any more.
    pub(super) is_slow: bool,
    /// For how long one was waited for that did not end.
    pub(super) unended: Duration,
}

impl Prompted {
    /// Notes what is still awaited after this time; returns whether the wait is over.
    pub(super) fn look(&mut self, awaited: Awaited, waited: Duration) -> bool {
        let is_over = match awaited {
            Awaited::Nothing => true,
            Awaited::Beginning => waited >= BEGINS,
            Awaited::End => waited >= ENDS,
        };
        if is_over {
            self.since = None;
        }
        if is_over && awaited == Awaited::End {
            self.is_slow = true;
            self.unended += waited;
        }
        is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompted() -> Prompted {
        Prompted {
            since: Some(Instant::now()),
            ..Prompted::default()
        }
    }

    #[test]
    fn a_collection_that_runs_is_waited_for_longer_than_one_that_does_not_begin() {
        let mut one = prompted();
        assert!(!one.look(Awaited::Beginning, BEGINS / 2));
        assert!(!one.look(Awaited::End, BEGINS * 2), "it has begun");
        assert!(one.since.is_some());
        assert!(one.look(Awaited::Nothing, BEGINS * 3));
        assert_eq!((one.since, one.is_slow), (None, false));
        assert!(prompted().look(Awaited::Beginning, BEGINS));
    }

    #[test]
    fn one_that_does_not_end_is_charged_and_the_last() {
        let mut one = prompted();
        assert!(one.look(Awaited::End, ENDS));
        assert!(one.is_slow && one.since.is_none());
        assert_eq!(one.unended, ENDS);
    }
}
