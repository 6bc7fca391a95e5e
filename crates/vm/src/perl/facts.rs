//! What the reader must know about one process beyond its version. Used by `script`, and by crate `languages`.
//!
//! Facts are found once, from outside, with the help of exported symbols, and are plain numbers, so
//! that they can be handed to the agent.

use super::interpreter::Interpreter;
use super::{Error, Layout, Perl, Unsupported, Version};
use crate::Memory;

/// The value of `thread_key` for a Perl without threads.
const NO_THREADS: u64 = u64::MAX;

/// Offset of `specific` in glibc's `struct pthread` (`nptl/descr.h`): 1296 in 2.31, 2.35, 2.36, 2.39 and 2.41, by their
/// own `_thread_db_pthread_specific`.
const SPECIFIC: u64 = 1296;

/// Facts about one Perl process.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    version: u64,
    thread_key: u64,
    specific: u64,
    main: u64,
    op: u64,
    curcop: u64,
    curstackinfo: u64,
    defstash: u64,
    stack_sp: u64,
    stack_base: u64,
    markstack_ptr: u64,
}

impl Facts {
    /// Number of words that they take.
    pub const WORDS: usize = 11;

    /// Finds them. `symbol` returns the address in the guest of a symbol that perl (where it has its own interpreter,
    /// as Debian's does) or libperl exports. If it also knows `_thread_db_pthread_specific` of libc, that says where a
    /// thread keeps its data; otherwise it is where glibc 2.31 to 2.41 have it.
    pub fn find(
        memory: &impl Memory,
        symbol: &dyn Fn(&str) -> Option<u64>,
    ) -> Result<Facts, Error> {
        let need = |name: &'static str| symbol(name).ok_or(Error::Symbol(name));
        let version = Version::new(
            memory.u8(need("PL_revision")?)?,
            memory.u8(need("PL_version")?)?,
            memory.u8(need("PL_subversion")?)?,
        );
        let layout = Layout::of(version)?;
        let mut facts = Facts {
            version: version.packed(),
            thread_key: NO_THREADS,
            ..Facts::default()
        };
        if let Some(key) = symbol("PL_thr_key") {
            let size = memory.u16(need("PL_interp_size")?)?;
            if size != layout.interpreter_size {
                return Err(Unsupported::Build { version, size }.into());
            }
            facts.thread_key = memory.u32(key)?.into();
            facts.specific = specific(memory, symbol)?;
            facts.main = memory.u64(need("PL_curinterp")?)?;
        } else if let Some(curcop) = symbol("PL_curcop") {
            facts.curcop = curcop;
            facts.op = need("PL_op")?;
            facts.curstackinfo = need("PL_curstackinfo")?;
            facts.defstash = need("PL_defstash")?;
            facts.stack_sp = need("PL_stack_sp")?;
            facts.stack_base = need("PL_stack_base")?;
            facts.markstack_ptr = need("PL_markstack_ptr")?;
        } else {
            return Err(Unsupported::Multiplicity(version).into());
        }

        let perl = Perl {
            memory,
            layout,
            facts,
        };
        let stash = memory.u64(perl.main_interpreter().defstash)?;
        let name = perl
            .stash_name(stash)?
            .ok_or(Error::garbled("package main", stash))?;
        if !perl.says(name, b"main")? {
            return Err(Error::garbled("package main", stash));
        }
        Ok(facts)
    }

    /// Returns the facts as words, in an order that only [`from_words`](Facts::from_words) needs to know.
    pub const fn to_words(self) -> [u64; Facts::WORDS] {
        [
            self.version,
            self.thread_key,
            self.specific,
            self.main,
            self.op,
            self.curcop,
            self.curstackinfo,
            self.defstash,
            self.stack_sp,
            self.stack_base,
            self.markstack_ptr,
        ]
    }

    /// The inverse of [`to_words`](Facts::to_words).
    pub const fn from_words(words: [u64; Facts::WORDS]) -> Facts {
        let [
            version,
            thread_key,
            specific,
            main,
            op,
            curcop,
            curstackinfo,
            defstash,
            stack_sp,
            stack_base,
            markstack_ptr,
        ] = words;
        Facts {
            version,
            thread_key,
            specific,
            main,
            op,
            curcop,
            curstackinfo,
            defstash,
            stack_sp,
            stack_base,
            markstack_ptr,
        }
    }

    /// Returns the release of this Perl.
    pub const fn version(&self) -> Version {
        Version::unpack(self.version)
    }

    /// Returns the version whose table says where things lie: its own.
    pub(super) const fn table(&self) -> Version {
        self.version()
    }

    /// Returns whether it was built with threads, so that there may be several interpreters.
    pub const fn has_threads(&self) -> bool {
        self.thread_key != NO_THREADS
    }

    /// Returns the key under which each thread keeps its interpreter.
    pub(super) const fn thread_key(&self) -> u64 {
        self.thread_key
    }

    /// Returns the offset of `specific` in `struct pthread`.
    pub(super) const fn specific(&self) -> u64 {
        self.specific
    }

    /// Returns the interpreter that was made first.
    pub(super) const fn main(&self) -> u64 {
        self.main
    }

    /// Returns the only interpreter of a Perl without threads.
    pub(super) const fn variables(&self) -> Interpreter {
        Interpreter {
            stack_sp: self.stack_sp,
            stack_base: self.stack_base,
            markstack_ptr: self.markstack_ptr,
            op: self.op,
            curcop: self.curcop,
            curstackinfo: self.curstackinfo,
            defstash: self.defstash,
            stashpad: 0,
        }
    }
}

/// Finds where a thread's descriptor keeps the array of its data, as libc exports it for debuggers: a `uint32_t[3]` of
/// bits an element, elements, offset (`nptl_db/db_info.c`).
fn specific(memory: &impl Memory, symbol: &dyn Fn(&str) -> Option<u64>) -> Result<u64, Error> {
    match symbol("_thread_db_pthread_specific") {
        Some(at) => match memory.u32(at.wrapping_add(8))? {
            offset @ 512..=8192 => Ok(offset.into()),
            _ => Err(Error::garbled("description of struct pthread", at)),
        },
        None => Ok(SPECIFIC),
    }
}
