//! `lancet heap --path`: how one object is held, or all objects of a class. Used by `lancet::commands::heap::run`.

use std::io::{self, Write};

use heap::answers::Answers;
use heap::answers::paths::{END, Via, Ways};
use heap::{Dominator, EdgeName};

use super::format::{Format, Options};
use super::json;
use super::words::{self, say};
use crate::columns::Tone;
use crate::figures::{grouped, plural, size};

/// Writes the path to one object, step by step.
///
/// # Errors
///
/// Returns the errors of `out`.
pub fn object(
    out: &mut dyn Write,
    answers: &Answers,
    object: u32,
    format: &Format,
    options: &Options,
) -> io::Result<()> {
    if format.writes.is_records() {
        json::head(out, answers)?;
        return json::path(out, answers, object, options);
    }
    let (analysis, snapshot) = (answers.analysis, answers.analysis.snapshot());
    let style = &options.style;
    let head = format!(
        "{} {:#x}{}: {} itself, retains {}",
        words::object(snapshot, object),
        snapshot.address(object),
        words::contents(snapshot, object, options.contents),
        size(snapshot.bytes(object)),
        size(analysis.retained(object))
    );
    say(out, &head, Tone::Head, style)?;
    if let Some(site) = snapshot.site(object) {
        let made = format!("made at {}", words::site(snapshot, site));
        say(out, &made, Tone::Plain, style)?;
    }
    match analysis.dominator(object) {
        Dominator::Garbage => {
            let end = words::end_of_garbage(snapshot);
            return writeln!(out, "nothing holds it: it is garbage, {end}");
        }
        Dominator::Roots => writeln!(out, "no single object keeps it alive")?,
        Dominator::Object(by) => {
            let with = format!(
                "it dies with {} {:#x}, which retains {}",
                words::object(snapshot, by),
                snapshot.address(by),
                size(analysis.retained(by))
            );
            say(out, &with, Tone::Plain, style)?;
        }
    }
    for step in answers.paths.to(object) {
        let sign = match step.via {
            Via::Root(_) => "root:",
            Via::Edge(_) => "   →",
        };
        let text = format!(
            "{sign} {} {} {:#x}, retains {}",
            words::via(snapshot, step.via),
            words::object(snapshot, step.object),
            snapshot.address(step.object),
            size(analysis.retained(step.object))
        );
        say(out, &text, Tone::Plain, style)?;
    }
    Ok(())
}

/// Writes the ways in which objects of a class are held.
///
/// # Errors
///
/// Returns the errors of `out`.
pub fn class(
    out: &mut dyn Write,
    answers: &Answers,
    ways: &Ways,
    format: &Format,
    options: &Options,
) -> io::Result<()> {
    if format.writes.is_records() {
        json::head(out, answers)?;
        return json::ways(out, answers, ways);
    }
    let snapshot = answers.analysis.snapshot();
    for way in &ways.told {
        let objects = grouped(way.objects);
        let noun = plural(way.objects, "object", "objects");
        let head = format!("{objects} {noun}, {}, held so:", size(way.bytes));
        say(out, &head, Tone::Head, &options.style)?;
        let (module, rest) =
            words::from_module(snapshot, &way.steps, |(via, _, label)| (*via, *label));
        let steps = rest.iter().map(|(via, name, label)| {
            // One of many: which element it is says nothing.
            let by = match via {
                Via::Edge(EdgeName::Index(_)) => "[…]".into(),
                via => words::via(snapshot, *via),
            };
            format!("{by} {}", words::typed(snapshot, *name, *label))
        });
        let steps = module.into_iter().chain(steps).collect();
        let begins_before = way.steps.len() - rest.len() < END;
        let missing = if begins_before { way.left_out } else { 0 };
        let line = format!("  {}", words::joined(steps, missing));
        say(out, &line, Tone::Plain, &options.style)?;
    }
    if ways.others > 0 {
        let text = format!(
            "… {} objects in {} more {}",
            grouped(ways.objects),
            grouped(ways.others),
            plural(ways.others, "way", "ways")
        );
        say(out, &text, Tone::Dim, &options.style)?;
    }
    Ok(())
}
