//! Script lines: which of them a record names, and how a ring numbers them. Used by `further`, `pool` and others here,
//! and by the crates `agent`, `hooks`, `calls` and `trampoline`.

/// Values of [`Calls::line_policy`](super::Calls::line_policy): which frame's line is recorded with a call.
pub mod line_policy {
    /// The line of the nearest frame is recorded, a library's too.
    pub const NEAREST: u64 = 0;
    /// The nearest frame whose path is not that of a library and whose line is not passed over
    /// ([`Calls::passed_over`](super::super::Calls::passed_over)).
    pub const APPLICATION: u64 = 1;
    /// The nearest frame whose line meets one of the conditions in `Calls::line_tests` that are named by a bit each in
    /// the upper half, and is not passed over.
    pub const MARKED: u64 = 2;
}

/// Entries of a ring's table of lines, a power of two.
pub const PLACES: usize = 8192;

/// Different lines that one ring can number.
pub const MOST_LINES: u32 = 4094;

/// In the place of the line that is recorded: no frame is the application's, and the library's line is that of the nearest.
pub const NO_APPLICATION: u32 = 4095;

/// What such a call is shown with, and what conditions on its line look at.
pub const NO_APPLICATION_TEXT: &str = "(no application line)";

/// In [`NewPlace::number`]: the line is a library's, or is passed over.
pub const OF_LIBRARY: u32 = 1 << 31;

/// Packs the lines of a call into one number: the one that is recorded, and in the upper 16 bits, where that one stands
/// outside of a library, the nearest one, which is the library's. 0 = none.
#[inline]
pub const fn lines(told: u32, library: u32) -> u32 {
    told & 0xffff | library << 16
}

/// The line that is recorded with the call, out of [`lines`].
#[inline]
pub const fn event_line(lines: u32) -> u32 {
    lines & 0xffff
}

/// The line of the library, out of [`lines`].
#[inline]
pub const fn library_line(lines: u32) -> u32 {
    lines >> 16
}

/// A script line that a ring has numbered: an entry of an open-addressed table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Place {
    /// Address of the VM's object for the code; 0 = free.
    pub code: u64,
    /// The point within that code, as the VM notes it.
    pub point: u64,
    /// A mix of the addresses of the code's path and name: tells new code at the same address from that which was
    /// freed.
    pub witness: u64,
    /// The line's number with notes of the agent's; in the upper half a bit for each of
    /// [`Calls::line_tests`](super::Calls::line_tests) that it meets.
    pub number: u64,
}

/// What the record of a line that is new to the ring holds first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct NewPlace {
    /// Number that later records name the line by, with [`OF_LIBRARY`].
    pub number: u32,
    /// The line in its file, from 1; 0 = the VM has none.
    pub line: u32,
    /// Bytes of the path and of the name that follow, each padded to whole words.
    pub lengths: [u32; 2],
}

/// Bytes that are kept of a path or a name; longer ones are cut.
pub const LONGEST_NAME: usize = 512;
