//! The functions of Python's C API that the agent calls, by their places in a table of addresses. Prototypes: `Include/pystate.h`,
//! `ceval.h`, `pythonrun.h`, `dictobject.h`, `unicodeobject.h`, `object.h`, `pyerrors.h`, `cpython/pymem.h`, `objimpl.h`, `import.h`,
//! `methodobject.h`, `abstract.h`, alike in CPython 3.9 to 3.15. Used by the crates `agent` and `enter`.

/// The place of `PyGILState_Check`.
pub const GIL_STATE_CHECK: usize = 0;
/// The place of `PyGILState_Ensure`.
pub const GIL_STATE_ENSURE: usize = 1;
/// The place of `PyGILState_Release`.
pub const GIL_STATE_RELEASE: usize = 2;
/// The place of `Py_AddPendingCall`.
pub const ADD_PENDING_CALL: usize = 3;
/// The place of `PyRun_String`.
pub const RUN_STRING: usize = 4;
/// The place of `PyDict_New`.
pub const DICT_NEW: usize = 5;
/// The place of `PyUnicode_AsUTF8AndSize`.
pub const AS_UTF8: usize = 6;
/// The place of `Py_DecRef`.
pub const DEC_REF: usize = 7;
/// The place of `PyErr_Clear`.
pub const ERR_CLEAR: usize = 8;
/// The place of `PyErr_Fetch`.
pub const ERR_FETCH: usize = 9;
/// The place of `PyErr_Restore`.
pub const ERR_RESTORE: usize = 10;
/// The place of `PyMem_GetAllocator`.
pub const GET_ALLOCATOR: usize = 11;
/// The place of `PyMem_SetAllocator`.
pub const SET_ALLOCATOR: usize = 12;
/// The place of `PyGC_Collect`.
pub const COLLECT: usize = 13;
/// The place of `PyImport_ImportModule`.
pub const IMPORT: usize = 14;
/// The place of `PyObject_GetAttrString`.
pub const GET_ATTRIBUTE: usize = 15;
/// The place of `PyCFunction_NewEx`.
pub const NEW_FUNCTION: usize = 16;
/// The place of `PyObject_CallFunctionObjArgs`.
pub const CALL: usize = 17;
/// The place of `Py_IncRef`.
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
