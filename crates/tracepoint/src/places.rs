//! How often which system call was made at which place of a process: what the kernel knows of calls that somebody else has to see,
//! too, as hooks have. Used by `calls::live::kernel_count`.
//!
//! ```text
//!   the kernel has answered ─► sys_exit ─► is its process in `watched`? ─ no ─► on it goes (every process of the machine pays this)
//!                                            │ yes
//!                                            ▼
//!                                          `places`: one more for (process, address behind the instruction, number)
//! ```
//!
//! Not counted is what no program would count as its own call: one that the kernel makes again by itself (`ERESTARTSYS` and its like),
//! the return of a child from the call that has made it, an exec that has succeeded (the thread returns into another program), a return
//! from a signal handler, and a call that never returns.

use crate::assembler::{Helper, Program, Reg, Size, When};
use crate::kernel::{Attached, Kind, Map, Refused};
use crate::processes::Processes;
use crate::writer::{
    CLONE3_32, FORKS, Maps, NARROW, ORIGINAL_AT, PROCESS, RESTARTS, RIP_AT, Writer,
};
use Reg::{Fp, R0, R1, R2, R3, R6, R8, R9};
use Size::Double;

/// Places that are kept of all processes; calls at others are not counted.
const PLACES: u32 = 16 << 10;
/// Bytes of a key: process, address, number.
const KEY: usize = 24;
/// Bytes of a value: how many calls, and the instruction that made the first of them.
const VALUE: usize = 16;
/// Bytes of an instruction that enters the kernel.
const INSTRUCTION: i32 = 2;

// Places on the stack, where the programs of a `Watch` have other things (`writer`).
const KEY_AT: i16 = -224;
const VALUE_AT: i16 = -240;

/// `execve` and `execveat`: arch/x86/entry/syscalls/syscall_64.tbl and syscall_32.tbl.
const EXECS: [u64; 4] = [59, 322, NARROW | 11, NARROW | 358];

/// Calls of one number that were made at one place of a process, and have returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Called {
    /// Where the thread went on: the address behind the instruction.
    pub behind: u64,
    /// The number of the call, with [`OF_32_BITS`](crate::OF_32_BITS) where it is one of 32 bits.
    pub number: u64,
    /// How many there were.
    pub calls: u64,
}

/// Counts the calls of chosen processes by place, until it is dropped.
pub struct Places {
    maps: Counted,
    _attached: Attached,
}

struct Counted {
    watched: Processes,
    places: Map,
}

impl Maps for Counted {
    fn processes(&self) -> &Processes {
        &self.watched
    }
}

impl Places {
    /// Loads and attaches the program. Nobody is watched yet.
    ///
    /// # Errors
    /// Why there is no way by BPF, for the user to read.
    pub fn begin() -> Result<Self, Refused> {
        let maps = Counted {
            watched: Processes::new()?,
            places: Map::new(Kind::Hash, "lancet_places", KEY, VALUE, PLACES)?,
        };
        let attached = Attached::new("sys_exit", &program(&maps))?;
        Ok(Places {
            maps,
            _attached: attached,
        })
    }

    /// Counts the calls of a process from now on, beginning at 0.
    ///
    /// # Errors
    /// It is in a PID namespace in which it cannot be found, or there is no room.
    pub fn add(&self, pid: i32) -> Result<(), Refused> {
        self.remove(pid);
        self.forget(pid);
        self.maps.watched.add(pid).map(drop)
    }

    /// Counts them no more. What was counted stays until [`Places::forget`].
    pub fn remove(&self, pid: i32) {
        self.maps.watched.remove(pid);
    }

    /// Forgets what was counted of a process.
    pub fn forget(&self, pid: i32) {
        for key in self.keys(pid) {
            self.maps.places.remove(&key);
        }
    }

    /// What was counted of a process until now.
    pub fn of(&self, pid: i32) -> Vec<Called> {
        let called = |key: Vec<u8>| {
            let value = self.maps.places.get(&key)?;
            let number = word(&key, 2) | width(&value[8..])?;
            Some(Called {
                behind: word(&key, 1),
                number,
                calls: word(&value, 0),
            })
        };
        self.keys(pid).filter_map(called).collect()
    }

    fn keys(&self, pid: i32) -> impl Iterator<Item = Vec<u8>> {
        let keys = self.maps.places.keys().into_iter();
        keys.filter(move |key| word(key, 0) == pid as u64)
    }
}

/// What the instruction that made a call adds to its number: code of 64 bits can make calls of 32 bits, by `int $0x80`, and the kernel
/// says the same of its thread as otherwise. `None`: no call can have been made there, but a tracer has put the thread there in the middle
/// of a call.
fn width(instruction: &[u8]) -> Option<u64> {
    match instruction {
        [0xcd, 0x80, ..] | [0x0f, 0x34, ..] => Some(NARROW),
        [0x0f, 0x05, ..] => Some(0),
        _ => None,
    }
}

fn word(bytes: &[u8], number: usize) -> u64 {
    let bytes = bytes.chunks_exact(8).nth(number);
    bytes.map_or(0, |word| {
        u64::from_ne_bytes(word.try_into().expect("8 bytes"))
    })
}

/// sys_exit(struct pt_regs *, long result)
fn program(maps: &Counted) -> Program {
    let mut writer = Writer::new(maps);
    let out = writer.out;
    writer.watched(out);
    let code = &mut writer.code;
    let (own, known) = (code.label(), code.label());
    let (returned, new) = (code.label(), code.label());
    code.load(Double, R9, R6, 8);
    code.jump_if(R9, When::Below, *RESTARTS.start(), returned);
    code.jump_if(R9, When::AtLeast, *RESTARTS.end() + 1, returned);
    code.jump(out);
    code.here(returned);
    writer.registers();
    let code = &mut writer.code;
    code.load(Double, R8, Fp, ORIGINAL_AT);
    code.jump_if(R8, When::Equal, -1, out);
    writer.by_width();
    let code = &mut writer.code;
    code.jump_if(R9, When::NotEqual, 0, own);
    for number in FORKS.into_iter().chain([CLONE3_32]).chain(EXECS) {
        code.set_wide(R1, number);
        code.jump_if_of(R8, When::Equal, R1, out);
    }
    code.here(own);
    for (at, from) in [(0, PROCESS), (8, RIP_AT)] {
        code.load(Double, R1, Fp, from);
        code.store(Double, Fp, KEY_AT + at, R1);
    }
    code.store(Double, Fp, KEY_AT + 16, R8);
    writer.look_up(&maps.places, KEY_AT);
    writer.code.jump_if(R0, When::Equal, 0, new);
    let code = &mut writer.code;
    code.here(known);
    code.set(R1, 1);
    code.add_to(R0, 0, R1);
    code.jump(out);
    code.here(new);
    code.store_number(Double, Fp, VALUE_AT, 1);
    code.store_number(Double, Fp, VALUE_AT + 8, 0);
    code.stack(R1, VALUE_AT + 8);
    code.set(R2, INSTRUCTION);
    code.load(Double, R3, Fp, RIP_AT);
    code.math(crate::assembler::Math::Add, R3, -INSTRUCTION);
    code.call(Helper::ReadUser);
    writer.put_new(&maps.places, KEY_AT, VALUE_AT);
    writer.code.jump_if(R0, When::Equal, 0, out);
    // Another processor was faster.
    writer.look_up(&maps.places, KEY_AT);
    writer.code.jump_if(R0, When::NotEqual, 0, known);
    writer.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_instruction_says_which_calls_are_of_32_bits() {
        assert_eq!(width(&[0xcd, 0x80, 0]), Some(NARROW));
        assert_eq!(width(&[0x0f, 0x05, 0]), Some(0));
        assert_eq!(width(&[0x48, 0xc7, 0xc0]), None);
    }

    /// The calls of this test's own thread, where the kernel lets it look.
    #[test]
    fn calls_are_counted_by_number_and_place() {
        let Ok(places) = Places::begin() else {
            return eprintln!("SKIP calls by place: BPF is not allowed here");
        };
        let pid = std::process::id() as i32;
        places.add(pid).expect("room");
        for _ in 0..1500 {
            // SAFETY: getppid takes nothing.
            unsafe { libc::getppid() };
        }
        places.remove(pid);
        let counted = places.of(pid);
        let asked = counted.iter().filter(|one| one.number == 110);
        assert_eq!(asked.map(|one| one.calls).sum::<u64>(), 1500, "{counted:?}");
        places.forget(pid);
        assert!(places.of(pid).is_empty());
    }
}
