//! What callers of this crate ask for ([`Options`], [`Wanted`]) and get back ([`Refused`]). Used by `set`,
//! `system_calls` and others here, and by crate `calls`.

use crate::policy;
use inject::resident::Resident;
use process::control_group;
use process::error::{Error, Result};
use process::functions::Function;
use routine::frame::{Guard, flags};
use std::fmt;
use std::time::Duration;
use wire::calls::blocks::Effect;
use wire::calls::special::is_special;
use wire::calls::{Hook, SYSTEM_CALLS, record, want};

/// How a process is traced. By default no call is reported.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Bytes of each thread's ring; a power of two. 0 = no call is reported, and the guest gets no memory for rings. Rings
    /// become smaller where the guest's control group has little room.
    pub ring_size: u64,
    /// How long a hook waits for room in its ring before it drops the record and counts it as lost.
    pub most_wait: Duration,
    /// The number of 64-bit words that a record has for copies of what arguments point to.
    pub room: u64,
    /// Tests of script lines: words for `capture::condition::line_bits`.
    pub line_tests: Vec<u64>,
    /// Which script frame's line is recorded: a [`wire::calls::line_policy`].
    pub line_policy: u64,
    /// One bit for each of those tests; lines that such a test accepts are skipped when the application's line is searched
    /// for.
    pub passed_over: u32,
    /// Children of the process are traced too.
    pub follow: bool,
    /// Whether only system calls are wanted. A program that Go has compiled is then refused, because none of its system
    /// calls can be hooked.
    pub system_calls_alone: bool,
    /// How long the process may stand still at once while hooks are set and lifted; many take several stops.
    pub max_stop: Duration,
}

/// The least time that a process waits at its end until its rings have been read, and a child until it is adopted.
pub(crate) const LEAST_PATIENCE: Duration = Duration::from_secs(2);
/// Such threads wait for this multiple of [`Options::most_wait`], if that is longer.
const PATIENCE: u32 = 20;

/// The smallest size of a ring, in bytes, where memory is short.
const LEAST_FITTING: u64 = 64 * 1024;
/// Upper estimate of what a thread uses of the tables beside its ring, in bytes, as measured in large programs.
const TABLES: u64 = 256 * 1024;

impl Options {
    /// Returns a size of rings that leaves the guest most of the room in its control group, so that it is not killed for
    /// memory of ours.
    ///
    /// # Errors
    /// [`Error::NoRoom`] if the smallest would take more than half of it.
    pub(crate) fn fitting(&self, pid: i32, threads: u64) -> Result<u64> {
        let Some(left) = control_group::memory_left(pid) else {
            return Ok(self.ring_size);
        };
        // A ring must hold several of the largest records.
        let least = LEAST_FITTING.max((self.room * 32).next_power_of_two());
        let mut size = self.ring_size;
        while size > least && threads * (size + TABLES) > left / 4 {
            size /= 2;
        }
        if size != 0 && threads * (size + TABLES) > left / 2 {
            return Err(Error::NoRoom {
                pid,
                left_mib: left >> 20,
                threads,
            });
        }
        Ok(size)
    }

    /// Returns how long a call waits for room in its ring, and how long a process waits at its end.
    pub(crate) fn waits(&self) -> [Duration; 2] {
        let longer = self.most_wait.saturating_mul(PATIENCE);
        [self.most_wait, longer.max(LEAST_PATIENCE)]
    }
}

/// A function that is to be hooked.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The function, or a stand-in for a probe or a system call (see `probe` and `role`).
    pub function: Function,
    /// What the agent is to do at its calls: bits of [`wire::calls::want`].
    pub want: u64,
    /// Which registers are recorded of its calls and returns.
    pub registers: record::RecordedRegisters,
    /// The size in bytes of the stack arguments that its prototype has; `None` = not known.
    pub stack: Option<u32>,
    /// Code whose calls are recorded, in the layout of [`Hook::callers`]; empty = all code.
    pub callers: Vec<u64>,
    /// Programs of crate `capture`, for the call and for its return; empty = nothing to copy.
    pub copy: [Vec<u64>; 2],
    /// `Some` if it is a probe within a function: the address of the counter of its users (USDT semaphore), or 0 if it has
    /// none. `copy` then is a program and the [operands](wire::calls::operand) of its arguments.
    pub probe: Option<u64>,
    /// Conditions of crate `capture` that the call and its return must meet to be recorded; empty = none.
    pub asks: [Vec<u64>; 2],
    /// A test of one argument that the routine makes before it enters the agent.
    pub guard: Option<Guard>,
    /// Calls that took fewer cycles of the time-stamp counter are not recorded; only with
    /// [`want::HELD`].
    pub least_ticks: u64,
    /// What the results of counted calls say: [`Hook::outcome`].
    pub outcome: u64,
    /// Which of the agent's routines its stub jumps to: [`CALL_THROUGH`] or [`PROBE`].
    pub routine: usize,
    /// Functions of the script's language that share this code, each with the identity that tells it from the others
    /// ([`wire::calls::Name`]); calls of functions that are not listed are not recorded. Empty = the code is of one
    /// function.
    pub names: Vec<(u64, Function)>,
    /// Words of a [`wire::calls::Injection`], for a system call by its number with [`want::INJECT`]; empty = none.
    pub inject: Vec<u64>,
    /// What kind of place is hooked.
    pub role: Role,
    /// With [`want::BLOCKS`], what it does with blocks.
    pub blocks: Effect,
    /// Whether only its entry is reported, without a frame of ours whatever its name is: for a function that returns only
    /// when the program ends.
    pub entry_only: bool,
}

impl Wanted {
    /// A function that is hooked for ourselves; `want` has bits of [`wire::calls::want::OWN`].
    pub(crate) fn own(function: Function, want: u64) -> Self {
        Wanted {
            want,
            ..Wanted::of(function)
        }
    }

    /// [`flags::ENTRY_ONLY`] if its hook gets no frame of ours, so that only its calls can be reported; else 0.
    pub(crate) fn entry_only_flag(&self) -> u32 {
        if self.entry_only || policy::gets_no_frame(&self.function) {
            flags::ENTRY_ONLY
        } else {
            0
        }
    }

    /// Returns what the records of its hook hold; the hook's other fields are filled in already. A call's record is
    /// followed by room for its return, unless the call itself is reported at its return, or what the return copies may be
    /// long.
    pub(crate) fn shape(&self, hook: &Hook) -> u64 {
        let asked = hook.want & (want::ENTRY | want::RETURN | want::HELD);
        let told = asked == want::ENTRY | want::RETURN;
        let [function, returns] = match self.role {
            Role::Function => [self.routine == CALL_THROUGH; 2],
            // The call may make a child, end, or run another program, and would leave the room unfilled for good.
            Role::SystemCall => {
                let number = self.function.address;
                [true, number != OTHERS && !is_special(number)]
            }
            Role::Place { .. } => [false; 2],
        };
        let returns = told && returns && hook.flags & flags::ENTRY_ONLY == 0;
        let returns = returns && hook.at_return[1] == 0;
        let nothing = [hook.at_entry[1], hook.at_return[1], hook.callers] == [0; 3];
        self.registers.shape(returns, nothing && function).0
    }

    /// Makes a request for a function of which nothing is wanted yet.
    pub fn of(function: Function) -> Self {
        Wanted {
            function,
            want: 0,
            registers: record::RecordedRegisters::UNKNOWN,
            stack: Some(0),
            callers: Vec::new(),
            copy: [Vec::new(), Vec::new()],
            probe: None,
            asks: [Vec::new(), Vec::new()],
            guard: None,
            least_ticks: 0,
            outcome: 0,
            routine: CALL_THROUGH,
            names: Vec::new(),
            inject: Vec::new(),
            role: Role::Function,
            blocks: Effect::default(),
            entry_only: false,
        }
    }
}

/// [`Wanted::routine`] of a function that is called through: the routine calls the original and sees its return.
pub const CALL_THROUGH: usize = 0;
/// [`Wanted::routine`] of a probe.
pub const PROBE: usize = 1;
/// [`Wanted::routine`] of the first function of [`routine::unwind::ASKED`]; those of the others follow.
pub(crate) const FIND_FDE: usize = 2;

/// Whether a hook leads to one of the routines that answer unwinders.
pub(crate) fn is_asked(resident: &Resident, routine: u64) -> bool {
    resident.header.routines[FIND_FDE..].contains(&routine)
}

/// A function that is not hooked, and why.
#[derive(Clone, Debug)]
pub struct Refused {
    /// The function that is not hooked.
    pub function: Function,
    /// Why.
    pub reason: Reason,
}

/// Why something is not hooked. `Display` has it as the user is told.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// A thread is about to go on within the bytes that would be changed.
    InTheWay,
    /// Its code was changed since the hook was planned: by another command, or by the process itself.
    Changed,
    /// It enters the kernel by this instruction, which makes a system call of 32 bits.
    Of32Bits(&'static str),
    /// Nothing proves that it is in a function, or an instruction at all.
    NotProven,
    /// It cannot be hooked as it is.
    Never(String),
}

impl Reason {
    /// Whether it may be gone a moment later.
    pub fn may_pass(&self) -> bool {
        matches!(self, Reason::InTheWay | Reason::Changed)
    }

    /// Whether it makes system calls of 32 bits.
    pub fn is_of_32_bits(&self) -> bool {
        matches!(self, Reason::Of32Bits(_))
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::InTheWay => "a thread is about to go on in its first instructions",
            Reason::Changed => "its code changed while we looked at it",
            Reason::Of32Bits(instruction) => {
                return write!(
                    f,
                    "it enters the kernel by {instruction}, the way of 32-bit code"
                );
            }
            Reason::NotProven => {
                "it belongs to no function that unwinding rules, symbols or control flow prove"
            }
            Reason::Never(why) => why,
        })
    }
}

impl From<trampoline::Refusal> for Reason {
    fn from(why: trampoline::Refusal) -> Self {
        Reason::Never(why.to_string())
    }
}

impl From<String> for Reason {
    fn from(why: String) -> Self {
        Reason::Never(why)
    }
}

impl From<&str> for Reason {
    fn from(why: &str) -> Self {
        Reason::Never(why.to_owned())
    }
}

/// What kind of place is hooked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// A function, or a probe.
    #[default]
    Function,
    /// A system call. The function's address is its number; [`OTHERS`] = all that are not wanted by number.
    SystemCall,
    /// The place before or after a `syscall` instruction.
    Place {
        /// The address of the instruction.
        instruction: u64,
        /// The number that is always made there, or how it comes ([`wire::calls::Hook::fixed`]).
        fixed: u64,
    },
}

/// Instead of a number in [`Role::SystemCall`]: all system calls that are not wanted by number.
pub const OTHERS: u64 = SYSTEM_CALLS;
