//! Makes pointers of numbers. No other module of the agent does, so whoever follows an address says here which kind of
//! memory it is, and thereby why the access cannot fault. Used by `calls::ring`, `calls::system_calls`,
//! `calls::system_calls::inject` and others.
//!
//! That an address could be read a moment ago is no reason: another thread unmaps, protects or truncates what was
//! there between the question and the access, and the guest dies of SIGSEGV or SIGBUS in our code. Threads that are
//! detached and end soon, whose C library unmaps their stacks, are enough.
//!
//! | kind | what lies there | why it cannot fault |
//! |---|---|---|
//! | [`ours`] | mappings that the agent or the command made for the agent: rings, tables, books, programs, hooks | nobody else knows of them; the agent gives none back but under the lock of its books, or in a child of fork, which has one thread; the command only while all threads stand still outside of hooks |
//! | [`own_stack`] | the stack that this thread runs on, from its live frames upward | the thread needs it itself in order to return, and would die of its loss without us |
//! | [`kept`] | what the VM, the loader or the C library keeps for what this thread does now: the frames that it runs, the object whose birth it reports, its own block, the loader's record | the frames and the block are this thread's own, and it needs them itself; births come with the VM's lock; the loader's record is never unmapped |
//! | [`Copied`](super::copied::Copied) | everything else: what an argument, a result, a field or a list points to | it is not followed: the kernel copies it, and answers EFAULT |
//!
//! The test `house::dereferences` holds that no other module makes a pointer of a number. Functions of the guest that
//! are called by their address are not read; the modules that call them are listed in the same test.

/// A pointer to memory that the agent or the command has mapped for the agent.
#[inline(always)]
pub const fn ours<T>(at: u64) -> *mut T {
    at as *mut T
}

/// A pointer to the stack that the running thread stands on, at or above its live frames.
#[inline(always)]
pub const fn own_stack<T>(at: u64) -> *mut T {
    at as *mut T
}

/// A pointer to what the VM, the loader or the C library keeps alive for what this thread does at this moment.
#[inline(always)]
pub const fn kept<T>(at: u64) -> *const T {
    at as *const T
}
