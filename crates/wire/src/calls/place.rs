//! The script's lines, as rings know and tell them.

/// Whose line is told.
pub mod line_policy {
    /// That of the nearest frame.
    pub const NEAREST: u64 = 0;
    /// That of the nearest frame that is no library's, by its path.
    pub const APPLICATION: u64 = 1;
    /// That of the nearest frame whose line meets one of these `Calls::line_tests`: a bit for each, in the
    /// upper half.
    pub const MARKED: u64 = 2;
}

/// Entries of a ring's table of lines; a power of two.
pub const PLACES: usize = 8192;

/// Lines that one ring can tell apart.
pub const MOST_LINES: u32 = 4095;

/// The lines of a call in one number: that which is told, and, where it stands outside of a library, that of the
/// library, in the upper 16 bits; 0 = none.
#[inline]
pub const fn lines(told: u32, library: u32) -> u32 {
    told & 0xffff | library << 16
}

/// The line that is told.
#[inline]
pub const fn event_line(lines: u32) -> u32 {
    lines & 0xffff
}

/// That of the library.
#[inline]
pub const fn library_line(lines: u32) -> u32 {
    lines >> 16
}

/// A script line that a ring knows: an entry of an open-addressed table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Place {
    /// The code and the point in it, as the VM has them; 0 = empty.
    pub code: u64,
    /// See `code`.
    pub point: u64,
    /// What tells code at the same address apart: its path and name objects, mixed.
    pub witness: u64,
    /// Its number, and what the agent notes of it; in the upper half which of
    /// [`Calls::line_tests`](super::Calls::line_tests) it meets.
    pub number: u64,
}

/// A script line seen for the first time in this ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct NewPlace {
    /// Its number.
    pub number: u32,
    /// The line.
    pub line: u32,
    /// Bytes of path and of name that follow, each padded to whole words.
    pub lengths: [u32; 2],
}

/// Bytes kept of a path or a name.
pub const LONGEST_NAME: usize = 512;
