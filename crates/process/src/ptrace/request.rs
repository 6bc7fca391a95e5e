//! One ptrace request, and those that reading and writing memory uses. Used by `memory::by_calls`, `ptrace` and others
//! here, and by the crates `inject` and `calls`.

use nix::errno::Errno;

/// Makes a request about a thread of which this thread of ours is the tracer, or is to be.
pub(super) fn request(
    request: libc::c_uint,
    tid: i32,
    address: usize,
    data: usize,
) -> Result<i64, Errno> {
    // SAFETY: every request here passes either integers or addresses of live buffers with the length that the request needs; the kernel
    // checks that the thread is our tracee.
    let value = unsafe { libc::ptrace(request, tid, address, data) };
    if value == -1 {
        Err(Errno::last())
    } else {
        Ok(value)
    }
}

/// Writes a word of the memory of a stopped thread, whatever the protection of the page is; it may begin at any address.
pub(crate) fn poke(tid: i32, at: u64, word: u64) -> Result<(), Errno> {
    request(libc::PTRACE_POKEDATA, tid, at as usize, word as usize).map(drop)
}

/// Returns the message of the event that the thread is stopped at (a child's id, an exit status).
pub fn event_message(tid: i32) -> Result<u64, Errno> {
    let mut message: libc::c_ulong = 0;
    request(
        libc::PTRACE_GETEVENTMSG,
        tid,
        0,
        (&raw mut message) as usize,
    )?;
    Ok(message)
}

/// Returns what waitid(2) tells of a child or thread of ours with an event that was not taken yet, which stays pending. Without `WNOHANG` in
/// `how` it waits for one.
pub(super) fn unheard_of(
    whose: libc::idtype_t,
    id: libc::id_t,
    how: i32,
) -> Option<libc::siginfo_t> {
    let what = libc::WEXITED | libc::WNOWAIT | libc::__WALL | how;
    // SAFETY: the structure consists of integers, for which zero is valid, and zero is what the kernel leaves there if there is no event.
    unsafe {
        let mut told: libc::siginfo_t = std::mem::zeroed();
        let done = libc::waitid(whose, id, &raw mut told, what);
        (done == 0 && told.si_pid() != 0).then_some(told)
    }
}
