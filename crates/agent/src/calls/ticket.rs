//! The ticket that a call leaves for its return: the three words of `routine::Frame::ticket`. Used by `call`, `quick`,
//! `system_calls` and others.
//!
//! ```text
//!   word 0   bits  0..32  the session
//!                 32..44  the line of its events (`wire::calls::event_line`)
//!                 44..64  what the VM's reader keeps of the call (`languages::Script::kept`)
//!   word 1   bit   0      QUICK
//!            bits  0..48  address of the ring, which is aligned; 0 = no event is wanted of the return
//!                 48..64  the line of the library between (`wire::calls::library_line`)
//!   word 2                time-stamp counter at the call
//! ```
//!
//! The ticket of a call that is counted in the guest is described in `wire::calls::ticket`, because the
//! command reads it too. That of a call that takes a block has in the upper half of word 0 the number of its site, or 0, and in word 2 the word
//! of the block that it gives back (`blocks`).

use super::session::calls;
use wire::calls::ticket::{COUNTED, ROW_AT};
use wire::calls::{Ring, event_line, library_line};

const KEPT_AT: u32 = 64 - vm::reader::KEPT;
pub const LINE: u32 = (1 << (KEPT_AT - 32)) - 1;
const _: () = assert!(wire::calls::NO_APPLICATION <= LINE);
const LIBRARY_AT: u32 = 48;

/// Flag in word 1: the call went the short way, so its vector registers were not saved (`quick`).
const QUICK: u64 = routine::quick::MARK;
const _: () = assert!(align_of::<Ring>() as u64 > QUICK);

/// Value of the time if the call's own record found no room.
pub const UNTOLD: u64 = 0;

/// A ticket with no ring.
#[inline]
pub fn of_session(session: u32) -> [u64; 3] {
    [session.into(), 0, 0]
}

/// The ticket of a call with these lines.
#[inline]
pub fn pack(session: u32, lines: u32, kept: u64, ring: &Ring) -> [u64; 3] {
    let event = u64::from(event_line(lines)) << 32;
    let library = u64::from(library_line(lines)) << LIBRARY_AT;
    [
        u64::from(session) | event | kept << KEPT_AT,
        core::ptr::from_ref(ring).expose_provenance() as u64 | library,
        0,
    ]
}

/// The ticket of a call without lines that began at `ticks` and went the short way.
#[inline(always)]
pub fn quick(session: u32, ring: &Ring, ticks: u64) -> [u64; 3] {
    let ring = core::ptr::from_ref(ring).expose_provenance() as u64;
    [session.into(), ring | QUICK, ticks]
}

/// Keeps the number of the site of a call that takes a block.
#[inline(always)]
pub fn keep_site([first, ..]: &mut [u64; 3], site: u64) {
    *first = *first & 0xffff_ffff | site << 32;
}

/// The number of the site of a call that takes a block, if it was kept.
#[inline(always)]
pub fn site([first, ..]: [u64; 3]) -> Option<u64> {
    let site = first >> 32;
    (site != 0).then_some(site)
}

/// The address of the ring of a call that went the short way.
#[inline(always)]
pub fn quick_ring([_, second, _]: [u64; 3]) -> Option<u64> {
    // The address of a ring is aligned, and the ticket of a counted call has a row in the upper bits.
    (second & QUICK != 0).then_some(second & !QUICK)
}

/// The ticket of a call from this line that began at `ticks` and is counted in a row of the ring's table.
#[inline]
pub fn counted(session: u32, lines: u32, ring: &Ring, row: u64, ticks: u64) -> [u64; 3] {
    let event = u64::from(event_line(lines)) << 32;
    [
        u64::from(session) | event | calls().pid << KEPT_AT,
        core::ptr::from_ref(ring).expose_provenance() as u64 | row << ROW_AT,
        ticks | COUNTED,
    ]
}

/// Whether a counted call began in this process and not in the parent of the fork that made it.
#[inline]
pub fn began_here(ticket: [u64; 3]) -> bool {
    kept(ticket) == calls().pid << KEPT_AT >> KEPT_AT
}

/// The number of the session that saw the call.
#[inline]
pub fn session([first, ..]: [u64; 3]) -> u32 {
    first as u32
}

/// Returns what the VM's reader keeps of the call.
#[inline]
pub fn kept([first, ..]: [u64; 3]) -> u64 {
    first >> KEPT_AT
}

/// Returns the address of the ring, and the lines of the call.
#[inline]
pub fn ring_and_lines([first, second, _]: [u64; 3]) -> (u64, u32) {
    let event = (first >> 32) as u32 & LINE;
    let lines = wire::calls::lines(event, (second >> LIBRARY_AT) as u32);
    (second & ((1 << LIBRARY_AT) - 1) & !QUICK, lines)
}

#[cfg(test)]
mod tests;
