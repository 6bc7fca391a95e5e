//! Frames, waits and stacks of a profile in a file. Used by `saved`.

use std::rc::Rc;

use varint::{Take, Wrong, put, put_bytes};

use super::{MOST_SAMPLES, put_optional, take_optional};
use crate::profile::frame::{
    DEEPEST, Frame, Function, Kind, Known, MOST_BYTES, MOST_FRAMES, MOST_KINDS, OTHERS,
};
use crate::profile::threads::{self, Did, Threads};
use crate::profile::waits::{self, Lock, MOST_WAITS, Wait, Waits};

/// What a byte says of a frame.
const NATIVE: u8 = 1;
const LIBRARY: u8 = 2;

/// What a byte says of a wait.
const IDLE: u8 = 1;
const HOLDER: u8 = 2;

pub(super) fn put_frames(bytes: &mut Vec<u8>, known: &Known) {
    put(bytes, known.frames.len() as u64);
    known
        .frames
        .iter()
        .for_each(|frame| put_frame(bytes, frame));
}

fn put_frame(bytes: &mut Vec<u8>, frame: &Frame) {
    put_bytes(bytes, frame.function.name.as_bytes());
    put_bytes(bytes, frame.function.file.as_bytes());
    put(bytes, frame.line.into());
    let is_native = frame.function.kind == Kind::Native;
    let native = if is_native { NATIVE } else { 0 };
    bytes.push(native | if frame.library { LIBRARY } else { 0 });
}

/// Writes stacks, each with the number of what was waited for and with its count.
pub(super) fn put_stacks(bytes: &mut Vec<u8>, mut stacks: Vec<(&[u32], Option<u32>, u64)>) {
    stacks.sort_unstable();
    put(bytes, stacks.len() as u64);
    let mut before: &[u32] = &[];
    for (stack, wait, count) in stacks {
        let both = before.iter().zip(stack.iter());
        let common = both.take_while(|(one, other)| one == other).count();
        put(bytes, common as u64);
        put(bytes, (stack.len() - common) as u64);
        let wait = wait.iter();
        for number in stack[common..].iter().chain(wait) {
            put(bytes, (*number).into());
        }
        put(bytes, count);
        before = stack;
    }
}

pub(super) fn put_waits(bytes: &mut Vec<u8>, waits: &Waits) {
    put_frames(bytes, &waits.known);
    put(bytes, waits.kinds.len() as u64);
    for wait in &waits.kinds {
        put_bytes(bytes, wait.doing.as_bytes());
        put_bytes(bytes, wait.on.as_bytes());
        put_optional(bytes, wait.lock.as_ref().map(|lock| lock.pid.into()));
        if let Some(lock) = &wait.lock {
            put_bytes(bytes, lock.name.as_bytes());
        }
        let idle = if wait.is_idle { IDLE } else { 0 };
        bytes.push(idle | if wait.holder.is_some() { HOLDER } else { 0 });
        if let Some(holder) = &wait.holder {
            put_frame(bytes, holder);
        }
    }
    let stacks = waits.stacks.iter();
    let stacks = stacks.map(|((stack, wait), count)| (&**stack, Some(*wait), *count));
    put_stacks(bytes, stacks.collect());
}

/// Nothing is added to what was read, so that nobody asks for the number of a frame.
pub(super) fn take_frames(take: &mut Take) -> Result<Known, Wrong> {
    let mut known = Known::default();
    for _ in 0..take.below(MOST_KINDS + 2)? {
        let frame = frame(take)?;
        known.bytes += frame.function.name.len() + frame.function.file.len();
        if known.bytes > MOST_BYTES + OTHERS.len() {
            return Err(Wrong);
        }
        known.frames.push(frame);
    }
    Ok(known)
}

pub(super) fn take_waits(take: &mut Take) -> Result<Waits, Wrong> {
    let mut waits = Waits::default();
    waits.known = take_frames(take)?;
    for _ in 0..take.below(MOST_WAITS + 2)? {
        let wait = wait(take)?;
        waits.bytes += wait.size();
        // The last one is what stands for others.
        if waits.bytes > waits::MOST_BYTES + OTHERS.len() {
            return Err(Wrong);
        }
        waits.kinds.push(wait);
    }
    let (kinds, stacks) = (waits.kinds.len(), &mut waits.stacks);
    waits.frames = take_stacks(take, &waits.known, |take, stack| {
        let wait = take.below(kinds)?;
        Ok(stacks.insert((stack, wait), take.number()?).is_none())
    })?;
    Ok(waits)
}

fn wait(take: &mut Take) -> Result<Wait, Wrong> {
    let (doing, on) = (take.text()?, take.text()?);
    let lock = match take_optional(take)? {
        Some(pid) => Some(Lock {
            pid: u32::try_from(pid).map_err(|_| Wrong)?,
            name: take.text()?,
        }),
        None => None,
    };
    let flags = take.byte()?;
    let has_holder = flags & HOLDER != 0;
    Ok(Wait {
        doing,
        on,
        lock,
        holder: has_holder.then(|| frame(take)).transpose()?,
        is_idle: flags & IDLE != 0,
    })
}

fn frame(take: &mut Take) -> Result<Frame, Wrong> {
    let (name, file, line) = (take.text()?, take.text()?, take.small()?);
    let flags = take.byte()?;
    Ok(Frame {
        function: Function {
            name,
            file,
            kind: match flags & NATIVE {
                0 => Kind::Script,
                _ => Kind::Native,
            },
        },
        line,
        library: flags & LIBRARY != 0,
    })
}

/// Takes stacks of known frames; `add` takes what else there is of each, and returns whether it is another one than all before. Returns how many
/// frames all have.
pub(super) fn take_stacks(
    take: &mut Take,
    known: &Known,
    mut add: impl FnMut(&mut Take, Rc<[u32]>) -> Result<bool, Wrong>,
) -> Result<usize, Wrong> {
    let mut stack: Vec<u32> = Vec::new();
    let mut frames = 0;
    for _ in 0..take.number()? {
        let common = take.below(stack.len() + 1)? as usize;
        stack.truncate(common);
        for _ in 0..take.number()? {
            stack.push(take.below(known.frames.len())?);
        }
        if stack.len() > DEEPEST {
            return Err(Wrong);
        }
        frames += stack.len();
        // Stacks that found no room have one frame each, one of the kinds that there are.
        if frames > MOST_FRAMES + MOST_KINDS || !add(take, stack.as_slice().into())? {
            return Err(Wrong);
        }
    }
    Ok(frames)
}

pub(super) fn put_threads(bytes: &mut Vec<u8>, threads: &Threads) {
    put(bytes, threads.0.len() as u64);
    for (name, counts) in &threads.0 {
        put_bytes(bytes, name.as_bytes());
        put(bytes, counts.ran);
        put(bytes, counts.waited);
    }
}

pub(super) fn take_threads(take: &mut Take) -> Result<Threads, Wrong> {
    let mut threads = Threads::default();
    for _ in 0..take.below(threads::MOST + 2)? {
        let name = take.text()?;
        let [ran, waited] = [take.number()?, take.number()?];
        if ran.max(waited) > MOST_SAMPLES {
            return Err(Wrong);
        }
        threads.add(&name, Did::Ran, ran);
        threads.add(&name, Did::Waited, waited);
    }
    Ok(threads)
}
