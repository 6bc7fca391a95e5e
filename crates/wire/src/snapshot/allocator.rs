//! What an allocator that has taken malloc's place is asked for, in a copy of the program. Used by `snapshot`, and by
//! the crates `agent`, `dump`, `rss` and `enter`.
//!
//! Child and command know the questions by their places in these lists. jemalloc: `mallctl(3)`, "MALLCTL NAMESPACE"; 4096 is `MALLCTL_ARENAS_ALL`
//! (`jemalloc/jemalloc.h`, 5.0 and later), all arenas together. tcmalloc: `GetNumericProperty` in `gperftools/malloc_extension.h`. Each answer is a
//! `size_t`.

use core::ffi::CStr;

/// Which function it is that is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Asked {
    /// jemalloc's `int mallctl(const char *name, void *old, size_t *old_length, void *new, size_t new_length)`.
    Jemalloc = 1,
    /// tcmalloc's `int MallocExtension_GetNumericProperty(const char *name, size_t *value)`.
    Tcmalloc = 2,
}

/// How many questions the allocator with most of them is asked, and so how many answers there is room for.
pub const QUESTIONS: usize = 10;

/// An answer that was not given: the allocator does not know the name.
pub const UNKNOWN: u64 = u64::MAX;

/// What jemalloc is asked for by `mallctl` (jemalloc(3), MALLCTL NAMESPACE); `pdirty`, `pmuzzy` in pages, the rest in bytes.
pub const JEMALLOC: [&CStr; QUESTIONS] = [
    c"stats.allocated",
    c"stats.active",
    c"stats.metadata",
    c"stats.resident",
    c"stats.mapped",
    c"stats.retained",
    c"stats.arenas.4096.pdirty",
    c"stats.arenas.4096.pmuzzy",
    c"stats.arenas.4096.tcache_bytes",
    c"arenas.page",
];

/// What tcmalloc is asked for by `MallocExtension_GetNumericProperty` (gperftools, `src/gperftools/malloc_extension.h`), in bytes each.
pub const TCMALLOC: [&CStr; 7] = [
    c"generic.current_allocated_bytes",
    c"generic.heap_size",
    c"tcmalloc.pageheap_free_bytes",
    c"tcmalloc.pageheap_unmapped_bytes",
    c"tcmalloc.current_total_thread_cache_bytes",
    c"tcmalloc.central_cache_free_bytes",
    c"tcmalloc.transfer_cache_free_bytes",
];
