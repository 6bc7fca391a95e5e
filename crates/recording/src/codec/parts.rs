//! Encoding of the parts of items: texts, numbers, registers that changed, events, captures.

use crate::bytes::{Take, Wrong, put, put_bytes, put_signed, put_step};
use crate::event::{End, EventKind};
use prototypes::Captures;
use prototypes::capture::Registers;

/// A capture begins at the address in this register of the call, from 1 on.
const ARGUMENTS: u64 = 6;
/// A capture begins where the one before ends.
const BEHIND: u64 = 7;
/// A capture begins elsewhere: the distance from the end of the one before follows.
const ELSEWHERE: u64 = 0;

pub fn put_text(out: &mut Vec<u8>, text: &str) {
    put_bytes(out, text.as_bytes());
}

pub fn put_texts(out: &mut Vec<u8>, texts: &[String]) {
    put(out, texts.len() as u64);
    for text in texts {
        put_text(out, text);
    }
}

pub fn put_numbers(out: &mut Vec<u8>, numbers: &[u32]) {
    put(out, numbers.len() as u64);
    for number in numbers {
        put(out, (*number).into());
    }
}

/// Reads numbers of items, each of which must be below `defined`.
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

/// Encodes a number that may be missing as one number.
pub fn or_zero(number: Option<u32>) -> u64 {
    number.map_or(0, |number| u64::from(number) + 1)
}

#[inline]
pub fn words(registers: &Registers) -> [u64; 14] {
    let mut all = [0; 14];
    all[..6].copy_from_slice(&registers.gp);
    all[6..].copy_from_slice(&registers.sse);
    all
}

/// Which numbers differ, and how: whole numbers by their distance; from `floats` on by their bits, the low ones, which
/// are mostly 0, at the far end.
#[inline]
pub fn put_changed(out: &mut Vec<u8>, before: &[u64], now: &[u64], floats: usize) {
    let differs = |at: &usize| before[*at] != now[*at];
    let changed = (0..now.len()).filter(differs);
    put(out, changed.fold(0, |mask, at| mask | 1 << at));
    for at in (0..now.len()).filter(differs) {
        if at < floats {
            put_step(out, before[at], now[at])
        } else {
            put(out, (before[at] ^ now[at]).swap_bytes())
        }
    }
}

#[inline]
pub fn take_changed(take: &mut Take, values: &mut [u64], floats: usize) -> Result<(), Wrong> {
    let mask = take.number()?;
    if mask >> values.len() != 0 {
        return Err(Wrong);
    }
    for (at, value) in values.iter_mut().enumerate() {
        if mask >> at & 1 != 0 {
            *value = if at < floats {
                take.step(*value)?
            } else {
                *value ^ take.number()?.swap_bytes()
            };
        }
    }
    Ok(())
}

/// Writes an event that is neither a call nor a return. [`EventKind::Opened`] is an item of its own and is not written.
pub fn put_kind<C>(out: &mut Vec<u8>, kind: &EventKind<C>) {
    let (kind, number) = match kind {
        EventKind::Signal(number) => (0, *number),
        EventKind::Forked(number) => (1, *number),
        EventKind::Ended(End::Exited(number)) => (2, *number),
        EventKind::Ended(End::Killed(number)) => (3, *number),
        EventKind::Ended(End::Unknown) => (4, 0),
        EventKind::Ended(End::Replaced) => (5, 0),
        EventKind::Opened(_) | EventKind::Call(_) | EventKind::Return(_) => return,
    };
    out.push(kind);
    put_signed(out, number.into());
}

pub fn take_kind(take: &mut Take) -> Result<EventKind, Wrong> {
    let kind = take.byte()?;
    let number = i32::try_from(take.signed()?).map_err(|_| Wrong)?;
    Ok(match kind {
        0 => EventKind::Signal(number),
        1 => EventKind::Forked(number),
        2 => EventKind::Ended(End::Exited(number)),
        3 => EventKind::Ended(End::Killed(number)),
        4 => EventKind::Ended(End::Unknown),
        5 => EventKind::Ended(End::Replaced),
        _ => return Err(Wrong),
    })
}

pub fn put_captures(out: &mut Vec<u8>, arguments: &[u64], captures: &Captures) {
    put(out, captures.len() as u64);
    let mut behind = 0_u64;
    for (at, bytes) in captures.iter() {
        match arguments.iter().position(|argument| *argument == at) {
            _ if at == behind => put(out, BEHIND),
            Some(argument) => put(out, argument as u64 + 1),
            None => {
                put(out, ELSEWHERE);
                put_step(out, behind, at);
            }
        }
        put_bytes(out, bytes);
        behind = at.wrapping_add(bytes.len() as u64);
    }
}

pub fn take_captures(take: &mut Take, arguments: &[u64]) -> Result<Captures, Wrong> {
    let count = take.number()?;
    if count > take.0.len() as u64 {
        return Err(Wrong);
    }
    let mut behind = 0_u64;
    let mut captures = Captures::new();
    for _ in 0..count {
        let at = match take.number()? {
            ELSEWHERE => take.step(behind)?,
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
