//! Size, alignment and offsets of members: System V ABI, AMD64, section 3.1.2, figure 3.1. Used by `types`.

use crate::types::{Array, Expr, Kind, Lens, Struct, Type};

/// The size that a larger type is taken to have: nobody passes such a type, and sums cannot overflow.
const MOST: u32 = 1 << 30;

impl Type {
    /// Returns the bytes of a value.
    #[must_use]
    pub fn size(&self) -> u32 {
        match &self.kind {
            Kind::Void => 0,
            Kind::Char => 1,
            Kind::Short | Kind::UShort => 2,
            Kind::Int | Kind::UInt | Kind::Float => 4,
            Kind::Long | Kind::ULong | Kind::Double | Kind::Pointer(_) => 8,
            Kind::LongDouble => 16,
            Kind::ComplexLongDouble => 32,
            Kind::Array(array) => array.size(),
            Kind::Struct(of) => of.layout().size,
        }
    }

    /// Returns the number of which its address is a multiple.
    #[must_use]
    pub fn alignment(&self) -> u32 {
        match &self.kind {
            Kind::LongDouble | Kind::ComplexLongDouble => 16,
            Kind::Array(array) => array.element.alignment(),
            Kind::Struct(of) => of.layout().alignment,
            _ => self.size().max(1),
        }
    }

    /// Returns whether it holds an address of something known, or an array that lies behind its struct.
    #[must_use]
    pub fn leads_on(&self) -> bool {
        if matches!(self.lens, Some(Lens::Vm(_))) {
            return true;
        }
        match &self.kind {
            Kind::Pointer(to) => !matches!(to.kind, Kind::Void),
            Kind::Array(array) => array.size() == 0 || array.element.leads_on(),
            Kind::Struct(of) => of.layout().leads_on,
            _ => false,
        }
    }
}

/// The layout of a struct, computed once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    size: u32,
    alignment: u32,
    leads_on: bool,
}

impl Array {
    /// Returns the bytes of a value in a struct: an array whose length only a call says is C's flexible array and takes
    /// no room.
    #[must_use]
    pub fn size(&self) -> u32 {
        let length = match &self.length {
            Expr::Zero(Some(most)) => most.fixed(),
            length => length.fixed(),
        };
        let size = self.element.size().saturating_mul(length.unwrap_or(0));
        size.min(MOST)
    }
}

impl Struct {
    /// Returns each member with its offset.
    pub fn members(&self) -> impl Iterator<Item = (u32, &Type)> {
        let mut end = 0_u32;
        self.fields().iter().map(move |field| {
            let offset = end.next_multiple_of(field.alignment());
            end = offset.saturating_add(field.size()).min(MOST);
            (offset, field)
        })
    }

    fn layout(&self) -> Layout {
        if !self.is_complete() {
            return Layout {
                size: 0,
                alignment: 1,
                leads_on: false,
            };
        }
        *self.layout.get_or_init(|| {
            let fields = self.fields();
            let alignment = fields.iter().map(Type::alignment).max().unwrap_or(1);
            let mut end = 0_u32;
            for (offset, field) in self.members() {
                end = offset.saturating_add(field.size()).min(MOST);
            }
            Layout {
                size: end.next_multiple_of(alignment),
                alignment,
                leads_on: fields.iter().any(Type::leads_on),
            }
        })
    }
}
