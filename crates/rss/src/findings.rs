//! What follows from the figures of the ledger, where they support it: findings with what can be done. Used by the
//! crates `report` and `lancet`.

use vm::Language;

use crate::glibc::Malloc;
use languages::resident::VmHeap;
use languages::resident::rows::{Kind, Row};

/// Something worth a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Much is free in many arenas of malloc's.
    FreeInArenas {
        /// In memory and free.
        free: u64,
        /// Arenas in which it is.
        arenas: u64,
        /// What `malloc_trim` would give back of it.
        returnable: u64,
    },
    /// Much is free in malloc, in few arenas.
    FreeInMalloc {
        /// In memory and free.
        free: u64,
        /// What `malloc_trim` would give back of it.
        returnable: u64,
    },
    /// Much of a VM's heap is empty.
    SparseHeap {
        /// Language of the VM whose heap it is.
        language: Language,
        /// How much of the heap is empty, in percent of its bytes.
        percent: u64,
        /// Bytes that are empty, in memory or not.
        empty: u64,
        /// Pages of which a quarter or less is used.
        sparse_pages: u64,
        /// Pages with nothing in them.
        empty_pages: u64,
        /// Pages that the heap has, of the VM's own size.
        pages: u64,
    },
    /// What a compaction of a VM's heap would give back: measured, where that was asked for (`lancet heap --rss --compact`).
    Compaction {
        /// Language of the VM whose heap it is.
        language: Language,
        /// Pages that the VM gives back.
        freed: u64,
        /// Size of those pages, in bytes.
        bytes: u64,
        /// Pages that the heap had before the compaction.
        pages: u64,
        /// Pages without an object that the VM still has afterwards.
        empty: u64,
        /// Pages without an object that the VM had before.
        empty_before: u64,
        /// How long the compaction took, in milliseconds.
        took: u64,
    },
}

/// The least that is worth a sentence: so many bytes, and this part of all that is in memory, in percent.
const LEAST: u64 = 8 << 20;
const LEAST_PERCENT: u64 = 10;
/// From so many arenas on their number is the reason.
const MANY_ARENAS: usize = 4;
/// From so many percent on a heap is sparse.
const SPARSE: u64 = 40;

/// Returns the findings that the figures support; `total` is the resident memory of the process, in bytes.
pub fn of(rows: &[Row], total: u64, malloc: Option<&Malloc>, heaps: &[VmHeap]) -> Vec<Finding> {
    let matters = |bytes: u64| {
        bytes >= LEAST && bytes.saturating_mul(100) >= total.saturating_mul(LEAST_PERCENT)
    };
    let mut findings = Vec::new();
    let free = free(rows);
    let bytes = |all: &[(String, u64)]| all.iter().map(|(_, bytes)| bytes).sum::<u64>();
    let everywhere = bytes(&free);
    if let Some(malloc) = malloc.filter(|_| matters(everywhere)) {
        let returnable = malloc.arenas.iter().map(|arena| arena.returnable).sum();
        let beside_main: Vec<_> = free
            .iter()
            .filter(|(arena, _)| arena != "0")
            .cloned()
            .collect();
        let their_doing = free.len() >= MANY_ARENAS && bytes(&beside_main) * 2 >= everywhere;
        findings.push(match their_doing {
            true => Finding::FreeInArenas {
                free: everywhere,
                arenas: free.len() as u64,
                returnable,
            },
            false => Finding::FreeInMalloc {
                free: everywhere,
                returnable,
            },
        });
    }
    for heap in heaps {
        let empty = heap.free_bytes + heap.empty_bytes;
        let percent = empty
            .saturating_mul(100)
            .checked_div(heap.bytes)
            .unwrap_or(0);
        if percent >= SPARSE && matters(empty) {
            findings.push(Finding::SparseHeap {
                language: heap.language,
                percent,
                empty,
                sparse_pages: heap.sparse_pages,
                empty_pages: heap.empty_pages,
                pages: heap.pages,
            });
        }
    }
    findings
}

/// What is free and in memory, by arena.
fn free(rows: &[Row]) -> Vec<(String, u64)> {
    let kinds = [
        Kind::MallocFree,
        Kind::MallocPages,
        Kind::MallocTop,
        Kind::MallocCached,
    ];
    let mut free: Vec<(String, u64)> = Vec::new();
    for row in rows.iter().filter(|row| kinds.contains(&row.kind)) {
        match free.iter_mut().find(|(arena, _)| *arena == row.of) {
            Some((_, bytes)) => *bytes += row.bytes.rss,
            None => free.push((row.of.clone(), row.bytes.rss)),
        }
    }
    free
}
