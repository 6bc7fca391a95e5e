//! Waits for a tracee in waitid(2) that end in time. Used by `ptrace`, `seize` and others here, and by the crates
//! `inject` and `calls`.
//!
//! The kernel hands the processor from a thread that stops to the one that waits for it there, without the delay that a sleep of a chosen
//! length has: on a virtual machine one of 50 µs takes 230 to 400. waitid(2) has no timeout, so a timer interrupts it again and again. It bounds
//! PTRACE_SEIZE likewise ([`super::seize()`]).

use super::request::unheard_of;
use crate::priority::is_first;
use std::cell::{Cell, OnceCell};
use std::marker::PhantomData;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// How often the timer comes, which ends a wait.
pub const EACH: Duration = Duration::from_millis(1);

/// How long a thread is checked without sleeping in between, because most stop within microseconds.
const EAGER: Duration = Duration::from_micros(150);
/// The same where we come before it in the line for a processor: it may be waiting for ours.
const EAGER_AND_FIRST: Duration = Duration::from_micros(20);
/// Time between two checks where the kernel gives no timer.
const LOOK: Duration = Duration::from_micros(50);

thread_local! {
    /// The timer of this thread, made when it is first wanted, and kept. Where the kernel gives none it is asked again: all processes of a user
    /// share that limit, so that a guest can reach it for a while.
    static TIMER: OnceCell<Timer> = const { OnceCell::new() };
    /// Whether the timer runs.
    static RUNS: Cell<bool> = const { Cell::new(false) };
    /// How many [`Bounded`] this thread has.
    static WAITS: Cell<u32> = const { Cell::new(0) };
}

/// While one of this thread lives, its waits are bounded by a timer that is set by the first of them and runs on between them, because to
/// set a timer costs as much as a stop where the processor is a virtual one. The timer interrupts any system call of this thread that
/// sleeps, so whoever has one makes only calls that allow that.
#[derive(Debug)]
pub struct Bounded(PhantomData<*const ()>);

impl Bounded {
    /// Before the first wait.
    pub fn begin() -> Self {
        WAITS.set(WAITS.get() + 1);
        Bounded(PhantomData)
    }

    /// Waits until the child or tracee has an event that was not taken yet, a signal comes, or a millisecond is over. The event stays pending.
    pub fn wait_for(&self, tid: i32) {
        match self.runs() {
            true => drop(unheard_of(libc::P_PID, tid as libc::id_t, 0)),
            false => std::thread::sleep(LOOK),
        }
    }

    /// Has the timer run. Returns false if there is none.
    pub fn runs(&self) -> bool {
        TIMER.with(|timer| {
            if timer.get().is_none()
                && let Some(made) = Timer::make()
            {
                let _ = timer.set(made);
            }
            let Some(timer) = timer.get() else {
                return false;
            };
            if !RUNS.replace(true) {
                timer.set(EACH);
            }
            true
        })
    }
}

impl Drop for Bounded {
    fn drop(&mut self) {
        let left = WAITS.get() - 1;
        WAITS.set(left);
        if left == 0 && RUNS.replace(false) {
            TIMER.with(|timer| {
                if let Some(timer) = timer.get() {
                    timer.set(Duration::ZERO);
                }
            });
        }
    }
}

/// The pauses between two looks at a thread that is to stop. The processor is never given up without a wait (`sched_yield`): on a busy
/// machine another program would have it for milliseconds, while whoever waits is woken at once.
#[derive(Debug)]
pub struct Looks {
    since: Instant,
    waits: Bounded,
}

impl Looks {
    /// Before the first look.
    pub fn begin() -> Self {
        Looks {
            since: Instant::now(),
            waits: Bounded::begin(),
        }
    }

    /// Pauses until the next look at this thread.
    pub fn pause(&self, tid: i32) {
        if self.since.elapsed() < eager() {
            std::hint::spin_loop();
        } else {
            self.waits.wait_for(tid);
        }
    }
}

/// How long it is worth while to look again and again, before a wait.
fn eager() -> Duration {
    static ALONE: OnceLock<bool> = OnceLock::new();
    if *ALONE.get_or_init(has_one_processor) {
        // The thread that is waited for has only this processor.
        Duration::ZERO
    } else if is_first() {
        EAGER_AND_FIRST
    } else {
        EAGER
    }
}

/// Whether this thread, and with that what it has started, may run on one processor only.
fn has_one_processor() -> bool {
    // SAFETY: all zeros is a valid `cpu_set_t`; the set is a live value of this frame, and its size is passed with it.
    unsafe {
        let mut allowed: libc::cpu_set_t = std::mem::zeroed();
        let size = size_of::<libc::cpu_set_t>();
        libc::sched_getaffinity(0, size, &raw mut allowed) == 0 && libc::CPU_COUNT(&allowed) == 1
    }
}

/// The instruction `syscall`.
const SYSTEM_CALL: [u8; 2] = [0x0f, 0x05];

/// Has PTRACE_SEIZE fail with EINTR if the signal has interrupted it, or has come just before it. To be called by a signal's handler.
///
/// # Safety
/// `context` is the third argument of a handler with `SA_SIGINFO`.
unsafe fn take_back(context: *mut libc::c_void) {
    // SAFETY: it is the kernel's `ucontext_t` of this signal, and nothing else has it while the handler runs.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let [number, first, next] = [libc::REG_RAX, libc::REG_RDI, libc::REG_RIP].map(|at| at as usize);
    let is_seize = registers[number] == libc::SYS_ptrace
        && registers[first] == libc::greg_t::from(libc::PTRACE_SEIZE);
    // SAFETY: the thread goes on at that address, so there is code of this program, which may be read.
    if is_seize && unsafe { (registers[next] as *const [u8; 2]).read_unaligned() } == SYSTEM_CALL {
        registers[next] += SYSTEM_CALL.len() as libc::greg_t;
        registers[number] = -libc::greg_t::from(libc::EINTR);
    }
}

/// A timer that interrupts system calls of one thread, and is deleted with it.
struct Timer(libc::timer_t);

impl Timer {
    fn make() -> Option<Self> {
        type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
        extern "C" fn interrupts(
            _: libc::c_int,
            _: *mut libc::siginfo_t,
            context: *mut libc::c_void,
        ) {
            // SAFETY: it is the third argument of a handler with SA_SIGINFO.
            unsafe { take_back(context) }
        }
        let handler: Handler = interrupts;
        // One that nobody sends, so that each that others send, as `timeout -s ALRM` does, has the effect that it had.
        let signal = libc::SIGRTMAX();
        // SAFETY: all structures are zeroed, for which zero is valid, and live through the calls. The handler looks at registers and
        // calls nothing, so it is async-signal-safe.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler as usize;
            action.sa_flags = libc::SA_SIGINFO;
            let mut alone = std::mem::zeroed();
            libc::sigemptyset(&raw mut alone);
            libc::sigaddset(&raw mut alone, signal);
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = signal;
            event.sigev_notify_thread_id = libc::gettid();
            let mut timer = std::mem::zeroed();
            let made = libc::sigaction(signal, &raw const action, std::ptr::null_mut()) == 0
                && libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const alone, std::ptr::null_mut())
                    == 0
                && libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) == 0;
            made.then_some(Timer(timer))
        }
    }

    /// Has it come after each such time; zero: never.
    fn set(&self, each: Duration) {
        let time = libc::timespec {
            tv_sec: each.as_secs() as i64,
            tv_nsec: i64::from(each.subsec_nanos()),
        };
        let when = libc::itimerspec {
            it_interval: time,
            it_value: time,
        };
        // SAFETY: the timer is this thread's own and lives as long as `self`; `when` is a live value of this frame.
        unsafe { libc::timer_settime(self.0, 0, &raw const when, std::ptr::null_mut()) };
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // SAFETY: the timer is this thread's own, and nobody uses it after this.
        unsafe { libc::timer_delete(self.0) };
    }
}
