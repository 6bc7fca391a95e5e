//! Settings of a pool, and what the environment may say about them.

use super::sys::{Guard, PAGE, Reuse};
use crate::error::Error;

/// Usable bytes of a stack when nobody says otherwise: four times the largest frame found in the
/// libraries of Ruby, Python, PHP and MariaDB (67,280 bytes).
pub const DEFAULT_STACK_SIZE: usize = 256 << 10;

/// Bytes of a guard when nobody says otherwise: code without stack probes jumps a guard that is
/// smaller than its frame, and this is 2,352 more than the largest frame of those libraries. Each page
/// more takes 20 ns when the stack is made.
pub const DEFAULT_GUARD_SIZE: usize = 68 << 10;

/// The least that is accepted: less would not hold the frames of a panic.
pub const MIN_STACK_SIZE: usize = 16 << 10;

/// User addresses end here without five-level paging.
const ADDRESS_SPACE: usize = 1 << 47;

/// Settings of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// Usable bytes of a stack.
    pub stack_size: usize,
    /// Bytes of the guard below it; 0 for none.
    pub guard_size: usize,
    /// How guards are made.
    pub guard: Guard,
    /// What happens to the pages of a stack that comes back.
    pub reuse: Reuse,
    /// The most stacks in use at once.
    pub max_stacks: Option<usize>,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            stack_size: DEFAULT_STACK_SIZE,
            guard_size: DEFAULT_GUARD_SIZE,
            guard: Guard::Auto,
            reuse: Reuse::Warm,
            max_stacks: None,
        }
    }
}

impl Config {
    /// The defaults, changed by `LANCET_STACK_SIZE` and `LANCET_GUARD_SIZE` (bytes, or with a
    /// suffix `k`, `m` or `g`) and `LANCET_STACK_REUSE` (`warm`, `keep`, `free` or
    /// `dontneed`). What cannot
    /// be understood is passed over.
    pub fn from_env() -> Self {
        let text = |name| std::env::var(name).ok();
        let mut config = Config::default();
        if let Some(bytes) = text("LANCET_STACK_SIZE").as_deref().and_then(parse_size)
            && stack_size(bytes).is_ok()
        {
            config.stack_size = bytes;
        }
        if let Some(bytes) = text("LANCET_GUARD_SIZE").as_deref().and_then(parse_size)
            && bytes < ADDRESS_SPACE
        {
            config.guard_size = bytes;
        }
        match text("LANCET_STACK_REUSE").as_deref() {
            Some("warm") => config.reuse = Reuse::Warm,
            Some("keep") => config.reuse = Reuse::Keep,
            Some("free") => config.reuse = Reuse::Free,
            Some("dontneed") => config.reuse = Reuse::DontNeed,
            _ => {}
        }
        config
    }

    /// Returns the settings with sizes in whole pages, or what is wrong with them.
    pub(super) fn checked(mut self) -> Result<Self, Error> {
        self.stack_size = stack_size(self.stack_size)?;
        if self.guard_size >= ADDRESS_SPACE {
            return Err(Error::TooLarge {
                asked: self.guard_size,
            });
        }
        self.guard_size = self.guard_size.next_multiple_of(PAGE);
        Ok(self)
    }
}

/// A size in whole pages, if a stack can have it.
pub(super) fn stack_size(bytes: usize) -> Result<usize, Error> {
    if bytes < MIN_STACK_SIZE {
        return Err(Error::TooSmall {
            asked: bytes,
            least: MIN_STACK_SIZE,
        });
    }
    if bytes >= ADDRESS_SPACE {
        return Err(Error::TooLarge { asked: bytes });
    }
    Ok(bytes.next_multiple_of(PAGE))
}

/// `65536`, `64k`, `1m`, `2g`; in either case.
fn parse_size(text: &str) -> Option<usize> {
    let text = text.trim();
    let (digits, shift) = match text.char_indices().last()? {
        (at, 'k' | 'K') => (&text[..at], 10),
        (at, 'm' | 'M') => (&text[..at], 20),
        (at, 'g' | 'G') => (&text[..at], 30),
        _ => (text, 0),
    };
    digits.parse::<usize>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        assert_eq!(parse_size("65536"), Some(65536));
        assert_eq!(parse_size(" 64k "), Some(65536));
        assert_eq!(parse_size("2M"), Some(2 << 20));
        assert_eq!(parse_size("1g"), Some(1 << 30));
        for wrong in [
            "",
            "k",
            "-1",
            "1.5m",
            "64kb",
            "99999999999999999999",
            "18446744073709551615k",
        ] {
            assert_eq!(parse_size(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn impossible_sizes_are_errors() {
        assert!(matches!(
            stack_size(0),
            Err(Error::TooSmall { asked: 0, .. })
        ));
        assert!(matches!(
            stack_size(1),
            Err(Error::TooSmall { asked: 1, .. })
        ));
        assert!(matches!(
            stack_size(usize::MAX),
            Err(Error::TooLarge { .. })
        ));
        assert_eq!(stack_size(MIN_STACK_SIZE + 1), Ok(MIN_STACK_SIZE + PAGE));
    }
}
