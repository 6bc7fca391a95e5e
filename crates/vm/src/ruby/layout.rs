//! Where things lie in each Ruby: the one place for what differs between versions. Used by `facts`, `class` and others
//! here, and by crate `languages`.
//!
//! Offsets are of standard x86-64 Linux builds (glibc, no `RUBY_DEBUG`, `VM_CHECK_MODE` 0). Every
//! number in the tables was printed by `offsetof`/`sizeof` in a program that included the real
//! `gc.c` of that release with the `config.h` of the distribution's own `-dev` package.
//!
//! The sources of each are with the tables (`layout/tables.rs`).
//!
//! `m_tbl` and what concerns Arrays and Hashes was printed in a program that included the headers of the same
//! releases (`method.h`, `constant.h`, `symbol.h`, `internal/*.h`) with the `config.h` of 3.1.
//!
//! The numbers of 4.0 were read from the debug information of builds of v4.0.5 (shared and static, `./configure` without
//! options that change a layout), because no distribution that we use has a package of it.
//!
//! What is the same in all is a constant beside the code that uses it, so that the hot path is
//! loads at immediate offsets.

mod tables;

/// One minor version's table. Each field names the definition it comes from.
#[derive(Debug)]
pub struct Layout {
    /// Major and minor version.
    pub version: (u8, u8),
    /// Whether `pc` of the innermost frame, if that is a Ruby frame, is one word further while a
    /// NEWOBJ hook runs: `gc.c` `gc_event_hook_body` up to 3.2. See [`frames`](super::frames).
    pub hook_advances_pc: bool,
    /// `Qnil`: `include/ruby/internal/special_consts.h` (2.7: `include/ruby/ruby.h`).
    pub nil: u64,
    /// Bytes of a control frame, `sizeof(rb_control_frame_t)`: `vm_core.h`.
    pub frame_size: u64,
    /// `thread_ptr` in `rb_execution_context_t`: `vm_core.h`.
    pub ec_thread: u64,
    /// `local_storage` in `rb_execution_context_t`: `vm_core.h`. It came right behind `thread_ptr` up to 3.4.
    pub ec_storage: u64,
    /// `ec` in `rb_thread_t`: `vm_core.h`.
    pub thread_ec: u64,
    /// `nt` in `rb_thread_t`: the kernel thread that runs it now (`vm_core.h`, `native_thread_assign` in `thread_pthread.c`), from 3.3 on,
    /// where several threads may share one; `None` where each has its own.
    pub thread_native: Option<u64>,
    /// `vm` in `rb_thread_t`: `vm_core.h`.
    pub thread_vm: u64,
    /// `blocking_region_buffer` in `rb_thread_t`: `vm_core.h`.
    pub thread_region: u64,
    /// `main_thread`, since 3.0 `ractor.main_thread`, in `rb_vm_t`: `vm_core.h`.
    pub vm_main_thread: u64,
    /// `name` in `rb_thread_t`: `vm_core.h`.
    pub thread_name: u64,
    /// `join_list` in `rb_thread_t`: `vm_core.h`. 3.4 has a list more before it.
    pub thread_joins: u64,
    /// The VM's lock; `None` where its place has not been looked up.
    pub lock: Option<Lock>,
    /// How a method's or block's code maps to lines.
    pub iseq: Iseq,
    /// How long an embedded String is and where its bytes start.
    pub string: Strings,
    /// Classes and their names.
    pub class: Classes,
    /// How an Array keeps its length and a Hash its table.
    pub collection: Collections,
    /// How an object around a C structure tells its type and where the structure is.
    pub data: Typed,
    /// Which purposes the subtypes of imemos have.
    pub imemos: Imemos,
    /// What shapes are, if this version has them.
    pub shapes: Option<Shapes>,
    /// How pages of the object heap are found and described.
    pub heap: Heap,
}

/// Offsets in `struct rb_iseq_constant_body` and sizes of what it leads to: `vm_core.h`.
#[derive(Debug)]
pub struct Iseq {
    /// `insns_info.body`; `size`, `succ_index_table` follow at fixed distances.
    pub insns_info: u64,
    /// From `local_table` to `local_table_size`. 3.1 added `variable.script_lines`.
    pub local_count: u64,
    /// `sizeof(struct iseq_insn_info_entry)`: `iseq.h`. 3.1 added `node_id`.
    pub insn_entry: u64,
    /// `location.first_lineno` was a Fixnum up to 3.1 and is an `int` since.
    pub first_line_is_fixnum: bool,
}

/// `struct RString`: `include/ruby/internal/core/rstring.h` (2.7: `include/ruby/ruby.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strings {
    /// Up to 3.1: `as.ary` at 16, the length in flag bits 14 to 18.
    LengthInFlags,
    /// Since 3.2: length at 16 (`as.embed.len`, later `len`), bytes at 24.
    LengthInSlot,
}

/// `struct RClass` and `rb_classext_t`: `internal/class.h` (2.7: `internal.h`).
#[derive(Debug)]
pub struct Classes {
    /// `FL_SINGLETON`: user flag 0, since 3.4 user flag 1 (`internal/class.h`).
    pub singleton: u64,
    /// Whether `rb_classext_t` is behind the pointer at `extension` or begins there.
    pub extension_is_pointer: bool,
    /// Distance of that pointer or of `rb_classext_t` from the class.
    pub extension: u64,
    /// Distance of the superclass, `super`, from the class: in `RClass`, since 4.0 in `rb_classext_t`.
    pub superclass: u64,
    /// `const_tbl` in `rb_classext_t`: the table of the class's constants.
    pub constants: u64,
    /// Where the table of the class's methods is, `m_tbl`.
    pub methods: Methods,
    /// `tLAST_OP_ID`: `id.h`. IDs above it carry four scope bits.
    pub last_operator: u64,
    /// Where a class keeps its name and, if it is a singleton class, its object.
    pub naming: Naming,
}

/// Where a class keeps its table of methods, `m_tbl`: `internal/class.h` (2.7: `internal.h`).
#[derive(Clone, Copy, Debug)]
pub enum Methods {
    /// Up to 3.1 and since 4.0: at this offset of `rb_classext_t`.
    Extension(u64),
    /// 3.2 to 3.4: at this offset of `struct RClass`.
    Class(u64),
}

/// Where the name and the attached object of a class are.
#[derive(Clone, Copy, Debug)]
pub enum Naming {
    /// Hidden instance variables in the `st_table` at this offset of `rb_classext_t` (`iv_tbl`).
    Table(u64),
    /// 3.2: hidden instance variables in the array `iv_ptr` (first in `rb_classext_t`), placed by
    /// shape. The list of shapes is at this offset of `rb_vm_t` (`shape_list`).
    Shape(u64),
    /// Fields of `rb_classext_t`: `classpath` and `as.singleton_class.attached_object`.
    Field {
        /// Offset of `classpath` in `rb_classext_t`: a String with the name.
        path: u64,
        /// Offset of `as.singleton_class.attached_object` in `rb_classext_t`: the object whose singleton class it is.
        attached: u64,
    },
}

/// `struct RArray` (`include/ruby/internal/core/rarray.h`), `struct RHash` (`internal/hash.h`) and large Integers; 2.7:
/// `include/ruby/ruby.h` and `internal.h`.
#[derive(Debug)]
pub struct Collections {
    /// `RARRAY_EMBED_LEN_MASK`, moved down by `RARRAY_EMBED_LEN_SHIFT`.
    pub embedded_len: u64,
    /// `BIGNUM_EMBED_LEN_MASK`, moved down by `BIGNUM_EMBED_LEN_SHIFT`: `internal/bignum.h` (2.7: `internal.h`).
    pub embedded_digits: u64,
    /// Where a Hash has its table.
    pub hash: Hashes,
}

/// Where the `ar_table` or `st_table` of a Hash is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hashes {
    /// Up to 3.2: behind the pointer at 16, `as`. An `ar_table` is its pairs.
    Pointer,
    /// Since 3.3: at 24, behind `struct RHash`. An `ar_table` has eight hints before its pairs.
    InSlot,
}

/// `struct RTypedData`: `include/ruby/internal/core/rtypeddata.h` (2.7: `include/ruby/ruby.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Typed {
    /// Up to 3.4: `type` at 16, `typed_flag` at 24.
    Flagged,
    /// Since 4.0: `fields_obj` at 16, `type` at 24, whose lowest bit says that the structure lies in the slot
    /// (`TYPED_DATA_EMBEDDED`); that the object has a type at all says a flag (`RUBY_TYPED_FL_IS_TYPED_DATA`).
    InType,
}

/// `enum imemo_type`: `internal/imemo.h` (2.7: `internal.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Imemos {
    /// Up to 3.4: the parser has objects of its own (`imemo_ast`, `imemo_parser_strterm`).
    Parser,
    /// Since 4.0, which has no objects of the parser's any more.
    Fields,
}

/// Shapes: `rb_shape_t` and the flags of objects (`shape.h`), since 3.2.
#[derive(Debug)]
pub struct Shapes {
    /// `sizeof(rb_shape_t)`.
    pub size: u64,
    /// The bits of the number in an object's flags that are the index of its shape in the list.
    pub index: u32,
    /// The bit of that number which says that an `st_table` has the variables (`SHAPE_ID_FL_TOO_COMPLEX`); 0 = none says it.
    pub table: u32,
    /// `parent_id` in `rb_shape_t`.
    pub parent: u64,
    /// `next_iv_index`, since 4.0 `next_field_index`, in `rb_shape_t`.
    pub next_index: u64,
    /// The bits of the word there that are that number.
    pub next_mask: u32,
    /// `type` in `rb_shape_t`.
    pub kind: u64,
    /// The flag which says that a plain object's variables lie in a block of their own (`ROBJECT_HEAP`,
    /// `include/ruby/internal/core/robject.h`); `None` where another says that they lie in the slot (`ROBJECT_EMBED`).
    pub apart: Option<u64>,
    /// `fields_obj` in `rb_classext_t`: an object of the VM's own that has the variables of the class; `None` where `iv_ptr`, its first
    /// field, leads to them.
    pub class_fields: Option<u64>,
}

/// `struct heap_page` and `rb_objspace_t`: `gc.c` (3.4: `gc/default/default.c`).
#[derive(Debug)]
pub struct Heap {
    /// `HEAP_PAGE_ALIGN`; the page header, a `struct heap_page *`, is at each multiple.
    pub align: u64,
    /// `total_slots` in `struct heap_page`, a `short`.
    pub total_slots: u64,
    /// `start` in `struct heap_page`.
    pub start: u64,
    /// `body` in `struct heap_page`, since 3.4: there a page that has no slots at present (`empty_pages` of the objspace) has no `start`
    /// either, and stays in the list. In earlier versions every page has both.
    pub body: Option<u64>,
    /// Where the slot size and the way back to the objspace are; before 3.1 all slots have 40 bytes.
    pub pools: Option<Pools>,
    /// `objspace` (3.4: `gc.objspace`) in `rb_vm_t`: `vm_core.h`. Used only where `pools` is `None`.
    pub vm_objspace: u64,
    /// `heap_pages.sorted` in `rb_objspace_t`: all pages by address.
    pub sorted: u64,
    /// Where the number of pages is.
    pub count: PageCount,
    /// `finalizer_table` in `rb_objspace_t`, right behind `heap_pages`: what `ObjectSpace.define_finalizer` has noted. Since 3.4, where
    /// `rb_objspace_reachable_objects_from_root` does not tell it (`rb_gc_mark_roots`, `gc.c`; `mark_roots`, `gc/default/default.c`). `None`:
    /// it is told.
    pub finalizers: Option<u64>,
    /// The bits at the start of this word of `struct heap_page`: bit 0 is `flags.before_sweep`.
    pub flags: u64,
    /// `mark_bits` in `struct heap_page`, one bit for each 40 bytes of the body.
    pub mark_bits: u64,
    /// `destination` in `struct RMoved`.
    pub moved_to: u64,
}

/// The VM's lock: `rb_global_vm_lock_t`, since 3.2 `struct rb_thread_sched` (`thread_pthread.h`). Printed by `offsetof`
/// in a program that included `vm_core.h` and `ractor_core.h` of the release with the `config.h` of 3.1, and held
/// against live processes by `tests/stack/waits.rs`.
#[derive(Debug)]
pub struct Lock {
    /// `threads.gvl.owner`, since 3.3 `threads.sched.running`, in `rb_ractor_t`; in 2.7 `gvl.owner` in `rb_vm_t`.
    pub owner: u64,
    /// `waitq`, since 3.3 `readyq`, beside it.
    pub queue: u64,
    /// `native_thread_data.node.gvl`, since 3.3 `sched.node.readyq`, in `rb_thread_t`.
    pub link: u64,
}

/// Heaps by slot size: `size_pools`, since 3.4 `heaps`, in `rb_objspace_t`.
#[derive(Debug)]
pub struct Pools {
    /// `size_pool` (3.4: `heap`) in `struct heap_page`; `slot_size` is its first field.
    pub page_pool: u64,
    /// The array in `rb_objspace_t`.
    pub at: u64,
    /// Size of one element.
    pub size: u64,
    /// Number of elements of the array.
    pub count: u64,
}

/// Where the number of pages is.
#[derive(Clone, Copy, Debug)]
pub enum PageCount {
    /// At this offset of `rb_objspace_t`: `heap_pages.allocated_pages`.
    Field(u64),
    /// 3.4: `sorted` is an `rb_darray`: its size comes first, its elements at this distance.
    Array(u64),
}

impl Layout {
    /// Returns the oldest and the newest version that are known.
    pub(super) fn ends() -> [(u8, u8); 2] {
        [
            tables::ALL[0].version,
            tables::ALL[tables::ALL.len() - 1].version,
        ]
    }

    /// Returns the tables, oldest first.
    pub fn all() -> &'static [Layout] {
        tables::ALL
    }
}
