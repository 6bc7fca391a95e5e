//! Types and prototypes as text, in the grammar that is parsed.

use std::fmt;

use crate::types::{Expr, Kind, Lens, Prototype, Type};

impl fmt::Display for Expr {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(out, "{number}"),
            Self::Argument(index) => write!(out, "arg{}", index + 1),
            Self::Returned => out.write_str("retval"),
            Self::Command(index) => write!(out, "command{}", index + 1),
            Self::Member(index) => write!(out, "elt{}", index + 1),
            Self::Zero(None) => out.write_str("zero"),
            Self::Zero(Some(most)) => write!(out, "zero({most})"),
        }
    }
}

/// Returns the length in `string[…]`, if the type is just that.
fn simple_string(ty: &Type) -> Option<&Expr> {
    let Kind::Pointer(to) = &ty.kind else {
        return None;
    };
    let Kind::Array(array) = &to.kind else {
        return None;
    };
    let plain = matches!(array.element.kind, Kind::Char)
        && [to.lens.as_ref(), array.element.lens.as_ref()] == [None, None]
        && to.alias.is_none()
        && array.element.alias.is_none();
    (plain && matches!(array.length, Expr::Zero(_))).then_some(&array.length)
}

impl fmt::Display for Type {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(alias) = &self.alias {
            return out.write_str(alias);
        }
        let around = match &self.lens {
            None => return self.kind.fmt(out),
            Some(Lens::Vm(word)) => return word.fmt(out),
            Some(lens @ (Lens::Enum(names) | Lens::Flags(names))) => {
                out.write_str(match lens {
                    Lens::Flags(_) => "flags",
                    _ => "enum",
                })?;
                match self.kind {
                    Kind::Int => out.write_str("(")?,
                    _ => write!(out, "[{}](", self.kind)?,
                }
                for (index, (name, value)) in names.iter().enumerate() {
                    let comma = if index > 0 { ", " } else { "" };
                    write!(out, "{comma}{name}={value}")?;
                }
                return out.write_str(")");
            }
            Some(Lens::String) => match simple_string(self) {
                Some(Expr::Zero(None)) => return out.write_str("string"),
                Some(Expr::Zero(Some(most))) => return write!(out, "string[{most}]"),
                _ => "string",
            },
            Some(Lens::Path) => return out.write_str("pathname"),
            Some(Lens::Hide) => "hide",
            Some(Lens::Octal) => "oct",
            Some(Lens::Hex) => "hex",
            Some(Lens::Bool) => "bool",
            Some(Lens::Bitvec) => "bitvec",
            Some(Lens::Guess) => "guess",
        };
        write!(out, "{around}({})", self.kind)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self {
            Self::Void => "void",
            Self::Char => "char",
            Self::Short => "short",
            Self::UShort => "ushort",
            Self::Int => "int",
            Self::UInt => "uint",
            Self::Long => "long",
            Self::ULong => "ulong",
            Self::Float => "float",
            Self::Double => "double",
            Self::LongDouble => "ldouble",
            Self::ComplexLongDouble => "ldouble_complex",
            Self::Pointer(to) => {
                return match (&to.kind, &to.lens, &to.alias) {
                    (Self::Void, None, None) => out.write_str("addr"),
                    _ => write!(out, "{to}*"),
                };
            }
            Self::Array(array) => return write!(out, "array({}, {})", array.element, array.length),
            Self::Struct(found) => {
                if let Some(name) = &found.name {
                    return out.write_str(name);
                }
                out.write_str("struct(")?;
                for (index, field) in found.fields().iter().enumerate() {
                    let comma = if index > 0 { ", " } else { "" };
                    write!(out, "{comma}{field}")?;
                    match found.field_name(index) {
                        "" => {}
                        name => write!(out, " {name}")?,
                    }
                }
                ")"
            }
        };
        out.write_str(word)
    }
}

/// A prototype with its function's name, to be displayed.
pub struct Named<'p>(&'p str, &'p Prototype);

impl Prototype {
    /// Returns it with a function's name, to be displayed as a line of a file, without the `;`.
    #[must_use]
    pub const fn named<'p>(&'p self, function: &'p str) -> Named<'p> {
        Named(function, self)
    }
}

impl fmt::Display for Named<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(name, prototype) = self;
        let returns = prototype.returns.to_string();
        // A return type by one of these names would change the meaning of the line.
        if matches!(&*returns, "function" | "import" | "typedef") {
            out.write_str("function ")?;
        }
        write!(out, "{returns} {name}(")?;
        for (index, parameter) in prototype.parameters.iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            let plus = if prototype.late_from == Some(index) {
                "+"
            } else {
                ""
            };
            let ty = parameter.ty.to_string();
            if parameter.format {
                let ty = ty.strip_prefix("string").unwrap_or_default();
                write!(out, "{comma}{plus}format{ty}")?;
            } else if parameter.both {
                write!(out, "{comma}{plus}both({ty})")?;
            } else {
                write!(out, "{comma}{plus}{ty}")?
            }
        }
        out.write_str(")")
    }
}
