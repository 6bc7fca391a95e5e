//! How many bytes an SV takes: its head, its body, and what was allocated for it.
//!
//! Sizes of bodies: `bodies_by_type` (`sv.c`, since 5.36 `sv_inline.h`), which leaves out what the smaller scalars do not use at the beginning.
//! What `malloc` adds is not counted. Keys that hashes share are those of the hash of all keys. Not counted besides: compiled code (a sub's
//! operations), the program of a regular expression, and what C libraries keep for a file or a handle.

use core::ops::ControlFlow;

use super::super::name::{
    HAS_AUX, HASH_MAX, TYPE_ARRAY, TYPE_CODE, TYPE_FORMAT, TYPE_GLOB, TYPE_HASH,
    TYPE_INVERSION_LIST, TYPE_IO, TYPE_LVALUE, TYPE_MAGICAL, TYPE_OBJECT, TYPE_REGEXP,
};
use super::super::{Error, Perl};
use super::arenas::{HEAD, Sort, Sv};
use super::names::CLONED;
use super::references::{ARRAY_FILL, OBJECT_FIELDS, OBJECT_MAX};
use crate::Memory;

/// `xpv_cur` and `xpv_len` in the bodies that have them.
const CURRENT: u64 = 16;
const ALLOCATED: u64 = 24;

/// `SVf_IsCOW`: several scalars share the bytes. `SVf_OOK` of a scalar: bytes were cut off at its beginning.
const IS_COW: u32 = 0x1000_0000;
const IS_CUT: u32 = 0x0200_0000;
/// Where a scalar's bytes begin that has none, of `SVf_ROK`.
const IS_REFERENCE: u32 = 0x800;

/// `xav_max` and `xav_alloc` in `struct xpvav`; `xhv_keys` in `struct xpvhv`; `SVphv_SHAREKEYS`.
const ARRAY_MAX: u64 = 24;
const ARRAY_ALLOCATED: u64 = 32;
const HASH_KEYS: u64 = 16;
const SHARES_KEYS: u32 = 0x2000_0000;

/// `sizeof` of `struct xpvgv`'s `GP`, `HE`, `struct magic`, `PADLIST` and `struct mro_meta`.
const GP: u64 = 80;
const ENTRY: u64 = 24;
const MAGIC: u64 = 48;
const PAD_LIST: u64 = 24;
/// `gp_refcnt` in `struct gp`.
const GP_COUNT: u64 = 28;
/// Bytes of a `HEK` besides its text: hash, length, a NUL and flags; where the length is.
const KEY: u64 = 10;
const KEY_LENGTH: u64 = 4;

/// What an SV takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Bytes of its head, its body and what was allocated for it.
    pub bytes: u64,
    /// Bytes of a text, elements of an array, entries of a hash.
    pub length: Option<u64>,
    /// For how many there is room.
    pub capacity: Option<u64>,
}

impl<M: Memory> Perl<'_, M> {
    /// Returns what an SV takes. `is_keys` says that it is the hash of the keys that all others share; at most `most` words of a hash are
    /// looked at.
    pub fn size(&self, sv: &Sv, is_keys: bool, most: u64) -> Result<Size, Error> {
        let word = |offset: u64| self.memory.u64(sv.body.wrapping_add(offset));
        let (magics, texts) = self.magic(sv)?;
        let mut size = Size {
            bytes: texts.saturating_add(HEAD + self.body_size(sv) + magics * MAGIC),
            ..Size::default()
        };
        match sv.sort() {
            Sort::Array => {
                let room = word(ARRAY_MAX)?.wrapping_add(1);
                let start = word(ARRAY_ALLOCATED)?;
                if start != 0 {
                    // What was shifted off stays in front.
                    let before = sv.union.wrapping_sub(start);
                    size.bytes = size
                        .bytes
                        .saturating_add(room.saturating_mul(8))
                        .saturating_add(before);
                }
                size.length = Some(word(ARRAY_FILL)?.wrapping_add(1));
                size.capacity = Some(room);
            }
            Sort::Hash => {
                let keys = word(HASH_KEYS)?;
                let buckets = word(HASH_MAX)?.wrapping_add(1);
                if sv.union != 0 {
                    size.bytes = size.bytes.saturating_add(buckets.saturating_mul(8));
                    size.capacity = Some(buckets);
                }
                size.bytes = size.bytes.saturating_add(keys.saturating_mul(ENTRY));
                if is_keys || !sv.has(SHARES_KEYS) {
                    let texts = self.key_bytes(sv, most)?;
                    size.bytes = size.bytes.saturating_add(texts);
                }
                size.length = Some(keys);
            }
            Sort::Glob if sv.union != 0 => {
                let sharers = self.memory.u32(sv.union.wrapping_add(GP_COUNT))?;
                let part = GP / u64::from(sharers.max(1));
                size.bytes = size.bytes.saturating_add(part);
            }
            Sort::Code | Sort::Format => {
                size.bytes = size.bytes.saturating_add(self.pad_bytes(sv, most)?);
            }
            Sort::Object => {
                let count = word(OBJECT_MAX)?.wrapping_add(1);
                if word(OBJECT_FIELDS)? != 0 {
                    size.bytes = size.bytes.saturating_add(count.saturating_mul(8));
                }
                size.length = Some(count);
            }
            // Its text is allocated without spare room.
            Sort::Regexp => size.bytes = size.bytes.saturating_add(word(CURRENT)?),
            _ => self.text_size(sv, &mut size)?,
        }
        Ok(size)
    }

    fn body_size(&self, sv: &Sv) -> u64 {
        match sv.kind() {
            0..=2 => 0,
            3 => 16,
            TYPE_INVERSION_LIST => 40,
            5 => 24,
            6 => 32,
            TYPE_MAGICAL | TYPE_GLOB => 48,
            TYPE_REGEXP => self.layout.regexp,
            TYPE_LVALUE => 80,
            TYPE_ARRAY | TYPE_OBJECT => 40,
            TYPE_HASH if sv.has(HAS_AUX) => 32 + self.layout.hash_aux,
            TYPE_HASH => 32,
            TYPE_CODE | TYPE_FORMAT => 104,
            TYPE_IO => 136,
            _ => 0,
        }
    }

    fn text_size(&self, sv: &Sv, size: &mut Size) -> Result<(), Error> {
        let has_bytes = matches!(sv.kind(), 3..=TYPE_MAGICAL | TYPE_LVALUE);
        if !has_bytes || sv.has(IS_REFERENCE) || sv.union == 0 {
            return Ok(());
        }
        let word = |offset: u64| self.memory.u64(sv.body.wrapping_add(offset));
        let allocated = word(ALLOCATED)?;
        let mut bytes = allocated;
        if sv.has(IS_COW) && allocated > 0 {
            // The last byte says how many others share them.
            let last = sv.union.wrapping_add(allocated - 1);
            bytes /= u64::from(self.memory.u8(last)?) + 1;
        }
        if sv.has(IS_CUT) {
            // `SvOOK_offset`: in the byte before the text, or if that is 0 in the word before that byte.
            let before = self.memory.u8(sv.union.wrapping_sub(1))?;
            bytes = bytes.saturating_add(match before {
                0 => self.memory.u64(sv.union.wrapping_sub(9))?,
                few => few.into(),
            });
        }
        size.bytes = size.bytes.saturating_add(bytes);
        if sv.sort() == Sort::Text {
            size.length = Some(word(CURRENT)?);
            size.capacity = (allocated > 0).then_some(allocated);
        }
        Ok(())
    }

    /// Bytes of the keys of a hash that has them for itself.
    fn key_bytes(&self, sv: &Sv, most: u64) -> Result<u64, Error> {
        let mut bytes = 0_u64;
        self.each_of_hash(sv.address, most, &mut |key, _| {
            let length = self.memory.u32(key.wrapping_add(KEY_LENGTH))?;
            bytes = bytes.saturating_add(KEY + u64::from(length));
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(bytes)
    }

    /// Bytes of the pads of a sub and, unless they belong to the sub that it was cloned of, of the names of its variables.
    fn pad_bytes(&self, sv: &Sv, most: u64) -> Result<u64, Error> {
        let Some((pads, count)) = self.pads(sv, most)? else {
            return Ok(0);
        };
        let mut bytes = PAD_LIST + count * 8;
        if !self.code_has(sv, CLONED)? {
            let names = self.memory.u64(pads)?;
            bytes = bytes.saturating_add(self.name_bytes(names, most)?);
        }
        Ok(bytes)
    }
}
