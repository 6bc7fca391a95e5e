//! What a value is and how it is shown: types with lenses, and the expressions that give lengths.
//!
//! The kinds are ltrace's (`ltrace.conf(5)`), and three that it lacks: `long double`, its complex kin, and the
//! values of the language VMs, which the caller decodes. A lens belongs to a type and is inherited by what
//! it is made of: `hex(uint*)` shows the number behind the pointer in hexadecimal.

use std::sync::{Arc, OnceLock};

use vm::Word;

use crate::layout::Layout;

/// A type, and the lens it is seen through.
#[derive(Clone, Debug)]
pub struct Type {
    /// What it is.
    pub kind: Kind,
    /// How it is shown; `None` inherits.
    pub lens: Option<Lens>,
    /// The typedef that it was named by, to print it as it was written.
    pub(crate) alias: Option<Arc<str>>,
    /// How many types are inside one another. The grammar bounds it, and with it every recursion.
    pub(crate) depth: u8,
}

/// What a value is.
#[derive(Clone, Debug)]
pub enum Kind {
    /// Nothing; behind a pointer: anything.
    Void,
    /// One byte, shown as a character.
    Char,
    /// 16 bits, signed.
    Short,
    /// 16 bits.
    UShort,
    /// 32 bits, signed.
    Int,
    /// 32 bits.
    UInt,
    /// 64 bits, signed.
    Long,
    /// 64 bits.
    ULong,
    /// Single precision.
    Float,
    /// Double precision.
    Double,
    /// The x87's 80 bits in 16 bytes.
    LongDouble,
    /// Two of them; a type of its own because it is returned in st(0) and st(1).
    ComplexLongDouble,
    /// The address of something.
    Pointer(Arc<Type>),
    /// Elements in a row.
    Array(Arc<Array>),
    /// Members.
    Struct(Arc<Struct>),
}

/// Elements in a row.
#[derive(Clone, Debug)]
pub struct Array {
    /// The type of each.
    pub element: Type,
    /// How many.
    pub length: Expr,
}

/// Members one after the other, aligned as C does it.
///
/// A struct with a name may hold itself; its members are set when its definition has been read. Such a
/// ring is never freed, which is right for what is read once from a few files.
#[derive(Debug)]
pub struct Struct {
    pub(crate) name: Option<Arc<str>>,
    pub(crate) fields: OnceLock<Vec<Type>>,
    pub(crate) layout: OnceLock<Layout>,
}

impl Struct {
    /// A struct without a name.
    #[must_use]
    pub fn new(fields: Vec<Type>) -> Self {
        Self {
            name: None,
            fields: OnceLock::from(fields),
            layout: OnceLock::new(),
        }
    }

    /// A struct that is known by name only, so far.
    pub(crate) fn announced(name: Arc<str>) -> Self {
        Self {
            name: Some(name),
            fields: OnceLock::new(),
            layout: OnceLock::new(),
        }
    }

    /// Whether its members are known.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.fields.get().is_some()
    }

    /// Its members; none if it was only announced.
    #[must_use]
    pub fn fields(&self) -> &[Type] {
        self.fields.get().map_or(&[], Vec::as_slice)
    }
}

/// Names with their numbers.
pub type Words = Arc<[(Box<str>, i64)]>;

/// How a value is shown.
#[derive(Clone, Debug, PartialEq)]
pub enum Lens {
    /// Not at all.
    Hide,
    /// In octal.
    Octal,
    /// In hexadecimal, floating point as `%a`.
    Hex,
    /// `true` or `false`.
    Bool,
    /// The numbers of the set bits.
    Bitvec,
    /// Small numbers in decimal, others in hexadecimal.
    Guess,
    /// As text.
    String,
    /// By name.
    Enum(Words),
    /// By the names of its bits.
    Flags(Words),
    /// As a value of a language VM, which the caller decodes.
    Vm(Word),
}

/// A number that is known when the call is seen.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// This number.
    Number(u32),
    /// An argument, counted from 0.
    Argument(u16),
    /// What the function returned.
    Returned,
    /// A member of the struct around, counted from 0.
    Member(u16),
    /// Up to the first element whose bytes are all 0, at most so many.
    Zero(Option<Box<Expr>>),
}

impl Expr {
    /// The number, if it depends on no call.
    #[must_use]
    pub fn fixed(&self) -> Option<u32> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Zero(Some(most)) => most.fixed(),
            _ => None,
        }
    }

    /// Whether the return must be awaited to know it.
    #[must_use]
    pub fn awaits_return(&self) -> bool {
        match self {
            Self::Returned => true,
            Self::Zero(Some(most)) => most.awaits_return(),
            _ => false,
        }
    }
}

/// One argument.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// Its type. An array here is what C makes of it: a pointer.
    pub ty: Type,
    /// It is a printf format, and the arguments after the last are as it says.
    pub format: bool,
}

/// A function's signature and how its calls are shown.
#[derive(Clone, Debug)]
pub struct Prototype {
    /// What it returns.
    pub returns: Type,
    /// Its arguments.
    pub parameters: Vec<Parameter>,
    /// This one and all after it are shown when the function has returned: `+` in the grammar.
    pub late_from: Option<usize>,
}

impl Type {
    /// A type without a lens.
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

    /// The same type seen through a lens.
    #[must_use]
    pub fn through(mut self, lens: Lens) -> Self {
        self.lens = Some(lens);
        self.alias = None;
        self
    }

    /// The typedef's name that it goes by.
    #[must_use]
    pub fn alias(&self) -> Option<&str> {
        self.alias.as_deref()
    }

    /// The same type, to be printed in full.
    #[must_use]
    pub fn unnamed(mut self) -> Self {
        self.alias = None;
        self
    }

    /// A pointer to it.
    #[must_use]
    pub fn pointer(self) -> Self {
        Self::new(Kind::Pointer(Arc::new(self)))
    }

    /// `void *`: an address.
    #[must_use]
    pub fn address() -> Self {
        Self::new(Kind::Void).pointer()
    }

    /// Text behind a pointer: its characters' kind and its length.
    #[must_use]
    pub fn string(of: Kind, length: Expr) -> Self {
        let element = Self::new(of);
        Self::new(Kind::Array(Arc::new(Array { element, length })))
            .pointer()
            .through(Lens::String)
    }

    /// A word of a language VM.
    #[must_use]
    pub fn vm(word: Word) -> Self {
        match word {
            Word::RubyValue | Word::RubyId | Word::RubySelf => Self::new(Kind::ULong),
            _ => Self::address(),
        }
        .through(Lens::Vm(word))
    }

    /// A whole number of any size, characters included.
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

    /// A number of these with a sign.
    #[must_use]
    pub const fn is_signed(&self) -> bool {
        matches!(self.kind, Kind::Short | Kind::Int | Kind::Long)
    }
}

impl Prototype {
    /// What is assumed of a function that nobody described: `arguments` words, each shown as a small decimal
    /// number or in hexadecimal, and such a word returned. ltrace shows four.
    #[must_use]
    pub fn unknown(arguments: usize) -> Self {
        let word = Type::new(Kind::Long).through(Lens::Guess);
        Self {
            parameters: vec![
                Parameter {
                    ty: word.clone(),
                    format: false,
                };
                arguments
            ],
            returns: word,
            late_from: None,
        }
    }
}
