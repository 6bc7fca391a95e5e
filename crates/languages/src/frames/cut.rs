//! Frames that could not be read: where a chain of frames breaks off, that is told. Used by the readers of the languages.

use std::cell::Cell;
use std::fmt::Display;

/// Whether a chain broke off since that was asked last.
#[derive(Default)]
pub(crate) struct Cut(Cell<bool>);

impl Cut {
    /// Returns the frames of a chain up to the first that cannot be read, and notes if there is one.
    pub(crate) fn until_error<T, E>(
        &self,
        frames: impl Iterator<Item = Result<T, E>>,
    ) -> impl Iterator<Item = T> {
        frames.map_while(|frame| {
            if frame.is_err() {
                self.0.set(true);
            }
            frame.ok()
        })
    }

    /// Returns what is told of the VM, if a chain broke off since that was asked last.
    pub(crate) fn take(&self, vm: &dyn Display) -> Option<String> {
        let is_cut = self.0.take();
        is_cut.then(|| {
            format!("{vm}: a frame of a thread cannot be read, so those outside of it are missing")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_that_breaks_off_is_told_once() {
        let cut = Cut::default();
        let whole: Vec<u32> = cut
            .until_error([Ok::<_, ()>(1), Ok(2)].into_iter())
            .collect();
        assert_eq!((whole, cut.take(&"Perl 5.40")), (vec![1, 2], None));
        let part: Vec<u32> = cut
            .until_error([Ok(1), Err(()), Ok(3)].into_iter())
            .collect();
        assert_eq!(part, [1]);
        let told = cut.take(&"Perl 5.40").expect("a line");
        assert!(told.starts_with("Perl 5.40: a frame"), "{told}");
        assert_eq!(cut.take(&"Perl 5.40"), None);
    }
}
