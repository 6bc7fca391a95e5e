//! The types of objects, and which objects `ObjectSpace.each_object` shows. Used by `function`, `references` and others
//! here, and by the crates `languages` and `agent`.
//!
//! `struct RBasic` (`include/ruby/internal/core/rbasic.h`; 2.7: `include/ruby/ruby.h`) begins every
//! object: flags at 0, class at 8. The low five flag bits are the type (`enum ruby_value_type`), the
//! user flags begin at bit 12 (`FL_USHIFT`); an imemo, an object of the VM's own, keeps its subtype
//! there (`enum imemo_type`, `internal/imemo.h`; 2.7: `internal.h`).

use super::layout::Imemos;
use super::{Error, Ruby};
use crate::{Fault, Memory};

/// `flags` and `klass` of `struct RBasic`.
pub(super) const FLAGS: u64 = 0;
pub(super) const KLASS: u64 = 8;

/// `imemo_iseq`.
const CODE: u64 = 7;

/// `FL_USHIFT`: the number of the first user flag.
pub(super) const USER_SHIFT: u32 = 12;

macro_rules! types {
    ($($(#[$doc:meta])* $variant:ident = $code:literal $name:literal;)*) => {
        /// The type of the object in a slot: `enum ruby_value_type` (`include/ruby/internal/value_type.h`; 2.7: `include/ruby/ruby.h`).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Type {
            $($(#[$doc])* $variant,)*
            /// A code that no Ruby uses.
            Unknown,
        }

        impl Type {
            /// Returns the type in an object's flags.
            #[inline]
            pub fn of(flags: u64) -> Type {
                match flags & 0x1f {
                    $($code => Type::$variant,)*
                    _ => Type::Unknown,
                }
            }

            /// Returns the name of an object of this type that has no class to be named by.
            pub fn hidden_name(self) -> &'static str {
                match self {
                    $(Type::$variant => concat!("__", $name, "__"),)*
                    Type::Unknown => "__unknown__",
                }
            }
        }
    };
}

types! {
    /// `T_NONE`: the slot is empty.
    None = 0x00 "none";
    /// `T_OBJECT`: an object that holds nothing but instance variables.
    Object = 0x01 "object";
    /// `T_CLASS`: a class, perhaps a singleton class.
    Class = 0x02 "class";
    /// `T_MODULE`: a module that is no class.
    Module = 0x03 "module";
    /// `T_FLOAT`: a Float too wide to be an immediate value.
    Float = 0x04 "float";
    /// `T_STRING`: a String, or an instance of a class below it.
    String = 0x05 "string";
    /// `T_REGEXP`: a Regexp, or an instance of a class below it.
    Regexp = 0x06 "regexp";
    /// `T_ARRAY`: an Array, or an instance of a class below it.
    Array = 0x07 "array";
    /// `T_HASH`: a Hash, or an instance of a class below it.
    Hash = 0x08 "hash";
    /// `T_STRUCT`: an instance of a class made by Struct or Data, or a Range.
    Struct = 0x09 "struct";
    /// `T_BIGNUM`: an Integer too wide to be an immediate value.
    Bignum = 0x0a "bignum";
    /// `T_FILE`: an IO, or an instance of a class below it, as files and sockets are.
    File = 0x0b "file";
    /// `T_DATA`: an object around a C structure.
    Data = 0x0c "data";
    /// `T_MATCH`: a MatchData, the result of a search by a Regexp.
    Match = 0x0d "match";
    /// `T_COMPLEX`: a Complex, a number of two parts.
    Complex = 0x0e "complex";
    /// `T_RATIONAL`: a Rational, a fraction of Integers.
    Rational = 0x0f "rational";
    /// `T_SYMBOL`: a Symbol made at run time.
    Symbol = 0x14 "symbol";
    /// `T_IMEMO`: an object of the VM's own.
    Imemo = 0x1a "imemo";
    /// `T_NODE`: a syntax tree node.
    Node = 0x1b "node";
    /// `T_ICLASS`: a module's place in a class's line of ancestors.
    Iclass = 0x1c "iclass";
    /// `T_ZOMBIE`: an object that is dead but whose finalizer has yet to run.
    Zombie = 0x1d "zombie";
    /// `T_MOVED`: a forwarding address, because compaction has moved the object.
    Moved = 0x1e "moved";
}

macro_rules! imemos {
    ($($(#[$doc:meta])* $variant:ident = $code:pat, $name:literal;)*) => {
        /// The purpose of an object of the VM's own: `enum imemo_type`. [`Ruby::imemo`] tells it: the codes from 9 on have other meanings
        /// since 4.0.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Imemo {
            $($(#[$doc])* $variant,)*
            /// A code that no Ruby uses.
            Unknown,
        }

        impl Imemo {
            /// Returns the subtype in the flags of an object of [`Type::Imemo`], of a VM with these subtypes.
            #[inline]
            pub fn of(flags: u64, imemos: Imemos) -> Imemo {
                match (flags >> USER_SHIFT & 0xf, imemos) {
                    $($code => Imemo::$variant,)*
                    _ => Imemo::Unknown,
                }
            }

            /// Returns the name of such an object, which has no class.
            pub fn name(self) -> &'static str {
                match self {
                    $(Imemo::$variant => concat!("__imemo:", $name, "__"),)*
                    Imemo::Unknown => "__imemo__",
                }
            }
        }
    };
}

imemos! {
    /// Local variables that outlive their frame.
    Env = (0, _), "env";
    /// A scope in which constants are looked up.
    Cref = (1, _), "cref";
    /// Special variables such as `$~`.
    Svar = (2, _), "svar";
    /// The state of a `break`, `return` or `throw` on its way.
    ThrowData = (3, _), "throw_data";
    /// A block written in C.
    Ifunc = (4, _), "ifunc";
    /// Temporary values of C code.
    Memo = (5, _), "memo";
    /// A method's entry in a class (`rb_method_entry_t`).
    Ment = (6, _), "ment";
    /// Compiled code of a method, block, class or file (`rb_iseq_t`).
    Iseq = (7, _), "iseq";
    /// A buffer that the collector knows.
    Tmpbuf = (8, _), "tmpbuf";
    /// A syntax tree (`rb_ast_t`), mostly of code that is being compiled.
    Ast = (9, Imemos::Parser), "ast";
    /// A here document being read.
    ParserStrterm = (10, Imemos::Parser), "parser_strterm";
    /// The arguments of a call site.
    Callinfo = (11, Imemos::Parser) | (10, Imemos::Fields), "callinfo";
    /// The method that a call site found last.
    Callcache = (12, Imemos::Parser) | (11, Imemos::Fields), "callcache";
    /// The value of a constant that a code point found last.
    Constcache = (13, Imemos::Parser) | (12, Imemos::Fields), "constcache";
    /// A class variable that a code point found last.
    CvarEntry = (9, Imemos::Fields), "cvar_entry";
    /// The instance variables of a class, or of an object that has no place for them.
    Fields = (13, Imemos::Fields), "fields";
}

/// Returns whether flags are those of compiled code, an `rb_iseq_t`. Its subtype is the same in all versions.
#[inline]
pub fn is_code(flags: u64) -> bool {
    Type::of(flags) == Type::Imemo && flags >> USER_SHIFT & 0xf == CODE
}

/// Returns whether a `VALUE` is a pointer to an object and not an immediate value.
#[inline]
pub(super) fn is_object(value: u64) -> bool {
    value & 7 == 0 && value > 0x40
}

impl<M: Memory> Ruby<'_, M> {
    /// Returns the subtype in the flags of an object of [`Type::Imemo`].
    #[inline]
    pub fn imemo(&self, flags: u64) -> Imemo {
        Imemo::of(flags, self.layout.imemos)
    }

    /// Returns an object's flags; [`Type::of`] and [`Ruby::imemo`] decode them.
    #[inline]
    pub fn flags(&self, object: u64) -> Result<u64, Fault> {
        self.memory.u64(object.wrapping_add(FLAGS))
    }

    /// Returns the word at which objects have their class. It may be 0 (hidden object), a singleton class or an iclass;
    /// an imemo may keep something else there, which must not be followed.
    #[inline]
    pub fn klass(&self, object: u64) -> Result<u64, Fault> {
        self.memory.u64(object.wrapping_add(KLASS))
    }

    /// Returns whether `ObjectSpace.each_object` passes this object over: `rb_objspace_internal_object_p` (`gc.c`),
    /// alike in all seven versions.
    ///
    /// Singleton classes of classes are passed over unless a singleton class was made of theirs too
    /// (`rb_singleton_class_internal_p`, `class.c`). Once a second Ractor exists `each_object` shows only shareable
    /// objects, which is not decided here.
    pub fn is_internal(&self, object: u64) -> Result<bool, Error> {
        let flags = self.flags(object)?;
        Ok(match Type::of(flags) {
            Type::None
            | Type::Moved
            | Type::Imemo
            | Type::Iclass
            | Type::Zombie
            | Type::Node
            | Type::Unknown => true,
            Type::Class => {
                let klass = self.klass(object)?;
                klass == 0
                    || flags & self.layout.class.singleton != 0
                        && self.type_of(self.attached(object)?)? == Type::Class
                        && self.attached(klass)? != object
            }
            _ => self.klass(object)? == 0,
        })
    }

    /// Returns the type of a `VALUE`; [`Type::None`] for an immediate one.
    pub(super) fn type_of(&self, value: u64) -> Result<Type, Fault> {
        if is_object(value) {
            Ok(Type::of(self.flags(value)?))
        } else {
            Ok(Type::None)
        }
    }

    /// Returns the address to which compaction has moved the object at `object`, if it did (`rb_gc_location`, `gc.c`).
    pub fn moved_to(&self, object: u64) -> Result<Option<u64>, Fault> {
        Ok(match Type::of(self.flags(object)?) {
            Type::Moved => Some(
                self.memory
                    .u64(object.wrapping_add(self.layout.heap.moved_to))?,
            ),
            _ => None,
        })
    }
}
