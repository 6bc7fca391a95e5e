//! Where things lie in each Python: the one place for what differs between versions. Used by `variables`, `references`,
//! `sizes` and others.
//!
//! Offsets are of standard x86-64 Linux builds (no `Py_TRACE_REFS`, no `Py_DEBUG`, with the GIL; [`free_threaded`] has what others
//! without it differ by). Every
//! number in the tables was printed by `offsetof`/`sizeof` in a program that included that release's own
//! headers, `internal/` among them, with `Py_BUILD_CORE`.
//!
//! The sources of each are with the tables (`layout/tables.rs`). Where a field here is a number and says no more than the
//! name of a member, it is the offset of that member in bytes.
//!
//! Since 3.13 a Python tells most of them itself: [`offsets`] takes them from the process, and [`sections`] those of a
//! version without a table. What is the same in all is a constant beside the code that uses it.

pub(super) mod free_threaded;
pub(super) mod offsets;
pub(super) mod sections;
mod tables;

/// One minor version's table. Each field names the definition it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Major and minor version.
    pub version: (u8, u8),
    /// How many bytes the header of an object is larger than in the tables: 0 with the GIL (`Python::field`).
    pub head: u64,
    /// Offsets in `_PyRuntimeState`: `pycore_runtime.h`.
    pub runtime: Runtime,
    /// `PyInterpreterState`: `pycore_interp.h` (3.14: `pycore_interp_structs.h`).
    pub interpreter: Interpreter,
    /// Offsets in `PyThreadState`: `cpython/pystate.h`.
    pub thread: Thread,
    /// Frames of Python code.
    pub frame: Frame,
    /// Generators and coroutines, which have a frame of their own.
    pub generators: Generators,
    /// Offsets in `PyCodeObject`: `cpython/code.h`.
    pub code: Code,
    /// The objects of str.
    pub text: Text,
    /// The objects of dict.
    pub dict: Dict,
    /// Where an object has its attributes.
    pub attributes: Attributes,
    /// Where the lists of the collector are.
    pub collector: Collector,
    /// Where the queues of pending calls are.
    pub pending: Pending,
    /// Whether an int keeps sign and size in a tag (`lv_tag`, since 3.12: `cpython/longintrepr.h`)
    /// instead of in a signed `ob_size`.
    pub int_has_tag: bool,
    /// `ob_item` in `PyTupleObject`: 3.14 put a hash before it (`cpython/tupleobject.h`).
    pub tuple_items: u64,
    /// `ht_qualname` in `PyHeapTypeObject`: `cpython/object.h`.
    pub type_qualname: u64,
    /// `func_code` in `PyFunctionObject`: `cpython/funcobject.h` (3.9: `funcobject.h`).
    pub function_code: u64,
    /// `func_closure` in `PyFunctionObject`: a tuple of the cells of its free variables, or 0.
    pub function_closure: u64,
}

/// Where the queues of pending calls are (`struct _pending_calls`: `pycore_interp.h`, since 3.12 `pycore_ceval_state.h`) that
/// `Py_AddPendingCall` may write to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pending {
    /// To 3.11: each interpreter has one, at the end of its `ceval`, which `gc` follows.
    BeforeCollector,
    /// 3.12: `ceval.pending_mainthread` in `_PyRuntimeState` is at this offset.
    Runtime(u64),
    /// Since 3.13: the same member is looked for, by the two limits that it alone has.
    Searched,
}

/// Offsets in `struct _gc_runtime_state` (`pycore_gc.h`; since 3.14: `pycore_interp_structs.h`). Those of the lists differ between
/// releases of one version, so each is looked at whether there is a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collector {
    /// Where `generations` may be: three lists; each begins with a `PyGC_Head`.
    pub generations: &'static [u64],
    /// Where `permanent_generation` may be: what `gc.freeze` has put aside.
    pub permanent: &'static [u64],
    /// `collecting`, from `permanent_generation` on.
    pub collecting: u64,
    /// `garbage`, from `permanent_generation` on: the list `gc.garbage`.
    pub garbage: u64,
    /// Where a collector with three generations counts what it decides by; there are none in 3.14.0 to 3.14.4, whose lists look the same.
    pub generational: &'static [Generational],
}

/// Offsets in `struct _gc_runtime_state` from `permanent_generation` on, as numbers to be added with a wrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generational {
    /// `generation0`: the address of the first of `generations`. No other collector has it there, so it proves all of this.
    pub first: u64,
    /// `long_lived_total`; `long_lived_pending` follows it.
    pub total: u64,
}

/// Offsets in `_PyRuntimeState` (`pycore_runtime.h`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runtime {
    /// `interpreters.head`; `interpreters.main` follows it.
    pub interpreters: u64,
    /// `gilstate.autoTSSkey`, since 3.12 `autoTSSkey`: a `Py_tss_t`. `None` since 3.15, which keeps a thread's state in a variable.
    pub tss: Option<u64>,
}

/// Offsets in `PyInterpreterState` (`pycore_interp.h`; 3.14: `pycore_interp_structs.h`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interpreter {
    /// `next`: the interpreter that was made before this one.
    pub next: u64,
    /// `tstate_head`, since 3.11 `threads.head`.
    pub threads: u64,
    /// `modules`, since 3.12 `imports.modules`: the dict `sys.modules` at first is.
    pub modules: u64,
    /// `gc`: the state of the collector, which begins there.
    pub gc: u64,
    /// `sysdict`; `builtins` follows it.
    pub system: u64,
    /// Where the dicts of static types are, since 3.12.
    pub statics: Option<Statics>,
}

/// `types` in `PyInterpreterState`: `pycore_typeobject.h` (3.14: `pycore_interp_structs.h`). Where its array
/// of static builtin types is moved with what is before it, so [`Facts`](super::Facts) look for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statics {
    /// From `types.builtins.initialized` to `types.for_extensions.initialized`, since 3.13.
    pub extensions: Option<u64>,
    /// `sizeof(static_builtin_state)`, since 3.13 `sizeof(managed_static_type_state)`.
    pub size: u64,
    /// `tp_dict` in it; `type` is its first field.
    pub dict: u64,
}

/// `PyThreadState`; `next` and `interp` are where they always were.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// `next`: the thread state that was made before this one.
    pub next: u64,
    /// `interp`: the address of its `PyInterpreterState`.
    pub interpreter: u64,
    /// `thread_id`: the `pthread_t` of its thread.
    pub id: u64,
    /// `native_thread_id`, since 3.11: the kernel's number of the thread.
    pub native_id: Option<u64>,
    /// What leads to the frames: `frame`; 3.11 and 3.12 `cframe`; since 3.13 `current_frame`.
    pub frame: u64,
}

/// `PyFrameObject` (`cpython/frameobject.h`); since 3.11 `_PyInterpreterFrame` (`pycore_frame.h`, 3.14:
/// `pycore_interpframe_structs.h`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// `f_back`, since 3.11 `previous`.
    pub previous: u64,
    /// `f_code`, since 3.13 `f_executable`.
    pub code: u64,
    /// `f_lasti`; 3.11 and 3.12 `prev_instr`; since 3.13 `instr_ptr`.
    pub instruction: u64,
    /// How frames belong to activations of `_PyEval_EvalFrameDefault`.
    pub kind: Kind,
    /// What says how many of its values an exception would leave.
    pub handlers: Handlers,
    /// `f_localsplus`, since 3.11 `localsplus`: local variables, cells, and then the value stack.
    pub variables: u64,
    /// What else it holds.
    pub own: Own,
}

/// What a frame holds beside its variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Own {
    /// 3.9 and 3.10: it is an object, which says so itself.
    Object,
    /// Since 3.11: it is a `_PyInterpreterFrame`, which has these at offsets of its own.
    Plain {
        /// `f_func`, since 3.12 `f_funcobj`.
        function: u64,
        /// `f_locals`: the dict that the code has its names in; 0 if it has none.
        namespace: u64,
        /// `frame_obj`: the `PyFrameObject` that was made for it; 0 = none.
        object: u64,
    },
}

/// What says how many values of a frame an exception would leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handlers {
    /// 3.9 and 3.10: the frame.
    Blocks {
        /// `f_valuestack` in `PyFrameObject`: where the value stack begins.
        values: u64,
        /// `f_iblock` in `PyFrameObject`: how many blocks are in use.
        count: u64,
        /// `f_blockstack` in `PyFrameObject`: the array of blocks, which are `PyTryBlock`s.
        blocks: u64,
    },
    /// Since 3.11: its code object.
    Table {
        /// `co_exceptiontable` in `PyCodeObject`: bytes with the table of handlers.
        table: u64,
        /// `co_nlocalsplus`: how many local variables lie before the values.
        locals: u64,
    },
}

/// How frames belong to activations of `_PyEval_EvalFrameDefault` on the C stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// 3.9 and 3.10: each frame has one. `f_lasti` counts in units of so many bytes.
    Objects(i32),
    /// 3.11: the outermost frame of one is marked, and a `_PyCFrame` lies in each.
    Marked {
        /// `current_frame` in `_PyCFrame`; `previous` follows it.
        current: u64,
        /// `is_entry`; `owner` follows it, and both lie in one aligned 32-bit word.
        entry: u64,
    },
    /// Since 3.12: below the outermost frame of one is a frame that lies in it, on the C stack.
    Shims {
        /// `current_frame` in `_PyCFrame`, in 3.12.
        current: Option<u64>,
        /// `owner` in `_PyInterpreterFrame`, a byte: what the frame lies in.
        owner: u64,
    },
}

/// How generators and coroutines keep their frame and say that they are suspended: `cpython/genobject.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generators {
    /// 3.9 and 3.10: behind a pointer.
    Behind {
        /// The value stack of a frame.
        values: Values,
        /// `f_state` in `PyFrameObject`, and `FRAME_SUSPENDED`, in 3.10.
        state: Option<(u64, i8)>,
        /// `co_code` in `PyCodeObject`: bytes with the instructions.
        code: u64,
        /// How many bytes `f_lasti` counts by.
        unit: u64,
        /// The instruction at which a generator waits for another: `YIELD_FROM` (`opcode.h`).
        delegates: u8,
    },
    /// Since 3.11: in the object itself, which ends with it.
    Inside {
        /// The value stack of a frame.
        values: Values,
        /// `localsplus` in `_PyInterpreterFrame`, which lies behind the `tp_basicsize` bytes of the object.
        locals: u64,
        /// The state of one that is suspended: `FRAME_SUSPENDED` (`pycore_frame.h`).
        suspended: i8,
        /// The state of one that is suspended and waits for another: `FRAME_SUSPENDED_YIELD_FROM`, since
        /// 3.13.
        delegating: Option<i8>,
        /// `RESUME` and what it is replaced by, before that: `opcode.h`.
        resumes: [u8; 2],
        /// How many values lie on the stack from what it waits for on: 3.15 has an index or nothing above that (`SEND`, `bytecodes.c`).
        awaited: u64,
    },
}

/// Where a frame has the end of its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// Behind a pointer: `f_stacktop`; 3.14: `stackpointer`.
    Pointer(u64),
    /// 3.10: `f_valuestack` and how many there are, `f_stackdepth`.
    Depth(u64, u64),
    /// 3.11 to 3.13: how many there are in `localsplus`, `stacktop`.
    Index(u64),
}

/// Offsets in `PyCodeObject` (`cpython/code.h`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// `co_filename`: a str with the path of the file, as it was compiled.
    pub file: u64,
    /// `co_name`: a str with the name of the function.
    pub name: u64,
    /// `co_qualname`, since 3.11: a str with the name of the function behind those of what it is in.
    pub qualname: Option<u64>,
    /// `co_firstlineno`, an `int`: the line on which the code begins.
    pub first_line: u64,
    /// `co_lnotab`, since 3.10 `co_linetable`.
    pub table: u64,
    /// How that table is written.
    pub lines: Lines,
    /// `co_consts`; `co_names` follows it.
    pub constants: u64,
    /// Where it has the names of local variables.
    pub variables: Variables,
    /// `co_code_adaptive`, since 3.11: the instructions lie in the code object.
    /// `_co_firsttraceable` is always 16 before it, or before what leads to its copies.
    pub instructions: u64,
    /// The copies that threads have of the instructions; `None` where all run those in the code object.
    pub copies: Option<Copies>,
}

/// The copies of a function's instructions that threads run, one each, since 3.14 without the GIL (`_PyCodeArray`: `cpython/code.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copies {
    /// `co_tlbc` in `PyCodeObject`, just before the instructions: the array of their addresses, of which the first is that in the code object.
    pub array: u64,
    /// `tlbc_index` in `_PyInterpreterFrame`: which of them the frame runs.
    pub index: u64,
}

/// Where a code object has the names of local variables, in the order of a frame's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variables {
    /// 3.9 and 3.10: `co_varnames`, `co_freevars`, `co_cellvars`; a frame has cells before free variables.
    Three([u64; 3]),
    /// Since 3.11: `co_localsplusnames`, one tuple of all of them.
    One(u64),
}

/// How a code object maps instructions to lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lines {
    /// 3.9: pairs of distances, as `Objects/lnotab_notes.txt` says.
    Lnotab,
    /// 3.10: the same file as of that release.
    Linetable,
    /// Since 3.11: `Objects/locations.md` (3.14: `InternalDocs/code_objects.md`).
    Locations,
}

/// Where an object of a class made in Python has its attributes: [`attributes`](super::attributes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attributes {
    /// 3.9 and 3.10: in a dict.
    Dict,
    /// 3.11: in values or a dict, each with its own pointer before the object.
    Beside,
    /// 3.12: in values or a dict, which one pointer before the object leads to.
    Tagged,
    /// Since 3.13: in values behind the object, or in a dict that a pointer so many bytes before it leads to.
    Inline(u64),
}

/// Sizes of `PyASCIIObject` and `PyCompactUnicodeObject` (`cpython/unicodeobject.h`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// `sizeof(PyASCIIObject)`: where the characters of an ASCII str begin.
    pub ascii: u64,
    /// `sizeof(PyCompactUnicodeObject)`, where also `data` of `PyUnicodeObject` is.
    pub compact: u64,
    /// How many bits `interned` has in `state`; `kind` and the others follow it.
    pub interned: u32,
}

/// `PyDictKeysObject`: `dict-common.h`, since 3.11 `pycore_dict.h`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dict {
    /// Whether sizes are kept as logarithms and entries of str keys are short, since 3.11.
    pub compact: bool,
    /// `dk_nentries`: how many entries there are, deleted ones included.
    pub count: u64,
    /// `dk_indices`: where the table of indices begins; the entries follow it.
    pub indices: u64,
    /// `values` in what `ma_values` points at.
    pub values: u64,
}

impl Layout {
    /// The oldest and the newest version that are known.
    pub(super) fn ends() -> [(u8, u8); 2] {
        [
            tables::ALL[0].version,
            tables::ALL[tables::ALL.len() - 1].version,
        ]
    }

    /// The tables, oldest first.
    pub fn all() -> &'static [Layout] {
        tables::ALL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_3_11_share_a_word() {
        for layout in Layout::all() {
            if let Kind::Marked { entry, .. } = layout.frame.kind {
                assert!(entry % 4 < 3);
            }
        }
    }
}
