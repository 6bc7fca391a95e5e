//! What a thread holds and what it waits for: `rb_thread_t` (`vm_core.h`), `rb_mutex_t` (`thread_sync.c`) and the VM's
//! lock (`thread_pthread.h`). Used by `thread`, and by `languages::ruby::frames`.
//!
//! ```text
//!   rb_thread_t                                            Mutex object ─▶ rb_mutex_t │ fiber (2.7: thread) │ next │ waiting │ …
//!   │ … │ blocking_region_buffer │ … │ locking_mutex │ keeping_mutexes │ join_list │
//!                                          │               │                 └▶ │ next │ thread that waits for this one │
//!                                          │               └▶ rb_mutex_t ─▶ next rb_mutex_t that it holds
//!                                          └▶ the Mutex that it waits for; 0 if it waits for none
//!
//!   the VM's lock, one for each Ractor (2.7: in the VM): │ owner │ … │ queue │
//!                                                                      └▶ links within those threads that wait for it
//! ```
//!
//! The first two fields lie behind `blocking_region_buffer` at the same distance from v2_7_4 to v4.0.5. Everything here is
//! a list that its threads change while they run: every walk is bounded, and who draws a conclusion from it must know
//! that the threads it is about sleep.

use core::fmt::Write;

use super::function::OWNER;
use super::object::{Imemo, Type, is_object};
use super::{Error, Ruby, Text};
use crate::{Fault, Memory};

/// From `blocking_region_buffer` to `locking_mutex` and `keeping_mutexes` in `rb_thread_t`.
const LOCKING: u64 = 96;
const KEEPING: u64 = 104;
/// From `vm` back to `ractor` in `rb_thread_t`, since 3.0.
pub(super) const RACTOR_BEFORE_VM: u64 = 8;
/// Offsets at which `next_mutex` may be in `rb_mutex_t`: `thread_sync.c`. It is the next one that the same thread holds. 4.0 has
/// another word before it, and so have 3.3 from 3.3.10 and 3.4 from 3.4.7 on.
const NEXT_MUTEX: [u64; 2] = [8, 16];
/// `next` and `thread` in `struct rb_waiting_list` (2.7: `rb_thread_list_t`).
const NEXT_WAITER: u64 = 0;
const WAITER: u64 = 8;
/// `prev` in `struct list_node` (`ccan/list/list.h`), behind `next`.
const PREVIOUS: u64 = 8;

/// `called_id` in `rb_method_entry_t` (`method.h`).
const CALLED_ID: u64 = 24;

/// Mutexes that a thread holds, and threads that wait for one, at most.
const MOST: usize = 1 << 12;
/// Threads that wait for the VM's lock, at most.
const MOST_WAITING: usize = 1 << 16;
/// Bytes of a method's name that are written.
const LONGEST_NAME: u64 = 1 << 10;

/// Whether a thread has the VM's lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It has the lock, or is the next to have it and wakes up for that.
    Has,
    /// It waits for the lock.
    Waits,
    /// It does without, in a system call or in C code that needs no objects.
    Without,
}

impl<M: Memory> Ruby<'_, M> {
    /// Returns the `rb_thread_t` that an execution context belongs to.
    pub fn thread_of(&self, ec: u64) -> Result<u64, Fault> {
        self.memory.u64(ec.wrapping_add(self.layout.ec_thread))
    }

    /// Returns the name that the program gave a thread (`Thread#name=`).
    pub fn thread_name(&self, thread: u64) -> Result<Option<Text>, Error> {
        let name = self
            .memory
            .u64(thread.wrapping_add(self.layout.thread_name))?;
        Ok(match self.type_of(name)? {
            Type::String => Some(self.text(name)?),
            _ => None,
        })
    }

    /// Returns the `rb_mutex_t` of the Mutex that a thread waits for.
    pub fn wanted_mutex(&self, thread: u64) -> Result<Option<u64>, Error> {
        let mutex = self.memory.u64(self.behind_region(thread, LOCKING))?;
        if !is_object(mutex) || self.type_of(mutex)? != Type::Data {
            return Ok(None);
        }
        Ok(Some(self.structure(mutex)?))
    }

    /// Returns the `rb_mutex_t` of each Mutex that a thread holds.
    pub fn held_mutexes(&self, thread: u64) -> impl Iterator<Item = u64> {
        let first = self.memory.u64(self.behind_region(thread, KEEPING));
        let first = first.ok().filter(|at| *at != 0);
        core::iter::successors(first, |mutex| self.next_mutex(*mutex)).take(MOST)
    }

    /// Returns the next Mutex that the same thread holds. Behind `next_mutex` the threads that wait for a Mutex are listed, by which its place
    /// is recognised.
    fn next_mutex(&self, mutex: u64) -> Option<u64> {
        let word = |at: u64| self.memory.u64(at).ok();
        let at = NEXT_MUTEX.into_iter().find(|at| {
            let waiting = mutex.wrapping_add(at + 8);
            word(waiting).and_then(|first| word(first.wrapping_add(PREVIOUS))) == Some(waiting)
        })?;
        word(mutex.wrapping_add(at)).filter(|next| *next != 0)
    }

    /// Returns the threads that wait for this one to end (`Thread#join`, `#value`).
    pub fn joining(&self, thread: u64) -> impl Iterator<Item = u64> {
        let list = thread.wrapping_add(self.layout.thread_joins);
        let first = self.memory.u64(list);
        self.list(first)
            .map_while(|waiter| self.memory.u64(waiter.wrapping_add(WAITER)).ok())
    }

    /// Returns whether a thread has the VM's lock; `None` where that is not known: for Ruby 3.0 and 3.2, and while the
    /// queue changes.
    pub fn turn(&self, thread: u64) -> Option<Turn> {
        let word = |at: u64| self.memory.u64(at).ok();
        let lock = self.layout.lock.as_ref()?;
        let vm = thread.wrapping_add(self.layout.thread_vm);
        let holder = if self.facts.version().has_ractors() {
            word(vm.wrapping_sub(RACTOR_BEFORE_VM))?
        } else {
            word(vm)?
        };
        let head = holder.wrapping_add(lock.queue);
        let mut link = word(head)?;
        if word(link.wrapping_add(PREVIOUS))? != head {
            return None;
        }
        if word(holder.wrapping_add(lock.owner))? == thread {
            return Some(Turn::Has);
        }
        for _ in 0..MOST_WAITING {
            if link == head {
                return Some(Turn::Without);
            }
            if link == thread.wrapping_add(lock.link) {
                return Some(Turn::Waits);
            }
            link = word(link)?;
        }
        None
    }

    /// Writes the method that a frame runs, with its class, as 3.4 shows it: `Worker#run`, `Worker.start`, and `run`
    /// for a class without a name. Returns whether there is one: the frame of a file or of a class body has none.
    pub fn write_method(&self, cfp: u64, out: &mut dyn Write) -> Result<bool, Error> {
        let Some(entry) = self.method_entry(cfp)? else {
            return Ok(false);
        };
        let id = self.memory.u64(entry.wrapping_add(CALLED_ID))?;
        let Some(name) = self.id_text(id)? else {
            return Ok(false);
        };
        let owner = self.memory.u64(entry.wrapping_add(OWNER))?;
        self.write_owner(owner, out)?;
        self.write_text(name, LONGEST_NAME, out)?;
        Ok(true)
    }

    /// Writes the class that has a method, and what stands between them; nothing for a class without a name.
    fn write_owner(&self, owner: u64, out: &mut dyn Write) -> Result<(), Error> {
        let flags = self.flags(owner)?;
        let (class, between) =
            if Type::of(flags) == Type::Class && flags & self.layout.class.singleton != 0 {
                (self.attached(owner)?, ".")
            } else {
                (owner, "#")
            };
        if self.is_module(class)
            && let Some(path) = self.class_path(class)?
        {
            self.write_text(self.text(path)?, LONGEST_NAME, out)?;
            out.write_str(between)?;
        }
        Ok(())
    }

    fn behind_region(&self, thread: u64, distance: u64) -> u64 {
        thread
            .wrapping_add(self.layout.thread_region)
            .wrapping_add(distance)
    }

    /// Returns the elements of a list that ends with 0.
    fn list(&self, first: Result<u64, Fault>) -> impl Iterator<Item = u64> {
        let first = first.ok().filter(|at| *at != 0);
        core::iter::successors(first, move |at| {
            let next = self.memory.u64(at.wrapping_add(NEXT_WAITER)).ok()?;
            (next != 0).then_some(next)
        })
        .take(MOST)
    }
}

impl<M: Memory> Ruby<'_, M> {
    /// Returns whether an object is the entry of a method, `rb_method_entry_t`.
    pub(super) fn is_method_entry(&self, object: u64) -> Result<bool, Fault> {
        self.is_imemo(object, Imemo::Ment)
    }

    /// Returns whether an object holds the special variables of a method, `struct vm_svar`.
    pub(super) fn is_special_variables(&self, object: u64) -> Result<bool, Fault> {
        self.is_imemo(object, Imemo::Svar)
    }

    fn is_imemo(&self, object: u64, kind: Imemo) -> Result<bool, Fault> {
        if !is_object(object) {
            return Ok(false);
        }
        let flags = self.flags(object)?;
        Ok(Type::of(flags) == Type::Imemo && self.imemo(flags) == kind)
    }
}
