//! Which calls are open: entries without their return, by ring and by stack.
//!
//! A ring is a thread, but a thread has several stacks (fibers, signal stacks), and a call ends with its return on
//! its own. A call that is left by an exception or a longjmp never returns; that shows when a later call of the same
//! stack stands where it stood, or above.

use crate::event::At;
use std::collections::HashMap;

/// A call that has not returned.
#[derive(Clone, Debug)]
pub struct Open<T> {
    /// Where its frame is.
    pub frame: u64,
    /// What is kept of it.
    pub call: T,
}

/// A process, a ring of it, and a stack.
type Key = (i32, u32, u64);

/// How many stacks are found without the table.
const RECENT: usize = 64;

/// The open calls of all processes.
#[derive(Debug)]
pub struct Stacks<T> {
    /// Where in `open` the calls of a stack are.
    places: HashMap<Key, usize>,
    /// On each stack frames lie deeper and deeper.
    open: Vec<Vec<Open<T>>>,
    /// Places whose stacks are no more.
    free: Vec<usize>,
    /// The places of stacks that were asked for last: nearly every event is on one of them.
    recent: [Option<(Key, usize)>; RECENT],
}

impl<T> Default for Stacks<T> {
    fn default() -> Self {
        Stacks {
            places: HashMap::new(),
            open: Vec::new(),
            free: Vec::new(),
            recent: [None; RECENT],
        }
    }
}

const fn key(at: &At) -> Key {
    (at.process, at.ring, at.stack)
}

const fn slot((pid, ring, stack): Key) -> usize {
    (pid as usize ^ ring as usize ^ (stack >> 12) as usize) % RECENT
}

impl<T> Stacks<T> {
    /// A child has its parent's open calls, and returns from them too.
    pub fn fork(&mut self, parent: i32, child: i32)
    where
        T: Clone,
    {
        let keys = self.places.iter();
        let of_parent: Vec<_> = keys
            .filter(|((pid, ..), _)| *pid == parent)
            .map(|((_, ring, stack), place)| ((child, *ring, *stack), *place))
            .collect();
        for (key, place) in of_parent {
            let copied = self.open[place].clone();
            let place = self.place_or_new(key);
            self.open[place] = copied;
        }
    }

    /// Takes out what is open in one process or in all, in the order in which it was called on each stack.
    pub fn drain(&mut self, process: Option<i32>) -> Vec<T> {
        let mut keys: Vec<_> = self.places.keys().copied().collect();
        keys.retain(|(pid, ..)| process.is_none_or(|process| process == *pid));
        keys.sort_unstable();
        self.recent = [None; RECENT];
        let mut drained = Vec::new();
        for key in keys {
            if let Some(place) = self.places.remove(&key) {
                let open = std::mem::take(&mut self.open[place]);
                drained.extend(open.into_iter().map(|open| open.call));
                self.free.push(place);
            }
        }
        drained
    }

    /// A call begins: how many of its stack are open around it, and those that were left without return.
    pub fn enter(&mut self, at: At, call: T) -> (usize, Vec<Open<T>>) {
        let frame = at.frame;
        let place = self.place_or_new(key(&at));
        let open = &mut self.open[place];
        let deeper = open.iter().rev().take_while(|open| open.frame <= frame);
        let unwound = open.split_off(open.len() - deeper.count());
        let depth = open.len();
        open.push(Open { frame, call });
        (depth, unwound)
    }

    /// The calls that are open where one begins.
    pub fn around(&self, at: At) -> impl Iterator<Item = &T> {
        let place = self.place(key(&at));
        let open = place.into_iter().flat_map(|place| &self.open[place]);
        open.take_while(move |open| open.frame > at.frame)
            .map(|open| &open.call)
    }

    /// What is kept of the call that began last there.
    pub fn last(&mut self, at: At) -> Option<&mut T> {
        let place = self.place(key(&at))?;
        let open = self.open[place].last_mut()?;
        (open.frame == at.frame).then_some(&mut open.call)
    }

    /// A call returns: what was kept of it, how many are open around it, and those inside it that were left.
    pub fn leave(&mut self, at: At) -> Option<(T, usize, Vec<Open<T>>)> {
        let key = key(&at);
        let place = self.place(key)?;
        self.recent[slot(key)] = Some((key, place));
        let open = &mut self.open[place];
        let deeper = open.iter().rev().take_while(|open| open.frame < at.frame);
        let depth = (open.len() - deeper.count()).checked_sub(1)?;
        if open[depth].frame != at.frame {
            return None;
        }
        let inside = open.split_off(depth + 1);
        let call = open.pop()?.call;
        Some((call, depth, inside))
    }

    fn place(&self, key: Key) -> Option<usize> {
        match self.recent[slot(key)] {
            Some((recent, place)) if recent == key => Some(place),
            _ => self.places.get(&key).copied(),
        }
    }

    fn place_or_new(&mut self, key: Key) -> usize {
        let place = self.place(key).unwrap_or_else(|| {
            let place = self.free.pop().unwrap_or_else(|| {
                self.open.push(Vec::new());
                self.open.len() - 1
            });
            self.places.insert(key, place);
            place
        });
        self.recent[slot(key)] = Some((key, place));
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn at(ring: u32, frame: u64) -> At {
        At {
            process: 1,
            tid: 1,
            ring,
            stack: 0,
            frame,
            time: Duration::ZERO,
        }
    }

    fn names(unwound: Vec<Open<&'static str>>) -> Vec<&'static str> {
        unwound.into_iter().map(|open| open.call).collect()
    }

    #[test]
    fn calls_nest_and_return() {
        let mut stacks = Stacks::default();
        assert_eq!(stacks.enter(at(0, 0x900), "a").0, 0);
        assert_eq!(stacks.enter(at(0, 0x800), "b").0, 1);
        // Another thread's.
        assert_eq!(stacks.enter(at(1, 0x700), "c").0, 0);
        let (call, depth, inside) = stacks.leave(at(0, 0x800)).unwrap();
        assert_eq!((call, depth, inside.len()), ("b", 1, 0));
        assert_eq!(stacks.leave(at(0, 0x900)).unwrap().0, "a");
        assert!(stacks.leave(at(0, 0x900)).is_none());
    }

    #[test]
    fn a_child_has_the_calls_of_its_parent_and_an_ended_process_has_none() {
        let mut stacks = Stacks::default();
        stacks.enter(at(0, 0x900), "a");
        stacks.enter(at(0, 0x800), "b");
        stacks.fork(1, 2);
        assert_eq!(stacks.drain(Some(1)), ["a", "b"]);
        assert!(stacks.leave(at(0, 0x800)).is_none());
        // Another process gets the place of the one that has ended.
        let of = |process, frame| At {
            process,
            ..at(0, frame)
        };
        stacks.enter(of(3, 0x700), "c");
        assert_eq!(stacks.leave(of(2, 0x800)).unwrap().0, "b");
        assert!(stacks.leave(of(2, 0x880)).is_none());
        assert_eq!(stacks.drain(None), ["a", "c"]);
    }

    /// More stacks than are found without the table, in turn.
    #[test]
    fn every_stack_has_its_own_calls() {
        let mut stacks = Stacks::default();
        let on = |stack: u64, frame| At {
            stack: stack << 12,
            ..at(0, frame)
        };
        for stack in 0..RECENT as u64 * 3 {
            stacks.enter(on(stack, 0x900), stack);
        }
        for stack in 0..RECENT as u64 * 3 {
            assert_eq!(stacks.last(on(stack, 0x900)), Some(&mut { stack }));
            assert_eq!(stacks.leave(on(stack, 0x900)).unwrap().0, stack);
        }
    }

    #[test]
    fn a_longjmp_shows_at_the_next_call() {
        let mut stacks = Stacks::default();
        stacks.enter(at(0, 0x900), "outer");
        stacks.enter(at(0, 0x800), "left");
        stacks.enter(at(0, 0x700), "left too");
        assert_eq!(stacks.around(at(0, 0x820)).count(), 1);
        let (depth, unwound) = stacks.enter(at(0, 0x820), "next");
        assert_eq!(depth, 1);
        assert_eq!(names(unwound), ["left", "left too"]);
    }

    #[test]
    fn an_outer_return_settles_what_it_held() {
        let mut stacks = Stacks::default();
        stacks.enter(at(0, 0x900), "outer");
        stacks.enter(at(0, 0x800), "left");
        let (call, _, inside) = stacks.leave(at(0, 0x900)).unwrap();
        assert_eq!((call, names(inside)), ("outer", vec!["left"]));
    }
}
