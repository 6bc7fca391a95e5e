//! Writes values whose lens is a text or a set of bits.

use super::number::Base;
use super::prepared::text_behind;
use super::storage::Storage;
use super::text;
use super::value::{Result, Unknown, Value, Writer};
use crate::types::{Array, Kind};

impl Writer<'_> {
    /// Writes the first characters of narrow text that was copied in one piece; false if it was not, and then nothing is
    /// written.
    pub(super) fn characters(&mut self, value: &Value, array: &Array, count: u64) -> bool {
        let Storage::Memory(at) = value.at else {
            return false;
        };
        let count = count as usize;
        let is_narrow = matches!(array.element.kind, Kind::Char) && array.element.lens.is_none();
        // Each is written with four bytes at most.
        if !is_narrow || !self.has_room(count.saturating_mul(4), count) {
            return false;
        }
        let known = self.memory.piece(at).and_then(|piece| piece.get(..count));
        let Some(known) = known else {
            return false;
        };
        text::characters(known, self.out);
        self.stepped(count);
        true
    }

    /// Writes at most so many characters.
    pub(super) fn string(&mut self, value: &Value, most: u32) -> Result {
        match &value.ty.kind {
            Kind::Pointer(to) if to.is_integer() => {
                let ty = text_behind(to);
                let again = Value {
                    ty: &ty,
                    at: value.at,
                    parent: value.parent,
                };
                self.plain(&again, Base::Default)
            }
            Kind::Array(array) => self.array(value, array, most, ["\"", "", "\""]),
            Kind::Char => {
                let byte = self.word(value)? as u8;
                text::character(byte, self.out);
                Ok(())
            }
            _ if value.ty.is_integer() => {
                let word = self.word(value)?;
                let part = value.parent.is_some() && value.ty.lens.is_none();
                let quote = if part { "" } else { "'" };
                self.push(quote);
                if !text::wide(word, self.out) {
                    return Err(Unknown);
                }
                self.push(quote);
                Ok(())
            }
            _ => self.plain(value, Base::Default),
        }
    }

    pub(super) fn bits(&mut self, value: &Value) -> Result {
        let size = match &value.ty.kind {
            Kind::Pointer(to) => return self.pointer(value, to),
            Kind::Void => return self.plain(value, Base::Default),
            Kind::Array(array) => {
                let (length, _) = self.length(value, array, 4096)?;
                length.min(4096) * u64::from(array.element.size())
            }
            _ => value.ty.size().into(),
        };
        let mut bytes = vec![0; size.min(4096) as usize];
        self.read(value, &mut bytes)?;
        super::number::bits(&bytes, self.out);
        Ok(())
    }
}
