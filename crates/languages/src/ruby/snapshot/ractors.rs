//! Who holds what in a core file of several Ractors: the VM holds the Ractors, each of these its threads, and each thread what is on its stack.
//! Used by `core`.
//!
//! In a living process the VM's own functions say so. In a core file the words of all machine stacks would be roots of their own, and what a
//! Ractor has in a local variable would be held by nobody in particular.

use foldhash::HashMap;
use std::ops::Range;
use std::time::Instant;
use vm::Memory;
use vm::ruby::{Ruby, Type};

/// Limit of the threads whose stacks are looked for: each is compared with the execution context of each Thread.
const MOST_THREADS: usize = 1 << 10;

/// Ractors and their threads, by the addresses of their objects.
#[derive(Default)]
pub struct Ractors {
    /// The threads of each Ractor that run.
    threads: HashMap<u64, Vec<u64>>,
    /// The number of the stack of each thread that belongs to one of them.
    stacks: HashMap<u64, Option<usize>>,
}

impl Ractors {
    /// Finds them, if there are several. `stacks` are the used parts of the stacks of all threads.
    pub fn of<M: Memory>(ruby: &Ruby<M>, stacks: &[(u32, Range<u64>)], until: Instant) -> Self {
        let vm = ruby.vm().ok();
        let count = vm.and_then(|vm| ruby.ractor_count(vm).ok());
        if count.is_none_or(|count| count < 2) || stacks.len() > MOST_THREADS {
            return Self::default();
        }
        // Threads by the structure of their Ractor, whose object is found then. One that has ended still leads to its Ractor, but that does not
        // hold it any more; and a Ractor without any that runs has ended, and is held by whoever keeps it.
        let mut by_structure: HashMap<u64, Vec<u64>> = HashMap::default();
        each_of_c_type(ruby, until, &mut |object| {
            if let (Ok(Some(ractor)), true) = (ruby.ractor_of_thread(object), runs(ruby, object)) {
                by_structure.entry(ractor).or_default().push(object);
            }
        });
        let mut found = Self::default();
        each_of_c_type(ruby, until, &mut |object| {
            let structure = ruby.structure(object).ok();
            if let Some(threads) = structure.and_then(|one| by_structure.remove(&one)) {
                found.threads.insert(object, threads);
            }
        });
        for thread in found.threads.values().flatten().take(MOST_THREADS) {
            let context = ruby.context_of_object(*thread);
            let is_own = |(_, stack): &(u32, Range<u64>)| {
                context.is_some_and(|ec| ruby.stack_start(ec, stack, stack.start).is_some())
            };
            found.stacks.insert(*thread, stacks.iter().position(is_own));
        }
        found
    }

    /// The threads of a Ractor that run; none if the object is no Ractor, or one that has ended.
    pub fn threads(&self, object: u64) -> &[u64] {
        self.threads.get(&object).map_or(&[], Vec::as_slice)
    }

    /// Whether a thread is held by its Ractor.
    pub fn holds(&self, thread: u64) -> bool {
        self.stacks.contains_key(&thread)
    }

    /// The number of a thread's stack.
    pub fn stack(&self, thread: u64) -> Option<usize> {
        self.stacks.get(&thread).copied().flatten()
    }

    /// Whether the stack of this number is that of a thread which holds what is on it.
    pub fn has_stack(&self, number: usize) -> bool {
        self.stacks.values().any(|stack| *stack == Some(number))
    }
}

/// Whether a thread has frames: it has started and not ended.
pub fn runs<M: Memory>(ruby: &Ruby<M>, thread: u64) -> bool {
    let context = ruby.context_of_object(thread);
    context.is_some_and(|ec| ruby.current_cfp(ec).is_ok_and(|frame| frame != 0))
}

/// Calls `each` with the objects of C types.
fn each_of_c_type<M: Memory>(ruby: &Ruby<M>, until: Instant, each: &mut dyn FnMut(u64)) {
    let pages = ruby.pages().into_iter().flatten().flatten();
    for page in pages.take_while(|_| Instant::now() < until) {
        let slots = ruby.slots(page).flatten();
        let of_c_type = slots.filter(|slot| Type::of(slot.flags) == Type::Data);
        of_c_type.for_each(|slot| each(slot.address));
    }
}
