//! Subs by name: the symbol tables. Used by `heap::references` and `ops`, and by `languages::perl::functions`.
//!
//! A package is a hash (a *stash*) from names to globs. `PL_defstash` is the package `main`, and a package within
//! a package is the hash of the glob whose name ends in `::`:
//!
//! ```text
//!   PL_defstash ─ "DBD::" ─ "mysql::" ─ "db::" ─ "_login" ──▶ GV ─ GP ─ gp_cv ──▶ CV ─ xcv_xsub ──▶ C function
//! ```
//!
//! Hashes are walked whole: the order of their keys depends on a seed, and a package has few. Offsets:
//! `hv.h`, `gv.h`, `cv.h`, the same in all versions.

use core::ops::ControlFlow;

use super::interpreter::Interpreter;
use super::name::{CODE_FLAGS, HASH_MAX, MOST_BUCKETS, TYPE_BITS, TYPE_CODE, TYPE_HASH, UNION};
use super::{Error, Perl, Text};
use crate::{Fault, Memory};

/// `hent_next`, `hent_hek` and `hent_val` in `struct he`.
const ENTRY_NEXT: u64 = 0;
const ENTRY_KEY: u64 = 8;
const ENTRY_VALUE: u64 = 16;

/// `gp_cv`, `gp_cvgen` and `gp_hv` in `struct gp`.
pub(super) const GP_CODE: u64 = 16;
const GP_CODE_GENERATION: u64 = 24;
pub(super) const GP_HASH: u64 = 32;

/// `xcv_root_u` (`xcv_root` or `xcv_xsub`) in `struct xpvcv`; `CVf_ISXSUB`.
const CODE_ROOT: u64 = 48;
pub(super) const IS_XSUB: u32 = 8;

/// `SVf_ROK`: the SV is a reference.
const IS_REFERENCE: u32 = 0x800;

/// Entries and empty buckets of a symbol table that are looked at.
const MOST_STEPS: u64 = 1 << 18;

/// What a sub's name leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sub {
    /// A sub written in C.
    C(Xsub),
    /// A sub written in Perl.
    Perl {
        /// Address of its `CV`.
        code: u64,
    },
    /// A declaration without a definition.
    Declared,
}

/// A sub written in C.
///
/// Several subs may share one function and tell themselves apart by their `CV` (all methods of DBI do: `DBI::db::do` is
/// `XS_DBI_dispatch`). The function is called as `void f(PerlInterpreter *, CV *)`, without threads as `void f(CV *)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Xsub {
    /// Address of its `CV`. Each interpreter of a Perl with threads has its own.
    pub code: u64,
    /// Address of the C function.
    pub address: u64,
}

impl<M: Memory> Perl<'_, M> {
    /// Returns the sub of this name, such as `DBD::mysql::db::_login`; without a package it is searched for in `main`.
    /// Only what is defined under the very name is found, not what the package inherits.
    pub fn sub(&self, interpreter: &Interpreter, name: &str) -> Result<Sub, Error> {
        let (package, last) = name.rsplit_once("::").unwrap_or(("", name));
        let stash = self.stash(interpreter, package)?;
        match self.entry(stash, last, "")? {
            Some(value) => self.sub_of(value)?.ok_or(Error::NoSub),
            None => Err(Error::NoSub),
        }
    }

    /// Returns the C function of a sub.
    pub fn xsub(&self, interpreter: &Interpreter, name: &str) -> Result<Xsub, Error> {
        match self.sub(interpreter, name)? {
            Sub::C(xsub) => Ok(xsub),
            Sub::Perl { .. } => Err(Error::WrittenInPerl),
            Sub::Declared => Err(Error::NotDefined),
        }
    }

    /// Calls `each` with the name of every sub of a package (`""` is `main`), to look for near names.
    pub fn each_sub(
        &self,
        interpreter: &Interpreter,
        package: &str,
        each: &mut dyn FnMut(Text, Sub) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let stash = self.stash(interpreter, package)?;
        self.each_entry(stash, &mut |name, value| {
            // Entries that are no sub, or not readable, are passed over.
            match self.sub_of(value) {
                Ok(Some(sub)) => Ok(each(name, sub)),
                _ => Ok(ControlFlow::Continue(())),
            }
        })
    }

    /// Calls `each` with the name of every package in a package, as far as one is: `DBD::` in `""`.
    pub fn each_package(
        &self,
        interpreter: &Interpreter,
        package: &str,
        each: &mut dyn FnMut(Text) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let stash = self.stash(interpreter, package)?;
        self.each_entry(stash, &mut |name, _| {
            let ends = name.len.checked_sub(2).map(|len| Text {
                address: name.address.wrapping_add(len),
                len: 2,
                ..name
            });
            match ends {
                Some(end) if self.says(end, b"::")? => Ok(each(Text {
                    len: name.len - 2,
                    ..name
                })),
                _ => Ok(ControlFlow::Continue(())),
            }
        })
    }

    /// Returns the hash of a package.
    fn stash(&self, interpreter: &Interpreter, package: &str) -> Result<u64, Error> {
        let mut stash = self.memory.u64(interpreter.defstash)?;
        for part in package.split("::").filter(|part| !part.is_empty()) {
            let glob = self.entry(stash, part, "::")?.ok_or(Error::NoPackage)?;
            let gp = self.glob(glob)?.ok_or(Error::NoPackage)?;
            stash = match self.memory.u64(gp.wrapping_add(GP_HASH))? {
                0 => return Err(Error::NoPackage),
                stash => stash,
            };
        }
        Ok(stash)
    }

    /// Returns the value in a stash under the key `name` + `suffix`.
    fn entry(&self, stash: u64, name: &str, suffix: &str) -> Result<Option<u64>, Error> {
        let mut found = None;
        self.each_entry(stash, &mut |key, value| {
            let split = name.len() as u64;
            let same = key.len == split + suffix.len() as u64
                && self.says(Text { len: split, ..key }, name.as_bytes())?
                && self.says(
                    Text {
                        address: key.address.wrapping_add(split),
                        len: suffix.len() as u64,
                        ..key
                    },
                    suffix.as_bytes(),
                )?;
            Ok(if same {
                found = Some(value);
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            })
        })?;
        Ok(found)
    }

    fn each_entry(
        &self,
        hash: u64,
        each: &mut dyn FnMut(Text, u64) -> Result<ControlFlow<()>, Error>,
    ) -> Result<(), Error> {
        self.each_of_hash(hash, MOST_STEPS, &mut |key, value| {
            each(self.hek(key)?, value)
        })
    }

    /// Calls `each` with key (a `HEK`) and value of every entry of a hash, of which at most so many entries and empty buckets are looked at.
    pub(super) fn each_of_hash(
        &self,
        hash: u64,
        most: u64,
        each: &mut dyn FnMut(u64, u64) -> Result<ControlFlow<()>, Error>,
    ) -> Result<(), Error> {
        if self.flags(hash)? & TYPE_BITS != TYPE_HASH {
            return Err(Error::garbled("hash", hash));
        }
        let array = self.memory.u64(hash.wrapping_add(UNION))?;
        let max = self.memory.u64(self.body(hash)?.wrapping_add(HASH_MAX))?;
        if array == 0 {
            return Ok(());
        }
        if max >= MOST_BUCKETS {
            return Err(Error::garbled("hash", hash));
        }
        let mut steps = 0;
        for bucket in 0..=max {
            let mut entry = self.memory.u64(array.wrapping_add(bucket * 8))?;
            while entry != 0 {
                let key = self.memory.u64(entry.wrapping_add(ENTRY_KEY))?;
                let value = self.memory.u64(entry.wrapping_add(ENTRY_VALUE))?;
                if each(key, value)?.is_break() {
                    return Ok(());
                }
                entry = self.memory.u64(entry.wrapping_add(ENTRY_NEXT))?;
                steps += 1;
                if steps > most {
                    return Err(Error::garbled("hash", hash));
                }
            }
            steps += 1;
            if steps > most {
                return Err(Error::garbled("hash", hash));
            }
        }
        Ok(())
    }

    /// Returns the sub that an entry of a stash leads to; `None` if it leads to none. An entry is a glob, or, to save
    /// memory, a reference to a `CV`, or a declaration's prototype.
    fn sub_of(&self, value: u64) -> Result<Option<Sub>, Fault> {
        if value == 0 {
            return Ok(None);
        }
        let code = match self.glob(value)? {
            Some(gp) => {
                // A value with a generation is a method that was found in an ancestor, not one of this package.
                if self.memory.u32(gp.wrapping_add(GP_CODE_GENERATION))? != 0 {
                    return Ok(None);
                }
                self.memory.u64(gp.wrapping_add(GP_CODE))?
            }
            None if self.flags(value)? & IS_REFERENCE != 0 => {
                let code = self.memory.u64(value.wrapping_add(UNION))?;
                if code != 0 && self.flags(code)? & TYPE_BITS == TYPE_CODE {
                    code
                } else {
                    // A constant is no sub.
                    return Ok(None);
                }
            }
            None => return Ok(Some(Sub::Declared)),
        };
        if code == 0 {
            return Ok(None);
        }
        let body = self.body(code)?;
        let root = self.memory.u64(body.wrapping_add(CODE_ROOT))?;
        let is_c = self.memory.u32(body.wrapping_add(CODE_FLAGS))? & IS_XSUB != 0;
        Ok(Some(match (root, is_c) {
            (0, _) => Sub::Declared,
            (address, true) => Sub::C(Xsub { code, address }),
            (_, false) => Sub::Perl { code },
        }))
    }
}
