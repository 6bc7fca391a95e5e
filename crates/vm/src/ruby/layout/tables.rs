//! The tables, and where each was taken from. How, and what the fields mean: [`super`]. Used by `layout`.
//!
//! | table | source | `config.h` |
//! |---|---|---|
//! | 2.7 | v2_7_4 | Debian bullseye |
//! | 3.0 | v3_0_2 | Ubuntu jammy |
//! | 3.1 | v3_1_2 | Debian bookworm |
//! | 3.2 | v3_2_3 | Ubuntu noble |
//! | 3.3 | v3_3_8 | Debian trixie |
//! | 3.4 | v3_4_5 | Debian experimental |
//! | 4.0 | v4.0.5 (64336ffd0ee9e1f4c05891695a3d7b49cb709721) | `./configure` on Debian bookworm |

use super::{
    Classes, Collections, Hashes, Heap, Imemos, Iseq, Layout, Lock, Methods, Naming, PageCount,
    Pools, Shapes, Strings, Typed,
};

/// Every table, oldest first.
pub(super) static ALL: &[Layout] = &[
    RUBY_2_7, RUBY_3_0, RUBY_3_1, RUBY_3_2, RUBY_3_3, RUBY_3_4, RUBY_4_0,
];

const RUBY_2_7: Layout = Layout {
    version: (2, 7),
    thread_region: 152,
    thread_name: 360,
    thread_joins: 264,
    lock: Some(Lock {
        owner: 8,
        queue: 56,
        link: 88,
    }),
    hook_advances_pc: true,
    nil: 8,
    frame_size: 56,
    ec_thread: 56,
    ec_storage: 64,
    thread_ec: 32,
    thread_native: None,
    thread_vm: 24,
    vm_main_thread: 192,
    iseq: Iseq {
        insns_info: 120,
        local_count: 80,
        insn_entry: 8,
        first_line_is_fixnum: true,
    },
    string: Strings::LengthInFlags,
    class: Classes {
        singleton: 1 << 12,
        extension_is_pointer: true,
        extension: 24,
        superclass: 16,
        constants: 24,
        methods: Methods::Extension(16),
        last_operator: 168,
        naming: Naming::Table(8),
    },
    collection: Collections {
        embedded_len: 3,
        embedded_digits: 7,
        hash: Hashes::Pointer,
    },
    data: Typed::Flagged,
    imemos: Imemos::Parser,
    shapes: None,
    heap: Heap {
        align: 1 << 14,
        total_slots: 0,
        start: 24,
        body: None,
        pools: None,
        vm_objspace: 1152,
        sorted: 248,
        count: PageCount::Field(256),
        finalizers: None,
        flags: 8,
        mark_bits: 112,
        moved_to: 8,
    },
};

const RUBY_3_0: Layout = Layout {
    version: (3, 0),
    thread_region: 160,
    thread_name: 344,
    thread_joins: 272,
    lock: None,
    thread_ec: 40,
    thread_vm: 32,
    vm_main_thread: 40,
    heap: Heap {
        vm_objspace: 1088,
        sorted: 240,
        count: PageCount::Field(248),
        moved_to: 16,
        ..RUBY_2_7.heap
    },
    ..RUBY_2_7
};

const RUBY_3_1: Layout = Layout {
    version: (3, 1),
    thread_region: 168,
    thread_name: 352,
    thread_joins: 280,
    lock: Some(Lock {
        owner: 336,
        queue: 384,
        link: 104,
    }),
    frame_size: 64,
    ec_thread: 48,
    ec_storage: 56,
    iseq: Iseq {
        local_count: 88,
        insn_entry: 12,
        ..RUBY_2_7.iseq
    },
    class: Classes {
        last_operator: 169,
        ..RUBY_2_7.class
    },
    heap: Heap {
        total_slots: 2,
        start: 32,
        pools: Some(Pools {
            page_pool: 16,
            at: 40,
            size: 160,
            count: 1,
        }),
        vm_objspace: 1104,
        sorted: 256,
        count: PageCount::Field(264),
        flags: 12,
        mark_bits: 120,
        ..RUBY_3_0.heap
    },
    ..RUBY_3_0
};

const RUBY_3_2: Layout = Layout {
    version: (3, 2),
    thread_region: 120,
    thread_name: 304,
    thread_joins: 232,
    lock: None,
    nil: 4,
    thread_ec: 48,
    iseq: Iseq {
        insns_info: 112,
        local_count: 88,
        insn_entry: 12,
        first_line_is_fixnum: false,
    },
    string: Strings::LengthInSlot,
    class: Classes {
        extension_is_pointer: false,
        extension: 32,
        constants: 8,
        methods: Methods::Class(24),
        naming: Naming::Shape(376),
        ..RUBY_3_1.class
    },
    collection: Collections {
        embedded_len: 0x7f,
        hash: Hashes::Pointer,
        ..RUBY_3_1.collection
    },
    shapes: Some(SHAPES_3_2),
    heap: Heap {
        align: 1 << 16,
        pools: Some(Pools {
            page_pool: 16,
            at: 40,
            size: 200,
            count: 5,
        }),
        vm_objspace: 1136,
        sorted: 1096,
        count: PageCount::Field(1104),
        mark_bits: 272,
        ..RUBY_3_1.heap
    },
    ..RUBY_3_1
};

const RUBY_3_3: Layout = Layout {
    version: (3, 3),
    thread_region: 248,
    thread_native: Some(40),
    thread_name: 432,
    thread_joins: 360,
    lock: Some(Lock {
        owner: 328,
        queue: 344,
        link: 72,
    }),
    hook_advances_pc: false,
    frame_size: 56,
    class: Classes {
        naming: Naming::Field {
            path: 120,
            attached: 96,
        },
        ..RUBY_3_2.class
    },
    collection: Collections {
        hash: Hashes::InSlot,
        ..RUBY_3_2.collection
    },
    shapes: Some(SHAPES_3_3),
    heap: Heap {
        pools: Some(Pools {
            page_pool: 16,
            at: 32,
            size: 224,
            count: 5,
        }),
        vm_objspace: 1304,
        sorted: 1208,
        count: PageCount::Field(1216),
        ..RUBY_3_2.heap
    },
    ..RUBY_3_2
};

const RUBY_3_4: Layout = Layout {
    version: (3, 4),
    thread_name: 448,
    thread_joins: 376,
    class: Classes {
        singleton: 1 << 13,
        last_operator: 170,
        ..RUBY_3_3.class
    },
    heap: Heap {
        start: 40,
        body: Some(32),
        pools: Some(Pools {
            page_pool: 16,
            at: 40,
            size: 144,
            count: 5,
        }),
        vm_objspace: 1296,
        sorted: 832,
        count: PageCount::Array(16),
        finalizers: Some(896),
        mark_bits: 280,
        ..RUBY_3_3.heap
    },
    ..RUBY_3_3
};

const RUBY_4_0: Layout = Layout {
    version: (4, 0),
    ec_storage: 72,
    thread_region: 256,
    thread_joins: 384,
    lock: Some(Lock {
        owner: 256,
        queue: 272,
        link: 72,
    }),
    iseq: Iseq {
        local_count: 96,
        ..RUBY_3_4.iseq
    },
    class: Classes {
        extension: 24,
        superclass: 32,
        constants: 32,
        methods: Methods::Extension(24),
        last_operator: 171,
        naming: Naming::Field {
            path: 128,
            attached: 112,
        },
        ..RUBY_3_4.class
    },
    collection: Collections {
        embedded_digits: 0x1ff,
        ..RUBY_3_4.collection
    },
    data: Typed::InType,
    imemos: Imemos::Fields,
    shapes: Some(SHAPES_4_0),
    heap: Heap {
        pools: Some(Pools {
            page_pool: 16,
            at: 40,
            size: 152,
            count: 5,
        }),
        vm_objspace: 1248,
        sorted: 872,
        finalizers: Some(936),
        ..RUBY_3_4.heap
    },
    ..RUBY_3_4
};

const SHAPES_3_2: Shapes = Shapes {
    size: 32,
    index: u32::MAX,
    table: 0,
    parent: 28,
    next_index: 16,
    next_mask: u32::MAX,
    kind: 24,
    apart: None,
    class_fields: None,
};

/// With `ancestor_index` at the end.
const SHAPES_3_3: Shapes = Shapes {
    size: 40,
    ..SHAPES_3_2
};

const SHAPES_4_0: Shapes = Shapes {
    size: 40,
    index: (1 << 19) - 1,
    table: 1 << 27,
    parent: 24,
    next_index: 28,
    next_mask: 0xffff,
    kind: 32,
    apart: Some(1 << 16),
    class_fields: Some(16),
};
