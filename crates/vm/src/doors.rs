//! The doors into a VM: every function of a VM that lancet has a stopped thread call, wherever that thread stands. Used
//! by the crates `enter` and `inject`.
//!
//! A thread that is stopped anywhere may hold any lock of its program and of its VM. A function that takes such a lock would wait for
//! its own thread, for ever, or (Python since 3.13) give the VM's lock away in the middle of C code that relies on it. So each door names
//! the locks its function takes and how they are shown to be free, and nothing else is called at an arbitrary stop; all other work is done
//! at a safe point of the VM, to which one of these doors leads. Perl has no door: nothing of it is called, its heap is read
//! from a copy of the process (`dump::outside`), as that of a PHP is.

use crate::Language;

/// A function of a VM that may be called at an arbitrary stop. `inject::doors` is the only caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// Ruby: `rb_postponed_job_register_one` (`vm_trace.c`) is made for signal handlers: it stores into a table by atomic operations. To
    /// 3.2 it does so in two steps, between which no other thread may run jobs.
    RegisterJob,
    /// Ruby: its own handler of signals (`sighandler`, `signal.c`): atomic operations, and a `write` to the VM's pipe.
    SignalHandler,
    /// Ruby: `rb_thread_call_with_gvl` (`thread.c`), which C code may call in a blocking region: it waits for the VM's lock.
    CallWithLock,
    /// Python: `PyGILState_Check` reads the thread's own thread state.
    HasLock,
    /// Python: `Py_AddPendingCall` takes the lock of the queue of pending calls ([`python::Queue`](crate::python::Queue)). It was documented
    /// for threads without Python's lock, not for a thread that is interrupted within that function.
    AddPendingCall,
    /// Python: `PyGILState_Ensure`, which C code may call when it has given Python's lock away: it waits for that lock.
    TakeLock,
    /// PHP: `zend_mm_get_heap` (`zend_alloc.c`) returns a word; `zend_mm_get_custom_handlers` and `zend_mm_set_custom_handlers`, which are called
    /// with it, read and write words of the heap that are read where an allocation begins.
    GetHeap,
}

/// What a door's function needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// It takes no lock: it is always open.
    Nothing,
    /// It takes no lock, but other threads that run meanwhile could see half of what it writes: they stand still, in the versions that
    /// [`Door`] names.
    OthersStand,
    /// It takes these locks and may not wait for them: all threads stand still, and each lock is read as free.
    Free(&'static str),
    /// It waits for the VM's lock while all other threads run. The thread has been seen blocked in a system call without that lock, and
    /// not in a wait for a lock of the VM.
    Waits,
}

impl Door {
    /// All doors.
    pub const ALL: [Door; 7] = [
        Door::RegisterJob,
        Door::SignalHandler,
        Door::CallWithLock,
        Door::HasLock,
        Door::AddPendingCall,
        Door::TakeLock,
        Door::GetHeap,
    ];

    /// The function that it calls.
    pub const fn function(self) -> &'static str {
        match self {
            Door::RegisterJob => "rb_postponed_job_register_one",
            Door::SignalHandler => "the handler of signals",
            Door::CallWithLock => "rb_thread_call_with_gvl",
            Door::HasLock => "PyGILState_Check",
            Door::AddPendingCall => "Py_AddPendingCall",
            Door::TakeLock => "PyGILState_Ensure",
            Door::GetHeap => "zend_mm_get_heap",
        }
    }

    /// The language of its VM.
    pub const fn language(self) -> Language {
        match self {
            Door::RegisterJob | Door::SignalHandler | Door::CallWithLock => Language::Ruby,
            Door::HasLock | Door::AddPendingCall | Door::TakeLock => Language::Python,
            Door::GetHeap => Language::Php,
        }
    }

    /// What it needs to be open.
    pub const fn needs(self) -> Needs {
        match self {
            Door::SignalHandler | Door::HasLock | Door::GetHeap => Needs::Nothing,
            Door::RegisterJob => Needs::OthersStand,
            Door::AddPendingCall => Needs::Free("the lock of its queue of pending calls"),
            Door::CallWithLock | Door::TakeLock => Needs::Waits,
        }
    }
}
