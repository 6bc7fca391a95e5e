//! The ledger for people: what follows, the rows, then arenas, heaps and stacks one by one. Used by `saved` and `rss`.

use std::io::{self, Write};

use rss::{Bytes, Ledger};

use super::words::{losses, sentence, summed};
use crate::Style;
use crate::columns::{Line, Tone, aligned, written};
use crate::figures::{grouped, plural, size};
use crate::text::printable;

pub(super) fn write(
    out: &mut dyn Write,
    ledger: &Ledger,
    top: usize,
    style: &Style,
) -> io::Result<()> {
    let command = ledger.command_line.join(" ");
    head(out, ledger.pid, &command, ledger.total, style)?;
    for what in losses(ledger) {
        written(
            out,
            &format!("note: {}", printable(&what)),
            Tone::Warning,
            style,
        )?;
    }
    writeln!(out)?;
    for finding in &ledger.findings {
        written(out, &sentence(finding), Tone::Warning, style)?;
    }
    if !ledger.findings.is_empty() {
        writeln!(out)?;
    }
    rows(out, summed(ledger), ledger.total, style)?;
    arenas(out, ledger, top, style)?;
    heaps(out, ledger)?;
    threads(out, ledger, top, style)?;
    kernel(out, ledger)
}

/// Which process, and how much it has in memory.
pub(super) fn head(
    out: &mut dyn Write,
    pid: i32,
    command: &str,
    total: Bytes,
    style: &Style,
) -> io::Result<()> {
    let process = format!("process {pid} {}", printable(command));
    written(out, &process, Tone::Head, style)?;
    let mut sums = format!("{} in memory", size(total.rss));
    if total.pss != total.rss {
        sums += &format!("; {} if what it shares counts by its part", size(total.pss));
    }
    if total.swap > 0 {
        sums += &format!("; {} in swap", size(total.swap));
    }
    writeln!(out, "{sums}")
}

/// The rows and their sum.
pub(super) fn rows(
    out: &mut dyn Write,
    rows: Vec<(Bytes, String)>,
    total: Bytes,
    style: &Style,
) -> io::Result<()> {
    let cells = |bytes: Bytes| {
        let percent = (bytes.rss * 1000).checked_div(total.rss).unwrap_or(0);
        let mut cells = vec![
            size(bytes.rss),
            format!("{}.{} %", percent / 10, percent % 10),
            size(bytes.pss),
        ];
        if total.swap > 0 {
            cells.push(size(bytes.swap));
        }
        cells
    };
    let mut head: Vec<String> = ["in memory", "part", "by its part"]
        .map(str::to_owned)
        .into();
    if total.swap > 0 {
        head.push("in swap".into());
    }
    let mut lines = vec![Line::words(head, "what for", Tone::Head)];
    let row = |(bytes, name): (Bytes, String)| {
        Line::row(
            cells(bytes),
            printable(&name).into_owned(),
            Tone::Plain,
            Vec::new(),
        )
    };
    lines.extend(rows.into_iter().map(row));
    lines.push(Line::words(cells(total), "all", Tone::Dim));
    aligned(out, &lines, style)
}

fn arenas(out: &mut dyn Write, ledger: &Ledger, top: usize, style: &Style) -> io::Result<()> {
    let Some(malloc) = ledger
        .malloc
        .as_ref()
        .filter(|malloc| malloc.arenas.len() > 1)
    else {
        return Ok(());
    };
    writeln!(out)?;
    let head = [
        "from the kernel",
        "in use",
        "free",
        "in caches",
        "at its end",
        "returnable",
    ];
    let mut lines = vec![Line::words(
        head.map(str::to_owned).into(),
        "arena of malloc's",
        Tone::Head,
    )];
    let mut arenas: Vec<_> = malloc.arenas.iter().enumerate().collect();
    arenas.sort_by_key(|(_, arena)| std::cmp::Reverse(arena.system));
    for (number, arena) in arenas.iter().take(top) {
        let cells = [
            arena.system,
            arena.used,
            arena.free,
            arena.cached + arena.fast,
            arena.top,
            arena.returnable,
        ];
        let name = match number {
            0 => "main".to_owned(),
            number => number.to_string(),
        };
        lines.push(Line::row(
            cells.map(size).into(),
            name,
            Tone::Plain,
            Vec::new(),
        ));
    }
    aligned(out, &lines, style)?;
    left_out(out, arenas.len(), top)
}

fn left_out(out: &mut dyn Write, count: usize, top: usize) -> io::Result<()> {
    match count.checked_sub(top) {
        None | Some(0) => Ok(()),
        Some(more) => writeln!(out, "and {} more", grouped(more as u64)),
    }
}

fn heaps(out: &mut dyn Write, ledger: &Ledger) -> io::Result<()> {
    for heap in &ledger.heaps {
        writeln!(
            out,
            "\n{} {}: {} slots in use ({}), {} empty beside them ({}); {} pages, {} of them empty ({}), {} a quarter full or less",
            heap.language,
            printable(&heap.version),
            grouped(heap.used),
            size(heap.used_bytes),
            grouped(heap.free),
            size(heap.free_bytes),
            grouped(heap.pages),
            grouped(heap.empty_pages),
            size(heap.empty_bytes),
            grouped(heap.sparse_pages),
        )?;
    }
    Ok(())
}

fn threads(out: &mut dyn Write, ledger: &Ledger, top: usize, style: &Style) -> io::Result<()> {
    if ledger.threads.len() < 2 {
        return Ok(());
    }
    writeln!(out)?;
    let head = ["in memory", "deep now", "deepest", "room"];
    let mut lines = vec![Line::words(
        head.map(str::to_owned).into(),
        "stack of thread",
        Tone::Head,
    )];
    let mut threads: Vec<_> = ledger.threads.iter().collect();
    threads.sort_by_key(|thread| (std::cmp::Reverse(thread.rss), thread.tid));
    for thread in threads.iter().take(top) {
        let cells = [
            size(thread.rss),
            thread.depth.map_or_else(|| "runs".into(), size),
            size(thread.deepest),
            size(thread.mapped),
        ];
        let name = format!("{} {}", thread.tid, printable(&thread.name));
        lines.push(Line::row(cells.into(), name, Tone::Plain, Vec::new()));
    }
    aligned(out, &lines, style)?;
    left_out(out, threads.len(), top)
}

fn kernel(out: &mut dyn Write, ledger: &Ledger) -> io::Result<()> {
    let kernel = &ledger.kernel;
    let mut parts = vec![
        format!("page tables {}", size(kernel.page_tables)),
        format!("stacks of threads {}", size(kernel.thread_stacks)),
    ];
    if kernel.sockets > 0 {
        let sockets = plural(kernel.sockets, "socket", "sockets");
        let count = grouped(kernel.sockets);
        parts.push(format!(
            "{} waiting in {count} {sockets}",
            size(kernel.queued)
        ));
    }
    if ledger.hugetlb > 0 {
        parts.push(format!("huge pages set apart {}", size(ledger.hugetlb)));
    }
    writeln!(out, "\nbesides, not in the sum: {}", parts.join(", "))
}
