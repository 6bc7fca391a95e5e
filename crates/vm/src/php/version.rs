//! The version of a PHP. Used by `facts`, `layout`, `error` and others.

use core::fmt;

use super::Layout;

/// A PHP release series by the number of its extension API (`ZEND_MODULE_API_NO`, `zend_modules.h`), a date,
/// which every module carries and which does not change within a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u32);

/// The series with these numbers, oldest first; not all have a layout.
const SERIES: &[(u32, &str)] = &[
    (20190902, "7.4"),
    (20200930, "8.0"),
    (20210902, "8.1"),
    (20220829, "8.2"),
    (20230831, "8.3"),
    (20240924, "8.4"),
    (20250925, "8.5"),
    (20260924, "8.6"),
];

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match SERIES.iter().find(|(number, _)| *number == self.0) {
            Some((_, name)) => f.write_str(name),
            None => write!(f, "with extension API {}", self.0),
        }
    }
}

/// The series that have a layout, as a message lists them: `7.4 and 8.1 to 8.4`.
struct Known;

impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_known = |(api, _): &(u32, &str)| Layout::all().iter().any(|one| one.api == *api);
        let runs = SERIES.chunk_by(|one, next| is_known(one) == is_known(next));
        for (at, run) in runs.filter(|run| run.iter().all(is_known)).enumerate() {
            f.write_str(if at == 0 { "" } else { " and " })?;
            match run {
                [(_, only)] => f.write_str(only)?,
                [(_, first), .., (_, last)] => write!(f, "{first} to {last}")?,
                [] => {}
            }
        }
        Ok(())
    }
}

/// A PHP whose memory this crate does not read, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsupported {
    /// No layout is known for this series.
    Unknown(Version),
    /// Built with threads (ZTS).
    Threads(Version),
    /// Built with debugging (`--enable-debug`).
    Debug(Version),
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unsupported::Unknown(version) => {
                write!(f, "PHP {version} is not known here; known are {}", Known)
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

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::string::ToString;

    #[test]
    fn what_is_known_is_told_in_runs() {
        let refused = Unsupported::Unknown(Version(20200930)).to_string();
        assert_eq!(
            refused,
            "PHP 8.0 is not known here; known are 7.4 and 8.1 to 8.6"
        );
    }
}
