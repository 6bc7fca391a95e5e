//! Objects, references, paths and suspects in words. Used by `table`, `html` and others here, and by crate `lancet`.
//!
//! What is returned here holds text of the guest as it is, which JSON wants. `say` writes such a line for people.

use std::io::{self, Write};
use std::time::Duration;

use heap::answers::Answers;
use heap::answers::diff::Diff;
use heap::answers::holders::{Born, Holder};
use heap::answers::paths::{Step, Via};
use heap::answers::suspects;
use heap::{Collector, EdgeName, Role, RootKind, RootName, Site, Snapshot, TextId};
use vm::Language;

use crate::Style;
use crate::columns::{Line, Tone, written};
use crate::figures::{grouped, plural, size};
use crate::text::printable;

/// Of a longer path the middle is left out.
const LONGEST_PATH: usize = 12;
/// Of longer contents the end is left out, in characters.
const LONGEST_CONTENTS: usize = 60;

/// Whose code a file is: a gem's, or the application's.
#[must_use]
pub fn owner(path: &[u8]) -> String {
    languages::owner(&String::from_utf8_lossy(path)).to_owned()
}

/// Writes a line, safe to print.
pub(crate) fn say(out: &mut dyn Write, text: &str, tone: Tone, style: &Style) -> io::Result<()> {
    written(out, &printable(text), tone, style)
}

/// A line of a table whose name is safe to print.
pub(crate) fn line(cells: Vec<String>, name: &str, tone: Tone) -> Line {
    Line::words(cells, printable(name), tone)
}

/// Returns a text of the snapshot; what is not UTF-8 is replaced.
#[must_use]
pub fn text(snapshot: &Snapshot, id: TextId) -> String {
    String::from_utf8_lossy(snapshot.text(id)).into_owned()
}

/// Returns a line of a file, `app.rb:12`; the file alone where the line is not known.
#[must_use]
pub fn site(snapshot: &Snapshot, site: Site) -> String {
    match site.line {
        0 => text(snapshot, site.file),
        line => format!("{}:{line}", text(snapshot, site.file)),
    }
}

/// The type of an object, and its name if it has one: `Order`, `class Order`, `thread puma 3`.
#[must_use]
pub fn object(snapshot: &Snapshot, object: u32) -> String {
    let name = snapshot.type_name(object);
    typed(snapshot, name, snapshot.label(object))
}

/// Returns the same for a type and a label.
#[must_use]
pub fn typed(snapshot: &Snapshot, name: TextId, label: Option<TextId>) -> String {
    let name = text(snapshot, name);
    match label.map(|label| text(snapshot, label)) {
        None => name,
        Some(label) => format!("{name} {label}"),
    }
}

/// The beginning of an object's contents in quotation marks, with a space before it; empty where they are not known or not
/// asked for.
#[must_use]
pub fn contents(snapshot: &Snapshot, object: u32, asked: bool) -> String {
    let Some(id) = snapshot.contents(object).filter(|_| asked) else {
        return String::new();
    };
    let all = text(snapshot, id);
    let mut shown: String = all.chars().take(LONGEST_CONTENTS).collect();
    if shown.len() < all.len() {
        shown.push('…');
    }
    format!(" \"{shown}\"")
}

/// By what an object is held: `$cache`, `@rows`, `[3]`, `local variable rows`.
#[must_use]
pub fn via(snapshot: &Snapshot, via: Via) -> String {
    match via {
        Via::Root(name) => root(snapshot, name),
        Via::Edge(name) => edge(snapshot, name),
    }
}

fn root(snapshot: &Snapshot, name: RootName) -> String {
    let mut said = name.kind.word().to_owned();
    if let Some(id) = name.text {
        said = match name.kind {
            // As the program writes it, and what the VM calls its table of finalizers.
            RootKind::Frame | RootKind::Finalizer => text(snapshot, id),
            // What is known is only who cannot be asked.
            RootKind::Native if text(snapshot, id).starts_with('(') => text(snapshot, id),
            _ => format!("{said} {}", text(snapshot, id)),
        };
    }
    if name.thread != 0 {
        said += &format!(" of thread {}", name.thread);
    }
    said
}

/// Whether the VM counts references, so that cycles of them keep what is in them.
#[must_use]
pub fn counts_references(snapshot: &Snapshot) -> bool {
    let language = Language::of_prefix(&snapshot.about().language);
    language.is_some_and(|language| language.description().counts_references)
}

/// What becomes of garbage.
#[must_use]
pub fn end_of_garbage(snapshot: &Snapshot) -> &'static str {
    match snapshot.about().collector {
        Collector::Off => "which nothing frees while the collector is switched off",
        // It counts references, and those of a cycle never come to nothing.
        Collector::None => "which nothing frees",
        Collector::On | Collector::Unknown => "which the next collection frees",
    }
}

/// What must be known before any other line is read, a sentence each: that the collector is switched off, and that most of the memory
/// is no object's.
#[must_use]
pub fn first(answers: &Answers) -> Vec<String> {
    let about = answers.analysis.snapshot().about();
    let garbage = answers.analysis.garbage();
    let mut said = Vec::new();
    if about.collector == Collector::Off {
        let call = Language::of_prefix(&about.language)
            .map_or("", |language| language.description().switches_off);
        let objects = grouped(garbage.objects);
        said.push(format!(
            "the program has switched its collector off ({call}): nothing frees {objects} {} of garbage, {}",
            plural(garbage.objects, "object", "objects"),
            size(garbage.bytes)
        ));
    }
    let objects = answers
        .analysis
        .living()
        .bytes
        .saturating_add(garbage.bytes);
    let rest = about.rss.saturating_sub(objects);
    if rest >= MUCH && objects < about.rss / LITTLE {
        let percent = objects as f64 * 100.0 / about.rss as f64;
        said.push(format!(
            "all objects together are {percent:.1} % of the {} that are resident: lancet heap --rss says what the other {} are",
            size(about.rss),
            size(rest)
        ));
        said.extend(unsized_by_c(answers));
    }
    said
}

/// So many types of a C library's objects are told.
const TOLD: usize = 3;

/// The objects for which C libraries have memory of unknown size, which may be much of what the objects do not explain: of which types most
/// are, and on what they hang.
fn unsized_by_c(answers: &Answers) -> Option<String> {
    let snapshot = answers.analysis.snapshot();
    let most = suspects::unsized_by_c(answers.analysis);
    let told = most.iter().take(TOLD).map(|mass| {
        let name = text(snapshot, mass.name);
        let held = mass.holder.map_or_else(String::new, |holder| {
            let how_many = if holder.objects == mass.objects {
                "all hang"
            } else {
                "most hang"
            };
            format!(" ({how_many} on {})", placed(answers, holder.object))
        });
        format!("{} × {name}{held}", grouped(mass.objects))
    });
    let told: Vec<String> = told.collect();
    (!told.is_empty()).then(|| {
        format!(
            "C libraries have memory for objects of these types that is in no figure below: {}",
            told.join(", ")
        )
    })
}

/// Resident memory beside the objects that is told before anything else: so much, and where objects are less than one part in so many.
/// A small program's libraries are less.
const MUCH: u64 = 48 << 20;
const LITTLE: u64 = 4;

/// A reference in words.
#[must_use]
pub fn edge(snapshot: &Snapshot, name: EdgeName) -> String {
    let id = name.text().map(|id| text(snapshot, id));
    let named = |what: &str| match &id {
        Some(id) => format!("{what} {id}"),
        None => what.to_owned(),
    };
    let plain = |what: &str| id.clone().unwrap_or_else(|| what.to_owned());
    match name {
        EdgeName::Internal => "(internal)".into(),
        EdgeName::InstanceVariable(_) => plain("instance variable"),
        EdgeName::Constant(_) => named("constant"),
        EdgeName::ClassVariable(_) => plain("class variable"),
        EdgeName::Key => "key".into(),
        EdgeName::Value(_) => format!("[{}]", id.as_deref().unwrap_or("…")),
        EdgeName::Index(index) => format!("[{index}]"),
        EdgeName::Local(_) => named("local variable"),
        EdgeName::Global(_) => named("global"),
        EdgeName::Closure => "closure".into(),
        EdgeName::Superclass => "superclass".into(),
        EdgeName::ClassOf => "class".into(),
        EdgeName::Attribute(_) => format!(".{}", id.as_deref().unwrap_or("…")),
        EdgeName::Cell(_) => named("captured variable"),
        EdgeName::FrameLocal(_) => named("local variable"),
        EdgeName::Member(_) => named("member"),
        EdgeName::Finalizer => "finalizer".into(),
        EdgeName::ThreadLocal(_) => named("thread local"),
        EdgeName::Method(_) => named("method"),
        EdgeName::Included => "included module".into(),
        EdgeName::Stack => "stack".into(),
        EdgeName::Code => "code".into(),
        EdgeName::Referent => "->".into(),
    }
}

/// A path: `global $cache → Hash → [:a] Order`. The middle of a long one is left out.
#[must_use]
pub fn path(snapshot: &Snapshot, steps: &[Step]) -> String {
    let (module, steps) = from_module(snapshot, steps, |step| {
        (step.via, snapshot.label(step.object))
    });
    let shown = steps.iter().map(|step| {
        let held = via(snapshot, step.via);
        format!("{held} {}", object(snapshot, step.object))
    });
    joined(module.into_iter().chain(shown).collect(), 0)
}

/// What the label of an object begins with that has the globals of a module.
const NAMESPACE: &str = "of ";

/// Where a path goes through a module's global, its end from there on, and the module. What comes before says only by whom the
/// module is kept, which its name says shorter. `step`: by what it is held, and the label of what is.
pub fn from_module<'a, T>(
    snapshot: &Snapshot,
    steps: &'a [T],
    step: impl Fn(&T) -> (Via, Option<TextId>),
) -> (Option<String>, &'a [T]) {
    let is_global = |one: &T| matches!(step(one).0, Via::Edge(EdgeName::Global(_)));
    let Some(at) = steps.iter().rposition(is_global) else {
        return (None, steps);
    };
    let label = at.checked_sub(1).and_then(|before| step(&steps[before]).1);
    let label = label.map(|label| text(snapshot, label));
    match label
        .as_deref()
        .and_then(|label| label.strip_prefix(NAMESPACE))
    {
        Some(module) => (Some(module.to_owned()), &steps[at..]),
        None => (None, steps),
    }
}

/// Returns the steps of a path in one line; the middle of a long one is left out, of which so many are not there.
#[must_use]
pub fn joined(mut steps: Vec<String>, missing: usize) -> String {
    if steps.len() > LONGEST_PATH {
        let left_out = steps.len() - LONGEST_PATH + 1;
        let from = LONGEST_PATH / 2;
        let words = format!("… {} more …", left_out + missing);
        steps.splice(from..from + left_out, [words]);
    }
    steps.join(" → ")
}

/// Where an object is held, for a sentence about it: by the last reference of its path that has a name, and by what holds
/// that.
fn place(answers: &Answers, object_number: u32) -> Option<String> {
    let snapshot = answers.analysis.snapshot();
    let steps = answers.paths.to(object_number);
    let named = |step: &&Step| {
        !matches!(
            step.via,
            Via::Edge(
                EdgeName::Internal | EdgeName::Stack | EdgeName::ClassOf | EdgeName::Referent
            )
        )
    };
    let (at, step) = steps.iter().enumerate().rfind(|(_, step)| named(step))?;
    let held = via(snapshot, step.via);
    let holder = at.checked_sub(1).map(|before| steps[before].object);
    Some(match holder {
        None => held,
        Some(holder) => {
            let label = snapshot.label(holder).map(|label| text(snapshot, label));
            match (step.via, label) {
                // The table of a module's or class's names is called so.
                (Via::Edge(EdgeName::Global(_) | EdgeName::Attribute(_)), Some(owner))
                    if owner.starts_with(NAMESPACE) =>
                {
                    format!("{held} {owner}")
                }
                // What C code calls a member says little: the array of which one is a view.
                (Via::Edge(EdgeName::Member(_)), _) if snapshot.role(holder) == Role::Native => {
                    format!("{held} of {}", placed(answers, holder))
                }
                _ => format!("{held} of {}", object(snapshot, holder)),
            }
        }
    })
}

/// An object with where it is held: `Hash @global $cache`, `Hash @rows of Shop`.
#[must_use]
pub fn placed(answers: &Answers, number: u32) -> String {
    let name = object(answers.analysis.snapshot(), number);
    match place(answers, number) {
        // An instance variable has its own sign, and with one more it would be a class variable's.
        Some(place) if place.starts_with('@') => format!("{name} {place}"),
        Some(place) => format!("{name} @{place}"),
        None => name,
    }
}

/// A part of all living bytes in hundredths, rounded.
#[must_use]
pub fn percent(answers: &Answers, bytes: u64) -> u64 {
    hundredths(bytes, answers.analysis.living().bytes)
}

/// A part of all in hundredths, rounded.
pub(super) fn hundredths(bytes: u64, all: u64) -> u64 {
    let all = u128::from(all.max(1));
    ((u128::from(bytes) * 100 + all / 2) / all) as u64
}

/// What was made while births were watched, as a sentence.
#[must_use]
pub fn born(answers: &Answers, born: &Born) -> String {
    let taken = answers.analysis.snapshot().about().taken_at;
    let watched = Duration::from_nanos(taken.saturating_sub(born.since));
    format!(
        "made in the {:.1} s before the snapshot, and alive: {} {}, {}",
        watched.as_secs_f64(),
        grouped(born.all.objects),
        plural(born.all.objects, "object", "objects"),
        size(born.all.bytes)
    )
}

/// How much is new and how much is gone, as a sentence.
#[must_use]
pub fn changed(diff: &Diff) -> String {
    format!(
        "new and living: {} objects, {}; gone: {} objects, {}",
        grouped(diff.new.objects),
        size(diff.new.bytes),
        grouped(diff.gone.objects),
        size(diff.gone.bytes)
    )
}

/// Who holds what is new, as a sentence.
#[must_use]
pub fn holder(answers: &Answers, holder: &Holder) -> String {
    let snapshot = answers.analysis.snapshot();
    let made = holder.site.map(|line| site(snapshot, line));
    let what = format!(
        "{} new {}, {}, most of it {}{}",
        grouped(holder.objects),
        plural(holder.objects, "object", "objects"),
        size(holder.retained),
        text(snapshot, holder.name),
        made.map_or(String::new(), |line| format!(", most made at {line}"))
    );
    match holder.object {
        Some(object) => format!("{} holds {what}", placed(answers, object)),
        None => format!("no single object holds {what}"),
    }
}

/// Sentences on what is not in the snapshot.
pub fn losses(snapshot: &Snapshot) -> Vec<String> {
    let lost = snapshot.losses();
    let of = |count: u64, what: &str| (count > 0).then(|| format!("{what}: {}", grouped(count)));
    [
        of(lost.objects, "objects that found no room"),
        of(
            lost.edges,
            "references that found no room, or are of objects that did not",
        ),
        of(lost.roots, "roots that found no room"),
        of(lost.texts, "names that found no room, each shown as …"),
        of(
            lost.dangling_edges,
            "references to addresses at which no object was found",
        ),
        of(
            lost.dangling_roots,
            "roots that lead to addresses at which no object was found",
        ),
        of(
            lost.repeated_objects,
            "objects that were found twice at one address",
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}
