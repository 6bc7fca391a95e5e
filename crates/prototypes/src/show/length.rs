//! How many elements an array has, and the other numbers that depend on the call.

use capture::Width;

use super::storage::{Storage, argument_at, returned_at};
use super::value::{Result, Unknown, Value, Writer, part};
use crate::types::{Array, Expr, Kind, Lens};

impl Writer<'_> {
    /// Returns the number of elements, and whether what follows them is not known; no more than `enough` are looked at.
    pub(super) fn length(&self, value: &Value, array: &Array, enough: u64) -> Result<(u64, bool)> {
        let Expr::Zero(bound) = &array.length else {
            // A negative length is an error code, and nothing was filled in.
            let length = self.number(&array.length, value)?.cast_signed();
            return Ok((length.max(0).cast_unsigned(), false));
        };
        let is_string =
            matches!(value.lens(), Some(Lens::String | Lens::Path)) && array.element.is_integer();
        let bound = match bound {
            Some(bound) => match self.number(bound, value)?.cast_signed() {
                0.. => self.number(bound, value)?,
                // In many libraries a text's length of -1 means up to its NUL.
                _ if is_string && **bound != Expr::Returned => u64::MAX,
                _ => 0,
            },
            None => u64::MAX,
        };
        let size = u64::from(array.element.size());
        let most = bound.min(enough);
        if size == 1
            && let Storage::Memory(at) = value.at
            && let Some(known) = self.memory.piece(at)
        {
            let known = &known[..known.len().min(most as usize)];
            if let Some(end) = known.iter().position(|byte| *byte == 0) {
                return Ok((end as u64, false));
            }
            if known.len() as u64 == most {
                return Ok((most, false));
            }
        }
        let mut bytes = vec![0; size as usize];
        for index in 0..most {
            let element = part(value, &array.element, index * size);
            match self.read(&element, &mut bytes) {
                Ok(()) if bytes.iter().all(|byte| *byte == 0) => return Ok((index, false)),
                Ok(()) => {}
                Err(Unknown) if index == 0 => return Err(Unknown),
                Err(Unknown) => return Ok((index, true)),
            }
        }
        Ok((most, false))
    }

    /// Returns the number that an expression has here.
    fn number(&self, of: &Expr, value: &Value) -> Result<u64> {
        let found = match of {
            Expr::Number(number) => return Ok((*number).into()),
            Expr::Zero(_) | Expr::Command(_) => return Err(Unknown),
            Expr::Argument(index) => {
                let index = usize::from(*index);
                let place = *self
                    .call
                    .prepared
                    .locations()
                    .arguments
                    .get(index)
                    .ok_or(Unknown)?;
                let ty = &self.call.prepared.prototype().parameters[index].ty;
                Value::new(ty, argument_at(place, self.call.registers))
            }
            Expr::Returned => {
                let returned = self.call.returned.ok_or(Unknown)?;
                let ty = &self.call.prepared.prototype().returns;
                Value::new(
                    ty,
                    returned_at(self.call.prepared.locations().returned, returned),
                )
            }
            Expr::Member(index) => {
                let mut around = value.parent;
                let (of, at) = loop {
                    let parent = around.ok_or(Unknown)?;
                    match &parent.ty.kind {
                        Kind::Struct(of) => break (of, parent),
                        _ => around = parent.parent,
                    }
                };
                let (offset, field) = of.members().nth((*index).into()).ok_or(Unknown)?;
                let field = part(at, field, offset.into());
                return self.count(&field);
            }
        };
        self.count(&found)
    }

    fn count(&self, value: &Value) -> Result<u64> {
        let width = Width {
            bytes: value.ty.size().clamp(1, 8) as u8,
            signed: value.ty.is_signed(),
            skip: 0,
        };
        Ok(width.of(self.word(value)?))
    }
}
