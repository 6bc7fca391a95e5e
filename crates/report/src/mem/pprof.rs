//! Call paths with what was made and what lives there, for `pprof` and what reads its format. The kinds of values have the names and the order of
//! the heap profiles of Go, which these programs know.

use std::io::{self, Write};

use births::analysis::{Counts, Key, Report};

use super::format::Format;
use super::label::BEFORE;
use crate::pprof::{Place, Profile};

/// Objects and bytes by call path, in Protocol Buffers.
pub(super) static FORMAT: Format = Format {
    name: "pprof",
    about: "For pprof and what reads its format (to a file: -o)",
    for_people: false,
    most_guests: 1,
    blank_lines: false,
    says_losses: false,
    is_text: false,
    has_records: false,
    holders: |out, look, _| write(out, look.report),
    growth: None,
};

/// Where the VM made an object outside any Ruby code.
const VM: &str = "(vm)";

fn write(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    let kinds = [
        ("alloc_objects", "count"),
        ("alloc_space", "bytes"),
        ("inuse_objects", "count"),
        ("inuse_space", "bytes"),
    ];
    let mut profile = Profile::new(&kinds, "inuse_space");
    for row in &report.rows {
        let values = values(&row.counts);
        let kind = match &row.key {
            Key::Stack { kind, .. } | Key::Line { kind, .. } | Key::Type { kind } => Some(&**kind),
            _ => None,
        };
        let label = kind.map(|kind| ("type", kind));
        profile.add(places(&row.key, row.before).into_iter(), &values, label);
    }
    if let Some(rest) = &report.rest {
        let place = Place {
            name: REST,
            file: "",
            line: 0,
        };
        profile.add([place].into_iter(), &values(&rest.counts), None);
    }
    profile.write(out)
}

/// What --top and --min leave out.
const REST: &str = "(other rows)";

fn values(counts: &Counts) -> [u64; 4] {
    [counts.born, counts.allocated, counts.live, counts.bytes]
}

/// The frames of a row, innermost first: its type is no frame, but a label.
fn places(key: &Key, before: bool) -> Vec<Place<'_>> {
    let named = |name| Place {
        name,
        file: "",
        line: 0,
    };
    match key {
        _ if before => vec![named(BEFORE)],
        Key::Stack { frames, .. } if !frames.is_empty() => frames
            .iter()
            .map(|frame| Place {
                name: &frame.method,
                file: &frame.path,
                line: frame.line,
            })
            .collect(),
        _ => vec![named(VM)],
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use births::analysis::{By, Frame, Rest, Row};

    use super::*;

    fn frame(method: &str, line: u32) -> Arc<Frame> {
        Arc::new(Frame {
            path: "/srv/app.rb".into(),
            line,
            method: method.into(),
        })
    }

    #[test]
    fn paths_have_four_values_and_the_type_is_a_label() {
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
        let frames = vec![frame("inner", 3), frame("<main>", 1)];
        let made = Key::Stack {
            frames,
            kind: Arc::clone(&kind),
        };
        let vm = Key::Stack {
            frames: Vec::new(),
            kind: Arc::clone(&kind),
        };
        let report = Report {
            by: By::Stack,
            rows: vec![
                row(made, false),
                row(vm, false),
                row(Key::Type { kind }, true),
            ],
            rest: Some(Rest { rows: 7, counts }),
            total: counts,
            before: counts,
            hidden: counts,
            own: Vec::new(),
            largest: 2,
            verdict: None,
        };
        let mut out = Vec::new();
        write(&mut out, &report).unwrap();
        let read = crate::pprof::tests::read(&out);
        let paths: Vec<&str> = read.iter().map(|(path, ..)| path.as_str()).collect();
        assert_eq!(
            paths,
            [
                "<main> /srv/app.rb:1;inner /srv/app.rb:3",
                "(vm) :0",
                "(before lancet) :0",
                "(other rows) :0"
            ]
        );
        for (path, values, label) in &read {
            let kind = if path == "(other rows) :0" {
                ""
            } else {
                "String"
            };
            assert_eq!(
                (values.as_slice(), label.as_str()),
                ([5, 200, 2, 80].as_slice(), kind)
            );
        }
    }
}
