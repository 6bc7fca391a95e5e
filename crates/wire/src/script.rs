//! Text in the guest's own language that its VM evaluates for the command, and what it answered.

/// Bytes of the text with the zero that ends it, and of the answer.
pub const TEXT: usize = 64 << 10;

/// Values of [`Script::outcome`]: what became of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Outcome {
    /// It has not been evaluated.
    None = 0,
    /// It evaluated to a string, which is in [`Script::text`] now, in UTF-8.
    Answered = 1,
    /// It raised an exception, which the text itself did not rescue.
    Raised = 2,
    /// It evaluated to something else, or the string is longer than [`TEXT`].
    Unreadable = 3,
}

/// The text. The command writes it and reads the answer; the agent puts the answer in its place.
#[derive(Debug)]
#[repr(C)]
pub struct Script {
    /// What became of the text, an [`Outcome`]; written by the agent.
    pub outcome: u64,
    /// Bytes of the answer.
    pub length: u64,
    /// Where Python's functions are, in the order of [`python::NAMES`]; Ruby's are in [`Config`](crate::Config).
    pub python: [u64; python::NAMES.len()],
    /// The text, ended by a zero, and then the answer.
    pub text: [u8; TEXT],
}

impl Script {
    /// A script without text, which was not evaluated.
    pub const NONE: Script = Script {
        outcome: Outcome::None as u64,
        length: 0,
        python: [0; python::NAMES.len()],
        text: [0; TEXT],
    };
}

/// Functions of Python's C API that the agent calls, by their place in [`Script::python`]. Prototypes: `Include/pystate.h`,
/// `ceval.h`, `pythonrun.h`, `dictobject.h`, `unicodeobject.h`, `object.h`, `pyerrors.h`, `cpython/pymem.h`, `objimpl.h`, `import.h`, `methodobject.h`, `abstract.h`, alike in CPython 3.9 to 3.15.
#[allow(
    missing_docs,
    reason = "each is the place of the function of that name"
)]
pub mod python {
    pub const GIL_STATE_CHECK: usize = 0;
    pub const GIL_STATE_ENSURE: usize = 1;
    pub const GIL_STATE_RELEASE: usize = 2;
    pub const ADD_PENDING_CALL: usize = 3;
    pub const RUN_STRING: usize = 4;
    pub const DICT_NEW: usize = 5;
    pub const AS_UTF8: usize = 6;
    pub const DEC_REF: usize = 7;
    pub const ERR_CLEAR: usize = 8;
    pub const ERR_FETCH: usize = 9;
    pub const ERR_RESTORE: usize = 10;
    pub const GET_ALLOCATOR: usize = 11;
    pub const SET_ALLOCATOR: usize = 12;
    pub const COLLECT: usize = 13;
    pub const IMPORT: usize = 14;
    pub const GET_ATTRIBUTE: usize = 15;
    pub const NEW_FUNCTION: usize = 16;
    pub const CALL: usize = 17;
    pub const INC_REF: usize = 18;

    /// Names of the functions as symbols; the index of each is its constant above.
    pub const NAMES: [&str; 19] = [
        "PyGILState_Check",
        "PyGILState_Ensure",
        "PyGILState_Release",
        "Py_AddPendingCall",
        "PyRun_String",
        "PyDict_New",
        "PyUnicode_AsUTF8AndSize",
        "Py_DecRef",
        "PyErr_Clear",
        "PyErr_Fetch",
        "PyErr_Restore",
        "PyMem_GetAllocator",
        "PyMem_SetAllocator",
        "PyGC_Collect",
        "PyImport_ImportModule",
        "PyObject_GetAttrString",
        "PyCFunction_NewEx",
        "PyObject_CallFunctionObjArgs",
        "Py_IncRef",
    ];
}
