//! A length of time as records have it, in nanoseconds. Used by crate `report`.

/// A length of time, as records have it.
pub fn nanos(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
