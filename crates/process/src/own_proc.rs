//! Provides a `/proc` of our own PID namespace. Used by the crates `inject` and `lancet`.
//!
//! A lancet that is started in a new PID namespace but with the `/proc` of the old one (`unshare -pf lancet …`) finds there, under each id
//! that it knows, another process than the one that it traces. [`ensure`] gives such a lancet a mount namespace of its own, with the right
//! `/proc` (mount_namespaces(7), proc(5)). The programs that it starts should see what they would see without it. So a thread that was
//! made before stays in the old mount namespace, which belongs to each thread, and forks them ([`fork`]).

use crate::error::{Error, Result};
use std::fs;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, OnceLock};

/// A request to the thread in the old mount namespace to fork.
struct Job {
    child: *mut dyn FnMut(),
    reply: Sender<io::Result<i32>>,
}

// SAFETY: `child` points to a closure that `fork` has borrowed. `fork` waits for the reply before it returns, and uses the closure in no
// other way meanwhile.
unsafe impl Send for Job {}

static BEHIND: OnceLock<Mutex<Sender<Job>>> = OnceLock::new();

/// Makes sure that `/proc` is of our PID namespace. It must be called before any other thread is made.
///
/// # Errors
/// It is not, and none could be mounted.
pub fn ensure() -> Result<()> {
    let own = std::process::id().to_string();
    match fs::read_link("/proc/self") {
        Ok(known) if known.as_os_str() != own.as_str() => {}
        // If there is no /proc at all, the code that needs it reports that.
        _ => return Ok(()),
    }
    let what = "mounting a /proc of lancet's own PID namespace, of which the one here is not,";
    let failed = |_| Error::system(what.to_owned(), io::Error::last_os_error());
    stay_behind();
    // SAFETY: the calls take integers and literals that end with a NUL, and write no memory of ours.
    unsafe {
        let null = std::ptr::null();
        done(libc::unshare(libc::CLONE_NEWNS)).map_err(failed)?;
        let slave = libc::MS_REC | libc::MS_SLAVE;
        done(libc::mount(null, c"/".as_ptr(), null, slave, null.cast())).map_err(failed)?;
        let (kind, place) = (c"proc".as_ptr(), c"/proc".as_ptr());
        let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
        done(libc::mount(kind, place, kind, flags, null.cast())).map_err(failed)
    }
}

fn done(result: i32) -> std::result::Result<(), ()> {
    if result == 0 { Ok(()) } else { Err(()) }
}

/// Makes the thread that stays in the present mount namespace. It receives no signals.
fn stay_behind() {
    let (ask, asked) = channel();
    // SAFETY: both sets are live values of this frame.
    unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        std::thread::spawn(move || serve(&asked));
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
    }
    // An error is impossible, because this is called once.
    let _ = BEHIND.set(Mutex::new(ask));
}

fn serve(asked: &Receiver<Job>) {
    for job in asked {
        // SAFETY: `fork` waits for the reply, so what `child` points to lives; its caller has promised async-signal-safe calls.
        let forked = unsafe { fork_here(&mut *job.child) };
        // The sender waits for the reply.
        let _ = job.reply.send(forked);
    }
}

/// Forks as fork(2) does; `child` runs in the child, which ends with it. Returns the child's id. It is in the mount namespace in which
/// we were started.
///
/// # Errors
/// The kernel could make no process, or the thread that forks for us has ended.
///
/// # Safety
/// `child` makes async-signal-safe calls alone (signal-safety(7)): lancet has other threads, and a lock that one of them holds at the
/// fork is never given back in the child.
pub unsafe fn fork(child: &mut dyn FnMut()) -> io::Result<i32> {
    let Some(behind) = BEHIND.get() else {
        // SAFETY: `child` makes async-signal-safe calls alone, as the caller has promised.
        return unsafe { fork_here(child) };
    };
    let (reply, answer) = channel();
    // SAFETY: only the lifetime changes. The closure is used until the reply at the latest, and this function waits for the reply or for
    // the end of the thread that would send it.
    let child: *mut dyn FnMut() = unsafe { std::mem::transmute(std::ptr::from_mut(child)) };
    let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
    let sent = behind
        .lock()
        .map(|behind| behind.send(Job { child, reply }));
    if !matches!(sent, Ok(Ok(()))) {
        return Err(gone(()));
    }
    answer.recv().map_err(|_| gone(()))?
}

/// # Safety
/// `child` must make only async-signal-safe calls.
unsafe fn fork_here(child: &mut dyn FnMut()) -> io::Result<i32> {
    // SAFETY: the child makes async-signal-safe calls alone, as the caller has promised, and then ends.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            child();
            // SAFETY: the call takes an integer and does not return.
            unsafe { libc::_exit(127) }
        }
        pid => Ok(pid),
    }
}
