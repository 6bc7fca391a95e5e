//! The records of `lancet heap --rss`: `process`, `ledger`, `note`…, `finding`…, `row`…, `malloc` and `arena`…, `allocator`,
//! `vm_heap`…, `compaction`…, `thread`…, `kernel`, and last `losses`. Of the file of a snapshot `process`, `ledger`, `finding`…,
//! `row`…, `allocated`… and `losses`; null is what a snapshot does not keep. Used by `page`, and by
//! `report::rss::saved` and `report::rss::json`.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use crate::losses::Losses;
use crate::process::Process;

/// A record of `lancet heap --rss --format json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum Record<'a> {
    /// A process, before all else of it.
    Process(Process<'a>),
    /// The sums of the rows.
    Ledger {
        /// The id of the process that the record is of.
        pid: i32,
        /// When the ledger was taken.
        taken_at_ns: u64,
        /// Resident memory.
        rss: u64,
        /// The same, of shared pages the process's part alone.
        pss: u64,
        /// What is swapped out.
        swap: u64,
        /// Huge pages of hugetlbfs, which no other figure has.
        hugetlb: Option<u64>,
    },
    /// What could not be looked into.
    Note {
        /// A sentence.
        text: String,
    },
    /// What stands out.
    Finding {
        /// `free_in_arenas`, `free_in_malloc`, `sparse_heap`, `compaction`.
        what: Option<&'static str>,
        /// A sentence.
        text: String,
    },
    /// What memory is used for, the largest first.
    Row {
        /// The kind of use, as one word.
        kind: Option<&'static str>,
        /// What it is of: a file, a language.
        of: Option<&'a str>,
        /// The row as the table has it.
        name: String,
        /// Resident memory.
        rss: u64,
        /// The same, of shared pages the process's part alone.
        pss: u64,
        /// What is swapped out.
        swap: u64,
    },
    /// glibc's malloc.
    Malloc {
        /// How many arenas it has.
        arenas: u64,
        /// Chunks with mappings of their own that were found.
        mapped_chunks: u64,
        /// The bytes of `mapped_chunks`.
        mapped_bytes: u64,
        /// How many malloc says there are; null: its record was not found.
        mapped_chunks_said: Option<u64>,
        /// Their bytes, as malloc says (glibc 2.43 counts them differently); null: its record was not found.
        mapped_bytes_said: Option<u64>,
    },
    /// One of its arenas.
    Arena {
        /// Its number, from 0.
        number: u64,
        /// It is the main arena, which grows by brk.
        main: bool,
        /// How many heaps it has.
        heaps: u64,
        /// What it has from the kernel.
        system: u64,
        /// What the program uses.
        used: u64,
        /// What is free, in bins.
        free: u64,
        /// In how many chunks.
        free_chunks: u64,
        /// What is free in fast bins.
        fastbins: u64,
        /// What is free in caches of threads.
        cached: u64,
        /// What is free at its end.
        top: u64,
        /// What is in memory and would be given back by `malloc_trim`.
        returnable: u64,
        /// What could not be read.
        unread: u64,
    },
    /// What another malloc answers, with `--ask-malloc`.
    Allocator {
        /// `jemalloc`, `tcmalloc`.
        name: &'a str,
        /// What the program uses.
        used: u64,
        /// What is free, in memory or not.
        free: u64,
        /// Whole pages of that.
        free_pages: u64,
        /// What its own records take; null: it does not say.
        records: Option<u64>,
        /// Addresses that it keeps without memory; null: it does not say.
        retained: Option<u64>,
    },
    /// The heap of a VM.
    VmHeap {
        /// `Ruby`, `Python`, `PHP`.
        language: &'static str,
        /// Its version.
        version: &'a str,
        /// Slots in use.
        used: u64,
        /// The bytes of `used`.
        used_bytes: u64,
        /// Free slots.
        free: u64,
        /// The bytes of `free`.
        free_bytes: u64,
        /// Pages.
        pages: u64,
        /// Pages without an object.
        empty_pages: u64,
        /// The bytes of `empty_pages`.
        empty_bytes: u64,
        /// Pages that are a quarter full or less.
        sparse_pages: u64,
        /// Bytes of all pages.
        bytes: u64,
        /// Pages that could not be read.
        unread_pages: u64,
        /// Fibers in it.
        fibers: u64,
    },
    /// What a compaction gave in a copy of the process, with `--compact`.
    Compaction {
        /// The language.
        language: &'static str,
        /// Pages before.
        pages: u64,
        /// Pages that it gave back.
        freed_pages: u64,
        /// The bytes of `freed_pages`.
        freed_bytes: u64,
        /// Pages without an object before.
        empty_pages_before: u64,
        /// Pages without an object after.
        empty_pages: u64,
        /// How long it took, to the millisecond.
        took_ns: u64,
    },
    /// Of the file of a snapshot: what the VM has allocated beside slots.
    Allocated(crate::heap::Allocated<'a>),
    /// The stack of a thread.
    Thread {
        /// The id of the thread that the record is of.
        tid: i32,
        /// The kernel's name of it.
        name: &'a str,
        /// What of its stack is in memory.
        rss: u64,
        /// The size of its mapping.
        mapped: u64,
        /// How deep it is; null: it runs.
        depth: Option<u64>,
        /// How deep it ever was.
        deepest: u64,
    },
    /// What the kernel has for the process beside its memory.
    Kernel {
        /// Page tables.
        page_tables: u64,
        /// The kernel's stacks of its threads.
        thread_stacks: u64,
        /// How many sockets it has.
        sockets: u64,
        /// Bytes that are queued in them.
        queued: u64,
    },
    /// What was lost or refused in the run: the last record of an output.
    Losses(Losses<'a>),
}
