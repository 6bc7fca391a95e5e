//! What a VM's heap holds, whichever the VM. Used by `php::resident`, `python::resident` and others here, and by the
//! crates `rss` and `report`.

use process::resident_memory::ResidentMemory;
use vm::Language;

use super::claims::{Layer, RowId};
use super::rows::{Kind, Rows};

/// How often the heap of a process is read that changes it meanwhile.
const TRIES: u32 = 6;

/// Reads a heap until all of it could be read, a few times; else the best of what was. `None`: there is none.
pub fn steadiest(
    memory: &ResidentMemory,
    mut read: impl FnMut() -> Option<Result<(VmHeap, Layer), String>>,
) -> Option<Result<(VmHeap, Layer), String>> {
    let mut best: Option<(VmHeap, Layer)> = None;
    let mut why = String::new();
    for _ in 0..TRIES {
        match read()? {
            Ok(found) if found.0.unread == 0 => return Some(Ok(found)),
            Ok(found) => {
                let is_better = |(heap, _): &(VmHeap, Layer)| heap.unread > found.0.unread;
                if best.as_ref().is_none_or(is_better) {
                    best = Some(found);
                }
            }
            Err(error) => why = error,
        }
        if memory.is_over() {
            break;
        }
        memory.forget();
    }
    Some(best.ok_or(why))
}

/// What a VM's heap holds, by its own records; in memory or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VmHeap {
    /// Language of the VM.
    pub language: Language,
    /// Version of the VM as it calls itself; empty where it is not known.
    pub version: String,
    /// Number of slots or blocks that hold something. Garbage that is not yet swept is among them.
    pub used: u64,
    /// Bytes of those in `used`.
    pub used_bytes: u64,
    /// Number of empty slots or blocks in pages that hold something too.
    pub free: u64,
    /// Bytes of those in `free`.
    pub free_bytes: u64,
    /// Pages that there are, of the VM's own size; Python's pools.
    pub pages: u64,
    /// Pages in which there is nothing.
    pub empty_pages: u64,
    /// Bytes of the pages in `empty_pages`.
    pub empty_bytes: u64,
    /// Pages of which a quarter or less is used, without those in `empty_pages`. Of a PHP, pages whose slots are all free count here.
    pub sparse_pages: u64,
    /// Bytes of all pages.
    pub bytes: u64,
    /// Bytes of pages that the VM has from malloc, and not from the kernel.
    pub in_malloc: u64,
    /// Pages that could not be read.
    pub unread: u64,
    /// Number of stacks of fibers that are parked.
    pub fibers: u64,
}

/// The rows of a VM's heap.
#[derive(Clone, Copy, Debug)]
pub struct HeapRows {
    /// Slots or blocks that hold something.
    pub used: RowId,
    /// Empty ones in pages that hold something too.
    pub free: RowId,
    /// Pages that hold nothing.
    pub empty: RowId,
    /// What the VM notes in the pages themselves.
    pub records: RowId,
}

impl HeapRows {
    /// Returns the rows of this language's heap, which are made if there are none.
    pub fn of(language: Language, rows: &mut Rows) -> Self {
        let mut row = |kind| rows.id(kind, language.to_string());
        HeapRows {
            used: row(Kind::HeapUsed),
            free: row(Kind::HeapFree),
            empty: row(Kind::HeapEmpty),
            records: row(Kind::HeapRecords),
        }
    }
}

impl VmHeap {
    /// Makes the record of a heap of which nothing is counted yet.
    pub fn new(language: Language, version: String) -> Self {
        VmHeap {
            language,
            version,
            used: 0,
            used_bytes: 0,
            free: 0,
            free_bytes: 0,
            pages: 0,
            empty_pages: 0,
            empty_bytes: 0,
            sparse_pages: 0,
            bytes: 0,
            in_malloc: 0,
            unread: 0,
            fibers: 0,
        }
    }
}
