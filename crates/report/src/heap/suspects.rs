//! Suspects in words, with where each is held.

use heap::answers::Answers;
use heap::answers::suspects::{Mass, PART, Suspect, Suspected};
use heap::{Role, Snapshot};

use super::words::{end_of_garbage, hundredths, object, path, percent, placed, site, text};
use crate::figures::{grouped, plural, size};

/// A suspect as a sentence: `Hash @global $cache retains 412.0 MiB (61 %): 410,000 × Order, made at app/order.rb:31`.
#[must_use]
pub fn suspect(answers: &Answers, suspect: &Suspect) -> String {
    let snapshot = answers.analysis.snapshot();
    let amount = format!(
        "{} ({} %)",
        size(suspect.retained),
        percent_of(answers, suspect)
    );
    match suspect.what {
        Suspected::Object(number) => {
            let name = placed(answers, number);
            let own = snapshot.bytes(number);
            match suspect.mass {
                Some(mass) if mass.retained > own => {
                    format!("{name} retains {amount}: {}", mass_of(snapshot, &mass))
                }
                _ => format!("{name} takes {amount} itself{}", made(snapshot, number)),
            }
        }
        Suspected::Type(_) => {
            let holder = held_by(snapshot, suspect, "them");
            let mass = suspect.mass.map(|mass| mass_of(snapshot, &mass));
            let mass = mass.unwrap_or_default();
            format!("{mass}: they retain {amount}, and {holder}")
        }
        Suspected::Site(line) => {
            let mass = suspect.mass.map(|mass| {
                let name = text(snapshot, mass.name);
                format!(", for instance {} × {name}", grouped(mass.objects))
            });
            let holder = held_by(snapshot, suspect, "it");
            format!(
                "what {} has made retains {amount}{}, and {holder}",
                site(snapshot, line),
                mass.unwrap_or_default()
            )
        }
        Suspected::Garbage => {
            let mass = suspect.mass.map(|mass| mass_of(snapshot, &mass));
            let cycles = answers.garbage.cycles;
            let cycles = match cycles {
                0 => "in no cycle: counts of references that are too high".to_owned(),
                _ => format!(
                    "kept by {} {} of references",
                    grouped(cycles),
                    plural(cycles, "cycle", "cycles")
                ),
            };
            let end = end_of_garbage(snapshot);
            format!(
                "garbage takes {amount}, {end}: mostly {}, {cycles}",
                mass.unwrap_or_default()
            )
        }
    }
}

/// Who holds a group: nobody, or an object of the VM's own, such as a thread.
fn held_by(snapshot: &Snapshot, suspect: &Suspect, them: &str) -> String {
    let holder = suspect.mass.and_then(|mass| Some((mass, mass.holder?)));
    match holder {
        None => format!("no single object holds {them}"),
        Some((mass, holder)) => {
            let how_many = if holder.objects == mass.objects {
                "all hang".to_owned()
            } else {
                let count = grouped(holder.objects);
                format!("{count} {}", plural(holder.objects, "hangs", "hang"))
            };
            format!("{how_many} on {}", object(snapshot, holder.object))
        }
    }
}

/// How much of all living bytes a suspect retains, in hundredths; of garbage, how much of all bytes it is.
#[must_use]
pub fn percent_of(answers: &Answers, suspect: &Suspect) -> u64 {
    let living = answers.analysis.living().bytes;
    match suspect.what {
        Suspected::Garbage => hundredths(suspect.retained, living.saturating_add(suspect.retained)),
        _ => hundredths(suspect.retained, living),
    }
}

/// Where a suspect's example is, and the path to it; of garbage a circle of references that keeps it: `0x20000, path: global $cache Hash`.
#[must_use]
pub fn held(answers: &Answers, suspect: &Suspect) -> Option<String> {
    let snapshot = answers.analysis.snapshot();
    let number = example(suspect)?;
    let address = snapshot.address(number);
    if suspect.what == Suspected::Garbage {
        let steps = &answers.garbage.circle;
        let Some(first) = steps.last() else {
            return Some(format!("{address:#x}"));
        };
        let first = object(snapshot, first.object);
        let around = path(snapshot, steps);
        return Some(format!("{address:#x}, a cycle: {first} → {around}"));
    }
    let path = path(snapshot, &answers.paths.to(number));
    Some(format!("{address:#x}, path: {path}"))
}

/// What is said where there is no suspect: what most is, if the VM keeps that for itself, and what to do.
#[must_use]
pub fn no_suspect(answers: &Answers) -> String {
    let snapshot = answers.analysis.snapshot();
    let is_large = |retained: u64| percent(answers, retained) >= PART;
    let of_type = answers.types.iter().find(|of| is_large(of.retained));
    let of_line = answers
        .sites
        .iter()
        .find_map(|of| Some((of.key?, of.retained)).filter(|_| is_large(of.retained)));
    let most = match (of_type, of_line) {
        (Some(of), _) => Some((text(snapshot, of.key), of.retained)),
        (None, Some((line, retained))) => {
            Some((format!("what {} has made", site(snapshot, line)), retained))
        }
        (None, None) => None,
    };
    let why = most.map_or_else(
        || "no object, type or line of the program's retains a tenth of what lives".to_owned(),
        |(name, retained)| {
            let part = percent(answers, retained);
            format!("{name} retains {part} %, and is the VM's own or spread over what is")
        },
    );
    format!(
        "no suspect: {why}; what grows, a second snapshot shows: lancet heap --diff EARLIER LATER"
    )
}

/// The object whose path is told with a suspect.
#[must_use]
pub fn example(suspect: &Suspect) -> Option<u32> {
    match suspect.what {
        Suspected::Object(object) => Some(object),
        _ => suspect.mass.map(|mass| mass.example),
    }
}

fn mass_of(snapshot: &Snapshot, mass: &Mass) -> String {
    let made = mass.site.map(|(line, count)| {
        let most = if count == mass.objects { "" } else { "most " };
        format!(", {most}made at {}", site(snapshot, line))
    });
    let name = match snapshot.role(mass.example) {
        Role::Internal => format!("{} of the VM's own", text(snapshot, mass.name)),
        _ => text(snapshot, mass.name),
    };
    format!(
        "{} × {name}{}",
        grouped(mass.objects),
        made.unwrap_or_default()
    )
}

fn made(snapshot: &Snapshot, object: u32) -> String {
    let made = snapshot.site(object);
    made.map_or(String::new(), |line| {
        format!(", made at {}", site(snapshot, line))
    })
}
