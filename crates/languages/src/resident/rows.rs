//! The rows of the ledger: what resident memory is for. Used by `vm_heap`, `ruby::resident` and others here, and by the
//! crates `rss`, `report` and `lancet`.

use std::collections::HashMap;

use super::claims::RowId;

/// What a row's memory is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// The VM's own heap: what its objects take. `of` is the language, as for the next three.
    HeapUsed,
    /// The VM's own heap: empty slots, in pages that also hold objects.
    HeapFree,
    /// The VM's own heap: pages, pools or chunks in which there is nothing.
    HeapEmpty,
    /// The VM's own heap: headers, and what is left over behind the last slot.
    HeapRecords,
    /// malloc: what the program has. `of` is the number of the arena, as for the next five.
    MallocUsed,
    /// malloc: free, in parts of pages that also hold what is in use.
    MallocFree,
    /// malloc: free, in whole pages, which `malloc_trim` would give back.
    MallocPages,
    /// malloc: free, at the end of an arena, from which more is cut.
    MallocTop,
    /// malloc: free, kept for a thread or in a fastbin.
    MallocCached,
    /// malloc: its own records.
    MallocRecords,
    /// malloc: large chunks with mappings of their own.
    MallocMapped,
    /// Memory of another allocator, by its library (`of`), not looked into.
    OtherAllocator,
    /// Another allocator that was asked: what the program has. `of` is its name, as for the next three.
    OtherUsed,
    /// Another allocator: free, in parts of pages that hold what is in use too, and kept for threads.
    OtherFree,
    /// Another allocator: free, in whole pages that it has not given back.
    OtherPages,
    /// Another allocator: its own records.
    OtherRecords,
    /// Code that no file has: what a JIT compiler made.
    Code,
    /// What lancet has put there: its agent, which stays mapped.
    Agent,
    /// The stack of a thread; `of` is its id and name.
    Stack,
    /// Stacks of threads that have ended, which the C library keeps for the next ones.
    EndedStack,
    /// Stacks of fibers; `of` is the language.
    FiberStack,
    /// Pages of a file, which other processes may share; `of` is the path, as for the next two.
    File,
    /// Pages of a file that the process has changed, and variables of a program or library that no file has.
    Variables,
    /// Memory made to be shared: memfd, tmpfs, System V, shared anonymous memory.
    Shared,
    /// The kernel's own pages in every process (vdso, vvar).
    Kernel,
    /// Anonymous memory that nothing of the above has; `of` is its name, if it has one.
    Anonymous,
    /// What has come between two looks.
    Changed,
}

impl Kind {
    /// The name for programs.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::HeapUsed => "vm_heap_used",
            Kind::HeapFree => "vm_heap_free",
            Kind::HeapEmpty => "vm_heap_empty",
            Kind::HeapRecords => "vm_heap_records",
            Kind::MallocUsed => "malloc_used",
            Kind::MallocFree => "malloc_free",
            Kind::MallocPages => "malloc_free_pages",
            Kind::MallocTop => "malloc_top",
            Kind::MallocCached => "malloc_cached",
            Kind::MallocRecords => "malloc_records",
            Kind::MallocMapped => "malloc_mapped",
            Kind::OtherAllocator => "other_allocator",
            Kind::OtherUsed => "other_allocator_used",
            Kind::OtherFree => "other_allocator_free",
            Kind::OtherPages => "other_allocator_free_pages",
            Kind::OtherRecords => "other_allocator_records",
            Kind::Code => "jit_code",
            Kind::Agent => "lancet_agent",
            Kind::Stack => "thread_stack",
            Kind::EndedStack => "ended_thread_stack",
            Kind::FiberStack => "fiber_stack",
            Kind::File => "file",
            Kind::Variables => "file_written",
            Kind::Shared => "shared_memory",
            Kind::Kernel => "kernel",
            Kind::Anonymous => "anonymous",
            Kind::Changed => "changed",
        }
    }
}

/// Bytes of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    /// Bytes that are in memory.
    pub rss: u64,
    /// Bytes that are in memory, where those that several processes have count by this process's part; in proportion within each mapping.
    pub pss: u64,
    /// Bytes that are in swap and not in memory.
    pub swap: u64,
}

impl Bytes {
    /// Adds each figure of `other` to that of the same name; a sum that is too large stays at the maximum.
    pub fn add(&mut self, other: Bytes) {
        self.rss = self.rss.saturating_add(other.rss);
        self.pss = self.pss.saturating_add(other.pss);
        self.swap = self.swap.saturating_add(other.swap);
    }
}

/// A row of the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// What it is for.
    pub kind: Kind,
    /// Which one: see [`Kind`].
    pub of: String,
    /// How much of it is in memory and in swap.
    pub bytes: Bytes,
}

/// Rows in the making.
#[derive(Debug, Default)]
pub struct Rows {
    rows: Vec<Row>,
    known: HashMap<(Kind, String), RowId>,
}

/// The most rows; what comes later of a kind shares one.
const MOST: usize = 1 << 17;

impl Rows {
    /// The number of a row, which is made if there is none.
    pub fn id(&mut self, kind: Kind, of: String) -> RowId {
        let full = self.rows.len() >= MOST;
        let key = (kind, if full { "(others)".into() } else { of });
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let id = self.rows.len() as RowId;
        self.rows.push(Row {
            kind,
            of: key.1.clone(),
            bytes: Bytes::default(),
        });
        self.known.insert(key, id);
        id
    }

    /// Adds to a row.
    pub fn add(&mut self, row: RowId, bytes: Bytes) {
        if let Some(row) = self.rows.get_mut(row as usize) {
            row.bytes.add(bytes);
        }
    }

    /// Those with something in them, the largest first.
    pub fn finish(self) -> Vec<Row> {
        let mut rows = self.rows;
        rows.retain(|row| row.bytes != Bytes::default());
        sort(&mut rows);
        rows
    }
}

/// Puts the largest first.
pub fn sort(rows: &mut [Row]) {
    rows.sort_by(|a, b| {
        let by_size = b
            .bytes
            .rss
            .cmp(&a.bytes.rss)
            .then(b.bytes.swap.cmp(&a.bytes.swap));
        by_size.then_with(|| (a.kind, &a.of).cmp(&(b.kind, &b.of)))
    });
}
