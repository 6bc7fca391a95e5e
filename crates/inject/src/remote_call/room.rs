//! The stack that a remote call runs on.
//!
//! The bounds of a thread's stack are not in the thread: a mapping may hold much more than the stack that the stack pointer
//! lies in. The stacks of goroutines (2 KiB and more, side by side in the Go heap), of coroutines that were made with
//! `malloc`, and alternate signal stacks have other data right below them, and a record of 3 KiB would be written over it.
//! So only these are used:
//!
//! 1. `[stack]`, by the main thread whose stack pointer lies in it.
//! 2. A mapping with the thread's own control block above the stack pointer: the C library maps a thread's stack and block
//!    in one piece (glibc `nptl/allocatestack.c`, musl `src/thread/pthread_create.c`).
//! 3. The unused end of `[stack]`, where the main thread stands elsewhere: bytes that nobody has written since the program
//!    began (the kernel maps 128 KiB below its arguments, `fs/exec.c`, `setup_arg_pages`), or a killed lancet only.
//! 4. A mapping with an inaccessible one right below it, as VMs map the stacks of their fibers.
//!
//! The main thread's stack is mapped as far as it was ever used, so where it is deeper than ever before there is no room below its
//! stack pointer. The kernel is asked for more then, as the next deeper call of its own would ask ([`grown`]).
//!
//! What scans the stack of the thread that it runs on, as Ruby's collector does, must not run on the unused end of another
//! one: whoever calls such a function asks for [`Room::own`].

use super::return_frame::{UCONTEXT_SIZE, is_ucontext};
use process::maps::{Mapping, Maps, PAGE};
use process::memory::GuestMemory;
use process::ptrace::Registers;

/// As many records as lie beside each other at the end of `[stack]`, should as many lancets have been killed.
const TRIED: u64 = 4;

/// Below the leaf function's stack pointer, bytes that it may use (System V ABI, x86-64 supplement, section 3.2.2).
pub(crate) const RED_ZONE: u64 = 128;
/// Stack the called code may use: the agent's and the VM's signal-safe functions need well under this.
const CALL_ROOM: u64 = 8 * 1024;
/// What a call needs besides the extended state, alignment included.
const LARGEST_REST: u64 = CALL_ROOM + 1024;

/// Where the two parts of a record lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Positions {
    /// Address of the XSAVE area, a multiple of 64.
    pub area: u64,
    /// Address of the `struct ucontext`, below the area, a multiple of 16.
    pub frame: u64,
}

impl Positions {
    /// The highest that a record with `state` bytes of extended state can lie below an address: the area aligned to 64
    /// bytes and followed by the four bytes of its second mark, the context aligned to 16.
    pub fn below(below: u64, state: u64) -> Self {
        let area = below.saturating_sub(state + 4) & !63;
        let frame = area.saturating_sub(UCONTEXT_SIZE as u64) & !15;
        Positions { area, frame }
    }

    /// The lowest address that the record, the return address below it and the called code take.
    pub fn lowest(self) -> u64 {
        self.frame.saturating_sub(8 + CALL_ROOM)
    }
}

/// Where the record of a remote call goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Room {
    /// One past the highest byte that may be written.
    pub below: u64,
    /// The lowest byte that may be written.
    pub low: u64,
    /// Whether it is the stack that the thread stands on.
    pub own: bool,
}

/// Returns where the thread `tid`, which has these registers and `state` bytes of extended state, may put a record and run
/// a call; `None` if nothing proves that any place is free.
pub(super) fn find(
    tid: i32,
    registers: &Registers,
    state: u64,
    memory: &GuestMemory,
    maps: &Maps,
) -> Option<Room> {
    let main = tid == memory.pid();
    let here = maps.find(registers.rsp)?;
    let own = |low: u64| Room {
        below: registers.rsp.saturating_sub(RED_ZONE),
        low,
        own: true,
    };
    let with_block = here.contains(registers.fs_base) && registers.fs_base > registers.rsp;
    if main && here.is_named("[stack]") || !main && with_block {
        return Some(own(here.start));
    }
    let stack = || maps.iter().find(|one| one.is_named("[stack]"));
    if main && let Some(room) = unused_end(memory, stack()?, state) {
        return Some(room);
    }
    is_guarded(maps, here).then(|| own(here.start))
}

/// Has the kernel lengthen `[stack]` down to `lowest`, and returns the room that there is then; `None` if the room is of no stack that
/// grows, or if the program's own limit (`RLIMIT_STACK`) or another mapping forbids it.
///
/// A read through `/proc/PID/mem` below a mapping that grows lengthens it (`expand_stack` in `__access_remote_vm`, mm/memory.c; before
/// Linux 6.5 `find_extend_vma` in mm/gup.c), with the kernel's own distance to what lies below. It compares with the limit of who
/// reads, which is not the program's, so that is looked at here.
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

/// Whether an access right below the mapping is a fault because somebody wanted that.
fn is_guarded(maps: &Maps, mapping: &Mapping) -> bool {
    maps.find(mapping.start.wrapping_sub(1))
        .is_some_and(|below| {
            let may = below.permissions;
            !may.read && !may.write && !may.execute
        })
}

/// The lowest part of `[stack]` with room for a call that was never written, or by a remote call that nobody took back.
fn unused_end(memory: &GuestMemory, stack: &Mapping, state: u64) -> Option<Room> {
    let need = state + LARGEST_REST;
    for index in 0..TRIED {
        let low = stack.start + index * need;
        let below = low + need;
        // The same again stays free: the main thread's own frames begin somewhere above.
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

/// Whether the bytes, which begin at `low`, hold a record at that place.
fn is_record(bytes: &[u8], low: u64, at: Positions) -> bool {
    let from = (at.frame - low) as usize;
    is_ucontext(&bytes[from..from + UCONTEXT_SIZE], at.area)
}
