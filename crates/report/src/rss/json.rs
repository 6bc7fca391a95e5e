//! One JSON object a line, of the records of [`answer::rss`]. Used by `rss`.

use std::io::{self, Write};

use answer::process::{Language, Process};
use answer::rss::Record;
use rss::{Finding, Ledger, VmHeap};

use super::words;
use crate::json::line;

pub(super) fn write(out: &mut dyn Write, ledger: &Ledger) -> io::Result<()> {
    let mut process = Process::new(ledger.pid, &*ledger.command_line);
    process.languages = Some(ledger.heaps.iter().map(language).collect());
    line(out, &Record::Process(process))?;
    line(
        out,
        &Record::Ledger {
            pid: ledger.pid,
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
            Finding::FreeInArenas { .. } => "free_in_arenas",
            Finding::FreeInMalloc { .. } => "free_in_malloc",
            Finding::SparseHeap { .. } => "sparse_heap",
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
                name: words::name(row.kind, &row.of),
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

fn language(heap: &VmHeap) -> Language<'_> {
    Language {
        name: heap.language.description().name,
        version: Some(&heap.version),
    }
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
                    language: language.description().name,
                    pages,
                    freed_pages: freed,
                    freed_bytes: bytes,
                    empty_pages_before: empty_before,
                    empty_pages: empty,
                    took_ns: took.saturating_mul(1_000_000),
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
                language: heap.language.description().name,
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
