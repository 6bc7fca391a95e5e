//! What an object is by its class: how it lies in memory, where that matters to whoever walks the heap. Used by
//! `references`, `sizes` and others here, and by the crates `languages` and `agent`.
//!
//! A class made in Python inherits how its objects lie from a class made in C, the first one above it that is no heap type; that one's
//! name says what the object is (`Objects/*.c`, alike in CPython 3.9 to 3.15).

use super::class::{BASE, LONGEST_NAME, MOST_BASES};
use super::extra_sizes::Beside;
use super::object::{BASIC_SIZE, Builtin, HEAP_TYPE};
use super::{Error, Python};
use crate::Memory;

/// `tp_itemsize`, `tp_members` in `PyTypeObject` (`cpython/object.h`).
const ITEM_SIZE: u64 = 40;
const MEMBERS: u64 = 240;
/// `tp_del`, `tp_finalize` (the same).
const DEL: u64 = 376;
const FINALIZE: u64 = 392;
/// `PyMemberDef` (`structmember.h`, since 3.12 `descrobject.h`): name, type and offset; its size.
const MEMBER_TYPE: u64 = 8;
const MEMBER_OFFSET: u64 = 16;
const MEMBER: u64 = 40;
/// `T_OBJECT` and `T_OBJECT_EX`, since 3.12 `_Py_T_OBJECT` and `Py_T_OBJECT_EX`: an object or nothing.
const OBJECTS: [u32; 2] = [6, 16];
/// Members of one class that are read.
const MOST_MEMBERS: u64 = 1024;

/// What an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each is the builtin type of that name")]
pub enum Sort {
    Int,
    Str,
    Bytes,
    ByteArray,
    List,
    Tuple,
    Dict,
    /// A `set` or a `frozenset`, which lie in memory alike.
    Set,
    Type,
    Module,
    Function,
    Code,
    Cell,
    Frame,
    /// `generator`, `coroutine` and `async_generator`.
    Generator,
    /// An instance of a class made in Python whose first class made in C is `object`.
    Instance,
    /// An object of any other class made in C, or of one below it.
    Other,
}

/// The class of an object, as far as a walk over the heap must know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Address of the class, a `PyTypeObject`.
    pub class: u64,
    /// The class made in C that its objects lie in memory as.
    pub native: u64,
    /// What its objects are.
    pub sort: Sort,
    /// What its objects have beside themselves.
    pub beside: Beside,
    pub(super) basic: u64,
    pub(super) item: u64,
    pub(super) flags: u64,
}

impl Kind {
    /// Whether objects of this kind may have a dict of attributes: those of classes made at run time.
    pub fn may_have_dict(&self) -> bool {
        self.flags & HEAP_TYPE != 0
    }
}

impl<M: Memory> Python<'_, M> {
    /// Returns what objects of a class are.
    pub fn kind(&self, class: u64) -> Result<Kind, Error> {
        let word = |at: u64| self.memory.u64(class.wrapping_add(at));
        let flags = self.flags(class)?;
        let native = self.native(class)?;
        let sort = self.sort(native, flags)?;
        let beside = match sort {
            // Where C code has a name of its own for what lies in its objects; since 3.12 most classes made in C are heap types, too.
            Sort::Dict | Sort::Instance | Sort::Other => self.beside(class)?,
            _ => Beside::Nothing,
        };
        Ok(Kind {
            class,
            native,
            sort,
            beside,
            basic: word(BASIC_SIZE)?,
            item: word(ITEM_SIZE)?,
            flags,
        })
    }

    /// Returns whether objects of a class have a finalizer of the program's: a `__del__` of a class made in Python (`tp_finalize`,
    /// which generators and files have in C too), or the old `tp_del`.
    pub fn has_finalizer(&self, kind: &Kind) -> Result<bool, Error> {
        let word = |class: u64, at: u64| self.memory.u64(class.wrapping_add(at));
        if kind.flags & HEAP_TYPE == 0 {
            return Ok(false);
        }
        let finalize = word(kind.class, FINALIZE)?;
        let inherited = word(kind.native, FINALIZE)?;
        let is_own = finalize != 0 && (finalize != inherited || kind.native == kind.class);
        Ok(is_own || word(kind.class, DEL)? != 0)
    }

    /// Returns the first class made in C above a class, or the class itself.
    fn native(&self, class: u64) -> Result<u64, Error> {
        let mut native = class;
        for _ in 0..MOST_BASES {
            if self.flags(native)? & HEAP_TYPE == 0 {
                return Ok(native);
            }
            match self.memory.u64(native.wrapping_add(BASE))? {
                0 => return Ok(native),
                base => native = base,
            }
        }
        Err(Error::garbled("class", class))
    }

    fn sort(&self, native: u64, flags: u64) -> Result<Sort, Error> {
        let builtin = Builtin::ALL
            .into_iter()
            .find(|builtin| flags & builtin.flag() != 0);
        if let Some(builtin) = builtin {
            return Ok(match builtin {
                Builtin::Int => Sort::Int,
                Builtin::List => Sort::List,
                Builtin::Tuple => Sort::Tuple,
                Builtin::Bytes => Sort::Bytes,
                Builtin::Str => Sort::Str,
                Builtin::Dict => Sort::Dict,
                Builtin::Type => Sort::Type,
            });
        }
        let types = self.facts.types();
        Ok(match native {
            at if at == types.code => Sort::Code,
            at if at == types.module => Sort::Module,
            at if at == types.function => Sort::Function,
            at if at == types.bytearray => Sort::ByteArray,
            _ => match self.raw_name(native, &mut [0; LONGEST_NAME])? {
                b"set" | b"frozenset" => Sort::Set,
                b"cell" => Sort::Cell,
                b"frame" => Sort::Frame,
                b"generator" | b"coroutine" | b"async_generator" => Sort::Generator,
                b"object" => Sort::Instance,
                _ => Sort::Other,
            },
        })
    }

    /// Calls `each` with offset and name (a C string) of each member of the objects of a class that is an object: its `__slots__`, and
    /// what its C code has declared in `tp_members`, those of the classes above it too.
    pub fn each_member(&self, class: u64, each: &mut dyn FnMut(u64, &[u8])) -> Result<(), Error> {
        let mut class = class;
        for _ in 0..MOST_BASES {
            if class == 0 {
                return Ok(());
            }
            let mut at = self.memory.u64(class.wrapping_add(MEMBERS))?;
            for _ in 0..MOST_MEMBERS {
                if at == 0 {
                    break;
                }
                let name = self.memory.u64(at)?;
                if name == 0 {
                    break;
                }
                if OBJECTS.contains(&self.memory.u32(at.wrapping_add(MEMBER_TYPE))?) {
                    let offset = self.memory.u64(at.wrapping_add(MEMBER_OFFSET))?;
                    each(offset, self.c_string(name, &mut [0; LONGEST_NAME])?);
                }
                at = at.wrapping_add(MEMBER);
            }
            class = self.memory.u64(class.wrapping_add(BASE))?;
        }
        Err(Error::garbled("class", class))
    }
}
