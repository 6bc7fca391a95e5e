//! What the functions of an allocator do to memory: those of C (`malloc(3)`, `posix_memalign(3)`), which jemalloc and tcmalloc replace by
//! functions of the same names. Used by `allocations`.

/// What a call does to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// It allocates so many bytes. The address is its result, or stands where `behind` says.
    Allocates { bytes: u64, behind: Option<u64> },
    /// It allocates so many bytes in the place of what is at `old`, unless that is 0.
    Replaces { old: u64, bytes: u64 },
    /// It frees what is at an address, unless that is 0.
    Frees(u64),
}

impl Effect {
    /// Returns the effect of a call with these arguments; `None` = the function is none of an allocator.
    pub(super) fn of(name: &str, arguments: &[u64; 6]) -> Option<Effect> {
        let [first, second, third, ..] = *arguments;
        let allocates = |bytes| Effect::Allocates {
            bytes,
            behind: None,
        };
        Some(match name {
            "malloc" | "valloc" | "pvalloc" => allocates(first),
            // A product that does not fit is refused by the function itself.
            "calloc" => allocates(first.saturating_mul(second)),
            "aligned_alloc" | "memalign" => allocates(second),
            "posix_memalign" => Effect::Allocates {
                bytes: third,
                behind: Some(first),
            },
            "realloc" => Effect::Replaces {
                old: first,
                bytes: second,
            },
            "reallocarray" => Effect::Replaces {
                old: first,
                bytes: second.saturating_mul(third),
            },
            "free" | "cfree" | "free_sized" | "free_aligned_sized" => Effect::Frees(first),
            _ => return None,
        })
    }
}
