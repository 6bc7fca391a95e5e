//! One JSON object a line. The schema is a promise, written down in `docs/heap-rss.md`: a field never changes its meaning, new ones may
//! come.

use std::io::{self, Write};

use rss::{Finding, Ledger};
use serde::Serialize;

use super::words;
use crate::json::line;

/// The number of the schema. It rises when a field goes away or changes its meaning.
pub(super) const SCHEMA: u32 = 1;

#[derive(Serialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub(super) enum Record<'a> {
    Ledger {
        schema: u32,
        pid: i32,
        command: &'a str,
        taken_at_ns: u64,
        rss: u64,
        pss: u64,
        swap: u64,
        hugetlb: Option<u64>,
    },
    Note {
        text: String,
    },
    Finding {
        what: Option<&'static str>,
        text: String,
    },
    Row {
        kind: Option<&'static str>,
        of: Option<&'a str>,
        text: String,
        rss: u64,
        pss: u64,
        swap: u64,
    },
    Malloc {
        arenas: u64,
        mapped_chunks: u64,
        mapped_bytes: u64,
        mapped_chunks_said: Option<u64>,
        mapped_bytes_said: Option<u64>,
    },
    Arena {
        number: u64,
        main: bool,
        heaps: u64,
        system: u64,
        used: u64,
        free: u64,
        free_chunks: u64,
        fastbins: u64,
        cached: u64,
        top: u64,
        returnable: u64,
        unread: u64,
    },
    Allocator {
        name: &'a str,
        used: u64,
        free: u64,
        free_pages: u64,
        records: Option<u64>,
        retained: Option<u64>,
    },
    VmHeap {
        language: &'static str,
        version: &'a str,
        used: u64,
        used_bytes: u64,
        free: u64,
        free_bytes: u64,
        pages: u64,
        empty_pages: u64,
        empty_bytes: u64,
        sparse_pages: u64,
        bytes: u64,
        unread_pages: u64,
        fibers: u64,
    },
    Compaction {
        language: &'static str,
        pages: u64,
        freed_pages: u64,
        freed_bytes: u64,
        empty_pages_before: u64,
        empty_pages: u64,
        took_ms: u64,
    },
    Thread {
        tid: i32,
        name: &'a str,
        rss: u64,
        mapped: u64,
        depth: Option<u64>,
        deepest: u64,
    },
    Kernel {
        page_tables: u64,
        thread_stacks: u64,
        sockets: u64,
        queued: u64,
    },
}

pub(super) fn write(out: &mut dyn Write, ledger: &Ledger) -> io::Result<()> {
    line(
        out,
        &Record::Ledger {
            schema: SCHEMA,
            pid: ledger.pid,
            command: &ledger.command_line,
            taken_at_ns: ledger.taken_at,
            rss: ledger.total.rss,
            pss: ledger.total.pss,
            swap: ledger.total.swap,
            hugetlb: Some(ledger.hugetlb),
        },
    )?;
    for text in words::losses(ledger) {
        line(out, &Record::Note { text })?;
    }
    for finding in &ledger.findings {
        let what = match finding {
            Finding::FreeInArenas { .. } => "free-in-arenas",
            Finding::FreeInMalloc { .. } => "free-in-malloc",
            Finding::SparseHeap { .. } => "sparse-heap",
            Finding::Compaction { .. } => "compaction",
        };
        let text = words::sentence(finding);
        line(
            out,
            &Record::Finding {
                what: Some(what),
                text,
            },
        )?;
    }
    for row in &ledger.rows {
        line(
            out,
            &Record::Row {
                kind: Some(row.kind.name()),
                of: Some(&row.of),
                text: words::name(row.kind, &row.of),
                rss: row.bytes.rss,
                pss: row.bytes.pss,
                swap: row.bytes.swap,
            },
        )?;
    }
    malloc(out, ledger)?;
    allocator(out, ledger)?;
    heaps(out, ledger)?;
    compaction(out, ledger)?;
    for thread in &ledger.threads {
        line(
            out,
            &Record::Thread {
                tid: thread.tid,
                name: &thread.name,
                rss: thread.rss,
                mapped: thread.mapped,
                depth: thread.depth,
                deepest: thread.deepest,
            },
        )?;
    }
    let kernel = ledger.kernel;
    line(
        out,
        &Record::Kernel {
            page_tables: kernel.page_tables,
            thread_stacks: kernel.thread_stacks,
            sockets: kernel.sockets,
            queued: kernel.queued,
        },
    )
}

fn allocator(out: &mut dyn Write, ledger: &Ledger) -> io::Result<()> {
    let Some(other) = &ledger.other else {
        return Ok(());
    };
    let Some(figures) = other.figures else {
        return Ok(());
    };
    line(
        out,
        &Record::Allocator {
            name: other.name,
            used: figures.used,
            free: figures.free,
            free_pages: figures.pages,
            records: figures.records,
            retained: figures.retained,
        },
    )
}

fn compaction(out: &mut dyn Write, ledger: &Ledger) -> io::Result<()> {
    for finding in &ledger.findings {
        if let Finding::Compaction {
            language,
            freed,
            bytes,
            pages,
            empty,
            empty_before,
            took,
        } = *finding
        {
            line(
                out,
                &Record::Compaction {
                    language: language.description().prefix,
                    pages,
                    freed_pages: freed,
                    freed_bytes: bytes,
                    empty_pages_before: empty_before,
                    empty_pages: empty,
                    took_ms: took,
                },
            )?;
        }
    }
    Ok(())
}

fn malloc(out: &mut dyn Write, ledger: &Ledger) -> io::Result<()> {
    let Some(malloc) = &ledger.malloc else {
        return Ok(());
    };
    line(
        out,
        &Record::Malloc {
            arenas: malloc.arenas.len() as u64,
            mapped_chunks: malloc.mapped,
            mapped_bytes: malloc.mapped_bytes,
            mapped_chunks_said: malloc.mapped_said.map(|(chunks, _)| chunks),
            mapped_bytes_said: malloc.mapped_said.map(|(_, bytes)| bytes),
        },
    )?;
    for (number, arena) in (0..).zip(&malloc.arenas) {
        line(
            out,
            &Record::Arena {
                number,
                main: arena.main,
                heaps: arena.heaps,
                system: arena.system,
                used: arena.used,
                free: arena.free,
                free_chunks: arena.free_chunks,
                fastbins: arena.fast,
                cached: arena.cached,
                top: arena.top,
                returnable: arena.returnable,
                unread: arena.unread,
            },
        )?;
    }
    Ok(())
}

fn heaps(out: &mut dyn Write, ledger: &Ledger) -> io::Result<()> {
    for heap in &ledger.heaps {
        line(
            out,
            &Record::VmHeap {
                language: heap.language.description().prefix,
                version: &heap.version,
                used: heap.used,
                used_bytes: heap.used_bytes,
                free: heap.free,
                free_bytes: heap.free_bytes,
                pages: heap.pages,
                empty_pages: heap.empty_pages,
                empty_bytes: heap.empty_bytes,
                sparse_pages: heap.sparse_pages,
                bytes: heap.bytes,
                unread_pages: heap.unread,
                fibers: heap.fibers,
            },
        )?;
    }
    Ok(())
}
