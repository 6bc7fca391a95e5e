//! The version of a Perl. Used by `facts`, `layout` and `error`.

use core::fmt;

use super::Layout;

/// A Perl release, as the exported bytes `PL_revision`, `PL_version` and `PL_subversion` spell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// The first number: 5 for 5.36.1.
    pub revision: u8,
    /// The second number: 36 for 5.36.1.
    pub version: u8,
    /// The third number: 1 for 5.36.1.
    pub subversion: u8,
}

impl Version {
    /// Makes a version of its three numbers.
    pub const fn new(revision: u8, version: u8, subversion: u8) -> Version {
        Version {
            revision,
            version,
            subversion,
        }
    }

    /// Returns the version as one word, for [`Facts`](super::Facts).
    pub const fn packed(self) -> u64 {
        (self.revision as u64) << 16 | (self.version as u64) << 8 | self.subversion as u64
    }

    /// The inverse of [`packed`](Version::packed).
    pub const fn unpack(word: u64) -> Version {
        Version {
            revision: (word >> 16) as u8,
            version: (word >> 8) as u8,
            subversion: word as u8,
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.revision, self.version, self.subversion)
    }
}

/// A Perl whose memory this crate does not read, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsupported {
    /// Older than the oldest layout known.
    Older(Version),
    /// Newer than the newest layout known.
    Newer(Version),
    /// A development release (odd second number): its layout changes from month to month.
    Development(Version),
    /// Built so that the interpreter has another size, as with `-DDEBUGGING`.
    Build {
        /// The release that the process says it is.
        version: Version,
        /// Bytes of its `struct interpreter`, as `PL_interp_size` says.
        size: u16,
    },
    /// Built with `-Dusemultiplicity` but without threads.
    Multiplicity(Version),
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [oldest, newest] = Layout::ends();
        match self {
            Unsupported::Older(version) => {
                write!(
                    f,
                    "Perl {version} is older than the oldest Perl known here (5.{oldest})"
                )
            }
            Unsupported::Newer(version) => {
                write!(
                    f,
                    "Perl {version} is newer than the newest Perl known here (5.{newest})"
                )
            }
            Unsupported::Development(version) => {
                write!(
                    f,
                    "Perl {version} is a development release; only releases are known here"
                )
            }
            Unsupported::Build { version, size } => write!(
                f,
                "this Perl {version} was built in an unusual way, such as with -DDEBUGGING \
                 (its interpreter has {size} bytes)"
            ),
            Unsupported::Multiplicity(version) => write!(
                f,
                "this Perl {version} was built with multiplicity but without threads, which is not known here"
            ),
        }
    }
}

impl core::error::Error for Unsupported {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packs_in_order() {
        let version = Version::new(5, 40, 11);
        assert_eq!(Version::unpack(version.packed()), version);
        assert!(Version::new(5, 38, 99).packed() < version.packed());
    }
}
