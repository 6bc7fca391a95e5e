//! What is different in a free-threaded build (`--disable-gil`, `python3.14t`), as far as frames and names lead to it:
//!
//! ```text
//!   with the GIL    │ ob_refcnt │ ob_type │ …
//!   without         │ ob_tid │ ob_flags, ob_mutex, ob_gc_bits, ob_ref_local │ ob_ref_shared │ ob_type │ …       (Include/object.h)
//! ```
//!
//! There is no other table: each offset in an object is larger by what its header is. What else differs is below. What
//! [`_Py_DebugOffsets`](super::offsets) tells is put in its place afterwards. Of the collector, of reference counts and of pymalloc, which are
//! not there or others, nothing is known here: [`Facts::find`](crate::python::Facts::find) refuses such a Python.

use super::{Attributes, Copies, Handlers, Layout, Variables};

/// How much larger the header of an object is.
pub const LARGER: u64 = 16;
/// Bytes before an object at which the address of its dict is (`MANAGED_DICT_OFFSET`, `pycore_object.h`): no header of the collector is
/// between them.
const DICT_BEFORE: u64 = 8;
/// Bits of `interned` in the state of a str (`cpython/unicodeobject.h`), by the version since which it is so.
const INTERNED: [((u8, u8), u32); 2] = [((3, 14), 8), ((3, 13), 2)];

/// Changes the table of a version into that of its free-threaded build.
pub fn apply(layout: &mut Layout, copies: Option<Copies>) {
    layout.head = LARGER;
    let code = &mut layout.code;
    let objects = [
        &mut code.file,
        &mut code.name,
        &mut code.first_line,
        &mut code.table,
        &mut code.constants,
        &mut code.instructions,
        &mut layout.text.ascii,
        &mut layout.text.compact,
        &mut layout.tuple_items,
        &mut layout.type_qualname,
        &mut layout.function_code,
        &mut layout.function_closure,
    ];
    objects.into_iter().for_each(|offset| *offset += LARGER);
    if let Some(qualname) = &mut code.qualname {
        *qualname += LARGER;
    }
    if let Variables::One(names) = &mut code.variables {
        *names += LARGER;
    }
    if let Handlers::Table { table, locals } = &mut layout.frame.handlers {
        *table += LARGER;
        *locals += LARGER;
    }
    code.copies = copies;
    layout.attributes = Attributes::Inline(DICT_BEFORE);
    let known = INTERNED.iter().find(|(since, _)| layout.version >= *since);
    if let Some((_, bits)) = known {
        layout.text.interned = *bits;
    }
}
