//! What a value is and how it is shown: types with lenses, and the expressions that give lengths. Used by
//! `parse::types`, `dwarf::types` and others here, and by the crates `syscalls`, `calls` and `report`.
//!
//! The kinds are ltrace's (`ltrace.conf(5)`), and three that it lacks: `long double`, its complex variant, and the
//! values of the language VMs, which the caller decodes. A lens belongs to a type and is inherited by what it is made
//! of: `hex(uint*)` shows the number behind the pointer in hexadecimal.

use std::sync::{Arc, OnceLock};

use vm::Word;

use crate::layout::Layout;

/// A type, with the lens through which it is shown.
#[derive(Clone, Debug)]
pub struct Type {
    /// The kind of type.
    pub kind: Kind,
    /// How it is shown; `None` inherits the lens of what it is part of.
    pub lens: Option<Lens>,
    /// The typedef that it was named by, to print it as it was written.
    pub(crate) alias: Option<Arc<str>>,
    /// How many types are inside one another. The grammar bounds it, and with it every recursion.
    pub(crate) depth: u8,
}

/// The kind of a type.
#[derive(Clone, Debug)]
pub enum Kind {
    /// No value; behind a pointer: any value.
    Void,
    /// One byte, shown as a character.
    Char,
    /// A signed number of 16 bits.
    Short,
    /// An unsigned number of 16 bits.
    UShort,
    /// A signed number of 32 bits.
    Int,
    /// An unsigned number of 32 bits.
    UInt,
    /// A signed number of 64 bits.
    Long,
    /// An unsigned number of 64 bits.
    ULong,
    /// A floating-point number of 32 bits.
    Float,
    /// A floating-point number of 64 bits.
    Double,
    /// The x87's 80 bits in 16 bytes.
    LongDouble,
    /// Two `long double`s; a kind of its own because it is returned in st(0) and st(1).
    ComplexLongDouble,
    /// An address of a value of this type.
    Pointer(Arc<Type>),
    /// Elements in a row.
    Array(Arc<Array>),
    /// Members one after the other.
    Struct(Arc<Struct>),
}

/// Elements in a row.
#[derive(Clone, Debug)]
pub struct Array {
    /// The type of each element.
    pub element: Type,
    /// The number of elements.
    pub length: Expr,
}

/// A struct: members one after the other, aligned as in C.
///
/// A struct with a name may hold itself; its members are set when its definition has been read. Such a circle is never
/// freed, which is right for what is read once from a few files.
#[derive(Debug)]
pub struct Struct {
    pub(crate) name: Option<Arc<str>>,
    pub(crate) fields: OnceLock<Vec<Type>>,
    /// What each member is called; empty where the file does not say.
    pub(crate) names: Vec<Box<str>>,
    pub(crate) layout: OnceLock<Layout>,
}

impl Struct {
    /// Makes a struct without a name.
    #[must_use]
    pub fn new(fields: Vec<Type>) -> Self {
        Self::named(fields, Vec::new())
    }

    /// Makes a struct of which the members have names, one for each, `""` for one without; or none of them has one.
    #[must_use]
    pub fn named(fields: Vec<Type>, names: Vec<Box<str>>) -> Self {
        Self {
            name: None,
            fields: OnceLock::from(fields),
            names,
            layout: OnceLock::new(),
        }
    }

    /// Makes a struct of which only the name is known so far.
    pub(crate) fn announced(name: Arc<str>) -> Self {
        Self {
            name: Some(name),
            fields: OnceLock::new(),
            names: Vec::new(),
            layout: OnceLock::new(),
        }
    }

    /// Returns whether its members are known.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.fields.get().is_some()
    }

    /// Returns its members; none if it was only announced.
    #[must_use]
    pub fn fields(&self) -> &[Type] {
        self.fields.get().map_or(&[], Vec::as_slice)
    }

    /// Returns the name of a member, by its index; `""` if the file does not say it.
    #[must_use]
    pub fn field_name(&self, index: usize) -> &str {
        self.names.get(index).map_or("", |name| name)
    }
}

/// Names with their numbers.
pub type Words = Arc<[(Box<str>, i64)]>;

/// How a value is shown.
#[derive(Clone, Debug, PartialEq)]
pub enum Lens {
    /// It is not shown.
    Hide,
    /// As an octal number.
    Octal,
    /// In hexadecimal, floating point as `%a`.
    Hex,
    /// As `true` or `false`: whether any bit is set.
    Bool,
    /// As the numbers of the set bits.
    Bitvec,
    /// Small numbers in decimal, others in hexadecimal.
    Guess,
    /// As text in quotes.
    String,
    /// As text that is shown whole, whatever length was asked for: a path, which has at most 4,096 bytes (`PATH_MAX` in
    /// include/uapi/linux/limits.h).
    Path,
    /// As the name of the number.
    Enum(Words),
    /// As the names of its bits.
    Flags(Words),
    /// As a value of a language VM, which the caller decodes.
    Vm(Word),
}

/// A number that is known when the call is seen.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// A number that is the same for all calls.
    Number(u32),
    /// An argument, counted from 0.
    Argument(u16),
    /// The value that the function returned.
    Returned,
    /// As many bytes as the command of `ioctl` in this argument names, and some more: what follows a struct, and what
    /// commands take that name no size.
    Command(u16),
    /// A member of the struct around, counted from 0.
    Member(u16),
    /// The number of elements before the first whose bytes are all 0, at most so many.
    Zero(Option<Box<Expr>>),
}

impl Expr {
    /// Returns the number, if it depends on no call.
    #[must_use]
    pub fn fixed(&self) -> Option<u32> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Zero(Some(most)) => most.fixed(),
            _ => None,
        }
    }

    /// Returns whether it is known only when the function has returned.
    #[must_use]
    pub fn awaits_return(&self) -> bool {
        match self {
            Self::Returned => true,
            Self::Zero(Some(most)) => most.awaits_return(),
            _ => false,
        }
    }
}

/// One argument of a function.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// Its type. An array here is what it is in C: a pointer.
    pub ty: Type,
    /// Whether it is a printf format, by which other arguments follow the last one.
    pub format: bool,
    /// Whether what it leads to is copied at the return again: the function reads it and writes it.
    pub both: bool,
}

impl Parameter {
    /// Makes an argument of this type that is no format and is not copied twice.
    #[must_use]
    pub const fn new(ty: Type) -> Self {
        Self {
            ty,
            format: false,
            both: false,
        }
    }
}

/// A function's signature and how its calls are shown.
#[derive(Clone, Debug)]
pub struct Prototype {
    /// The type of the returned value.
    pub returns: Type,
    /// The arguments, in their order.
    pub parameters: Vec<Parameter>,
    /// Index of the first argument that is shown when the function has returned: `+` in the grammar.
    pub late_from: Option<usize>,
}

impl Type {
    /// Makes a type without a lens.
    #[must_use]
    pub fn new(kind: Kind) -> Self {
        let inside = match &kind {
            Kind::Pointer(to) => to.depth,
            Kind::Array(array) => array.element.depth,
            Kind::Struct(of) => of
                .fields()
                .iter()
                .map(|field| field.depth)
                .max()
                .unwrap_or(0),
            _ => 0,
        };
        Self {
            depth: inside.saturating_add(1),
            kind,
            lens: None,
            alias: None,
        }
    }

    /// Returns the same type seen through a lens.
    #[must_use]
    pub fn through(mut self, lens: Lens) -> Self {
        self.lens = Some(lens);
        self.alias = None;
        self
    }

    /// Returns the name of the typedef that it was written with.
    #[must_use]
    pub fn alias(&self) -> Option<&str> {
        self.alias.as_deref()
    }

    /// Returns the same type without the name of its typedef, so that it is printed in full.
    #[must_use]
    pub fn unnamed(mut self) -> Self {
        self.alias = None;
        self
    }

    /// Returns the type of a pointer to it.
    #[must_use]
    pub fn pointer(self) -> Self {
        Self::new(Kind::Pointer(Arc::new(self)))
    }

    /// Returns `void *`, an address.
    #[must_use]
    pub fn address() -> Self {
        Self::new(Kind::Void).pointer()
    }

    /// Returns the type of text behind a pointer, by the kind of its characters and its length.
    #[must_use]
    pub fn string(of: Kind, length: Expr) -> Self {
        let element = Self::new(of);
        Self::new(Kind::Array(Arc::new(Array { element, length })))
            .pointer()
            .through(Lens::String)
    }

    /// Returns the type of a path.
    #[must_use]
    pub fn path() -> Self {
        Self::string(Kind::Char, Expr::Zero(None)).through(Lens::Path)
    }

    /// Returns the type of a word of a language VM.
    #[must_use]
    pub fn vm(word: Word) -> Self {
        match word.is_number() {
            true => Self::new(Kind::ULong),
            false => Self::address(),
        }
        .through(Lens::Vm(word))
    }

    /// Returns whether it is a whole number of any size, characters included.
    #[must_use]
    pub const fn is_integer(&self) -> bool {
        matches!(
            self.kind,
            Kind::Char
                | Kind::Short
                | Kind::UShort
                | Kind::Int
                | Kind::UInt
                | Kind::Long
                | Kind::ULong
        )
    }

    /// Returns whether it is a whole number with a sign.
    #[must_use]
    pub const fn is_signed(&self) -> bool {
        matches!(self.kind, Kind::Short | Kind::Int | Kind::Long)
    }
}

impl Prototype {
    /// Returns the prototype that is assumed of a function that has none: `arguments` words, each shown as a small
    /// decimal number or in hexadecimal, and such a word returned. ltrace shows four.
    #[must_use]
    pub fn unknown(arguments: usize) -> Self {
        let word = Type::new(Kind::Long).through(Lens::Guess);
        Self {
            parameters: vec![Parameter::new(word.clone()); arguments],
            returns: word,
            late_from: None,
        }
    }
}
