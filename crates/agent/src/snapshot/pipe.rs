//! Writing into the pipe of the child, for as long as somebody reads.

use crate::memory::sys::child;

/// Seconds without a sign of life of the child's own or of the command's, after which the child ends.
pub const ALARM: u64 = 4;

/// Writes all of it into the pipe; ends the child if nobody reads.
pub fn send(write: u64, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        child::alarm(ALARM);
        match child::write(write, bytes) {
            Some(0) if child::has_reader(write, true) => {}
            Some(written @ 1..) => bytes = &bytes[written.min(bytes.len())..],
            _ => child::end(0),
        }
    }
}
