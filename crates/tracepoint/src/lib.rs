//! System calls of chosen processes, seen by BPF programs at the kernel's tracepoints: nothing in a process is changed, and none
//! of its threads is stopped.
//!
//! ```text
//!   a thread asks the kernel ─► sys_enter ─► is its process in `watched`? ─ no ─► on it goes (every process of the machine pays this)
//!                                              │ yes
//!                                              ▼
//!                                            `threads`: number and time of the call it is in
//!   the kernel has answered  ─► sys_exit ──► counts: a row of `figures` for its number     calls: records in the ring buffer
//!   it makes a process       ─► sched_process_fork ─► `born`: the child's task, until that returns from its fork (with -f)
//!   it ends                  ─► sched_process_exit ─► its entries are deleted
//! ```
//!
//! | file | what |
//! |---|---|
//! | `assembler` | instructions of BPF as numbers, and jumps to labels |
//! | `writer` | what programs are made of: maps, places on the stack, steps that several of them take |
//! | `programs` | the four programs |
//! | `records` | steps by which a program makes a record and has lancet read it |
//! | `copier` | what copies the memory that arguments point to |
//! | `kernel` | bpf(2): maps, programs, what stands in the way |
//! | `ring` | the ring buffer that programs write and we read |
//! | `watch` | [`Watch`]: all of it, for one command |
//! | `processors` | how many processors have values of their own |
//! | `brake` | has threads wait where the ring buffer fills |
//! | `processes` | the processes that a set of programs watches |
//! | `places` | [`Places`]: calls counted by the place that made them, with a program of its own |
//! | `running` | [`Running`]: no calls, but the threads that have a processor, copied there for `lancet profile` |
//! | `switches` | [`Switches`]: which threads have had a processor, for a process of which nearly all sleep |
//!
//! Programs and maps live as long as their descriptors, so nothing stays when lancet ends, however it ends. A thread is known by
//! the address of its task, which stays the same when a thread other than the first runs another program, and means the same in
//! every PID namespace. A process is known by its id in the namespace of lancet (`bpf_get_ns_current_pid_tgid`).
//!
//! What the programs read of the kernel is the arguments of its tracepoints (include/trace/events/syscalls.h, sched.h) and
//! `struct pt_regs` (arch/x86/include/uapi/asm/ptrace.h), which are ABI; no offset of another struct is needed, so neither the
//! kernel's BTF nor a compiler is. Kernels before Linux 5.17 can count calls, and not tell them.

mod assembler;
mod brake;
mod copier;
mod kernel;
mod places;
mod processes;
mod processors;
mod programs;
mod records;
mod ring;
mod running;
mod switches;
mod watch;
mod writer;

pub use brake::LONGEST as LONGEST_HOLD;
pub use copier::knows;
pub use kernel::Refused;
pub use places::{Called, Places};
pub use running::{Asked, DEEPEST, LISTED, PAGE, Running, Seen};
pub use switches::Switches;
pub use watch::{Copied, Copies, Figures, Lost, OF_32_BITS, Record, Tells, Unfit, Watch, Whose};
