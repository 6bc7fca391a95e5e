//! Names of packages, globs and subs. Used by `heap::arenas`, `heap::size`, `value` and others.
//!
//! ```text
//!   CV ─ body ─ xcv_gv_u ──▶ GV ─ body ─ xiv_u.xivu_namehek ──▶ HEK "name"
//!                            │     └── xnv_u.xgv_stash ──▶ HV, the package ─ aux ─ name ──▶ HEK "Package"
//!                            └─ GP ─ gp_egv: the glob under its first name, where it has several
//! ```
//!
//! A sub may instead carry its name itself (`CVf_NAMED`, `xcv_hek`). Offsets: `sv.h`, `gv.h`, `cv.h`,
//! `hv.h`, the same in all versions.

use core::fmt::Write;

use super::{Error, Perl, Text};
use crate::{Fault, Memory, bytes};

/// `sv_any` (the body), `sv_flags` and `sv_u` of an SV.
pub(super) const BODY: u64 = 0;
pub(super) const FLAGS: u64 = 12;
pub(super) const UNION: u64 = 16;

/// `SVTYPEMASK` and the types (`svtype`) of inversion list, the largest scalar, compiled regular expression, glob, lvalue, array, hash, code,
/// format, file and (since 5.38) object.
pub(super) const TYPE_BITS: u32 = 0xff;
pub(super) const TYPE_INVERSION_LIST: u32 = 4;
pub(super) const TYPE_MAGICAL: u32 = 7;
pub(super) const TYPE_REGEXP: u32 = 8;
pub(super) const TYPE_GLOB: u32 = 9;
pub(super) const TYPE_LVALUE: u32 = 10;
pub(super) const TYPE_ARRAY: u32 = 11;
pub(super) const TYPE_HASH: u32 = 12;
pub(super) const TYPE_CODE: u32 = 13;
pub(super) const TYPE_FORMAT: u32 = 14;
pub(super) const TYPE_IO: u32 = 15;
pub(super) const TYPE_OBJECT: u32 = 16;

/// `SVpgv_GP`, which with `SVp_POK` off says that a glob is a glob (`isGV_with_GP`).
pub(super) const HAS_GP: u32 = 0x8000;
pub(super) const PRIVATE_POK: u32 = 0x4000;

/// `SVf_OOK`, since 5.38 called `SVphv_HasAUX`: the hash has a `struct xpvhv_aux`.
pub(super) const HAS_AUX: u32 = 0x0200_0000;

/// `xhv_max` in `struct xpvhv`; where the aux begins in the body; `xhv_name_u` and `xhv_name_count` in it.
pub(super) const HASH_MAX: u64 = 24;
const AUX_IN_BODY: u64 = 32;
const AUX_NAME: u64 = 0;
const AUX_NAME_COUNT: u64 = 28;

/// Buckets of a hash; a larger number is taken for garbage.
pub(super) const MOST_BUCKETS: u64 = 1 << 32;

/// `xgv_stash` and `xivu_namehek` in `struct xpvgv`; `gp_egv` in `struct gp`.
const GLOB_STASH: u64 = 40;
const GLOB_NAME: u64 = 32;
const GP_EGV: u64 = 56;

/// `xcv_stash`, `xcv_gv_u` and `xcv_flags` in `struct xpvcv`.
const CODE_STASH: u64 = 32;
const CODE_NAME: u64 = 56;
pub(super) const CODE_FLAGS: u64 = 92;
/// `xcv_start` in `struct xpvcv`: the operation with which a sub of Perl code begins.
pub(super) const CODE_START: u64 = 40;

/// `CVf_NAMED`: the sub has a name without a glob, and `CVf_LEXICAL`: it is a `my sub`; `cv.h`.
const NAMED: u32 = 0x8000;
const LEXICAL: u32 = 0x1_0000;

/// `hek_len` and `hek_key` in `struct hek`. A byte of flags comes after the text and a NUL; its lowest bit
/// is `HVhek_UTF8`.
const HEK_LEN: u64 = 4;
const HEK_KEY: u64 = 8;
const HEK_UTF8: u8 = 1;

/// Bytes of a name; a longer one is taken for garbage.
const LONGEST_NAME: u64 = 1 << 16;

impl<M: Memory> Perl<'_, M> {
    /// Returns the text of a `HEK`, a shared string.
    pub(super) fn hek(&self, hek: u64) -> Result<Text, Error> {
        let len = u64::from(self.memory.u32(hek.wrapping_add(HEK_LEN))?);
        if len > LONGEST_NAME {
            return Err(Error::garbled("name", hek));
        }
        let address = hek.wrapping_add(HEK_KEY);
        let flags = self.memory.u8(address.wrapping_add(len + 1))?;
        Ok(Text {
            address,
            len,
            latin1: flags & HEK_UTF8 == 0,
        })
    }

    /// Returns the flags of an SV of any kind.
    pub(super) fn flags(&self, sv: u64) -> Result<u32, Fault> {
        self.memory.u32(sv.wrapping_add(FLAGS))
    }

    /// Returns the body of an SV of any kind.
    pub(super) fn body(&self, sv: u64) -> Result<u64, Fault> {
        self.memory.u64(sv.wrapping_add(BODY))
    }

    /// Returns the `struct xpvhv_aux` of a hash that has one ([`HAS_AUX`]).
    pub(super) fn aux(&self, hash: u64) -> Result<u64, Error> {
        let body = self.body(hash)?;
        if self.layout.aux_in_body {
            return Ok(body.wrapping_add(AUX_IN_BODY));
        }
        let max = self.memory.u64(body.wrapping_add(HASH_MAX))?;
        if max >= MOST_BUCKETS {
            return Err(Error::garbled("package", hash));
        }
        let array = self.memory.u64(hash.wrapping_add(UNION))?;
        Ok(array.wrapping_add((max + 1) * 8))
    }

    /// Returns the name of a package (`HvNAME_HEK`); `None` if it has been deleted.
    pub fn stash_name(&self, stash: u64) -> Result<Option<Text>, Error> {
        let flags = self.flags(stash)?;
        if flags & TYPE_BITS != TYPE_HASH {
            return Err(Error::garbled("package", stash));
        }
        if flags & HAS_AUX == 0 {
            return Ok(None);
        }
        let aux = self.aux(stash)?;
        let mut name = self.memory.u64(aux.wrapping_add(AUX_NAME))?;
        if name != 0 && self.memory.u32(aux.wrapping_add(AUX_NAME_COUNT))? != 0 {
            name = self.memory.u64(name)?;
        }
        if name == 0 {
            Ok(None)
        } else {
            self.hek(name).map(Some)
        }
    }

    /// Returns the `GP` of a glob, which has its values; `None` if the SV is no glob (`isGV_with_GP`).
    pub(super) fn glob(&self, sv: u64) -> Result<Option<u64>, Fault> {
        let flags = self.flags(sv)?;
        let is_glob = matches!(flags & TYPE_BITS, TYPE_GLOB | TYPE_LVALUE)
            && flags & (HAS_GP | PRIVATE_POK) == HAS_GP;
        Ok(if is_glob {
            Some(self.memory.u64(sv.wrapping_add(UNION))?).filter(|&gp| gp != 0)
        } else {
            None
        })
    }

    /// Returns the name of a glob without its package.
    pub fn glob_name(&self, glob: u64) -> Result<Option<Text>, Error> {
        match self.memory.u64(self.body(glob)?.wrapping_add(GLOB_NAME))? {
            0 => Ok(None),
            hek => self.hek(hek).map(Some),
        }
    }

    /// Writes package and name of a glob, as `gv_efullname` does.
    pub fn write_glob_name(&self, glob: u64, out: &mut dyn Write) -> Result<(), Error> {
        let first = match self.glob(glob)? {
            Some(gp) => match self.memory.u64(gp.wrapping_add(GP_EGV))? {
                0 => glob,
                first => first,
            },
            None => glob,
        };
        let stash = self
            .memory
            .u64(self.body(first)?.wrapping_add(GLOB_STASH))?;
        self.write_package(stash, out)?;
        match self.glob_name(first)? {
            Some(name) => self.write_text(name, LONGEST_NAME, out),
            None => Ok(out.write_str("__ANON__")?),
        }
    }

    fn write_package(&self, stash: u64, out: &mut dyn Write) -> Result<(), Error> {
        let name = match stash {
            0 => None,
            _ => self.stash_name(stash)?,
        };
        match name {
            Some(name) => self.write_text(name, LONGEST_NAME, out)?,
            None => out.write_str("__ANON__")?,
        }
        Ok(out.write_str("::")?)
    }

    /// Writes the name that `caller` returns for a sub, given its `CV`: `Package::name`, `Package::__ANON__`,
    /// `(unknown)`. Formats have names of the same form.
    pub fn write_code_name(&self, code: u64, out: &mut dyn Write) -> Result<(), Error> {
        if !matches!(self.flags(code)? & TYPE_BITS, TYPE_CODE | TYPE_FORMAT) {
            return Err(Error::garbled("sub", code));
        }
        let body = self.body(code)?;
        let flags = self.memory.u32(body.wrapping_add(CODE_FLAGS))?;
        let name = self.memory.u64(body.wrapping_add(CODE_NAME))?;
        if name == 0 {
            return Ok(out.write_str("(unknown)")?);
        }
        if flags & NAMED != 0 {
            if flags & LEXICAL == 0 {
                let stash = self.memory.u64(body.wrapping_add(CODE_STASH))?;
                self.write_package(stash, out)?;
            }
            return self.write_text(self.hek(name)?, LONGEST_NAME, out);
        }
        if flags & LEXICAL != 0 {
            return match self.glob_name(name)? {
                Some(name) => self.write_text(name, LONGEST_NAME, out),
                None => Ok(out.write_str("(unknown)")?),
            };
        }
        self.write_glob_name(name, out)
    }

    /// Writes at most `limit` bytes of `text`; what is not UTF-8, in text that should be, as U+FFFD.
    pub fn write_text(&self, text: Text, limit: u64, out: &mut dyn Write) -> Result<(), Error> {
        bytes::write(self.memory, text, limit, out)
    }

    /// Returns whether a text is `expected`, which has only ASCII or is compared byte by byte.
    pub fn says(&self, text: Text, expected: &[u8]) -> Result<bool, Fault> {
        bytes::is(self.memory, text, expected)
    }
}
