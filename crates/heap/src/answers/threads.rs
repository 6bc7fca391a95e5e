//! What the stacks of threads and fibers hold. Used by `answers`.

use std::collections::BTreeMap;

use crate::analysis::{Analysis, Dominator};
use crate::names::Role;

/// A thread or fiber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stack {
    /// Number of its object; `None` = a thread of which only roots are known.
    pub object: Option<u32>,
    /// The number of the thread that the roots name; 0 = it is known by its object alone.
    pub thread: u32,
    /// Bytes that it retains, without what others hold too.
    pub retained: u64,
}

/// Threads and fibers, those that retain most first: the objects of these roles, and the roots that name a thread's number.
#[must_use]
pub fn stacks(analysis: &Analysis) -> Vec<Stack> {
    let snapshot = analysis.snapshot();
    let objects = (0..snapshot.len() as u32).filter(|object| {
        matches!(snapshot.role(*object), Role::Thread | Role::Fiber) && analysis.is_living(*object)
    });
    let mut stacks: Vec<Stack> = objects
        .map(|object| Stack {
            object: Some(object),
            thread: 0,
            retained: analysis.retained(object),
        })
        .collect();
    let mut roots: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for root in snapshot.roots() {
        let alone = analysis.dominator(root.target) == Dominator::Roots;
        let is_thread = snapshot.role(root.target) == Role::Thread;
        if root.name.thread != 0 && alone && !is_thread {
            roots.entry(root.name.thread).or_default().push(root.target);
        }
    }
    for (thread, mut targets) in roots {
        targets.sort_unstable();
        targets.dedup();
        let retained = targets.iter().map(|target| analysis.retained(*target));
        stacks.push(Stack {
            object: None,
            thread,
            retained: retained.fold(0, u64::saturating_add),
        });
    }
    stacks.sort_by_key(|stack| {
        (
            std::cmp::Reverse(stack.retained),
            stack.object,
            stack.thread,
        )
    });
    stacks
}
