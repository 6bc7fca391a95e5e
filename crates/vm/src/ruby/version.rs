//! The version of a Ruby, and what follows from that alone. Used by `error`, `facts` and others here, and by the crates
//! `enter`, `languages` and `agent`.

use core::fmt;

use super::Layout;
use crate::versions::{self, Outside, Series};

/// A Ruby release, as its exported C string `ruby_version` spells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// The first number: 3 for 3.1.2.
    pub major: u8,
    /// The second number: 1 for 3.1.2.
    pub minor: u8,
    /// The third number: 2 for 3.1.2.
    pub teeny: u8,
}

impl Version {
    /// Makes a version of its three numbers.
    pub const fn new(major: u8, minor: u8, teeny: u8) -> Version {
        Version {
            major,
            minor,
            teeny,
        }
    }

    /// Parses `"3.1.2"`; what follows the third number is ignored.
    pub fn parse(text: &str) -> Option<Version> {
        let mut numbers = text.splitn(3, '.').map(|part| {
            let digits = part.bytes().take_while(u8::is_ascii_digit).count();
            part[..digits].parse::<u8>().ok()
        });
        Some(Version {
            major: numbers.next()??,
            minor: numbers.next()??,
            teeny: numbers.next()??,
        })
    }

    /// Returns the version as one word, for [`Facts`](super::Facts).
    pub const fn packed(self) -> u64 {
        (self.major as u64) << 16 | (self.minor as u64) << 8 | self.teeny as u64
    }

    /// The inverse of [`packed`](Version::packed).
    pub const fn unpack(word: u64) -> Version {
        Version {
            major: (word >> 16) as u8,
            minor: (word >> 8) as u8,
            teeny: word as u8,
        }
    }

    /// Returns whether Ractors exist in this Ruby.
    pub fn has_ractors(self) -> bool {
        self >= Version::new(3, 0, 0)
    }

    /// Returns whether creating a Ractor crashes the process while a NEWOBJ hook is set (Ruby bug 18464).
    pub fn newobj_hook_crashes_ractors(self) -> bool {
        self >= Version::new(3, 0, 0) && self < Version::new(3, 1, 4)
    }

    /// Returns whether a NEWOBJ hook misses most births in other Ractors and is silently gone once a Ractor was
    /// collected (Ruby bug 19112).
    pub fn newobj_hook_lost_with_ractors(self) -> bool {
        self >= Version::new(3, 2, 0) && self < Version::new(4, 0, 0)
    }

    /// Returns what this Ruby does that births cannot be watched while several Ractors run; `None` where they can.
    ///
    /// Since 4.0 births in every Ractor call the hook, with a lock of the whole VM. What else is done with the counts of births
    /// is done with the lock of one Ractor, which does not keep the others out.
    pub fn no_births_beside_ractors(self) -> Option<&'static str> {
        if self.newobj_hook_crashes_ractors() || self.newobj_hook_lost_with_ractors() {
            return Some("crashes or loses births when they are watched (Ruby bugs 18464, 19112)");
        }
        (self >= Version::new(4, 0, 0))
            .then_some("makes objects in all of them at the same time, which lancet does not count")
    }

    /// Returns whether `rb_postponed_job_preregister` and `rb_postponed_job_trigger` exist.
    pub fn preregisters_jobs(self) -> bool {
        self >= Version::new(3, 3, 0)
    }

    /// Returns whether libruby exports `ruby_current_vm_ptr`.
    pub fn exports_vm(self) -> bool {
        self < Version::new(3, 3, 0)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.teeny)
    }
}

/// A Ruby whose memory this crate does not read, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsupported {
    /// Older than the oldest layout known.
    Older(Version),
    /// Newer than the newest layout known.
    Newer(Version),
    /// A preview or a development version before a release that is known: 3.5, which became 4.0.
    Preview(Version),
    /// 3.2.0 to 3.2.2: any NEWOBJ hook crashes the VM (Ruby bug 19482).
    Broken(Version),
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [oldest, newest] = Layout::ends().map(Series);
        match self {
            Unsupported::Older(version) => {
                write!(
                    f,
                    "Ruby {version} is older than the oldest Ruby known here ({oldest})"
                )
            }
            Unsupported::Newer(version) => {
                write!(
                    f,
                    "Ruby {version} is newer than the newest Ruby known here ({newest})"
                )
            }
            Unsupported::Preview(version) => write!(
                f,
                "Ruby {version} is a preview of a later Ruby; releases are known here, up to {newest}"
            ),
            Unsupported::Broken(version) => write!(
                f,
                "Ruby {version} crashes when object births are watched (Ruby bug 19482); 3.2.3 and later do not"
            ),
        }
    }
}

impl core::error::Error for Unsupported {}

impl Layout {
    /// Returns the layout of a Ruby, or why there is none.
    pub fn of(version: Version) -> Result<&'static Layout, Unsupported> {
        if version >= Version::new(3, 2, 0) && version < Version::new(3, 2, 3) {
            return Err(Unsupported::Broken(version));
        }
        versions::find(Layout::all(), (version.major, version.minor), |layout| {
            layout.version
        })
        .map_err(|outside| match outside {
            Outside::Before => Unsupported::Older(version),
            Outside::Behind if (version.major, version.minor) < Layout::ends()[1] => {
                Unsupported::Preview(version)
            }
            Outside::Behind => Unsupported::Newer(version),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_what_ruby_exports() {
        assert_eq!(Version::parse("3.1.2"), Some(Version::new(3, 1, 2)));
        assert_eq!(Version::parse("3.4.11"), Some(Version::new(3, 4, 11)));
        assert_eq!(Version::parse("3.5.0dev"), Some(Version::new(3, 5, 0)));
        for bad in ["", "3", "3.1", "x.y.z", "3..1", "300.1.1"] {
            assert_eq!(Version::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn packs_in_order() {
        let version = Version::new(3, 4, 11);
        assert_eq!(Version::unpack(version.packed()), version);
        assert!(Version::new(3, 3, 99).packed() < version.packed());
    }

    #[test]
    fn refuses_by_name() {
        assert!(Layout::of(Version::new(3, 1, 2)).is_ok());
        assert!(Layout::of(Version::new(3, 2, 3)).is_ok());
        let old = Version::new(2, 6, 10);
        assert_eq!(Layout::of(old).err(), Some(Unsupported::Older(old)));
        assert!(Layout::of(Version::new(4, 0, 5)).is_ok());
        let new = Version::new(4, 1, 0);
        assert_eq!(Layout::of(new).err(), Some(Unsupported::Newer(new)));
        let preview = Version::new(3, 5, 0);
        assert_eq!(
            Layout::of(preview).err(),
            Some(Unsupported::Preview(preview))
        );
        for teeny in 0..3 {
            let broken = Version::new(3, 2, teeny);
            assert_eq!(Layout::of(broken).err(), Some(Unsupported::Broken(broken)));
        }
    }
}
