//! A profile for the Firefox profiler (<https://profiler.firefox.com>), in its own "processed" format, version 70: `src/types/profile.ts` and
//! `docs-developer/CHANGELOG-formats.md` of github.com/firefox-devtools/profiler. Used by `stacks`.
//!
//! A table is an object of columns. Frames, functions, files and stacks are in `shared`; a stack is its innermost frame and how many rows before
//! it the stack of its caller stands (`prefixOffset`; 0: there is none). Each kind of weight is a thread, so that all of them are in one file.
//!
//! The format is one of moments in time, and what we have are sums. So stacks stand side by side, each as wide as its weight, and where a sample
//! stands in time says nothing else. A sample lasts until the next one, so that behind the last one there is one more, without a stack.

mod table;

use std::io::{self, Write};
use std::time::Duration;

use indexmap::IndexSet;
use serde::Serialize;
use serde_json::{Value, json};

use self::table::Table;
use super::dictionary::{Dictionary, Function, Location};
use super::form::{About, Frame, Stack, StackForm, Stacks, Unit};
use crate::text::printable;

/// For profiler.firefox.com.
pub(super) static FORM: StackForm = StackForm {
    name: "firefox",
    about: "For profiler.firefox.com",
    is_text: true,
    repeats: false,
    write,
};

/// The version of the format. A newer reader brings it up to its own.
const VERSION: u32 = 70;
/// That of the browser's own format, which readers want to know as well.
const OF_BROWSER: u32 = 36;
/// How wide all stacks are in time where it is not known for how long was counted, in milliseconds.
const WIDTH: f64 = 1000.0;
/// The process id of what is no process, or several.
const NO_PID: &str = "no single process";
/// Of the categories below, that of all frames.
const CODE: u32 = 1;

fn write(stacks: &dyn Stacks, out: &mut dyn Write) -> io::Result<()> {
    let about = stacks.about();
    let mut seen = Seen::default();
    stacks.each(&mut |stack| {
        if stack.weights.iter().any(|weight| *weight != 0) {
            seen.add(stack);
        }
        Ok(())
    })?;
    let kinds = 0..about.kinds.len();
    let file = File {
        meta: meta(&about),
        libs: [],
        shared: seen.shared(),
        threads: kinds.map(|kind| seen.thread(&about, kind)).collect(),
    };
    crate::json::line(out, &file)
}

/// Stacks as the format has them.
struct Seen {
    tables: Dictionary,
    /// Each with the number of its caller's, from 1, and the place of its innermost frame.
    stacks: IndexSet<(usize, usize)>,
    /// What was counted at which of them, a weight of each kind.
    counted: Vec<(Option<usize>, Vec<u64>)>,
}

impl Default for Seen {
    fn default() -> Self {
        Seen {
            tables: Dictionary::new(),
            stacks: IndexSet::new(),
            counted: Vec::new(),
        }
    }
}

impl Seen {
    fn add(&mut self, stack: &Stack<'_>) {
        let kind = stack.kind.as_deref().map(Frame::named);
        let mut caller = 0;
        for frame in stack.frames.iter().chain(&kind) {
            let place = self.tables.location(frame);
            caller = self.stacks.insert_full((caller, place)).0 + 1;
        }
        self.counted
            .push((caller.checked_sub(1), stack.weights.clone()));
    }

    /// The tables that all threads share. Row 0 of those of the dictionary is none.
    fn shared(&self) -> Shared<'_> {
        let Dictionary {
            texts,
            functions,
            locations,
        } = &self.tables;
        let files = functions.iter().map(|function| function.file);
        let files: IndexSet<usize> = files.filter(|file| *file != 0).collect();
        Shared {
            stack_table: stack_table(&self.stacks),
            frame_table: frame_table(locations),
            sources: sources(files.iter().copied().collect()),
            func_table: func_table(functions, files),
            resource_table: Table::empty(&["name", "host", "type"]),
            native_symbols: Table::empty(&["libIndex", "address", "name", "functionSize"]),
            source_location_table: Table::empty(&["source", "line", "column"]),
            string_array: texts.iter().map(String::as_str).collect(),
        }
    }

    /// What was counted of one kind.
    fn thread<'a>(&'a self, about: &'a About<'_>, kind: usize) -> Thread<'a> {
        let process = about.process;
        Thread {
            name: about.kinds[kind].name,
            is_main_thread: kind == about.first,
            process_type: "default",
            process_name: match process {
                Some(process) => printable(process.program()).into_owned(),
                None => printable(&about.title).into_owned(),
            },
            pid: match process {
                Some(process) => process.pid.to_string(),
                None => NO_PID.to_owned(),
            },
            // Both may be any text. It is no thread of the process.
            tid: about.kinds[kind].name,
            process_startup_time: 0,
            process_shutdown_time: None,
            register_time: 0,
            unregister_time: None,
            paused_ranges: [],
            samples: self.samples(about, kind),
            markers: Table::empty(&["data", "name", "startTime", "endTime", "phase", "category"]),
        }
    }

    /// The samples of one kind. What has no weight is none.
    fn samples(&self, about: &About<'_>, kind: usize) -> Samples<'_> {
        let unit = about.kinds[kind].unit;
        let weight = move |row: usize| self.counted[row].1[kind];
        let rows: Vec<usize> = (0..self.counted.len())
            .filter(|row| weight(*row) != 0)
            .collect();
        let all: f64 = rows.iter().map(|row| weight(*row) as f64).sum();
        let scale = width(about) / all.max(1.0);
        let mut before = 0.0;
        let times = rows.iter().map(|row| {
            let time = before * scale;
            before += weight(*row) as f64;
            time
        });
        let end = (!rows.is_empty()).then(|| width(about));
        let times: Vec<f64> = times.chain(end).collect();
        let length = times.len();
        let of_stack = rows.clone();
        let stack = move |row: usize| of_stack.get(row).and_then(|row| self.counted[*row].0);
        let weigh = move |row: usize| {
            let weight = rows.get(row).map_or(0, |row| weight(*row));
            match unit {
                Unit::Nanoseconds => json!(weight as f64 / 1e6),
                Unit::Count | Unit::Bytes => weight.into(),
            }
        };
        Samples {
            weight_type: match unit {
                Unit::Count => "samples",
                Unit::Bytes => "bytes",
                Unit::Nanoseconds => "tracing-ms",
            },
            table: Table::new(length)
                .column("stack", move |row| json!(stack(row)))
                .column("time", move |row| times[row].into())
                .column("weight", weigh),
        }
    }
}

/// For how long was counted, in milliseconds.
fn width(about: &About<'_>) -> f64 {
    let took = about.times.took.map(milliseconds);
    took.filter(|took| *took > 0.0).unwrap_or(WIDTH)
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// What the file is.
fn meta(about: &About<'_>) -> Value {
    // A reader shows neither of the two where it is 0.
    let began = about.times.began.unwrap_or(0);
    let interval = about.times.period.map_or(0.0, milliseconds);
    let said = about.comment.as_deref().unwrap_or(&about.title);
    json!({
        "version": OF_BROWSER,
        "preprocessedProfileVersion": VERSION,
        "product": "lancet",
        "processType": 0,
        "stackwalk": 1,
        "interval": interval,
        "startTime": began as f64 / 1e6,
        "profilingStartTime": 0,
        "profilingEndTime": width(about),
        "symbolicated": true,
        "usesOnlyOneStackType": true,
        "sourceCodeIsNotOnSearchfox": true,
        "keepProfileThreadOrder": true,
        "initialVisibleThreads": (0..about.kinds.len()).collect::<Vec<_>>(),
        "initialSelectedThreads": [about.first],
        "markerSchema": [],
        // A grey one must be there.
        "categories": [
            { "name": "Other", "color": "grey", "subcategories": ["Other"] },
            { "name": "Code", "color": "blue", "subcategories": ["Other"] },
        ],
        "extra": [{
            "label": "lancet",
            "entries": [{ "label": "About", "format": "string", "value": printable(said) }],
        }],
    })
}

fn stack_table(stacks: &IndexSet<(usize, usize)>) -> Table<'_> {
    let offset = move |row: usize| match stacks[row].0.checked_sub(1) {
        Some(caller) => row - caller,
        None => 0,
    };
    Table::new(stacks.len())
        .column("frame", move |row| (stacks[row].1 - 1).into())
        .column("prefixOffset", move |row| offset(row).into())
}

fn frame_table(locations: &IndexSet<Location>) -> Table<'_> {
    let line = move |row: usize| Some(locations[row + 1].line).filter(|line| *line != 0);
    Table::new(locations.len() - 1)
        .constant("address", -1)
        .constant("lib", -1)
        .constant("inlineDepth", 0)
        .constant("category", CODE)
        .constant("subcategory", 0)
        .column("func", move |row| (locations[row + 1].function - 1).into())
        .constant("nativeSymbol", Value::Null)
        .constant("innerWindowID", Value::Null)
        .column("line", move |row| json!(line(row)))
        .constant("column", Value::Null)
        .constant("originalLocation", Value::Null)
}

/// Functions, and the numbers of their files among these.
fn func_table(functions: &IndexSet<Function>, files: IndexSet<usize>) -> Table<'_> {
    Table::new(functions.len() - 1)
        .column("name", move |row| functions[row + 1].name.into())
        .constant("isJS", false)
        .constant("relevantForJS", false)
        .constant("resource", -1)
        .column("source", move |row| {
            json!(files.get_index_of(&functions[row + 1].file))
        })
        .constant("lineNumber", Value::Null)
        .constant("columnNumber", Value::Null)
        .constant("originalLocation", Value::Null)
}

/// Files, given as the numbers of their names.
fn sources(files: Vec<usize>) -> Table<'static> {
    Table::new(files.len())
        .constant("id", Value::Null)
        .column("filename", move |row| files[row].into())
        .constant("startLine", 1)
        .constant("startColumn", 1)
        .constant("sourceMapURL", Value::Null)
        .constant("content", Value::Null)
}

/// `Profile` of the format.
#[derive(Serialize)]
struct File<'a> {
    meta: Value,
    libs: [(); 0],
    shared: Shared<'a>,
    threads: Vec<Thread<'a>>,
}

/// `RawProfileSharedData` of the format.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shared<'a> {
    stack_table: Table<'a>,
    frame_table: Table<'a>,
    func_table: Table<'a>,
    resource_table: Table<'a>,
    native_symbols: Table<'a>,
    sources: Table<'a>,
    source_location_table: Table<'a>,
    string_array: Vec<&'a str>,
}

/// `RawThread` of the format.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Thread<'a> {
    name: &'a str,
    is_main_thread: bool,
    process_type: &'a str,
    process_name: String,
    pid: String,
    tid: &'a str,
    process_startup_time: u32,
    process_shutdown_time: Option<u32>,
    register_time: u32,
    unregister_time: Option<u32>,
    paused_ranges: [(); 0],
    samples: Samples<'a>,
    markers: Table<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Samples<'a> {
    weight_type: &'a str,
    #[serde(flatten)]
    table: Table<'a>,
}

#[cfg(test)]
pub(super) mod tests {
    use answer::place::Place;

    use super::super::form::tests::{BYTES, Seen, shown, stack};
    use super::super::form::{Kind, SAMPLES};
    use super::*;

    /// Reads a profile again, of which each table must be whole: of each thread its name, what it weighs, and its stacks with their weights, as
    /// `name file:line`, outermost first.
    pub fn read(text: &str) -> Vec<(String, Vec<(String, f64)>)> {
        let file: Value = serde_json::from_str(text).expect("JSON");
        let shared = &file["shared"];
        for (name, table) in shared.as_object().unwrap() {
            if name != "stringArray" {
                is_whole(table);
            }
        }
        let frame = |number: &Value| {
            let (frames, functions) = (&shared["frameTable"], &shared["funcTable"]);
            let number = at(number);
            let function = at(&frames["func"][number]);
            let text = |number: &Value| shared["stringArray"][at(number)].as_str().unwrap();
            let source = &functions["source"][function];
            let file = match source.is_null() {
                true => "",
                false => text(&shared["sources"]["filename"][at(source)]),
            };
            let line = frames["line"][number].as_u64().unwrap_or(0);
            format!("{} {file}:{line}", text(&functions["name"][function]))
        };
        let path = |stack: &Value| {
            let mut frames = Vec::new();
            let mut stack = stack.as_u64().map(|stack| stack as usize);
            while let Some(row) = stack {
                frames.push(frame(&shared["stackTable"]["frame"][row]));
                let offset = at(&shared["stackTable"]["prefixOffset"][row]);
                stack = (offset != 0).then(|| row - offset);
            }
            frames.reverse();
            frames.join(";")
        };
        let threads = file["threads"].as_array().unwrap().iter();
        let threads = threads.map(|thread| {
            let samples = &thread["samples"];
            let mut whole = samples.clone();
            whole.as_object_mut().unwrap().remove("weightType");
            is_whole(&whole);
            let times = samples["time"].as_array().unwrap();
            assert!(times.is_sorted_by_key(|time| time.as_f64()), "{times:?}");
            let stacks = samples["stack"].as_array().unwrap().iter();
            let [began, ended] =
                ["profilingStartTime", "profilingEndTime"].map(|it| &file["meta"][it]);
            assert_eq!(began, 0);
            // Behind the last one is one that is nothing, where the profile ends.
            if let Some(last) = times.last() {
                assert_eq!(last.as_f64(), ended.as_f64());
                let last = ["stack", "weight"].map(|it| samples[it][times.len() - 1].as_f64());
                assert_eq!(last, [None, Some(0.0)]);
            }
            let stacks = stacks.take(times.len().saturating_sub(1)).map(path);
            let weights = samples["weight"].as_array().unwrap().iter();
            let weights = weights.map(|weight| weight.as_f64().unwrap());
            let [name, kind] = [&thread["name"], &samples["weightType"]].map(|it| it.as_str());
            let name = format!("{}: {}", name.unwrap(), kind.unwrap());
            (name, stacks.zip(weights).collect())
        });
        threads.collect()
    }

    fn at(number: &Value) -> usize {
        number.as_u64().expect("a number of a row") as usize
    }

    fn is_whole(table: &Value) {
        for (name, column) in table.as_object().unwrap() {
            if name != "length" {
                assert_eq!(
                    column.as_array().map(Vec::len),
                    Some(at(&table["length"])),
                    "{name}"
                );
            }
        }
    }

    #[test]
    fn stacks_are_read_again_with_all_their_weights() {
        const KINDS: &[Kind] = &[
            SAMPLES[0],
            BYTES[0],
            Kind {
                name: "time",
                unit: Unit::Nanoseconds,
            },
        ];
        let frame = |line| Frame {
            text: "unused".into(),
            place: Place::new("/srv/a.rb", line, "fill"),
        };
        let mut made = Stack {
            frames: vec![frame(3), frame(5)],
            kind: Some("String".into()),
            weights: vec![2, 80, 1_500_000],
            ..Stack::default()
        };
        let first = made.clone();
        made.kind = Some("Hash".into());
        made.weights = vec![1, 0, 0];
        let seen = Seen::new(KINDS, vec![first, made, stack("a\u{1b}[2J", &[0, 7, 0])]);
        let text = shown(&FORM, &seen);
        assert_eq!(text, shown(&FORM, &seen));
        let string = "fill /srv/a.rb:3;fill /srv/a.rb:5;String :0".to_owned();
        let hash = string.replace("String", "Hash");
        let expected = [
            ("samples: samples", vec![(string.clone(), 2.0), (hash, 1.0)]),
            (
                "space: bytes",
                vec![(string.clone(), 80.0), ("a\\x1b[2J :0".to_owned(), 7.0)],
            ),
            ("time: tracing-ms", vec![(string, 1.5)]),
        ];
        assert_eq!(
            read(&text),
            expected.map(|(name, stacks)| (name.to_owned(), stacks))
        );
        let file: Value = serde_json::from_str(&text).unwrap();
        // What two stacks have in common is there once: fill, fill, and a type each.
        assert_eq!(file["shared"]["stackTable"]["length"], 5);
        assert_eq!(file["shared"]["funcTable"]["length"], 4);
        assert_eq!(file["meta"]["initialSelectedThreads"], json!([0]));
    }

    /// All are as wide as the time for which was counted.
    #[test]
    fn samples_stand_side_by_side() {
        let seen = Seen::new(
            SAMPLES,
            vec![stack("a", &[1]), stack("b", &[2]), stack("c", &[1])],
        );
        let file: Value = serde_json::from_str(&shown(&FORM, &seen)).unwrap();
        assert_eq!(
            file["threads"][0]["samples"]["time"],
            json!([0.0, 250.0, 750.0, 1000.0])
        );
        let meta = &file["meta"];
        assert_eq!(meta["interval"], json!(250.0));
        assert_eq!(meta["profilingEndTime"], json!(1000.0));
    }

    /// A reader that asks the threads for their times finds none in those.
    #[test]
    fn nothing_that_was_seen_has_a_time_as_well() {
        let text = shown(&FORM, &Seen::new(BYTES, vec![stack("a", &[0])]));
        assert_eq!(read(&text), [("space: bytes".to_owned(), Vec::new())]);
        let file: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(file["meta"]["profilingEndTime"], json!(1000.0));
        assert_eq!(file["shared"]["stackTable"]["length"], 0);
    }

    #[test]
    fn no_process_has_a_number_that_none_has() {
        let file = shown(&FORM, &Seen::new(BYTES, Vec::new()));
        let file: Value = serde_json::from_str(&file).unwrap();
        let thread = &file["threads"][0];
        let said = ["pid", "tid", "processName"].map(|it| thread[it].as_str().unwrap());
        assert_eq!(said, [NO_PID, "space", "t & u"]);
    }
}
