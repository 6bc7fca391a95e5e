//! What things are called, as `gettype` does where it knows them, and what they are to us.

use heap::{Builder, KindId, Role};
use vm::php::heap::Sort;

/// What something is beyond its [`Sort`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// It is nothing special: the sort alone decides its kind.
    No,
    /// An array of variables: static ones, those that a closure has captured.
    Variables,
    /// An array of properties that no class declares.
    Properties,
    /// An object that is a function.
    Closure,
    /// An object that is a generator or a fiber.
    Generator,
}

/// The kind of a thing.
pub fn kind(builder: &mut Builder, sort: Sort, special: Special) -> KindId {
    let (name, role) = match (special, sort) {
        (Special::Variables, _) => ("variables", Role::Internal),
        (Special::Properties, _) => ("properties", Role::Internal),
        (Special::Closure, _) => ("closure", Role::Function),
        (Special::Generator, _) => ("generator", Role::Fiber),
        (_, Sort::Text) => ("string", Role::Text),
        (_, Sort::Array) => ("array", Role::Map),
        (_, Sort::Object) => ("object", Role::Instance),
        (_, Sort::Resource) => ("resource", Role::Native),
        (_, Sort::Reference) => ("reference", Role::Internal),
    };
    builder.kind(name.as_bytes(), role)
}

/// The kind of what was not found.
pub fn rest(builder: &mut Builder) -> KindId {
    builder.kind(b"(compiled code, buffers)", Role::Internal)
}
