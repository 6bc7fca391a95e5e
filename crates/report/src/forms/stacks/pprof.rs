//! Stacks with what was counted at them, as `pprof` reads them: a Protocol Buffers message
//! (`proto/profile.proto` of github.com/google/pprof, of which the fields below have their numbers), compressed by gzip.
//!
//! Texts, functions and locations are tables, and everything else names their rows by number. The same stacks make the same bytes.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;

use super::dictionary::Dictionary;
use super::form::{About, StackForm, Stacks, nanoseconds};

/// For `pprof` and what reads its format.
pub(super) static FORM: StackForm = StackForm {
    name: "pprof",
    about: "For pprof and what reads its format (to a file: -o)",
    is_text: false,
    repeats: false,
    write,
};

fn write(stacks: &dyn Stacks, out: &mut dyn Write) -> io::Result<()> {
    let about = stacks.about();
    let mut tables = Dictionary::new();
    let mut file = head(&about, &mut tables);
    stacks.each(&mut |stack| {
        let locations = tables.innermost_first(stack);
        let values = stack.weights.iter();
        let values = values.map(|value| i64::try_from(*value).unwrap_or(i64::MAX));
        // A type is no frame, but what is said of this stack alone.
        let labels = stack.kind.iter().map(|kind| Label {
            name: tables.text("type") as i64,
            says: tables.text(kind) as i64,
        });
        file.samples.push(Sample {
            values: values.collect(),
            labels: labels.collect(),
            locations: locations.into_iter().map(|it| it as u64).collect(),
        });
        Ok(())
    })?;
    file.add(tables);
    // Without a time and a name of its own, which gzip has room for.
    let mut packed = GzEncoder::new(out, Compression::default());
    packed.write_all(&file.encode_to_vec())?;
    packed.finish()?;
    Ok(())
}

/// A file that says what stacks are of, and has none yet.
fn head(about: &About<'_>, tables: &mut Dictionary) -> File {
    let mut text = |text: &str| tables.text(text) as i64;
    let times = about.times;
    let kinds = about.kinds.iter().map(|kind| Kind {
        name: text(kind.name),
        unit: text(kind.unit.name()),
    });
    File {
        kinds: kinds.collect(),
        shown: text(about.kinds[about.first].name),
        // Names and lines are here: nobody needs to look for them in a program.
        mappings: vec![Mapping {
            number: 1,
            has_functions: true,
            has_files: true,
            has_lines: true,
        }],
        began: i64::try_from(times.began.unwrap_or(0)).unwrap_or(i64::MAX),
        nanoseconds: times.took.map_or(0, nanoseconds),
        period_is: times.period.map(|_| Kind {
            name: text("wall"),
            unit: text("nanoseconds"),
        }),
        period: times.period.map_or(0, nanoseconds),
        comments: about.comment.iter().map(|comment| text(comment)).collect(),
        ..File::default()
    }
}

impl File {
    /// Adds the tables, whose numbers the samples name. What would be row 0 is none here, but for the empty text.
    fn add(&mut self, tables: Dictionary) {
        let functions = tables.functions.iter().enumerate().skip(1);
        let functions = functions.map(|(number, function)| Function {
            number: number as u64,
            name: function.name as i64,
            file: function.file as i64,
        });
        self.functions = functions.collect();
        let locations = tables.locations.iter().enumerate().skip(1);
        let locations = locations.map(|(number, location)| Location {
            number: number as u64,
            mapping: 1,
            lines: vec![Line {
                function: location.function as u64,
                line: location.line.into(),
            }],
        });
        self.locations = locations.collect();
        self.texts = tables.texts.into_iter().collect();
    }
}

/// `Profile` of the format.
#[derive(Clone, PartialEq, Message)]
struct File {
    #[prost(message, repeated, tag = "1")]
    kinds: Vec<Kind>,
    #[prost(message, repeated, tag = "2")]
    samples: Vec<Sample>,
    #[prost(message, repeated, tag = "3")]
    mappings: Vec<Mapping>,
    #[prost(message, repeated, tag = "4")]
    locations: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    functions: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    texts: Vec<String>,
    #[prost(int64, tag = "9")]
    began: i64,
    #[prost(int64, tag = "10")]
    nanoseconds: i64,
    #[prost(message, optional, tag = "11")]
    period_is: Option<Kind>,
    #[prost(int64, tag = "12")]
    period: i64,
    #[prost(int64, repeated, tag = "13")]
    comments: Vec<i64>,
    #[prost(int64, tag = "14")]
    shown: i64,
}

/// `ValueType` of the format.
#[derive(Clone, Copy, PartialEq, Message)]
struct Kind {
    #[prost(int64, tag = "1")]
    name: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    locations: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    values: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    labels: Vec<Label>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Label {
    #[prost(int64, tag = "1")]
    name: i64,
    #[prost(int64, tag = "2")]
    says: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Mapping {
    #[prost(uint64, tag = "1")]
    number: u64,
    #[prost(bool, tag = "7")]
    has_functions: bool,
    #[prost(bool, tag = "8")]
    has_files: bool,
    #[prost(bool, tag = "9")]
    has_lines: bool,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    number: u64,
    #[prost(uint64, tag = "2")]
    mapping: u64,
    #[prost(message, repeated, tag = "4")]
    lines: Vec<Line>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function: u64,
    #[prost(int64, tag = "2")]
    line: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    number: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    // Its name in a program's symbols is left out: readers take names that have one for those of C++, and `<main>` for a template.
    #[prost(int64, tag = "4")]
    file: i64,
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Read;

    use answer::place::Place;
    use flate2::read::GzDecoder;

    use super::super::form;
    use super::super::form::tests::{BYTES, Seen, bytes};
    use super::super::form::{Frame, SAMPLES, Stack};
    use super::*;

    /// Reads a profile again: of each stack its frames, outermost first, as `name file:line`, its values, and what its label says.
    pub fn read(bytes: &[u8]) -> Vec<(String, Vec<i64>, String)> {
        let mut plain = Vec::new();
        GzDecoder::new(bytes).read_to_end(&mut plain).unwrap();
        let file = File::decode(plain.as_slice()).unwrap();
        assert_eq!(file.texts[0], "");
        let text = |number: i64| file.texts[usize::try_from(number).unwrap()].as_str();
        let frame = |number: &u64| {
            let location = &file.locations[*number as usize - 1];
            assert_eq!(location.number, *number);
            let line = &location.lines[0];
            let function = &file.functions[line.function as usize - 1];
            assert_eq!(function.number, line.function);
            format!(
                "{} {}:{}",
                text(function.name),
                text(function.file),
                line.line
            )
        };
        let samples = file.samples.iter().map(|sample| {
            let frames: Vec<_> = sample.locations.iter().rev().map(frame).collect();
            let label = sample.labels.first().map_or("", |label| text(label.says));
            assert_eq!(sample.values.len(), file.kinds.len());
            (frames.join(";"), sample.values.clone(), label.to_owned())
        });
        samples.collect()
    }

    fn frame(name: &'static str, line: u32) -> Frame<'static> {
        Frame {
            text: format!("{name} (a.rb)").into(),
            place: Place::new("/srv/a.rb", line, name),
        }
    }

    #[test]
    fn what_is_written_is_read_and_the_same_each_time() {
        const KINDS: &[form::Kind] = &[SAMPLES[0], BYTES[0]];
        let seen = Seen::new(
            KINDS,
            vec![
                Stack {
                    frames: vec![frame("outer", 1), frame("inner", 3)],
                    weights: vec![2, 80],
                    ..Stack::default()
                },
                Stack {
                    frames: vec![frame("outer\u{1b}[31m", 1)],
                    kind: Some("String".into()),
                    weights: vec![1, 40],
                    is_rest: false,
                },
            ],
        );
        let written = bytes(&FORM, &seen);
        assert_eq!(written, bytes(&FORM, &seen));
        assert_eq!(
            read(&written),
            [
                (
                    "outer /srv/a.rb:1;inner /srv/a.rb:3".to_owned(),
                    vec![2, 80],
                    String::new()
                ),
                (
                    "outer\\x1b[31m /srv/a.rb:1".to_owned(),
                    vec![1, 40],
                    "String".to_owned()
                ),
            ]
        );
    }
}
