//! Methods by name: from `Mysql2::Client#query` to the C function that does it, and how Ruby calls that. Used by
//! `names`, `held` and others here, and by crate `languages`.
//!
//! A name is looked up as Ruby would: constants from `Object` on, then the tables of methods (`m_tbl`) along
//! the line of ancestors, in which an included module has an iclass with that module's own table, and a class
//! that modules were prepended to has its table in an iclass of its own (its origin), so that a plain walk along
//! `super` meets all in Ruby's order (`search_method0`, `vm_method.c`).
//!
//! ```text
//!   rb_method_entry_t            rb_method_definition_t
//!   │ flags │ class │ def ─────▶ │ type… │ body: func, invoker, argc │     VM_METHOD_TYPE_CFUNC
//!   │ called_id │ owner │                │ iseq                      │     …_ISEQ
//!                                        │ entry                     │     …_ALIAS, …_REFINED
//! ```
//!
//! `method.h` and `constant.h`, alike in these fields from v2_7_4 to v4.0.5.

use super::class::LONGEST_LINE;
use super::error::Kind;
use super::object::{Imemo, Type, is_code, is_object};
use super::table::IdTable;
use super::{Error, Ruby};
use crate::Memory;

/// `def` and `owner` in `rb_method_entry_t`.
pub(super) const DEFINITION: u64 = 16;
pub(super) const OWNER: u64 = 32;
/// `type` in `rb_method_definition_t`: the lowest four bits. `body.cfunc.func`, `body.iseq.iseqptr`,
/// `body.alias.original_me`, `body.refined.orig_me`; `body.cfunc.argc`.
const TYPE: u64 = 0;
pub(super) const BODY: u64 = 8;
const ARGC: u64 = 24;

/// In `rb_proc_t`, which begins with a `struct rb_block` (`vm_core.h`): `as.captured.code.iseq`, and `type`, 0
/// where that is compiled code.
pub(super) const BLOCK_CODE: u64 = 16;
pub(super) const BLOCK_TYPE: u64 = 24;

/// Offset of `value` in `rb_const_entry_t`.
pub(super) const CONSTANT_VALUE: u64 = 8;

/// Aliases of aliases that are followed, at most.
const MOST_ALIASES: u32 = 16;

/// Names that are looked at for one that is wanted, at most. An application's `Object` has thousands of constants.
pub(super) const MOST_NAMES: u32 = 1 << 18;

/// Parameters of a C function that are in registers behind the receiver.
const IN_REGISTERS: u64 = 5;

/// How Ruby calls a C function: `argc` of `rb_define_method`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Convention {
    /// 0 to 15: `rdi` is the receiver, then so many arguments; those beyond the fifth are on the stack.
    Fixed(u8),
    /// -1: `rdi` is the number of arguments (32 bits), `rsi` points at them, `rdx` is the receiver.
    Arguments,
    /// -2: `rdi` is the receiver, `rsi` an Array of the arguments.
    Array,
}

impl Convention {
    fn of(argc: i32) -> Option<Convention> {
        Some(match argc {
            0..=15 => Convention::Fixed(argc as u8),
            -1 => Convention::Arguments,
            -2 => Convention::Array,
            _ => return None,
        })
    }

    /// Returns the receiver, from the registers at the function's entry: `rdi`, `rsi`, `rdx`, `rcx`, `r8`, `r9`.
    pub fn receiver(self, registers: [u64; 6]) -> u64 {
        match self {
            Convention::Arguments => registers[2],
            Convention::Fixed(_) | Convention::Array => registers[0],
        }
    }
}

/// A C function that Ruby knows by a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    /// The class or module that has the method; it may be an ancestor of the one that was named.
    pub owner: u64,
    /// Address of the C function.
    pub address: u64,
    /// How Ruby calls it.
    pub convention: Convention,
}

/// What a table of methods has for a name.
pub(super) enum Found {
    /// A `rb_method_definition_t`, and the class or module that has it.
    Definition { definition: u64, owner: u64 },
    /// The definition in an ancestor counts, so the search goes on there (`VM_METHOD_TYPE_ZSUPER`, or a refined method that this class did not
    /// have itself).
    Further,
    /// The method is undefined from here up.
    Undefined,
}

/// Which receivers a name of a method is about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    Instances,
    Itself,
}

/// The name of the C type of Proc objects (`proc_data_type`, `proc.c`).
const OF_PROCS: &[u8] = b"proc";

impl<M: Memory> Ruby<'_, M> {
    /// Returns the C function behind a method's name: `String#upcase` of instances, `Process.clock_gettime` of the
    /// module itself (or of whatever object the constant is: `ENV.fetch`), `sleep` of every object.
    ///
    /// Only what is loaded is found, and no refinements.
    pub fn function(&self, name: &str) -> Result<Function, Error> {
        let mut left = MOST_NAMES;
        let (path, of, method) = match name.find(['#', '.']) {
            Some(at) => {
                let of = if name[at..].starts_with('#') {
                    Of::Instances
                } else {
                    Of::Itself
                };
                (&name[..at], of, &name[at + 1..])
            }
            None if name.contains("::") => return Err(Error::NoMethodName),
            None => ("Object", Of::Instances, name),
        };
        if path.is_empty() || method.is_empty() {
            return Err(Error::NoMethodName);
        }
        let ruby = self.with_symbols()?;
        let value = ruby.constant_by(path, &mut left)?;
        let class = ruby.class_for(value, of)?;
        match ruby.method_in(class, method, &mut left)? {
            Some((definition, owner)) => ruby.c_function(definition, owner),
            None => {
                let other = match of {
                    Of::Instances => Of::Itself,
                    Of::Itself => Of::Instances,
                };
                let other_kind = match ruby.class_for(value, other) {
                    Ok(class) => ruby.method_in(class, method, &mut left)?.is_some(),
                    Err(_) => false,
                };
                Err(Error::NoMethod { class, other_kind })
            }
        }
    }

    /// Returns the value of a constant by its path: `Mysql2::Client`.
    pub fn constant(&self, path: &str) -> Result<u64, Error> {
        self.with_symbols()?.constant_by(path, &mut { MOST_NAMES })
    }

    fn constant_by(&self, path: &str, left: &mut u32) -> Result<u64, Error> {
        let mut value = self.facts.object();
        let mut known = 0;
        let mut begin = path.len() - path.strip_prefix("::").unwrap_or(path).len();
        for part in path[begin..].split("::") {
            if !matches!(self.type_of(value)?, Type::Class | Type::Module) {
                return Err(Error::NotAModule { value });
            }
            value = self
                .constant_of(value, part, left)?
                .ok_or(Error::NoConstant { known })?;
            known = begin + part.len();
            begin = known + 2;
            if value == self.undefined() {
                return Err(Error::NotLoaded { known });
            }
        }
        Ok(value)
    }

    /// Returns a constant of a class or its ancestors. Those of `Object` are found only from `Object` itself.
    fn constant_of(&self, class: u64, name: &str, left: &mut u32) -> Result<Option<u64>, Error> {
        let object = self.facts.object();
        let mut at = class;
        for _ in 0..LONGEST_LINE {
            if at == 0 || at == object && class != object {
                return Ok(None);
            }
            if let Some(entry) = self.entry_named(self.constants(at)?, name, left)? {
                return Ok(Some(self.memory.u64(entry.wrapping_add(CONSTANT_VALUE))?));
            }
            at = self.parent(at)?;
            spend(left)?;
        }
        Err(Error::garbled("line of ancestors", class))
    }

    /// Returns the class that has the methods: the value itself for its instances, its class for the value.
    fn class_for(&self, value: u64, of: Of) -> Result<u64, Error> {
        match of {
            Of::Instances => match self.type_of(value)? {
                Type::Class | Type::Module => Ok(value),
                _ => Err(Error::NotAModule { value }),
            },
            Of::Itself if is_object(value) => Ok(self.klass(value)?),
            Of::Itself => Err(Error::NotAModule { value }),
        }
    }

    /// Returns the definition of a method of a class or its ancestors, and its owner.
    fn method_in(
        &self,
        class: u64,
        name: &str,
        left: &mut u32,
    ) -> Result<Option<(u64, u64)>, Error> {
        let mut at = class;
        for _ in 0..LONGEST_LINE {
            if at == 0 {
                return Ok(None);
            }
            if !matches!(self.type_of(at)?, Type::Class | Type::Module | Type::Iclass) {
                return Err(Error::garbled("class or module", at));
            }
            if let Some(entry) = self.entry_named(self.methods(at)?, name, left)? {
                match self.definition(entry)? {
                    Found::Definition { definition, owner } => {
                        return Ok(Some((definition, owner)));
                    }
                    Found::Undefined => return Ok(None),
                    Found::Further => {}
                }
            }
            at = self.parent(at)?;
            spend(left)?;
        }
        Err(Error::garbled("line of ancestors", class))
    }

    fn entry_named(
        &self,
        table: IdTable<'_, M>,
        name: &str,
        left: &mut u32,
    ) -> Result<Option<u64>, Error> {
        for item in table {
            let (serial, entry) = item?;
            spend(left)?;
            if let Some(text) = self.serial_text(serial)?
                && self.is_text(text, name.as_bytes())?
            {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }

    /// Follows aliases from an entry to the definition that counts.
    pub(super) fn definition(&self, entry: u64) -> Result<Found, Error> {
        let mut at = entry;
        let owner = self.memory.u64(entry.wrapping_add(OWNER))?;
        for _ in 0..MOST_ALIASES {
            let flags = self.flags(at)?;
            if Type::of(flags) != Type::Imemo || self.imemo(flags) != Imemo::Ment {
                break;
            }
            let definition = self.memory.u64(at.wrapping_add(DEFINITION))?;
            if definition == 0 {
                return Ok(Found::Undefined);
            }
            match (self.kind(definition)?, self.body_of(definition)?) {
                (code::UNDEF, _) => return Ok(Found::Undefined),
                // The definition from before it was refined, if there was one.
                (code::ZSUPER, _) | (code::REFINED, 0) => return Ok(Found::Further),
                (code::ALIAS | code::REFINED, original) => at = original,
                _ => return Ok(Found::Definition { definition, owner }),
            }
        }
        Err(Error::garbled("method", at))
    }

    pub(super) fn c_function(&self, definition: u64, owner: u64) -> Result<Function, Error> {
        let body = self.body_of(definition)?;
        Err(match self.kind(definition)? {
            code::CFUNC => {
                let argc = self.memory.u32(definition.wrapping_add(ARGC))? as i32;
                let convention =
                    Convention::of(argc).ok_or(Error::garbled("method", definition))?;
                return Ok(Function {
                    owner,
                    address: body,
                    convention,
                });
            }
            code::ISEQ => Error::WrittenInRuby { iseq: body },
            code::IVAR => Error::NotInC(Kind::Reader),
            code::ATTRSET => Error::NotInC(Kind::Writer),
            code::BMETHOD => match self.block_code(body)? {
                Some(iseq) => Error::WrittenInRuby { iseq },
                None => Error::NotInC(Kind::Block),
            },
            code::NOTIMPLEMENTED => Error::NotInC(Kind::NotImplemented),
            code::OPTIMIZED => Error::NotInC(Kind::Optimized),
            code::MISSING => Error::NotInC(Kind::Missing),
            _ => Error::garbled("method", definition),
        })
    }

    fn kind(&self, definition: u64) -> Result<u32, Error> {
        Ok(self.memory.u32(definition.wrapping_add(TYPE))? & 0xf)
    }

    fn body_of(&self, definition: u64) -> Result<u64, Error> {
        Ok(self.memory.u64(definition.wrapping_add(BODY))?)
    }

    /// Returns the code of an object, if it is a Proc that is a block written in Ruby.
    pub fn code_of_proc(&self, object: u64) -> Option<u64> {
        let (_, name) = self.data_type(object).ok()??;
        let mut text = [0; OF_PROCS.len() + 1];
        let length = self.copy_c_text(name, &mut text).ok()?;
        match &text[..length] == OF_PROCS {
            true => self.block_code(object).ok()?,
            false => None,
        }
    }

    /// Returns the code of a Proc that is a block written in Ruby.
    fn block_code(&self, proc: u64) -> Result<Option<u64>, Error> {
        if self.type_of(proc)? != Type::Data {
            return Err(Error::garbled("Proc", proc));
        }
        let block = self.structure(proc)?;
        if self.memory.u32(block.wrapping_add(BLOCK_TYPE))? != 0 {
            return Ok(None);
        }
        let iseq = self.memory.u64(block.wrapping_add(BLOCK_CODE))?;
        let flags = self.flags(iseq)?;
        Ok(is_code(flags).then_some(iseq))
    }

    /// Returns how many arguments there are, how many of them can be read, and where.
    pub(super) fn arguments(
        &self,
        convention: Convention,
        registers: [u64; 6],
    ) -> Result<Arguments, Error> {
        Ok(match convention {
            Convention::Fixed(count) => Arguments::Registers {
                count: u64::from(count),
                at_hand: u64::from(count).min(IN_REGISTERS),
            },
            Convention::Arguments => Arguments::Memory {
                address: registers[1],
                count: u64::from(registers[0] as u32),
            },
            Convention::Array => {
                let elements = self.elements(registers[1])?;
                Arguments::Memory {
                    address: elements.address,
                    count: elements.len,
                }
            }
        })
    }
}

/// Where the arguments of a call are.
pub(super) enum Arguments {
    /// In the registers from the second on, as far as they reach.
    Registers { count: u64, at_hand: u64 },
    /// In memory, one after the other.
    Memory { address: u64, count: u64 },
}

pub(super) fn spend(left: &mut u32) -> Result<(), Error> {
    *left = left
        .checked_sub(1)
        .ok_or(Error::garbled("table of names", 0))?;
    Ok(())
}

/// `rb_method_type_t` (`method.h`), alike in all seven versions.
pub(super) mod code {
    pub const ISEQ: u32 = 0;
    pub const CFUNC: u32 = 1;
    pub const ATTRSET: u32 = 2;
    pub const IVAR: u32 = 3;
    pub const BMETHOD: u32 = 4;
    pub const ZSUPER: u32 = 5;
    pub const ALIAS: u32 = 6;
    pub const UNDEF: u32 = 7;
    pub const NOTIMPLEMENTED: u32 = 8;
    pub const OPTIMIZED: u32 = 9;
    pub const MISSING: u32 = 10;
    pub const REFINED: u32 = 11;
}
