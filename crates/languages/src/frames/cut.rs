//! Frames that could not be read: where a chain of frames breaks off, that is told and counted. Used by the readers of the languages.

use std::cell::Cell;
use std::fmt;

use super::Script;

/// The script frames of a thread, or of what is parked, innermost first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Chain {
    #[allow(missing_docs)] // The type says it.
    pub scripts: Vec<Script>,
    /// Whether the last of them is the outermost; if not, the next one could not be read.
    pub is_whole: bool,
}

/// What was not read of a VM, in one look or in several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotRead {
    /// What, and why.
    pub what: String,
    /// How many stacks lack frames because of that; 0 where these are not counted.
    pub stacks: u64,
    /// How many frames they lack, as far as that is known.
    pub frames: u64,
}

impl fmt::Display for NotRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        let stacks = match self.stacks {
            0 => return Ok(()),
            1 => "1 stack".to_owned(),
            stacks => format!("{stacks} stacks"),
        };
        match self.frames {
            0 => write!(f, " (of {stacks})"),
            1 => write!(f, " (1 frame of {stacks} could not be read)"),
            frames => write!(f, " ({frames} frames of {stacks} could not be read)"),
        }
    }
}

/// The chains that broke off since that was asked last.
#[derive(Default)]
pub(crate) struct Cut {
    stacks: Cell<u64>,
    frames: Cell<u64>,
}

impl Cut {
    /// Notes a chain that breaks off, and how many frames are missing, as far as that is known.
    pub(crate) fn note(&self, frames: u64) {
        self.stacks.update(|stacks| stacks + 1);
        self.frames.update(|all| all.saturating_add(frames));
    }

    /// Returns the frames of a chain up to the first that cannot be read, and whether that is the whole chain. If not, it is noted.
    pub(crate) fn until_error<T, E>(
        &self,
        frames: impl Iterator<Item = Result<T, E>>,
    ) -> (Vec<T>, bool) {
        let mut read = Vec::new();
        for frame in frames {
            let Ok(frame) = frame else {
                self.note(0);
                return (read, false);
            };
            read.push(frame);
        }
        (read, true)
    }

    /// Returns what is told of the VM, if a chain broke off since that was asked last.
    pub(crate) fn take(&self, vm: &dyn fmt::Display) -> Option<NotRead> {
        self.take_as(format!(
            "{vm}: a frame of a thread cannot be read, so those outside of it are missing"
        ))
    }

    /// The same in other words.
    pub(crate) fn take_as(&self, what: String) -> Option<NotRead> {
        let (stacks, frames) = (self.stacks.take(), self.frames.take());
        (stacks != 0).then_some(NotRead {
            what,
            stacks,
            frames,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_that_breaks_off_is_told_once() {
        let cut = Cut::default();
        let whole = cut.until_error([Ok::<_, ()>(1), Ok(2)].into_iter());
        assert_eq!((whole, cut.take(&"Perl 5.40")), ((vec![1, 2], true), None));
        let part = cut.until_error([Ok(1), Err(()), Ok(3)].into_iter());
        assert_eq!(part, (vec![1], false));
        let told = cut.take(&"Perl 5.40").expect("a line").to_string();
        assert!(told.starts_with("Perl 5.40: a frame"), "{told}");
        assert!(told.ends_with("missing (of 1 stack)"), "{told}");
        assert_eq!(cut.take(&"Perl 5.40"), None);
    }

    #[test]
    fn missing_frames_are_counted() {
        let cut = Cut::default();
        for missing in [3, 4] {
            cut.note(missing);
        }
        let told = cut.take(&"Ruby 3.4.1").expect("a line").to_string();
        let end = "are missing (7 frames of 2 stacks could not be read)";
        assert!(told.ends_with(end), "{told}");
    }
}
