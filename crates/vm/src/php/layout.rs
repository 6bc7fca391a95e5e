//! Where things lie in each PHP: the one place for what differs between versions. Used by `heap`, `facts` and
//! `version`.
//!
//! Offsets are of x86-64 Linux builds without threads (NTS) and without `--enable-debug`. Every number was
//! printed by `offsetof`/`sizeof` in a program that included `php.h`, `zend_generators.h` and `zend_fibers.h`
//! of that release from the distribution's own `-dev` package:
//!
//! | table | source | headers of |
//! |---|---|---|
//! | 7.4 | 7.4.33 | Debian bullseye, php7.4-dev |
//! | 8.1 | 8.1.2 | Ubuntu jammy, php8.1-dev |
//! | 8.2 | 8.2.32 | Debian bookworm, php8.2-dev |
//! | 8.3 | 8.3.6 | Ubuntu noble, php8.3-dev |
//! | 8.4 | 8.4.24 | Debian trixie, php8.4-dev |
//! | 8.5 | 8.5.7 | Debian sid, php8.5-dev |
//! | 8.6 | 8.6.0rc3 | Debian experimental, php8.6-dev |
//!
//! No table for 8.0: no distribution at hand carries its headers. It is refused by name. What is the same in
//! all is a constant beside the code that uses it.

use super::version::{Unsupported, Version};

/// One release series' table. Each field names the definition it comes from.
#[derive(Debug)]
pub struct Layout {
    /// `ZEND_MODULE_API_NO`, by which the series is known: `zend_modules.h`.
    pub api: u32,
    /// `objects_store` in `zend_executor_globals`: `zend_globals.h`.
    pub objects: u64,
    /// `function_table` in `zend_executor_globals`; [`Php::global`](super::Php) says what lies at the same distances behind it in all
    /// versions: `zend_globals.h`.
    pub tables: u64,
    /// Where a class keeps what its objects and statics are made of.
    pub class: Class,
    /// `opline_before_exception` in `zend_executor_globals`: `zend_globals.h`.
    pub before_exception: u64,
    /// `opcodes` in `zend_op_array`: `zend_compile.h`.
    pub opcodes: u64,
    /// `last` in `zend_op_array`, the number of its operations: `zend_compile.h`.
    pub opcode_count: u64,
    /// `filename` in `zend_op_array`: `zend_compile.h`.
    pub filename: u64,
    /// `line_end` in `zend_op_array`: `zend_compile.h`.
    pub line_end: u64,
    /// `handler` in `zend_internal_function`: `zend_compile.h`.
    pub handler: u64,
    /// `execute_data` and `node.parent` in `zend_generator`: `zend_generators.h`.
    pub generator: (u64, u64),
    /// Where fibers keep their state, since 8.1.
    pub fiber: Option<Fiber>,
    /// Where what leads to the heap is.
    pub heap: Heap,
    /// Whether some functions of C are called without a frame (`ZEND_FRAMELESS_ICALL_0` to `_3`), since 8.4.
    pub frameless: bool,
}

/// Offsets in `zend_class_entry`: `zend.h`.
#[derive(Clone, Copy, Debug)]
pub struct Class {
    /// Offset of `default_properties_count`; `default_static_members_count` is the next four bytes.
    pub counts: u64,
    /// Offset of `default_properties_table`, the first of the pointers; between them all versions have the same distances.
    pub pointers: u64,
}

/// Offsets in `zend_fiber`: `zend_fibers.h`.
#[derive(Clone, Copy, Debug)]
pub struct Fiber {
    /// Offset of `context.status` in `zend_fiber`.
    pub status: u64,
    /// Offset of `execute_data` in `zend_fiber`.
    pub execute_data: u64,
}

/// Offsets and facts that only walking the heap takes.
#[derive(Clone, Copy, Debug)]
pub struct Heap {
    /// `map_ptr_base` in `zend_compiler_globals`: `zend_globals.h`.
    pub map_base: u64,
    /// Whether a pointer of a map that is no offset leads to the pointer itself and not to what it points to: `zend_map_ptr.h`.
    pub map_leads_to_pointer: bool,
    /// `last_var` in `zend_op_array`: `zend_compile.h`.
    pub variable_count: u64,
    /// `vars` in `zend_op_array`: `zend_compile.h`.
    pub variables: u64,
    /// `static_variables_ptr` in `zend_op_array`, a map pointer: `zend_compile.h`.
    pub statics: u64,
    /// `this_ptr` in `zend_closure` (`zend_closures.c`), which is right behind `func`.
    pub closure_this: u64,
    /// `regular_list` in `zend_executor_globals`: `zend_globals.h`.
    pub resources: u64,
    /// `active` in `zend_executor_globals`: `zend_globals.h`.
    pub active: u64,
    /// Whether an offset in a map is one more than the distance from its base; since 8.0 the base is one less: `zend_map_ptr.h`.
    pub map_offset_is_odd: bool,
    /// `IS_INDIRECT`, the type of a value that lies elsewhere, and `IS_PTR`: `zend_types.h`.
    pub indirect: u8,
    pub pointer: u8,
    /// Whether an array whose keys are numbers has bare values, since 8.2.
    pub packs_values: bool,
    /// Whether an `SplObjectStorage` keeps each object as a value and not as a bare pointer, before 8.1: `ext/spl/spl_observer.c`.
    pub stores_values: bool,
}

const HEAP_7_4: Heap = Heap {
    map_base: 528,
    map_leads_to_pointer: true,
    variable_count: 52,
    variables: 96,
    statics: 80,
    closure_this: 280,
    resources: 560,
    active: 992,
    map_offset_is_odd: true,
    indirect: 13,
    pointer: 14,
    packs_values: false,
    stores_values: true,
};

const HEAP_8_2: Heap = Heap {
    map_base: 480,
    map_leads_to_pointer: false,
    variable_count: 76,
    variables: 112,
    statics: 96,
    closure_this: 304,
    resources: 560,
    active: 992,
    map_offset_is_odd: false,
    indirect: 12,
    pointer: 13,
    packs_values: true,
    stores_values: false,
};

const HEAP_8_1: Heap = Heap {
    map_leads_to_pointer: true,
    variable_count: 60,
    variables: 104,
    statics: 88,
    closure_this: 296,
    packs_values: false,
    ..HEAP_8_2
};

const HEAP_8_3: Heap = Heap {
    variable_count: 72,
    variables: 104,
    statics: 88,
    closure_this: 296,
    resources: 568,
    ..HEAP_8_2
};

const HEAP_8_4: Heap = Heap {
    map_base: 512,
    variable_count: 92,
    variables: 128,
    statics: 112,
    closure_this: 312,
    resources: 584,
    active: 1064,
    ..HEAP_8_2
};

const HEAP_8_5: Heap = Heap {
    resources: 608,
    active: 1088,
    ..HEAP_8_4
};

const HEAP_8_6: Heap = Heap {
    resources: 656,
    active: 1128,
    ..HEAP_8_5
};

const PHP_7_4: Layout = Layout {
    api: 20190902,
    objects: 840,
    tables: 432,
    class: Class {
        counts: 32,
        pointers: 40,
    },
    before_exception: 880,
    opcodes: 64,
    opcode_count: 60,
    filename: 136,
    line_end: 148,
    handler: 48,
    generator: (64, 160),
    fiber: None,
    heap: HEAP_7_4,
    frameless: false,
};

const PHP_8_1: Layout = Layout {
    api: 20210902,
    opcodes: 72,
    opcode_count: 68,
    filename: 144,
    line_end: 156,
    handler: 56,
    generator: (56, 152),
    fiber: Some(Fiber {
        status: 64 + 32,
        execute_data: 264,
    }),
    heap: HEAP_8_1,
    ..PHP_7_4
};

const PHP_8_2: Layout = Layout {
    api: 20220829,
    opcodes: 88,
    opcode_count: 80,
    filename: 152,
    line_end: 164,
    handler: 72,
    fiber: Some(Fiber {
        status: 64 + 40,
        execute_data: 280,
    }),
    heap: HEAP_8_2,
    ..PHP_8_1
};

const PHP_8_3: Layout = Layout {
    api: 20230831,
    opcodes: 80,
    opcode_count: 76,
    filename: 144,
    line_end: 156,
    fiber: Some(Fiber {
        status: 64 + 40,
        execute_data: 288,
    }),
    heap: HEAP_8_3,
    ..PHP_8_2
};

const PHP_8_4: Layout = Layout {
    api: 20240924,
    objects: 856,
    before_exception: 952,
    opcodes: 104,
    opcode_count: 96,
    filename: 168,
    line_end: 180,
    handler: 88,
    heap: HEAP_8_4,
    frameless: true,
    ..PHP_8_3
};

const PHP_8_5: Layout = Layout {
    api: 20250925,
    objects: 880,
    tables: 456,
    before_exception: 976,
    heap: HEAP_8_5,
    ..PHP_8_4
};

const PHP_8_6: Layout = Layout {
    api: 20260924,
    objects: 928,
    class: Class {
        counts: 36,
        pointers: 48,
    },
    before_exception: 1016,
    heap: HEAP_8_6,
    ..PHP_8_5
};

static ALL: &[Layout] = &[
    PHP_7_4, PHP_8_1, PHP_8_2, PHP_8_3, PHP_8_4, PHP_8_5, PHP_8_6,
];

impl Layout {
    /// The layout of a PHP, or why there is none.
    pub fn of(version: Version) -> Result<&'static Layout, Unsupported> {
        ALL.iter()
            .find(|layout| layout.api == version.0)
            .ok_or(Unsupported::Unknown(version))
    }

    /// The tables, oldest first.
    pub fn all() -> &'static [Layout] {
        ALL
    }
}
