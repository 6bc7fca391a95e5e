//! Who calls an allocator: whether the running thread has the lock under which is counted. Used by `counting` and
//! `allocator`.

use crate::calls::thread::thread_pointer;
use crate::languages::functions::at;
use crate::memory::direct::{Direct, Plain};
use crate::memory::sys;
use vm::python::{Current, Form, Python, Running, Version};

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
    /// What says most of the time who calls, and where it is. It says nothing where that state is not read.
    running: Running,
}

static mut COUNTED: Counted = Counted {
    reader: None,
    main: 0,
    current: 0,
    is_read: false,
    running: Running::NONE,
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
        ..
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

/// The form with whose number [`at_hand`] and [`innermost`] are to be called; it is one for all that the process lives, from the first [`note`] on.
pub fn form() -> Form {
    // SAFETY: `COUNTED` is written once, before our functions are in the table for the first time.
    unsafe { (*(&raw const COUNTED)).running.form() }
}

/// Returns the state of the running thread if it has the lock under which is counted, as far as some loads tell. `None`: [`caller`] says who
/// it is.
///
/// # Safety
/// `FORM` is the number of [`form`] or of none.
#[inline(always)]
pub unsafe fn at_hand<const FORM: u8>() -> Option<u64> {
    // SAFETY: `COUNTED` is written once, before our functions are in the table for the first time. What is read lies in the VM's runtime, in the
    // state that is the current one, and in what belongs to the running thread. That was read in one thread, with the lock (`running`), and is
    // there in all others by two facts of glibc: `specific[0]` of every thread is its own `specific_1stblock`, so the value lies in its
    // `struct pthread`; and a variable in static TLS has one distance from `%fs:0` in all threads.
    unsafe {
        let running = &(*(&raw const COUNTED)).running;
        running.state::<FORM>(&Plain::new(), thread_pointer())
    }
}

/// Returns what code and which instruction the innermost frame of the running thread has reached, complete or not
/// ([`Running::innermost`]).
///
/// # Safety
/// The running thread has the lock with this state, and `FORM` is the number of [`form`] or of none.
#[inline(always)]
pub unsafe fn innermost<const FORM: u8>(state: u64) -> Option<(u64, u64)> {
    // SAFETY: as in `at_hand`; the frames of a thread with the lock are its own.
    unsafe {
        let running = &(*(&raw const COUNTED)).running;
        running.innermost::<FORM>(&Plain::new(), state)
    }
}

/// The reader for [`at_hand`] and [`innermost`], if it says in this thread, which has the lock, what the others say.
fn running(reader: &Python<'static, Direct>, id: u64, state: u64) -> Option<Running> {
    let running = reader.running(id)?;
    let (read, innermost) = running.both(&Direct, id)?;
    let reached = reader.reached(state).ok()?;
    let is_same = reached
        .filter(|reached| reached.is_traceable)
        .map(|reached| (reached.point.code, u64::from(reached.point.lasti as u32)))
        .is_none_or(|point| innermost == Some(point));
    (is_same && read == state).then_some(running)
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
    let running = match is_read {
        true => running(&reader, id, returned).unwrap_or(Running::NONE),
        false => Running::NONE,
    };
    Some(Counted {
        reader: Some(reader),
        main,
        current,
        is_read,
        running,
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
