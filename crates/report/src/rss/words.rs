//! What rows and findings are called in English, for all formats. Used by `json` and `table`, and by
//! `lancet::commands::heap::live` and `lancet::commands::heap::ledger`.

use rss::{Bytes, Finding, Kind, Ledger};

use crate::figures::{grouped, plural, size};

/// A row of its own has at least this part of all, in percent; what is smaller is summed up with what is like it.
const WORTH_A_ROW: u64 = 1;

/// What a row is.
pub fn name(kind: Kind, of: &str) -> String {
    let arena = match of {
        "0" => "the main arena".to_owned(),
        number => format!("arena {number}"),
    };
    let named = |what: &str| match of {
        "" => what.to_owned(),
        of => format!("{what}: {of}"),
    };
    match kind {
        Kind::HeapUsed => format!("{of} heap: objects"),
        Kind::HeapFree => format!("{of} heap: empty slots beside objects"),
        Kind::HeapEmpty => format!("{of} heap: pages without an object"),
        Kind::HeapRecords => format!("{of} heap: headers and remainders"),
        Kind::MallocUsed => format!("malloc: in use, {arena}"),
        Kind::MallocFree => format!("malloc: free, in parts of pages, {arena}"),
        Kind::MallocPages => format!("malloc: free, whole pages, {arena}"),
        Kind::MallocTop => format!("malloc: free, the end of {arena}"),
        Kind::MallocCached => format!("malloc: free, in caches of threads, {arena}"),
        Kind::MallocRecords => format!("malloc: its own records, {arena}"),
        Kind::MallocMapped => "malloc: large, with mappings of their own".into(),
        Kind::OtherAllocator => format!("{of}, not looked into"),
        Kind::OtherUsed => format!("{of}: in use"),
        Kind::OtherFree => format!("{of}: free, in parts of pages and for threads"),
        Kind::OtherPages => format!("{of}: free, whole pages that it has not given back"),
        Kind::OtherRecords => format!("{of}: its own records"),
        Kind::Code => named("code without a file (JIT)"),
        Kind::Agent => "lancet's own agent, stubs and rings, which stay mapped".into(),
        Kind::Stack => format!("stack of thread {of}"),
        Kind::EndedStack => "stacks of ended threads, kept for the next".into(),
        Kind::FiberStack => format!("stacks of {of} fibers"),
        Kind::File => format!("file {of}"),
        Kind::Variables => format!("variables and changed pages of {of}"),
        Kind::Shared => named("shared memory"),
        Kind::Kernel => "the kernel's pages (vdso)".into(),
        Kind::Anonymous => match of {
            "" => "other anonymous memory".into(),
            of => format!("other anonymous memory: {of}"),
        },
        Kind::Changed => "changed while it was looked at".into(),
    }
}

/// What several rows of a kind are together.
pub fn several(kind: Kind, count: u64) -> String {
    let count = grouped(count);
    match kind {
        Kind::MallocUsed => format!("malloc: in use, {count} arenas"),
        Kind::MallocFree => format!("malloc: free, in parts of pages, {count} arenas"),
        Kind::MallocPages => format!("malloc: free, whole pages, {count} arenas"),
        Kind::MallocTop => format!("malloc: free, the ends of {count} arenas"),
        Kind::MallocCached => format!("malloc: free, in caches of threads, {count} arenas"),
        Kind::MallocRecords => format!("malloc: its own records, {count} arenas"),
        Kind::Stack => format!("stacks of {count} threads"),
        Kind::File => format!("{count} files"),
        Kind::Variables => format!("variables and changed pages of {count} files"),
        Kind::Shared => format!("shared memory, {count}"),
        kind => format!("{}, {count}", name(kind, "")),
    }
}

/// Whether rows of a kind are shown as one however large they are, because a list below has them one by one.
pub fn is_listed_below(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::MallocUsed
            | Kind::MallocFree
            | Kind::MallocPages
            | Kind::MallocTop
            | Kind::MallocCached
            | Kind::MallocRecords
            | Kind::Stack
    )
}

/// The sentence of a finding.
pub fn sentence(finding: &Finding) -> String {
    match finding {
        Finding::FreeInArenas {
            free,
            arenas,
            returnable,
        } => format!(
            "{} are free in {arenas} arenas of malloc's: MALLOC_ARENA_MAX=2 or jemalloc; malloc_trim(0) would give back {}",
            size(*free),
            size(*returnable)
        ),
        Finding::FreeInMalloc { free, returnable } if returnable * 2 >= *free => format!(
            "{} are free in malloc: malloc_trim(0) would give back {}",
            size(*free),
            size(*returnable)
        ),
        Finding::FreeInMalloc { free, returnable } => format!(
            "{} are free in malloc, but between what is in use: malloc_trim(0) would give back {} only; jemalloc may pack it closer",
            size(*free),
            size(*returnable)
        ),
        Finding::Compaction {
            language,
            freed,
            bytes,
            pages,
            empty,
            empty_before,
            took,
        } => format!(
            "GC.compact would free {} of {} pages of the {language} heap, {}, and leave {} without an object ({} are now): measured in a copy of the process, in {} ms",
            grouped(*freed),
            grouped(*pages),
            size(*bytes),
            grouped(*empty),
            grouped(*empty_before),
            grouped(*took),
        ),
        Finding::SparseHeap {
            language,
            percent,
            empty,
            sparse_pages,
            empty_pages,
            pages,
        } => {
            let kept = plural(
                *sparse_pages,
                "page is kept by a few objects",
                "pages are kept by a few objects each",
            );
            format!(
                "{language} heap {percent} % empty, {}: {} of {} {kept} (a quarter of their slots or less), {} {} nothing",
                size(*empty),
                grouped(*sparse_pages),
                grouped(*pages),
                grouped(*empty_pages),
                plural(*empty_pages, "holds", "hold"),
            )
        }
    }
}

/// What could not be looked into, a sentence each.
pub fn losses(ledger: &Ledger) -> impl Iterator<Item = String> + '_ {
    let missing = ledger.missing.iter();
    missing.map(|what| format!("not looked into: {what}"))
}

/// Rows as they are shown, the largest first: the small ones of a kind are one.
pub fn summed(ledger: &Ledger) -> Vec<(Bytes, String)> {
    let least = ledger.total.rss / 100 * WORTH_A_ROW;
    let mut shown: Vec<(Bytes, String)> = Vec::new();
    let mut small: Vec<(Kind, Bytes, u64, &str)> = Vec::new();
    for row in &ledger.rows {
        if row.bytes.rss >= least && !is_listed_below(row.kind) {
            shown.push((row.bytes, name(row.kind, &row.of)));
            continue;
        }
        match small.iter_mut().find(|(kind, ..)| *kind == row.kind) {
            Some((_, bytes, count, _)) => {
                bytes.add(row.bytes);
                *count += 1;
            }
            None => small.push((row.kind, row.bytes, 1, &row.of)),
        }
    }
    shown.extend(
        small
            .into_iter()
            .map(|(kind, bytes, count, of)| match count {
                1 => (bytes, name(kind, of)),
                _ => (bytes, several(kind, count)),
            }),
    );
    shown.sort_by_key(|(bytes, _)| std::cmp::Reverse(bytes.rss));
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_row_on_the_page() {
        let all = [
            Kind::HeapUsed,
            Kind::HeapFree,
            Kind::HeapEmpty,
            Kind::HeapRecords,
            Kind::MallocUsed,
            Kind::MallocFree,
            Kind::MallocPages,
            Kind::MallocTop,
            Kind::MallocCached,
            Kind::MallocRecords,
            Kind::MallocMapped,
            Kind::OtherAllocator,
            Kind::OtherUsed,
            Kind::OtherFree,
            Kind::OtherPages,
            Kind::OtherRecords,
            Kind::Code,
            Kind::Agent,
            Kind::Stack,
            Kind::EndedStack,
            Kind::FiberStack,
            Kind::File,
            Kind::Variables,
            Kind::Shared,
            Kind::Kernel,
            Kind::Anonymous,
            Kind::Changed,
        ];
        let page = include_str!("../../../../docs/heap-rss.md");
        let (_, rows) = page.split_once("## The rows").expect("rows");
        let (rows, _) = rows.split_once("\n## ").expect("an end");
        let rows: Vec<&str> = rows.lines().filter(|row| row.starts_with("| `")).collect();
        // The head is none, though it begins so.
        assert_eq!(rows.len(), all.len() + 1, "{rows:?}");
        for kind in all {
            let row = format!("| `{}` |", kind.name());
            assert!(rows.iter().any(|line| line.starts_with(&row)), "{row}");
        }
    }
}
