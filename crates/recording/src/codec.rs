//! Encodes and decodes the events of one ring. An item is written as the differences from the last item of its call
//! site. Used by `write`, `merge` and others here, and by crate `calls`.
//!
//! ```text
//!   control   bits 0, 1: CALL, RETURN, both = a call with its return, neither = other (bits 2 and up say what)
//!             2: another site than the item before   3: parts follow   4, 5, 6: rdi, rsi, rax at the return differ
//!             7: others differ too
//!   [site]    its number
//!   time      since the item before, as distance from what that was at the last item of the site
//!   [took]    of a call with its return: how long, as distance from how long the last one took
//!   [which]   a bit for each of the other values that differ
//!   values    each that differs, as distance from the last one
//!   [parts]   length   which   callers   copies of the call   copies of the return   st(0) and st(1)
//!   other     NEW_SITE   call edge + 1   distance of the return address from the last site's   line + 1   library's + 1
//!             PLACE   number; a new one: guest   thread   stack
//!             EVENT   time   a fork, a signal, an end
//! ```
//!
//! A value differs if it is not the last one of its site plus the step before it, so that neither a constant nor a
//! counter takes a byte. Floating-point registers are compared with the last ones as they are, and the bits that differ
//! are written. Sites and places are numbered anew in each segment, and are defined where they are first used; site 0 is
//! not used. The place (guest, thread, stack) holds until the next item that sets another.

mod closed;
pub mod decode;
pub mod encode;
mod parts;

use prototypes::capture::{Registers, Returned};
use prototypes::show::Captures;
use varint::{Take, Wrong, put, put_signed};

/// What identifies a call site: an item is written as the differences from the last one with the same values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Site {
    /// Number of the call edge plus 1; 0 = not known, for returns of calls that were not seen.
    pub edge: u32,
    /// The return address of the call.
    pub caller: u64,
    /// Number of the script's line plus 1; 0 = none.
    pub line: u32,
    /// Number of the library's line plus 1; 0 = none.
    pub library: u32,
}

impl Site {
    /// The line that is shown, plus 1: the library's, if requested and present; 0 = none.
    #[inline]
    pub fn shown(&self, nearest: bool) -> u32 {
        if nearest && self.library != 0 {
            self.library
        } else {
            self.line
        }
    }
}

/// Which thread runs, and on which stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Place {
    /// Number of the guest.
    pub guest: u32,
    /// The thread's id, as in [`At`](crate::At).
    pub tid: u32,
    /// The stack, as in [`At`](crate::At).
    pub stack: u64,
}

/// Copies of memory, as a record or an event contains them.
#[derive(Clone, Copy, Debug)]
pub enum Copies<'a> {
    /// Words of a record: for each copy its address, its length in bytes, and the bytes, padded to whole words.
    Words(&'a [u64]),
    /// The copies of an event.
    Captures(&'a Captures),
}

/// A call to be written.
#[derive(Clone, Copy, Debug)]
pub struct CallRecord<'a> {
    /// The call site.
    pub site: Site,
    /// The thread that makes it, and its stack.
    pub place: Place,
    /// The frame of the call, as in [`At`](crate::At).
    pub frame: u64,
    /// When, in nanoseconds since 1970.
    pub time: u64,
    /// Registers with its arguments.
    pub registers: &'a Registers,
    /// What its arguments point to.
    pub copies: Copies<'a>,
    /// Numbers of the native frames around it.
    pub callers: &'a [u32],
}

/// A return to be written.
#[derive(Clone, Copy, Debug)]
pub struct ReturnRecord<'a> {
    /// The thread that returns, and its stack.
    pub place: Place,
    /// The frame of its call.
    pub frame: u64,
    /// When, in nanoseconds since 1970.
    pub time: u64,
    /// Registers with the result.
    pub returned: &'a Returned,
    /// What the result and late arguments point to.
    pub copies: Copies<'a>,
}

/// A call with its return to be written, for which only integer registers were recorded.
#[derive(Clone, Copy, Debug)]
pub struct ShortRecord {
    /// The call site.
    pub site: Site,
    /// The thread that makes it, and its stack.
    pub place: Place,
    /// The frame of the call, as in [`At`](crate::At).
    pub frame: u64,
    /// When it is made and when it returns, in nanoseconds since 1970: not earlier.
    pub times: [u64; 2],
    /// rdi, rsi, rdx, rcx, r8, r9 at the call.
    pub arguments: [u64; 6],
    /// rax and rdx at the return.
    pub results: [u64; 2],
}

/// Bits of the control byte.
mod control {
    pub const CALL: u8 = 1;
    pub const RETURN: u8 = 2;
    pub const BOTH: u8 = CALL | RETURN;
    pub const SITE: u8 = 4;
    pub const PARTS: u8 = 8;
    /// Sets the place. This bit and the two that follow are the whole control byte of an item that is neither call nor
    /// return.
    pub const PLACE: u8 = 1 << 2;
    pub const EVENT: u8 = 2 << 2;
    pub const NEW_SITE: u8 = 3 << 2;
    /// The bit at which the bits of the first three values begin.
    pub const VALUES: u32 = 4;
    pub const MORE: u8 = 0x80;
}

/// Values of an item: rdi, rsi, rax at the return, rdx, rcx, rdx at the return, frame, r8, r9, then xmm0 and xmm1 at the
/// return, then xmm0 to xmm7 at the call. The first three have bits in the control byte.
const VALUES: usize = 19;
/// The first values are integers; this is their number.
const WHOLE: usize = 9;
const FRAME: usize = 6;
/// Where rdi … r9 stand.
const GP: [usize; 6] = [0, 1, 3, 4, 7, 8];
/// Where rax and rdx at the return stand, then xmm0 and xmm1.
const RETURNED: [usize; 4] = [2, 5, 9, 10];
const SSE: usize = 11;
/// The values of a call and those of a return, a bit for each.
const OF_CALL: u32 = 0b111_1111_1000_0000_0000 | 0b1_1101_1011;
const OF_RETURN: u32 = 0b110_0110_0100;

/// Limit of the sites, and of the places, of one segment.
pub(crate) const MOST_SITES: usize = 4096;

/// The values of a site's last items, to which the next item is compared.
#[derive(Clone, Debug, Default)]
struct Last {
    site: Site,
    values: [u64; VALUES],
    /// By how much each integer changed the last time.
    steps: [u64; WHOLE],
    /// Nanoseconds from the item before to a call, and to a return.
    gaps: [i64; 2],
    took: i64,
    /// Whether a floating-point register among the values is not 0.
    floats: bool,
}

impl Last {
    fn of(site: Site) -> Self {
        Last {
            site,
            ..Last::default()
        }
    }

    /// The values in `of` that differ from the expected ones, a bit for each.
    #[inline]
    fn differ(&self, now: &[u64; VALUES], of: u32) -> u32 {
        let mut differ = 0;
        let expected = self.values.iter().zip(&self.steps);
        for (at, (now, (last, step))) in now.iter().zip(expected).enumerate() {
            differ |= u32::from(*now != last.wrapping_add(*step)) << at;
        }
        let floats = self.values[WHOLE..].iter().zip(&now[WHOLE..]);
        if floats.clone().any(|(last, now)| last != now) {
            for (at, (last, now)) in floats.enumerate() {
                differ |= u32::from(last != now) << (WHOLE + at);
            }
        }
        differ & of
    }

    /// Writes the values that differ, and stores all values in `of`.
    #[inline]
    fn put(&mut self, out: &mut Vec<u8>, now: &[u64; VALUES], differ: u32, of: u32) {
        let mut rest = differ;
        while rest != 0 {
            let at = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            let last = self.values[at];
            if at < WHOLE {
                let step = now[at].wrapping_sub(last);
                self.steps[at] = step;
                put_signed(out, step as i64);
            } else {
                put(out, (last ^ now[at]).swap_bytes());
            }
        }
        if differ >> WHOLE != 0 {
            let new = |at: usize| {
                if of >> at & 1 != 0 {
                    now[at]
                } else {
                    self.values[at]
                }
            };
            self.floats = (WHOLE..VALUES).any(|at| new(at) != 0);
        }
        if of == OF_CALL | OF_RETURN {
            self.values = *now;
            return;
        }
        for (at, (last, now)) in self.values.iter_mut().zip(now).enumerate() {
            if of >> at & 1 != 0 {
                *last = *now;
            }
        }
    }

    /// The integers of a call with its return that differ from the expected ones; stores all of them.
    #[inline(always)]
    fn differ_whole(&mut self, now: [u64; WHOLE]) -> u32 {
        let mut differ = 0;
        for (at, now) in now.into_iter().enumerate() {
            let step = now.wrapping_sub(self.values[at]);
            differ |= u32::from(step != self.steps[at]) << at;
            self.steps[at] = step;
            self.values[at] = now;
        }
        differ
    }

    /// Writes the integers that differ, after [`differ_whole`](Self::differ_whole).
    #[inline]
    fn put_whole(&self, out: &mut Vec<u8>, differ: u32) {
        let mut rest = differ;
        while rest != 0 {
            put_signed(out, self.steps[rest.trailing_zeros() as usize] as i64);
            rest &= rest - 1;
        }
    }

    /// Reads what [`put`](Self::put) wrote.
    #[inline]
    fn take(&mut self, take: &mut Take, differ: u32, of: u32) -> Result<(), Wrong> {
        let mut all = of & ((1 << WHOLE) - 1);
        while all != 0 {
            let at = all.trailing_zeros() as usize;
            all &= all - 1;
            if differ >> at & 1 != 0 {
                self.steps[at] = take.signed()? as u64;
            }
            self.values[at] = self.values[at].wrapping_add(self.steps[at]);
        }
        let mut floats = differ & of & !((1 << WHOLE) - 1);
        while floats != 0 {
            let at = floats.trailing_zeros() as usize;
            floats &= floats - 1;
            self.values[at] ^= take.number()?.swap_bytes();
        }
        Ok(())
    }
}
