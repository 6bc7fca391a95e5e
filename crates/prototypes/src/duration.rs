//! The units of time, for conditions and for every flag that takes a duration. Used by `condition::read`, and by
//! `lancet::cli::duration` and `lancet::commands::syscalls::inject`.

/// What people write, and how many nanoseconds it is.
pub const UNITS: [(&str, f64); 7] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("µs", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("m", 60e9),
    ("h", 3600e9),
];

/// The units in words, for whoever wrote another.
pub const NAMES: &str = "ns, us, ms, s, m or h";

/// Returns how many nanoseconds a unit is.
pub fn nanoseconds(unit: &str) -> Option<f64> {
    let known = UNITS.iter().find(|(name, _)| *name == unit);
    known.map(|(_, nanoseconds)| *nanoseconds)
}
