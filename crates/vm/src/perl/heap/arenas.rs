//! The arenas, and what an SV is. Used by `size`, `references` and others here, and by crate `languages`.

use core::ops::{ControlFlow, Range};

use super::super::interpreter::Interpreter;
use super::super::name::{
    BODY, FLAGS, HAS_GP, PRIVATE_POK, TYPE_ARRAY, TYPE_BITS, TYPE_CODE, TYPE_FORMAT, TYPE_GLOB,
    TYPE_HASH, TYPE_INVERSION_LIST, TYPE_IO, TYPE_LVALUE, TYPE_MAGICAL, TYPE_OBJECT, TYPE_REGEXP,
    UNION,
};
use super::super::{Error, Perl};
use crate::{Fault, Memory};

/// `sizeof(SV)`, and `sv_refcnt` in it.
pub(super) const HEAD: u64 = 24;
const COUNT: usize = 8;

/// Heads of one arena, at most: `PERL_ARENA_SIZE` makes them of 4,080 bytes, but whoever builds a Perl may say otherwise.
const MOST_HEADS: u64 = 1 << 20;

/// `SVf_IOK`, `SVf_NOK`, `SVf_POK`, `SVf_ROK`; the first three with their private forms.
const IOK: u32 = 0x1100;
const NOK: u32 = 0x2200;
const POK: u32 = 0x4400;
const ROK: u32 = 0x800;
/// `SVprv_WEAKREF`, `SVs_OBJECT`, and the three bits of magic, `SVs_GMG` to `SVs_RMG`.
const WEAK: u32 = 0x8000_0000;
const OBJECT: u32 = 0x10_0000;
const MAGICAL: u32 = 0xe0_0000;

/// Where the variables of one interpreter are that lead to its heap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// Address of the variable `PL_sv_arenaroot`, which has the address of the first arena.
    pub arenas: u64,
    /// The hash of the keys that all hashes share, `PL_strtab`. Its values are counts and no SVs.
    pub shared_keys: u64,
    /// The code of the program, `PL_main_cv`; 0 where that is not known.
    pub main_code: u64,
    /// `struct interpreter`, of which many words refer to SVs; empty without threads.
    pub variables: Range<u64>,
}

/// What an SV is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sort {
    /// A scalar without a value.
    Undef,
    /// A scalar with a number.
    Number,
    /// A scalar with text or bytes.
    Text,
    /// A scalar that refers to another SV (`SVf_ROK`).
    Reference,
    /// A compiled regular expression.
    Regexp,
    /// A glob: a name of a package, or a handle.
    Glob,
    /// A scalar that stands for a part of something else.
    Lvalue,
    /// An array, an SV of the type `SVt_PVAV`.
    Array,
    /// A hash, an SV of the type `SVt_PVHV`.
    Hash,
    /// A sub, written in Perl or in C (`SVt_PVCV`).
    Code,
    /// A format, which `write` fills in (`SVt_PVFM`).
    Format,
    /// A file or directory.
    Io,
    /// An object of `use feature 'class'`, since 5.38.
    Object,
    /// A set of characters, the VM's own.
    InversionList,
}

/// The head of an SV that lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sv {
    /// Address of the head.
    pub address: u64,
    /// Address of its body (`sv_any`); without meaning where the type has none.
    pub(super) body: u64,
    /// Reference count of the SV (`sv_refcnt`).
    pub count: u32,
    pub(super) flags: u32,
    /// The last word of the head (`sv_u`).
    pub(super) union: u64,
}

impl Sv {
    /// Returns the type, an `svtype` of `sv.h`: the low bits of the flags.
    pub(super) fn kind(&self) -> u32 {
        self.flags & TYPE_BITS
    }

    /// Address of what a glob has under its name (its `GP`), which several globs may share (`*alias = *name`); `None` of what is no glob.
    pub fn slots(&self) -> Option<u64> {
        (self.sort() == Sort::Glob && self.union != 0).then_some(self.union)
    }

    pub(super) fn has(&self, flags: u32) -> bool {
        self.flags & flags != 0
    }

    /// Returns what it is, by its type and its flags.
    pub fn sort(&self) -> Sort {
        match self.kind() {
            TYPE_ARRAY => Sort::Array,
            TYPE_HASH => Sort::Hash,
            TYPE_CODE => Sort::Code,
            TYPE_FORMAT => Sort::Format,
            TYPE_IO => Sort::Io,
            TYPE_OBJECT => Sort::Object,
            TYPE_REGEXP => Sort::Regexp,
            TYPE_INVERSION_LIST => Sort::InversionList,
            TYPE_GLOB | TYPE_LVALUE if self.flags & (HAS_GP | PRIVATE_POK) == HAS_GP => Sort::Glob,
            TYPE_LVALUE => Sort::Lvalue,
            _ if self.has(ROK) => Sort::Reference,
            _ if self.has(POK) => Sort::Text,
            _ if self.has(IOK | NOK) => Sort::Number,
            _ => Sort::Undef,
        }
    }

    /// What it refers to, if it is a reference that counts.
    pub fn referent(&self) -> Option<u64> {
        let refers = matches!(self.sort(), Sort::Reference | Sort::Lvalue) && self.has(ROK);
        (refers && !self.has(WEAK) && self.union != 0).then_some(self.union)
    }

    /// Whether it belongs to a package: `bless` was called for it.
    pub fn is_blessed(&self) -> bool {
        self.has(OBJECT)
    }

    /// Whether it is a reference and nothing else, held once: then it can be told as a part of what holds it.
    pub fn is_plain_reference(&self) -> bool {
        self.sort() == Sort::Reference
            && self.count == 1
            && self.kind() <= TYPE_MAGICAL
            && !self.has(OBJECT | MAGICAL)
            && self.referent().is_some()
    }
}

impl<M: Memory> Perl<'_, M> {
    /// Returns where the variables of an interpreter are that lead to its heap. `symbol` returns the address of a symbol that perl or
    /// libperl exports.
    pub fn places(
        &self,
        interpreter: &Interpreter,
        symbol: &dyn Fn(&str) -> Option<u64>,
    ) -> Result<Places, Error> {
        if self.facts.has_threads() {
            let start = interpreter.stack_sp;
            let member = |offset: u64| start.wrapping_add(offset);
            let main_code = match self.layout.main_code {
                0 => 0,
                offset => self.memory.u64(member(offset))?,
            };
            let size = u64::from(self.layout.interpreter_size);
            return Ok(Places {
                arenas: member(self.layout.arenas),
                shared_keys: self.memory.u64(member(self.layout.shared_keys))?,
                main_code,
                variables: start..start.saturating_add(size),
            });
        }
        let need = |name: &'static str| symbol(name).ok_or(Error::Symbol(name));
        Ok(Places {
            arenas: need("PL_sv_arenaroot")?,
            shared_keys: self.memory.u64(need("PL_strtab")?)?,
            main_code: self.memory.u64(need("PL_main_cv")?)?,
            variables: 0..0,
        })
    }

    /// Reads the head of an SV; `None` where none lives.
    pub fn sv(&self, at: u64) -> Result<Option<Sv>, Fault> {
        let mut bytes = [0; HEAD as usize];
        self.memory.read(at, &mut bytes)?;
        let word = |from: u64| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[from as usize..from as usize + 8]);
            u64::from_le_bytes(word)
        };
        let half = |from: usize| {
            let mut half = [0; 4];
            half.copy_from_slice(&bytes[from..from + 4]);
            u32::from_le_bytes(half)
        };
        let sv = Sv {
            address: at,
            body: word(BODY),
            count: half(COUNT),
            flags: half(FLAGS as usize),
            union: word(UNION),
        };
        Ok((sv.count > 0 && sv.kind() != TYPE_BITS).then_some(sv))
    }

    /// Calls `each` with the addresses of the heads of each arena. `most` heads can be in the process, live or free.
    ///
    /// # Errors
    /// The arenas cannot be read to their end.
    pub fn each_arena(
        &self,
        places: &Places,
        most: u64,
        each: &mut dyn FnMut(Range<u64>),
    ) -> Result<(), Error> {
        let mut arena = self.memory.u64(places.arenas)?;
        let mut left = most;
        while arena != 0 {
            let next = self.memory.u64(arena)?;
            let heads = u64::from(self.memory.u32(arena.wrapping_add(COUNT as u64))?);
            let end = arena.saturating_add(heads.saturating_mul(HEAD));
            if !(1..=MOST_HEADS.min(left)).contains(&heads) || end == u64::MAX {
                return Err(Error::garbled("arena of SVs", arena));
            }
            left -= heads;
            each(arena + HEAD..end);
            arena = next;
        }
        Ok(())
    }

    /// Calls `each` for every SV that lives in an arena.
    ///
    /// # Errors
    /// The arena cannot be read to its end.
    pub fn each_sv(
        &self,
        arena: Range<u64>,
        each: &mut dyn FnMut(Sv) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        for at in arena.step_by(HEAD as usize) {
            if let Some(sv) = self.sv(at)?
                && each(sv).is_break()
            {
                break;
            }
        }
        Ok(())
    }
}

/// Whether an SV may be at an address within an arena.
pub fn is_head(arena: &Range<u64>, at: u64) -> bool {
    arena.contains(&at) && (at - arena.start).is_multiple_of(HEAD)
}
