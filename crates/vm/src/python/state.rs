//! A thread's own `PyThreadState`: how a thread finds it without a lock and without a walk over all threads. Used by
//! `running` and `facts`, and by `agent::languages::python::births::counting` and
//! `agent::languages::python::births::caller`.
//!
//! **To 3.14**: `autoTSSkey` is a pthread key, and glibc keeps a thread's values of keys in `struct pthread`, to which `%fs:0` points:
//! `specific` is an array of pointers to blocks of 32 (`nptl/descr.h`, `pthread_getspecific.c`). Its offset in that structure is found by
//! looking, in a thread whose thread state is known.
//!
//! ```text
//!   fs:0 ─▶ struct pthread … specific: [ block 0 ][ block 1 ] …
//!                                         └─▶ { seq, data }[32]      data = PyThreadState *
//! ```
//!
//! **Since 3.15**: the thread-local variable `_Py_tss_gilstate` (`Python/pystate.c`). No symbol of it is exported, but
//! `PyGILState_GetThisThreadState` does nothing else than return it, so its machine code says where it is ([`Access`]). In a thread of which
//! the state is known the variable must have that value.

use super::{Error, Python, Version};
use crate::{Fault, Memory};

/// The half of a `Py_tss_t` that is its `_key`, a `pthread_key_t`; the other one is `_is_initialized`.
pub(super) const TSS_KEY: u32 = 32;

/// `struct pthread` has about 2,300 bytes; `specific` was at 1,296 in every glibc looked at (2.31 to 2.41).
pub(super) const PTHREAD: u64 = 2304;

/// `PTHREAD_KEY_2NDLEVEL_SIZE` (`sysdeps/nptl/internaltypes.h`), and `sizeof(struct pthread_key_data)`.
pub(super) const KEYS_PER_BLOCK: u64 = 32;
pub(super) const KEY_DATA: u64 = 16;

/// `dtv` in `tcbhead_t` (`sysdeps/x86_64/nptl/tls.h`), and `sizeof(dtv_t)`.
const DTV: u64 = 8;
const DTV_SIZE: u64 = 16;
/// `pointer.to_free` in a `dtv_t`: what was allocated for the block, 0 where nothing was. Before glibc 2.25 the word is `is_static`.
const TO_FREE: u64 = 8;
/// Below `%fs:0`, within so many bytes, a variable lies that is at the same distance from it in all threads. A block that no thread has used yet
/// has the address -1 (`TLS_DTV_UNALLOCATED`), and nothing to be freed either.
const STATIC_TLS: u64 = 1 << 20;

/// Threads that are looked at.
const MOST_TRIED: usize = 16;

/// Bytes of `PyGILState_GetThisThreadState` that are read; it has 12 to 32.
const CODE: usize = 48;

/// The VM's function that returns a thread's own state.
pub(super) const GETTER: &str = "PyGILState_GetThisThreadState";

/// The VM's function that returns the current thread state: that of the thread that has the lock, since 3.12 that of the running thread while
/// it has the lock of its interpreter. It takes no lock and allocates nothing. The first name came with 3.13, the second one went then.
/// Where it reads that state ([`Facts::current_place`](super::Facts::current_place)) is to be read without a call, too.
pub(super) const CURRENT: [&str; 2] = ["PyThreadState_GetUnchecked", "_PyThreadState_UncheckedGet"];

/// From this version on the current thread state is a variable of each thread (`_Py_tss_tstate`), before it is one of the process
/// (`_PyRuntime.gilstate.tstate_current`).
pub(super) const CURRENT_IS_THREADS: Version = Version::new(3, 12, 0);

/// `autoTSSkey` lies so many bytes behind `tstate_current`, with `autoInterpreterState` between them (`struct _gilstate_runtime_state`,
/// `pycore_runtime.h` of 3.9, `pycore_pystate.h` and `pycore_gil.h` after it, to 3.11).
const CURRENT_TO_KEY: u64 = 16;

/// How a function reads a thread-local variable that it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    /// `mov %fs:OFFSET,%rax`: in the program itself.
    Direct(u64),
    /// `mov GOT(%rip),%rax; mov %fs:(%rax),%rax`: the offset is the word at this distance from the function's beginning.
    Global(i64),
    /// `lea INDEX(%rip),%rdi; call __tls_get_addr; mov BEHIND(%rax),%rax`: number of the module and offset are at this distance from the
    /// function's beginning.
    Called { index: i64, behind: u64 },
}

impl Access {
    /// Reads it out of the code of a function without branches.
    fn of(code: &[u8]) -> Option<Access> {
        let word = |at: usize| {
            let bytes = code.get(at..at + 4)?;
            Some(i64::from(i32::from_le_bytes(bytes.try_into().ok()?)))
        };
        let find = |bytes: &[u8]| code.windows(bytes.len()).position(|window| window == bytes);
        if let Some(at) = find(&[0x64, 0x48, 0x8b, 0x04, 0x25]) {
            return Some(Access::Direct(word(at + 5)?.cast_unsigned()));
        }
        if let Some(at) = find(&[0x48, 0x8b, 0x05])
            && code[at + 7..].starts_with(&[0x64, 0x48, 0x8b, 0x00])
        {
            return Some(Access::Global(at as i64 + 7 + word(at + 3)?));
        }
        let at = find(&[0x48, 0x8d, 0x3d])?;
        let rest = at + 7;
        let index = rest as i64 + word(at + 3)?;
        // The call ends the function's use of other registers: the next load from %rax is the variable's.
        let load = code[rest..].windows(3).position(|bytes| {
            bytes[..2] == [0x48, 0x8b] && matches!(bytes[2], 0x00 | 0x40 | 0x80)
        })?;
        let at = rest + load + 3;
        let behind = match code[at - 1] {
            0x00 => 0,
            0x40 => u64::from(*code.get(at)?),
            _ => word(at)?.cast_unsigned(),
        };
        Some(Access::Called { index, behind })
    }
}

/// The state with which a thread has the lock of its interpreter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Current {
    /// Its `PyThreadState`.
    pub state: u64,
    /// Whether the thread itself has it as its state. Up to 3.11 it may be one that this thread has made and another thread runs with: then
    /// two threads find that they have the lock.
    pub is_own: bool,
}

impl<M: Memory> Python<'_, M> {
    /// Finds [`Facts::own`](super::Facts::own): where a thread has what leads to its state; 0 if it is not found, as with another libc.
    pub(super) fn find_own(&self, getter: Option<u64>) -> Result<u64, Error> {
        for thread in self.all_threads().take(MOST_TRIED) {
            let thread = thread?;
            let found = match self.layout.runtime.tss {
                Some(tss) => self.find_specific(tss, thread.id, thread.address)?,
                None => getter.and_then(|at| self.find_variable(at, thread.id, thread.address)),
            };
            if let Some(found) = found {
                return Ok(found);
            }
        }
        Ok(0)
    }

    /// The offset of `specific` in `struct pthread`: that with the thread's state under Python's key.
    fn find_specific(&self, tss: u64, id: u64, state: u64) -> Result<Option<u64>, Error> {
        let Some((block, index)) = self.key(tss)? else {
            return Ok(None);
        };
        for at in (0..PTHREAD).step_by(8) {
            let begin = id.wrapping_add(at);
            let Ok(values) = self.memory.u64(begin.wrapping_add(block * 8)) else {
                break;
            };
            // The first block lies in the structure itself.
            if block == 0 && values.wrapping_sub(id) >= PTHREAD {
                continue;
            }
            if self.memory.u64(values.wrapping_add(index * KEY_DATA + 8)) == Ok(state) {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    /// The distance from `%fs:0` of the variable that the function at `getter` returns, if it has the thread's state.
    fn find_variable(&self, getter: u64, id: u64, state: u64) -> Option<u64> {
        let distance = variable(self.memory, getter, id)?;
        let found = self.memory.u64(id.wrapping_add(distance)).ok()?;
        (found == state).then_some(distance)
    }

    /// Finds [`Facts::current_place`](super::Facts::current_place): what the function at `function` returns; 0 if it is not found. What a thread
    /// has there must be a state of its own, or none while it does not have the lock. That it is right is seen where a thread has the lock
    /// ([`reads_current`](Self::reads_current)).
    pub(super) fn find_current(&self, function: u64) -> u64 {
        if self.facts.version() < CURRENT_IS_THREADS {
            let tss = self.layout.runtime.tss;
            return tss.map_or(0, |tss| self.facts.runtime() + tss - CURRENT_TO_KEY);
        }
        let mut threads = self.all_threads().take(MOST_TRIED);
        let found = threads.find_map(|thread| {
            let id = thread.ok()?.id;
            let place = variable(self.memory, function, id)?;
            let state = self.memory.u64(id.wrapping_add(place)).ok()?;
            (state == 0 || self.is_thread(state, id) == Ok(true)).then_some(place)
        });
        found.unwrap_or(0)
    }

    /// Returns the current state as the running thread, of which the `%fs` base is `id`, reads it; `None` where it is not known where it is.
    #[inline(always)]
    pub fn current(&self, id: u64) -> Result<Option<u64>, Fault> {
        let at = self.current_at(id);
        at.map(|at| self.memory.u64(at)).transpose()
    }

    /// Where [`current`](Self::current) reads it. Who reads by plain loads asks first whether it can be read, before it is believed.
    #[inline(always)]
    pub fn current_at(&self, id: u64) -> Option<u64> {
        let place = self.facts.current_place();
        let of_thread = self.facts.version() >= CURRENT_IS_THREADS;
        let base = if of_thread { id } else { 0 };
        (place != 0).then(|| base.wrapping_add(place))
    }

    /// Whether [`current`](Self::current) says what the VM's function has returned in this thread, which has the lock.
    pub fn reads_current(&self, id: u64, returned: u64) -> bool {
        returned != 0 && self.current(id) == Ok(Some(returned))
    }

    /// The block and the index of Python's key. It is made anew in the child of a fork, so it is not among the facts. `None` where there is
    /// no key: a Python that ends gives it back, and what threads have under it is left from before.
    #[inline(always)]
    fn key(&self, tss: u64) -> Result<Option<(u64, u64)>, Fault> {
        let tss = self.memory.u64(self.facts.runtime().wrapping_add(tss))?;
        let key = tss >> TSS_KEY;
        let is_there = tss as u32 != 0;
        Ok(is_there.then_some((key / KEYS_PER_BLOCK, key % KEYS_PER_BLOCK)))
    }

    /// Returns the thread state of the OS thread whose `%fs` base is `id`, read from the thread's own data: two to five loads, none of them
    /// from memory that may be gone. `None` if it has none (a thread that Python does not know, or no longer), and where
    /// [`Facts::own`](super::Facts::own) is 0; then there is [`find_thread`](Python::find_thread).
    ///
    /// A state need not be kept: to read it again is as cheap as to check it.
    #[inline(always)]
    pub fn thread_state(&self, id: u64) -> Result<Option<u64>, Fault> {
        if self.facts.own() == 0 {
            return Ok(None);
        }
        let own = id.wrapping_add(self.facts.own());
        let state = match self.layout.runtime.tss {
            None => self.memory.u64(own)?,
            Some(tss) => {
                let Some((block, index)) = self.key(tss)? else {
                    return Ok(None);
                };
                match self.memory.u64(own.wrapping_add(block * 8))? {
                    0 => 0,
                    values => self.memory.u64(values.wrapping_add(index * KEY_DATA + 8))?,
                }
            }
        };
        Ok((state != 0 && self.is_thread(state, id)?).then_some(state))
    }

    /// Returns the state with which the running thread, of which the `%fs` base is `id`, has the lock of its interpreter; `None` if it has
    /// none. [`thread_state`](Python::thread_state) also names a state whose lock was given up, and up to 3.11 the main interpreter's for a
    /// thread that runs another one. `current` is what the VM's function [`Facts::current`](super::Facts::current) has returned in this thread.
    ///
    /// Up to 3.11 the current state is another thread's where this one does not have the lock, and that thread may end at this moment: it is
    /// read only where it is not the thread's own, and where `is_readable` says that its page is there.
    #[inline(always)]
    pub fn current_state(
        &self,
        id: u64,
        current: u64,
        is_readable: impl Fn(u64) -> bool,
    ) -> Result<Option<Current>, Fault> {
        if current == 0 {
            return Ok(None);
        }
        let found = |is_own| Current {
            state: current,
            is_own,
        };
        if self.facts.version() >= CURRENT_IS_THREADS {
            return Ok(self.is_thread(current, id)?.then(|| found(true)));
        }
        if self.thread_state(id)? == Some(current) {
            return Ok(Some(found(true)));
        }
        if !is_readable(current.wrapping_add(self.layout.thread.id)) {
            return Ok(None);
        }
        Ok(self.is_thread(current, id)?.then(|| found(false)))
    }

    /// Returns whether the `PyThreadState` at `state` is that of the OS thread whose `%fs` base is `id`; one load.
    #[inline(always)]
    pub fn is_thread(&self, state: u64, id: u64) -> Result<bool, Fault> {
        let at = state.wrapping_add(self.layout.thread.id);
        Ok(self.memory.u64(at)? == id)
    }
}

/// The distance from `%fs:0` of the variable that the function at `getter` returns, which is the same in all threads. `None` where each
/// thread has it elsewhere: in a library that was loaded later, without room in the block that all threads begin with.
fn variable(memory: &impl Memory, getter: u64, id: u64) -> Option<u64> {
    let mut code = [0; CODE];
    memory.read(getter, &mut code).ok()?;
    let word = |at: u64| memory.u64(at).ok();
    let at = match Access::of(&code)? {
        Access::Direct(offset) => id.wrapping_add(offset),
        Access::Global(place) => id.wrapping_add(word(getter.wrapping_add_signed(place))?),
        Access::Called { index, behind } => {
            let index = getter.wrapping_add_signed(index);
            let module = word(index)?.checked_mul(DTV_SIZE)?;
            let entry = word(id.wrapping_add(DTV))?.wrapping_add(module);
            let block = word(entry)?;
            let at = block
                .wrapping_add(word(index.wrapping_add(8))?)
                .wrapping_add(behind);
            let is_static = |at: u64| (1..=STATIC_TLS).contains(&id.wrapping_sub(at));
            if word(entry.wrapping_add(TO_FREE))? != 0 || !is_static(block) || !is_static(at) {
                return None;
            }
            at
        }
    };
    Some(at.wrapping_sub(id))
}

#[cfg(test)]
mod tests {
    use super::{Access, DTV, STATIC_TLS, variable};
    use crate::{Fault, Memory};
    extern crate std;
    use std::vec::Vec;

    /// `PyGILState_GetThisThreadState` of Debian's 3.15.2: of the program, and of its libpython; and as gcc compiles it for a library whose
    /// variables lie at fixed offsets, and for one whose variables do not lie together.
    #[test]
    fn the_variable_is_found_in_the_function_that_returns_it() {
        let program = [
            0xf3, 0x0f, 0x1e, 0xfa, 0x64, 0x48, 0x8b, 0x04, 0x25, 0xd8, 0xff, 0xff, 0xff, 0xc3,
        ];
        assert_eq!(Access::of(&program), Some(Access::Direct(-40i64 as u64)));
        let library = [
            0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48, 0x89, 0xe5, 0x48, 0x8d, 0x3d, 0x61, 0xa6, 0x4a,
            0x00, 0xe8, 0x5c, 0x9d, 0xcf, 0xff, 0x5d, 0x48, 0x8b, 0x80, 0x28, 0x00, 0x00, 0x00,
            0xc3,
        ];
        let called = |index, behind| Some(Access::Called { index, behind });
        assert_eq!(Access::of(&library), called(0x4aa661 + 15, 0x28));
        let fixed = [
            0x48, 0x8b, 0x05, 0x10, 0x00, 0x00, 0x00, 0x64, 0x48, 0x8b, 0x00, 0xc3,
        ];
        assert_eq!(Access::of(&fixed), Some(Access::Global(23)));
        let general = [
            0x66, 0x48, 0x8d, 0x3d, 0x20, 0x00, 0x00, 0x00, 0x66, 0x66, 0x48, 0xe8, 1, 2, 3, 4,
            0x48, 0x8b, 0x00, 0xc3,
        ];
        assert_eq!(Access::of(&general), called(0x28, 0));
        assert_eq!(Access::of(&[0x90; 48]), None);
        assert_eq!(Access::of(&program[..10]), None, "cut off");
    }

    /// Words of memory by address.
    struct Words(Vec<(u64, u64)>);

    impl Memory for Words {
        fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Fault> {
            for (byte, at) in into.iter_mut().zip(at..) {
                let found = self.0.iter().find(|(word, _)| *word == at & !7);
                let (_, word) = found.ok_or(Fault { at })?;
                *byte = word.to_le_bytes()[at as usize & 7];
            }
            Ok(())
        }
    }

    /// A thread whose variable is asked of `__tls_get_addr`, in module 3 of its vector; `entry` is what it has of that module.
    fn thread(id: u64, entry: [u64; 2]) -> Words {
        const GETTER: u64 = 0x40_0000;
        const VECTOR: u64 = 0x50_0000;
        let code = [
            0x66, 0x48, 0x8d, 0x3d, 0xf8, 0, 0, 0, 0x66, 0x66, 0x48, 0xe8, 1, 2, 3, 4, 0x48, 0x8b,
            0x00, 0xc3, 0, 0, 0, 0,
        ];
        let words = code
            .as_chunks::<8>()
            .0
            .iter()
            .map(|word| u64::from_le_bytes(*word));
        let code = words.chain([0; 3]).zip((GETTER..).step_by(8));
        let mut all: Vec<_> = code.map(|(word, at)| (at, word)).collect();
        all.extend([(GETTER + 0x100, 3), (GETTER + 0x108, 0x28)]);
        all.extend([
            (id + DTV, VECTOR),
            (VECTOR + 48, entry[0]),
            (VECTOR + 56, entry[1]),
        ]);
        Words(all)
    }

    /// glibc 2.41 has `{ -1, NULL }` of a block that a thread has not used yet: what lies behind it is not the thread's.
    #[test]
    fn a_variable_lies_at_one_distance_only_in_the_memory_that_a_thread_begins_with() {
        const ID: u64 = 0x7f00_0000_0740;
        let found = |entry| variable(&thread(ID, entry), 0x40_0000, ID);
        assert_eq!(found([ID - 0x80, 0]), Some((-0x58i64).cast_unsigned()));
        assert_eq!(found([u64::MAX, 0]), None, "not allocated");
        let heap = 0x6000_0000;
        assert_eq!(found([heap, heap]), None, "allocated");
        assert_eq!(found([heap, 0]), None, "allocated, before 2.25");
        assert_eq!(found([ID - STATIC_TLS - 8, 0]), None, "too far below");
        assert_eq!(found([ID - 0x20, 0]), None, "above %fs:0");
    }
}
