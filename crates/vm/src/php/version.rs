//! Which PHP this is.

use core::fmt;

/// A PHP release series by the number of its extension API (`ZEND_MODULE_API_NO`, `zend_modules.h`), a date,
/// which every module carries and which does not change within a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u32);

/// The series of those numbers.
const SERIES: [(u32, &str); 7] = [
    (20190902, "7.4"),
    (20200930, "8.0"),
    (20210902, "8.1"),
    (20220829, "8.2"),
    (20230831, "8.3"),
    (20240924, "8.4"),
    (20250925, "8.5"),
];

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match SERIES.iter().find(|(number, _)| *number == self.0) {
            Some((_, name)) => f.write_str(name),
            None => write!(f, "with extension API {}", self.0),
        }
    }
}

/// A PHP whose memory this crate does not read, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsupported {
    /// No layout is known for this series.
    Unknown(Version),
    /// Built with threads (ZTS).
    Threads(Version),
    /// Built with `--enable-debug`.
    Debug(Version),
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unsupported::Unknown(version) => {
                write!(
                    f,
                    "PHP {version} is not known here; known are 7.4 and 8.1 to 8.4"
                )
            }
            Unsupported::Threads(version) => {
                write!(
                    f,
                    "this PHP {version} is built with threads (ZTS), which is not known here"
                )
            }
            Unsupported::Debug(version) => {
                write!(
                    f,
                    "this PHP {version} is a debug build, which is not known here"
                )
            }
        }
    }
}

impl core::error::Error for Unsupported {}
