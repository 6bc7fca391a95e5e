//! What few items have: copies of memory, native frames, x87 registers; and events that are no calls. Used by `decode`
//! and `encode`.

use super::Copies;
use crate::event::{End, EventKind, Signal};
use prototypes::show::Captures;
use varint::{Take, Wrong, put, put_bytes, put_signed};

/// Which parts an item has.
pub mod which {
    pub const CALLERS: u8 = 1;
    pub const COPIES: u8 = 2;
    pub const RETURN_COPIES: u8 = 4;
    pub const X87: u8 = 8;
    pub const ALL: u8 = 15;
}

/// Where a copy lies: in the register of an argument, from 1 on; behind the copy before; elsewhere, and then the
/// distance from the end of the copy before follows.
const ARGUMENTS: u64 = 6;
const BEHIND: u64 = 7;
const ELSEWHERE: u64 = 0;

pub fn put_numbers(out: &mut Vec<u8>, numbers: &[u32]) {
    put(out, numbers.len() as u64);
    for number in numbers {
        put(out, (*number).into());
    }
}

/// Reads numbers of definitions, each of which must be below `defined`.
pub fn take_numbers(take: &mut Take, defined: u32) -> Result<Vec<u32>, Wrong> {
    let count = take.number()?;
    if count > take.0.len() as u64 {
        return Err(Wrong);
    }
    let number = |_| match take.small()? {
        number if number < defined => Ok(number),
        _ => Err(Wrong),
    };
    (0..count).map(number).collect()
}

fn put_place(out: &mut Vec<u8>, arguments: &[u64], behind: u64, at: u64) {
    match arguments.iter().position(|argument| *argument == at) {
        _ if at == behind => put(out, BEHIND),
        Some(argument) => put(out, argument as u64 + 1),
        None => {
            put(out, ELSEWHERE);
            put_signed(out, at.wrapping_sub(behind) as i64);
        }
    }
}

/// Writes copies; whether there were any.
pub fn put_copies(out: &mut Vec<u8>, arguments: &[u64], copies: Copies) -> bool {
    let mut behind = 0_u64;
    match copies {
        Copies::Captures(captures) => {
            if captures.is_empty() {
                return false;
            }
            put(out, captures.len() as u64);
            for (at, bytes) in captures.iter() {
                put_place(out, arguments, behind, at);
                put_bytes(out, bytes);
                behind = at.wrapping_add(bytes.len() as u64);
            }
        }
        Copies::Words(words) => {
            let count = of_words(words).count();
            if count == 0 {
                return false;
            }
            put(out, count as u64);
            for (at, length, words) in of_words(words) {
                put_place(out, arguments, behind, at);
                put(out, length as u64);
                let end = out.len() + length;
                for word in words {
                    out.extend_from_slice(&word.to_le_bytes());
                }
                out.truncate(end);
                behind = at.wrapping_add(length as u64);
            }
        }
    }
    true
}

/// The copies in the words of a record: address, length in bytes, words. What is cut off is left out.
fn of_words(mut words: &[u64]) -> impl Iterator<Item = (u64, usize, &[u64])> {
    std::iter::from_fn(move || {
        while let [at, length, rest @ ..] = words {
            let length = usize::try_from(*length).ok()?;
            let (bytes, others) = rest.split_at_checked(length.div_ceil(8))?;
            words = others;
            if length != 0 {
                return Some((*at, length, bytes));
            }
        }
        None
    })
}

pub fn take_copies(take: &mut Take, arguments: &[u64]) -> Result<Captures, Wrong> {
    let count = take.number()?;
    if count > take.0.len() as u64 {
        return Err(Wrong);
    }
    let mut behind = 0_u64;
    let mut captures = Captures::new();
    for _ in 0..count {
        let at = match take.number()? {
            ELSEWHERE => behind.wrapping_add(take.signed()? as u64),
            BEHIND => behind,
            argument @ 1..=ARGUMENTS => *arguments.get(argument as usize - 1).ok_or(Wrong)?,
            _ => return Err(Wrong),
        };
        let bytes = take.bytes()?;
        behind = at.wrapping_add(bytes.len() as u64);
        captures.add(at, bytes);
    }
    Ok(captures)
}

/// A signal of which more than its number is known.
const INFORMED: u8 = 6;

/// Writes an event that is neither a call nor a return; nothing for other kinds.
pub fn put_kind<C>(out: &mut Vec<u8>, kind: &EventKind<C>) {
    let (kind, number) = match kind {
        EventKind::Signal(signal) if !signal.information.is_empty() => {
            out.push(INFORMED);
            put_signed(out, signal.number.into());
            return put_bytes(out, &signal.information);
        }
        EventKind::Signal(signal) => (0, signal.number),
        EventKind::Forked(number) => (1, *number),
        EventKind::Ended(End::Exited(number)) => (2, *number),
        EventKind::Ended(End::Killed(number)) => (3, *number),
        EventKind::Ended(End::Unknown) => (4, 0),
        EventKind::Ended(End::Replaced) => (5, 0),
        EventKind::Opened(_) | EventKind::Call(_) | EventKind::Return(_) | EventKind::Thread(_) => {
            return;
        }
    };
    out.push(kind);
    put_signed(out, number.into());
}

pub fn take_kind<C>(take: &mut Take) -> Result<EventKind<C>, Wrong> {
    let kind = take.byte()?;
    let number = i32::try_from(take.signed()?).map_err(|_| Wrong)?;
    Ok(match kind {
        0 => EventKind::Signal(Signal {
            number,
            ..Signal::default()
        }),
        INFORMED => EventKind::Signal(Signal {
            number,
            information: take.bytes()?.to_vec(),
            instruction: None,
        }),
        1 => EventKind::Forked(number),
        2 => EventKind::Ended(End::Exited(number)),
        3 => EventKind::Ended(End::Killed(number)),
        4 => EventKind::Ended(End::Unknown),
        5 => EventKind::Ended(End::Replaced),
        _ => return Err(Wrong),
    })
}
