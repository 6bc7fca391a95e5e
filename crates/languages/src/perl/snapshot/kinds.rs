//! The kinds of SVs: their names, and how the snapshot classifies them. Used by `walk`.

use heap::{Builder, KindId, Role};
use vm::perl::heap::Sort;

/// What an SV is beyond its [`Sort`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// The sort alone decides the kind.
    No,
    /// It belongs to a package: `bless` was called for it.
    Blessed,
    /// A hash: the names of a package.
    Package,
    /// A hash: the keys that all hashes share.
    SharedKeys,
    /// An array: the variables of a sub.
    Pad,
}

/// The kind of an SV. Where `ref` has a name for it, this is the name.
pub fn kind(builder: &mut Builder, sort: Sort, special: Special) -> KindId {
    let (name, role) = match (special, sort) {
        (Special::Package, _) => ("PACKAGE", Role::Module),
        (Special::SharedKeys, _) => ("KEYS OF ALL HASHES", Role::Internal),
        (Special::Pad, _) => ("PAD", Role::Internal),
        (_, Sort::Code) => ("CODE", Role::Function),
        (_, Sort::Regexp) => ("REGEXP", Role::Native),
        (Special::Blessed, Sort::Hash) => ("blessed HASH", Role::Instance),
        (Special::Blessed, Sort::Array) => ("blessed ARRAY", Role::Instance),
        (Special::Blessed, Sort::Glob) => ("blessed GLOB", Role::Instance),
        (Special::Blessed, Sort::Io) => ("IO", Role::Native),
        (Special::Blessed, Sort::Object) => ("OBJECT", Role::Instance),
        (Special::Blessed, _) => ("blessed SCALAR", Role::Instance),
        (_, Sort::Array) => ("ARRAY", Role::List),
        (_, Sort::Hash) => ("HASH", Role::Map),
        (_, Sort::Undef) => ("SCALAR: undef", Role::Other),
        (_, Sort::Number) => ("SCALAR: number", Role::Number),
        (_, Sort::Text) => ("SCALAR: text", Role::Text),
        (_, Sort::Reference) => ("REF", Role::Internal),
        (_, Sort::Glob) => ("GLOB", Role::Internal),
        (_, Sort::Lvalue) => ("LVALUE", Role::Other),
        (_, Sort::Format) => ("FORMAT", Role::Code),
        (_, Sort::Io) => ("IO", Role::Native),
        (_, Sort::Object) => ("OBJECT", Role::Instance),
        (_, Sort::InversionList) => ("INVLIST", Role::Internal),
    };
    builder.kind(name.as_bytes(), role)
}
