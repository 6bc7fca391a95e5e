//! A value that is made once, and that the child of a fork cannot find half made.

use core::marker::PhantomData;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};
use std::boxed::Box;

/// As `OnceLock`, for a value that two threads may make at once; the second one's is dropped. So nobody
/// waits for another thread, which the child of a fork would not have. The value is never dropped.
pub(crate) struct Once<T> {
    value: AtomicPtr<T>,
    /// Threads share the value, and may hand it over to the one that reads it.
    owned: PhantomData<T>,
}

impl<T> Once<T> {
    pub(crate) const fn new() -> Self {
        Once {
            value: AtomicPtr::new(ptr::null_mut()),
            owned: PhantomData,
        }
    }
}

impl<T: Send + Sync> Once<T> {
    /// Returns the value, if there is one.
    #[inline]
    pub(crate) fn get(&'static self) -> Option<&'static T> {
        // SAFETY: what is in `value` came from Box::into_raw below and is never freed.
        unsafe { self.value.load(Ordering::Acquire).as_ref() }
    }

    /// Returns the value; calls `make` if there is none yet.
    pub(crate) fn get_or_make(&'static self, make: impl FnOnce() -> T) -> &'static T {
        if let Some(value) = self.get() {
            return value;
        }
        let ours = Box::into_raw(Box::new(make()));
        let first =
            self.value
                .compare_exchange(ptr::null_mut(), ours, Ordering::AcqRel, Ordering::Acquire);
        // SAFETY: as in `get`; `ours`, if it came too late, was seen by nobody else.
        unsafe {
            match first {
                Ok(_) => &*ours,
                Err(theirs) => {
                    drop(Box::from_raw(ours));
                    &*theirs
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::vec::Vec;

    #[test]
    fn all_threads_get_the_same_value() {
        static VALUE: Once<usize> = Once::new();
        let start = Barrier::new(8);
        let seen: Vec<(usize, usize)> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|number| {
                    let start = &start;
                    scope.spawn(move || {
                        let value = VALUE.get_or_make(|| {
                            // So that all of them make one.
                            start.wait();
                            number
                        });
                        (ptr::from_ref(value).addr(), *value)
                    })
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().expect("no panic"))
                .collect()
        });
        assert!(seen.iter().all(|value| *value == seen[0]), "{seen:?}");
    }
}
