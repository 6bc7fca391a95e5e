//! How many bytes of a call are copied, at most. Used by `plan` and `show::value`.

/// Bytes of the longest path with its NUL: `PATH_MAX` (include/uapi/linux/limits.h).
pub(crate) const LONGEST_PATH: u32 = 4096;

/// Bytes that are copied behind those that a command of `ioctl` names.
pub(crate) const BEHIND_COMMAND: u32 = 320;

/// Bytes of what goes beside a message's data, at most: as many descriptors as a message may have (`SCM_MAX_FD` in include/net/scm.h), with
/// some credentials and times.
pub(crate) const LONGEST_BESIDE: u32 = 1280;

/// Bytes of the argument of `ioctl`, at most.
pub(crate) const LONGEST_COMMAND: u32 = 2048;

/// Operations of the longest program. A longer one is cut between two items; what is left out is shown as an address.
pub(crate) const LONGEST: usize = 600;
