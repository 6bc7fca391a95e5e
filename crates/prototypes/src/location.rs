//! Where arguments and returned values lie: System V ABI, AMD64, section 3.2.3. Used by `plan`, `condition::compile`
//! and others here, and by crate `calls`.
//!
//! ```text
//!   INTEGER  rdi rsi rdx rcx r8 r9      then 8 bytes each on the stack      returned in rax, rdx
//!   SSE      xmm0 … xmm7                then 8 bytes each on the stack      returned in xmm0, xmm1
//!   X87      16 bytes on the stack                                          returned in st(0)
//!   MEMORY   on the stack, aligned      larger than 16 bytes, or with       returned where rdi pointed;
//!                                       a long double in it                 rax says where
//! ```
//!
//! A struct of up to 16 bytes is cut into eightbytes, each INTEGER or SSE. It is passed in registers if there
//! are enough for all of it, else wholly on the stack.

use crate::types::{Kind, Parameter, Prototype, Type};

/// The register of one eightbyte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// An integer register: as an argument 0 is rdi, as a returned value rax.
    Gp(u8),
    /// An SSE register: xmm with this number.
    Sse(u8),
}

/// Where a value lies when a function is called, or when it has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    /// Nowhere: it is `void`, or a struct of no size.
    Nowhere,
    /// One integer register, numbered as in [`Half::Gp`].
    Gp(u8),
    /// One SSE register: xmm with this number.
    Sse(u8),
    /// Two registers: the first eightbyte is in one, the second in the other.
    Split(Half, Half),
    /// In the arguments on the stack, at this offset; for a returned value in memory, at the address in rax.
    Stack(u32),
    /// In st(0); for a returned value only.
    X87,
    /// In st(0) and st(1); for a returned value only.
    ComplexX87,
}

/// Where the arguments and the returned value of a call lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Locations {
    /// One location for each parameter.
    pub arguments: Vec<Location>,
    /// The location of the returned value.
    pub returned: Location,
    /// The registers and the stack that the parameters use; arguments behind a `format` follow them.
    pub used: Used,
}

/// The registers and the bytes of the stack that were used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Number of integer registers, the one with the address of a returned struct among them.
    pub gp: u8,
    /// Number of SSE registers.
    pub sse: u8,
    /// Bytes on the stack.
    pub stack: u32,
}

#[derive(Clone, Copy, PartialEq)]
enum Class {
    None,
    Integer,
    Sse,
    Memory,
}

impl Class {
    fn merge(self, other: Self) -> Self {
        match (self, other) {
            (Self::None, class) | (class, Self::None) => class,
            (Self::Memory, _) | (_, Self::Memory) => Self::Memory,
            (Self::Integer, _) | (_, Self::Integer) => Self::Integer,
            _ => Self::Sse,
        }
    }
}

/// Returns the classes of a value's eightbytes.
fn classes(ty: &Type) -> [Class; 2] {
    let mut found = [Class::None; 2];
    if ty.size() > 16 {
        return [Class::Memory; 2];
    }
    spread(ty, 0, &mut found);
    if found.contains(&Class::Memory) {
        [Class::Memory; 2]
    } else {
        found
    }
}

fn spread(ty: &Type, at: u32, found: &mut [Class; 2]) {
    let class = match &ty.kind {
        Kind::Void => return,
        Kind::Float | Kind::Double => Class::Sse,
        Kind::LongDouble | Kind::ComplexLongDouble => Class::Memory,
        Kind::Struct(of) => {
            for (offset, field) in of.members() {
                spread(field, at + offset, found);
            }
            return;
        }
        Kind::Array(array) => {
            let size = array.element.size().max(1);
            for index in 0..array.size() / size {
                spread(&array.element, at + index * size, found);
            }
            return;
        }
        _ => Class::Integer,
    };
    // The whole has at most 16 bytes, so every member begins in one of the two.
    if let Some(eightbyte) = found.get_mut(at as usize / 8) {
        *eightbyte = eightbyte.merge(class);
    }
}

impl Used {
    fn half(&mut self, class: Class) -> Half {
        match class {
            Class::Sse => {
                self.sse += 1;
                Half::Sse(self.sse - 1)
            }
            _ => {
                self.gp += 1;
                Half::Gp(self.gp - 1)
            }
        }
    }

    /// Returns where the next argument lies.
    pub fn next(&mut self, ty: &Type) -> Location {
        // An array is what it is in C, a pointer.
        let classes = match ty.kind {
            Kind::Array(_) => [Class::Integer, Class::None],
            _ => classes(ty),
        };
        let wants = |wanted| classes.iter().filter(|class| **class == wanted).count() as u8;
        let (gp, sse) = (wants(Class::Integer), wants(Class::Sse));
        if gp + sse == 0 && !classes.contains(&Class::Memory) {
            return Location::Nowhere;
        }
        if classes.contains(&Class::Memory) || self.gp + gp > 6 || self.sse + sse > 8 {
            let (size, alignment) = match ty.kind {
                Kind::Array(_) => (8, 8),
                _ => (ty.size(), ty.alignment()),
            };
            let offset = self.stack.next_multiple_of(alignment.max(8));
            self.stack = offset.saturating_add(size).next_multiple_of(8);
            return Location::Stack(offset);
        }
        let first = self.half(classes[0]);
        match (classes[1], first) {
            (Class::None, Half::Gp(n)) => Location::Gp(n),
            (Class::None, Half::Sse(n)) => Location::Sse(n),
            (second, _) => Location::Split(first, self.half(second)),
        }
    }
}

/// Returns where a value of this type is returned.
fn returned(ty: &Type) -> Location {
    match &ty.kind {
        Kind::Array(_) => return Location::Gp(0),
        Kind::LongDouble => return Location::X87,
        Kind::ComplexLongDouble => return Location::ComplexX87,
        // struct { long double x; } is of the classes X87, X87UP, and returned as a `long double` is.
        Kind::Struct(of) if ty.size() == 16 && alone(of.fields()) => return Location::X87,
        _ => {}
    }
    match classes(ty) {
        [Class::Memory, _] => Location::Stack(0),
        [Class::None, Class::None] => Location::Nowhere,
        _ => Used::default().next(ty),
    }
}

/// Returns whether the one member with a size is a `long double`.
fn alone(fields: &[Type]) -> bool {
    let mut sized = fields.iter().filter(|field| field.size() > 0);
    match (sized.next(), sized.next()) {
        (Some(field), None) => match &field.kind {
            Kind::LongDouble => true,
            Kind::Struct(of) => alone(of.fields()),
            Kind::Array(array) => array.size() == 16 && alone(std::slice::from_ref(&array.element)),
            _ => false,
        },
        _ => false,
    }
}

impl Prototype {
    /// Returns where arguments and returned value of a call lie.
    #[must_use]
    pub fn locations(&self) -> Locations {
        let returned = returned(&self.returns);
        let mut used = Used::default();
        if matches!(returned, Location::Stack(_)) {
            used.gp = 1;
        }
        let next = |parameter: &Parameter| used.next(&parameter.ty);
        let arguments = self.parameters.iter().map(next).collect();
        Locations {
            arguments,
            returned,
            used,
        }
    }

    /// Returns the index of the argument that is a printf format, if there is one: other arguments may follow.
    #[must_use]
    pub fn format(&self) -> Option<usize> {
        self.parameters
            .iter()
            .position(|parameter| parameter.format)
    }
}
