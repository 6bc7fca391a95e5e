//! Suspects in words, with where each is held. Used by `json`, `html` and others here, and by crate `lancet`.

use heap::answers::Answers;
use heap::answers::paths::{Step, Via};
use heap::answers::suspects::{Mass, PART, Suspect, Suspected};
use heap::{Collector, Role, Snapshot};

use super::words::{
    counts_references, end_of_garbage, hundredths, object, path, percent, placed, site, text,
    typed, via,
};
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
            let keeps = keeps(answers, suspect);
            format!("{mass}: they retain {amount}, and {holder}{keeps}")
        }
        Suspected::Site(line) => {
            let mass = suspect.mass.map(|mass| {
                let name = text(snapshot, mass.name);
                format!(", for instance {} × {name}", grouped(mass.objects))
            });
            let holder = held_by(snapshot, suspect, "it");
            format!(
                "what {} has made retains {amount}{}, and {holder}{}",
                site(snapshot, line),
                mass.unwrap_or_default(),
                keeps(answers, suspect)
            )
        }
        Suspected::Garbage => {
            let mass = suspect.mass.map(|mass| mass_of(snapshot, &mass));
            let end = end_of_garbage(snapshot);
            format!(
                "garbage takes {amount}, {end}: mostly {}{}",
                mass.unwrap_or_default(),
                kept_by(answers)
            )
        }
        Suspected::Names(number) => {
            let names = grouped(suspect.mass.map_or(0, |mass| mass.objects));
            format!(
                "{} has {names} names that differ in nothing but numbers{}: they retain {amount}",
                object(snapshot, number),
                example_of_names(snapshot, number, suspect)
            )
        }
    }
}

/// One of the names by which an object holds a suspect's members: ` (method _view___12_95028)`.
fn example_of_names(snapshot: &Snapshot, holder: u32, suspect: &Suspect) -> String {
    let example = example(suspect);
    let mut edges = snapshot.edges(holder);
    let edge = edges.find(|edge| Some(edge.target) == example && edge.name.text().is_some());
    edge.map_or_else(String::new, |edge| {
        format!(" ({})", via(snapshot, Via::Edge(edge.name)))
    })
}

/// What keeps garbage, if it is cycles of references, or what Perl does with it if it is none.
fn kept_by(answers: &Answers) -> String {
    let snapshot = answers.analysis.snapshot();
    let garbage = &answers.garbage;
    let counts_only = snapshot.about().collector == Collector::None;
    if garbage.cycles == 0 && counts_only {
        return ", in no cycle: counts of references that are too high".to_owned();
    }
    if !is_kept_by_cycles(answers) {
        return String::new();
    }
    // What has a name of its own, or is of a class of the program, says most.
    let says = |one: &u32| match snapshot.role(*one) {
        Role::Function => 3,
        Role::Instance => 2,
        _ => u8::from(snapshot.label(*one).is_some()),
    };
    let members = garbage.circle.iter().map(|step| step.object);
    let member = members.rev().max_by_key(says);
    let member = member.map_or_else(String::new, |one| {
        format!(", one through {}", object(snapshot, one))
    });
    format!(
        ", kept by {} {} of references{member}",
        grouped(garbage.cycles),
        plural(garbage.cycles, "cycle", "cycles")
    )
}

/// Whether most of the garbage is in cycles of references, or hangs on them, in a VM that counts references. One that does not frees a
/// cycle as it frees anything else.
fn is_kept_by_cycles(answers: &Answers) -> bool {
    if !counts_references(answers.analysis.snapshot()) {
        return false;
    }
    let garbage = answers.analysis.garbage().bytes;
    answers.garbage.cycles != 0 && answers.garbage.in_cycles >= garbage / 2
}

/// Who holds a group: nobody, or an object of the VM's own, such as a thread.
fn held_by(snapshot: &Snapshot, suspect: &Suspect, them: &str) -> String {
    let holder = suspect.mass.and_then(|mass| Some((mass, mass.holder?)));
    if let Some((mass, holder)) = holder {
        let how_many = if holder.objects == mass.objects {
            "all hang".to_owned()
        } else {
            let count = grouped(holder.objects);
            format!("{count} {}", plural(holder.objects, "hangs", "hang"))
        };
        return format!("{how_many} on {}", object(snapshot, holder.object));
    }
    let nobody = format!("no single object holds {them}");
    match suspect.mass.and_then(|mass| Some((mass, mass.root?))) {
        None => nobody,
        Some((mass, (name, objects))) => {
            let how_many = match objects == mass.objects {
                true => "all are".to_owned(),
                false => format!("{} {}", grouped(objects), plural(objects, "is", "are")),
            };
            let root = via(snapshot, Via::Root(name));
            match root
                .strip_prefix('(')
                .and_then(|root| root.strip_suffix(')'))
            {
                // As it is called where only who cannot be asked is known: (held by C code).
                Some(held) => format!("{nobody}: {how_many} {held}"),
                None => format!("{nobody}: {how_many} held by {root}"),
            }
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
        let steps = circle(answers);
        let first = steps.last()?;
        let address = snapshot.address(first.object);
        let first = object(snapshot, first.object);
        let around = path(snapshot, steps);
        return Some(format!("{address:#x}, a cycle: {first} → {around}"));
    }
    let path = path(snapshot, &answers.paths.to(number));
    Some(format!("{address:#x}, path: {path}"))
}

/// So many steps are looked at for what one object of a group keeps, and so many of them are told.
const STEPS: usize = 12;
const TOLD: usize = 3;

/// What the example of a group keeps, as far as each step holds half of what the one before it does: `; one keeps Proc app.rb:12 →
/// Order`. Only what has a name of its own, or is of a class of the program, is told.
fn keeps(answers: &Answers, suspect: &Suspect) -> String {
    let (analysis, snapshot) = (answers.analysis, answers.analysis.snapshot());
    if !matches!(suspect.what, Suspected::Type(_) | Suspected::Site(_)) {
        return String::new();
    }
    let mut at = example(suspect);
    let mut told = Vec::new();
    for _ in 0..STEPS {
        let Some(object) = at else { break };
        let held = analysis.dominated(Some(object)).iter().copied();
        let largest = held.max_by_key(|one| (analysis.retained(*one), std::cmp::Reverse(*one)));
        let least = analysis
            .retained(object)
            .saturating_sub(snapshot.bytes(object))
            / 2;
        at = largest.filter(|one| analysis.retained(*one) >= least);
        let says = |one: &u32| match snapshot.role(*one) {
            Role::Instance => true,
            Role::Function | Role::Fiber => snapshot.label(*one).is_some(),
            _ => false,
        };
        told.extend(at.filter(says));
    }
    told.truncate(TOLD);
    let told: Vec<String> = told.iter().map(|one| object(snapshot, *one)).collect();
    match told.is_empty() {
        true => String::new(),
        false => format!("; one keeps {}", told.join(" → ")),
    }
}

/// The cycle that is shown of garbage; empty where it is not cycles that keep it.
fn circle<'a>(answers: &'a Answers) -> &'a [Step] {
    match is_kept_by_cycles(answers) {
        true => &answers.garbage.circle,
        false => &[],
    }
}

/// The path to a suspect's example; of garbage the cycle.
#[must_use]
pub fn steps(answers: &Answers, suspect: &Suspect) -> Vec<Step> {
    match suspect.what {
        Suspected::Garbage => circle(answers).to_vec(),
        _ => example(suspect).map_or_else(Vec::new, |one| answers.paths.to(one)),
    }
}

/// What a suspect is, in the word of JSON.
#[must_use]
pub fn what(suspect: &Suspect) -> &'static str {
    match suspect.what {
        Suspected::Object(_) => "object",
        Suspected::Type(_) => "type",
        Suspected::Site(_) => "site",
        Suspected::Garbage => "garbage",
        Suspected::Names(_) => "names",
    }
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
            format!("{name} retains {part} %, and is the VM's own or held by many")
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
    let name = typed(snapshot, mass.name, mass.label);
    let name = match snapshot.role(mass.example) {
        Role::Internal if snapshot.class(mass.example).is_none() => {
            format!("{name} of the VM's own")
        }
        _ => name,
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
