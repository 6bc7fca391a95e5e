//! One JSON object a line, of the records of [`answer::heap`]. Used by `diff`, `path`, `heap` and others.

use std::io::{self, Write};

use answer::heap::{Holds, Link, Record, Step};
use answer::place::{Address, Place};
use answer::process::{Language, Process};
use heap::answers::groups::Group;
use heap::answers::holders::Holder;
use heap::answers::paths::{self, Ways};
use heap::answers::suspects::Suspected;
use heap::{About, Site, Snapshot, answers::Answers};

use super::format::{Format, Options};
use super::{allocated, suspects, words};
use crate::Writes;
use crate::json::line as record;

/// JSON for programs, one object a line.
pub static FORMAT: Format = Format {
    writes: Writes::Tables,
    rows: 1000,
    most_objects: u64::MAX,
    shows_memory: false,
    write,
};

/// The VM that a snapshot is of.
pub(crate) fn language(about: &About) -> Language<'_> {
    let known = vm::Language::of_prefix(&about.language);
    Language {
        name: known.map_or(&about.language, |known| known.description().name),
        version: Some(&about.version),
    }
}

/// A line of a file.
pub(super) fn place(snapshot: &Snapshot, site: Site) -> Place<'_> {
    Place::new(
        String::from_utf8_lossy(snapshot.text(site.file)),
        site.line,
        "",
    )
}

fn write(out: &mut dyn Write, answers: &Answers, options: &Options) -> io::Result<()> {
    head(out, answers)?;
    suspects(out, answers, options)?;
    if let Some(born) = &answers.born {
        let all = Record::Born {
            since_ns: born.since,
            objects: born.all.objects,
            bytes: born.all.bytes,
        };
        record(out, &all)?;
        holders(out, answers, &born.holders, options)?;
    }
    let snapshot = answers.analysis.snapshot();
    groups(out, "type", &answers.types, options, |name| {
        (Some(words::text(snapshot, *name)), None)
    })?;
    groups(out, "kind", &answers.kinds, options, |name| {
        (Some(words::text(snapshot, *name)), None)
    })?;
    groups(out, "site", &answers.sites, options, |line| {
        let name = line.map(|line| words::site(snapshot, line));
        (name, line.map(|line| place(snapshot, line)))
    })?;
    groups(out, "owner", &answers.owners, options, |owner| {
        (owner.clone(), None)
    })?;
    for one in allocated::rows(snapshot.about()) {
        record(out, &Record::Allocated(one))?;
    }
    garbage(out, answers, options)?;
    stacks(out, answers, options)?;
    wasteful(out, answers, options)
}

/// Who holds what is new.
pub(super) fn holders(
    out: &mut dyn Write,
    answers: &Answers,
    holders: &[Holder],
    options: &Options,
) -> io::Result<()> {
    let snapshot = answers.analysis.snapshot();
    for holder in holders.iter().take(options.top) {
        let one = Record::Holder {
            text: words::holder(answers, holder),
            address: holder.object.map(|one| address(snapshot, one)),
            objects: holder.objects,
            retained: holder.retained,
            r#type: words::text(snapshot, holder.name),
            site: holder.site.map(|site| place(snapshot, site)),
        };
        record(out, &one)?;
    }
    rest(out, "holder", holders.len(), options)
}

fn address(snapshot: &Snapshot, object: u32) -> Address {
    Address(snapshot.address(object))
}

/// The record of the snapshot, and those of what is missing.
pub(super) fn head(out: &mut dyn Write, answers: &Answers) -> io::Result<()> {
    let (snapshot, analysis) = (answers.analysis.snapshot(), answers.analysis);
    let about = snapshot.about();
    let process = Process::new(about.pid, &*about.command_line).with(language(about));
    record(out, &Record::Process(process))?;
    let first = Record::Snapshot {
        pid: about.pid,
        host: &about.host,
        taken_at_ns: about.taken_at,
        resident: (about.rss > 0).then_some(about.rss),
        objects: analysis.living().objects,
        bytes: analysis.living().bytes,
        garbage_objects: analysis.garbage().objects,
        garbage_bytes: analysis.garbage().bytes,
        garbage_cycles: answers.garbage.cycles,
        collector_off: about.collector.is_off(),
        references: snapshot.edge_count() as u64,
        roots: snapshot.roots().len() as u64,
        contents: about.contents,
    };
    record(out, &first)?;
    let missing = words::losses(snapshot);
    let said = words::first(answers).into_iter().chain(missing);
    for text in said.collect::<Vec<_>>().iter().chain(&about.notes) {
        record(out, &Record::Note { text })?;
    }
    Ok(())
}

fn told(answers: &Answers, steps: &[paths::Step]) -> Vec<Link> {
    let snapshot = answers.analysis.snapshot();
    let held = |step: &paths::Step| Link {
        by: words::via(snapshot, step.via),
        r#type: words::object(snapshot, step.object),
        address: address(snapshot, step.object),
        retained: answers.analysis.retained(step.object),
    };
    steps.iter().map(held).collect()
}

fn suspects(out: &mut dyn Write, answers: &Answers, options: &Options) -> io::Result<()> {
    let snapshot = answers.analysis.snapshot();
    for suspect in answers.suspects.iter().take(options.top) {
        let (object, name) = match suspect.what {
            Suspected::Object(one) | Suspected::Names(one) => {
                (Some(one), Some(words::object(snapshot, one)))
            }
            Suspected::Type(name) => (None, Some(words::text(snapshot, name))),
            Suspected::Site(_) | Suspected::Garbage => (None, None),
        };
        let site = match suspect.what {
            Suspected::Site(site) => Some(site),
            _ => object.and_then(|object| snapshot.site(object)),
        };
        let holds = suspect.mass.map(|mass| Holds {
            r#type: words::typed(snapshot, mass.name, mass.label),
            objects: mass.objects,
            retained: mass.retained,
            site: mass.site.map(|(site, _)| place(snapshot, site)),
        });
        record(
            out,
            &Record::Suspect {
                what: suspects::what(suspect),
                text: suspects::suspect(answers, suspect),
                retained: suspect.retained,
                percent: suspects::percent_of(answers, suspect),
                address: object.map(|object| address(snapshot, object)),
                r#type: name,
                site: site.map(|site| place(snapshot, site)),
                holds,
                path: told(answers, &suspects::steps(answers, suspect)),
            },
        )?;
    }
    rest(out, "suspect", answers.suspects.len(), options)
}

/// The record of rows that were left out, if any.
pub(super) fn rest(
    out: &mut dyn Write,
    of: &'static str,
    rows: usize,
    options: &Options,
) -> io::Result<()> {
    match rows.saturating_sub(options.top) as u64 {
        0 => Ok(()),
        rows => record(
            out,
            &Record::Rest {
                of,
                rows,
                objects: None,
                bytes: None,
            },
        ),
    }
}

/// Writes groups; `name` says what one is called and, of a line, where it is.
fn groups<'a, K>(
    out: &mut dyn Write,
    by: &'static str,
    groups: &[Group<K>],
    options: &Options,
    name: impl Fn(&K) -> (Option<String>, Option<Place<'a>>),
) -> io::Result<()> {
    for group in groups.iter().take(options.top) {
        let (name, site) = name(&group.key);
        record(
            out,
            &Record::Group {
                by,
                name,
                site,
                objects: group.objects,
                bytes: group.bytes,
                retained: group.retained,
            },
        )?;
    }
    let rest = groups.get(options.top..).unwrap_or_default();
    if rest.is_empty() {
        return Ok(());
    }
    record(
        out,
        &Record::Rest {
            of: by,
            rows: rest.len() as u64,
            objects: Some(rest.iter().map(|group| group.objects).sum()),
            bytes: Some(rest.iter().map(|group| group.bytes).sum()),
        },
    )
}

fn garbage(out: &mut dyn Write, answers: &Answers, options: &Options) -> io::Result<()> {
    let snapshot = answers.analysis.snapshot();
    for one in answers.garbage.types.iter().take(options.top) {
        record(
            out,
            &Record::Garbage {
                r#type: words::text(snapshot, one.name),
                objects: one.objects,
                bytes: one.bytes,
                in_cycles: one.in_cycles,
                finalizers: one.finalizers,
            },
        )?;
    }
    rest(out, "garbage", answers.garbage.types.len(), options)
}

fn stacks(out: &mut dyn Write, answers: &Answers, options: &Options) -> io::Result<()> {
    let snapshot = answers.analysis.snapshot();
    for stack in answers.stacks.iter().take(options.top) {
        let name = stack.object.map(|object| words::object(snapshot, object));
        record(
            out,
            &Record::Stack {
                name: name.unwrap_or_else(|| format!("thread {}", stack.thread)),
                address: stack.object.map(|object| address(snapshot, object)),
                thread: (stack.thread != 0).then_some(stack.thread),
                retained: stack.retained,
            },
        )?;
    }
    rest(out, "stack", answers.stacks.len(), options)
}

fn wasteful(out: &mut dyn Write, answers: &Answers, options: &Options) -> io::Result<()> {
    let snapshot = answers.analysis.snapshot();
    for one in answers.texts.iter().take(options.top) {
        record(
            out,
            &Record::EqualTexts {
                address: address(snapshot, one.object),
                objects: one.objects,
                frozen: one.frozen,
                length: snapshot.length(one.object),
                wasted: one.wasted,
                site: one.site.map(|(site, _)| place(snapshot, site)),
                contents: contents(snapshot, one.object, options),
            },
        )?;
    }
    rest(out, "equal_texts", answers.texts.len(), options)?;
    for one in answers.classes.iter().take(options.top) {
        record(
            out,
            &Record::SameName {
                name: words::text(snapshot, one.name),
                classes: one.classes,
                retained: one.retained,
            },
        )?;
    }
    rest(out, "same_name", answers.classes.len(), options)?;
    for one in answers.sparse.iter().take(options.top) {
        record(
            out,
            &Record::Sparse {
                r#type: words::text(snapshot, one.name),
                objects: one.objects,
                length: one.length,
                capacity: one.capacity,
                wasted: one.wasted,
                worst: address(snapshot, one.worst),
            },
        )?;
    }
    rest(out, "sparse", answers.sparse.len(), options)
}

fn contents(snapshot: &Snapshot, object: u32, options: &Options) -> Option<String> {
    let id = snapshot.contents(object).filter(|_| options.contents)?;
    Some(String::from_utf8_lossy(snapshot.text(id)).into_owned())
}

/// Writes the path to one object.
pub(super) fn path(
    out: &mut dyn Write,
    answers: &Answers,
    object: u32,
    options: &Options,
) -> io::Result<()> {
    let snapshot = answers.analysis.snapshot();
    record(
        out,
        &Record::Path {
            address: address(snapshot, object),
            r#type: words::object(snapshot, object),
            bytes: snapshot.bytes(object),
            retained: answers.analysis.retained(object),
            garbage: !answers.analysis.is_living(object),
            contents: contents(snapshot, object, options),
            path: told(answers, &answers.paths.to(object)),
        },
    )
}

/// Writes the ways in which objects are held.
pub(super) fn ways(out: &mut dyn Write, answers: &Answers, ways: &Ways) -> io::Result<()> {
    let snapshot = answers.analysis.snapshot();
    for way in &ways.told {
        let steps = way.steps.iter().map(|(by, name, label)| Step {
            by: words::via(snapshot, *by),
            r#type: words::typed(snapshot, *name, *label),
        });
        record(
            out,
            &Record::Way {
                objects: way.objects,
                bytes: way.bytes,
                left_out: way.left_out,
                steps: steps.collect(),
            },
        )?;
    }
    if ways.others == 0 {
        return Ok(());
    }
    record(
        out,
        &Record::Rest {
            of: "way",
            rows: ways.others,
            objects: Some(ways.objects),
            bytes: Some(ways.bytes),
        },
    )
}
