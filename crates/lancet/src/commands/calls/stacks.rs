//! Which calls are open: entries without their return, by lane and by stack.
//!
//! A lane is a thread, but a thread has several stacks (fibers, signal stacks), and a call ends with its return on
//! its own. A call that is left by an exception or a longjmp never returns; that shows when a later call of the same
//! stack stands where it stood, or above.

use process::maps::Maps;
use std::collections::HashMap;
use std::ops::Range;

/// A call that has not returned.
#[derive(Clone, Debug)]
pub struct Open<T> {
    /// Where its frame is.
    pub frame: u64,
    /// What is kept of it.
    pub call: T,
}

/// The open calls of one process.
#[derive(Debug)]
pub struct Stacks<T> {
    pid: i32,
    /// Mappings that were seen to hold stacks.
    known: Vec<Range<u64>>,
    open: HashMap<(u32, u64), Vec<Open<T>>>,
}

impl<T> Stacks<T> {
    /// No call is open.
    pub fn new(pid: i32) -> Self {
        Stacks {
            pid,
            known: Vec::new(),
            open: HashMap::new(),
        }
    }

    /// The same for a child, which has a copy of them all.
    pub fn of_child(&self, pid: i32) -> Self
    where
        T: Clone,
    {
        Stacks {
            pid,
            known: self.known.clone(),
            open: self.open.clone(),
        }
    }

    /// The stack that holds a frame: the start of its mapping.
    fn stack(&mut self, frame: u64) -> u64 {
        if let Some(known) = self.known.iter().find(|range| range.contains(&frame)) {
            return known.start;
        }
        // A mapping that grew or came: what is known may be no more.
        let found = Maps::read(self.pid)
            .ok()
            .and_then(|maps| maps.find(frame).map(|mapping| mapping.start..mapping.end));
        let range = found.unwrap_or(frame & !0xffff..(frame | 0xffff) + 1);
        self.known
            .retain(|known| known.end <= range.start || known.start >= range.end);
        let start = range.start;
        self.known.push(range);
        start
    }

    /// A call begins: how many of its stack are open around it, and those that were left without return.
    pub fn enter(&mut self, lane: u32, frame: u64, call: T) -> (usize, Vec<Open<T>>) {
        let stack = self.stack(frame);
        let open = self.open.entry((lane, stack)).or_default();
        let left = open.iter().position(|open| open.frame <= frame);
        let unwound = open.split_off(left.unwrap_or(open.len()));
        let depth = open.len();
        open.push(Open { frame, call });
        (depth, unwound)
    }

    /// What is kept of the call that began last there.
    pub fn last(&mut self, lane: u32, frame: u64) -> Option<&mut T> {
        let stack = self.stack(frame);
        let open = self.open.get_mut(&(lane, stack))?.last_mut()?;
        (open.frame == frame).then_some(&mut open.call)
    }

    /// A call returns: what was kept of it, how many are open around it, and those inside it that were left.
    pub fn leave(&mut self, lane: u32, frame: u64) -> Option<(T, usize, Vec<Open<T>>)> {
        let stack = self.stack(frame);
        let open = self.open.get_mut(&(lane, stack))?;
        let at = open.iter().rposition(|open| open.frame == frame)?;
        let inside = open.split_off(at + 1);
        let call = open.pop()?.call;
        let depth = open.len();
        if open.is_empty() {
            self.open.remove(&(lane, stack));
        }
        Some((call, depth, inside))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(unwound: Vec<Open<&'static str>>) -> Vec<&'static str> {
        unwound.into_iter().map(|open| open.call).collect()
    }

    #[test]
    fn calls_nest_and_return() {
        let mut stacks = Stacks::new(std::process::id() as i32);
        assert_eq!(stacks.enter(0, 0x900, "a").0, 0);
        assert_eq!(stacks.enter(0, 0x800, "b").0, 1);
        // Another thread's.
        assert_eq!(stacks.enter(1, 0x700, "c").0, 0);
        let (call, depth, inside) = stacks.leave(0, 0x800).unwrap();
        assert_eq!((call, depth, inside.len()), ("b", 1, 0));
        assert_eq!(stacks.leave(0, 0x900).unwrap().0, "a");
        assert!(stacks.leave(0, 0x900).is_none());
    }

    #[test]
    fn a_longjmp_shows_at_the_next_call() {
        let mut stacks = Stacks::new(std::process::id() as i32);
        stacks.enter(0, 0x900, "outer");
        stacks.enter(0, 0x800, "left");
        stacks.enter(0, 0x700, "left too");
        let (depth, unwound) = stacks.enter(0, 0x820, "next");
        assert_eq!(depth, 1);
        assert_eq!(names(unwound), ["left", "left too"]);
    }

    #[test]
    fn an_outer_return_settles_what_it_held() {
        let mut stacks = Stacks::new(std::process::id() as i32);
        stacks.enter(0, 0x900, "outer");
        stacks.enter(0, 0x800, "left");
        let (call, _, inside) = stacks.leave(0, 0x900).unwrap();
        assert_eq!((call, names(inside)), ("outer", vec!["left"]));
    }
}
