//! Profiles as OpenTelemetry has them: a `ProfilesData` of `opentelemetry/proto/profiles/v1development/profiles.proto` (version 1.10 to 1.11), which
//! is byte for byte also the request by which a collector is handed profiles (`POST /v1development/profiles`). Used by
//! `stacks`.
//!
//! ```text
//! ProfilesData ─▶ resource (the process) ─▶ scope (lancet) ─▶ Profile: one for each kind of weight ─▶ sample
//!            └──▶ dictionary, for all of them: texts, functions, locations, stacks, attributes  ◀──────┘
//! ```
//!
//! Row 0 of each table of the dictionary stands for nothing. A sample is told by its stack and its attributes, and is there once a profile. The
//! profile that is shown first is the first one.

mod messages;

use std::io::{self, Write};

use indexmap::{IndexMap, IndexSet};
use prost::Message;

use self::messages::{
    Attribute, Counted, File, Function, Is, Kind, Line, Link, Location, Mapping, OfResource,
    OfScope, Pair, Profile, Resource, Scope, Stack, Tables, Value,
};
use super::dictionary::Dictionary;
use super::form::{About, Process, StackForm, Stacks, nanoseconds};
use crate::text::printable;

/// For collectors of OpenTelemetry and what takes their profiles.
pub(super) static FORM: StackForm = StackForm {
    name: "otlp",
    about: "For OpenTelemetry: profiles as its protocol has them (to a file: -o)",
    is_text: false,
    repeats: false,
    write,
};

fn write(stacks: &dyn Stacks, out: &mut dyn Write) -> io::Result<()> {
    let about = stacks.about();
    let mut seen = Seen::new();
    stacks.each(&mut |stack| {
        // No row of a table is without a sample that leads to it.
        if stack.weights.iter().all(|weight| *weight == 0) {
            return Ok(());
        }
        let places = seen.tables.innermost_first(stack);
        let places = places.into_iter().map(row).collect();
        let sample = Sample {
            stack: seen.stacks.insert_full(places).0,
            attribute: seen.attribute(stack.kind.as_deref()),
        };
        let none = || vec![0u64; about.kinds.len()];
        let sums = seen.samples.entry(sample).or_insert_with(none);
        for (sum, weight) in sums.iter_mut().zip(&stack.weights) {
            *sum = sum.saturating_add(*weight);
        }
        Ok(())
    })?;
    // A name and a unit for each weight, and three words beside them, are texts as well. There are no more functions than locations.
    let more = 2 * about.kinds.len() + 3;
    let texts = seen.tables.texts.len() + more;
    let rows = [
        texts,
        seen.tables.locations.len(),
        seen.stacks.len(),
        seen.types.len(),
    ];
    if rows.into_iter().any(|rows| i32::try_from(rows).is_err()) {
        return Err(io::Error::other(
            "these are more stacks than OpenTelemetry's format has numbers for",
        ));
    }
    out.write_all(&seen.file(&about).encode_to_vec())
}

/// The number of a row as the format has it. Of more rows than that no file is written.
fn row(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// What tells a sample: the numbers of its stack and of its attribute (0: it has none).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Sample {
    stack: usize,
    attribute: usize,
}

/// Stacks as the format has them.
struct Seen {
    tables: Dictionary,
    /// The places of each, the innermost first.
    stacks: IndexSet<Vec<i32>>,
    /// The types of what was counted; the first one is none.
    types: IndexSet<String>,
    /// The sums of each kind of weight.
    samples: IndexMap<Sample, Vec<u64>>,
}

impl Seen {
    fn new() -> Self {
        Seen {
            tables: Dictionary::new(),
            stacks: [Vec::new()].into(),
            types: [String::new()].into(),
            samples: IndexMap::new(),
        }
    }

    /// The number of the attribute that names a type.
    fn attribute(&mut self, kind: Option<&str>) -> usize {
        let kind = printable(kind.unwrap_or(""));
        let known = self.types.get_index_of(&*kind);
        known.unwrap_or_else(|| self.types.insert_full(kind.into_owned()).0)
    }

    fn file(mut self, about: &About<'_>) -> File {
        let mut kinds: Vec<usize> = (0..about.kinds.len()).collect();
        kinds.sort_by_key(|kind| *kind != about.first);
        let profiles = kinds.into_iter().map(|kind| self.profile(about, kind));
        let scope = OfScope {
            scope: Some(Scope {
                name: "lancet".to_owned(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
            }),
            profiles: profiles.collect(),
        };
        let resource = OfResource {
            resource: Some(Resource {
                attributes: attributes(about.process),
            }),
            scopes: vec![scope],
        };
        File {
            resources: vec![resource],
            dictionary: Some(self.dictionary()),
        }
    }

    /// The samples of one kind of weight. What has none is not among them.
    fn profile(&mut self, about: &About<'_>, kind: usize) -> Profile {
        let weighs = about.kinds[kind];
        let times = about.times;
        let mut text = |text: &str| row(self.tables.text(text));
        let [name, unit] = [weighs.name, weighs.unit.name()].map(&mut text);
        let period_is = times.period.map(|_| Kind {
            name: text("wall"),
            unit: text("nanoseconds"),
        });
        let samples = self.samples.iter().map(|(sample, weights)| Counted {
            stack: row(sample.stack),
            attributes: Some(row(sample.attribute))
                .filter(|number| *number != 0)
                .into_iter()
                .collect(),
            values: vec![i64::try_from(weights[kind]).unwrap_or(i64::MAX)],
        });
        Profile {
            samples: samples.filter(|sample| sample.values != [0]).collect(),
            kind: Some(Kind { name, unit }),
            began: times.began.unwrap_or(0),
            nanoseconds: times.took.map_or(0, |took| nanoseconds(took) as u64),
            period_is,
            period: times.period.map_or(0, nanoseconds),
        }
    }

    /// The tables, once no text is added any more.
    fn dictionary(mut self) -> Tables {
        let key = match self.types.len() {
            1 => 0,
            _ => self.tables.text(TYPE),
        };
        let attributes = self
            .types
            .iter()
            .enumerate()
            .map(|(number, kind)| match number {
                0 => Attribute::default(),
                _ => Attribute {
                    key: row(key),
                    value: Some(Value::text(kind)),
                },
            });
        let functions = self.tables.functions.iter().map(|function| Function {
            name: row(function.name),
            file: row(function.file),
        });
        let locations = self.tables.locations.iter().enumerate();
        let locations = locations.map(|(number, location)| Location {
            lines: match number {
                0 => Vec::new(),
                _ => vec![Line {
                    function: row(location.function),
                    line: location.line.into(),
                }],
            },
        });
        let stacks = self.stacks.into_iter();
        let stacks = stacks.map(|locations| Stack { locations });
        Tables {
            mappings: vec![Mapping {}],
            locations: locations.collect(),
            functions: functions.collect(),
            // As long as those that there are, which some readers insist on.
            links: vec![Link {
                trace: vec![0; 16],
                span: vec![0; 8],
            }],
            attributes: attributes.collect(),
            stacks: stacks.collect(),
            texts: self.tables.texts.into_iter().collect(),
        }
    }
}

/// The attribute that names the type of what was counted.
const TYPE: &str = "lancet.type";

/// What OpenTelemetry's conventions call a process. Without a name of the service many a store takes nothing; this is what the conventions have
/// where nobody gave it one. The command line may have secrets in it, and is to go to no other machine.
fn attributes(process: Option<Process<'_>>) -> Vec<Pair> {
    let program = process.map_or("".into(), |process| {
        printable(process.program()).into_owned()
    });
    let service = match program.is_empty() {
        true => "unknown_service".to_owned(),
        false => format!("unknown_service:{program}"),
    };
    let mut all = vec![Pair::new("service.name", Value::text(&service))];
    if let Some(process) = process {
        let pid = Value::of(Is::Number(process.pid.into()));
        all.push(Pair::new("process.pid", pid));
        if !program.is_empty() {
            let name = Value::text(&program);
            all.push(Pair::new("process.executable.name", name));
        }
    }
    all
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::form::tests::{BYTES, Seen, bytes, stack};
    use super::super::form::{self, SAMPLES};
    use super::*;

    /// What a profile weighs, and its stacks.
    type Read = (String, Vec<(String, i64, String)>);

    /// Reads profiles again: of each what it weighs, and its stacks, outermost first, as `name file:line`, with type and weight.
    pub fn read(bytes: &[u8]) -> Vec<Read> {
        let file = File::decode(bytes).unwrap();
        let tables = file.dictionary.unwrap();
        let text = |number: i32| tables.texts[number as usize].as_str();
        assert_eq!(text(0), "");
        assert_eq!(tables.mappings, [Mapping {}]);
        assert_eq!(tables.functions[0], Function::default());
        assert_eq!(tables.locations[0], Location::default());
        assert_eq!(tables.stacks[0], Stack::default());
        assert_eq!(tables.attributes[0], Attribute::default());
        let frame = |number: &i32| {
            let line = tables.locations[*number as usize].lines[0];
            let function = tables.functions[line.function as usize];
            format!(
                "{} {}:{}",
                text(function.name),
                text(function.file),
                line.line
            )
        };
        let sample = |sample: &Counted| {
            let stack = &tables.stacks[sample.stack as usize];
            let frames: Vec<_> = stack.locations.iter().rev().map(frame).collect();
            let kind = sample.attributes.first().map(|number| {
                let attribute = &tables.attributes[*number as usize];
                assert_eq!(text(attribute.key), TYPE);
                match attribute.value.as_ref().and_then(|value| value.is.as_ref()) {
                    Some(Is::Text(kind)) => kind.clone(),
                    other => panic!("{other:?}"),
                }
            });
            assert_eq!(sample.values.len(), 1);
            (frames.join(";"), sample.values[0], kind.unwrap_or_default())
        };
        let profiles = file.resources[0].scopes[0].profiles.iter();
        let profiles = profiles.map(|profile| {
            let kind = profile.kind.unwrap();
            let weighs = format!("{}: {}", text(kind.name), text(kind.unit));
            (weighs, profile.samples.iter().map(sample).collect())
        });
        profiles.collect()
    }

    #[test]
    fn each_weight_is_a_profile_and_equal_samples_are_one() {
        const KINDS: &[form::Kind] = &[SAMPLES[0], BYTES[0]];
        let mut made = stack("main fill", &[2, 80]);
        made.kind = Some("String".into());
        let again = made.clone();
        let mut none = stack("main fill", &[1, 0]);
        none.kind = Some("Hash".into());
        let seen = Seen::new(KINDS, vec![made, stack("main", &[0, 7]), again, none]);
        let written = bytes(&FORM, &seen);
        assert_eq!(written, bytes(&FORM, &seen));
        let (fill, main) = ("main :0;fill :0", "main :0");
        let sample = |stack: &str, weight, kind: &str| (stack.to_owned(), weight, kind.to_owned());
        let expected = [
            (
                "samples: count".to_owned(),
                vec![sample(fill, 4, "String"), sample(fill, 1, "Hash")],
            ),
            (
                "space: bytes".to_owned(),
                vec![sample(fill, 160, "String"), sample(main, 7, "")],
            ),
        ];
        assert_eq!(read(&written), expected);
        let file = File::decode(&*written).unwrap();
        let tables = file.dictionary.unwrap();
        let profile = &file.resources[0].scopes[0].profiles[0];
        assert_eq!((profile.began, profile.nanoseconds), (7, 1_000_000_000));
        assert_eq!(profile.period, 250_000_000);
        let period = profile.period_is.unwrap();
        let words = [period.name, period.unit].map(|number| &*tables.texts[number as usize]);
        assert_eq!(words, ["wall", "nanoseconds"]);
    }

    #[test]
    fn what_weighs_nothing_is_in_no_table() {
        let seen = Seen::new(SAMPLES, vec![stack("main lost", &[0])]);
        let tables = File::decode(&*bytes(&FORM, &seen)).unwrap().dictionary;
        let tables = tables.unwrap();
        assert_eq!([tables.stacks.len(), tables.locations.len()], [1, 1]);
        assert!(!tables.texts.contains(&"lost".to_owned()));
    }

    #[test]
    fn a_process_has_the_name_of_its_program() {
        let command = ["/usr/bin/ru\u{1b}by", "--password=secret"].map(str::to_owned);
        let process = Process {
            pid: 42,
            command: &command,
        };
        let expected = [
            Pair::new("service.name", Value::text("unknown_service:ru\\x1bby")),
            Pair::new("process.pid", Value::of(Is::Number(42))),
            Pair::new("process.executable.name", Value::text("ru\\x1bby")),
        ];
        assert_eq!(attributes(Some(process)), expected);
        let nobody = [Pair::new("service.name", Value::text("unknown_service"))];
        assert_eq!(attributes(None), nobody);
    }
}
