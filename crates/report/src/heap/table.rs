//! Columns for people: who it is, the suspects as sentences with their paths, then lists. Each list ends with what it
//! leaves out, so that its rows add up to all that lives. Used by `diff`, `html` and others here, and by crate
//! `lancet`.

use std::io::{self, Write};

use heap::answers::Answers;
use heap::answers::groups::Group;
use heap::answers::holders::Holder;

use super::allocated;
use super::format::{Format, Options};
use super::suspects;
use super::words::{self, line, say};
use crate::Writes;
use crate::columns::{Tone, aligned};
use crate::figures::{grouped, plural, size};

/// Sentences and columns for people.
pub static FORMAT: Format = Format {
    writes: Writes::text("table", "Sentences and columns, for people"),
    rows: 10,
    most_objects: u64::MAX,
    shows_memory: false,
    write,
};

/// Lists of what is wasteful begin with what wastes so much, in bytes.
const WORTH_A_ROW: u64 = 1024;

fn write(out: &mut dyn Write, answers: &Answers, options: &Options) -> io::Result<()> {
    head(out, answers, options)?;
    suspects(out, answers, options)?;
    born(out, answers, options)?;
    let snapshot = answers.analysis.snapshot();
    groups(out, "type", &answers.types, options, |name| {
        words::text(snapshot, *name)
    })?;
    groups(out, "kind", &answers.kinds, options, |name| {
        words::text(snapshot, *name)
    })?;
    let unknown = || "(line unknown)".to_owned();
    allocated::table(out, snapshot.about(), options.top, &options.style)?;
    groups(out, "made at", &answers.sites, options, |line| {
        line.map_or_else(unknown, |line| words::site(snapshot, line))
    })?;
    groups(out, "made by", &answers.owners, options, |owner| {
        let owner = owner.as_deref();
        owner.map_or_else(unknown, str::to_owned)
    })?;
    garbage(out, answers, options)?;
    stacks(out, answers, options)?;
    texts(out, answers, options)?;
    classes(out, answers, options)?;
    sparse(out, answers, options)
}

/// Returns whose snapshot it is: process, language and command line. It is guest text, which is not safe to print
/// yet.
#[must_use]
pub fn who(answers: &Answers) -> String {
    let about = answers.analysis.snapshot().about();
    format!(
        "process {} ({} {}) {}",
        about.pid,
        about.language,
        about.version,
        about.command_line.join(" ")
    )
}

/// Returns how much lives, how much is garbage, and how much memory was resident, as one sentence.
#[must_use]
pub fn sums(answers: &Answers) -> String {
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
        let end = words::end_of_garbage(snapshot);
        sums += &format!("; {count} objects of garbage, {bytes}, {end}");
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
    for text in words::first(answers) {
        say(out, &text, Tone::Worst, style)?;
    }
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
        return say(out, &suspects::no_suspect(answers), Tone::Plain, style);
    }
    for suspect in answers.suspects.iter().take(options.top) {
        say(
            out,
            &suspects::suspect(answers, suspect),
            Tone::Worst,
            style,
        )?;
        if let Some(held) = suspects::held(answers, suspect) {
            say(out, &format!("  {held}"), Tone::Plain, style)?;
        }
    }
    more(out, answers.suspects.len(), options, "suspect", "suspects")
}

fn born(out: &mut dyn Write, answers: &Answers, options: &Options) -> io::Result<()> {
    let Some(born) = &answers.born else {
        return Ok(());
    };
    writeln!(out)?;
    let all = words::born(answers, born);
    say(out, &all, Tone::Head, &options.style)?;
    holders(out, answers, &born.holders, options)
}

/// Who holds what is new, with a path each.
pub(super) fn holders(
    out: &mut dyn Write,
    answers: &Answers,
    holders: &[Holder],
    options: &Options,
) -> io::Result<()> {
    let snapshot = answers.analysis.snapshot();
    for holder in holders.iter().take(options.top) {
        let sentence = words::holder(answers, holder);
        say(out, &sentence, Tone::Plain, &options.style)?;
        let steps = answers.paths.to(holder.example);
        let path = format!("  path of one: {}", words::path(snapshot, &steps));
        say(out, &path, Tone::Dim, &options.style)?;
    }
    more(out, holders.len(), options, "holder", "holders")
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

/// A list of which the first rows are shown, and how many are left out is said.
pub(super) struct List<'a> {
    /// What the columns of figures are called.
    pub heads: &'a [&'a str],
    /// Above the names of the rows.
    pub title: &'a str,
    /// What a row is called, and what several are.
    pub rows: (&'static str, &'static str),
}

impl List<'_> {
    /// Writes it, unless it is empty. `row`: the figures of an item, and its name.
    pub fn write<T>(
        &self,
        out: &mut dyn Write,
        items: &[T],
        options: &Options,
        row: impl Fn(&T) -> (Vec<String>, String),
    ) -> io::Result<()> {
        if items.is_empty() {
            return Ok(());
        }
        writeln!(out)?;
        let heads = self.heads.iter().map(|&head| head.to_owned()).collect();
        let mut lines = vec![line(heads, self.title, Tone::Head)];
        for item in items.iter().take(options.top) {
            let (cells, name) = row(item);
            lines.push(line(cells, &name, Tone::Plain));
        }
        aligned(out, &lines, &options.style)?;
        let (one, many) = self.rows;
        more(out, items.len(), options, one, many)
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

fn garbage(out: &mut dyn Write, answers: &Answers, options: &Options) -> io::Result<()> {
    let snapshot = answers.analysis.snapshot();
    let garbage = &answers.garbage;
    // To a collector that marks what lives, a cycle is nothing special.
    let has_cycles = words::counts_references(snapshot);
    let cycles = plural(garbage.cycles, "cycle", "cycles");
    let (heads, title): (&[&str], _) = match has_cycles {
        true => (
            &["objects", "bytes", "in cycles", "finalizers"],
            format!("garbage, {} {cycles}", grouped(garbage.cycles)),
        ),
        false => (&["objects", "bytes", "finalizers"], "garbage".to_owned()),
    };
    let list = List {
        heads,
        title: &title,
        rows: ("type", "types"),
    };
    list.write(out, &garbage.types, options, |one| {
        let mut cells = vec![grouped(one.objects), size(one.bytes)];
        cells.extend(has_cycles.then(|| grouped(one.in_cycles)));
        cells.push(grouped(one.finalizers));
        (cells, words::text(snapshot, one.name))
    })
}

fn stacks(out: &mut dyn Write, answers: &Answers, options: &Options) -> io::Result<()> {
    let snapshot = answers.analysis.snapshot();
    let list = List {
        heads: &["retained"],
        title: "threads and fibers",
        rows: ("thread or fiber", "threads and fibers"),
    };
    list.write(out, &answers.stacks, options, |stack| {
        let name = match stack.object {
            Some(object) => {
                let address = snapshot.address(object);
                format!("{} {address:#x}", words::object(snapshot, object))
            }
            None => format!("stack of thread {}", stack.thread),
        };
        (vec![size(stack.retained)], name)
    })
}

fn texts(out: &mut dyn Write, answers: &Answers, options: &Options) -> io::Result<()> {
    let snapshot = answers.analysis.snapshot();
    let all = answers.texts.iter();
    let all: Vec<_> = all.filter(|one| one.wasted >= WORTH_A_ROW).collect();
    let wasted: u64 = all.iter().map(|text| text.wasted).sum();
    let list = List {
        heads: &["wasted", "equal", "frozen", "length"],
        title: &format!("equal texts, {} in all", size(wasted)),
        rows: ("text", "texts"),
    };
    list.write(out, &all, options, |one| {
        let length = snapshot.length(one.object).unwrap_or(0);
        let cells = vec![
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
        (cells, name)
    })
}

fn classes(out: &mut dyn Write, answers: &Answers, options: &Options) -> io::Result<()> {
    let list = List {
        heads: &["classes", "retained"],
        title: "classes of the same name: were they loaded again?",
        rows: ("name", "names"),
    };
    list.write(out, &answers.classes, options, |one| {
        let name = words::text(answers.analysis.snapshot(), one.name);
        (vec![grouped(one.classes), size(one.retained)], name)
    })
}

fn sparse(out: &mut dyn Write, answers: &Answers, options: &Options) -> io::Result<()> {
    let snapshot = answers.analysis.snapshot();
    let all = answers.sparse.iter();
    let all: Vec<_> = all.filter(|one| one.wasted >= WORTH_A_ROW).collect();
    let list = List {
        heads: &["wasted", "objects", "in use", "room"],
        title: "lists and maps of which a quarter or less is in use",
        rows: ("type", "types"),
    };
    list.write(out, &all, options, |one| {
        let cells = vec![
            size(one.wasted),
            grouped(one.objects),
            grouped(one.length),
            grouped(one.capacity),
        ];
        let worst = snapshot.address(one.worst);
        let name = format!("{}, the worst {worst:#x}", words::text(snapshot, one.name));
        (cells, name)
    })
}
