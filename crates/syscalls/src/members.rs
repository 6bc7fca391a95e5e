//! Structs that are written member by member. Used by `forms::files`, `forms::network`, `forms::process` and others.

use crate::types::ty;
use crate::writer::{Place, Unknown, Writer, Written};
use prototypes::types::Type;

/// Writes members by their names, between braces: `{a=1, b=2}`.
pub struct Members<'a, 'w> {
    pub w: &'a mut Writer<'w>,
    at: u64,
    ty: &'a Type,
    first: bool,
}

impl<'a, 'w> Members<'a, 'w> {
    pub fn begin(w: &'a mut Writer<'w>, ty: &'a Type, at: Place) -> Result<Self, Unknown> {
        let Place::Memory(at) = at else {
            return Err(Unknown);
        };
        // Of what the kernel says of a signal only the beginning is known where the signal itself is told.
        let is_cut = ty.alias() == Some("siginfo");
        let size = ty.size() as usize;
        if !is_cut && w.bytes(at, size).len() < size {
            return Err(Unknown);
        }
        w.push("{");
        Ok(Self {
            w,
            at,
            ty,
            first: true,
        })
    }

    /// Where a member lies, and its type.
    pub fn find(&self, name: &str) -> Result<(u64, Type), Unknown> {
        let prototypes::types::Kind::Struct(of) = &self.ty.kind else {
            return Err(Unknown);
        };
        let mut members = of.members().enumerate();
        let found = members.find(|(index, _)| of.field_name(*index) == name);
        let (_, (offset, ty)) = found.ok_or(Unknown)?;
        Ok((self.at.wrapping_add(offset.into()), ty.clone()))
    }

    /// The number in a member.
    pub fn word(&self, name: &str) -> Result<u64, Unknown> {
        let (at, ty) = self.find(name)?;
        self.w.word(&ty, Place::Memory(at))
    }

    /// Appends `name=`, behind a comma if it is not the first.
    pub fn label(&mut self, name: &str) {
        if !self.first {
            self.w.push(", ");
        }
        self.first = false;
        self.w.push(name);
        self.w.push("=");
    }

    /// Appends members as their types have it.
    pub fn members(&mut self, names: &[&str]) -> Written {
        for name in names {
            let (at, ty) = self.find(name)?;
            self.label(name);
            self.w.value(&ty, Place::Memory(at))?;
        }
        Ok(())
    }

    /// Appends a member as another type has it.
    pub fn member_as(&mut self, name: &str, form: &str) -> Written {
        let (at, _) = self.find(name)?;
        self.label(name);
        self.w.value(&ty(form), Place::Memory(at))
    }

    /// Ends it; there is more that is not written.
    pub fn more(self) -> Written {
        self.w.push(", ...}");
        Ok(())
    }

    pub fn end(self) -> Written {
        self.w.push("}");
        Ok(())
    }
}
