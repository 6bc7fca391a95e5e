//! Finds a stack on which a remote call can run. Used by `remote_call`.
//!
//! A thread does not know the bounds of its stack, and the mapping around its stack pointer may hold much more than the stack. The
//! stacks of goroutines (2 KiB and more, side by side in the Go heap), of coroutines that were made with `malloc`, and alternate
//! signal stacks have other data right below them, which a return frame of 3 KiB would overwrite. So only these are used:
//!
//! 1. `[stack]`, by the main thread if its stack pointer lies in it.
//! 2. A mapping with the thread's own control block above the stack pointer: the C library maps a thread's stack and block
//!    in one piece (glibc `nptl/allocatestack.c`, musl `src/thread/pthread_create.c`).
//! 3. The unused end of `[stack]`, if the main thread stands elsewhere: bytes that were never written since the program
//!    began (the kernel maps 128 KiB below its arguments, `fs/exec.c`, `setup_arg_pages`), or only by a killed lancet.
//! 4. A mapping with an inaccessible one right below it, as VMs map the stacks of their fibers.
//!
//! The main thread's stack is mapped as far as it was ever used, so if it is deeper than ever before there is no room below its stack
//! pointer. Then the kernel is made to extend it, as the next deeper call of the program itself would ([`grown`]).
//!
//! A function that scans the stack of its own thread, as Ruby's collector does, must not run on the unused end of another stack:
//! callers of such functions check [`Room::own`].

use super::return_frame::{UCONTEXT_SIZE, is_ucontext};
use process::maps::{Mapping, Maps, PAGE};
use process::memory::GuestMemory;
use process::pagemap::{self, Pagemap};
use process::ptrace::Registers;

/// Number of return frames that may lie side by side at the end of `[stack]`, because as many lancets have been killed.
const TRIED: u64 = 4;

/// Bytes below the stack pointer that a leaf function may use (System V ABI, x86-64 supplement, section 3.2.2).
pub(crate) const RED_ZONE: u64 = 128;
/// Bytes of stack for the called code; the agent's and the VM's signal-safe functions need much less.
const CALL_ROOM: u64 = 8 * 1024;
/// Upper bound of the bytes that a call needs besides the extended state, alignment included.
const LARGEST_REST: u64 = CALL_ROOM + 1024;

/// Addresses of the two parts of a return frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Positions {
    /// Address of the XSAVE area, a multiple of 64.
    pub area: u64,
    /// Address of the `struct ucontext`, below the area, a multiple of 16.
    pub frame: u64,
}

impl Positions {
    /// Returns the highest position below an address for a return frame with `state` bytes of extended state: the area is aligned to
    /// 64 bytes and followed by the four bytes of its second mark, the context is aligned to 16.
    pub fn below(below: u64, state: u64) -> Self {
        let area = below.saturating_sub(state + 4) & !63;
        let frame = area.saturating_sub(UCONTEXT_SIZE as u64) & !15;
        Positions { area, frame }
    }

    /// Returns the lowest address that the return frame, the return address below it and the called code use.
    pub fn lowest(self) -> u64 {
        self.frame.saturating_sub(8 + CALL_ROOM)
    }
}

/// The memory in which a remote call's return frame is placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Room {
    /// One past the highest byte that may be written.
    pub below: u64,
    /// The lowest byte that may be written.
    pub low: u64,
    /// Whether it is part of the stack that the thread stands on.
    pub own: bool,
}

/// Finds where the thread `tid`, which has these registers and `state` bytes of extended state, may put a return frame and run a call.
/// `None` if no place is proven to be free.
pub(super) fn find(
    tid: i32,
    registers: &Registers,
    state: u64,
    memory: &GuestMemory,
    maps: &Maps,
) -> Option<Room> {
    let main = tid == memory.pid();
    let here = maps.find(registers.rsp)?;
    // Guards within the mapping are bounds, too.
    let pagemap = Pagemap::open(memory.pid()).ok();
    let stack = pagemap::stack_around(pagemap.as_ref(), maps, registers.rsp);
    let own = Room {
        below: registers.rsp.saturating_sub(RED_ZONE),
        low: stack.start,
        own: true,
    };
    let with_block = stack.contains(&registers.fs_base) && registers.fs_base > registers.rsp;
    if main && here.is_named("[stack]") || !main && with_block {
        return Some(own);
    }
    let has_guard = stack.start > here.start || is_guarded(maps, here);
    let stack = || maps.iter().find(|one| one.is_named("[stack]"));
    if main && let Some(room) = unused_end(memory, stack()?, state) {
        return Some(room);
    }
    has_guard.then_some(own)
}

/// Makes the kernel extend `[stack]` down to `lowest`, and returns the room that there is then. `None` if the room is in no stack that
/// grows, or if the program's own limit (`RLIMIT_STACK`) or another mapping forbids it.
///
/// A read through `/proc/PID/mem` below a growing mapping extends it (`expand_stack` in `__access_remote_vm`, mm/memory.c; before
/// Linux 6.5 `find_extend_vma` in mm/gup.c), and keeps the kernel's distance to the mapping below. The kernel compares with the
/// reader's limit, which is not the program's, so the program's limit is checked here.
pub(super) fn grown(room: Room, lowest: u64, memory: &GuestMemory, maps: &Maps) -> Option<Room> {
    let stack = maps.iter().find(|one| one.is_named("[stack]"))?;
    if !room.own || room.low != stack.start {
        return None;
    }
    let low = lowest & !(PAGE - 1);
    let is_free = !maps
        .iter()
        .any(|one| one.end > low && one.start < stack.start);
    if !is_free || stack.end - low > process::limits::stack(memory.pid())? {
        return None;
    }
    memory.read_bytes(low, &mut [0]).ok()?;
    let now = Maps::read(memory.pid()).ok()?;
    let stack = now.find(low).filter(|one| one.is_named("[stack]"))?;
    Some(Room {
        low: stack.start,
        ..room
    })
}

/// Whether an access right below the mapping faults because of a guard that was made on purpose.
fn is_guarded(maps: &Maps, mapping: &Mapping) -> bool {
    maps.find(mapping.start.wrapping_sub(1))
        .is_some_and(|below| {
            let may = below.permissions;
            !may.read && !may.write && !may.execute
        })
}

/// Finds the lowest part of `[stack]` with room for a call that was never written, or only by a remote call that was not undone.
fn unused_end(memory: &GuestMemory, stack: &Mapping, state: u64) -> Option<Room> {
    let need = state + LARGEST_REST;
    for index in 0..TRIED {
        let low = stack.start + index * need;
        let below = low + need;
        // The same amount must stay free above it, because the main thread's own frames begin somewhere above.
        if below + need > stack.end {
            return None;
        }
        let mut bytes = vec![0; need as usize];
        memory.read_bytes(low, &mut bytes).ok()?;
        if bytes.iter().all(|byte| *byte == 0) {
            return Some(Room {
                below,
                low,
                own: false,
            });
        }
        if !is_record(&bytes, low, Positions::below(below, state)) {
            return None;
        }
    }
    None
}

/// Whether the bytes, which begin at `low`, hold a return frame at that position.
fn is_record(bytes: &[u8], low: u64, at: Positions) -> bool {
    let from = (at.frame - low) as usize;
    is_ucontext(&bytes[from..from + UCONTEXT_SIZE], at.area)
}
