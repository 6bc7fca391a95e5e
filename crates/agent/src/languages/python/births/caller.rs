//! Who calls an allocator: whether the running thread has the lock under which is counted.

use crate::calls::thread::thread_pointer;
use crate::languages::functions::at;
use crate::memory::direct::Direct;
use crate::memory::sys;
use vm::python::{Current, Python, Version};

/// From this version on an interpreter may have a lock of its own (PEP 684).
const OWN_LOCKS: Version = Version::new(3, 12, 0);

/// Who is counted. It is written once, before our functions are in the table for the first time, because threads with another lock read it;
/// for one process it is always the same.
pub struct Counted {
    pub reader: Option<Python<'static, Direct>>,
    /// The main interpreter, where others may have locks of their own; 0 = all share one.
    main: u64,
    /// The VM's function that returns the current thread state ([`vm::python::Facts::current`]).
    current: u64,
    /// Whether that state is read where the function reads it, without a call.
    is_read: bool,
}

static mut COUNTED: Counted = Counted {
    reader: None,
    main: 0,
    current: 0,
    is_read: false,
};

/// Who calls.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Caller {
    /// A thread with the lock under which is counted, and its state.
    Counted(Current),
    /// A thread in another interpreter, which may have a lock of its own.
    Elsewhere,
    /// A thread that does not have the lock.
    Unlocked,
}

/// Returns who the running thread is.
#[inline(always)]
pub fn caller() -> Caller {
    // SAFETY: it is written once, before our functions are in the table for the first time.
    let Counted {
        reader,
        main,
        current,
        is_read,
    } = unsafe { &*(&raw const COUNTED) };
    let Some(reader) = reader.as_ref() else {
        return Caller::Unlocked;
    };
    let id = thread_pointer();
    let current = match *is_read {
        true => reader.current(id).ok().flatten().unwrap_or(0),
        // SAFETY: the command has found this function of the VM by its name.
        false => unsafe { returned(*current) },
    };
    match reader.current_state(id, current, sys::is_readable) {
        Ok(Some(current)) if *main == 0 || reader.interpreter_of(current.state) == Ok(*main) => {
            Caller::Counted(current)
        }
        Ok(Some(_)) => Caller::Elsewhere,
        _ => Caller::Unlocked,
    }
}

/// What the VM's function says.
///
/// # Safety
/// It is that function, which takes no lock, allocates nothing and may be called by any thread.
unsafe fn returned(function: u64) -> u64 {
    // SAFETY: as the caller says.
    unsafe { at::<unsafe extern "C" fn() -> u64>(function)() }
}

/// Who is counted of this Python, whose lock the running thread has; `None` if threads do not find their states, or if the death of code is not that of a block.
pub fn who(reader: Python<'static, Direct>) -> Option<Counted> {
    let facts = reader.facts();
    let current = facts.current();
    if facts.own() == 0 || current == 0 || reader.is_code_collected().unwrap_or(true) {
        return None;
    }
    let main = match facts.version() < OWN_LOCKS {
        true => 0,
        false => reader.main_interpreter().ok()?,
    };
    let id = thread_pointer();
    // SAFETY: the command has found this function of the VM by its name.
    let returned = unsafe { returned(current) };
    // The kernel is asked before the first plain load: the place was found by looking at machine code.
    let is_read =
        reader.current_at(id).is_some_and(sys::is_readable) && reader.reads_current(id, returned);
    Some(Counted {
        reader: Some(reader),
        main,
        current,
        is_read,
    })
}

/// Notes who is counted, for good.
///
/// # Safety
/// The VM's lock is held. What is noted is for one process always the same.
pub unsafe fn note(counted: Counted) {
    // SAFETY: the VM's lock is held, and as long as there is no reader, our functions have never been in the table.
    unsafe {
        if (*(&raw const COUNTED)).reader.is_none() {
            (&raw mut COUNTED).write(counted);
        }
    }
}
