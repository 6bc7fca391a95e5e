//! The rows of a look as stacks: frames from the outermost to the innermost, with what was made and what lives there.
//! Used by `mem`, and by `lancet::commands::mem::args`.
//!
//! ```text
//! <main> (app.rb:40);fill (app.rb:12);String 150001
//! (before lancet);String 2000
//! ```
//!
//! The kinds of weights have the names and the order of the heap profiles of Go, which programs that read pprof's format know.

use std::io;
use std::time::Duration;

use births::analysis::{Census, Counts, Delta, Growth, Key, Report};

use super::label::BEFORE;
use super::reporter::{Format, Weight};
use crate::Writes;
use crate::forms::stacks::{self, Frame, Kind, Stack, Stacks, Unit};

/// For all forms that show stacks. A picture has no negative widths: of growth, what shrank is left out.
pub static FORMAT: Format = Format {
    writes: Writes::Stacks,
    for_people: false,
    most_guests: 1,
    blank_lines: false,
    says_losses: false,
    holders: |out, look, options| {
        let rows = holding(look.census, look.report, options.weight);
        options.stacks.write(&rows, out)
    },
    growth: Some(|out, census, growth, options| {
        let rows = grown(census, growth, options.weight);
        options.stacks.write(&rows, out)
    }),
};

/// Where the VM made an object outside any code of the program.
const VM: &str = "(vm)";
/// What --top and --min leave out.
const REST: &str = "(other rows)";

const KINDS: &[Kind] = &[
    kind("alloc_objects", Unit::Count),
    kind("alloc_space", Unit::Bytes),
    kind("inuse_objects", Unit::Count),
    kind("inuse_space", Unit::Bytes),
];
/// The number of `inuse_space`.
const BYTES: usize = 3;

const fn kind(name: &'static str, unit: Unit) -> Kind {
    Kind { name, unit }
}

/// Rows with their weights.
struct Rows<'a> {
    census: &'a Census,
    /// For how many seconds was counted.
    seconds: f64,
    weight: Weight,
    rows: Vec<(&'a Key, bool, Vec<u64>)>,
    rest: Option<Vec<u64>>,
}

/// The rows of who holds, best made by [`births::analysis::By::Stack`].
pub fn holding<'a>(census: &'a Census, report: &'a Report, weight: Weight) -> impl Stacks + 'a {
    let weights = |counts: &Counts| vec![counts.born, counts.allocated, counts.live, counts.bytes];
    let rows = report.rows.iter();
    let rows = rows.map(|row| (&row.key, row.before, weights(&row.counts)));
    Rows {
        census,
        seconds: census.seconds,
        weight,
        rows: rows.collect(),
        rest: report.rest.as_ref().map(|rest| weights(&rest.counts)),
    }
}

/// The rows of what grew.
pub fn grown<'a>(census: &'a Census, growth: &'a Growth, weight: Weight) -> impl Stacks + 'a {
    let weights = |delta: &Delta| {
        let all = [delta.born, delta.allocated, delta.live, delta.bytes];
        all.map(|more| u64::try_from(more).unwrap_or(0)).to_vec()
    };
    let rows = growth.rows.iter();
    let rows = rows.map(|row| (&row.key, row.before, weights(&row.delta)));
    Rows {
        census,
        seconds: growth.seconds,
        weight,
        rows: rows.collect(),
        rest: growth.rest.as_ref().map(|rest| weights(&rest.delta)),
    }
}

impl Stacks for Rows<'_> {
    fn about(&self) -> stacks::About<'_> {
        let (one, what) = match self.weight {
            Weight::Born => (0, "objects that were made"),
            Weight::Live => (2, "living objects"),
            Weight::Bytes => (BYTES, "bytes of living objects"),
        };
        let command = self.census.command.join(" ");
        let title = format!("{command}: {what}");
        let took = Duration::try_from_secs_f64(self.seconds).ok();
        let end = self.census.taken_at;
        let began = end.and_then(|end| end.checked_sub(took?));
        stacks::About {
            first: BYTES,
            comment: Some(command),
            times: stacks::Times::counted(began, took),
            process: stacks::Process::new(self.census.pid, &self.census.command),
            ..stacks::About::titled(title, KINDS, one)
        }
    }

    fn each(&self, take: &mut dyn FnMut(&Stack<'_>) -> io::Result<()>) -> io::Result<()> {
        for (key, before, weights) in &self.rows {
            let (frames, kind) = match key {
                Key::Type { kind } if *before => (vec![Frame::named(BEFORE)], Some(kind)),
                Key::Stack { frames, kind } if frames.is_empty() => {
                    (vec![Frame::named(VM)], Some(kind))
                }
                Key::Stack { frames, kind } => (
                    frames.iter().rev().map(|one| frame(one)).collect(),
                    Some(kind),
                ),
                key => (vec![Frame::named(key.to_string())], None),
            };
            take(&Stack {
                frames,
                kind: kind.map(|kind| (&**kind).into()),
                weights: weights.clone(),
                is_rest: false,
            })?;
        }
        let rest = self.rest.iter();
        rest.cloned().try_for_each(|weights| {
            take(&Stack {
                frames: vec![Frame::named(REST)],
                kind: None,
                weights,
                is_rest: true,
            })
        })
    }
}

fn frame(frame: &births::analysis::Frame) -> Frame<'_> {
    let (path, method) = (&*frame.path, &*frame.method);
    let text = match path.is_empty() {
        true => method.into(),
        false => format!("{method} ({path}:{})", frame.line).into(),
    };
    Frame {
        text,
        place: answer::place::Place::new(path, frame.line, method),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::SystemTime;

    use births::analysis::{By, Order, Rest, Row};

    use super::*;

    fn made_at(method: &str, line: u32) -> Arc<births::analysis::Frame> {
        Arc::new(births::analysis::Frame {
            path: "/srv/app.rb".into(),
            line,
            method: method.into(),
        })
    }

    #[test]
    fn a_row_has_four_weights_and_its_type() {
        let counts = Counts {
            born: 5,
            live: 2,
            bytes: 80,
            allocated: 200,
            ..Counts::default()
        };
        let kind: Arc<str> = "String".into();
        let row = |key, before| Row {
            key,
            counts,
            before,
        };
        let of = |frames| Key::Stack {
            frames,
            kind: Arc::clone(&kind),
        };
        let frames = vec![made_at("inner", 3), made_at("<main>", 1)];
        let before = Key::Type {
            kind: Arc::clone(&kind),
        };
        let report = Report {
            by: By::Stack,
            order: Order::Live,
            rows: vec![
                row(of(frames), false),
                row(of(Vec::new()), false),
                row(before, true),
            ],
            rest: Some(Rest { rows: 7, counts }),
            total: counts,
            before: counts,
            hidden: counts,
            own: Vec::new(),
            largest: 2,
            verdict: None,
        };
        let mut seen = Vec::new();
        let census = Census {
            seconds: 2.0,
            taken_at: Some(SystemTime::UNIX_EPOCH + Duration::from_secs(5)),
            command: vec!["ruby".to_owned()],
            ..Census::default()
        };
        let about = holding(&census, &report, Weight::Live);
        let about = about.about();
        assert_eq!(about.times.began, Some(3_000_000_000));
        assert_eq!(about.times.took, Some(Duration::from_secs(2)));
        // Of the four weights it names none.
        assert_eq!(about.comment.as_deref(), Some("ruby"));
        holding(&census, &report, Weight::Live)
            .each(&mut |stack| {
                assert_eq!(stack.weights, [5, 200, 2, 80]);
                let frames = stack.frames.iter().map(|frame| &*frame.text);
                let frames: Vec<_> = frames.collect();
                seen.push((frames.join(";"), stack.kind.is_some(), stack.is_rest));
                Ok(())
            })
            .unwrap();
        let expected = [
            ("<main> (/srv/app.rb:1);inner (/srv/app.rb:3)", true, false),
            ("(vm)", true, false),
            ("(before lancet)", true, false),
            ("(other rows)", false, true),
        ];
        assert_eq!(
            seen,
            expected.map(|(frames, kind, rest)| (frames.to_owned(), kind, rest))
        );
    }
}
