//! The SIGSEGV handler: is the fault an overflow of one of our stacks? Then say so; then, in any
//! case, what would have happened without us.

use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use core::fmt::Write;
use core::mem::MaybeUninit;
use core::ptr;

use super::frames::{self, Frames};
use super::symbols;
use super::text::{Grouped, Text};
use crate::arch::Mark;
use crate::pool::{self, Slot, high_water_mark};

/// The disposition our handler replaced. Written before the handler is in force, read by it.
pub struct Previous(pub UnsafeCell<MaybeUninit<libc::sigaction>>);

// SAFETY: written under the lock of `install` while no handler of ours is in force.
unsafe impl Sync for Previous {}

/// The disposition that [`on_fault`] goes on with.
pub static PREVIOUS: Previous = Previous(UnsafeCell::new(MaybeUninit::uninit()));

/// How far above the end of its stack `rsp` can be when an access through it misses the stack: the
/// red zone, and a little for a push.
const REACH: usize = 256;

/// The largest frame that is looked for when it has left its stack: further down lie other threads' stacks.
const FARTHEST: usize = 16 << 20;

/// A fault that is an overflow of one of our stacks.
struct Overflow {
    slot: Slot,
    address: usize,
    frames: Frames,
    /// The frame at fault has jumped the guard: the lowest address that it reaches.
    jumped: Option<usize>,
}

/// The handler of SIGSEGV: reports an overflow, and does what would have been done without it.
pub extern "C" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a valid siginfo and, with SA_SIGINFO, a ucontext.
    let (code, address, rip, rsp) = unsafe {
        let registers = &(*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
        (
            (*info).si_code,
            (*info).si_addr() as usize,
            registers[libc::REG_RIP as usize] as usize,
            registers[libc::REG_RSP as usize] as usize,
        )
    };
    // Positive codes are the kernel's own; a signal that somebody sent has no fault address.
    if code > 0
        && let Some(overflow) = classify(address, rip, rsp)
    {
        let mut text = Text::new();
        overflow.describe(&mut text);
        let block = text.as_bytes();
        // SAFETY: write(2) is async-signal-safe. Nothing can be done if it fails.
        unsafe { libc::write(2, block.as_ptr().cast(), block.len()) };
    }
    go_on(signal, code, info, context);
}

/// Whether a fault is an overflow of one of our stacks. Takes no lock.
///
/// The address must be in a guard, and `rsp` must have come to the end of *that* stack: a stray
/// pointer into some guard is no overflow. If `rsp` is already below the guard (one frame larger
/// than the guard, without stack probes), unwinding must show that this frame starts on the stack.
fn classify(address: usize, rip: usize, rsp: usize) -> Option<Overflow> {
    in_guard(address, rip, rsp).or_else(|| jumped(address, rip, rsp))
}

/// The fault of a frame that is larger than the guard and the stack together: it may lie in the guard or on the stack of another
/// fiber, or below all of them. The frame itself tells whose it is: it ends on the stack of the fiber that runs.
fn jumped(address: usize, rip: usize, rsp: usize) -> Option<Overflow> {
    // Most faults have nothing to do with a stack: they are not worth a walk.
    let through_rsp = (rsp.saturating_sub(REACH)..rsp.saturating_add(FARTHEST)).contains(&address);
    if !through_rsp || !pool::is_near_above(rsp, FARTHEST) {
        return None;
    }
    let (slot, start, end) = frames::owner(rip)?;
    let left = rsp < slot.limit && start < slot.limit;
    let within = (start.saturating_sub(REACH)..end).contains(&address);
    if !left || !within || address >= slot.limit {
        return None;
    }
    // SAFETY: the slot is entered, so its slab is mapped, and its top is writable memory.
    if unsafe { (*Mark::at(slot.top)).magic } != Mark::MAGIC {
        return None;
    }
    Some(Overflow {
        slot,
        address,
        frames: frames::walk(rip, slot),
        jumped: Some(start.min(rsp)),
    })
}

fn in_guard(address: usize, rip: usize, rsp: usize) -> Option<Overflow> {
    let slot = pool::find(address)?;
    if address >= slot.limit || rsp >= slot.limit + REACH {
        return None;
    }
    // SAFETY: the slot is entered, so its slab is mapped, and its top is writable memory.
    if unsafe { (*Mark::at(slot.top)).magic } != Mark::MAGIC {
        return None;
    }
    let frames = frames::walk(rip, slot);
    (rsp >= slot.guard || frames.at_fault.is_some()).then_some(Overflow {
        slot,
        address,
        frames,
        jumped: None,
    })
}

impl Overflow {
    fn describe(&self, text: &mut Text) {
        let Slot { guard, limit, top } = self.slot;
        let size = top - limit;
        // SAFETY: `classify` found the mark of a live coroutine here, and this thread is on it.
        let base = unsafe { &*(*Mark::at(top)).base };
        // SAFETY: a plain system call.
        let thread = unsafe { libc::gettid() };
        let _ = write!(text, "lancet-switch: stack overflow in fiber {}", base.id);
        if base.name_len > 0 {
            let _ = write!(text, " \"");
            text.push_foreign(&base.name[..usize::from(base.name_len)]);
            let _ = write!(text, "\"");
        }
        let _ = write!(
            text,
            ", thread {thread}\n  stack     {} bytes at {limit:#x}-{top:#x}, guard {} bytes; the fault is {} bytes below the stack\n  used      {} bytes at most (high-water mark)\n",
            Grouped(size),
            Grouped(limit - guard),
            Grouped(limit - self.address),
            Grouped(high_water_mark(limit..top)),
        );
        if let Some(frame) = self.frames.at_fault {
            let _ = write!(text, "  at fault  ");
            symbols::describe(frame.ip, text);
            let _ = writeln!(text, ": frame of {} bytes", Grouped(frame.size));
            let largest = self.frames.largest;
            let _ = write!(text, "  largest   ");
            // A return address may be the first of the next function: look one byte before.
            symbols::describe(largest.ip - usize::from(largest.depth > 0), text);
            let _ = writeln!(
                text,
                ": frame of {} bytes, {} frames up of {}",
                Grouped(largest.size),
                Grouped(largest.depth),
                Grouped(self.frames.count),
            );
        }
        if let Some(lowest) = self.jumped {
            let _ = writeln!(
                text,
                "  jumped    that frame reaches {} bytes below the stack, past the guard: what other fibers have there may be overwritten; compile with -fstack-clash-protection",
                Grouped(limit - lowest),
            );
        }
        let enough = (size + self.frames.largest.size).next_power_of_two() >> 10;
        let _ = writeln!(
            text,
            "  lever     a larger stack: Builder::stack_size, stack_size of lancet_options, or LANCET_STACK_SIZE={}k (now {}k)",
            enough.max(size >> 9),
            size >> 10,
        );
    }
}

/// Does what the previous disposition would have done.
fn go_on(signal: c_int, code: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: this handler runs, so `install` has written the previous disposition.
    let previous = unsafe { (*PREVIOUS.0.get()).assume_init_ref() };
    match previous.sa_sigaction {
        // A fault that is ignored ends the process all the same; a sent signal does not.
        libc::SIG_IGN if code <= 0 => {}
        libc::SIG_DFL | libc::SIG_IGN => {
            // SAFETY: back to the default; the fault happens again on return, and a signal that
            // was sent is sent again to this thread, to arrive when the handler returns.
            unsafe {
                let mut default: libc::sigaction = core::mem::zeroed();
                default.sa_sigaction = libc::SIG_DFL;
                libc::sigaction(signal, &default, ptr::null_mut());
                if code <= 0 {
                    libc::raise(signal);
                }
            }
        }
        handler if previous.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: SA_SIGINFO says that the handler has this type.
            let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
                unsafe { core::mem::transmute(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: without SA_SIGINFO the handler has this type.
            let handler: extern "C" fn(c_int) = unsafe { core::mem::transmute(handler) };
            handler(signal);
        }
    }
}
