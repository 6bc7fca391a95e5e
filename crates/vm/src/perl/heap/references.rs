//! What an SV refers to: what it has counted in the reference counts of others. Used by `size`, and by
//! `languages::perl::snapshot::walk` and `languages::perl::snapshot::roots`.

use core::ops::ControlFlow;

use super::super::name::{CODE_FLAGS, HAS_AUX, TYPE_LVALUE, TYPE_MAGICAL};
use super::super::stash::{GP_CODE, GP_HASH, IS_XSUB};
use super::super::{Error, Perl, Text};
use super::arenas::{Sort, Sv};
use crate::Memory;

/// `xmg_stash` and `xmg_u` in the bodies that have them, from `SVt_PVMG` on.
const STASH: u64 = 0;
const MAGIC: u64 = 8;

/// `mg_moremagic`, `mg_flags`, `mg_len`, `mg_obj`, `mg_ptr` in `struct magic`; `MGf_REFCOUNTED`, `HEf_SVKEY`.
const MAGIC_NEXT: u64 = 0;
const MAGIC_FLAGS: u64 = 19;
const MAGIC_LEN: u64 = 24;
const MAGIC_OBJECT: u64 = 32;
const MAGIC_POINTER: u64 = 40;
const COUNTED: u8 = 2;
const KEY_SV: i64 = -2;
/// Magic of one SV, at most.
const MOST_MAGIC: u32 = 1 << 10;

/// `xav_fill` and `xav_max` in `struct xpvav`; `SVpav_REAL`.
pub(super) const ARRAY_FILL: u64 = 16;
const REAL: u32 = 0x4000_0000;

/// `gp_sv`, `gp_io`, `gp_av`, `gp_form` in `struct gp`.
const GP_SCALAR: u64 = 0;
const GP_IO: u64 = 8;
const GP_ARRAY: u64 = 40;
const GP_FORMAT: u64 = 48;

/// `xcv_start_u` (of a C function `xcv_xsubany`), `xcv_gv_u`, `xcv_padlist_u`, `xcv_outside` in `struct xpvcv`.
const CODE_ANY: u64 = 40;
const CODE_GLOB: u64 = 56;
const CODE_PADS: u64 = 72;
const CODE_OUTSIDE: u64 = 80;
/// `CVf_CONST`, `CVf_WEAKOUTSIDE`, `CVf_CVGV_RC`, `CVf_NAMED`.
const CONSTANT: u32 = 4;
const WEAK_OUTSIDE: u32 = 0x10;
const COUNTS_GLOB: u32 = 0x400;
const NAMED: u32 = 0x8000;

/// `xpadl_max` and `xpadl_arr` in `struct padlist`: the names, then an array of values for each depth of recursion.
const PADS_MAX: u64 = 0;
const PADS_ARRAY: u64 = 8;
/// Depths of recursion of one sub, at most, and the depth that is believed however little memory the process has.
const DEEPEST: u64 = 1 << 24;
const SHALLOW: u64 = 16;

/// `xhv_mro_meta` in `struct xpvhv_aux`, and what of it refers to SVs: linearisations, `nextmethod`, `isa` and `super`.
const AUX_META: u64 = 32;
const META: [u64; 5] = [0, 8, 16, 40, 48];

/// `xlv_targ` and `xlv_type` in `struct xpvlv`.
const LVALUE_TARGET: u64 = 64;
const LVALUE_TYPE: u64 = 72;

/// `xobject_maxfield` and `xobject_fields` in `struct xpvobj`, since 5.38.
pub(super) const OBJECT_MAX: u64 = 16;
pub(super) const OBJECT_FIELDS: u64 = 32;

/// What of a glob something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// The scalar `$name` (`gp_sv`).
    Scalar,
    /// The array `@name` (`gp_av`).
    Array,
    /// The hash `%name` (`gp_hv`).
    Hash,
    /// The sub of this name (`gp_cv`).
    Code,
    /// The file or directory handle of this name (`gp_io`).
    Io,
    /// The format of this name (`gp_form`).
    Format,
}

/// What a reference of one SV to another is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference {
    /// What a reference refers to.
    Referent,
    /// An element of an array, from 0.
    Element(u64),
    /// A value of a hash, with the `HEK` of its key.
    Value(u64),
    /// The package that it is blessed into.
    Package,
    /// What is under a glob's name.
    Slot(Slot),
    /// The variables and temporary values of a sub, at one depth of recursion.
    Pad,
    /// The code around a sub.
    Outside,
    /// The glob that a sub is named by.
    Name,
    /// The value of a constant sub.
    Constant,
    /// A field of an object of `use feature 'class'`, from 0.
    Field(u64),
    /// What the VM notes of it.
    Internal,
}

impl<M: Memory> Perl<'_, M> {
    /// Calls `each` with what an SV refers to, of which at most `most` words are looked at. The hash of shared keys has none and must not
    /// be asked for them.
    ///
    /// # Errors
    /// Something of it could not be read; what precedes was told.
    pub fn references(
        &self,
        sv: &Sv,
        most: u64,
        each: &mut dyn FnMut(u64, Reference),
    ) -> Result<(), Error> {
        let mut told = |target: u64, name: Reference| {
            if target != 0 {
                each(target, name);
            }
        };
        if let Some(target) = sv.referent() {
            told(target, Reference::Referent);
        }
        match sv.sort() {
            Sort::Array => self.elements(sv, most, &mut told)?,
            Sort::Hash => self.values(sv, most, &mut told)?,
            Sort::Glob => self.slots(sv, &mut told)?,
            Sort::Code | Sort::Format => self.of_code(sv, most, &mut told)?,
            Sort::Object => self.fields(sv, most, &mut told)?,
            _ => {}
        }
        if sv.kind() == TYPE_LVALUE {
            let kind = self.memory.u8(sv.body.wrapping_add(LVALUE_TYPE))?;
            // `sv_clear`: its target is counted unless it is itself, or an entry of a hash.
            if !matches!(kind, 0 | b't' | b'T') {
                let target = self.memory.u64(sv.body.wrapping_add(LVALUE_TARGET))?;
                told(target, Reference::Internal);
            }
        }
        if sv.kind() >= TYPE_MAGICAL {
            if let Some(stash) = self.package_of(sv)? {
                told(stash, Reference::Package);
            }
            self.each_magic(sv, &mut |magic| {
                let word = |offset: u64| self.memory.u64(magic.wrapping_add(offset));
                if self.memory.u8(magic.wrapping_add(MAGIC_FLAGS))? & COUNTED != 0 {
                    told(word(MAGIC_OBJECT)?, Reference::Internal);
                }
                if word(MAGIC_LEN)?.cast_signed() == KEY_SV {
                    told(word(MAGIC_POINTER)?, Reference::Internal);
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Calls `each` with the address of each `struct magic` of an SV.
    fn each_magic(
        &self,
        sv: &Sv,
        each: &mut dyn FnMut(u64) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut magic = self.memory.u64(sv.body.wrapping_add(MAGIC))?;
        let mut left = MOST_MAGIC;
        while magic != 0 {
            left = left
                .checked_sub(1)
                .ok_or(Error::garbled("list of magic", sv.address))?;
            each(magic)?;
            magic = self.memory.u64(magic.wrapping_add(MAGIC_NEXT))?;
        }
        Ok(())
    }

    /// Returns how many magics an SV has, and the bytes of texts that they hold.
    pub(super) fn magic(&self, sv: &Sv) -> Result<(u64, u64), Error> {
        let (mut count, mut bytes) = (0, 0_u64);
        if sv.kind() >= TYPE_MAGICAL {
            self.each_magic(sv, &mut |magic| {
                let length = self.memory.u64(magic.wrapping_add(MAGIC_LEN))?;
                count += 1;
                bytes = bytes.saturating_add(u64::try_from(length.cast_signed()).unwrap_or(0));
                Ok(())
            })?;
        }
        Ok((count, bytes))
    }

    fn elements(
        &self,
        sv: &Sv,
        most: u64,
        told: &mut dyn FnMut(u64, Reference),
    ) -> Result<(), Error> {
        // Others, as the stacks of values, do not count what they hold.
        if !sv.has(REAL) {
            return Ok(());
        }
        let fill = self.memory.u64(sv.body.wrapping_add(ARRAY_FILL))?;
        let count = u64::try_from(fill.cast_signed().saturating_add(1)).unwrap_or(0);
        if count > most {
            return Err(Error::garbled("array", sv.address));
        }
        for index in 0..count {
            let at = sv.union.wrapping_add(index.wrapping_mul(8));
            told(self.memory.u64(at)?, Reference::Element(index));
        }
        Ok(())
    }

    fn values(
        &self,
        sv: &Sv,
        most: u64,
        told: &mut dyn FnMut(u64, Reference),
    ) -> Result<(), Error> {
        self.each_of_hash(sv.address, most, &mut |key, value| {
            told(value, Reference::Value(key));
            Ok(ControlFlow::Continue(()))
        })?;
        if !sv.has(HAS_AUX) {
            return Ok(());
        }
        let meta = self
            .memory
            .u64(self.aux(sv.address)?.wrapping_add(AUX_META))?;
        if meta != 0 {
            for offset in META {
                let target = self.memory.u64(meta.wrapping_add(offset))?;
                told(target, Reference::Internal);
            }
        }
        Ok(())
    }

    fn slots(&self, sv: &Sv, told: &mut dyn FnMut(u64, Reference)) -> Result<(), Error> {
        if sv.union == 0 {
            return Ok(());
        }
        for (offset, slot) in [
            (GP_SCALAR, Slot::Scalar),
            (GP_ARRAY, Slot::Array),
            (GP_HASH, Slot::Hash),
            (GP_CODE, Slot::Code),
            (GP_IO, Slot::Io),
            (GP_FORMAT, Slot::Format),
        ] {
            let target = self.memory.u64(sv.union.wrapping_add(offset))?;
            told(target, Reference::Slot(slot));
        }
        Ok(())
    }

    fn of_code(
        &self,
        sv: &Sv,
        most: u64,
        told: &mut dyn FnMut(u64, Reference),
    ) -> Result<(), Error> {
        let word = |offset: u64| self.memory.u64(sv.body.wrapping_add(offset));
        let flags = self.memory.u32(sv.body.wrapping_add(CODE_FLAGS))?;
        if flags & WEAK_OUTSIDE == 0 {
            told(word(CODE_OUTSIDE)?, Reference::Outside);
        }
        if flags & COUNTS_GLOB != 0 && flags & NAMED == 0 {
            told(word(CODE_GLOB)?, Reference::Name);
        }
        if flags & IS_XSUB != 0 {
            if flags & CONSTANT != 0 {
                told(word(CODE_ANY)?, Reference::Constant);
            }
            return Ok(());
        }
        self.each_pad(sv, most, &mut |pad| told(pad, Reference::Pad))
    }

    /// Calls `each` with the array of values of each depth of recursion of a sub written in Perl.
    fn each_pad(&self, code: &Sv, most: u64, each: &mut dyn FnMut(u64)) -> Result<(), Error> {
        let Some((pads, count)) = self.pads(code, most)? else {
            return Ok(());
        };
        // The first are the names.
        for depth in 1..count {
            each(self.memory.u64(pads.wrapping_add(depth * 8))?);
        }
        Ok(())
    }

    /// Returns the array of a sub's pads, and how many there are; `None` of a C function, and where there are none yet.
    pub(super) fn pads(&self, code: &Sv, most: u64) -> Result<Option<(u64, u64)>, Error> {
        let flags = self.memory.u32(code.body.wrapping_add(CODE_FLAGS))?;
        let list = self.memory.u64(code.body.wrapping_add(CODE_PADS))?;
        if flags & IS_XSUB != 0 || list == 0 {
            return Ok(None);
        }
        let count = self
            .memory
            .u64(list.wrapping_add(PADS_MAX))?
            .wrapping_add(1);
        if count > most.clamp(SHALLOW, DEEPEST) {
            return Err(Error::garbled("list of pads", code.address));
        }
        let array = self.memory.u64(list.wrapping_add(PADS_ARRAY))?;
        Ok((array != 0).then_some((array, count)))
    }

    fn fields(
        &self,
        sv: &Sv,
        most: u64,
        told: &mut dyn FnMut(u64, Reference),
    ) -> Result<(), Error> {
        let last = self.memory.u64(sv.body.wrapping_add(OBJECT_MAX))?;
        let fields = self.memory.u64(sv.body.wrapping_add(OBJECT_FIELDS))?;
        let count = u64::try_from(last.cast_signed().saturating_add(1)).unwrap_or(0);
        if count > most {
            return Err(Error::garbled("object", sv.address));
        }
        for index in 0..if fields == 0 { 0 } else { count } {
            let at = fields.wrapping_add(index.wrapping_mul(8));
            told(self.memory.u64(at)?, Reference::Field(index));
        }
        Ok(())
    }

    /// Returns the package that an SV is blessed into.
    pub fn package_of(&self, sv: &Sv) -> Result<Option<u64>, Error> {
        if sv.kind() < TYPE_MAGICAL || !sv.is_blessed() {
            return Ok(None);
        }
        let stash = self.memory.u64(sv.body.wrapping_add(STASH))?;
        Ok((stash != 0).then_some(stash))
    }

    /// Returns the text of the key of [`Reference::Value`].
    pub fn key(&self, key: u64) -> Result<Text, Error> {
        self.hek(key)
    }

    /// Calls `each` with the name and the glob of every entry of a package that is a glob, and the hash in it, 0 if none: that of a package
    /// within it if the name ends in `::`.
    pub fn each_glob(
        &self,
        stash: u64,
        most: u64,
        each: &mut dyn FnMut(Text, u64, u64) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        self.each_of_hash(stash, most, &mut |key, value| {
            // Entries that are no globs are subs and constants.
            let Ok(Some(gp)) = self.glob(value) else {
                return Ok(ControlFlow::Continue(()));
            };
            let hash = self.memory.u64(gp.wrapping_add(GP_HASH))?;
            Ok(each(self.hek(key)?, value, hash))
        })
    }

    /// Returns the package `main`, which holds all others.
    pub fn main_package(&self, interpreter: &super::super::Interpreter) -> Result<u64, Error> {
        Ok(self.memory.u64(interpreter.defstash)?)
    }
}
