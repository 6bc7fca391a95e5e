//! Stacks with what was counted at them, as `pprof` reads them: a Protocol Buffers message
//! (`proto/profile.proto` of github.com/google/pprof, of which the fields below have their numbers), compressed by gzip.
//!
//! Texts, functions and locations are tables, and everything else names their rows by number. The same stacks make the same bytes.

use std::collections::HashMap;
use std::io::{self, Write};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;

use super::form::{Frame, Stack, StackForm, Stacks, Unit};
use crate::text::printable;

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
    let unit = |unit| match unit {
        Unit::Count => "count",
        Unit::Bytes => "bytes",
        Unit::Nanoseconds => "nanoseconds",
    };
    let kinds = about.kinds.iter();
    let kinds: Vec<_> = kinds.map(|kind| (kind.name, unit(kind.unit))).collect();
    let mut profile = Profile::new(&kinds, about.kinds[about.first].name);
    if let Some((began, time)) = about.time {
        profile.took(began, time);
    }
    if let Some(comment) = &about.comment {
        profile.comment(comment);
    }
    stacks.each(&mut |stack| {
        profile.add(stack);
        Ok(())
    })?;
    profile.write(out)
}

/// A profile that is being made.
struct Profile {
    file: File,
    /// The numbers of the rows that there are.
    texts: HashMap<String, i64>,
    functions: HashMap<(i64, i64), u64>,
    locations: HashMap<(u64, u32), u64>,
}

impl Profile {
    /// Begins a profile of which each stack has a value of each of these kinds, given as name and unit: `("samples", "count")`. `shown` is the
    /// name of the one that a reader shows unless it is told otherwise.
    fn new(kinds: &[(&str, &str)], shown: &str) -> Self {
        let mut profile = Self {
            file: File::default(),
            texts: HashMap::new(),
            functions: HashMap::new(),
            locations: HashMap::new(),
        };
        // The format wants the empty text in front.
        profile.text("");
        for (name, unit) in kinds {
            let kind = Kind {
                name: profile.text(name),
                unit: profile.text(unit),
            };
            profile.file.kinds.push(kind);
        }
        profile.file.shown = profile.text(shown);
        // Names and lines are here: nobody needs to look for them in a program.
        profile.file.mappings.push(Mapping {
            number: 1,
            has_functions: true,
            has_files: true,
            has_lines: true,
        });
        profile
    }

    /// Says when counting began, in nanoseconds since 1970, and for how long was counted.
    fn took(&mut self, began: u64, time: Duration) {
        self.file.began = i64::try_from(began).unwrap_or(i64::MAX);
        self.file.nanoseconds = i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
    }

    /// Adds a sentence for who reads the profile.
    fn comment(&mut self, text: &str) {
        let text = self.text(text);
        self.file.comments.push(text);
    }

    /// Adds a stack. Its type is no frame, but a label: what it says of this stack alone.
    fn add(&mut self, stack: &Stack) {
        // The format has the innermost frame first.
        let frames = stack.frames.iter().rev();
        let locations = frames.map(|frame| self.location(frame)).collect();
        let values = stack.weights.iter();
        let values = values.map(|value| i64::try_from(*value).unwrap_or(i64::MAX));
        let kind = stack.kind.iter();
        let sample = Sample {
            locations,
            values: values.collect(),
            labels: kind
                .map(|kind| Label {
                    name: self.text("type"),
                    says: self.text(kind),
                })
                .collect(),
        };
        self.file.samples.push(sample);
    }

    /// Writes the profile.
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        // Without a time and a name of its own, which gzip has room for.
        let mut packed = GzEncoder::new(out, Compression::default());
        packed.write_all(&self.file.encode_to_vec())?;
        packed.finish()?;
        Ok(())
    }

    /// Returns the number of a text, which a terminal will be shown.
    fn text(&mut self, text: &str) -> i64 {
        let text = printable(text);
        if let Some(number) = self.texts.get(text.as_ref()) {
            return *number;
        }
        let number = self.file.texts.len() as i64;
        self.file.texts.push(text.clone().into_owned());
        self.texts.insert(text.into_owned(), number);
        number
    }

    fn location(&mut self, frame: &Frame) -> u64 {
        let function = self.function(frame);
        let line = frame.place.line.unwrap_or(0);
        let next = self.locations.len() as u64 + 1;
        let number = *self.locations.entry((function, line)).or_insert(next);
        if number == next {
            self.file.locations.push(Location {
                number,
                mapping: 1,
                lines: vec![Line {
                    function,
                    line: line.into(),
                }],
            });
        }
        number
    }

    fn function(&mut self, frame: &Frame) -> u64 {
        let place = &frame.place;
        let name = place.qualified.as_ref().or(place.function.as_ref());
        let name = self.text(name.map_or("", |name| name));
        let file = self.text(place.path.as_deref().unwrap_or(""));
        let next = self.functions.len() as u64 + 1;
        let number = *self.functions.entry((name, file)).or_insert(next);
        if number == next {
            self.file.functions.push(Function { number, name, file });
        }
        number
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

    use super::super::form::Kind as Weighs;
    use super::super::form::SAMPLES;
    use super::super::form::tests::{BYTES, Seen, bytes};
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
        const KINDS: &[Weighs] = &[SAMPLES[0], BYTES[0]];
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
