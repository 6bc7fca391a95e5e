//! Keeps track of open calls: entries without their return, by ring and by stack. Used by `filter`, `in_function` and
//! others here, and by crate `report`.
//!
//! A ring belongs to a thread, but a thread has several stacks (fibers, signal stacks), and a call ends with its return
//! on its own stack. A call that is left by an exception or a longjmp never returns; that shows when a later call of the
//! same stack has the same or a higher frame.
//!
//! Calls may stay open for ever: those of fibers that are never resumed, and those that a guest or a file invents. So the
//! memory for open calls is limited (`MOST_BYTES`, `MOST_STACKS`). When it is used up, the stacks on which nothing was
//! called for longest are forgotten; the number of their calls is known ([`OpenCalls::forgotten`]), but their returns are
//! not reported.

use crate::event::At;
use std::collections::HashMap;
use std::rc::Rc;

/// Limit of the estimated bytes of open calls: 32 MiB are some 200,000 calls of which only numbers are kept.
const MOST_BYTES: usize = 32 << 20;

/// Limit of the stacks that are known at the same time.
const MOST_STACKS: usize = 1 << 16;

/// Limit of its parent's calls that a child gets: copying many for each of many forks would take long.
const MOST_OF_A_CHILD: usize = 1 << 12;

/// Estimate of the bytes that a stack takes without its calls.
const STACK: usize = 128;

/// What is kept of an open call.
pub trait Kept {
    /// Returns an estimate of the bytes that it takes besides its own size. It may hold texts of the guest.
    fn beside(&self) -> usize;
}

impl<T: Kept> Kept for Rc<T> {
    fn beside(&self) -> usize {
        size_of::<T>() + T::beside(self)
    }
}

/// A call that has not returned.
#[derive(Clone, Debug)]
pub struct OpenCall<T> {
    /// The stack pointer at the call, by which its return finds it.
    pub frame: u64,
    /// What is kept of it.
    pub call: T,
    /// Bytes that it takes.
    bytes: usize,
}

/// The open calls of one stack: each frame lies deeper than the one before.
#[derive(Clone, Debug)]
struct Stack<T> {
    open: Vec<OpenCall<T>>,
    /// A growing number that says when a call was last made there.
    used: u64,
}

impl<T> Default for Stack<T> {
    fn default() -> Self {
        Stack {
            open: Vec::new(),
            used: 0,
        }
    }
}

fn bytes<T>(open: &[OpenCall<T>]) -> usize {
    open.iter().map(|open| open.bytes).sum()
}

/// A process, a ring of it, and a stack.
type Key = (i32, u32, u64);

/// Number of stacks that are found without the table.
const RECENT: usize = 64;

/// The open calls of all processes.
#[derive(Debug)]
pub struct OpenCalls<T> {
    /// The index of each stack in `stacks`.
    places: HashMap<Key, usize>,
    stacks: Vec<Stack<T>>,
    /// Indices of `stacks` that are free.
    free: Vec<usize>,
    /// The indices of the stacks that were looked up last: nearly every event is on one of them.
    recent: [Option<(Key, usize)>; RECENT],
    /// Counts calls, for [`Stack::used`].
    calls: u64,
    /// Bytes of all open calls.
    bytes: usize,
    forgotten: u64,
}

impl<T> Default for OpenCalls<T> {
    fn default() -> Self {
        OpenCalls {
            places: HashMap::new(),
            stacks: Vec::new(),
            free: Vec::new(),
            recent: [None; RECENT],
            calls: 0,
            bytes: 0,
            forgotten: 0,
        }
    }
}

const fn key(at: &At) -> Key {
    (at.process, at.ring, at.stack)
}

const fn slot((pid, ring, stack): Key) -> usize {
    (pid as usize ^ ring as usize ^ (stack >> 12) as usize) % RECENT
}

impl<T: Kept> OpenCalls<T> {
    /// Copies the parent's open calls to a child, because it returns from them too.
    pub fn fork(&mut self, parent: i32, child: i32)
    where
        T: Clone,
    {
        let keys = self.places.iter();
        let of_parent: Vec<_> = keys
            .filter(|((pid, ..), place)| *pid == parent && !self.stacks[**place].open.is_empty())
            .map(|((_, ring, stack), place)| ((child, *ring, *stack), *place))
            .collect();
        let mut room = MOST_OF_A_CHILD;
        for (key, place) in of_parent {
            let open = &self.stacks[place].open;
            let copied = open[..open.len().min(room)].to_vec();
            room -= copied.len();
            self.forgotten += (open.len() - copied.len()) as u64;
            self.bytes += bytes(&copied);
            let place = self.place_or_new(key);
            let before = std::mem::replace(&mut self.stacks[place].open, copied);
            self.bytes -= bytes(&before);
        }
        if self.is_full() {
            self.forget(None);
        }
    }

    /// Removes and returns what is open in one process or in all, in the order of the calls on each stack.
    pub fn drain(&mut self, process: Option<i32>) -> Vec<T> {
        let mut keys: Vec<_> = self.places.keys().copied().collect();
        keys.retain(|(pid, ..)| process.is_none_or(|process| process == *pid));
        keys.sort_unstable();
        self.take_out(keys)
    }

    fn take_out(&mut self, keys: Vec<Key>) -> Vec<T> {
        self.recent = [None; RECENT];
        let mut drained = Vec::new();
        for key in keys {
            let open = self.remove(key);
            drained.extend(open.into_iter().map(|open| open.call));
        }
        drained
    }

    /// Removes and returns what is open in one ring of a process.
    pub fn drain_ring(&mut self, process: i32, ring: u32) -> Vec<T> {
        let mut keys: Vec<_> = self.places.keys().copied().collect();
        keys.retain(|(pid, of, _)| (*pid, *of) == (process, ring));
        keys.sort_unstable();
        self.take_out(keys)
    }

    /// Handles the begin of a call. Returns how many calls of its stack are open around it, and those that were left
    /// without a return.
    pub fn enter(&mut self, at: At, call: T) -> (usize, Vec<OpenCall<T>>) {
        self.enter_with(at, |_| call)
    }

    /// Like [`enter`](Self::enter); `call` makes what is kept of the call, from the number of calls around it.
    pub fn enter_with(
        &mut self,
        at: At,
        call: impl FnOnce(usize) -> T,
    ) -> (usize, Vec<OpenCall<T>>) {
        let frame = at.frame;
        let place = self.place_or_new(key(&at));
        let unwound = self.unwind_at(place, frame);
        let Stack { open, used } = &mut self.stacks[place];
        self.calls += 1;
        *used = self.calls;
        let depth = open.len();
        // It is made at its place, because what is kept of a call may have hundreds of bytes.
        open.push(OpenCall {
            frame,
            call: call(depth),
            bytes: size_of::<OpenCall<T>>(),
        });
        if let Some(made) = open.last_mut() {
            made.bytes += made.call.beside();
            self.bytes += made.bytes;
        }
        if self.is_full() {
            self.forget(Some(place));
        }
        (depth, unwound)
    }

    /// Handles the begin of a call that is not kept. Returns the calls of its stack that were left without a return.
    pub fn unwind(&mut self, at: At) -> Vec<OpenCall<T>> {
        let place = self.place(key(&at));
        place.map_or_else(Vec::new, |place| self.unwind_at(place, at.frame))
    }

    fn unwind_at(&mut self, place: usize, frame: u64) -> Vec<OpenCall<T>> {
        let open = &mut self.stacks[place].open;
        let deeper = open.iter().rev().take_while(|open| open.frame <= frame);
        let unwound = open.split_off(open.len() - deeper.count());
        self.bytes -= bytes(&unwound);
        unwound
    }

    /// Returns the calls that are open around a call that begins.
    pub fn around(&self, at: At) -> impl Iterator<Item = &T> {
        let place = self.place(key(&at));
        let open = place.into_iter().flat_map(|place| &self.stacks[place].open);
        open.take_while(move |open| open.frame > at.frame)
            .map(|open| &open.call)
    }

    /// Returns what is kept of the call that began last there.
    pub fn last(&mut self, at: At) -> Option<&mut T> {
        let place = self.place(key(&at))?;
        let open = self.stacks[place].open.last_mut()?;
        (open.frame == at.frame).then_some(&mut open.call)
    }

    /// Handles a return. Returns what was kept of the call, how many calls are open around it, and those inside it that
    /// were left.
    pub fn leave(&mut self, at: At) -> Option<(T, usize, Vec<OpenCall<T>>)> {
        let (place, depth) = self.leaving(at)?;
        let open = &mut self.stacks[place].open;
        let inside = open.split_off(depth + 1);
        let call = open.pop()?;
        self.bytes -= call.bytes + bytes(&inside);
        Some((call.call, depth, inside))
    }

    /// Like [`leave`](Self::leave), if much is kept of a call: `left` gets it and those inside it at their place.
    pub fn leave_with(&mut self, at: At, left: impl FnOnce(&mut T, &mut [OpenCall<T>])) {
        let Some((place, depth)) = self.leaving(at) else {
            return;
        };
        let open = &mut self.stacks[place].open;
        self.bytes -= bytes(&open[depth..]);
        if let Some((call, inside)) = open[depth..].split_first_mut() {
            left(&mut call.call, inside);
        }
        open.truncate(depth);
    }

    /// Returns the index of a stack, and which of its open calls returns.
    fn leaving(&self, at: At) -> Option<(usize, usize)> {
        let place = self.place(key(&at))?;
        let open = &self.stacks[place].open;
        let deeper = open.iter().rev().take_while(|open| open.frame < at.frame);
        let depth = (open.len() - deeper.count()).checked_sub(1)?;
        (open[depth].frame == at.frame).then_some((place, depth))
    }

    /// Returns how many open calls were forgotten, because too many were open at the same time.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    #[inline]
    fn is_full(&self) -> bool {
        self.bytes + self.places.len() * STACK > MOST_BYTES || self.places.len() > MOST_STACKS
    }

    /// Forgets stacks, those that were used last at the end, until half of the memory is free; of the stack `kept` only
    /// the outermost calls remain, if it takes most of the memory itself.
    #[cold]
    fn forget(&mut self, kept: Option<usize>) {
        let places = self.places.iter();
        let others = places.filter(|(_, place)| Some(**place) != kept);
        let mut others: Vec<(u64, Key)> = others
            .map(|(key, place)| (self.stacks[*place].used, *key))
            .collect();
        others.sort_unstable();
        self.recent = [None; RECENT];
        for (_, key) in others {
            let held = self.bytes + self.places.len() * STACK;
            if held <= MOST_BYTES / 2 && self.places.len() <= MOST_STACKS / 2 {
                return;
            }
            let open = self.remove(key);
            self.forgotten += open.len() as u64;
        }
        let Some(kept) = kept else { return };
        let open = &mut self.stacks[kept].open;
        if self.bytes > MOST_BYTES / 2 && open.len() > 1 {
            let outer = open.len().div_ceil(2);
            let outer: Vec<OpenCall<T>> = open.drain(..outer).collect();
            self.bytes -= bytes(&outer);
            self.forgotten += outer.len() as u64;
        }
    }

    /// Removes a stack. Its entry in `recent` is invalid from then on.
    fn remove(&mut self, key: Key) -> Vec<OpenCall<T>> {
        let Some(place) = self.places.remove(&key) else {
            return Vec::new();
        };
        self.free.push(place);
        let open = std::mem::take(&mut self.stacks[place].open);
        self.bytes -= bytes(&open);
        open
    }

    #[inline]
    fn place(&self, key: Key) -> Option<usize> {
        match self.recent[slot(key)] {
            Some((recent, place)) if recent == key => Some(place),
            _ => self.places.get(&key).copied(),
        }
    }

    #[inline]
    fn place_or_new(&mut self, key: Key) -> usize {
        match self.recent[slot(key)] {
            Some((recent, place)) if recent == key => place,
            _ => self.look_up(key),
        }
    }

    /// Returns the index of a stack that was not looked up recently.
    #[cold]
    fn look_up(&mut self, key: Key) -> usize {
        let place = *self.places.entry(key).or_insert_with(|| {
            self.free.pop().unwrap_or_else(|| {
                self.stacks.push(Stack::default());
                self.stacks.len() - 1
            })
        });
        self.recent[slot(key)] = Some((key, place));
        place
    }
}

#[cfg(test)]
mod tests;
