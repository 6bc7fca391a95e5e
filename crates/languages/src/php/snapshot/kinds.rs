//! The kinds of things in a PHP's heap: their names, which are those of `gettype` where it has one, and how the snapshot
//! classifies them. Used by `walk`, `snapshot` and `roots`.

use super::blocks::Blocks;
use heap::{Builder, KindId, Role, RootKind, RootName};
use vm::php::heap::Sort;

/// What something is beyond its [`Sort`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// The sort alone decides the kind.
    No,
    /// An array of variables: static ones, or those captured by a closure.
    Variables,
    /// An array of properties that no class declares.
    Properties,
    /// An object that is a function.
    Closure,
    /// An object that is a generator or a fiber.
    Generator,
}

/// The kind of a thing with this sort.
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

/// Adds a row for what is in use and was not found, with a root that holds it. Returns whether more was found than is in use.
pub fn add_rest(builder: &mut Builder, blocks: &Blocks) -> bool {
    let (bytes, is_more) = blocks.rest();
    let kind = builder.kind(b"(compiled code, buffers)", Role::Internal);
    builder.object(heap::Object {
        bytes,
        ..heap::Object::new(blocks.own(), kind)
    });
    let name = builder.text(b"compiled code, buffers");
    builder.root(blocks.own(), RootName::named(RootKind::Vm, name));
    is_more
}
