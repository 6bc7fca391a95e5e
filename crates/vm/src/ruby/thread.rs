//! Where the VM and its threads are: `rb_vm_t`, `rb_thread_t` (`vm_core.h`). Used by `fiber`, `script` and `locals`.
//!
//! Up to 3.2 libruby exports `ruby_current_vm_ptr`. Later ones do not, but a Thread object leads to
//! its `rb_thread_t` and that to the VM, and so does any execution context.

use super::locks::RACTOR_BEFORE_VM;
use super::object::{KLASS, Type};
use super::{Error, IdTable, Reference, Ruby, StTable};
use crate::{Fault, Memory};

/// `self` in `rb_thread_t`: the Thread object.
pub(super) const THREAD_SELF: u64 = 16;

/// `tid` in `struct rb_native_thread` (`thread_pthread.h`), behind `serial`, `vm` and `thread_id`.
const NATIVE_ID: u64 = 24;

/// More threads than any process has.
const MOST_THREADS: usize = 1 << 16;

/// `ractor.cnt` in `rb_vm_t`, an `unsigned int`.
const RACTOR_COUNT: u64 = 24;

/// More Ractors than any process has.
const MOST_RACTORS: u32 = 1 << 20;

/// How often the heap is walked for a Thread object. Where pages are given back meanwhile the list of them moves on, and the walk
/// passes one over.
const WALKS: u32 = 4;

/// The name of the C type of Thread objects (`thread_data_type`, `vm.c`).
const OF_THREADS: &[u8] = b"VM/thread";

impl<M: Memory> Ruby<'_, M> {
    /// Returns the `rb_vm_t`: the exported pointer, or the one that a Thread object in the heap leads to.
    pub fn vm(&self) -> Result<u64, Error> {
        if self.facts.vm() != 0 {
            return Ok(self.facts.vm());
        }
        for _ in 0..WALKS {
            if let Some(vm) = self.vm_of_a_thread()? {
                return Ok(vm);
            }
        }
        Err(Error::garbled(
            "Thread object in the heap",
            self.facts.thread(),
        ))
    }

    /// Returns the `rb_vm_t` that the first Thread object in the heap leads to.
    fn vm_of_a_thread(&self) -> Result<Option<u64>, Error> {
        for page in self.pages()?.flatten() {
            for slot in self.slots(page).map_while(Result::ok) {
                if Type::of(slot.flags) == Type::Data && slot.klass == self.facts.thread() {
                    let thread = self.structure(slot.address)?;
                    if self.memory.u64(thread.wrapping_add(THREAD_SELF)) == Ok(slot.address) {
                        let vm = thread.wrapping_add(self.layout.thread_vm);
                        return Ok(Some(self.memory.u64(vm)?));
                    }
                }
            }
        }
        Ok(None)
    }

    /// Returns the `rb_ractor_t` that the thread of a Thread object belongs to; `None` if the object is no Thread, and where there are no Ractors.
    pub fn ractor_of_thread(&self, object: u64) -> Result<Option<u64>, Error> {
        if !self.facts.version().has_ractors() || self.thread_ec(object)?.is_none() {
            return Ok(None);
        }
        let vm = self.structure(object)?.wrapping_add(self.layout.thread_vm);
        let ractor = self.memory.u64(vm.wrapping_sub(RACTOR_BEFORE_VM))?;
        Ok(Some(ractor).filter(|ractor| *ractor != 0))
    }

    /// Returns how many Ractors there are; 1 where there can be no others.
    pub fn ractor_count(&self, vm: u64) -> Result<u32, Error> {
        if !self.facts.version().has_ractors() {
            return Ok(1);
        }
        match self.memory.u32(vm.wrapping_add(RACTOR_COUNT))? {
            count @ 1..=MOST_RACTORS => Ok(count),
            _ => Err(Error::garbled("VM", vm)),
        }
    }

    /// Returns the `rb_blocking_region_buffer` of the main thread: not 0 while it has given up the VM's lock to block
    /// in a system call or in C code of its own (`blocking_region_begin`, `thread.c`). It lies on that thread's stack.
    pub fn main_region(&self, vm: u64) -> Result<u64, Fault> {
        let thread = self.main_thread(vm)?;
        self.memory
            .u64(thread.wrapping_add(self.layout.thread_region))
    }

    /// Returns the main thread's `rb_thread_t`.
    pub fn main_thread(&self, vm: u64) -> Result<u64, Fault> {
        self.memory.u64(vm.wrapping_add(self.layout.vm_main_thread))
    }

    /// Returns the execution context of the main thread's running fiber.
    pub fn main_ec(&self, vm: u64) -> Result<u64, Fault> {
        self.running_ec(self.main_thread(vm)?)
    }

    /// Returns the execution context of the running fiber of an `rb_thread_t`.
    #[inline]
    pub fn running_ec(&self, thread: u64) -> Result<u64, Fault> {
        self.memory.u64(thread.wrapping_add(self.layout.thread_ec))
    }

    /// Returns the execution context of the running fiber of what may be an `rb_thread_t` of this VM: it is one if it
    /// points to the VM, and its context back to it.
    pub fn ec_if_thread(&self, vm: u64, thread: u64) -> Option<u64> {
        let word = |at: u64| self.memory.u64(at).ok();
        if word(thread.wrapping_add(self.layout.thread_vm))? != vm {
            return None;
        }
        let ec = word(thread.wrapping_add(self.layout.thread_ec))?;
        (word(ec.wrapping_add(self.layout.ec_thread))? == thread).then_some(ec)
    }

    /// Returns the size of the VM stack that `rb_obj_memsize_of` adds to a Thread object (`thread_memsize`, `vm.c`, 2.7 to 4.0): room of a
    /// mebibyte, of which a thread uses some kilobytes. `None` for other objects, and for what cannot be read.
    pub fn stack_of_thread(&self, object: u64) -> Option<u64> {
        let (_, name) = self.data_type(object).ok()??;
        let mut text = [0; OF_THREADS.len() + 1];
        let length = self.copy_c_text(name, &mut text).ok()?;
        if &text[..length] != OF_THREADS {
            return None;
        }
        let ec = self.ec_if_thread(self.vm().ok()?, self.structure(object).ok()?)?;
        self.vm_stack_bytes(ec).ok()
    }

    /// Returns the id by which the kernel thread knows itself that runs this `rb_thread_t`; `Some(0)` if none does now, `None` if each thread
    /// has its own, and the VM does not say which.
    pub fn kernel_thread(&self, thread: u64) -> Option<i32> {
        let at = thread.wrapping_add(self.layout.thread_native?);
        let id = |native: u64| self.memory.u32(native.wrapping_add(NATIVE_ID)).ok();
        match self.memory.u64(at).ok()? {
            0 => Some(0),
            native => id(native).map(u32::cast_signed),
        }
    }

    /// Calls `each` with the `rb_thread_t` of every thread of the Ractor that this one belongs to (`lt_node`, their first field, leads from
    /// one to the next and through the Ractor's list).
    pub fn threads_beside(&self, vm: u64, thread: u64, each: &mut dyn FnMut(u64)) {
        let mut at = thread;
        for _ in 0..MOST_THREADS {
            if self.ec_if_thread(vm, at).is_some() {
                each(at);
            }
            match self.memory.u64(at) {
                Ok(next) if next != thread => at = next,
                _ => return,
            }
        }
    }

    /// Returns the execution context of a Thread object's running fiber, or `None` if the object is no Thread.
    pub fn thread_ec(&self, object: u64) -> Result<Option<u64>, Error> {
        if Type::of(self.flags(object)?) != Type::Data
            || self.real_class(self.memory.u64(object.wrapping_add(KLASS))?)?
                != Some(self.facts.thread())
        {
            return Ok(None);
        }
        let thread = self.structure(object)?;
        if self.memory.u64(thread.wrapping_add(THREAD_SELF))? != object {
            return Ok(None);
        }
        Ok(Some(
            self.memory
                .u64(thread.wrapping_add(self.layout.thread_ec))?,
        ))
    }

    /// Calls `each` with the values that a thread has under a name (`Thread#[]=`, of the fiber that it runs), as
    /// [`Reference::ThreadLocal`]. In 2.7 the table of them is an `st_table` of IDs.
    pub fn thread_locals(
        &self,
        object: u64,
        each: &mut dyn FnMut(u64, Reference),
    ) -> Result<(), Error> {
        let thread = self.structure(object)?;
        let ec = self.running_ec(thread)?;
        let storage = ec.wrapping_add(self.layout.ec_storage);
        let storage = self.memory.u64(storage)?;
        if self.layout.version < (3, 0) {
            for entry in StTable::new(self.memory, storage)? {
                let (id, value) = entry?;
                each(value, Reference::ThreadLocal(self.serial(id)));
            }
            return Ok(());
        }
        for item in IdTable::new(self.memory, storage)? {
            let (serial, value) = item?;
            each(value, Reference::ThreadLocal(serial));
        }
        Ok(())
    }
}
