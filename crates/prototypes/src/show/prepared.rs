//! What is the same for all calls of a function, worked out once: where its values lie, and which of them are plain
//! words in a register, which are written without looking at their type again. Used by `call` and `string`, and by
//! `report::calls::lines` and `report::calls::json`.

use std::sync::Arc;

use capture::{Registers, Returned};

use super::number::{self, Base};
use super::storage::{Storage, argument_at, returned_at};
use crate::digits::hex;
use crate::location::{Location, Locations};
use crate::types::{Array, Expr, Kind, Lens, Prototype, Type};

/// A prototype made ready to show many calls; see the module's documentation.
#[derive(Clone, Debug)]
pub struct Prepared {
    prototype: Prototype,
    locations: Locations,
    pub(super) arguments: Vec<Slot>,
    pub(super) returned: Slot,
    /// Arguments before this one are shown when the function is called.
    pub(super) late: usize,
}

impl Prepared {
    /// Works out where the values of a prototype lie, and which of them are plain words.
    #[must_use]
    pub fn new(prototype: Prototype) -> Self {
        let locations = prototype.locations();
        let parameters = prototype.parameters.iter().zip(&locations.arguments);
        Self {
            arguments: parameters
                .map(|(parameter, at)| Slot::new(&parameter.ty, *at))
                .collect(),
            returned: Slot::new(&prototype.returns, locations.returned),
            late: prototype.late_from.unwrap_or(usize::MAX),
            locations,
            prototype,
        }
    }

    /// Returns the prototype that this was made from.
    #[must_use]
    pub const fn prototype(&self) -> &Prototype {
        &self.prototype
    }

    /// Returns whether what is shown of a return depends on what the call was made with: on late arguments, or on memory
    /// that the result leads to, whose length an argument may say.
    #[must_use]
    pub const fn looks_back(&self) -> bool {
        self.late != usize::MAX || self.returned.quick.is_none()
    }

    /// Returns where its arguments and its returned value lie.
    #[must_use]
    pub const fn locations(&self) -> &Locations {
        &self.locations
    }
}

/// Returns what `string(char *)` means: a NUL-terminated string, as in C. `to` is the type of its characters.
pub(super) fn text_behind(to: &Type) -> Type {
    let (element, length) = (to.clone(), Expr::Zero(None));
    let array = Type::new(Kind::Array(Arc::new(Array { element, length })));
    array.pointer().through(Lens::String)
}

/// An argument or the returned value.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    /// Its type; an array here is what it is in C: a pointer.
    pub(super) ty: Type,
    at: Location,
    quick: Option<Quick>,
}

/// How a value is written that is one word of an integer register.
#[derive(Clone, Copy, Debug)]
enum Quick {
    Nothing,
    Number {
        register: u8,
        size: u8,
        signed: bool,
        base: Base,
    },
    Address {
        register: u8,
    },
}

impl Slot {
    fn new(ty: &Type, at: Location) -> Self {
        let mut ty = ty.clone();
        if matches!(ty.kind, Kind::Array(_)) {
            let lens = ty.lens.clone();
            ty = ty.pointer();
            ty.lens = lens;
        }
        if let (Kind::Pointer(to), Some(Lens::String)) = (&ty.kind, &ty.lens)
            && to.is_integer()
        {
            ty = text_behind(to);
        }
        Self {
            quick: Quick::of(&ty, at),
            ty,
            at,
        }
    }

    /// Appends the argument, if it is a plain word.
    pub(super) fn quick_argument(&self, registers: &Registers, out: &mut Vec<u8>) -> bool {
        let of = |register: u8| registers.gp.get(usize::from(register)).copied();
        self.quick.is_some_and(|quick| quick.write(of, out))
    }

    /// Appends the returned value, if it is a plain word.
    pub(super) fn quick_returned(&self, returned: &Returned, out: &mut Vec<u8>) -> bool {
        let of = |register| (register == 0).then_some(returned.rax);
        self.quick.is_some_and(|quick| quick.write(of, out))
    }

    /// Returns where the argument's bytes are.
    pub(super) fn argument(&self, registers: &Registers) -> Storage {
        argument_at(self.at, registers)
    }

    /// Returns where the returned value's bytes are.
    pub(super) fn result(&self, returned: &Returned) -> Storage {
        returned_at(self.at, returned)
    }
}

impl Quick {
    fn of(ty: &Type, at: Location) -> Option<Self> {
        let base = match &ty.lens {
            None => Base::Default,
            Some(Lens::Octal) => Base::Octal,
            Some(Lens::Hex) => Base::Hex,
            Some(Lens::Guess) => Base::Guess,
            Some(_) => return None,
        };
        let register = match (&ty.kind, at) {
            (Kind::Void, _) => return Some(Self::Nothing),
            (_, Location::Gp(register)) => register,
            _ => return None,
        };
        match &ty.kind {
            Kind::Pointer(to) if matches!(to.kind, Kind::Void) => Some(Self::Address { register }),
            // A character.
            Kind::Char if base == Base::Default => None,
            _ if ty.is_integer() => Some(Self::Number {
                register,
                size: ty.size() as u8,
                signed: ty.is_signed(),
                base,
            }),
            _ => None,
        }
    }

    /// Appends it; `word` says what a register holds. False if that is not known.
    fn write(self, word: impl Fn(u8) -> Option<u64>, out: &mut Vec<u8>) -> bool {
        match self {
            Self::Nothing => out.extend_from_slice(b"<void>"),
            Self::Number {
                register,
                size,
                signed,
                base,
            } => {
                let Some(word) = word(register) else {
                    return false;
                };
                let word = word & u64::MAX >> (64 - 8 * u32::from(size));
                number::integer(word, size.into(), signed, base, out);
            }
            Self::Address { register } => match word(register) {
                Some(0) => out.extend_from_slice(b"nil"),
                Some(address) => hex(address, out),
                None => return false,
            },
        }
        true
    }
}
