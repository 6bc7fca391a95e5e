//! The tables, and where each was taken from. How, and what the fields mean: [`super`]. Used by `layout`.
//!
//! | table | headers | same in |
//! |---|---|---|
//! | 3.9 | 3.9.2, Debian bullseye `libpython3.9-dev` | 3.9.18 |
//! | 3.10 | 3.10.13, built from source | |
//! | 3.11 | 3.11.2, Debian bookworm `libpython3.11-dev` | 3.11.7 |
//! | 3.12 | 3.12.1, built from source | |
//! | 3.13 | 3.13.5, Debian trixie `libpython3.13-dev` | 3.13.0 |
//! | 3.14 | 3.14.10, Debian sid `libpython3.14-dev` | |
//! | 3.15 | 3.15.2, Debian sid `libpython3.15-dev` | |

use super::{
    Attributes, Code, Collector, Dict, Frame, Generational, Generators, Handlers, Interpreter,
    Kind, Layout, Lines, Own, Pending, Runtime, Statics, Text, Thread, Values, Variables,
};

pub(super) static ALL: &[Layout] = &[
    PYTHON_3_9,
    PYTHON_3_10,
    PYTHON_3_11,
    PYTHON_3_12,
    PYTHON_3_13,
    PYTHON_3_14,
    PYTHON_3_15,
];

const PYTHON_3_9: Layout = Layout {
    version: (3, 9),
    head: 0,
    runtime: Runtime {
        interpreters: 32,
        tss: Some(584),
    },
    interpreter: Interpreter {
        next: 0,
        threads: 8,
        modules: 856,
        gc: 616,
        system: 872,
        statics: None,
    },
    thread: Thread {
        next: 8,
        interpreter: 16,
        id: 176,
        native_id: None,
        frame: 24,
    },
    frame: Frame {
        previous: 24,
        code: 32,
        instruction: 104,
        kind: Kind::Objects(1),
        handlers: Handlers::Blocks {
            values: 64,
            count: 112,
            blocks: 120,
        },
        variables: 360,
        own: Own::Object,
    },
    generators: Generators::Behind {
        values: Values::Pointer(72),
        state: None,
        code: 48,
        unit: 1,
        delegates: 72,
    },
    code: Code {
        file: 104,
        name: 112,
        qualname: None,
        first_line: 40,
        table: 120,
        lines: Lines::Lnotab,
        constants: 56,
        variables: Variables::Three([72, 80, 88]),
        instructions: 0,
        copies: None,
    },
    text: Text {
        ascii: 48,
        compact: 72,
        interned: 2,
    },
    dict: Dict {
        compact: false,
        count: 32,
        indices: 40,
        values: 0,
    },
    attributes: Attributes::Dict,
    // In Debian's 3.13.5 `offsetof` says 20 of the first, in 3.13.0 24, though both say the same of all that is around it.
    collector: Collector {
        generations: &[24, 20],
        permanent: &[104, 96],
        // Behind the list (24 bytes) and `generation_stats` (three of 24 bytes).
        collecting: 96,
        garbage: 104,
        // To 3.13; and since 3.14.5, where it was put back at the end of the structure.
        generational: &[
            Generational {
                first: 8u64.wrapping_neg(),
                total: 120,
            },
            Generational {
                first: 160,
                total: 144,
            },
        ],
    },
    pending: Pending::BeforeCollector,
    int_has_tag: false,
    tuple_items: 24,
    type_qualname: 856,
    function_code: 16,
    function_closure: 48,
};

const PYTHON_3_10: Layout = Layout {
    version: (3, 10),
    frame: Frame {
        instruction: 96,
        kind: Kind::Objects(2),
        handlers: Handlers::Blocks {
            values: 64,
            count: 104,
            blocks: 112,
        },
        variables: 352,
        ..PYTHON_3_9.frame
    },
    generators: Generators::Behind {
        values: Values::Depth(64, 80),
        state: Some((108, -1)),
        code: 48,
        unit: 2,
        delegates: 72,
    },
    code: Code {
        lines: Lines::Linetable,
        ..PYTHON_3_9.code
    },
    type_qualname: 864,
    function_code: 48,
    function_closure: 72,
    ..PYTHON_3_9
};

const PYTHON_3_11: Layout = Layout {
    version: (3, 11),
    attributes: Attributes::Beside,
    runtime: Runtime {
        interpreters: 40,
        tss: Some(592),
    },
    interpreter: Interpreter {
        next: 0,
        threads: 16,
        modules: 888,
        gc: 648,
        system: 904,
        statics: None,
    },
    thread: Thread {
        id: 152,
        native_id: Some(160),
        frame: 56,
        ..PYTHON_3_9.thread
    },
    frame: Frame {
        previous: 48,
        code: 32,
        instruction: 56,
        kind: Kind::Marked {
            current: 8,
            entry: 68,
        },
        handlers: Handlers::Table {
            table: 40,
            locals: 76,
        },
        variables: 72,
        own: Own::Plain {
            function: 0,
            namespace: 24,
            object: 40,
        },
    },
    generators: Generators::Inside {
        values: Values::Index(64),
        locals: 72,
        suspended: -1,
        delegating: None,
        resumes: [151, 150],
        awaited: 1,
    },
    code: Code {
        file: 112,
        name: 120,
        qualname: Some(128),
        first_line: 72,
        table: 136,
        lines: Lines::Locations,
        constants: 24,
        variables: Variables::One(96),
        instructions: 184,
        copies: None,
    },
    dict: Dict {
        compact: true,
        count: 24,
        indices: 32,
        values: 0,
    },
    ..PYTHON_3_10
};

const PYTHON_3_12: Layout = Layout {
    version: (3, 12),
    attributes: Attributes::Tagged,
    pending: Pending::Runtime(2016),
    runtime: Runtime {
        interpreters: 40,
        tss: Some(1544),
    },
    interpreter: Interpreter {
        next: 0,
        threads: 72,
        modules: 944,
        gc: 112,
        system: 352,
        statics: Some(Statics {
            extensions: None,
            size: 40,
            dict: 16,
        }),
    },
    thread: Thread {
        id: 136,
        native_id: Some(144),
        ..PYTHON_3_11.thread
    },
    frame: Frame {
        previous: 8,
        code: 0,
        instruction: 56,
        kind: Kind::Shims {
            current: Some(0),
            owner: 70,
        },
        handlers: Handlers::Table {
            table: 40,
            locals: 72,
        },
        variables: 72,
        own: Own::Plain {
            function: 16,
            namespace: 40,
            object: 48,
        },
    },
    generators: Generators::Inside {
        values: Values::Index(64),
        locals: 72,
        suspended: -1,
        delegating: None,
        resumes: [151, 240],
        awaited: 1,
    },
    code: Code {
        first_line: 68,
        instructions: 192,
        ..PYTHON_3_11.code
    },
    text: Text {
        ascii: 40,
        compact: 56,
        interned: 2,
    },
    int_has_tag: true,
    type_qualname: 872,
    ..PYTHON_3_11
};

const PYTHON_3_13: Layout = Layout {
    version: (3, 13),
    attributes: Attributes::Inline(24),
    pending: Pending::Searched,
    runtime: Runtime {
        interpreters: 632,
        tss: Some(2160),
    },
    interpreter: Interpreter {
        next: 7264,
        threads: 7344,
        modules: 7656,
        gc: 7400,
        system: 7640,
        statics: Some(Statics {
            extensions: Some(9616),
            size: 48,
            dict: 24,
        }),
    },
    thread: Thread {
        id: 152,
        native_id: Some(160),
        frame: 72,
        ..PYTHON_3_12.thread
    },
    frame: Frame {
        kind: Kind::Shims {
            current: None,
            owner: 70,
        },
        ..PYTHON_3_12.frame
    },
    generators: Generators::Inside {
        values: Values::Index(64),
        locals: 72,
        suspended: -2,
        delegating: Some(-1),
        resumes: [0; 2],
        awaited: 1,
    },
    code: Code {
        instructions: 200,
        ..PYTHON_3_12.code
    },
    dict: Dict {
        values: 8,
        ..PYTHON_3_12.dict
    },
    ..PYTHON_3_12
};

const PYTHON_3_14: Layout = Layout {
    version: (3, 14),
    runtime: Runtime {
        interpreters: 808,
        tss: Some(2336),
    },
    interpreter: Interpreter {
        next: 7272,
        threads: 7344,
        modules: 7688,
        gc: 7408,
        system: 7672,
        statics: Some(Statics {
            extensions: Some(9616),
            size: 48,
            dict: 24,
        }),
    },
    frame: Frame {
        kind: Kind::Shims {
            current: None,
            owner: 74,
        },
        variables: 80,
        ..PYTHON_3_13.frame
    },
    generators: Generators::Inside {
        values: Values::Pointer(64),
        locals: 80,
        suspended: -2,
        delegating: Some(-1),
        resumes: [0; 2],
        awaited: 1,
    },
    code: Code {
        instructions: 208,
        ..PYTHON_3_13.code
    },
    tuple_items: 32,
    ..PYTHON_3_13
};

const PYTHON_3_15: Layout = Layout {
    version: (3, 15),
    runtime: Runtime {
        interpreters: 936,
        tss: None,
    },
    interpreter: Interpreter {
        next: 7264,
        threads: 7336,
        modules: 7592,
        gc: 7400,
        system: 7576,
        statics: Some(Statics {
            extensions: Some(9760),
            size: 48,
            dict: 24,
        }),
    },
    thread: Thread {
        id: 176,
        native_id: Some(184),
        ..PYTHON_3_14.thread
    },
    generators: Generators::Inside {
        values: Values::Pointer(64),
        locals: 80,
        suspended: 1,
        delegating: Some(2),
        resumes: [0; 2],
        awaited: 2,
    },
    collector: Collector {
        generations: &[8],
        permanent: &[80],
        // Behind the list and the pointer `generation_stats`.
        collecting: 32,
        garbage: 48,
        generational: &[Generational {
            first: 88,
            total: 72,
        }],
    },
    type_qualname: 880,
    ..PYTHON_3_14
};
