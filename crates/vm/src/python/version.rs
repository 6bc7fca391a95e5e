//! The version of a Python, and what follows from that alone. Used by `facts`, `layout::offsets` and others here, and
//! by the crates `enter`, `agent` and `languages`.

use core::fmt;

use super::Layout;
use crate::versions::{self, Outside, Series};

/// The version of a CPython release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// The first number: 3 for 3.11.2.
    pub major: u8,
    /// The second number: 11 for 3.11.2.
    pub minor: u8,
    /// The third number: 2 for 3.11.2.
    pub micro: u8,
}

/// `PY_RELEASE_LEVEL_FINAL` (`Include/patchlevel.h`), the upper half of the lowest byte.
const FINAL: u8 = 0xf;

impl Version {
    /// Makes a version of its three numbers.
    pub const fn new(major: u8, minor: u8, micro: u8) -> Version {
        Version {
            major,
            minor,
            micro,
        }
    }

    /// Returns the version as `Py_Version` and `sys.hexversion` encode it, for a final release.
    pub const fn packed(self) -> u64 {
        (self.major as u64) << 24
            | (self.minor as u64) << 16
            | (self.micro as u64) << 8
            | (FINAL as u64) << 4
    }

    /// The inverse of [`packed`](Version::packed).
    pub const fn unpack(word: u64) -> Version {
        Version {
            major: (word >> 24) as u8,
            minor: (word >> 16) as u8,
            micro: (word >> 8) as u8,
        }
    }

    /// Decodes `Py_Version`. Before a release is final its memory may still be laid out anew.
    pub(super) fn of_hex(word: u32) -> Result<Version, Unsupported> {
        let version = Version::unpack(u64::from(word));
        if (word >> 4) as u8 & 0xf == FINAL {
            Ok(version)
        } else {
            Err(Unsupported::Prerelease(version))
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.micro)
    }
}

/// A Python whose memory this crate does not read, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsupported {
    /// Older than the oldest layout known, by the symbols that it lacks; its version can be read nowhere.
    Old,
    /// Older than the oldest layout known.
    Older(Version),
    /// Newer than the newest layout known.
    Newer(Version),
    /// An alpha, beta or release candidate.
    Prerelease(Version),
    /// Built with `--disable-gil`: another collector, other reference counts, another allocator. What threads run is known.
    FreeThreaded(Version),
}

impl Unsupported {
    /// Returns whether it is of a later series than all known ones. Of the others a later release, or another build, is known.
    pub fn is_newer(&self) -> bool {
        let newest = Layout::ends()[1];
        match self {
            Unsupported::Newer(_) => true,
            Unsupported::Prerelease(version) => (version.major, version.minor) > newest,
            _ => false,
        }
    }
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [oldest, newest] = Layout::ends().map(Series);
        match self {
            Unsupported::Old => {
                write!(
                    f,
                    "this Python is older than the oldest Python known here ({oldest})"
                )
            }
            Unsupported::Older(version) => write!(
                f,
                "Python {version} is older than the oldest Python known here ({oldest})"
            ),
            Unsupported::Newer(version) => write!(
                f,
                "Python {version} is newer than the newest Python known here ({newest})"
            ),
            Unsupported::Prerelease(version) => write!(
                f,
                "this Python is an alpha, beta or candidate of {version}; only final releases are known here"
            ),
            Unsupported::FreeThreaded(version) => write!(
                f,
                "Python {version} is a free-threaded build (python{}.{}t), of which only stacks and script lines are read (lancet stack, profile, calls)",
                version.major, version.minor
            ),
        }
    }
}

impl core::error::Error for Unsupported {}

impl Layout {
    /// Returns the layout of a Python, or why there is none.
    pub fn of(version: Version) -> Result<&'static Layout, Unsupported> {
        versions::find(Layout::all(), (version.major, version.minor), |layout| {
            layout.version
        })
        .map_err(|outside| match outside {
            Outside::Before => Unsupported::Older(version),
            Outside::Behind => Unsupported::Newer(version),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packs_as_python_does() {
        let version = Version::new(3, 13, 5);
        assert_eq!(version.packed(), 0x030d_05f0);
        assert_eq!(Version::unpack(version.packed()), version);
        assert_eq!(Version::of_hex(0x030d_05f0), Ok(version));
        assert!(Version::new(3, 9, 99).packed() < Version::new(3, 10, 0).packed());
    }

    #[test]
    fn candidates_are_refused_by_name() {
        let version = Version::new(3, 14, 0);
        let refused = Version::of_hex(0x030e_00c2);
        assert_eq!(refused, Err(Unsupported::Prerelease(version)));
    }

    #[test]
    fn refuses_by_name() {
        for minor in 9..=14 {
            assert!(Layout::of(Version::new(3, minor, 1)).is_ok(), "3.{minor}");
        }
        let old = Version::new(3, 8, 18);
        assert_eq!(Layout::of(old).err(), Some(Unsupported::Older(old)));
        let old = Version::new(2, 7, 18);
        assert_eq!(Layout::of(old).err(), Some(Unsupported::Older(old)));
        let new = Version::new(3, 16, 0);
        assert_eq!(Layout::of(new).err(), Some(Unsupported::Newer(new)));
    }
}
