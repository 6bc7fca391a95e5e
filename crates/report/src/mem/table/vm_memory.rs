//! What the VM's own memory is: its objects by type, and with it where the resident memory of the process is. Used by
//! `json` and `table`.

use std::io;

use births::analysis::{Census, Memory, Report};

use crate::Style;
use crate::columns::{Line, Tone, aligned, written};
use crate::figures::{grouped, size};
use crate::text::printable;

/// Writes both; the second only if it is known.
pub(super) fn write(
    out: &mut dyn io::Write,
    census: &Census,
    report: &Report,
    style: &Style,
) -> io::Result<()> {
    written(out, "the VM's own objects:", Tone::Head, style)?;
    let lines: Vec<_> = report
        .own
        .iter()
        .map(|(kind, counts)| {
            let words = match meaning(kind) {
                Some(meaning) => format!("{} ({meaning})", printable(kind)),
                None => printable(kind).into_owned(),
            };
            row(vec![grouped(counts.live), size(counts.bytes)], words)
        })
        .collect();
    aligned(out, &lines, style)?;
    let Some(memory) = &census.memory else {
        return Ok(());
    };
    let head = format!("resident memory of the process: {}", size(memory.rss.total));
    written(out, &head, Tone::Head, style)?;
    let lines: Vec<_> = parts(memory, report)
        .into_iter()
        .map(|(_, bytes, words)| row(vec![size(bytes)], words))
        .collect();
    aligned(out, &lines, style)
}

fn row(cells: Vec<String>, words: String) -> Line {
    Line::words(cells, words, Tone::Plain)
}

/// Returns what the resident memory is used for: a name for programs, bytes, and words for people. Together they are all of
/// it, unless objects say that they have more than is resident.
pub fn parts(memory: &Memory, report: &Report) -> Vec<(&'static str, u64, String)> {
    let own: u64 = report.own.iter().map(|(_, counts)| counts.bytes).sum();
    let all = report.total.bytes.saturating_add(report.hidden.bytes);
    let rss = &memory.rss;
    let known = [
        ("objects", all.saturating_sub(own), "objects".to_owned()),
        ("vm_objects", own, "the VM's own objects".into()),
        (
            "empty_slots",
            memory.empty,
            "empty slots of the heap".into(),
        ),
        (
            "files",
            rss.files,
            "programs, libraries and other files".into(),
        ),
        (
            "stacks",
            rss.stacks,
            match rss.threads {
                0 => "stack of the main thread".into(),
                1 => "stack of 1 thread that sleeps".into(),
                threads => format!("stacks of {threads} threads that sleep"),
            },
        ),
        ("jit", rss.code, "code that a JIT compiler made".into()),
        ("lancet", memory.agent, "lancet's own tables".into()),
    ];
    let sum = known
        .iter()
        .fold(0u64, |sum, (_, bytes, _)| sum.saturating_add(*bytes));
    let mut parts: Vec<_> = known
        .into_iter()
        .filter(|(_, bytes, _)| *bytes != 0)
        .collect();
    parts.push((
        "other",
        rss.total.saturating_sub(sum),
        "not told apart: symbols and other tables of the VM, memory of extensions, what malloc keeps free".into(),
    ));
    parts
}

/// Returns what objects of a type of the VM's own are.
fn meaning(kind: &str) -> Option<&'static str> {
    Some(match kind.trim_matches('_').trim_start_matches("imemo:") {
        "env" => "local variables that outlive their frame",
        "cref" => "scopes in which constants are looked up",
        "ment" => "methods",
        "iseq" => "compiled code",
        "tmpbuf" => "buffers of C code",
        "ast" => "syntax trees",
        "callinfo" => "arguments of call sites",
        "callcache" => "methods that call sites found last",
        "constcache" => "constants that code found last",
        "iclass" => "modules as a class includes them",
        "class" => "singleton classes, with their method tables",
        "ifunc" => "blocks written in C",
        _ => return None,
    })
}
