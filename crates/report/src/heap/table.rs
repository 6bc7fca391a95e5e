//! Columns for people: who it is, the suspects as sentences with their paths, then lists. Each list ends with what it
//! leaves out, so that its rows add up to all that lives.

use std::io::{self, Write};

use heap::answers::Answers;
use heap::answers::groups::Group;

use super::format::{Format, Options};
use super::words::{self, line, say};
use crate::columns::{Tone, aligned};
use crate::figures::{grouped, plural, size};

/// For people.
pub static FORMAT: Format = Format {
    name: "table",
    about: "Sentences and columns, for people",
    is_json: false,
    rows: 10,
    most_objects: u64::MAX,
    write,
};

/// Lists of what is wasteful begin with what wastes so much, in bytes.
const WORTH_A_ROW: u64 = 1024;

fn write(out: &mut dyn Write, answers: &Answers, options: &Options) -> io::Result<()> {
    head(out, answers, options)?;
    suspects(out, answers, options)?;
    let snapshot = answers.analysis.snapshot();
    groups(out, "type", &answers.types, options, |name| {
        words::text(snapshot, *name)
    })?;
    groups(out, "kind", &answers.kinds, options, |name| {
        words::text(snapshot, *name)
    })?;
    let unknown = || "(line unknown)".to_owned();
    groups(out, "made at", &answers.sites, options, |line| {
        line.map_or_else(unknown, |line| words::site(snapshot, line))
    })?;
    groups(out, "made by", &answers.owners, options, |owner| {
        let owner = owner.as_deref();
        owner.map_or_else(unknown, str::to_owned)
    })?;
    stacks(out, answers, options)?;
    texts(out, answers, options)?;
    classes(out, answers, options)?;
    sparse(out, answers, options)
}

/// Which process it is of.
pub(super) fn who(answers: &Answers) -> String {
    let about = answers.analysis.snapshot().about();
    format!(
        "process {} ({} {}) {}",
        about.pid, about.language, about.version, about.command_line
    )
}

/// How much there is.
pub(super) fn sums(answers: &Answers) -> String {
    let (snapshot, analysis) = (answers.analysis.snapshot(), answers.analysis);
    let (living, garbage) = (analysis.living(), analysis.garbage());
    let mut sums = format!(
        "{} living objects, {}, {} references",
        grouped(living.objects),
        size(living.bytes),
        grouped(snapshot.edge_count() as u64)
    );
    if garbage.objects > 0 {
        let (count, bytes) = (grouped(garbage.objects), size(garbage.bytes));
        sums += &format!("; {count} objects of garbage, {bytes}, which the next collection frees");
    }
    match snapshot.about().rss {
        0 => sums,
        rss => format!("{sums}; resident memory {}", size(rss)),
    }
}

/// Who it is, how much, and what is missing.
pub(super) fn head(out: &mut dyn Write, answers: &Answers, options: &Options) -> io::Result<()> {
    let style = &options.style;
    let snapshot = answers.analysis.snapshot();
    say(out, &who(answers), Tone::Head, style)?;
    say(out, &sums(answers), Tone::Plain, style)?;
    let notes = snapshot.about().notes.iter().cloned();
    for text in words::losses(snapshot).into_iter().chain(notes) {
        say(out, &format!("note: {text}"), Tone::Warning, style)?;
    }
    Ok(())
}

fn suspects(out: &mut dyn Write, answers: &Answers, options: &Options) -> io::Result<()> {
    let style = &options.style;
    writeln!(out)?;
    if answers.suspects.is_empty() {
        let none = "no suspect: no object, type or line retains a tenth of what lives";
        return say(out, none, Tone::Plain, style);
    }
    let snapshot = answers.analysis.snapshot();
    for suspect in answers.suspects.iter().take(options.top) {
        say(out, &words::suspect(answers, suspect), Tone::Worst, style)?;
        let object = match suspect.what {
            heap::answers::suspects::Suspected::Object(object) => Some(object),
            _ => suspect.mass.map(|mass| mass.example),
        };
        if let Some(object) = object {
            let steps = answers.paths.to(object);
            let path = words::path(snapshot, &steps);
            let address = snapshot.address(object);
            let text = format!("  {address:#x}, path: {path}");
            say(out, &text, Tone::Plain, style)?;
        }
    }
    more(out, answers.suspects.len(), options, "suspect", "suspects")
}

/// Says how many rows were left out, if any.
pub(super) fn more(
    out: &mut dyn Write,
    rows: usize,
    options: &Options,
    one: &'static str,
    many: &'static str,
) -> io::Result<()> {
    match rows.saturating_sub(options.top) as u64 {
        0 => Ok(()),
        left => {
            let words = format!("… {} more {}", grouped(left), plural(left, one, many));
            say(out, &words, Tone::Dim, &options.style)
        }
    }
}

/// Writes a list of groups.
pub(super) fn groups<K>(
    out: &mut dyn Write,
    what: &str,
    groups: &[Group<K>],
    options: &Options,
    name: impl Fn(&K) -> String,
) -> io::Result<()> {
    if groups.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    let head = ["objects", "bytes", "retained"].map(str::to_owned);
    let mut lines = vec![line(head.to_vec(), what, Tone::Head)];
    let cells = |objects, bytes, retained: String| vec![grouped(objects), size(bytes), retained];
    for group in groups.iter().take(options.top) {
        let retained = size(group.retained);
        let cells = cells(group.objects, group.bytes, retained);
        lines.push(line(cells, &name(&group.key), Tone::Plain));
    }
    let rest = groups.get(options.top..).unwrap_or_default();
    if !rest.is_empty() {
        let objects = rest.iter().map(|group| group.objects).sum();
        let bytes = rest.iter().map(|group| group.bytes).sum();
        let count = rest.len() as u64;
        let words = format!("({} more {})", grouped(count), plural(count, "row", "rows"));
        // What groups retain has no sum: one may hold another.
        lines.push(line(cells(objects, bytes, "-".into()), &words, Tone::Dim));
    }
    aligned(out, &lines, &options.style)
}

fn stacks(out: &mut dyn Write, answers: &Answers, options: &Options) -> io::Result<()> {
    if answers.stacks.is_empty() {
        return Ok(());
    }
    let snapshot = answers.analysis.snapshot();
    writeln!(out)?;
    let mut lines = vec![line(
        vec!["retained".into()],
        "threads and fibers",
        Tone::Head,
    )];
    for stack in answers.stacks.iter().take(options.top) {
        let name = match stack.object {
            Some(object) => {
                let address = snapshot.address(object);
                format!("{} {address:#x}", words::object(snapshot, object))
            }
            None => format!("stack of thread {}", stack.thread),
        };
        lines.push(line(vec![size(stack.retained)], &name, Tone::Plain));
    }
    aligned(out, &lines, &options.style)?;
    more(
        out,
        answers.stacks.len(),
        options,
        "thread or fiber",
        "threads and fibers",
    )
}

fn texts(out: &mut dyn Write, answers: &Answers, options: &Options) -> io::Result<()> {
    let all: Vec<_> = answers
        .texts
        .iter()
        .filter(|one| one.wasted >= WORTH_A_ROW)
        .collect();
    if all.is_empty() {
        return Ok(());
    }
    let snapshot = answers.analysis.snapshot();
    writeln!(out)?;
    let wasted: u64 = all.iter().map(|text| text.wasted).sum();
    let head = ["wasted", "equal", "frozen", "length"].map(str::to_owned);
    let title = format!("equal texts, {} in all", size(wasted));
    let mut lines = vec![line(head.to_vec(), &title, Tone::Head)];
    for one in all.iter().take(options.top) {
        let length = snapshot.length(one.object).unwrap_or(0);
        let cells = [
            size(one.wasted),
            grouped(one.objects),
            grouped(one.frozen),
            grouped(length),
        ];
        let made = one.site.map(|(line, count)| {
            let most = if count == one.objects { "" } else { "most " };
            format!(", {most}made at {}", words::site(snapshot, line))
        });
        let name = format!(
            "{}{} {:#x}{}",
            words::object(snapshot, one.object),
            words::contents(snapshot, one.object, options.contents),
            snapshot.address(one.object),
            made.unwrap_or_default()
        );
        lines.push(line(cells.to_vec(), &name, Tone::Plain));
    }
    aligned(out, &lines, &options.style)?;
    more(out, all.len(), options, "text", "texts")
}

fn classes(out: &mut dyn Write, answers: &Answers, options: &Options) -> io::Result<()> {
    if answers.classes.is_empty() {
        return Ok(());
    }
    let snapshot = answers.analysis.snapshot();
    writeln!(out)?;
    let head = ["classes", "retained"].map(str::to_owned);
    let title = "classes of the same name: were they loaded again?";
    let mut lines = vec![line(head.to_vec(), title, Tone::Head)];
    for one in answers.classes.iter().take(options.top) {
        let cells = vec![grouped(one.classes), size(one.retained)];
        lines.push(line(cells, &words::text(snapshot, one.name), Tone::Plain));
    }
    aligned(out, &lines, &options.style)?;
    more(out, answers.classes.len(), options, "name", "names")
}

fn sparse(out: &mut dyn Write, answers: &Answers, options: &Options) -> io::Result<()> {
    let all: Vec<_> = answers
        .sparse
        .iter()
        .filter(|one| one.wasted >= WORTH_A_ROW)
        .collect();
    if all.is_empty() {
        return Ok(());
    }
    let snapshot = answers.analysis.snapshot();
    writeln!(out)?;
    let head = ["wasted", "objects", "in use", "room"].map(str::to_owned);
    let title = "lists and maps of which a quarter or less is in use";
    let mut lines = vec![line(head.to_vec(), title, Tone::Head)];
    for one in all.iter().take(options.top) {
        let cells = [
            size(one.wasted),
            grouped(one.objects),
            grouped(one.length),
            grouped(one.capacity),
        ];
        let worst = snapshot.address(one.worst);
        let name = format!("{}, the worst {worst:#x}", words::text(snapshot, one.name));
        lines.push(line(cells.to_vec(), &name, Tone::Plain));
    }
    aligned(out, &lines, &options.style)?;
    more(out, all.len(), options, "type", "types")
}
