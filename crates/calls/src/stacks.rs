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

/// The open calls of all processes.
#[derive(Debug)]
pub struct Stacks<T> {
    /// By process, ring and stack.
    open: HashMap<(i32, u32, u64), Vec<Open<T>>>,
}

impl<T> Default for Stacks<T> {
    fn default() -> Self {
        Stacks {
            open: HashMap::new(),
        }
    }
}

impl<T> Stacks<T> {
    /// A child has its parent's open calls, and returns from them too.
    pub fn fork(&mut self, parent: i32, child: i32)
    where
        T: Clone,
    {
        let of_parent = self.open.iter().filter(|((pid, ..), _)| *pid == parent);
        let copied: Vec<_> = of_parent
            .map(|((_, ring, stack), open)| ((child, *ring, *stack), open.clone()))
            .collect();
        self.open.extend(copied);
    }

    /// Takes out what is open in one process or in all, in the order in which it was called on each stack.
    pub fn drain(&mut self, process: Option<i32>) -> Vec<T> {
        let mut keys: Vec<_> = self.open.keys().copied().collect();
        keys.retain(|(pid, ..)| process.is_none_or(|process| process == *pid));
        keys.sort_unstable();
        let stacks = keys.iter().filter_map(|key| self.open.remove(key));
        stacks.flatten().map(|open| open.call).collect()
    }

    /// A call begins: how many of its stack are open around it, and those that were left without return.
    pub fn enter(&mut self, at: At, call: T) -> (usize, Vec<Open<T>>) {
        let frame = at.frame;
        let open = self
            .open
            .entry((at.process, at.ring, at.stack))
            .or_default();
        let left = open.iter().position(|open| open.frame <= frame);
        let unwound = open.split_off(left.unwrap_or(open.len()));
        let depth = open.len();
        open.push(Open { frame, call });
        (depth, unwound)
    }

    /// The calls that are open where one begins.
    pub fn around(&self, at: At) -> impl Iterator<Item = &T> {
        let open = self.open.get(&(at.process, at.ring, at.stack));
        let open = open.into_iter().flatten();
        open.take_while(move |open| open.frame > at.frame)
            .map(|open| &open.call)
    }

    /// What is kept of the call that began last there.
    pub fn last(&mut self, at: At) -> Option<&mut T> {
        let open = self.open.get_mut(&(at.process, at.ring, at.stack))?;
        let open = open.last_mut()?;
        (open.frame == at.frame).then_some(&mut open.call)
    }

    /// A call returns: what was kept of it, how many are open around it, and those inside it that were left.
    pub fn leave(&mut self, at: At) -> Option<(T, usize, Vec<Open<T>>)> {
        let open = self.open.get_mut(&(at.process, at.ring, at.stack))?;
        let place = open.iter().rposition(|open| open.frame == at.frame)?;
        let inside = open.split_off(place + 1);
        let call = open.pop()?.call;
        let depth = open.len();
        Some((call, depth, inside))
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
